"""The memory of a fit, which the pages count in images."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory of a process")
def test_a_fit_holds_about_thirty_images_of_each_channel(tmp_path):
    scale = Path(__file__).parents[3] / "benchmarks" / "scale.py"
    command = [sys.executable, scale, "--only", "memory", "--case", "8", "--json", tmp_path / "scale.json"]
    subprocess.run(command, check=True, capture_output=True)
    (found,) = json.loads((tmp_path / "scale.json").read_text())["memory"]
    assert found["images"] == pytest.approx(30, rel=0.2)
