"""Let no worker of a parallel build fail unheard: Sphinx drops an error that comes while it still hands out work."""

from __future__ import annotations

from sphinx.errors import SphinxParallelError
from sphinx.util.parallel import ParallelTasks

join, join_one = ParallelTasks.join, ParallelTasks._join_one
failures: list[SphinxParallelError] = []


def join_one_and_note(self: ParallelTasks) -> bool:
    """Note the error, which ParallelTasks.add_task would drop, with the pages of that worker."""
    try:
        return join_one(self)
    except SphinxParallelError as error:
        failures.append(error)
        raise


def join_and_fail(self: ParallelTasks) -> None:
    """Fail at the end, if not before."""
    join(self)
    if failures:
        raise failures[0]


def setup() -> None:
    """Take the place of both steps."""
    ParallelTasks._join_one, ParallelTasks.join = join_one_and_note, join_and_fail  # type: ignore[method-assign]
