from __future__ import annotations

import ast
import html
import io
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote

import pytest
from hatchling.builders.wheel import WheelBuilder
from IPython.core.inputtransformer2 import TransformerManager
from packaging.requirements import Requirement

import firstlight
from _ext import downloads
from _ext.downloads import EXTRA, PYTHON, ROOT, WHEEL, extra, notebook_for, script_for, zipped
from firstlight.measure.records import code_digest
from firstlight.measure.runner import block_keys

PLAIN = '"""\nAdd\n===\n\nText.\n"""\n# %%\n# More text.\n\nprint(1)\n'
LEARNS = (
    '"""\nLearn\n=====\n"""\n# %%\n# Text: import triton is no import.\n\n'
    "if 0:\n    from sklearn.datasets import load_iris\n"
)
ODD = "02_größer&'odd'"
FILES = {
    "install.rst": ":orphan:\n\nInstall\n=======\n\nTake :offered:`wheel`.\n",
    "examples/1_part/GALLERY_HEADER.rst": "Part\n----\n",
    "examples/1_part/01_add.py": PLAIN,
    f"examples/1_part/{ODD}.py": LEARNS,
    "examples/2_part/GALLERY_HEADER.rst": "Other part\n----------\n",
    "examples/2_part/03_other.py": PLAIN,
}
EXAMPLES = sorted((ROOT / "examples").glob("*/*.py"))


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site(FILES).build("html")
    assert not site.failed, site.log
    return site


def offered(site):
    """What the site offers, by name."""
    folder = site.folder / "build/html/downloads"
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def header(script):
    """What an installer reads in a script."""
    (block,) = re.findall(r"(?m)^# /// script$\s(?P<content>(?:^#(?:| .*)$\s)+)^# ///$", script)
    return tomllib.loads("".join(line[2:] or "\n" for line in block.splitlines(keepends=True)))


def first_code(notebook):
    return next("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")


def test_what_is_offered(site):
    pages = {"1_part/01_add", f"1_part/{ODD}", "2_part/03_other"}
    scripts = {f"{page}{end}" for page in pages for end in (".py", ".ipynb")}
    assert set(offered(site)) == scripts | {"1_part.zip", "2_part.zip", WHEEL}
    assert not (site.folder / "build/html/_downloads").exists(), "sphinx-gallery's own copies"
    with zipfile.ZipFile(offered(site)["1_part.zip"]) as archive:
        mine = {name for name in scripts if name.startswith("1_part/")}
        assert set(archive.namelist()) == mine | {f"1_part/{name}" for name in ("LICENSE", "README.txt", WHEEL)}
        for name in mine | {f"1_part/{WHEEL}"}:
            assert archive.read(name) == offered(site)[name if name in mine else WHEEL].read_bytes()
        readme = archive.read("1_part/README.txt").decode()
    assert f'pip install {WHEEL} "scikit-learn>=1.6"\n    python 01_add.py' in readme
    with zipfile.ZipFile(offered(site)[WHEEL]) as wheel:
        assert wheel.testzip() is None
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    assert contents["firstlight/measure/bench.py"] == (ROOT / "src/firstlight/measure/bench.py").read_bytes()
    of_the_site = re.compile(rb"^\s*(from|import) (sphinx|docutils|myst)", re.MULTILINE)
    assert not [name for name, content in contents.items() if of_the_site.search(content) or name.endswith(".js")]


@pytest.mark.parametrize("page", ["1_part/01_add", f"1_part/{ODD}", "2_part/03_other", "1_part/index", "../install"])
def test_links_lead_to_files_and_tell_their_size(site, page):
    text = site.read(f"html/tutorials/{page}.html")
    links = re.findall(r'<a class="fl-offered" href="([^"]+)" download>.*?</a> \(([\d.]+)\xa0([kM])B\)', text)
    wanted = {"1_part/index": 1, "../install": 1}.get(page, 4)
    assert len(links) == wanted
    for link, number, unit in links:
        there = (site.folder / f"build/html/tutorials/{page}").parent / unquote(link)
        assert abs(there.stat().st_size / {"k": 1e3, "M": 1e6}[unit] - float(number)) <= (1 if unit == "k" else 0.05)
    assert "sphx-glr-download" not in text
    lines = {"1_part/01_add": "uv run 01_add.py", f"1_part/{ODD}": f"uv run {shlex.quote(ODD + '.py')}"}
    assert lines.get(page, "") in html.unescape(re.sub("<[^>]*>", "", text))


def test_nothing_is_written_twice_and_bytes_do_not_depend_on_the_day(site):
    before = {name: (path.stat().st_mtime_ns, path.read_bytes()) for name, path in offered(site).items()}
    assert site.rebuild() == "0 added, 0 changed, 0 removed"
    assert {name: (path.stat().st_mtime_ns, path.read_bytes()) for name, path in offered(site).items()} == before
    shutil.rmtree(site.folder / "build/html/downloads")
    site.rebuild()
    assert {name: path.read_bytes() for name, path in offered(site).items()} == {n: b for n, (_, b) in before.items()}


def test_where_the_address_is_known_single_files_fetch_the_wheel_and_the_archive_stays_whole(site):
    site.rebuild("html", "-D", "html_baseurl=https://site.example/docs/")
    address = f"https://site.example/docs/downloads/{WHEEL}"
    script = offered(site)["1_part/01_add.py"].read_text(encoding="utf-8")
    notebook = json.loads(offered(site)["1_part/01_add.ipynb"].read_text(encoding="utf-8"))
    assert header(script) == {"requires-python": PYTHON, "dependencies": [f"firstlight @ {address}"]}
    assert json.dumps(address) in first_code(notebook)
    with zipfile.ZipFile(offered(site)["1_part.zip"]) as archive:
        assert header(archive.read("1_part/01_add.py").decode())["tool"]["uv"]["sources"]["firstlight"]["path"] == WHEEL
        assert f'"./{WHEEL}"' in first_code(json.loads(archive.read("1_part/01_add.ipynb")))
    page = site.read("html/tutorials/1_part/01_add.html")
    assert "from this site" in page
    assert "Upload notebook" in page
    assert "beside them" not in page


def test_a_longer_script_changes_its_own_chapter_and_the_sizes_on_every_page_of_it(site):
    site.rebuild()
    before = {name: path.stat().st_mtime_ns for name, path in offered(site).items()}
    noise = "".join(f"# {os.urandom(40).hex()}\n" for _ in range(9000))
    site.write("examples/1_part/01_add.py", PLAIN + noise)
    assert site.rebuild() == "0 added, 1 changed, 0 removed"
    now = {name: path.stat().st_mtime_ns for name, path in offered(site).items()}
    assert {name for name in now if now[name] != before[name]} == {
        "1_part/01_add.py", "1_part/01_add.ipynb", "1_part.zip"}  # fmt: skip
    size = f"{offered(site)['1_part.zip'].stat().st_size / 1e6:.1f}\xa0MB"
    for page in ("01_add", ODD, "index"):
        assert size in site.read(f"html/tutorials/1_part/{page}.html"), page


def test_a_notebook_that_is_missing_is_named(site):
    (site.folder / "tutorials/1_part/01_add.ipynb").unlink()
    assert site.build("html").failed
    assert re.search(r"01_add\.ipynb .*01_add\.py\.md5", site.log)
    (site.folder / "tutorials/1_part/01_add.py.md5").unlink()
    site.rebuild()


def test_what_is_not_offered_fails_the_build_and_a_page_that_is_gone_is_offered_no_more(site):
    for path in (*site.folder.glob("tutorials/2_part/03_other.*"), site.folder / "examples/2_part/03_other.py"):
        path.unlink()
    site.write("install.rst", ":orphan:\n\nInstall\n=======\n\n:offered:`3_part.zip`\n")
    assert site.build("html").failed
    assert re.search(r"install: .*'3_part\.zip'.* 1_part\.zip, 1_part/01_add\.ipynb", site.log)
    assert not {"2_part/03_other.py", "2_part/03_other.ipynb"} & set(offered(site))


def test_other_builders_name_the_files_and_make_none(site):
    site.write("install.rst", FILES["install.rst"])
    site.rebuild("text")
    assert f'"{ODD}.py"' in site.read(f"text/tutorials/1_part/{ODD}.txt")
    assert not (site.folder / "build/text/downloads").exists()


def test_a_header_changes_no_hash():
    """A record of a downloaded script is one of the page's code."""
    for text in (PLAIN, LEARNS, *(path.read_text(encoding="utf-8") for path in EXAMPLES[::9])):
        headed = script_for(text, f"https://site.example/{WHEEL}")
        assert headed != text
        assert code_digest(headed) == code_digest(text)
        assert block_keys(headed) == block_keys(text)
        assert ast.get_docstring(ast.parse(headed)) == ast.get_docstring(ast.parse(text))


def test_what_examples_import_is_what_their_headers_ask_for():
    """Python's own library, our package and what it needs, and what the header adds; nothing else."""
    needed = {Requirement(text).name for text in metadata.requires("firstlight") or ()}
    brings = {module for module, names in metadata.packages_distributions().items() if needed & set(names)}
    known = {*sys.stdlib_module_names, *brings, "firstlight", "cuda"}  # cuda.bindings comes with numba-cuda
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        tree = list(ast.walk(ast.parse(text)))
        modules = {alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module or "" for node in tree if isinstance(node, ast.ImportFrom)}
        tops = {module.partition(".")[0] for module in modules}
        assert tops - known == set(extra(text)), path


def test_requirements_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["requires-python"] == PYTHON
    assert set(EXTRA.values()) <= {need for need in project["dependency-groups"]["docs"] if isinstance(need, str)}


@pytest.mark.parametrize(
    ("found", "installs"),
    [
        ({"firstlight", "sklearn"}, None),
        ({"firstlight"}, '"scikit-learn>=1.6"'),
        (set(), f'"./{WHEEL}" "scikit-learn>=1.6"'),
    ],
)
def test_the_first_cell_installs_what_cannot_be_found(monkeypatch, found, installs):
    content = {"cells": [{"cell_type": "markdown", "source": ["# Learn"]}], "nbformat": 4}
    cell = first_code(json.loads(notebook_for(content, LEARNS, WHEEL)))
    assert content["cells"][1:] == [], "what was given is left alone"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name in found or None)
    space, ran = {}, []
    magic = type("Shell", (), {"run_line_magic": lambda self, name, line: ran.append((name, line, space["missing"]))})
    space["get_ipython"] = magic
    exec(TransformerManager().transform_cell(cell), space)
    assert ran == ([("pip", "install {missing}", installs)] if installs else [])


def test_an_archive_does_not_depend_on_the_order():
    one = zipped({"b": b"2", "ä": b"1"})
    assert one == zipped({"ä": b"1", "b": b"2"})
    with zipfile.ZipFile(io.BytesIO(one)) as archive:
        assert archive.namelist() == ["b", "ä"]
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o644}


def test_the_wheel_is_built_when_something_in_it_is_newer(tmp_path, monkeypatch, pack_wheel):
    monkeypatch.setattr(WheelBuilder, "build", pack_wheel)
    made = tmp_path / WHEEL
    made.write_bytes(b"as it was")
    assert downloads.wheel_in(tmp_path) == b"as it was"
    newest = Path(firstlight.__file__)
    os.utime(made, (newest.stat().st_mtime - 1,) * 2)
    built = downloads.wheel_in(tmp_path)
    assert zipfile.is_zipfile(io.BytesIO(built))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1580601600")  # what hatchling takes when nothing is said
    assert downloads.wheel_in(tmp_path) == built
