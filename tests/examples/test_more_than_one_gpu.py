"""What the page says of two processes and of a thousand, and its checker."""

import math
import re
import subprocess

import pytest
import torch
import torch.distributed as dist
from pages import EXAMPLES, judged

PAGE = "4_imaging/11_more_than_one_gpu.py"
TEXT = (EXAMPLES / PAGE).read_text(encoding="utf-8")
pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch joins no processes")


def test_two_processes_ran_and_agree_with_one(page):
    assert page["live"]
    assert (page["two"]["processes"], page["one"]["processes"]) == (2, 1)
    assert page["two"]["start"] == pytest.approx(page["one"]["start"], rel=1e-12)
    assert page["two"]["iterations"] == 30
    assert len(page["two"]["seconds"]["gradient"]) == 2


def test_one_process_finishes_what_two_left(page):
    relay, one = page["relay"], page["one"]
    assert (relay["iterations"], relay["processes"]) == (30, 1)
    assert relay["end"]["flux"] == pytest.approx(one["end"]["flux"], rel=1e-6)
    assert relay["end"]["chi2"] < one["start"]["chi2"] / 10


@pytest.mark.parametrize(("gpus", "rounds"), [(1, 200), (64, 4), (100, 2), (199, 2), (200, 1), (1024, 1)])
def test_channels_go_in_rounds(page, gpus, rounds):
    assert page["step_of"](200, gpus) == page["step_of"](rounds, 1)


def test_an_operation_takes_the_time_of_a_node_or_of_its_bytes(page):
    replay, node, fast, rate = (page[name] for name in ("replay", "node", "fast", "rate"))
    assert page["step_of"](1, 1, 1) == pytest.approx(replay + node * len(fast))
    assert page["step_of"](10**6, 1, 1000) == pytest.approx(replay + 1e12 * fast.sum() / rate, rel=1e-4)
    assert page["step_of_one_image"](1) == page["step_of"](1, 1)


def test_a_step_of_the_package_is_counted_as_it_runs(page):
    """Seven kernels, two transforms and what is around them; autograd has several times as many."""
    assert 15 <= len(page["fast"]) <= 25
    assert len(page["slow"]) > 4 * len(page["fast"])
    assert page["slow"].sum() > 2 * page["fast"].sum()


def test_one_image_gains_far_less_than_channels(page):
    gain, step, four = page["gain"], page["step_of_one_image"], page["four"]
    assert four["one image"] < 0.6 * four["25 fits"] < four["200 channels"]
    assert gain(step, 4, npix=256) < 1
    assert max(gain(step, gpus) for gpus in (2, 4, 8, 16, 1024)) < 3
    assert page["half"][16] is None
    assert 512 < page["half"][4] < page["half"][8]


def test_two_processes_are_compared_with_what_two_cores_give(page):
    assert 0.2 < page["cores"] < 4
    assert len(page["one"]["seconds"]["gradient"]) == 1


def test_the_gradient_that_is_timed_is_that_of_all_its_channels(page):
    """Data of 1 Jy against an image of next to nothing: each of 999 visibilities is off by one."""
    one, four = (page["gradient"](*page["make_fit"](n, torch.float64)) for n in (1, 4))
    assert one == pytest.approx(999, rel=0.1)
    assert four == pytest.approx(4 * one, rel=0.1)


def test_what_goes_wrong_is_shown_as_it_is_said():
    shown = " ".join(re.sub(r"(?m)^#", "", TEXT).split())
    source = (EXAMPLES / "4_imaging/distributed_fit.py").read_text(encoding="utf-8")
    said = " ".join(re.sub(r'"\n *f?"', "", source).split())
    for part in (
        "has lost another one, which died or kept it waiting",
        "see what the others say, and start the job again",
    ):
        assert part in shown
        assert part in said


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
