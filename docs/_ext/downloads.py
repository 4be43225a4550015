"""What readers take home: each page as a script and as a notebook, and each chapter with our wheel beside both."""

from __future__ import annotations

import io
import json
import re
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.errors import SphinxError

import firstlight
from _ext.gallery import newest
from _ext.notebooks import with_numbers
from _ext.prose import benches_in
from _ext.watch import judged

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

ROOT = Path(firstlight.__file__).parents[2]
WHEEL = f"firstlight-{firstlight.__version__}-py3-none-any.whl"
PYTHON = ">=3.11"
# What scripts import that the package does not need itself: the module, and what to ask an installer for.
EXTRA = {"sklearn": "scikit-learn>=1.6", "triton": "triton>=3.2; sys_platform == 'linux'"}

FIRST_CELL = """\
# Installs what this notebook needs and cannot find; elsewhere it does nothing.
from importlib.util import find_spec

needs = {needs}
if missing := " ".join(f'"{{needs[name]}}"' for name in needs if not find_spec(name)):
    %pip install {{missing}}"""

README = """\
{title}
{line}
A chapter of First Light. With uv (https://docs.astral.sh/uv/), one line runs a page. It installs what the page needs
into an environment that uv keeps for it:

    uv run {script}

With pip, in an environment of your own:

    python -m pip install {wheel}{extra}
    python {script}

Where PyTorch finds no GPU that you have, {install} names its wheel for your system.
Add "--record mine.json" behind a script's name to keep what your machine measures; drop that file on the tables of
the script's page to compare. A notebook installs what it needs in its first cell.
"""


def script_for(text: str, wheel: str) -> str:
    """A script, headed by what it needs: ``uv run`` reads that, and for Python it is a remark."""
    beside = "://" not in wheel
    needs = ["firstlight" if beside else f"firstlight @ {wheel}", *extra(text).values()]
    head = ["/// script", f'requires-python = "{PYTHON}"', f"dependencies = {json.dumps(needs)}"]
    if beside:
        head += ["", "[tool.uv.sources]", f"firstlight = {{ path = {json.dumps(wheel)} }}"]
    return "\n".join([*(f"# {line}".rstrip() for line in [*head, "///"]), text])


def notebook_for(content: dict[str, Any], text: str, wheel: str) -> str:
    """A notebook whose first code cell installs what it needs."""
    needs = {"firstlight": wheel if "://" in wheel else f"./{wheel}", **extra(text)}
    source = FIRST_CELL.format(needs=json.dumps(needs))
    first: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": [source],
    }
    cells = content["cells"]
    return json.dumps(content | {"cells": [*cells[:1], first, *cells[1:]]}, indent=1, ensure_ascii=False) + "\n"


def extra(text: str) -> dict[str, str]:
    """What a script imports that the package does not bring."""
    return {name: need for name, need in EXTRA.items() if re.search(rf"(?m)^\s*(from|import) {name}\b", text)}


def zipped(files: dict[str, bytes]) -> bytes:
    """An archive that is the same whenever the files are."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)  # dated 1980
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def wheel_in(folder: Path) -> bytes:
    """The package's wheel, built unless the one in this folder is newer than all that is in it."""
    made = folder / WHEEL
    about = [(ROOT / name).stat().st_mtime for name in ("pyproject.toml", "README.md", "LICENSE")]
    if made.exists() and made.stat().st_mtime > max(newest(ROOT / "src"), *about):
        return made.read_bytes()
    from hatchling.builders.wheel import WheelBuilder  # a quarter of a second that most builds do without

    with tempfile.TemporaryDirectory() as scratch:
        return Path(next(WheelBuilder(str(ROOT)).build(directory=scratch, versions=["standard"]))).read_bytes()


def files_for(app: Sphinx, env: BuildEnvironment) -> dict[str, bytes]:
    """Every file that the site offers, by its name there."""
    address = app.config.html_baseurl.rstrip("/")
    served = f"{address}/downloads/{WHEEL}" if address else WHEEL
    files = {WHEEL: wheel_in(Path(app.outdir, "downloads"))}
    chapters: dict[str, dict[str, bytes]] = {}
    benches, find = benches_in(app.confdir), cache(lambda example: judged(Path(app.confdir), example)[0])
    for path in sorted(Path(app.srcdir, "tutorials").glob("*/*.py")):
        chapter, page = path.parent.name, path.stem
        if f"tutorials/{chapter}/{page}" not in env.found_docs:  # left over from an example that is gone
            continue
        text, content = path.read_text(encoding="utf-8"), with_numbers(notebook_of(path), benches, find)
        packed = chapters.setdefault(chapter, {})
        for wheel, place in ((served, files), (WHEEL, packed)):
            place[f"{chapter}/{page}.py"] = script_for(text, wheel).encode()
            place[f"{chapter}/{page}.ipynb"] = notebook_for(content, text, wheel).encode()
    for chapter, packed in chapters.items():
        packed |= {f"{chapter}/{WHEEL}": files[WHEEL], f"{chapter}/LICENSE": (ROOT / "LICENSE").read_bytes()}
        packed[f"{chapter}/README.txt"] = readme_for(chapter, packed, address, env).encode()
        files[f"{chapter}.zip"] = zipped(packed)
    return files


def notebook_of(script: Path) -> str:
    """The notebook that sphinx-gallery wrote beside a script."""
    path = script.with_suffix(".ipynb")
    if not path.exists():
        raise SphinxError(f"{path} is missing; remove {script.name}.md5 beside it, and the build writes it again")
    return path.read_text(encoding="utf-8")


def readme_for(chapter: str, packed: dict[str, bytes], address: str, env: BuildEnvironment) -> str:
    """What to do with a chapter."""
    scripts = [name for name in sorted(packed) if name.endswith(".py")]
    title = env.titles[f"tutorials/{chapter}/index"].astext()
    wanted = {need: None for name in scripts for need in extra(packed[name].decode()).values()}
    return README.format(
        title=title,
        line="=" * len(title),
        script=scripts[0].rpartition("/")[2],
        wheel=WHEEL,
        extra="".join(f' "{need}"' for need in wanted),
        install=f"{address}/install.html" if address else 'the page "Install"',
    )


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Make a folder hold these files and no others; one that is right is left alone."""
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, data in files.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
