from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import test_course
import test_maths
import test_outputs
import test_terms
from recorded import keep
from sphinx.errors import SphinxParallelError
from sphinx.util.parallel import ParallelTasks

from _ext import workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Sphinx works in parallel only where it can fork")


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


def build_apart(site) -> subprocess.CompletedProcess[str]:
    """Build a site as its maintainer does: by the command, in new processes."""
    env = os.environ | {"PATH": str(site.folder / "no-programs"), "SITE": str(site.folder), "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-m", "sphinx", "-W", "-j", "4", "-b", "html", "-d", "build/.apart", ".", "build/apart"]
    with (site.folder / "log").open("w+b") as log:  # a pipe would be held open by a server that was left running
        done = subprocess.run(command, cwd=site.folder, env=env, stdout=log, stderr=log, timeout=300)
    done.stdout = (site.folder / "log").read_text(encoding="utf-8", errors="replace")
    return done


def left_running(site) -> list[Path]:
    """The processes of this build that still live, known by their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"SITE={site.folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(process)
        except OSError:  # it ended meanwhile, or belongs to someone else
            continue
    return found


@pytest.mark.slow
def test_several_processes_make_the_bytes_that_one_makes_and_leave_none_running(make_site):
    files = test_course.FILES | test_outputs.FILES | test_maths.files() | test_terms.PAGES
    del files["course.toml"], files["map.rst"]  # it names each tutorial
    site = test_terms.made(make_site, files | {"index.rst": test_terms.HOME + "   tutorials/index\n"})
    keep(site.folder, test_outputs.TALK, "nvidia-old", {1: "one\n  there", 3: "the same", 4: "solved there"})
    done = build_apart(site)
    assert done.returncode == 0, done.stdout
    assert left_running(site) == []
    site.rebuild("html", "-d", "build/.here")  # after the other, which ran the examples
    for folder in ("tutorials/1_part", ""):
        pages = sorted((site.folder / "build/apart" / folder).glob("*.html"))
        assert len(pages) > 3
        for page in pages:
            here = site.folder / "build/html" / folder / page.name
            assert page.read_bytes() == here.read_bytes(), page
    assert (site.folder / "build/apart/llms.txt").read_bytes() == (site.folder / "build/html/llms.txt").read_bytes()


@pytest.mark.slow
def test_wrong_mathematics_is_named_when_several_processes_write(make_site):
    wrong = test_maths.page("wrong", [r"\frac{1"])
    site = make_site(test_maths.files() | {"wrong.rst": wrong})
    done = build_apart(site)
    assert done.returncode == 1
    assert f"{site.folder / 'wrong.rst'}:4: WARNING: KaTeX parse error" in done.stdout
    assert "Traceback" not in done.stdout
