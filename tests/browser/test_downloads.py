"""What a reader takes home arrives whole, and runs where nothing else of ours is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from conftest import SITE
from packaging.requirements import Requirement

from _ext.downloads import ROOT, WHEELS, ZIP

# A quick page of each chapter, by what docs/tutorials/*/*.cost.json says.
QUICK = (
    "1_setup/02_first_speedup",
    "2_devices/07_timing_it_right",
    "3_kernels/01_first_kernel",
    "4_imaging/05_dirty_image",
)
RUN = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=120, resources={"metadata": {"path": "."}}).execute()
print("".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ())))
"""


@pytest.fixture(scope="module", params=QUICK)
def taken(request, browser, address, tmp_path_factory):
    """A page's name, and a folder with all that a reader takes: the zip, where nobody knows the site's address."""
    folder = tmp_path_factory.mktemp("taken")
    page = browser.new_page()
    page.goto(f"{address}/tutorials/{request.param}.html")
    with page.expect_download() as download:
        page.locator("#run-it-yourself a.fl-offered").click()
    download.value.save_as(folder / ZIP)
    page.close()
    with zipfile.ZipFile(folder / ZIP) as archive:
        archive.extractall(folder)
    return request.param, folder


def test_every_file_arrives_whole(taken):
    page, folder = taken
    for file in (ZIP, *WHEELS.values(), f"{page}.py", f"{page}.ipynb"):
        assert (folder / file).read_bytes() == (SITE / "downloads" / file).read_bytes()
    examples = {path.relative_to(ROOT / "examples").with_suffix("") for path in (ROOT / "examples").glob("*/*.py")}
    for end in (".py", ".ipynb"):
        assert {path.relative_to(folder).with_suffix("") for path in folder.glob(f"*/*{end}")} == examples | {
            Path("3_kernels/sixteen_kernels")
        }


def needed(*names):
    """The distributions that these ask for, an extra after its name, and those that they ask for in turn, and so on."""
    ahead, seen = [(name, extra) for name, _, extra in (one.partition("+") for one in names)], set()
    while ahead:
        name, extra = ahead.pop()
        if (name, extra) not in seen:
            seen.add((name, extra))
            for one in map(Requirement, metadata.requires(name) or ()):
                if one.marker is None or one.marker.evaluate({"extra": extra}):
                    ahead += [(one.name, more) for more in ("", *one.extras)]
    return {name for name, _ in seen}


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """A Python with what the wheels and pages ask for and what opens notebooks, lent by this environment."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder)
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    there = Path(said(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    asked = needed(*WHEELS, "firstlight-kernels+cuda", "scikit-learn", "nbclient", "ipykernel", "pip")
    for name in asked - WHEELS.keys():
        found = metadata.distribution(name)
        for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
            if not (there / top).exists():
                (there / top).symlink_to(found.locate_file(top))
    yield python
    shutil.rmtree(folder)


def pip(python, *arguments):
    done = said(python, "-m", "pip", "install", "--quiet", *arguments)
    assert done.returncode == 0, done.stderr


def said(python, *arguments, **options):
    """Run it where neither this checkout, nor a screen, nor a network can be seen: what is lent is never replaced."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env |= {"MPLBACKEND": "Agg", "PIP_NO_INDEX": "1"}
    command = [python, *map(str, arguments)]
    options |= {
        "env": env,
        "capture_output": True,
        "encoding": "utf-8",
        "errors": "replace",
    }
    return subprocess.run(command, **options)


def test_script_and_notebook_run_where_nothing_else_is(taken, fresh):
    page, folder = taken
    chapter, name = page.split("/")
    wheels = re.findall('path = "../(.*)"', (folder / f"{page}.py").read_text(encoding="utf-8"))
    pip(fresh, *(folder / wheel for wheel in wheels))
    done = said(fresh, "-m", "firstlight", "record", f"{name}.py", "--to", "mine.json", cwd=folder / chapter)
    assert done.returncode == 0, done.stderr
    printed = set(done.stdout.splitlines())
    shown = re.search('data-code="([^"]+)"', (SITE / f"tutorials/{page}.html").read_text(encoding="utf-8"))
    mine = json.loads((folder / chapter / "mine.json").read_text(encoding="utf-8"))
    assert mine["metadata"]["code_sha256"] in shown[1].split(), "the page takes the record of its script"

    said(fresh, "-m", "pip", "uninstall", "--yes", *WHEELS)
    assert said(fresh, "-c", "import firstlight", cwd=folder).returncode != 0, "it comes from somewhere else"
    done = said(fresh, "-c", RUN, f"{name}.ipynb", cwd=folder / chapter)
    assert done.returncode == 0, done.stderr
    assert len(printed & set(done.stdout.splitlines())) > 1, "they print the same, times apart"
    done = said(fresh, "-c", "import firstlight; print(firstlight.__file__)", cwd=folder)
    assert Path(done.stdout).is_relative_to(Path(fresh).parents[1]), "the first cell installed it"


def test_the_doctor_needs_no_more_than_its_download(browser, address, tmp_path):
    page = browser.new_page()
    page.goto(f"{address}/doctor.html")
    with page.expect_download() as download:
        page.get_by_role("link", name="firstlight-doctor.pyz").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    page.close()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, file], env=env, capture_output=True, text=True)
    assert "PyTorch is not installed" in done.stdout
    assert "Diagnosis" in done.stdout
    assert done.stderr == ""
