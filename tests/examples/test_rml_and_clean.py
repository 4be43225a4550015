"""The record, what the page finds in it, and its checker."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from pages import judged

from firstlight_imaging.simulate.skies import Point

ROOT = Path(__file__).parents[2]
PAGE = "4_imaging/13_rml_and_clean.py"
RECORD = ROOT / "docs" / "_snippets"


def test_the_record_is_small_and_whole():
    files = [RECORD / name for name in ("clean_by_casa.json", "clean_by_casa.npz", "image_by_mpol.json")]
    assert sum(file.stat().st_size for file in files) < 300_000
    said = json.loads(files[0].read_text(encoding="utf-8"))
    sky = json.loads((ROOT / "benchmarks" / "casa" / "sky.json").read_text(encoding="utf-8"))
    assert said["sky"] == sky["rings"]
    kinds = {(run["seed"], run["robust"], run["depth"]) for run in said["runs"]}
    assert len(kinds) == len(said["runs"]) == 5 * 2 * 3
    of_mpol = json.loads(files[2].read_text(encoding="utf-8"))["runs"]
    assert {(run["seed"], run["robust"]) for run in of_mpol} == {kind[:2] for kind in kinds}


def test_every_clean_stopped_at_its_threshold():
    for run in json.loads((RECORD / "clean_by_casa.json").read_text(encoding="utf-8"))["runs"]:
        assert "n-sigma" in run["stopped"], run


def test_the_fit_is_nearer_to_the_truth_without_residuals_in_every_seed(page):
    score = page["score"]
    for robust in page["weightings"]:
        clean, rml = (
            [row["error_without_residuals"] for row in score[name, robust]] for name in ("CLEAN to 1σ", "RML")
        )
        assert len(clean) == len(rml) == 5
        assert all(ours < theirs for ours, theirs in zip(rml, clean, strict=True))


def test_no_flux_is_lost_or_made(page):
    for (name, _), rows in page["score"].items():
        if name in ("CLEAN to 1σ", "RML"):
            assert [row["flux"] for row in rows] == pytest.approx([page["flux"]] * 5, rel=0.05)


@pytest.mark.slow
def test_a_point_is_as_wide_as_its_place_its_strength_and_lambda_make_it(page):
    u, v, coords, data = page["u"], page["v"], page["coords"], page["observed"](page["seeds"][0])
    east, north = coords.sky_coordinates()
    without = {times: page["rml"](data, times)[0] for times in (1, 4)}

    def added(place, sigmas, times=1):
        flux = sigmas * page["weight"].sum() ** -0.5
        point = page["sky_visibilities"]([Point(flux, *place)], u, v)
        more = page["rml"](data + point, times)[0] - without[times]
        more = np.where(np.hypot(east - place[0], north - place[1]) < 0.3, more, 0)
        area = coords.cell_size**2
        return np.sqrt((more > more.max() / 2).sum() * area), more.sum() * area / flux

    gap, other_side, core, empty = (0.68, -0.015), (0.12, -0.985), (0.4, -0.5), (-0.8, -0.9)
    faint, bright = added(gap, 5)[0], added(gap, 50)[0]
    assert 1.4 * bright < faint < added(gap, 5, times=4)[0]
    assert 1.4 * max(added(other_side, 5)[0], added(core, 5)[0]) < faint
    assert abs(added(gap, 5)[1] - 1) < 0.1
    assert added(empty, 5)[1] < 0.1


def test_seeds_are_different_noise(page):
    digests = {hashlib.sha1(page["observed"](seed).tobytes()).hexdigest() for seed in page["seeds"]}
    assert len(digests) == 5


def fair(clean, model, left, truth, blur, at_beam=True, add=1.0):
    """Both errors, or with something left out."""
    true, rml = (blur(truth), blur(model)) if at_beam else (truth, model)
    return tuple(np.sqrt(np.sum((x - true) ** 2) / np.sum(true**2)) for x in (clean, rml + add * left))


WRONG = [
    (lambda *a: fair(*a, add=0), "no residuals"),
    (lambda *a: fair(*a)[::-1], "CLEAN first"),
    (lambda c, m, left, t, blur: (fair(c, m, left, t, blur)[0], fair(c, m + left, 0, t, blur)[1]), "already"),
    (lambda *a: fair(*a, at_beam=False, add=0), "without a beam"),
    (lambda c, m, left, t, blur: fair(c, blur(m), left, t, blur, at_beam=False), "blur the truth"),
    (lambda c, m, left, t, blur: fair(c, m, left, t, lambda x: blur(x) if x is t else x), "blur the model"),
    (lambda c, m, left, t, blur: [np.linalg.norm(x - blur(t)) for x in (c, blur(m) + left)], "divide by the size"),
    (lambda c, m, left, t, blur: (0.0, np.linalg.norm(blur(m) + left - c) / np.linalg.norm(c)), "with the truth"),
    (lambda c, m, left, t, blur: (fair(c - left, m, left, t, blur)[0], fair(c, m, left, t, blur)[1]), "clean is"),
]

test_answers = judged(["compare_solution", fair], WRONG)
