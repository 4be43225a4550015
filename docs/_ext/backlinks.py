"""From a function of ours to the tutorials that use it, and from the code of a tutorial to its functions.

sphinx-gallery notes beside each page what the names in its code stand for. It names a function after the package that
it was imported from, though, and the reference has it where it is defined.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_gallery._doctree_links import CodeLinksTransform, code_links_block

from firstlight.measure.imports import import_nodes, module_file

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

SHOWN = "firstlight_uses"  # in the metadata of a page of the reference: the pages named on it, for each function
LAST = 900  # code with links is a node a word: what comes after its making looks at each of them
MOST = 6  # pages that are named of one function


@cache
def home(module: str, name: str) -> str:
    """The full name of something where it is defined, given where it was imported from."""
    file = module_file(module) if module.split(".")[0] == "firstlight" else None
    for node in import_nodes(file.read_text(encoding="utf-8")) if file else ():
        if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
            return home(node.module, name)
    return f"{module}.{name}"


def names_in(notes: Path) -> dict[str, str]:
    """The names of ours that a page uses: as they were imported, and as they are defined."""
    found = {}
    for meanings in json.loads(notes.read_text(encoding="utf-8")).values():
        # Of a function, the first one is that it is a function; of a class, the last ones are what it inherits from.
        for meaning in [one for one in meanings if one["module"].split(".")[0] == "firstlight"][:1]:
            name, dot, attribute = meaning["name"].partition(".")
            found[f"{meaning['module']}.{meaning['name']}"] = home(meaning["module"], name) + dot + attribute
    return found


def title_of(script: Path) -> str:
    """The title of a tutorial, for the text of a link."""
    title = (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or script.stem).splitlines()[0]
    return re.sub(r"[`<\\]", r"\\\g<0>", title)


def read_notes(app: Sphinx, env: BuildEnvironment, *_changes: set[str]) -> list[str]:
    """Learn what the tutorials use, and name the pages of the reference that say otherwise."""
    imported: dict[str, str] = {}
    uses: dict[str, list[str]] = {}
    for notes in sorted(Path(app.srcdir, "tutorials").rglob("*.codeobj.json")):
        names = names_in(notes)
        page = notes.relative_to(app.srcdir).as_posix().removesuffix(".codeobj.json")
        link = f":doc:`{title_of(Path(app.srcdir, page + '.py'))} </{page}>`"
        for name in sorted(set(names.values())):
            uses.setdefault(name, []).append(link)
        imported |= names
    env.__dict__.update(firstlight_imported=imported, firstlight_uses=uses)
    return [
        page
        for page, metadata in env.metadata.items()
        if any(uses.get(name, []) != links for name, links in metadata.get(SHOWN, {}).items())
    ]


def add_uses(app: Sphinx, what: str, name: str, value: object, _options: object, lines: list[str]) -> None:
    """Say under a function which tutorials use it."""
    defined = f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else name
    links: list[str] = app.env.__dict__["firstlight_uses"].get(defined, [])
    app.env.metadata[app.env.docname].setdefault(SHOWN, {})[defined] = links
    if links and what != "module":
        more = f", and {len(links) - MOST} more" if len(links) > MOST else ""
        lines += ["", ".. rst-class:: fl-uses", "", f"   Used in: {' · '.join(links[:MOST])}{more}", ""]


def note_imported_names(_app: Sphinx, env: BuildEnvironment) -> None:
    """Let what a package passes on be found under the package's name, too."""
    known = env.domains.python_domain.objects
    for name, defined in env.__dict__["firstlight_imported"].items():
        if name != defined and defined in known:
            known[name] = known[defined]._replace(aliased=True)


class QuietLinks(SphinxPostTransform):
    """In code, link our functions alone, once a cell: not what only holds a result of theirs, nor Python's own names.

    With the others, which sphinx-gallery links where the network is there, a reader with a keyboard has hundreds of
    links to pass.
    """

    default_priority: ClassVar[int] = LAST + 1
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Take the other links away."""
        for block in self.document.findall(code_links_block):
            linked: set[str] = set()
            for link in list(block.findall(nodes.reference)):
                target = link.get("refuri", "")
                if link.get("internal") and target not in linked and "sphx-glr-backref-instance" not in link["classes"]:
                    linked.add(target)
                    link["classes"] = ["fl-ref"]
                else:
                    link["classes"] = []  # which the names inside would inherit
                    link.replace_self(link.children)


def setup(app: Sphinx) -> None:
    """Connect both ways."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("env-get-outdated", read_notes)
    app.connect("autodoc-process-docstring", add_uses, priority=900)  # after napoleon, which rewrites all there is
    app.connect("env-updated", note_imported_names)
    CodeLinksTransform.default_priority = LAST
    app.add_post_transform(QuietLinks)
