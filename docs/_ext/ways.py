"""Ways through the course: what a tutorial needs and where it leads, and the cards of a chapter.

They are added to the text of a page before it is read, as its author might have written them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from _ext.course import course_of, minutes
from _ext.watch import records_of, to_root

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

    from _ext.course import Course

TITLE = re.compile(r"^(?:={3,})\n", re.MULTILINE)
THUMBNAILS = re.compile(
    r"\.\. raw:: html\n\n +<div id='sg-tag-list'.*?thumbnail-parent-div-close\n\n\.\. raw:: html\n\n +</div>\n",
    re.DOTALL,
)
THUMBNAIL = re.compile(r"\.\. image:: (\S+)\n +:alt:.*\n\n +:doc:`/tutorials/(\S+)`")

FACTS = """
.. rst-class:: fl-facts

:Level: {level}
:Needs first: {needs}
:Next: {next}
:Recorded: {recorded}

"""
NEXT = """
.. container:: fl-next

   **Where next?**

{ahead}

   Or choose from :doc:`the map </map>`.
"""
# As large as sphinx-gallery makes the pictures, so that the page stays still when they come.
CARD = """
- .. image:: {picture}
     :alt:
     :width: 400
     :height: 280
     :loading: lazy
     :class: no-scaled-link

  :doc:`/tutorials/{name}`

  {line}

  .. rst-class:: fl-small

  {note}
"""


def links(names: list[str], course: Course) -> str:
    """Return links to tutorials, by the names that the course has for them."""
    return ", ".join(f":doc:`{course.pages[name].name} </tutorials/{name}>`" for name in names)


def recorded(env: BuildEnvironment, name: str) -> str:
    """Return the machine and the day of a tutorial's newest record, and whether it still holds."""
    found = records_of(env, name)
    if not found:
        return "not recorded yet"
    record, state, _ = found[0]
    text = f"{record.facts['device_name']}, {str(record.facts['date'])[:10]}, {state}"
    text = re.sub(r"[`<\\]", r"\\\g<0>", text)
    more = len({record.machine for record, _, _ in found}) - 1
    return f"`{text} <{to_root(env)}machines.html#{record.machine}>`__{f'; and {more} more' if more else ''}"


def cards(gallery: str, env: BuildEnvironment, course: Course) -> str:
    """Return the cards of the tutorials in a gallery; a page that is no part of the course has only its title."""
    found = []
    for picture, name in THUMBNAIL.findall(gallery):
        page = course.pages.get(name)
        note = " · ".join(filter(None, [minutes(env, name), page.level])) if page else ""
        found.append(CARD.format(picture=picture, name=name, line=page.line if page else "", note=note))
    return "\n.. rst-class:: fl-cards\n" + "".join(found) if found else ""


def show_ways(app: Sphinx, docname: str, source: list[str]) -> None:
    """Say under a tutorial's title what it needs and where it leads, and at its end why to go there."""
    if not docname.startswith("tutorials/"):
        return
    course, name = course_of(app.env), docname.removeprefix("tutorials/")
    if page := course.pages.get(name):
        facts = FACTS.format(
            level=f":doc:`{page.level} </map>`",
            needs=links(page.needs, course) or "no other page",
            next=links(page.next, course),
            recorded=recorded(app.env, name),
        )
        ahead = (f"   - :doc:`/tutorials/{other}`: {course.pages[other].line}" for other in page.next)
        source[0] = TITLE.sub(lambda line: line[0] + facts, source[0], count=1) + NEXT.format(ahead="\n".join(ahead))
    elif course.pages:
        source[0] = THUMBNAILS.sub(lambda gallery: cards(gallery[0], app.env, course), source[0])


def setup(app: Sphinx) -> None:
    """Show the ways."""
    app.connect("source-read", show_ways)
