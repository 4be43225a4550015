"""Small sites, built as a user builds them; the settings that matter are taken from the project's own conf.py."""

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from sphinx_here import sphinx_build

ROOT = Path(__file__).resolve().parents[2]
CONF = f"""
import runpy

real = runpy.run_path({str(ROOT / "conf.py")!r})
extensions = ["_ext"]
html_math_renderer = "mathml"
html_theme = "basic"
html_static_path = [{str(ROOT / "docs/web/boards")!r}]
"""
GALLERY = """
extensions.append("sphinx_gallery.gen_gallery")
suppress_warnings = real["suppress_warnings"]
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

    def build(self, builder: str, *options: str) -> "Site":
        """Build it, where no program is on the path but what conf.py puts there."""
        arguments = ("-W", "-b", builder, *options, ".", f"build/{builder}")
        self.failed, self.log = sphinx_build(self.folder, *arguments, PATH=str(self.folder / "no-programs"))
        return self

    def rebuild(self, builder: str = "html", *options: str) -> str:
        """Build it again without a fault: how many pages were read."""
        assert not self.build(builder, *options).failed, self.log
        return re.search(r"updating environment:(?: \[.*?\])? (\d+ added, \d+ changed, \d+ removed)", self.log)[1]

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    def read(self, path: str) -> str:
        return (self.folder / "build" / path).read_text(encoding="utf-8")

    def elements(self, path: str) -> Elements:
        elements = Elements()
        elements.feed(self.read(path))
        return elements


@pytest.fixture(scope="session")
def pack_wheel(tmp_path_factory):
    """Pack each wheel once for all sites, for they are half of a small build."""
    wheels, pack = tmp_path_factory.mktemp("wheels"), WheelBuilder.build

    def once(builder: WheelBuilder, *, directory: str, versions: list[str]) -> Iterator[str]:
        kept = wheels / Path(builder.root).name
        made = [*kept.glob("*.whl")] or list(pack(builder, directory=str(kept), versions=versions))
        Path(directory).mkdir(parents=True, exist_ok=True)
        return iter([shutil.copy(file, directory) for file in made])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WheelBuilder, "build", once)
        yield


@pytest.fixture(scope="session")
def make_site(tmp_path_factory, pack_wheel):
    del pack_wheel

    def make(files: Mapping[str, str]) -> Site:
        folder = tmp_path_factory.mktemp("a site")  # as in "My Drive"
        gallery = any(name.startswith("examples/") for name in files)
        written = {"conf.py": CONF + GALLERY * gallery, "index.rst": INDEX}
        if gallery:
            written["examples/GALLERY_HEADER.rst"] = "Examples\n========\n"
            written["install.rst"] = ":orphan:\n\nInstall\n=======\n"  # every tutorial names it
        site = Site(folder)
        for name, text in (written | dict(files)).items():
            site.write(name, text)
        return site

    return make


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
    """One example with folds and figures."""
    site = make_site({"examples/01_fold.py": EXAMPLE})
    site.rebuild()
    return site
