"""What readers take home: the pages as scripts and notebooks, all of them as a zip, two wheels, and the doctor."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import zipfile
from functools import cache
from html import escape
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxRole

import firstlight
import firstlight_doctor
from _ext.holds import BLOCK
from _ext.notebooks import in_words, to_pages
from _ext.prose import example_by_bench
from _ext.records import judge_records, project_root, relative_root
from firstlight.records.runner import SAVING
from firstlight_kernels.puzzles.attempts import worksheet

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(firstlight.__file__).parents[2]
WHEEL = f"firstlight-{firstlight.__version__}-py3-none-any.whl"
ZIP = "first-light.zip"
DOCTOR = f"firstlight_doctor-{firstlight_doctor.__version__}-py3-none-any.whl"
PYZ = "firstlight-doctor.pyz"
RECORD = "maintaining/record.ipynb"
PUZZLES, KERNELS = "3_kernels/14_puzzles", "3_kernels/sixteen_kernels"

PAGE = f"""
.. rst-class:: no-search

Run it yourself
---------------

{{gaps}}- :offered:`{{name}}.py`, this page as a script;
- :offered:`{{name}}.ipynb`, this page as a notebook;
- :offered:`{WHEEL}`, the package ``firstlight``;{{doctor}}
- :offered:`{ZIP}`, all of these for all pages.

Save the script and the package in the same folder. With `uv <https://docs.astral.sh/uv/>`__ one line runs it, because
the head of the script says what it needs:

.. code-block:: bash

   uv run {{script}}

The first time, uv fetches PyTorch: about 3 GB on Linux and Windows, since it brings CUDA along. If you have no NVIDIA
GPU, or no uv, :doc:`/install` has a smaller download, and the PyTorch that fits your GPU. Where no window can open, as
on a server, the script saves its figures and says where.{{tried}}{{recorded}}

The first cell of the notebook installs the same where the package is missing, {{where}}. {{colab}}
"""
GAPS = f"""\
- :offered:`{KERNELS}.py`, the sixteen gaps in a script, without solutions (no GPU is needed, so uv fetches the small
  PyTorch for it, without CUDA);
- :offered:`{KERNELS}.ipynb`, the same as a notebook;
"""
TRY = """ When you have put your answer into the exercise, check
it in a second or two, without the rest of the page:

.. code-block:: bash

   uv run {given} firstlight try {script}
"""
RECORDED = """

To see your machine in the tables of this page, record it there, and choose the file below one of them:

.. code-block:: bash

   uv run {given} firstlight record {script} --to mine.json
"""
COLAB = "You can `open the notebook in Google Colab <{}>`__, where *Runtime*, *Change runtime type* gives it a GPU."
UPLOAD = (
    "In Google Colab, choose *File*, *Upload notebook*, and upload the package, too, under *Files* on the left: Colab "
    "forgets it when the session ends."
)
# uv reads it, and Python does not: https://packaging.python.org/en/latest/specifications/inline-script-metadata/
# Without an end to the Pythons, uv fetches the newest, for which there may be no wheels.
HEAD = """\
# /// script
# requires-python = ">=3.11,<3.15"
# dependencies = {needed}
# [tool.uv.sources]
{sources}
# torch = [{{ index = "torch-{build}", marker = "{where}" }}]
# [[tool.uv.index]]
# name = "torch-{build}"
# url = "https://download.pytorch.org/whl/{build}"
# explicit = true
# ///

"""
# One CUDA for both. `firstlight try` asks for the same PyTorch, or uv would fetch a second one.
NEEDED = ("torch==2.13.0", "numba-cuda[cu13]; sys_platform != 'darwin'")

FIRST_CELL = """\
# Installs what this notebook needs where the package is missing; elsewhere it does nothing.
from importlib.util import find_spec

if not all(map(find_spec, {modules})):
{look}    %pip install {packages}"""
LOOK = """\
    from pathlib import Path

    here = "put it beside this notebook (in Colab: Files, Upload), and run this cell again"
    for file in {files}:
        assert Path(file).is_file(), f"{{file}} is missing: download it from the page of this notebook, {{here}}"
"""

README = f"""\
The pages of First Light, a folder a chapter: each as a script and as a notebook, which installs what it needs in its
first cell. For the scripts, in an environment of your own:

    python -m pip install "./{WHEEL}[imaging]" {DOCTOR} scikit-learn
    python 1_setup/02_first_speedup.py

Where PyTorch finds no GPU that you have, the page "Install" of the site names its wheel for your system.
"""


# What only some pages import, and what pip installs for it.
EXTRAS = {"sklearn": "scikit-learn", "firstlight_doctor": f"./{DOCTOR}"}
IMAGING = ("astropy", "finufft", "scipy")  # come with firstlight-imaging


def extras(script: str) -> dict[str, str]:
    """Return the modules beside ``firstlight`` that a page imports, and what pip installs for each."""
    return {name: package for name, package in EXTRAS.items() if re.search(rf"(from|import) {name}\b", script)}


def is_imaging(script: str) -> bool:
    """Return whether a page imports ``firstlight_imaging``."""
    return "from firstlight_imaging" in script


class OfferedRole(SphinxRole):
    """A link to a file that the site offers: ``wheel``, ``doctor``, ``pyz`` and ``record`` are short for names."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Link to the file, which is written when the pages are; to ``record`` in Google Colab, where it is there."""
        file = {"wheel": WHEEL, "doctor": DOCTOR, "pyz": PYZ, "record": RECORD}.get(self.text, self.text)
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


def add_downloads(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put our links at the end of a tutorial."""
    name = docname.removeprefix("tutorials/")
    if name == docname or not Path(app.srcdir, f"{docname}.py").is_file():
        return
    notebooks = app.config.html_context.get("notebooks")
    content = Path(app.srcdir, f"{docname}.py").read_text(encoding="utf-8")
    needed = extras(content)
    script = shlex.quote(f"{Path(name).name}.py")
    package = shlex.quote(f"./{WHEEL}[imaging]") if is_imaging(content) else f"./{WHEEL}"
    given = " ".join(f"--with {one}" for one in (NEEDED[0], package, *needed.values()))
    text = PAGE.format(
        name=name,
        script=script,
        tried=TRY.format(given=given, script=script) if "\nprint(check(" in content else "",
        recorded=RECORDED.format(given=given, script=script) if "Bench(" in content else "",
        gaps=GAPS if name == PUZZLES else "",
        doctor=f"\n- :offered:`{DOCTOR}`, the package ``firstlight_doctor``;" if "firstlight_doctor" in needed else "",
        where="from this site" if app.config.html_baseurl else "from the file beside it",
        colab=COLAB.format(f"{notebooks}/{quote(name)}.ipynb") if notebooks else UPLOAD,
    )
    source[0] += "\n" + text


def write_downloads(app: Sphinx, _builder: object) -> None:
    """Write all that the site offers into ``downloads``: today's numbers stand in the notebooks, too."""
    if app.builder.name != "html":
        return
    from hatchling.builders.wheel import WheelBuilder

    folder, root = Path(app.outdir, "downloads"), project_root(app.env)
    shutil.rmtree(folder, ignore_errors=True)
    for project in (ROOT, ROOT / "doctor"):
        list(WheelBuilder(str(project)).build(directory=str(folder), versions=["standard"]))
    run_path(str(ROOT / "doctor/make_pyz.py"))["build"](folder)
    (folder / RECORD).parent.mkdir()
    notebook, here = (ROOT / RECORD).read_text(encoding="utf-8"), app.config.html_context.get("repository", "")
    (folder / RECORD).write_text(notebook.replace(r"RY = \"\"", rf"RY = \"{here}\""), encoding="utf-8")
    titles = {page: title.astext() for page, title in app.env.titles.items()}
    examples, records = example_by_bench(root), cache(lambda example, bench: judge_records(root, example, bench)[0])
    with zipfile.ZipFile(folder / ZIP, "w", zipfile.ZIP_DEFLATED) as archive:
        for wheel in (WHEEL, DOCTOR):
            archive.write(folder / wheel, wheel)
        archive.write(ROOT / "LICENSE", "LICENSE")
        archive.writestr("README.txt", README)
        for name in sorted(page.removeprefix("tutorials/") for page in app.env.found_docs):
            script = Path(app.srcdir, "tutorials", f"{name}.py")
            if script.is_file():
                (folder / name).parent.mkdir(exist_ok=True)
                source = BLOCK.sub("", script.read_text(encoding="utf-8"))
                (folder / f"{name}.py").write_text(runnable(source, "./"), encoding="utf-8")
                archive.writestr(f"{name}.py", runnable(source, "../"))
                link = to_pages(name, titles, app.config.html_baseurl)
                cells = in_words(script.with_suffix(".ipynb").read_text(encoding="utf-8"), examples, records, link)
                there = f"{app.config.html_baseurl}downloads/" if app.config.html_baseurl else "./"
                (folder / f"{name}.ipynb").write_text(installing(cells, there), encoding="utf-8")
                archive.writestr(f"{name}.ipynb", installing(cells, "../"))
            if name == PUZZLES:
                (folder / f"{KERNELS}.py").write_text(runnable(worksheet(), "./"), encoding="utf-8")
                archive.writestr(f"{KERNELS}.py", runnable(worksheet(), "../"))
                (folder / f"{KERNELS}.ipynb").write_text(installing(gaps(), there), encoding="utf-8")
                archive.writestr(f"{KERNELS}.ipynb", installing(gaps(), "../"))


def runnable(script: str, there: str) -> str:
    """Return a script that tells uv what it needs, from wheels that are there, and that keeps its figures.

    The worksheet never uses PyTorch itself: the build without CUDA, the smallest, is enough for the package.
    """
    needed, sources = list(NEEDED), {"firstlight": WHEEL}
    needed.append("firstlight-imaging" if is_imaging(script) else "firstlight")
    for package in extras(script).values():
        name = "firstlight-doctor" if package == f"./{DOCTOR}" else package
        needed.append(name)
        sources |= {name: DOCTOR} if name != package else {}
    files = "\n".join(f'# {name} = {{ path = "{there}{file}" }}' for name, file in sources.items())
    drawn = SAVING if "plt.show()" in script or ".plot()" in script else "\n"
    small = script == worksheet()
    build, where = ("cpu", "sys_platform != 'darwin'") if small else ("cu130", "sys_platform == 'win32'")
    head = HEAD.format(needed=json.dumps(needed), sources=files, build=build, where=where)
    return head + script.rstrip("\n") + drawn


def gaps() -> str:
    """Return the worksheet of the puzzles as a notebook."""
    title, _, rest = worksheet().partition('"""\n\n')
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "metadata": {}, "source": [title.strip('"\n')]}]
    for part in rest.split("# %%\n"):
        lines = part.split("\n")
        words = "\n".join(line[2:] for line in lines if line.startswith("#"))
        code = "\n".join(line for line in lines if not line.startswith("#")).strip("\n")
        if words:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": [f"## {words}"]})
        cells.append({"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [code]})
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})


def installing(notebook: str, there: str) -> str:
    """Return a notebook whose first cell of code installs the packages, whose wheels are there."""
    content, needed = json.loads(notebook), extras(notebook)
    first: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    wheel, modules = f"{there}{WHEEL}", ["firstlight", *needed]
    if is_imaging(notebook):
        wheel = f"firstlight-imaging @ {wheel}" if "://" in there else f"{wheel}[imaging]"
        modules += IMAGING
    packages = [f'"{wheel}"', *(f'"{package}"'.replace("./", there) for package in needed.values())]
    files = [package.partition("[")[0].strip('"') for package in packages if package.startswith('"./')]
    look = LOOK.format(files=files) if files else ""
    install = FIRST_CELL.format(modules=modules, look=look, packages=" ".join(packages))
    content["cells"].insert(1, first | {"source": [install]})
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
