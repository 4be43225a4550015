import ast
import json
import re
import shlex
import sys
import tomllib
import zipfile
from html import unescape
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from _ext.course import tutorials_in
from _ext.downloads import PUZZLES, PYZ, RECORD, ROOT, WHEELS, WORKSHEET, ZIP, imports, needed
from firstlight.records.exercise import statements_of
from firstlight.records.record import code_digest
from firstlight.records.runner import block_keys
from firstlight_kernels.puzzles.attempts import worksheet

PLAIN = '"""\nAdd\n===\n\nText.\n"""\n# %%\n# More text.\n\nprint(1)\n'
TRIED = "check = str\n\n# %%\n# Run ``firstlight try 02.py``.\nprint(check(1))"
SOLVED = """
# %%
# Solution
# --------

# solution

print("Our solution: Right")

# %%
# To look up
# ----------
#
# All.
"""
ODD = "02_größer&'odd'"
FILES = {
    "install.rst": ":orphan:\n\nInstall\n=======\n\n"
    + " ".join(f":offered:`{x}`" for x in ("firstlight", "firstlight-doctor", "zip", "pyz", "record")),
    "examples/1_part/GALLERY_HEADER.rst": "Part\n----\n",
    "examples/1_part/01_add.py": PLAIN,
    f"examples/1_part/{ODD}.py": PLAIN.replace("print(1)", TRIED),
    "examples/1_part/03_ask.py": PLAIN.replace("print(1)", "from firstlight_doctor import case"),
    "examples/1_part/04_image.py": PLAIN.replace(
        "print(1)",
        f"from firstlight_imaging import GridCoords\nimport matplotlib.pyplot as plt\nplt.show()\n{TRIED}",
    ),
    "examples/1_part/05_lanes.py": PLAIN.replace(
        "print(1)",
        "import torch\nfrom firstlight_kernels import trace\ncheck = lambda x: (torch, trace, x)\nprint(check(1))",
    ),
    "examples/3_kernels/GALLERY_HEADER.rst": "Kernels\n-------\n",
    "examples/1_part/06_solved.py": PLAIN.replace("print(1)", f"{TRIED}\n{SOLVED}"),
    f"examples/{PUZZLES}.py": PLAIN.replace("Add\n===", "Solve\n====="),
}
NAMES = "01_add", ODD, "03_ask", "04_image", "05_lanes", "06_solved"
PAGES = (*(f"1_part/{name}" for name in NAMES), PUZZLES)
SOLUTION = "solutions/1_part/06_solved.py"
ADDRESS = "https://site.example/docs/"
NUMBA = "numba-cuda[cu13]; sys_platform != 'darwin'", "numba; sys_platform == 'darwin'"
TORCH = "torch==2.13.0"


@pytest.fixture(scope="module")
def site(make_site):
    """A site of which nobody has said where it will be."""
    site = make_site(FILES)
    site.rebuild()
    return site


@pytest.fixture(scope="module")
def known(make_site):
    """A site whose address is known."""
    site = make_site(FILES)
    site.rebuild("html", "-D", f"html_baseurl={ADDRESS}")
    return site


def needs(code):
    return needed(imports(ast.parse(code)))


def test_a_page_needs_what_it_imports_itself_or_through_modules_of_ours():
    assert needs("import math\nfrom firstlight.display import BLUE") == ["firstlight"]
    assert needs("def f():\n    from torch import nn") == ["firstlight", TORCH]
    assert needs("from firstlight import best_device") == ["firstlight", TORCH]
    assert needs("from firstlight.lessons.lanes import Lanes") == ["firstlight", "firstlight-kernels", *NUMBA]
    assert needs("from firstlight.lessons import lanes") == ["firstlight", "firstlight-kernels", *NUMBA]
    assert needs("import firstlight.lessons.svg") == ["firstlight"]
    assert needs("from numba import njit\nimport sklearn.datasets") == [
        *("firstlight", "firstlight-kernels", *NUMBA, "scikit-learn")
    ]
    assert set(needs("from firstlight_imaging.units import ARCSEC")) == {
        *("firstlight", "firstlight-imaging", "firstlight-kernels", *NUMBA, TORCH)
    }
    assert needs("from firstlight_doctor import case") == ["firstlight", "firstlight-doctor"]


def test_all_that_a_page_imports_is_asked_for_or_comes_with_what_is():
    """By what the four projects say that they need, each package and its extra for PyTorch."""
    brought = {}
    for name in WHEELS:
        folder = ROOT / name.removeprefix("firstlight").removeprefix("-")
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        brought[name] = {Requirement(one).name for one in project["dependencies"]}
    named = {"sklearn": "scikit-learn", "astropy": "astropy", "triton": "torch", "arcae": "firstlight-imaging"}
    for page in tutorials_in(ROOT):
        tree = ast.parse((ROOT / f"examples/{page}.py").read_text(encoding="utf-8"))
        asked = {Requirement(one).name for one in needed(imports(tree))}
        there = asked.union(*(brought.get(one, ()) for one in asked))
        tops = {name.partition(".")[0] for name in names_in(tree)}
        ours = {named.get(top, top.replace("_", "-")) for top in tops if top not in sys.stdlib_module_names}
        assert ours <= there, page


def names_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize(
    "page",
    [
        "1_setup/01_find_your_gpu",
        "1_setup/02_first_speedup",
        "1_setup/03_what_is_a_gpu",
        "2_devices/03_is_it_possible",
        "2_devices/04_small_copies",
    ],
)
def test_these_exercises_need_nothing_but_the_package(page):
    statements = statements_of((ROOT / f"examples/{page}.py").read_text(encoding="utf-8"))
    assert needed(imports(ast.Module(statements, []))) == ["firstlight"]


def test_the_install_page_gives_conda_all_that_the_packages_need():
    """They go in without what they depend on: conda once left two of them out, and chapter 4 did not start."""
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    asked = set()
    for folder in (ROOT, ROOT / "kernels", ROOT / "imaging", ROOT / "doctor"):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        asked |= {Requirement(one).name for one in project["dependencies"]}
    command = page.partition("conda create")[2].partition("```")[0].replace("pytorch-gpu", "torch")
    words = {re.match(r"[\w-]*", word.strip('"'))[0] for word in command.split()}
    assert asked - {"numba"} <= words  # numba comes with numba-cuda


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


@pytest.mark.parametrize("page", PAGES)
def test_a_script_names_what_it_needs_and_its_code_is_still_that_of_the_page(site, page):
    script = offered(site)[f"{page}.py"]
    told, text = told_to_uv(script), script.read_text(encoding="utf-8")
    source = (site.folder / f"examples/{page}.py").read_text("utf-8")
    assert told["dependencies"] == needs(source)
    where = {name: script.parent / of["path"] for name, of in told["tool"]["uv"]["sources"].items() if name != "torch"}
    assert where.keys() == WHEELS.keys() & set(told["dependencies"])
    assert all(file.is_file() for file in where.values())
    assert code_digest(text) in block_keys(source)[-2:]  # the last block may be our solution
    compile(text, script.name, "exec")


def test_on_windows_uv_takes_a_pytorch_with_gpu_code(site):
    uv = told_to_uv(offered(site)["1_part/04_image.py"])["tool"]["uv"]
    assert uv["sources"]["torch"] == [{"index": uv["index"][0]["name"], "marker": "sys_platform == 'win32'"}]
    assert uv["index"][0]["url"] == "https://download.pytorch.org/whl/cu130"


def test_uv_takes_no_python_that_has_no_wheels(site):
    pythons = SpecifierSet(told_to_uv(offered(site)[f"{PAGES[0]}.py"])["requires-python"])
    assert [*pythons.filter(["3.10", "3.11", "3.14", "3.15", "3.15.1"])] == ["3.11", "3.14"]


def test_what_is_offered(site):
    pages = {f"{page}{end}" for page in (*PAGES, WORKSHEET) for end in (".py", ".ipynb")}
    assert set(offered(site)) == pages | {ZIP, *WHEELS.values(), PYZ, RECORD, SOLUTION}
    assert not (site.folder / "build/html/_downloads").exists(), "sphinx-gallery's own copies"
    with zipfile.ZipFile(offered(site)[ZIP]) as archive:
        texts = {"LICENSE", "README.txt", "requirements.txt", "Dockerfile"}
        assert set(archive.namelist()) == pages | texts | {*WHEELS.values(), SOLUTION}
        for name in (*WHEELS.values(), *pages):
            assert archive.read(name) == offered(site)[name].read_bytes()
        installed = archive.read("requirements.txt").decode().split()
    assert [Path(file).name for file in installed[:-1]] == [*WHEELS.values()]
    with zipfile.ZipFile(offered(site)[WHEELS["firstlight"]]) as wheel:
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    assert contents["firstlight/timing/bench.py"] == (ROOT / "src/firstlight/timing/bench.py").read_bytes()
    of_the_site = re.compile(rb"^\s*(from|import) (sphinx|docutils|myst)", re.MULTILINE)
    assert not [name for name, content in contents.items() if of_the_site.search(content) or name.endswith(".js")]


def test_the_first_cell_of_a_notebook_installs_wheels_beside_it_or_in_the_folder_above(site, tmp_path, monkeypatch):
    cell = first_code(offered(site)["1_part/03_ask.ipynb"].read_text())
    assert (
        "%pip install " + " ".join(f'"{{folder}}/{WHEELS[name]}"' for name in ("firstlight", "firstlight-doctor"))
        in cell
    )
    python = TransformerManager().transform_cell(cell.replace("firstlight_doctor", "nowhere_to_be_found"))
    asked = []
    monkeypatch.chdir(tmp_path)
    for folder in ("..", "."):
        Path(tmp_path, folder, WHEELS["firstlight"]).touch()
        names = {"get_ipython": lambda: type("", (), {"run_line_magic": lambda _, *words: asked.append(words)})()}
        exec(python, names)
        assert names["folder"] == folder
        Path(tmp_path, folder, WHEELS["firstlight"]).unlink()
    assert len(asked) == 2
    exec(TransformerManager().transform_cell(cell), {})  # all is there: nothing is asked of IPython


def test_nobody_who_runs_all_cells_meets_our_solution(site):
    page, solution = "1_part/06_solved", offered(site)[SOLUTION].read_text("utf-8")
    for file in (f"{page}.py", f"{page}.ipynb"):
        text = offered(site)[file].read_text("utf-8")
        assert "Our solution" not in text
        assert text.index(SOLUTION) < text.index("All.")
    assert "Our solution: Right" in solution
    assert "All." not in solution


def test_the_puzzles_are_offered_with_gaps_alone(site):
    script = offered(site)[f"{WORKSHEET}.py"]
    assert told_to_uv(script)["dependencies"] == ["firstlight", "firstlight-kernels", *NUMBA]
    assert code_digest(script.read_text("utf-8")) == code_digest(worksheet())
    notebook = json.loads(offered(site)[f"{WORKSHEET}.ipynb"].read_text("utf-8"))
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert "%pip install" in code[0]
    assert code_digest("\n".join(code[1:])) == code_digest(worksheet().partition('"""\n\n')[2])


def test_the_puzzles_notebook_is_all_that_has_to_be_uploaded(site, known, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    asked = []
    names = {"get_ipython": lambda: type("", (), {"run_line_magic": lambda _, *words: asked.append(words)})()}
    notebook = json.loads(offered(site)[f"{WORKSHEET}.ipynb"].read_text("utf-8"))
    cell = next("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    exec(TransformerManager().transform_cell(cell), names)
    brought = {file.name for file in tmp_path.iterdir()}
    assert brought == {WHEELS["firstlight"], WHEELS["firstlight-kernels"]}
    for file in brought:
        assert (tmp_path / file).read_bytes() == offered(site)[file].read_bytes()
        assert f"./{file}" in asked[0][1].format(folder=".")
    assert "b64decode" not in offered(known)[f"{WORKSHEET}.ipynb"].read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "here", "there"), [("../install", 5, 5), *((page, 1, 3) for page in PAGES[:-1]), (PUZZLES, 1, 5)]
)
def test_links_lead_to_files(site, known, page, here, there):
    for one, count in ((site, here), (known, there)):
        text = one.read(f"html/tutorials/{page}.html")
        links = re.findall(r'<a class="fl-offered" href="([^"]+)" download>', text)
        assert len(links) == count
        for link in links:
            assert ((one.folder / f"build/html/tutorials/{page}").parent / unquote(link)).is_file()
        assert "sphx-glr-download" not in text


def lines_to_paste(site, page):
    """The words of the lines that a page tells its reader to paste."""
    text = unescape(re.sub("<[^>]*>", "", site.read(f"html/tutorials/{page}.html")))
    return [shlex.split(line) for line in text.splitlines() if re.match("uvx? ", line)]


def test_what_a_page_tells_its_reader_to_paste_runs_from_the_folder_of_the_zip(site):
    run, tried = lines_to_paste(site, PAGES[1])
    assert run == ["uv", "run", f"{PAGES[1]}.py"]
    assert tried == ["uvx", "--from", f"./{WHEELS['firstlight']}", "firstlight", "try", f"{PAGES[1]}.py"]
    assert lines_to_paste(site, PAGES[2]) == [["uv", "run", f"{PAGES[2]}.py"]]


def test_the_short_name_of_the_check_leads_to_the_line_that_runs_it(site):
    text = site.read(f"html/tutorials/{PAGES[1]}.html")
    (place,) = re.findall(r'<a class="[^"]*" href="#([^"]+)"><code[^>]*>(?:<[^>]*>)*firstlight', text)
    assert "uvx --from" in re.sub("<[^>]*>", "", text.partition(f'id="{place}"')[2])


def test_where_the_address_is_known_one_line_runs_a_page_from_there(known):
    (_, _, address), tried = lines_to_paste(known, PAGES[1])
    assert address == f"{ADDRESS}downloads/{quote(PAGES[1])}.py"
    there = f"{ADDRESS}downloads/{WHEELS['firstlight']}"
    assert tried == ["uvx", "--from", there, "firstlight", "try", f"{ODD}.py"]
    script = offered(known)[f"{PAGES[1]}.py"]
    assert told_to_uv(script)["tool"]["uv"]["sources"] == {"firstlight": {"url": there}}
    image = told_to_uv(offered(known)["1_part/04_image.py"])["tool"]["uv"]["sources"]
    assert image["firstlight-imaging"] == {"url": f"{ADDRESS}downloads/{WHEELS['firstlight-imaging']}"}
    with zipfile.ZipFile(offered(known)[ZIP]) as archive:
        assert archive.read(f"{PAGES[1]}.py") == script.read_bytes()


def test_a_line_that_tries_an_exercise_asks_for_what_its_check_needs_alone(site):
    """The page on imaging imports PyTorch, and its check does not."""
    assert TORCH in told_to_uv(offered(site)["1_part/04_image.py"])["dependencies"]
    assert lines_to_paste(site, "1_part/04_image")[1][:3] == ["uvx", "--from", f"./{WHEELS['firstlight']}"]
    assert "without PyTorch" in site.read("html/tutorials/1_part/04_image.html")
    line = lines_to_paste(site, "1_part/05_lanes")[1]
    wanted = (f"./{WHEELS['firstlight-kernels']}", *NUMBA, TORCH)
    assert line[3:-3] == [word for one in wanted for word in ("--with", one)]
    assert "without PyTorch" not in site.read("html/tutorials/1_part/05_lanes.html")


def test_where_the_address_is_known_notebooks_fetch_the_wheels_and_leave_pytorch_and_cuda_as_they_are(known):
    cell = first_code(offered(known)["1_part/04_image.ipynb"].read_text(encoding="utf-8"))
    wanted = shlex.split(cell.partition("%pip install ")[2])
    there = {f"{ADDRESS}downloads/{WHEELS[name]}" for name in WHEELS if name != "firstlight-doctor"}
    assert set(wanted) == there | {"torch", "numba-cuda; sys_platform != 'darwin'", NUMBA[1]}
    compile(TransformerManager().transform_cell(cell), "cell", "exec")
    assert "firstlight_doctor" in first_code(offered(known)["1_part/03_ask.ipynb"].read_text())
    assert "firstlight_doctor" not in first_code(offered(known)["1_part/01_add.ipynb"].read_text())


def test_what_every_page_says_of_its_downloads_is_not_searched(site):
    index = json.loads(site.read("html/_static/search-index.js").removeprefix("firstlightIndex = ").removesuffix(";\n"))
    words = {line.partition(" ")[0] for line in index["words"].splitlines()}
    assert "text" in words, "the page's own word"
    assert not {"uv", "colab", "notebook"} & words


def test_where_the_repository_is_known_notebooks_open_in_colab_and_a_page_that_is_gone_is_offered_no_more(site):
    for path in (*site.folder.glob("tutorials/1_part/02_*"), site.folder / f"examples/1_part/{ODD}.py"):
        path.unlink()
    assert RECORD not in site.read("html/install.html").partition("download>")[0]
    assert "colab.research" not in site.read("html/tutorials/1_part/01_add.html")
    address = ("-D", f"html_baseurl={ADDRESS}")
    site.rebuild("html", "-E", *address, "-A", "repository=some/one", "-A", "notebooks=https://colab.example/some/one")
    assert r"REPOSITORY = \"some/one\"" in offered(site)[RECORD].read_text(encoding="utf-8")
    assert f'href="https://colab.example/some/one/{RECORD}">' in site.read("html/install.html")
    assert f"1_part/{ODD}.py" not in offered(site)
    page = site.read(f"html/tutorials/{PUZZLES}.html")
    assert f'href="https://colab.example/some/one/{PUZZLES}.ipynb"' in page
    assert "Upload notebook" not in page


def test_other_builders_make_no_files(site):
    site.rebuild("dummy")
    assert not (site.folder / "build/dummy/downloads").exists()
