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

from firstlight.imaging import ExactLikelihood, ShardedLikelihood, fit, processes
from firstlight.imaging.checkpoints import load
from firstlight.imaging.processes import VARIABLES, Group, own_device

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch joins no processes")
SCRIPT = str(Path(ranks.__file__))
QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "FIRSTLIGHT_DEVICE": "cpu"}
LIMIT = 240  # seconds, of a busy machine: what hangs, hangs for ever


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What two processes found, and one; this one is the first of them."""
    folder, one = tmp_path_factory.mktemp("ranks"), Group()
    for name in ranks.RELAYS:
        ranks.relay(one, folder / f"{name}.pt", name, 5)
    shared = dict(zip(VARIABLES, ("0", "2", "0", "127.0.0.1", str(free_port())), strict=True))
    environment = QUIET | shared | {"RANK": "1", "LOCAL_RANK": "1"}
    with (
        pytest.MonkeyPatch.context() as patch,
        subprocess.Popen([sys.executable, "-W", "error", SCRIPT, "pair", folder], env=environment) as other,
    ):
        for name, value in (shared | {"FIRSTLIGHT_DEVICE": "cpu"}).items():
            patch.setenv(name, value)
        both = ranks.pair(folder)
        assert other.wait(LIMIT) == 0
    alone = ranks.everything(one)
    for name in ranks.RELAYS:
        both[name] = ranks.relay(one, folder / f"{name}.pt", name, 15)
        alone[name] = ranks.relay(one, folder / f"{name} alone.pt", name, 15)
    return both, alone


@pytest.mark.parametrize("what", ["cube", "more processes than channels", "folds", "cells together", "replaced"])
def test_objective_and_gradient_are_those_of_one_process(found, what):
    both, one = (each[what] for each in found)
    assert both["terms"] == pytest.approx(one["terms"], rel=1e-12)
    assert off(both["gradient"], one["gradient"]) < 1e-12
    assert one["gradient"].abs().min() > 0


def test_kernel_and_residuals_are_added_up(found):
    both, one = found
    for name in ("kernel", "dirty"):
        assert off(both[name], one[name]) < 1e-13
    assert torch.equal(both["residuals"], one["residuals"])
    assert both["centred"] == one["centred"] >= 2


@pytest.mark.parametrize("what", ["adam", "lbfgs", "sweep", "sweep by lbfgs", "one channel", *ranks.RELAYS])
def test_fits_are_those_of_one_process(found, what):
    """The relays were begun by one process, went on with two, and ended with one."""
    both, one = (each[what] for each in found)
    assert both.image.shape == one.image.shape
    assert off(both.image, one.image) < 1e-6
    for curve in ("loss", "chi2", "flux"):
        np.testing.assert_allclose(getattr(both, curve), getattr(one, curve), rtol=1e-6)
    assert both.terms == pytest.approx(one.terms, rel=1e-6)
    assert (both.iterations, both.why) == (one.iterations, one.why)
    assert one.loss[-1].sum() < 0.7 * one.loss[0].sum()


def test_spare_processes_are_named(found):
    assert "1 of 2 processes" in found[0]["one channel"].notes[-1]
    assert len(found[0]["adam"].notes) < len(found[0]["one channel"].notes)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("couples", "'tv'"),
        ("mean", "'mean'"),
        ("shared", "scale has shape (7,)"),
        ("two", "one parameter"),
        ("lengths", "'weight': 7"),
    ],
)
def test_what_cannot_be_sharded_is_refused(found, what, says):
    assert says in found[0]["refused"][what]


@pytest.mark.slow
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
    assert "LostProcessError: process 0 of 2" in says[0]
    state, note = load(tmp_path / "fit.pt")
    assert (state["iteration"], note) == (30, "")
    # One process goes on from there.
    few = ranks.sharded(Group(), 3, shared=True)
    options = ranks.BRIEF | {"losses": {"odd": (1e-4, torch.sum)}, "max_iter": 50}
    assert fit(ranks.model(few), few, checkpoint=tmp_path / "fit.pt", resume=True, **options).iterations == 50


@pytest.mark.slow
def test_a_process_that_stands_still_ends_the_job_with_its_name(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT, "sleep"]
    done = subprocess.run([*command, tmp_path], env=QUIET, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 1
    assert "LostProcessError: process 0 of 2" in done.stderr
    assert "Rank 1 failed" in done.stderr
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


def test_one_process_of_torchrun_is_a_group_of_one(alone):
    values = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in values.items():
        alone.setenv(name, value)
    with processes() as group:
        assert group.size == 1


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"RANK": None}, "RANK is not set"),
        ({"RANK": None, "MASTER_PORT": None}, "RANK, MASTER_PORT"),
        ({"RANK": "2"}, "from 0 to 1"),
        ({"RANK": "-1"}, "-1, 2, 0"),
        ({"WORLD_SIZE": "two"}, "two"),
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
        with pytest.raises(RuntimeError, match=str(port)), processes(timeout=5):
            pass


@pytest.mark.slow
@pytest.mark.usefixtures("first_of_two")
def test_a_process_that_does_not_come_is_waited_for_no_longer_than_told():
    with pytest.raises(RuntimeError, match="process 0 of 2"), processes(timeout=1):
        pass


@pytest.mark.parametrize("backend", ["nccl", "pigeons"])
def test_a_backend_that_is_missing_is_named(first_of_two, backend):
    first_of_two.setattr(dist, "is_backend_available", lambda name: name == "gloo")
    with pytest.raises(RuntimeError, match=rf"{backend} .*gloo"), processes(backend=backend):
        pass


def test_each_process_has_a_gpu_of_its_own(monkeypatch):
    used = []
    monkeypatch.setitem(own_device.__globals__, "best_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", used.append)
    assert own_device(1) == torch.device("cuda", 1)
    assert used == [1]
    with pytest.raises(RuntimeError, match="2 GPUs"):
        own_device(2)


@pytest.mark.parametrize("timeout", [0, -1, np.nan])
def test_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(ValueError, match="timeout"), processes(timeout=timeout):
        pass


@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 4), (7, 3), (8, 4)])
def test_shares_are_even_and_leave_nothing_out(n, size):
    shares = [range(n)[Group(rank=rank, size=size).share(n)] for rank in range(size)]
    assert [i for share in shares for i in share] == list(range(n))
    lengths = list(map(len, shares))
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths) - min(lengths) <= 1


def off(several, one):
    return float((several - one).abs().max() / one.abs().max())


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
