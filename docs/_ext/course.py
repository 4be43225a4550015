"""The table of the course, docs/course.toml: read, and checked against the tutorials that are there."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.errors import ExtensionError

from _ext.records import project_root

if TYPE_CHECKING:
    from collections.abc import Collection

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

TABLE = "course.toml"


@dataclass(frozen=True)
class Page:
    """A tutorial as its neighbours see it."""

    name: str
    line: str
    minutes: int
    needs: list[str]
    next: list[str]
    level: str = "short course"
    keywords: str = ""
    guess: str = ""


@dataclass
class Course:
    """The pages of the course in their order."""

    levels: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)
    pages: dict[str, Page] = field(default_factory=dict)


def read(text: str, tutorials: Collection[str]) -> Course:
    """Read the table; a ValueError names all that is wrong with it.

    Parameters
    ----------
    text
        The table, as TOML.
    tutorials
        The tutorials that are there, as ``1_setup/02_first_speedup``.
    """
    table = tomllib.loads(text)
    course = Course(table.pop("levels", []), table.pop("short_course", []))
    gone, missing = sorted(set(table) - set(tutorials)), sorted(set(tutorials) - set(table))
    problems = [f"there is no tutorial {name!r}: correct its name or take it out" for name in gone]
    problems += [f"{name!r} is missing: say what it is, what it needs and where it leads" for name in missing]
    problems += [f"the short course has {name!r}" for name in course.short if name not in table]
    for name, entry in table.items():
        try:
            course.pages[name] = Page(**entry)
        except TypeError as error:
            problems.append(f"{name!r} is no page: {error}")
    problems += [f"{name!r} {said}" for name, page in course.pages.items() for said in problems_of(name, page, course)]
    if problems:
        raise ValueError("; ".join(problems))
    return course


def problems_of(name: str, page: Page, course: Course) -> list[str]:
    """Return what is wrong with one page of the table."""
    found = []
    levels = [Page.level] if name in course.short else course.levels
    if page.level not in levels:
        found.append(f"has the level {page.level!r}; there are: {', '.join(levels)}")
    if unknown := [other for other in (*page.needs, *page.next) if other not in course.pages]:
        found.append(f"leads to pages that are not in the table: {', '.join(unknown)}")
    # Pages are in order, so this is all it takes for no page to need itself by way of others.
    before = list(course.pages)[: list(course.pages).index(name)]
    if late := [other for other in page.needs if other in course.pages and other not in before]:
        found.append(f"needs {', '.join(late)}, which is not before it in the course")
    return found


def tutorials_in(folder: Path) -> list[str]:
    """Return the tutorials under examples/, by their numbers."""
    return [f"{path.parent.name}/{path.stem}" for path in sorted((folder / "examples").glob("*/[0-9][0-9]_*.py"))]


def course_of(env: BuildEnvironment) -> Course:
    """Return the course, for a page that is being read: it is read again when the table changes."""
    table = Path(env.srcdir) / TABLE
    if not table.is_file():
        return Course()
    if env.docname:
        env.note_dependency(str(table))
    return read(table.read_text(encoding="utf-8"), tutorials_in(project_root(env)))


def check(app: Sphinx) -> None:
    """End a build at its beginning if something is wrong with the table."""
    try:
        course_of(app.env)
    except ValueError as error:
        raise ExtensionError(f"{TABLE}: {error}") from None
