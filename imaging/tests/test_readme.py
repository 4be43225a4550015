"""The lines of the README run, in Python and as a command."""

import re
import shlex
from pathlib import Path

import pytest

from firstlight_imaging import image
from firstlight_imaging.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def block(language: str, beginning: str = "") -> str:
    (found,) = re.findall(rf"^```{language}\n({beginning}.*?)^```", README, re.MULTILINE | re.DOTALL)
    return found


def test_its_lines_make_an_image_of_the_flux_that_was_simulated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(image.__kwdefaults__, "draws", 6)  # of 16, for the errors
    exec(block("python"), known := {})
    assert known["found"].flux == pytest.approx(0.5, abs=3 * known["found"].flux_error)
    assert main(shlex.split(block("bash", "firstlight-imaging"))[1:]) == 0
    assert (tmp_path / "images/my.image.fits").exists()
