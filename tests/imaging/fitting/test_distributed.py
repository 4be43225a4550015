"""Several processes: their shares are all of the work, and who is lost ends the others with a message."""

import os
import socket
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

from firstlight.imaging import processes
from firstlight.imaging.fitting.distributed import Group, own_device

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch joins no processes")
CHILD = """
import os, signal, sys, time
from firstlight.imaging import processes

with processes(timeout=4) as group:
    assert group.collect(10 * group.rank) == [0, 10]
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1] == "die" else time.sleep(60)
    group.collect("here")
"""


def test_one_process_needs_no_network(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with processes() as group:
        assert (group.rank, group.size, group.collect(3)) == (0, 1, [3])
        assert not dist.is_initialized()


@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 4), (7, 3), (8, 4)])
def test_shares_are_even_and_leave_nothing_out(n, size):
    shares = [Group(rank=rank, size=size).share(range(n)) for rank in range(size)]
    assert sorted(i for share in shares for i in share) == list(range(n))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["die", "sleep"])
def test_a_lost_process_ends_the_others_with_a_message(fault):
    """Started by hand, as a queue of jobs does it: nobody but the processes themselves can notice."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    job = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "FIRSTLIGHT_DEVICE": "cpu"}
    command = [sys.executable, "-W", "error", "-c", CHILD, fault]
    both = [subprocess.Popen(command, env=job | {"RANK": rank}, stderr=subprocess.PIPE, text=True) for rank in "01"]
    try:
        message = both[0].communicate(timeout=120)[1]
    finally:
        both[1].kill()
        both[1].communicate()
    assert both[0].returncode == 1
    assert "RuntimeError: process 0 of 2 has lost another one" in message


def test_each_process_has_a_gpu_of_its_own(monkeypatch):
    used = []
    monkeypatch.setitem(own_device.__globals__, "best_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", used.append)
    assert own_device(1) == torch.device("cuda", 1)
    assert used == [1]
    with pytest.raises(RuntimeError, match="2 GPUs"):
        own_device(2)
