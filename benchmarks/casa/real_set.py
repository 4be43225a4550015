"""CLEAN one window of a real measurement set with CASA's tclean, for the page of one's own data.

The set is ALMA's of HD 142527, from the tests of gpuvmem at the commit that the page takes:

    git clone https://github.com/miguelcarcamov/gpuvmem && git -C gpuvmem checkout b860b94

With CASA installed as clean.py says, and with SET for gpuvmem/tests/selfcalband9/hd142_b9cont_self_tav.ms,

    OMP_NUM_THREADS=1 python benchmarks/casa/real_set.py SET src/firstlight/lessons

writes hd142527_by_tclean.npz: the model with a mask drawn by hand, to 1.5σ, and those with a mask of tclean's own, to
3σ, by its defaults and with the numbers that NRAO's automasking guide has for baselines as short as these; of the
first, the map and the residuals; and as a JSON text how they were made.
"""

import json
import math
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from casatasks import casalog, tclean
from casatools import image

CIRCLE = {"east": -0.3, "north": -0.35, "radius": 2.2}  # drawn about what the dirty image shows, in arcsec
CELL, NPIX = 0.1, 80
HOW = {"field": "0", "spw": "0", "specmode": "mfs", "imsize": NPIX, "cell": f"{CELL}arcsec"}
HOW |= {"deconvolver": "multiscale", "scales": [0, 4, 12], "weighting": "briggs", "robust": 0.5}
HOW |= {"niter": 100_000, "datacolumn": "data", "pblimit": -0.1}
BY_HAND, DEFAULTS = {"usemask": "user", "nsigma": 1.5}, {"usemask": "auto-multithresh", "nsigma": 3.0}
ADVISED = DEFAULTS | {"sidelobethreshold": 2.0, "noisethreshold": 4.25, "lownoisethreshold": 1.5, "minbeamfrac": 0.3}
SHADES = 20  # maps are kept as whole numbers, so many for the rms of the residuals


def region():
    """Name the circle as tclean wants it, in pixels."""
    column, row = NPIX // 2 - CIRCLE["east"] / CELL, NPIX // 2 + CIRCLE["north"] / CELL
    return f"circle[[{column:g}pix,{row:g}pix],{CIRCLE['radius'] / CELL:g}pix]"


def circle():
    """Mark the pixels in the circle."""
    axis = CELL * (np.arange(NPIX) - NPIX // 2)
    return np.hypot(*np.meshgrid(-axis - CIRCLE["east"], axis - CIRCLE["north"])) < CIRCLE["radius"]


def plane(name):
    """Read an image of CASA: its pixels, row 0 in the south, and its beam."""
    ia = image()
    ia.open(name)
    pixels, beam = ia.getchunk()[:, :, 0, 0].T, ia.restoringbeam()
    ia.close()
    return pixels, [beam[part]["value"] for part in ("major", "minor", "positionangle")] if beam else None


def clean(vis, name, how):
    """Run tclean: give its map, residuals and model, and what is to be said of them."""
    start = time.perf_counter()
    said = tclean(vis=str(vis), imagename=name, **HOW, **how)
    (restored, beam), (left, _), (model, _) = (plane(f"{name}.{kind}") for kind in ("image", "residual", "model"))
    area, rms = math.pi / (4 * math.log(2)) * beam[0] * beam[1] / CELL**2, float(left.std())
    about = {
        "tclean": HOW | how,
        "beam": beam,
        "peak": float(restored.max()),
        "rms": rms,
        "flux": float(restored[circle()].sum() / area),
        "flux_of_model": float(model.sum()),
        "iterations": int(said["iterdone"]),
        "stopped": said["stopDescription"],
        "wall_s": time.perf_counter() - start,
    }
    print(json.dumps(about, indent=1), flush=True)
    # CASA's centre is a column west of First Light's.
    restored, left, model = (np.roll(pixels, -1, axis=1) for pixels in (restored, left, model))
    kept = {what: np.round(pixels * SHADES / rms).astype("i2") for what, pixels in (("map", restored), ("left", left))}
    return kept, model.astype("f4"), about


def main(vis, out):
    """Write the file."""
    casalog.filter("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        maps, model, by_hand = clean(vis, f"{folder}/by_hand", BY_HAND | {"mask": region()})
        runs, maps["by_hand"] = {"by_hand": by_hand}, model
        for name, how in (("defaults", DEFAULTS), ("advised", ADVISED)):
            _, maps[name], runs[name] = clean(vis, f"{folder}/{name}", how)
    about = runs | {"circle": CIRCLE, "shades": SHADES, "date": time.strftime("%Y-%m-%d")}
    about |= {"versions": {name: version(name) for name in ("casatools", "casatasks")}}
    np.savez_compressed(Path(out) / "hd142527_by_tclean.npz", about=json.dumps(about), **maps)


if __name__ == "__main__":
    main(*sys.argv[1:])
