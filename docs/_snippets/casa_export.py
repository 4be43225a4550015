"""In CASA 6, export_npz("my.ms", "my.npz", field=0) writes my.0.npz, my.1.npz, …: a file for each spectral window.

They keep antennas, times, flags and the phase centre. Windows of the same rows become one by
read_visibilities(["my.0.npz", "my.1.npz"]).
"""

import numpy as np
from casatools import measures, msmetadata, table


def export_npz(ms, npz, field=0, column=None):  # without a column, CORRECTED_DATA where the set has it, or DATA
    """Write the total intensity of one field, a file for each DATA_DESC_ID, and return their names."""
    metadata, main, description, polarization = msmetadata(), table(), table(), table()
    written = []
    try:
        metadata.open(ms)
        names = metadata.fieldnames()
        if field not in range(len(names)):
            fields = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
            raise ValueError(f"{ms} has no field {field!r}; give the number of one of its fields: {fields}")
        direction = measures().measure(metadata.phasecenter(field), "ICRS")
        centre = np.degrees([direction[part]["value"] for part in ("m0", "m1")])
        centre[0] %= 360
        for tb, part in ((main, ""), (description, "/DATA_DESCRIPTION"), (polarization, "/POLARIZATION")):
            tb.open(ms + part)
        columns = main.colnames()
        column = column or ("CORRECTED_DATA" if "CORRECTED_DATA" in columns else "DATA")
        if column not in columns:
            held = ", ".join(name for name in columns if name.endswith("DATA"))
            raise ValueError(f"{ms} has no column {column}; it has {held}")
        for ddid in range(description.nrows()):
            codes = polarization.getcell("CORR_TYPE", int(description.getcell("POLARIZATION_ID", ddid)))
            hands = np.isin(codes, (1, 5, 8, 9, 12))  # I, RR, LL, XX, YY
            chosen = f"DATA_DESC_ID=={ddid} && FIELD_ID=={field} && ANTENNA1!=ANTENNA2"
            rows = main.query(chosen, sortlist="TIME, ANTENNA1, ANTENNA2")
            if rows.nrows() and hands.any():
                frequency = metadata.chanfreqs(int(description.getcell("SPECTRAL_WINDOW_ID", ddid)))  # Hz
                each = "WEIGHT_SPECTRUM" in columns and rows.iscelldefined("WEIGHT_SPECTRUM", 0)
                weight = rows.getcol("WEIGHT_SPECTRUM")[hands] if each else rows.getcol("WEIGHT")[hands][:, None]
                data = rows.getcol(column)[hands]
                good = ~rows.getcol("FLAG")[hands] & ~rows.getcol("FLAG_ROW") & np.isfinite(data) & (weight > 0)
                weight, data = np.where(good, weight, 0), np.where(good, data, 0)
                total = weight.sum(0)
                data = (weight * data).sum(0) / np.where(total > 0, total, 1)
                # CASA's u, v are of the second antenna to the first, its phases of exp(+2 pi i (ul + vm)); ours are of
                # the first to the second and of exp(-2 pi i (ul + vm)): u, v change sign, and the data stay.
                metres = -rows.getcol("UVW")
                u, v, _ = np.multiply.outer(metres, frequency / 299792458.0).swapaxes(1, 2)  # wavelengths
                start = metadata.timesforfield(field).min()
                written.append(f"{npz.removesuffix('.npz')}.{ddid}.npz")
                content = {"uu": u, "vv": v, "data": data, "weight": total, "flag": total == 0}
                content |= {"frequencies": frequency, "execution": rows.getcol("OBSERVATION_ID")}
                content |= {"antennas": np.stack([rows.getcol("ANTENNA1"), rows.getcol("ANTENNA2")], axis=1)}
                content |= {"time": rows.getcol("TIME") - start, "start": start, "phase_centre": centre}
                content |= {"antenna_names": metadata.antennanames()}
                np.savez(written[-1], **content, telescope=metadata.observatorynames()[0], target=names[field])
            rows.close()
    finally:
        for tool in (main, description, polarization, metadata):
            tool.close()
    if not written:
        raise ValueError(f"{ms} has no rows of field {field} with XX, YY, RR, LL or I")
    return written
