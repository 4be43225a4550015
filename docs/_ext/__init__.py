"""What First Light adds to Sphinx; each step has a module of its own, and this one only wires them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

# In the order in which they see a page.
STEPS = (
    "gallery", "folds", "maths", "watch", "outputs", "prose", "downloads", "timings", "machines", "doctor", "webgpu",
    "meta", "terms", "course", "ways", "codelinks", "weight", "barriers",
)  # fmt: skip


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the steps to the build."""
    for step in STEPS:
        app.setup_extension(f"_ext.{step}")
    return {"version": "1", "env_version": 11}
