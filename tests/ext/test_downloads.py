import json
import re
import shlex
import tomllib
import zipfile
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from packaging.specifiers import SpecifierSet

from _ext.downloads import DOCTOR, KERNELS, PUZZLES, PYZ, RECORD, ROOT, WHEEL, ZIP
from firstlight.records.record import code_digest
from firstlight_kernels.puzzles.attempts import worksheet

PLAIN = '"""\nAdd\n===\n\nText.\n"""\n# %%\n# More text.\n\nprint(1)\n'
ODD = "02_größer&'odd'"
FILES = {
    "install.rst": ":orphan:\n\nInstall\n=======\n\n"
    + " ".join(f":offered:`{x}`" for x in ("wheel", "doctor", "pyz", "record")),
    "examples/1_part/GALLERY_HEADER.rst": "Part\n----\n",
    "examples/1_part/01_add.py": PLAIN,
    f"examples/1_part/{ODD}.py": PLAIN.replace("print(1)", "from firstlight import Bench\nbench = Bench('odd')"),
    "examples/1_part/03_ask.py": PLAIN.replace("print(1)", "from firstlight_doctor import case"),
    "examples/1_part/04_image.py": PLAIN.replace(
        "print(1)",
        "from firstlight_imaging import GridCoords\nimport matplotlib.pyplot as plt\nplt.show()\ncheck = str\n\n"
        "# %%\n# Try.\nprint(check(1))",
    ),
    "examples/3_kernels/GALLERY_HEADER.rst": "Kernels\n-------\n",
    f"examples/{PUZZLES}.py": PLAIN.replace("Add\n===", "Solve\n====="),
}
PAGES = ("1_part/01_add", f"1_part/{ODD}", "1_part/03_ask", "1_part/04_image", PUZZLES)


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site(FILES)
    site.rebuild()
    return site


def test_the_install_page_names_todays_wheel_and_gives_conda_all_that_the_package_needs():
    """Its package goes in without what it depends on: conda once left two of them out, and chapter 4 did not start."""
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"firstlight-[\w.-]+\.whl", page)) == {WHEEL}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["imaging"]]
    command = page.partition("conda create")[2].partition("```")[0].replace("pytorch-gpu", "torch")
    words = {re.match(r"[\w-]*", word.strip('"'))[0] for word in command.split()}
    assert {re.match(r"[\w-]+", one)[0] for one in needed} - {"numba"} <= words  # numba comes with numba-cuda


def offered(site):
    """What the site offers, by name."""
    folder = site.folder / "build/html/downloads"
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def first_code(notebook):
    return next("".join(cell["source"]) for cell in json.loads(notebook)["cells"] if cell["cell_type"] == "code")


def told_to_uv(script):
    """The head of a script, which uv reads."""
    head = script.read_text(encoding="utf-8").partition("# ///\n")[0].replace("# /// script\n", "")
    return tomllib.loads(re.sub("^# ?", "", head, flags=re.MULTILINE))


def inline(script):
    """What a script tells uv that it needs, and the files that it names beside it."""
    told = told_to_uv(script)
    sources = told["tool"]["uv"]["sources"]
    return told["dependencies"], {name: Path(of["path"]).name for name, of in sources.items() if "path" in of}


def torch_of(script):
    """Where uv looks for PyTorch, for which systems: the index must be among those that the script names."""
    uv = told_to_uv(script)["tool"]["uv"]
    ((index, marker),) = ((of["index"], of["marker"]) for of in uv["sources"]["torch"])
    return {each["name"]: each["url"] for each in uv["index"]}[index], marker


def test_a_script_names_what_it_needs_and_its_code_is_still_that_of_the_page(site):
    for page in PAGES:
        script = offered(site)[f"{page}.py"]
        asked, files = inline(script)
        assert "torch==2.13.0" in asked
        assert torch_of(script) == ("https://download.pytorch.org/whl/cu130", "sys_platform == 'win32'")
        assert all((script.parent.parent / file).is_file() for file in files.values())
        ours = site.folder / f"examples/{page}.py"
        assert code_digest(script.read_text("utf-8")) == code_digest(ours.read_text("utf-8"))
        compile(script.read_text("utf-8"), script.name, "exec")


def test_uv_takes_no_python_that_has_no_wheels(site):
    pythons = SpecifierSet(told_to_uv(offered(site)[f"{PAGES[0]}.py"])["requires-python"])
    assert [*pythons.filter(["3.10", "3.11", "3.14", "3.15", "3.15.1"])] == ["3.11", "3.14"]


def test_what_is_offered(site):
    files = {f"{page}{end}" for page in PAGES for end in (".py", ".ipynb")} | {
        f"{KERNELS}{end}" for end in (".py", ".ipynb")
    }
    assert set(offered(site)) == files | {ZIP, WHEEL, DOCTOR, PYZ, RECORD}
    assert not (site.folder / "build/html/_downloads").exists(), "sphinx-gallery's own copies"
    with zipfile.ZipFile(offered(site)[ZIP]) as archive:
        assert set(archive.namelist()) == files | {"LICENSE", "README.txt", WHEEL, DOCTOR}
        for name in (WHEEL, DOCTOR):
            assert archive.read(name) == offered(site)[name].read_bytes()
        for name in (f"{page}.py" for page in PAGES):
            assert archive.read(name) == offered(site)[name].read_bytes().replace(b'"./', b'"../')
        notebook = first_code(archive.read("1_part/01_add.ipynb"))
    assert f'%pip install "../{WHEEL}"' in notebook
    assert f'%pip install "./{WHEEL}"' in first_code(offered(site)["1_part/01_add.ipynb"].read_text())
    compile(TransformerManager().transform_cell(notebook), "cell", "exec")
    with zipfile.ZipFile(offered(site)[WHEEL]) as wheel:
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    assert contents["firstlight/timing/bench.py"] == (ROOT / "src/firstlight/timing/bench.py").read_bytes()
    of_the_site = re.compile(rb"^\s*(from|import) (sphinx|docutils|myst)", re.MULTILINE)
    assert not [name for name, content in contents.items() if of_the_site.search(content) or name.endswith(".js")]


def test_the_puzzles_are_offered_with_gaps_alone(site):
    script = offered(site)[f"{KERNELS}.py"]
    asked, files = inline(script)
    assert "firstlight" in asked
    assert files == {"firstlight": WHEEL}
    assert torch_of(script) == ("https://download.pytorch.org/whl/cpu", "sys_platform != 'darwin'")
    assert code_digest(script.read_text("utf-8")) == code_digest(worksheet())
    notebook = json.loads(offered(site)[f"{KERNELS}.ipynb"].read_text("utf-8"))
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert "%pip install" in code[0]
    assert code_digest("\n".join(code[1:])) == code_digest(worksheet().partition('"""\n\n')[2])


@pytest.mark.parametrize(("page", "count"), [("../install", 4), *zip(PAGES, (4, 4, 5, 4, 6), strict=True)])
def test_links_lead_to_files(site, page, count):
    text = site.read(f"html/tutorials/{page}.html")
    links = re.findall(r'<a class="fl-offered" href="([^"]+)" download>', text)
    assert len(links) == count
    for link in links:
        assert ((site.folder / f"build/html/tutorials/{page}").parent / unquote(link)).is_file()
    assert "sphx-glr-download" not in text


def lines_for_uv(site, page):
    """The words of the lines that a page tells its reader to paste."""
    text = unescape(re.sub("<[^>]*>", "", site.read(f"html/tutorials/{page}.html")))
    return [shlex.split(line) for line in text.splitlines() if line.startswith("uv run ")]


def test_the_lines_that_run_and_record_a_script_can_be_pasted(site):
    run, record = lines_for_uv(site, PAGES[1])
    assert run[-1] == f"{ODD}.py"
    assert record[-5:] == ["firstlight", "record", f"{ODD}.py", "--to", "mine.json"]
    assert len(lines_for_uv(site, PAGES[0])) == 1  # it times nothing


def test_a_page_that_imports_the_doctor_brings_it_along(site):
    assert lines_for_uv(site, PAGES[2])[0] == ["uv", "run", "03_ask.py"]
    asked, files = inline(offered(site)[f"{PAGES[2]}.py"])
    assert {"firstlight", "firstlight-doctor"} <= set(asked)
    assert files == {"firstlight": WHEEL, "firstlight-doctor": DOCTOR}
    notebook = first_code(offered(site)[f"{PAGES[2]}.ipynb"].read_text())
    assert f'%pip install "./{WHEEL}" "./{DOCTOR}"' in notebook
    assert "firstlight_doctor" in notebook.partition("%pip")[0]
    assert "firstlight_doctor" not in first_code(offered(site)[f"{PAGES[0]}.ipynb"].read_text())


def test_a_page_on_imaging_brings_the_extra_along(site):
    run, *_, given = lines_for_uv(site, PAGES[3])
    assert run == ["uv", "run", "04_image.py"]
    assert "firstlight-imaging" in inline(offered(site)[f"{PAGES[3]}.py"])[0]
    asked, _ = inline(offered(site)[f"{PAGES[3]}.py"])
    assert given[-3:] == ["firstlight", "try", "04_image.py"]
    assert f"./{WHEEL}[imaging]" in given
    assert {one for one in asked if one.startswith("torch")} <= set(given)  # or uv fetches a second one
    notebook = first_code(offered(site)[f"{PAGES[3]}.ipynb"].read_text())
    assert f'%pip install "./{WHEEL}[imaging]"' in notebook
    assert "astropy" in notebook.partition("%pip")[0]


def test_where_the_address_is_known_notebooks_fetch_the_wheel_and_a_page_that_is_gone_is_offered_no_more(site):
    for path in (*site.folder.glob("tutorials/1_part/02_*"), site.folder / f"examples/1_part/{ODD}.py"):
        path.unlink()
    site.rebuild("html", "-E", "-D", "html_baseurl=https://site.example/docs/")
    notebook = offered(site)["1_part/01_add.ipynb"].read_text(encoding="utf-8")
    assert f'"https://site.example/docs/downloads/{WHEEL}"' in first_code(notebook)
    imaging = first_code(offered(site)[f"{PAGES[3]}.ipynb"].read_text(encoding="utf-8"))
    assert f'"firstlight-imaging @ https://site.example/docs/downloads/{WHEEL}"' in imaging
    assert "from this site" in site.read("html/tutorials/1_part/01_add.html")
    assert f"1_part/{ODD}.py" not in offered(site)


def test_what_every_page_says_of_its_downloads_is_not_searched(site):
    index = json.loads(site.read("html/searchindex.js").removeprefix("Search.setIndex(").removesuffix(")"))
    assert "text" in index["terms"], "the page's own word"
    assert not {"uv", "colab", "notebook"} & index["terms"].keys()


def test_where_the_repository_is_known_notebooks_open_in_colab_and_the_one_that_records_clones_it(site):
    assert RECORD not in site.read("html/install.html").partition("download>")[0]
    assert "colab.research" not in site.read("html/tutorials/1_part/01_add.html")
    site.rebuild("html", "-E", "-A", "repository=some/one", "-A", "notebooks=https://colab.example/some/one")
    assert r"REPOSITORY = \"some/one\"" in offered(site)[RECORD].read_text(encoding="utf-8")
    assert f'href="https://colab.example/some/one/{RECORD}">' in site.read("html/install.html")
    page = site.read(f"html/tutorials/{PAGES[4]}.html")
    assert f'href="https://colab.example/some/one/{PAGES[4]}.ipynb"' in page
    assert "Upload notebook" not in page


def test_other_builders_make_no_files(site):
    site.rebuild("dummy")
    assert not (site.folder / "build/dummy/downloads").exists()
