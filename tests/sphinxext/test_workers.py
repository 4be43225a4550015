from __future__ import annotations

import sys

import pytest
from sphinx.errors import SphinxParallelError
from sphinx.util.parallel import ParallelTasks

from firstlight.sphinxext import workers


@pytest.mark.skipif(sys.platform != "linux", reason="Sphinx works in parallel only where it can fork")
def test_a_worker_that_fails_while_work_is_handed_out_fails_the_build(monkeypatch):
    monkeypatch.setattr(workers, "failures", [])
    for name in ("join", "_join_one"):
        monkeypatch.setattr(ParallelTasks, name, getattr(ParallelTasks, name))  # put back afterwards
    workers.setup()
    tasks = ParallelTasks(nproc=3)
    tasks.add_task(lambda: 1 / 0)
    assert tasks._precvs[0].poll(60), "the error has arrived"
    tasks.add_task(lambda: None)
    with pytest.raises(SphinxParallelError, match="ZeroDivisionError"):
        tasks.join()
