"""References to other projects in a build without a network: their inventories cannot be had, and ours must resolve."""

from __future__ import annotations

import builtins
import logging
import sys
from typing import TYPE_CHECKING

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
