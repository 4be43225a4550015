"""Make, with CASA itself, the small measurement set that the readers are tested on, and CASA's exports of it.

Run with a Python that has casatasks and casadata (pip install casatasks casadata, Python 3.11):

    python benchmarks/casa/make_set.py

It writes imaging/tests/casa.tar.xz: a set of ten antennas, two executions, two windows of 4 and 2 channels, and
two fields, whose phase centres are ICRS and J2000; what exportuvfits and casa_export.py make of its field ``disk``, and
what exportuvfits makes of it once it has a WEIGHT_SPECTRUM. The data are of two points, as in
imaging/tests/data/test_ms.py, with noise as large as the weights say.
"""

import contextlib
import runpy
import shutil
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from casatasks import exportuvfits, initweights
from casatools import componentlist, measures, simulator, table

ROOT = Path(__file__).resolve().parents[2]
EXPORT = ROOT / "docs/_snippets/casa_export.py"
ARCHIVE = ROOT / "imaging/tests/casa.tar.xz"
FIELDS = {"disk": ("ICRS", "246.5deg", "-24.5deg"), "quasar": ("J2000", "277.5deg", "+12.25deg")}
SKY = [(0.5, 1.0, 0.3), (0.1, -0.4, 0.9)]  # Jy, arcsec to the east and north, from each field's centre
ANTENNAS = [(0, 0), (110, 40), (-70, 190), (250, -160), (-310, 90), (60, 420), (-180, -390), (470, 230), (-520, -60)]
ANTENNAS.append((330, -510))  # metres to the east and north


def observe(name: str) -> None:
    """Simulate the set without noise: CASA computes baselines and phases."""
    me, sm = measures(), simulator()
    east, north = np.array(ANTENNAS, float).T
    sm.open(name)
    sm.setconfig(
        telescopename="ALMA", x=east, y=north, z=0 * east, dishdiameter=np.full(10, 12.0), mount=["alt-az"],
        antname=[f"A{i:02d}" for i in range(10)], coordsystem="local", referencelocation=me.observatory("ALMA"),
    )  # fmt: skip
    for window, (start, width, n) in enumerate([("230GHz", "50MHz", 4), ("245GHz", "-1GHz", 2)]):
        sm.setspwindow(f"w{window}", freq=start, deltafreq=width, freqresolution=width.strip("-"), nchannels=n,
                       stokes="XX YY")  # fmt: skip
    sm.setfeed("perfect X Y")
    sm.setlimits(shadowlimit=0.001, elevationlimit="1deg")
    sm.setauto(0.0)
    for field, (frame, ra, dec) in FIELDS.items():
        centre = me.direction(frame, ra, dec)
        sm.setfield(field, centre)
        sky = componentlist()
        cosine = np.cos(centre["m1"]["value"])
        for flux, right, up in SKY:
            place = me.direction(frame, *(
                {"unit": "rad", "value": centre[part]["value"] + np.radians(offset / 3600)}
                for part, offset in (("m0", right / cosine), ("m1", up))
            ))  # fmt: skip
            sky.addcomponent(flux=[flux, 0, 0, 0], fluxunit="Jy", dir=place, shape="point")
        sky.rename(f"{field}.cl")
        sky.close()
    for day in ("2024/06/01/00:30:00", "2024/06/03/11:00:00"):
        sm.settimes("30s", usehourangle=False, referencetime=me.epoch("UTC", day))
        for window in ("w0", "w1"):
            for i, field in enumerate(FIELDS):
                sm.observe(field, window, starttime=f"{120 * i}s", stoptime=f"{120 * i + 90}s")
    for i, field in enumerate(FIELDS):
        sm.setdata(spwid=[0, 1], fieldid=i)
        sm.predict(complist=f"{field}.cl")
    sm.close()


def opened(name: str) -> table:
    """Open a table to be written."""
    tb = table()
    tb.open(name, nomodify=False)
    return tb


def add_noise(name: str, output: str, rng: np.random.Generator) -> None:
    """Make the data of the model, noise and flags, and give hands and rows different weights."""
    main = opened(name)
    late = main.getcol("TIME") > main.getcol("TIME").mean()
    main.putcol("OBSERVATION_ID", late.astype("i4"))
    for window in (0, 1):
        rows = main.query(f"DATA_DESC_ID=={window}")
        model = rows.getcol("DATA")
        weight = rng.uniform(200, 800, (2, 1, model.shape[2])).astype("f4").astype(float)
        noise = rng.normal(size=(2, *model.shape)) / np.sqrt(weight)
        flag = rng.random(model.shape) < 0.02
        flag[..., (rows.getcol("ANTENNA1") == 7) & (rows.getcol("SCAN_NUMBER") == 1)] = True
        data = model + noise[0] + 1j * noise[1]
        data[flag & (rng.random(model.shape) < 0.1)] = np.nan
        for column, values in (
            ("DATA", data),
            ("FLAG", flag),
            ("WEIGHT", weight[:, 0]),
            ("SIGMA", weight[:, 0] ** -0.5),
        ):
            rows.putcol(column, values)
        rows.putcol("FLAG_ROW", rng.random(model.shape[2]) < 0.01)
        rows.close()
    main.removecols(["MODEL_DATA", "CORRECTED_DATA"])
    kept = main.query("FIELD_ID==0 || DATA_DESC_ID==0 || ANTENNA1!=2")  # the quasar's windows have other rows
    kept.copy(output, deep=True).close()
    kept.close()
    main.close()
    observation = opened(f"{output}/OBSERVATION")
    observation.copyrows(f"{output}/OBSERVATION", nrow=1)
    observation.close()


def name_frames(name: str) -> None:
    """Give each field its own frame, as sets of ALMA have them."""
    me, fields = measures(), opened(f"{name}/FIELD")
    frames = {"J2000": 0, "ICRS": 5}
    for column in ("DELAY", "PHASE", "REFERENCE"):
        description = {"valueType": "int", "option": 0, "maxlen": 0, "comment": "", "dataManagerType": ""}
        fields.addcols({f"{column.title()}Dir_Ref": description | {"dataManagerGroup": ""}})
        info = {"type": "direction", "VarRefCol": f"{column.title()}Dir_Ref"}
        info |= {"TabRefTypes": np.array(list(frames)), "TabRefCodes": np.array(list(frames.values()))}
        for i, (frame, ra, dec) in enumerate(FIELDS.values()):
            place = me.direction(frame, ra, dec)
            fields.putcell(f"{column}_DIR", i, np.array([[place["m0"]["value"]], [place["m1"]["value"]]]))
            fields.putcell(f"{column.title()}Dir_Ref", i, frames[frame])
        fields.putcolkeyword(f"{column}_DIR", "MEASINFO", info)
    fields.close()


def export(name: str) -> None:
    """Write what CASA and our script make of the set."""
    export_npz = runpy.run_path(str(EXPORT))["export_npz"]
    export_npz(name, "disk.npz")
    how = {"vis": name, "datacolumn": "data", "multisource": False, "padwithflags": True}
    for window in "01":
        exportuvfits(fitsfile=f"disk.{window}.uvfits", field="disk", spw=window, **how)
    exportuvfits(fitsfile="quasar.0.uvfits", field="quasar", spw="0", **how)
    shutil.copytree(name, "spectrum.ms")
    initweights("spectrum.ms", wtmode="weight", dowtsp=True)
    exportuvfits(fitsfile="spectrum.0.uvfits", field="disk", spw="0", **how | {"vis": "spectrum.ms"})


if __name__ == "__main__":
    made = (
        "small.ms",
        "disk.0.npz",
        "disk.1.npz",
        "disk.0.uvfits",
        "disk.1.uvfits",
        "quasar.0.uvfits",
        "spectrum.0.uvfits",
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        observe("clean.ms")
        add_noise("clean.ms", "small.ms", np.random.default_rng(24))
        name_frames("small.ms")
        export("small.ms")
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            for name in made:
                archive.add(name)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes")
