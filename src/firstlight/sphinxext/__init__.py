"""What First Light adds to Sphinx; each step has a module of its own, and this one only wires them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstlight.sphinxext import (
    course,
    coursemap,
    backlinks,
    barriers,
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
    report,
    reference,
    scripts,
    terms,
    search,
    subsets,
    timings,
    watch,
    ways,
    weight,
    workers,
)
from firstlight.sphinxext.machines import Machines

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the steps to the build."""
    workers.setup()
    gallery.setup(app)
    folds.setup(app)
    maths.setup(app)
    watch.setup(app)
    outputs.setup(app)
    prose.setup(app)
    offers.setup(app)
    timings.setup(app)
    doctor.setup(app)
    scripts.setup(app)
    meta.setup(app)
    report.setup(app)
    terms.setup(app)
    course.setup(app)
    ways.setup(app)
    coursemap.setup(app)
    glance.setup(app)
    lost.setup(app)
    backlinks.setup(app)
    reference.setup(app)
    search.setup(app)
    pictures.setup(app)
    weight.setup(app)
    subsets.setup(app)
    barriers.setup(app)
    app.add_directive("machines", Machines)
    return {"version": "1", "env_version": 4, "parallel_read_safe": True, "parallel_write_safe": True}
