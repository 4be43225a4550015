"""What the page says of two processes and of a thousand, and its checker."""

import math
import re
import subprocess
import sys

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
    assert page["speedup"](200, gpus) == pytest.approx(200 / rounds)


def test_the_gradient_that_is_timed_is_that_of_all_its_channels(page):
    """Data of 1 Jy against an image of next to nothing: each of 999 visibilities is off by one."""
    one, four = (page["gradient"](*page["make_fit"](n, torch.float64)) for n in (1, 4))
    assert one == pytest.approx(999, rel=0.1)
    assert four == pytest.approx(4 * one, rel=0.1)


MORTAL = """
import os, signal, time

if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60 if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" else 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("restarts", [0, 1])
def test_torchrun_stops_all_if_one_dies_and_may_start_them_again(tmp_path, restarts):
    (tmp_path / "job.py").write_text(MORTAL, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [f"--max-restarts={restarts}", str(tmp_path / "job.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert "closing signal SIGTERM" in done.stderr
    assert (done.returncode == 0) == (restarts == 1), done.stderr
    assert ("Root Cause (first observed failure):" in done.stderr) == (restarts == 0)


@pytest.mark.parametrize("starts", ["#!/bin/bash", "for gpu in", "torchrun --standalone"])
def test_the_shell_of_the_page_is_shell(starts, tmp_path):
    block = TEXT[re.search(rf"(?m)^# +{re.escape(starts)}", TEXT).start() :]
    block = re.split(r"\n#\n# {1,4}(?=\S)", block)[0]
    script = tmp_path / "job.sh"
    script.write_text(re.sub(r"(?m)^# {0,7}", "", block) + "\n", encoding="utf-8", newline="\n")
    try:
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no bash")
    assert done.returncode == 0, done.stderr
    assert "python" in block or "torchrun" in block


def test_without_the_program_beside_it_the_page_says_so(tmp_path, capsys, monkeypatch):
    """A reader who downloads this one script, or runs the notebook alone."""
    monkeypatch.chdir(tmp_path)
    first = TEXT[TEXT.index("import os\n") : TEXT.index("# %%\n", TEXT.index("not here"))]
    space: dict[str, object] = {}
    exec(compile(first, "page", "exec"), space)
    space["scratch"].cleanup()
    assert not space["live"]
    assert "not here" in capsys.readouterr().out


def divided(
    kept=lambda parts, finished: [k for k in parts if k not in finished], share=lambda p, r, n: p[r::n], last=0
):
    """Give an answer to the exercise that does right but for one thing."""

    def answer(rank, size, channels, together, finished):
        parts = list(range(0, channels + last, together))
        return share(kept(parts, finished), rank, size)

    return answer


def in_turn_and_skip(rank, size, channels, together, finished):
    return [k for k in range(0, channels, together)[rank::size] if k not in finished]


def blocks(parts, rank, size):
    each = math.ceil(len(parts) / size)
    return parts[rank * each : (rank + 1) * each]


WRONG = {
    "as the program does": (in_turn_and_skip, "another"),
    "blocks, rounded up": (divided(share=blocks), "another"),
    "blocks, rounded down": (divided(share=lambda p, r, n: p[r * (len(p) // n) : (r + 1) * (len(p) // n)]), "nobody"),
    "everything": (divided(share=lambda p, r, n: p), "times"),
    "the finished ones, too": (divided(kept=lambda parts, finished: parts), "finished"),
    "numbers of parts": (divided(share=lambda p, r, n: [k // 5 for k in p[r::n]]), "no part|finished|times"),
    "the last is forgotten": (divided(last=-5), "nobody"),
    "one too many": (divided(last=5), "no part"),
}


test_answers = judged(["mine_solution", divided()], WRONG)
