"""Small sites, built as a user builds them; the settings that matter are taken from the project's own conf.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARK = "FIRSTLIGHT_TEST_SITE"
CONF = f"""
import runpy

real = runpy.run_path({str(ROOT / "conf.py")!r})
extensions = ["sphinxcontrib.katex", "firstlight.sphinxext"]
globals().update({{name: value for name, value in real.items() if name.startswith("katex_")}})
html_theme = "basic"
"""
GALLERY = """
extensions.append("sphinx_gallery.gen_gallery")
sphinx_gallery_conf = real["sphinx_gallery_conf"] | {"examples_dirs": "examples"}
exclude_patterns = ["examples"]
"""
INDEX = "Home\n====\n\n.. toctree::\n   :glob:\n\n   *\n"


class Elements(HTMLParser):
    """Every element of a page, and those inside a fold, with what is written in the folds."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], int]] = []
        self.folds: list[str] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "details":
            self.depth += 1
            self.folds.append("")
        self.found.append((tag, dict(attrs), len(self.folds) if self.depth else 0))

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "details"

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.folds[-1] += data


@dataclass
class Site:
    """A site in a folder of its own."""

    folder: Path
    log: str = ""
    failed: bool = False

    def build(self, builder: str, *options: str) -> Site:
        """Build it in a process of its own, where no program is on the path but what conf.py puts there."""
        env = os.environ | {"PATH": str(self.folder / "no-programs"), MARK: str(self.folder), "NO_COLOR": "1"}
        env.pop("FORCE_COLOR", None)
        log = self.folder / "log"
        with log.open("wb") as out:  # a file: a pipe would be held open by a server that was left running
            command = [sys.executable, "-m", "sphinx", "-W", "-b", builder, *options, ".", f"build/{builder}"]
            done = subprocess.run(command, cwd=self.folder, env=env, stdout=out, stderr=out, timeout=120)
        self.log, self.failed = log.read_text(encoding="utf-8", errors="replace"), done.returncode != 0
        return self

    def left_running(self) -> list[int]:
        """The processes of these builds that still live, known by their environment."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
            except OSError:  # it ended meanwhile, or belongs to someone else
                continue
        return found

    def read(self, path: str) -> str:
        return (self.folder / "build" / path).read_text(encoding="utf-8")

    def elements(self, path: str) -> Elements:
        elements = Elements()
        elements.feed(self.read(path))
        return elements


@pytest.fixture(scope="session")
def make_site(tmp_path_factory):
    sites = []

    def make(files: Mapping[str, str]) -> Site:
        folder = tmp_path_factory.mktemp("site")
        gallery = any(name.startswith("examples/") for name in files)
        written = {"conf.py": CONF + GALLERY * gallery, "index.rst": INDEX}
        if gallery:
            written["examples/GALLERY_HEADER.rst"] = "Examples\n========\n"
            written["install.rst"] = ":orphan:\n\nInstall\n=======\n"  # every tutorial names it
        for name, text in (written | dict(files)).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        sites.append(Site(folder))
        return sites[-1]

    yield make
    for process in [process for site in sites for process in site.left_running()]:
        os.kill(process, signal.SIGKILL)  # only a build that went wrong leaves any


EXAMPLE = '''"""
Exercises
=========

Text at the top.
"""
# %%
# Text before.

print("printed before")
# solution: this remark is in the middle of a cell
before = 1

# %%
# An output can look like code.

print("# solution\\nprinted to mislead")

# %%
# Text of the exercise.

# %%

# solution
import matplotlib.pyplot as plt


class Table:
    def _repr_html_(self):
        return f"<table><tr><td>{6 * 7000} rows</td></tr></table>"


for number, colour in enumerate(["tab:blue", "tab:red"], 1):
    fig, ax = plt.subplots()
    ax.plot([0, 1], [0, 1], color=colour, linewidth=20)
    fig.set_label(f'Line {number}: "y" = *x*,\\n   <b> & |a|_')
print("printed by the solution")
Table()

# %%
# Text after.

print("printed after")

# %%

# solutions are never this short
print("printed by no solution")

# %%

# folded: Another way, for the curious
print("printed for the curious")

# %%

# solution
print("printed last")
'''


@pytest.fixture(scope="session")
def gallery(make_site):
    """One example with folds and figures, built for the web and as text by two processes."""
    site = make_site({"examples/01_fold.py": EXAMPLE, "zeta.rst": "Zeta\n====\n\n:math:`\\zeta^{7}`\n"})
    for builder in ("html", "text"):
        site.build(builder, "-j", "2")
        assert not site.failed, site.log
    return site
