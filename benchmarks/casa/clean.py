"""CLEAN the simulated sets with CASA's tclean, as a careful user would, and keep what the page shows of it.

In a virtual environment of its own: pip install casatools casatasks casadata scipy. CASA looks for its tables where
~/.casa/config.py says: measurespath and datapath (a list) are to name the folder __data__ of casadata, and
measures_auto_update and data_auto_update are to be False. Then

    OMP_NUM_THREADS=1 python benchmarks/casa/clean.py docs/_snippets

writes clean_by_casa.json, the numbers of each run, and clean_by_casa.npz, the images of the first seed.
"""

import json
import math
import os
import platform
import resource
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from casatasks import casalog, tclean
from casatools import image
from simulate import CELL, HERE, HERTZ, LIGHT_SPEED, NOISE, NPIX, SEEDS, simulate, sky

ROBUST, DEPTHS = (0.5, -0.5), (3.0, 2.0, 1.0)  # of Briggs; in units of the noise
MASK = ((0.4, -0.5, 1.25), (-1.3, 1.2, 0.5))  # circles drawn about what the dirty image shows: east, north, radius
SHADES = 10  # of the noise: images are kept to a tenth of it
HOW = {"specmode": "mfs", "deconvolver": "multiscale", "scales": [0, 5, 15], "weighting": "briggs", "niter": 200_000}
HOW |= {"imsize": NPIX, "cell": f"{CELL}arcsec", "datacolumn": "data", "usemask": "user", "pblimit": -0.1}


def regions():
    """Name the circles of the mask as tclean wants them, in pixels."""
    half = NPIX // 2
    return [f"circle[[{half - x / CELL}pix,{half + y / CELL}pix],{radius / CELL}pix]" for x, y, radius in MASK]


def masked():
    """Mark the pixels within the circles."""
    axis = CELL * (np.arange(NPIX) - NPIX // 2)
    x, y = np.meshgrid(-axis, axis)
    return np.any([np.hypot(x - east, y - north) <= radius for east, north, radius in MASK], axis=0)


def cpu_seconds():
    """Return what this process has used, all its threads together."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def plane(name):
    """Read an image of CASA: its pixels, row 0 in the south, and its beam."""
    ia = image()
    ia.open(name)
    pixels, beam = ia.getchunk()[:, :, 0, 0].T, ia.restoringbeam()
    ia.close()
    return pixels, [beam[part]["value"] for part in ("major", "minor", "positionangle")] if beam else None


def off(shown, truth):
    """Return the error of an image, relative to the truth, over the whole field."""
    return float(np.linalg.norm(shown - truth) / np.linalg.norm(truth))


def clean(vis, name, robust, depth):
    """Run tclean once, from the set to the image."""
    start, used = time.perf_counter(), cpu_seconds()
    said = tclean(vis=vis, imagename=name, robust=robust, nsigma=depth, mask=regions(), **HOW)
    return {
        "wall_s": round(time.perf_counter() - start, 2),
        "cpu_s": round(cpu_seconds() - used, 2),
        "iterations": int(said["iterdone"]),
        "major_cycles": int(said["nmajordone"]),
        "stopped": said["stopDescription"],
    }


def judged(name):
    """Hold what tclean made against the true sky at the same beam."""
    shown, beam = plane(f"{name}.image")
    left, model = plane(f"{name}.residual")[0], plane(f"{name}.model")[0]
    area, inside = math.pi / (4 * math.log(2)) * beam[0] * beam[1] / CELL**2, masked()
    truth = sky(beam)
    row = {
        "beam": beam,
        "error": off(shown, truth),
        "error_without_residuals": off(shown - left, truth),
        "error_of_model": off(model / CELL**2, sky()),
        "flux": float(shown[inside].sum() / area),
        "flux_without_residuals": float(model.sum()),
        "noise": float(left[~inside].std()),
        "residual_inside": float(left[inside].std()),
        "peak": float(shown.max()),
    }
    return row, shown - left, left


def small(pixels, noise):
    """Round to a fraction of the noise; CASA's centre is a column west of First Light's."""
    return np.round(np.roll(pixels, -1, axis=1) * SHADES / noise).astype(np.int16)


def every(folder):
    """CLEAN each seed with each weighting to each depth: give the rows, and the images of the first seed's deepest."""
    rows, images = [], {}
    for seed in SEEDS:
        for robust in ROBUST:
            for depth in DEPTHS:
                name = f"{folder}/s{seed}r{robust}d{depth}"
                told = clean(f"{folder}/seed{seed}.ms", name, robust, depth)
                row, model, left = judged(name)
                rows.append({"seed": seed, "robust": robust, "depth": depth} | row | told)
                print(
                    seed, robust, depth, f"{row['error_without_residuals']:.3f}", f"{told['cpu_s']:.1f} s", flush=True
                )
                if (seed, depth) == (SEEDS[0], DEPTHS[-1]):
                    images |= {f"model{robust}": small(model, row["noise"]), f"left{robust}": small(left, row["noise"])}
    return rows, images


def main(out):
    """Write both files."""
    casalog.filter("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        places, witness = simulate(folder)
        rows, images = every(folder)
    about = {
        "versions": {name: version(name) for name in ("casatools", "casatasks", "casadata", "numpy")},
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
        "threads": int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))),
        "sky": json.loads((HERE / "sky.json").read_text())["rings"],
        "seeds": SEEDS,
        "noise": NOISE,
        "cell": CELL,
        "npix": NPIX,
        "mask": MASK,
        "shades": SHADES,
        "tclean": HOW,
        "casa_predicts_otherwise_by": witness,
        "runs": rows,
    }
    brief = json.loads(json.dumps(about), parse_float=lambda digits: float(f"{float(digits):.6g}"))
    (out / "clean_by_casa.json").write_text(json.dumps(brief, indent=1) + "\n")
    np.savez_compressed(out / "clean_by_casa.npz", uv=places * HERTZ / LIGHT_SPEED, **images)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
