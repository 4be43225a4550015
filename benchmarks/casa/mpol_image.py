"""Image the same visibilities with MPoL 0.3.1, as its tutorials do, and keep how far it is off.

    OMP_NUM_THREADS=1 python benchmarks/casa/mpol_image.py docs/_snippets

reads what clean.py wrote into that folder, and writes image_by_mpol.json: the errors at CLEAN's two beams, the flux and
the seconds of each seed. Averages in cells, light everywhere, total variation of the strength that the page takes, and
Adam until the loss no longer falls.
"""

import json
import resource
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from imaging import PEER, fetch_peers

from firstlight_imaging import Beam, DirtyImager, ExactLikelihood, GridCoords, Ring, convolve
from firstlight_imaging.simulate.skies import sky_image, sky_visibilities

RATE, AT_ONCE, MOST, SETTLED = 0.1, 100, 6000, 1e-5  # a loss that falls by less in a hundred steps is settled


def cpu_seconds():
    """Return what this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def fitted(u, v, data, weight, cell_size, npix, strength):
    """Fit with MPoL alone: the image in Jy/arcsec² and sky order, and after how many steps."""
    from mpol import coordinates, gridding, losses, precomposed

    coords = coordinates.GridCoords(cell_size=cell_size, npix=npix)
    averager = gridding.DataAverager(coords=coords, uu=u, vv=v, weight=weight, data_re=data.real, data_im=data.imag)
    dataset, model = averager.to_pytorch_dataset(), precomposed.GriddedNet(coords=coords, nchan=1)
    strength *= 2 * u.size / int(dataset.mask.sum())  # its chi² is divided by cells, each with its mirror image
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    before = np.inf
    for step in range(1, MOST + 1):
        optimizer.zero_grad()
        chi2 = losses.r_chi_squared_gridded(model(), dataset)
        loss = chi2 + strength * losses.TV_image(model.icube.sky_cube)
        loss.backward()
        optimizer.step()
        if step % AT_ONCE == 0:
            if before - loss.item() < SETTLED * loss.item():
                break
            before = loss.item()
    return model.icube.sky_cube[0].detach().double().numpy(), step


def main(folder):
    """Fit each seed."""
    fetch_peers()
    record = json.loads((folder / "clean_by_casa.json").read_text())
    with np.load(folder / "clean_by_casa.npz") as file:
        antennas = file["uv"]
    first, second = np.triu_indices(antennas.shape[-1], 1)
    u, v = (antennas[..., second] - antennas[..., first]).reshape(2, -1)
    sky, cell_size, npix = [Ring(**ring) for ring in record["sky"]], record["cell"], record["npix"]
    coords, weight = GridCoords(cell_size, npix), np.full(u.size, record["noise"] ** -2)
    truth, seen = sky_image(sky, cell_size, npix), sky_visibilities(sky, u, v)
    east, north = coords.sky_coordinates()
    inside = np.any([np.hypot(east - x, north - y) <= r for x, y, r in record["mask"]], 0)
    beams = {run["robust"]: Beam(*run["beam"]) for run in record["runs"]}
    strength = cell_size**2 * weight.sum() ** 0.5 / u.size
    runs = []
    for seed in record["seeds"]:
        parts = np.random.default_rng(seed).standard_normal((2, u.size, 2)).view(complex)[..., 0]
        data = seen + (np.sqrt(2) * record["noise"] * parts).mean(axis=0)
        began = cpu_seconds()
        image, steps = fitted(u, v, data, weight, cell_size, npix, strength)
        used = cpu_seconds() - began
        likelihood = ExactLikelihood(u, v, data, weight, cell_size, npix, progress=False)
        left = likelihood.residuals(torch.from_numpy(image)[None].float()).numpy()[0]
        for robust, beam in beams.items():
            blurred, true = convolve(image, coords, beam), convolve(truth, coords, beam)
            rest = DirtyImager(coords, u, v, weight, left.real, left.imag).get_dirty_image("briggs", robust=robust)
            runs.append(
                {
                    "seed": seed,
                    "robust": robust,
                    "error_without_residuals": off(blurred, true),
                    "error": off(blurred + rest[0][0], true),
                    "error_of_model": off(image, truth),
                    "flux": float(image[inside].sum()) * cell_size**2,
                    "flux_of_all": float(image.sum()) * cell_size**2,
                    "steps": steps,
                    "cpu_s": round(used, 1),
                }
            )
            print(runs[-1], flush=True)
    found = {"version": PEER, "threads": torch.get_num_threads(), "runs": runs}
    (folder / "image_by_mpol.json").write_text(json.dumps(found, indent=1) + "\n")


def off(image, true):
    """Return the error of an image, relative to the truth."""
    return float(np.linalg.norm(image - true) / np.linalg.norm(true))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
