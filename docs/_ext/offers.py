"""Offer on each tutorial page what there is to take home, with its size, in place of sphinx-gallery's links."""

from __future__ import annotations

import re
import shlex
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from docutils import nodes
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxRole
from sphinx.util.osutil import relative_uri

from _ext.downloads import WHEEL, files_for, write

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.writers.html5 import HTML5Translator

TOP = re.compile(r"\.\. only:: html\n\n    \.\. note::\n        :class: sphx-glr-download-link-note\n(?:\n|  .*\n)*")
BOTTOM = re.compile(r"\n\.\. _sphx_glr_download_.*", re.DOTALL)

PAGE = """
Run it yourself
---------------

- :offered:`{chapter}/{page}.py`, this page as a script;
- :offered:`{chapter}/{page}.ipynb`, this page as a notebook;
- :offered:`{chapter}.zip`, the whole chapter, with the package ``firstlight``.

With `uv <https://docs.astral.sh/uv/>`__ one line runs the script. The first time, uv installs what the script needs,
PyTorch too, into an environment that it keeps for it:

.. code-block:: bash

   uv run {script}

The first code cell of the notebook installs the same where you run the notebook, unless it is there already.

.. only:: served

   Both fetch ``firstlight`` from this site. {colab}

.. only:: not served

   Both take ``firstlight`` from :offered:`{wheel}` beside them: save it in the same folder, or take the zip.

Without uv, and for the PyTorch that fits your GPU, see :doc:`/install`.
"""

COLAB = """\
You can `open the notebook in Google Colab <{}>`__, where *Runtime*, *Change runtime type* gives it a GPU."""
UPLOAD = "In Google Colab, choose *File*, *Upload notebook*."

CHAPTER = """
Run it yourself
~~~~~~~~~~~~~~~

:offered:`{chapter}.zip` has every page of this chapter as a script and as a notebook, and the package ``firstlight``.
Unpack it; its ``README.txt`` says how one line runs a page.
"""


class offered(nodes.Inline, nodes.TextElement):
    """A file that the site offers."""


class OfferedRole(SphinxRole):
    """A link to a file that the site offers; ``wheel`` is the package's."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Leave the size to the writing of the page: the archive may change when the page does not."""
        file = WHEEL if self.text == "wheel" else self.text
        return [offered("", "", nodes.literal("", file.rpartition("/")[2]), file=file)], []


def offer_on_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put our links at the end of a tutorial or a chapter."""
    match docname.split("/"):
        case ["tutorials", chapter, "index"]:
            source[0] += CHAPTER.format(chapter=chapter)
        case ["tutorials", chapter, page] if Path(app.srcdir, f"{docname}.py").exists():
            notebooks = app.config.html_context.get("notebooks")
            colab = COLAB.format(f"{notebooks}/{chapter}/{quote(page)}.ipynb") if notebooks else UPLOAD
            names = {"chapter": chapter, "page": page, "wheel": WHEEL, "script": shlex.quote(f"{page}.py")}
            source[0] = BOTTOM.sub("", TOP.sub("", source[0])) + "\n" + PAGE.format(colab=colab, **names)


def offer(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Write the files, and name the pages that show a size which is another one now."""
    if app.builder.format != "html":
        return []
    files = files_for(app, env)
    write(Path(app.outdir, "downloads"), files)
    before: dict[str, str] = env.__dict__.get("firstlight_offered", {})
    sizes = env.__dict__["firstlight_offered"] = {name: size(len(data)) for name, data in files.items()}
    changed = {name for name in {*before, *sizes} if before.get(name) != sizes.get(name)}
    return [
        name
        for name in (env.found_docs if before and changed else ())
        if any(node["file"] in changed for node in env.get_doctree(name).findall(offered))
    ]


def size(count: int) -> str:
    r"""A number of bytes for a reader who wonders whether to wait.

    Examples
    --------
    >>> [size(count).split() for count in (1, 98_001, 100_001)]
    [['1', 'kB'], ['99', 'kB'], ['0.1', 'MB']]
    """
    return f"{ceil(count / 1000)}\N{NO-BREAK SPACE}kB" if count <= 99_000 else f"{count / 1e6:.1f}\N{NO-BREAK SPACE}MB"


def open_offered(self: HTML5Translator, node: offered) -> None:
    """Begin a link."""
    page, sizes = self.builder.current_docname, self.builder.env.__dict__["firstlight_offered"]
    if node["file"] not in sizes:
        there = ", ".join(sorted(sizes))
        raise SphinxError(f"{page}: the site does not offer {node['file']!r}; there are: {there}")
    target = relative_uri(self.builder.get_target_uri(page), f"downloads/{quote(node['file'])}")
    self.body.append(f'<a class="fl-offered" href="{target}" download>')


def close_offered(self: HTML5Translator, node: offered) -> None:
    """End a link, and say how large the file is."""
    self.body.append(f"</a> ({self.builder.env.__dict__['firstlight_offered'][node['file']]})")


def name_alone(_self: object, _: offered) -> None:
    """Show the file's name where nothing can be followed."""


def setup(app: Sphinx) -> None:
    """Register the links; whether the site's address is known decides where a download looks for our package."""
    plain = (name_alone, name_alone)
    app.add_node(offered, html=(open_offered, close_offered), latex=plain, text=plain, man=plain, texinfo=plain)
    app.add_role("offered", OfferedRole())
    app.connect("config-inited", lambda app, config: config.html_baseurl and app.tags.add("served"))
    app.connect("source-read", offer_on_page)
    app.connect("env-updated", offer)
