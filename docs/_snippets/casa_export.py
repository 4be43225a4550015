"""In CASA 6: export_npz("my.ms", "my.npz")."""

import numpy as np
from casatools import table


def export_npz(ms, npz, ddid=0, field=0, column="DATA"):  # or column="CORRECTED_DATA"
    """Write what one DATA_DESC_ID, a spectral window and its polarizations, saw of one field."""
    tables = {part: table() for part in ("", "/DATA_DESCRIPTION", "/POLARIZATION", "/SPECTRAL_WINDOW")}
    for part, tb in tables.items():
        tb.open(ms + part)
    main, description, polarization, window = tables.values()
    frequency = window.getcell("CHAN_FREQ", int(description.getcell("SPECTRAL_WINDOW_ID", ddid)))  # Hz
    codes = polarization.getcell("CORR_TYPE", int(description.getcell("POLARIZATION_ID", ddid)))
    hands = np.isin(codes, (1, 5, 8, 9, 12))  # I, RR, LL, XX, YY
    rows = main.query(f"DATA_DESC_ID=={ddid} && FIELD_ID=={field} && ANTENNA1!=ANTENNA2")
    flag = rows.getcol("FLAG") | rows.getcol("FLAG_ROW")  # of each hand, channel and row
    each = "WEIGHT_SPECTRUM" in rows.colnames() and rows.iscelldefined("WEIGHT_SPECTRUM", 0)
    weight = rows.getcol("WEIGHT_SPECTRUM") if each else rows.getcol("WEIGHT")[:, None]
    weight, data = np.where(flag, 0, weight)[hands], np.where(flag, 0, rows.getcol(column))[hands]
    total = weight.sum(0)  # CASA's phases are of exp(+2 pi i (ul + vm)), ours of exp(-2 pi i (ul + vm)): hence conj
    data = np.conj(weight * data).sum(0) / np.where(total > 0, total, 1)
    u, v, _ = np.multiply.outer(rows.getcol("UVW"), frequency / 299792458.0).swapaxes(1, 2)  # metres to wavelengths
    np.savez(npz, uu=u, vv=v, data=data, weight=total, flag=total == 0, frequencies=frequency)
    _ = [tb.close() for tb in (rows, *tables.values())]
