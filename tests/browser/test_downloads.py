"""What a reader takes home arrives whole, and runs where nothing else of ours is."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
from conftest import SITE, missing

from firstlight.sphinxext.downloads import ROOT, WHEEL

# A quick page of each chapter, by what docs/tutorials/*/*.cost.json says.
QUICK = ("1_setup/02_first_speedup", "2_devices/06_memory", "3_kernels/01_first_kernel", "4_imaging/01_visibilities")
RUN = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=120, resources={"metadata": {"path": "."}}).execute()
print("".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ())))
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Print no line for each request."""


@pytest.fixture(scope="module")
def address():
    """The site as it is served, on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module", params=QUICK)
def taken(request, browser, address, tmp_path_factory):
    """A page's name, and a folder with everything that a reader can take from it."""
    if not (SITE / f"tutorials/{request.param}.html").exists():
        missing(f"there is no page {request.param} in {SITE}: build the site first (make docs)")
    folder = tmp_path_factory.mktemp("taken")
    page = browser.new_page()
    page.goto(f"{address}/tutorials/{request.param}.html")
    for link in page.locator("#run-it-yourself a.fl-offered").all():
        with page.expect_download() as download:
            link.click()
        download.value.save_as(folder / download.value.suggested_filename)
    page.close()
    with zipfile.ZipFile(folder / f"{request.param.partition('/')[0]}.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(folder)
    return request.param, folder


def test_every_file_arrives_whole(taken):
    page, folder = taken
    chapter = page.partition("/")[0]
    for file in (f"{chapter}.zip", f"{page}.py", f"{page}.ipynb"):
        assert (folder / Path(file).name).read_bytes() == (SITE / "downloads" / file).read_bytes()
    assert (folder / chapter / WHEEL).read_bytes() == (SITE / "downloads" / WHEEL).read_bytes()
    examples = {path.stem for path in (ROOT / "examples" / chapter).glob("*.py")}
    for end in (".py", ".ipynb"):
        assert {path.stem for path in (folder / chapter).glob(f"*{end}")} == examples


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """A Python with nothing but what the wheel asks for, and what opens notebooks, in the versions of the site."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    torch = re.search("(?m)^torch==.*", (ROOT / "constraints.txt").read_text(encoding="utf-8"))[0]
    pip(
        python,
        "--no-compile",
        "--constraint",
        ROOT / "constraints.txt",
        SITE / "downloads" / WHEEL,
        torch,
        "nbclient",
        "ipykernel",
    )
    yield python
    shutil.rmtree(folder)


def pip(python, *arguments):
    done = said(python, "-m", "pip", "install", "--quiet", *arguments)
    assert done.returncode == 0, done.stderr


def said(python, *arguments, **options):
    """Run it where neither this checkout nor a screen can be seen."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [python, *map(str, arguments)]
    options |= {"env": env | {"MPLBACKEND": "Agg"}, "capture_output": True, "encoding": "utf-8", "errors": "replace"}
    return subprocess.run(command, **options)


def test_script_and_notebook_run_where_nothing_else_is(taken, fresh):
    page, folder = taken
    chapter, name = page.split("/")
    pip(fresh, "--no-deps", folder / chapter / WHEEL)
    done = said(fresh, f"{name}.py", "--record", "mine.json", cwd=folder / chapter)
    assert done.returncode == 0, done.stderr
    printed = set(done.stdout.splitlines())
    shown = re.search('data-code="([^"]+)"', (SITE / f"tutorials/{page}.html").read_text(encoding="utf-8"))
    mine = json.loads((folder / chapter / "mine.json").read_text(encoding="utf-8"))
    assert mine["metadata"]["code_sha256"] == shown[1], "the page takes the record of its script"

    said(fresh, "-m", "pip", "uninstall", "--yes", "firstlight")
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
        page.locator("a.fl-offered").click()
    wheel = tmp_path / download.value.suggested_filename
    download.value.save_as(wheel)
    page.close()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    env = {**os.environ, "PYTHONPATH": str(wheel)}
    done = subprocess.run([python, "-m", "firstlight", "doctor"], env=env, capture_output=True, text=True)
    assert "PyTorch is not installed" in done.stdout
    assert "Diagnosis" in done.stdout
    assert done.stderr == ""
