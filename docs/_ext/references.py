"""References to other projects in a build without a network, and old addresses of names in ours."""

from __future__ import annotations

import builtins
import logging
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.addnodes import desc_signature

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def leave_unreachable(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.TextElement | None:
    """Return the plain text of a reference to a project whose inventory could not be fetched."""
    root = str(node.get("reftarget", "")).partition(".")[0]
    project = root if root in app.config.intersphinx_mapping else "python"
    outside = project == root or root in sys.stdlib_module_names or hasattr(builtins, root)
    unreachable = project not in getattr(env, "intersphinx_named_inventory", {})
    return content if node.get("refdomain") == "py" and outside and unreachable else None


def tell_of_unreachable_inventories() -> None:
    """Let Sphinx tell of inventories that it could not fetch without failing the build: the warning has no type."""

    def inform(record: logging.LogRecord) -> bool:
        if "objects.inv" in record.getMessage():  # the rest of the message is in the language of the machine
            record.levelno, record.levelname = logging.INFO, "INFO"
        return True

    logging.getLogger("sphinx.sphinx.ext.intersphinx").addFilter(inform)


def old_addresses(address: str, moved: dict[str, str]) -> list[str]:
    """Return the addresses that a name of the reference once had."""
    return [before + address.removeprefix(now) for before, now in moved.items() if address.startswith(now)]


def keep_addresses(app: Sphinx, doctree: nodes.document) -> None:
    """Give each name on a page of the reference its old addresses, too, for the bookmarks of others."""
    table = Path(app.srcdir, "moved_names.toml")
    if names := list(doctree.findall(desc_signature)) if table.is_file() else []:
        app.env.note_dependency(str(table))
        moved = tomllib.loads(table.read_text(encoding="utf-8"))
        for name in names:
            name["ids"] += [old for one in name["ids"][:1] for old in old_addresses(one, moved)]
