"""The record, what the page finds in it, and its checker."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from pages import judged

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


def test_seeds_are_different_noise(page):
    digests = {hashlib.sha1(page["observed"](seed).tobytes()).hexdigest() for seed in page["seeds"]}
    assert len(digests) == 5


def area(factor):
    return lambda image, cell, beam: image.sum() * cell**2 / (factor * beam.major * beam.minor)


WRONG = [
    (lambda image, *_: image.sum(), "each pixel"),
    (lambda image, cell, _beam: image.sum() * cell**2, "divide"),
    (area(np.pi / 4), "ln 2"),
    (area(np.pi), "too much"),
    (lambda image, cell, beam: image.max(), "too much"),
]

test_answers = judged(["flux_of_solution", area(np.pi / (4 * np.log(2)))], WRONG)
