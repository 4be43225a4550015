"""What readers take home: the pages as scripts and notebooks, our wheels that they import, and the doctor."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import time
import tomllib
import zipfile
from base64 import b64encode
from functools import cache
from html import escape
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from docutils import nodes
from jinja2 import Template
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxRole
from sphinx_gallery.notebook import jupyter_notebook
from sphinx_gallery.py_source_parser import remove_config_comments, split_code_and_text_blocks

import firstlight
import firstlight_doctor
import firstlight_imaging
import firstlight_kernels
from _ext.holds import BLOCK
from _ext.notebooks import in_words, to_pages
from _ext.prose import example_by_bench
from _ext.records import judge_records, project_root, relative_root
from firstlight.records.exercise import SOLUTION, statements_of
from firstlight.records.runner import SAVING, split
from firstlight_kernels.puzzles.attempts import worksheet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sphinx.application import Sphinx

ROOT = Path(firstlight.__file__).parents[2]
FOLDERS = (ROOT, *(ROOT / name for name in ("kernels", "imaging", "doctor")))


def last_change() -> str:
    """Return when our packages last changed, as digits: by git, or by their files where there is none."""
    sources = [folder / "src" for folder in FOLDERS]
    try:
        git = ["git", "log", "-1", "--format=%ct", "--", *map(str, sources)]
        told = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        told = ""
    files = (file for source in sources for file in source.rglob("*.py"))
    return time.strftime("%Y%m%d%H%M", time.gmtime(int(told or max(file.stat().st_mtime for file in files))))


#: What is offered is newer than the release whose version it has: pip keeps old code if the version is the same.
VERSION = f"{firstlight.__version__}.post{last_change()}"
#: The file of each of our distributions.
WHEELS = {
    package.__name__.replace("_", "-"): f"{package.__name__}-{VERSION}-py3-none-any.whl"
    for package in (firstlight, firstlight_kernels, firstlight_imaging, firstlight_doctor)
}
ZIP, PYZ, RECORD = "first-light.zip", "firstlight-doctor.pyz", "maintaining/record.ipynb"
OFFERED = WHEELS | {"zip": ZIP, "pyz": PYZ, "record": RECORD}
PUZZLES, WORKSHEET = "3_kernels/14_puzzles", "3_kernels/sixteen_kernels"

# One CUDA for both. `firstlight try` asks for the same PyTorch, or uv would fetch a second one.
TORCH = "torch==2.13.0"
NUMBA = ("firstlight-kernels", "numba-cuda[cu13]; sys_platform != 'darwin'", "numba; sys_platform == 'darwin'")
#: What to install for what is imported; all else comes with these.
NEEDS = {
    "firstlight": ("firstlight",),
    "firstlight_kernels": NUMBA,
    "numba": NUMBA,
    "firstlight_imaging": ("firstlight-imaging", *NUMBA, TORCH),  # on an NVIDIA GPU the step of a fit is a kernel
    "firstlight_doctor": ("firstlight-doctor",),
    "sklearn": ("scikit-learn",),
    "arcae": ("arcae>=0.5.8; sys_platform == 'linux' or (sys_platform == 'darwin' and platform_machine == 'arm64')",),
    "torch": (TORCH,),
}

TEMPLATES = ROOT / "docs/_templates"
FIRST_CELL = """\
# Installs what this notebook needs where it is missing; elsewhere it does nothing.
from importlib.util import find_spec

if not all(map(find_spec, {modules})):
{look}    %pip install {packages}"""
LOOK = f"""\
    from pathlib import Path

    folder = ".." if Path("../{WHEELS["firstlight"]}").is_file() else "."  # here, as in Google Colab
"""

# In a notebook that is uploaded alone.
BROUGHT = """\
    from base64 import b64decode

    for name, wheel in {wheels}.items():
        if not Path(folder, name).is_file():
            Path(name).write_bytes(b64decode(wheel))
"""

#: Stands where a page has its solution.
APART = """\
# %%
# Solution
# --------
#
# It has a file of its own:
# ``{solution}``.
# When you have tried, this line shows in the notebook of this page what it prints:
# ``%run -i ../{solution}``"""


def imports(tree: ast.AST) -> list[str]:
    """Return what some code imports of what NEEDS knows, itself or through modules of ``firstlight``."""
    found, waiting = set[str](), [("", tree)]
    for package, code in waiting:
        for node in ast.walk(code):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            names = {one.name for one in node.names}
            if isinstance(node, ast.ImportFrom):
                module = f"{package}.{node.module}" if node.level else node.module  # the first is a stub's
                names = {f"{module}", *(f"{module}.{name}" for name in names)}
            for name in names - found:
                at = ROOT.joinpath("src", *name.split("."))
                files = filter(Path.is_file, (at / "__init__.pyi", at.with_suffix(".py")))
                waiting += [(name, ast.parse(file.read_text(encoding="utf-8"))) for file in files]
            found |= names
    tops = {"firstlight", *(name.partition(".")[0] for name in found)}
    return [name for name in NEEDS if name in tops]


def needed(modules: Iterable[str], there: str = "") -> list[str]:
    """Return what has to be installed for some modules, each once: names, or our wheels where they are there."""
    packages = dict.fromkeys(one for module in modules for one in NEEDS[module])
    return [there + WHEELS[one] if there and one in WHEELS else one for one in packages]


def command(modules: Iterable[str], there: str) -> str:
    """Return the beginning of a line that runs a command of ``firstlight``."""
    return "uvx --from " + " --with ".join(map(quoted, needed(modules, there)))


def quoted(word: str) -> str:
    """Return a word as every shell takes it."""
    return word if re.fullmatch(r"[\w.:/=-]+", word) else f'"{word}"'


class OfferedRole(SphinxRole):
    """A link to a file that the site offers; distributions, and the names in OFFERED, are short for theirs."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Link to the file, which is written when the pages are; to ``record`` in Google Colab, where it is there."""
        file = OFFERED.get(self.text, self.text)
        address, how = f"{relative_root(self.env)}downloads/{quote(file)}", " download"
        if file == RECORD and (notebooks := self.config.html_context.get("notebooks")):
            address, how = f"{notebooks}/{RECORD}", ""
        link = f'<a class="fl-offered" href="{address}"{how}><code>{escape(Path(file).name)}</code></a>'
        return [nodes.raw("", link, format="html")], []


class RemoveGalleryDownloads(SphinxTransform):
    """Take out what sphinx-gallery says of its own downloads, above the title and at the end of a page."""

    default_priority: ClassVar[int] = 400

    def apply(self) -> None:
        """Find both by the classes that sphinx-gallery gives them."""
        for node in list(self.document.findall(nodes.Element)):
            if {"sphx-glr-download-link-note", "sphx-glr-footer"}.intersection(node.get("classes", ())):
                node.parent.remove(node)


class LinkTries(SphinxTransform):
    """Link each ``firstlight try`` of a page to the line at its end that runs it, whatever is installed."""

    default_priority: ClassVar[int] = 400

    def apply(self) -> None:
        """Find them in sentences."""
        for code in list(self.document.findall(nodes.literal)):
            if self.env.docname.startswith("tutorials/") and code.astext().startswith("firstlight try "):
                link = nodes.reference("", "", refid="run-it-yourself")
                code.replace_self(link)
                link += code


def add_downloads(app: Sphinx, docname: str, source: list[str]) -> None:
    """Write at the end of a tutorial how to run it: by its address where that is known, elsewhere from the zip."""
    name = docname.removeprefix("tutorials/")
    if name == docname or not Path(app.srcdir, f"{docname}.py").is_file():
        return
    base, notebooks = app.config.html_baseurl, app.config.html_context.get("notebooks")
    there = f"{base}downloads/" if base else "./"
    code = Path(app.srcdir, f"{docname}.py").read_text(encoding="utf-8")
    exercise = statements_of(code)
    modules, tried = imports(ast.parse(code)), imports(ast.Module(exercise, []))
    script = quoted(f"{Path(name).name if base else name}.py")
    facts = {
        "base": base,
        "name": name,
        "script": script,
        "address": f"{there}{quote(name)}.py" if base else script,
        "colab": notebooks and f"{notebooks}/{quote(name)}.ipynb",
        "worksheet": WORKSHEET if name == PUZZLES else "",
        "needs_torch": TORCH in needed(modules),
        "try_needs_torch": TORCH in needed(tried),
        "try": command(tried, there) if exercise else "",
        "record": command(modules, there) if "Bench(" in code else "",
    }
    text = (TEMPLATES / "run_it_yourself.rst").read_text(encoding="utf-8")
    source[0] += Template(text, trim_blocks=True, lstrip_blocks=True).render(facts)


def write_downloads(app: Sphinx, _builder: object) -> None:
    """Write all that the site offers into ``downloads``: today's numbers stand in the notebooks, too."""
    if app.builder.name != "html":
        return
    from hatchling.builders.wheel import WheelBuilder

    folder, root, base = Path(app.outdir, "downloads"), project_root(app.env), app.config.html_baseurl
    there = f"{base}downloads/" if base else "../"
    shutil.rmtree(folder, ignore_errors=True)
    for project in FOLDERS:
        config = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
        config["project"] |= {"version": VERSION, "dynamic": []}
        list(WheelBuilder(str(project), config=config).build(directory=str(folder), versions=["standard"]))
    titles = {page: title.astext() for page, title in app.env.titles.items()}
    examples, records = example_by_bench(root), cache(lambda example, bench: judge_records(root, example, bench)[0])

    def write(name: str, script: str, link: Callable[..., str]) -> None:
        (plain := folder / f"{name}.py").parent.mkdir(parents=True, exist_ok=True)
        plain.write_text(script, encoding="utf-8")
        conf, blocks = app.config.sphinx_gallery_conf, split_code_and_text_blocks(str(plain))[1]
        cells = [(kind, remove_config_comments(text), line) for kind, text, line in blocks]
        notebook = in_words(json.dumps(jupyter_notebook(cells, conf, str(folder))), examples, records, link)
        plain.write_text(runnable(script, there), encoding="utf-8")
        notebook = installing(notebook, imports(ast.parse(script)), there, folder if name == WORKSHEET else None)
        plain.with_suffix(".ipynb").write_text(notebook, encoding="utf-8")

    for name in sorted(page.removeprefix("tutorials/") for page in app.env.found_docs):
        script = Path(app.srcdir, "tutorials", f"{name}.py")
        if script.is_file():
            link, solution = to_pages(name, titles, base), f"solutions/{name}.py"
            text, solved = without_solution(script.read_text(encoding="utf-8"), solution)
            write(name, BLOCK.sub("", text), link)
            if solved:
                (folder / solution).parent.mkdir(parents=True, exist_ok=True)
                (folder / solution).write_text(solved, encoding="utf-8")
        if name == PUZZLES:
            write(WORKSHEET, worksheet(), link)
    with zipfile.ZipFile(folder.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(filter(Path.is_file, folder.rglob("*"))):
            archive.write(file, file.relative_to(folder))
        for file in (ROOT / "LICENSE", TEMPLATES / "README.txt", TEMPLATES / "Dockerfile"):
            archive.write(file, file.name)
        archive.writestr("requirements.txt", "".join(f"./{wheel}\n" for wheel in WHEELS.values()) + "scikit-learn\n")
    folder.with_suffix(".zip").rename(folder / ZIP)
    run_path(str(ROOT / "doctor/make_pyz.py"))["build"](folder)
    (folder / RECORD).parent.mkdir()
    notebook, here = (ROOT / RECORD).read_text(encoding="utf-8"), app.config.html_context.get("repository", "")
    (folder / RECORD).write_text(notebook.replace(r"RY = \"\"", rf"RY = \"{here}\""), encoding="utf-8")


def without_solution(source: str, file: str) -> tuple[str, str]:
    r"""Return a page with the name of a file where its solution was, and that solution; a page of many keeps them.

    Examples
    --------
    >>> page = '"Two"\n\n# %%\n# Solution\n# --------\n\n# solution\n\nprint(2)\n'
    >>> without_solution(page, "two.py")[1]
    '# solution\n\nprint(2)\n'
    """
    blocks = split(source)
    at = [number for number, block in enumerate(blocks) if block.text.lstrip().startswith(SOLUTION)]
    if len(at) != 1:
        return source, ""
    texts = [block.text for block in blocks]
    # What is said of the solution goes with it; what has a heading of its own is of the page.
    end = next((n for n in range(at[0] + 1, len(texts)) if re.search("^# ---", texts[n], re.MULTILINE)), len(texts))
    page = [*texts[: at[0] - 1], APART.format(solution=file) + "\n", *texts[end:]]
    return "\n".join([*page, ""]), "\n".join(text.strip() + "\n" for text in texts[at[0] : end])


def runnable(script: str, there: str) -> str:
    """Return a script that tells uv what it needs, from wheels that are there, and that keeps its figures.

    Python does not read the head: https://packaging.python.org/en/latest/specifications/inline-script-metadata/
    Without an end to the Pythons, uv would take the newest, for which there may be no wheels.
    """
    packages, where = needed(imports(ast.parse(script))), "url" if "://" in there else "path"
    head = ["/// script", 'requires-python = ">=3.11,<3.15"', f"dependencies = {json.dumps(packages)}"]
    head += ["[tool.uv.sources]"] + [
        f'{name} = {{ {where} = "{there}{file}" }}' for name, file in WHEELS.items() if name in packages
    ]
    if TORCH in packages:
        head += ["""torch = [{ index = "torch-cu130", marker = "sys_platform == 'win32'" }]""", "[[tool.uv.index]]"]
        head += ['name = "torch-cu130"', 'url = "https://download.pytorch.org/whl/cu130"', "explicit = true"]
    drawn = SAVING if "plt.show()" in script or ".plot()" in script else "\n"
    return "".join(f"# {line}\n" for line in [*head, "///"]) + "\n" + script.rstrip("\n") + drawn


def installing(notebook: str, modules: list[str], there: str, brought: Path | None = None) -> str:
    """Return a notebook whose first cell of code installs what is missing, but no other PyTorch or CUDA.

    Our wheels have an address, or lie beside the notebook, or it brings them along from a folder.
    """
    where, look = (there, "") if "://" in there else ("{folder}/", LOOK)
    if brought and look:
        files = [WHEELS[one] for one in needed(modules) if one in WHEELS]
        look += BROUGHT.format(wheels={file: b64encode((brought / file).read_bytes()).decode() for file in files})
    packages = " ".join(json.dumps(re.sub(r"==[\d.]+|\[cu13\]", "", one)) for one in needed(modules, where))
    install, content = FIRST_CELL.format(modules=modules, look=look, packages=packages), json.loads(notebook)
    hidden = {"cellView": "form", "jupyter": {"source_hidden": True}} if brought else {}
    cell: Any = {"cell_type": "code", "execution_count": None, "metadata": hidden, "outputs": [], "source": [install]}
    content["cells"].insert(1, cell)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
