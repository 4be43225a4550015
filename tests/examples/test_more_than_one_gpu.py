"""What the page says of two processes and of a thousand, and its checker."""

import math
import re
import subprocess

import pytest
import torch
import torch.distributed as dist
from pages import EXAMPLES, judged

PAGE = "4_imaging/08_more_than_one_gpu.py"
TEXT = (EXAMPLES / PAGE).read_text(encoding="utf-8")
pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch joins no processes")


def test_two_processes_ran_and_agree_with_one(page):
    assert page["live"]
    assert (page["two"]["processes"], page["one"]["processes"]) == (2, 1)
    assert page["two"]["start"] == pytest.approx(page["one"]["start"], rel=1e-12)
    assert page["two"]["iterations"] == 30
    assert len(page["two"]["seconds"]["gradient"]) == 2


def test_one_process_goes_on_from_what_two_left(page):
    relay, one = page["relay"], page["one"]
    assert (relay["iterations"], relay["processes"]) == (45, 1)
    assert relay["end"]["flux"] == pytest.approx(one["end"]["flux"], rel=1e-6)
    assert relay["end"]["chi2"] < page["two"]["end"]["chi2"] < one["start"]["chi2"] / 10


@pytest.mark.parametrize(("gpus", "rounds"), [(1, 200), (64, 4), (100, 2), (199, 2), (200, 1), (1024, 1)])
def test_channels_go_in_rounds(page, gpus, rounds):
    assert page["step_of"](200, gpus) == pytest.approx(page["start"] + rounds * page["work"](1024))


def test_one_image_does_not_pay_at_the_sizes_that_people_image(page):
    gain, step = page["gain"], page["step_of_one_image"]
    assert gain(step, 4, npix=256) < 1.05
    assert max(gain(step, gpus) for gpus in (2, 4, 8, 16, 1024)) < 1.3
    assert gain(step, 4, npix=8192) > 2  # the model says where it would
    assert page["half_used"] > 2000


def test_the_gradient_that_is_timed_is_that_of_all_its_channels(page):
    """Data of 1 Jy against an image of next to nothing: each of 999 visibilities is off by one."""
    one, four = (page["make_gradient"](n, torch.device("cpu"))() for n in (1, 4))
    assert one == pytest.approx(999, rel=0.1)
    assert four == pytest.approx(4 * one, rel=0.1)


@pytest.mark.parametrize("starts", ["#!/bin/bash", "for gpu in"])
def test_the_shell_of_the_page_is_shell(starts, tmp_path):
    block = TEXT[TEXT.index(f"#    {starts}") :].partition("\n#\n# " if starts != "#!/bin/bash" else "\n#\n# With")[0]
    script = tmp_path / "job.sh"
    script.write_text(re.sub(r"(?m)^# {0,4}", "", block) + "\n", encoding="utf-8", newline="\n")
    try:
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no bash")
    assert done.returncode == 0, done.stderr
    assert "python" in block or "torchrun" in block


def test_without_the_program_beside_it_the_page_says_so(tmp_path, capsys, monkeypatch):
    """A reader who downloads this one script, or runs the notebook alone."""
    monkeypatch.chdir(tmp_path)
    first = TEXT[TEXT.index("import os\n") : TEXT.index("# %%\n# Predict")]
    space: dict[str, object] = {}
    exec(compile(first, "page", "exec"), space)
    space["scratch"].cleanup()
    assert not space["live"]
    assert "not here" in capsys.readouterr().out


WRONG = [
    (lambda channels, gpus: 1.0, "up"),
    (lambda channels, gpus: min(1, channels / gpus), "up"),
    (lambda channels, gpus: channels / gpus / round(channels / gpus), "up"),
    (lambda channels, gpus: channels / gpus / max(1, channels // gpus), "up"),
    (lambda channels, gpus: channels / min(channels, gpus) / -(-channels // gpus), "half"),
    (lambda channels, gpus: channels / gpus / -(-channels // gpus), "without"),
]


test_answers = judged(
    ["used_solution", lambda channels, gpus: channels / (gpus * max(1, math.ceil(channels / gpus)))], WRONG
)
