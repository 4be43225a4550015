"""The notebook and the workflow that record on a lent GPU, run on a card that is not there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import nbformat
import pytest
import yaml
from nbclient import NotebookClient
from samples import record_of

from firstlight.records.record import from_json, to_json
from firstlight.records.recorder import scripts_named
from projects import SOURCES

HERE = Path(__file__).parent
ROOT = HERE.parent
NOTEBOOK = ROOT / "maintaining" / "record.ipynb"
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/record.yml").read_text(encoding="utf-8"))
INPUTS = WORKFLOW[True]["workflow_dispatch"]["inputs"]  # YAML reads "on" as true
PAGES = ["2_devices/13", "3_kernels/01"]
MACHINE = "nvidia-h100-80gb-hbm3"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the rehearsal needs Linux: its driver is a libcuda.so.1")

PROGRAMS = {
    "nvidia-smi": "echo 550.54.15",
    "pip": 'echo "$@" >> "$LOG/pip"',
    "firstlight-doctor": "echo healthy",
    "gh": 'echo "$@" >> "$LOG/gh"',
    "firstlight": f'PLAY=1 exec {sys.executable} -m firstlight "$@"',
    "python": f'exec {sys.executable} "$@"',
}
PLAY = """
import os

if os.environ.get("PLAY"):
    import standin

    standin.install(standin.CARDS["h100"])
"""
COLAB = """
import os
import shutil


def download(name):
    shutil.copy(name, os.environ["LOG"])
"""


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def git(folder, *command):
    author = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    subprocess.run(["git", "-C", folder, *author, *command], check=True, capture_output=True)


@pytest.fixture
def lent(tmp_path, monkeypatch):
    """A machine with a card that is played: programs that note what they were asked, and a repository to clone."""
    there = tmp_path / "repository"
    for folder in ("examples", "tools", *(Path(source).relative_to(ROOT) for source in SOURCES)):
        shutil.copytree(ROOT / folder, there / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "constraints.txt", there)
    for name, sizes in tomllib.loads((HERE / "sizes.toml").read_text(encoding="utf-8")).items():
        page = there / "examples" / f"{name}.py"
        text = page.read_text(encoding="utf-8")
        for old, new in sizes.items():
            text = text.replace(old, new)
        page.write_text(text, encoding="utf-8")
    other = record_of(example="3_kernels/01_first_kernel")
    write(there / f"records/{other.machine}/{other.example}.json", to_json(other))
    git(tmp_path, "init", "--quiet", "--initial-branch=main", there)
    git(there, "add", ".")
    git(there, "commit", "--quiet", "--message=All")
    for name, body in PROGRAMS.items():
        write(tmp_path / "bin" / name, f"#!/bin/sh\n{body}\n", 0o755)
    write(tmp_path / "site/sitecustomize.py", PLAY)
    write(tmp_path / "site/google/colab/files.py", COLAB)
    (tmp_path / "log").mkdir()
    paths = (tmp_path / "site", HERE, *SOURCES)
    for name, value in {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "LOG": str(tmp_path / "log"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{there}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/someone/first-light",
        "OMP_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def run_notebook(folder, repository):
    """Run the notebook on one page; return all that it printed."""
    text = NOTEBOOK.read_text(encoding="utf-8").replace(r"RY = \"\"", rf"RY = \"{repository}\"")
    notebook = nbformat.reads(text, as_version=4)
    cell = next(cell for cell in notebook.cells if cell.source.startswith("PAGES"))
    cell.source = re.sub(r"\(.*?\)", repr(PAGES[1]), cell.source, count=1, flags=re.DOTALL)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))


@on_linux
def test_the_notebook_gives_a_zip_of_records(lent):
    said = run_notebook(lent, "someone/first-light")
    with zipfile.ZipFile(lent / "log/records.zip") as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        records = [from_json(archive.read(name).decode()) for name in names]
    assert {f"{record.machine}/{record.example}.json" for record in records} == set(names)
    assert [record.machine for record in records] == [MACHINE]
    assert all(row in said for record in records for row in record.timings)
    assert record_of().facts["device_name"] in said, "beside what is known"
    assert "torch" not in (lent / "log/pip").read_text(), "the machine keeps its own"


@on_linux
@pytest.mark.parametrize("lacks", ["a GPU", "a repository"])
def test_a_notebook_that_lacks_something_says_so_and_does_nothing(lent, lacks):
    if lacks == "a GPU":
        write(lent / "bin/nvidia-smi", "#!/bin/sh\nexit 9\n", 0o755)
    assert run_notebook(lent, "" if lacks == "a repository" else "someone/first-light")
    assert not list((lent / "log").iterdir())


def run_job(folder, job, driver="echo 580.95.05", steps=None):
    """Run a job's own commands in a checkout, its first steps or all; return whether each succeeded."""
    write(folder / "bin/nvidia-smi", f"#!/bin/sh\n{driver}\n", 0o755)
    if not (checkout := folder / job).exists():
        git(folder, "clone", "--quiet", folder / "repository", checkout)
    env, done = os.environ | {"GITHUB_RUN_ID": "7", "PAGES": " ".join(PAGES)}, []
    for step in [step for step in WORKFLOW["jobs"][job]["steps"] if "run" in step][:steps]:
        if all(done):
            done.append(subprocess.run(["bash", "-e", "-c", step["run"]], cwd=checkout, env=env).returncode == 0)
    return done


@on_linux
@pytest.mark.parametrize(("driver", "cuda"), [("550.54.15", "12.6"), ("580.95.05", "13.0")])
def test_the_workflow_installs_what_fits_the_driver(lent, driver, cuda):
    assert run_job(lent, "record", f"echo {driver}", steps=1) == [True]
    installed = (lent / "log/pip").read_text()
    assert f"numba-cuda[cu{cuda[:2]}] cuda-toolkit=={cuda}.*" in installed
    assert f"whl/cu{cuda.replace('.', '')} " in installed
    pins = (lent / "record/pins.txt").read_text()
    assert "torch==" in pins
    assert not re.search("^(nvidia|cuda)", pins, re.MULTILINE)


@pytest.mark.slow
@on_linux
def test_the_workflow_opens_a_pull_request_even_if_a_page_fails(lent):
    broken, page = scripts_named(PAGES, lent / "repository/examples")
    write(broken, "print(1 / 0)\n")
    git(lent / "repository", "commit", "--all", "--message=Break a page")
    assert run_job(lent, "record") == [True, True]
    git(lent, "clone", "--quiet", lent / "repository", lent / "propose")
    for name in WORKFLOW["jobs"]["record"]["steps"][-1]["with"]["path"].split():  # what the artifact hands over
        there = lent / "propose/recorded" / name
        there.parent.mkdir(exist_ok=True)
        (lent / "record" / name).rename(there)
    assert run_job(lent, "propose") == [True]
    git(lent / "repository", "switch", "record-7")
    (file,) = (lent / "repository/records" / MACHINE).glob("*/*.json")
    record = from_json(file.read_text(encoding="utf-8"))
    assert record.example == f"{page.parent.name}/{page.stem}"
    body = (lent / "propose/body.md").read_text(encoding="utf-8")
    assert "ZeroDivisionError" in body
    assert all(row in body for row in record.timings)
    assert MACHINE in (lent / "log/gh").read_text()


@on_linux
def test_a_runner_without_a_gpu_ends_at_once(lent):
    assert run_job(lent, "record", "exit 9") == [False]
    assert not list((lent / "log").iterdir())


def test_both_record_the_same_pages_each_of_which_there_is():
    cell = next(cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if "PAGES" in cell["source"][0])
    names = re.findall(r"\d_\w+/\d+", "".join(cell["source"]))
    assert INPUTS["pages"]["default"].split() == names
    assert len(scripts_named(names)) == len(names)
