"""Fits by several processes: equal to those of one, whatever is uneven; and an end with a message, whatever fails."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import ranks
import torch
import torch.distributed as dist

from firstlight.imaging import ExactLikelihood, ShardedDataset, ShardedLikelihood, fit, processes
from firstlight.imaging import processes as as_one
from firstlight.imaging.checkpoints import load
from firstlight.imaging.processes import VARIABLES, Group, own_device
from firstlight.imaging.shards import joined, taken

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch joins no processes")
SCRIPT = str(Path(ranks.__file__))
QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "FIRSTLIGHT_DEVICE": "cpu"}
LIMIT = 240  # seconds, of a busy machine: what hangs, hangs for ever


def torchrun(n, *arguments):
    command = [sys.executable, "-W", "error", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}"]
    return subprocess.run([*command, *map(str, arguments)], env=QUIET, capture_output=True, text=True, timeout=LIMIT)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What four processes found, two and one; and what they found together."""
    folder = tmp_path_factory.mktemp("ranks")
    done = torchrun(4, SCRIPT, "equality", folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return {path.stem: torch.load(path, weights_only=False) for path in folder.glob("?.pt")} | torch.load(
        folder / "out.pt", weights_only=False
    )


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("what", ["cube", "more processes than channels", "folds", "cells together", "replaced"])
def test_objective_and_gradient_are_those_of_one_process(found, n, what):
    several, one = found[str(n)][what], found["1"][what]
    assert several["terms"] == pytest.approx(one["terms"], rel=1e-12)
    assert off(several["gradient"], one["gradient"]) < 1e-12
    assert one["gradient"].abs().min() > 0


@pytest.mark.parametrize("n", [2, 4])
def test_kernel_and_residuals_are_added_up(found, n):
    several, one = found[str(n)], found["1"]
    for name in ("kernel", "dirty"):
        assert off(several[name], one[name]) < 1e-13
    assert torch.equal(several["residuals"], one["residuals"])
    assert several["centred"] == one["centred"] >= 2


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("what", ["adam", "lbfgs", "sweep", "sweep by lbfgs"])
def test_finished_fits_are_those_of_one_process(found, n, what):
    several, one = found[str(n)][what], found["1"][what]
    assert several.image.shape == one.image.shape
    assert off(several.image, one.image) < 1e-6
    for curve in ("loss", "chi2", "flux"):
        np.testing.assert_allclose(getattr(several, curve), getattr(one, curve), rtol=1e-6)
    assert several.terms == pytest.approx(one.terms, rel=1e-6)
    assert (several.iterations, several.why, several.message) == (one.iterations, one.why, one.message)
    assert one.loss[-1].sum() < one.loss[0].sum() / 2


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize("order", ["up", "down"])
def test_a_fit_goes_on_with_more_processes_or_fewer(found, optimizer, order):
    relay, alone = found[optimizer, order], found[optimizer, "alone"]
    assert relay.iterations == alone.iterations == 15
    assert off(relay.image, alone.image) < 1e-6
    np.testing.assert_allclose(relay.loss, alone.loss, rtol=1e-6)


def test_spare_processes_are_named(found):
    assert found["4"]["adam"].notes[-1].startswith("1 of 4 processes have no channel, as there are 3: they help")
    assert not any("no channel" in note for note in found["2"]["adam"].notes)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("couples", "'tv' is not a sum over channels"),
        ("mean", "'mean' is not a sum over channels"),
        ("shared", "scale has shape (7,), and should have 1 rows"),
        ("two", "one parameter tensor"),
        ("lengths", "'weight': 7"),
    ],
)
def test_what_cannot_be_sharded_is_refused(found, what, says):
    assert says in found["refused"][what]


def test_a_process_that_dies_ends_the_others_with_a_message_and_the_checkpoint_stays(tmp_path):
    """Started by hand, as a queue of jobs does it: nobody but the processes themselves can notice."""
    port = free_port()
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    both = [
        subprocess.Popen(
            [sys.executable, SCRIPT, "die", tmp_path],
            env=QUIET | shared | {"RANK": rank, "LOCAL_RANK": rank},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    says = [process.communicate(timeout=LIMIT)[1] for process in both]
    assert [process.returncode for process in both] == [1, -9]
    assert "LostProcessError: process 0 of 2 has lost another one" in says[0]
    assert "resume=True" in says[0]
    state, note = load(tmp_path / "fit.pt")
    assert (state["iteration"], note) == (30, "")
    # One process goes on from there.
    few = ranks.sharded(Group(), 3, shared=True)
    options = ranks.BRIEF | {"losses": {"odd": (1e-4, torch.sum)}, "max_iter": 50}
    assert fit(ranks.model(few), few, checkpoint=tmp_path / "fit.pt", resume=True, **options).iterations == 50


def test_a_process_that_stands_still_ends_the_job_with_its_name(tmp_path):
    done = torchrun(2, SCRIPT, "sleep", tmp_path)
    assert done.returncode == 1
    assert "LostProcessError: process 0 of 2 has lost another one, which died or kept it waiting for 4 s" in done.stderr
    assert "Rank 1 failed to pass monitoredBarrier" in done.stderr
    state, _ = load(tmp_path / "fit.pt")
    assert state["iteration"] == 30


@pytest.fixture
def alone(monkeypatch):
    """A process that torchrun has not started."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FIRSTLIGHT_DEVICE", "cpu")
    yield monkeypatch
    assert not dist.is_initialized()


@pytest.fixture
def first_of_two(alone):
    """A process that waits for another, which never comes."""
    values = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    for name, value in (values | {"MASTER_PORT": str(free_port())}).items():
        alone.setenv(name, value)
    return alone


@pytest.mark.usefixtures("alone")
def test_without_torchrun_there_is_one_process_and_no_network():
    with processes() as group:
        assert (group.rank, group.size, group.first) == (0, 1, True)
        assert not dist.is_initialized()
        seen = ranks.observed(3)
        likelihood = ShardedLikelihood(group, **seen)
    exact = ExactLikelihood(**seen)
    for name in ("kernel", "dirty", "c0"):
        torch.testing.assert_close(getattr(likelihood, name), getattr(exact, name))
    assert likelihood.nchan == 3


@pytest.mark.usefixtures("alone")
def test_one_process_of_torchrun_is_a_group_of_one(alone):
    values = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in values.items():
        alone.setenv(name, value)
    with processes() as group:
        assert group.size == 1


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"RANK": None}, "RANK is not set, but others are"),
        ({"RANK": None, "MASTER_PORT": None}, "RANK, MASTER_PORT are not set"),
        ({"RANK": "2"}, "RANK is 2, and should be from 0 to 1"),
        ({"RANK": "-1"}, "should be whole numbers; they are -1, 2, 0"),
        ({"WORLD_SIZE": "two"}, "should be whole numbers"),
    ],
)
def test_variables_that_are_half_set_are_refused(first_of_two, values, says):
    for name, value in values.items():
        first_of_two.delenv(name) if value is None else first_of_two.setenv(name, value)
    with pytest.raises(RuntimeError, match=says), processes():
        pass


def test_a_port_in_use_is_named(first_of_two):
    with socket.create_server(("127.0.0.1", 0)) as taken_by_another:
        port = taken_by_another.getsockname()[1]
        first_of_two.setenv("MASTER_PORT", str(port))
        says = rf"port {port} of 127\.0\.0\.1 is in use.*--standalone"
        with pytest.raises(RuntimeError, match=says), processes(timeout=5):
            pass


@pytest.mark.usefixtures("first_of_two")
def test_a_process_that_does_not_come_is_waited_for_no_longer_than_told():
    says = "process 0 of 2 has waited for 1 s, and not all have met"
    with pytest.raises(RuntimeError, match=says), processes(timeout=1):
        pass


@pytest.mark.parametrize("backend", ["nccl", "pigeons"])
def test_a_backend_that_is_missing_is_named(first_of_two, backend):
    first_of_two.setattr(dist, "is_backend_available", lambda name: name == "gloo")
    says = rf"has no {backend} to join processes by; it has gloo\."
    with pytest.raises(RuntimeError, match=says), processes(backend=backend):
        pass


def test_nccl_without_a_gpu_is_refused(first_of_two):
    first_of_two.setattr(dist, "is_backend_available", lambda name: True)
    with pytest.raises(RuntimeError, match="this process has none"), processes(backend="nccl"):
        pass


def test_a_pytorch_that_joins_nothing_is_named(first_of_two):
    first_of_two.setattr(dist, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="no gloo to join processes by; it has nothing"), processes():
        pass


def test_each_process_has_a_gpu_of_its_own(monkeypatch):
    used = []
    monkeypatch.setitem(own_device.__globals__, "best_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", used.append)
    assert own_device(1) == torch.device("cuda", 1)
    assert used == [1]
    with pytest.raises(RuntimeError, match=r"process 3 on this computer, which has 2 GPUs.*--nproc-per-node 2"):
        own_device(2)


@pytest.mark.parametrize("timeout", [0, -1, np.nan])
def test_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(ValueError, match="timeout must be"), processes(timeout=timeout):
        pass


@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 4), (7, 3), (8, 4)])
def test_shares_are_even_and_leave_nothing_out(n, size):
    shares = [range(n)[Group(rank=rank, size=size).share(n)] for rank in range(size)]
    assert [i for share in shares for i in share] == list(range(n))
    lengths = list(map(len, shares))
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths) - min(lengths) <= 1


def test_states_are_put_together_and_taken_apart():
    whole = {"mean": torch.arange(10.0), "step": torch.tensor(3.0), "al": [None, torch.ones(5, 2)], "betas": (0.9, 1)}
    parts = [taken(whole, Group(rank=rank, size=3).share(5), 5) for rank in range(3)]
    assert [len(part["mean"]) for part in parts] == [4, 4, 2]
    again = joined(parts)
    assert torch.equal(again["mean"], whole["mean"])
    assert torch.equal(again["al"][1], whole["al"][1])
    assert (again["step"], again["al"][0], again["betas"]) == (3, None, (0.9, 1))


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_cells_of_a_share_are_those_of_its_channels(rank):
    whole = ranks.folds(Group())
    share = ShardedDataset(Group(rank=rank, size=4), whole)
    assert share.nchan == [2, 2, 1, 1][rank]
    assert torch.equal(share.mask, whole.mask[share.mine])
    pixels = whole.coords.npix**2
    own = (whole.index >= share.mine.start * pixels) & (whole.index < share.mine.stop * pixels)
    assert torch.equal(share.vis_indexed, whole.vis_indexed[own])
    assert torch.equal(share.weight_indexed, whole.weight_indexed[own])
    assert torch.equal(share.index, whole.index[own] - share.mine.start * pixels)


def test_the_name_is_that_of_the_function():
    assert as_one is processes


def off(several, one):
    return float((several - one).abs().max() / one.abs().max())


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
