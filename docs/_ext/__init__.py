"""What First Light adds to Sphinx; each step has a module of its own, and this one only wires them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _ext import (
    backlinks,
    barriers,
    course,
    coursemap,
    doctor,
    folds,
    gallery,
    glance,
    lost,
    maths,
    meta,
    offers,
    outputs,
    pictures,
    prose,
    reference,
    report,
    scripts,
    search,
    subsets,
    terms,
    timings,
    watch,
    ways,
    weight,
    workers,
)
from _ext.machines import Machines

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


# In the order in which they see a page.
STEPS = (
    gallery, folds, maths, watch, outputs, prose, offers, timings, doctor, scripts, meta, report, terms, course, ways,
    coursemap, glance, lost, backlinks, reference, search, pictures, weight, subsets, barriers,
)  # fmt: skip


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the steps to the build."""
    workers.setup()
    for step in STEPS:
        step.setup(app)
    app.add_directive("machines", Machines)
    return {"version": "1", "env_version": 5, "parallel_read_safe": True, "parallel_write_safe": True}
