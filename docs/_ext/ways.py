"""Ways through the course: what a tutorial finds, what it needs and where it leads, and the cards of a chapter.

They are added to the text of a page before it is read, as its author might have written them.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from _ext.course import course_of, minutes
from _ext.watch import home, read_again, records_of, to_root

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

    from _ext.course import Course

HEAD = re.compile(r"^(={3,}\n)(\n(?:.+\n)+)", re.MULTILINE)  # the line under the title, and the first paragraph
FINDING = re.compile(r"^# sphinx_gallery_thumbnail_number = (\d+)", re.MULTILINE)
THUMBNAILS = re.compile(
    r"\.\. raw:: html\n\n +<div id='sg-tag-list'.*?thumbnail-parent-div-close\n\n\.\. raw:: html\n\n +</div>\n",
    re.DOTALL,
)
THUMBNAIL = re.compile(r'tooltip="(.*?)[.:"].*\n\n.*\n\n +\.\. image:: (\S+)\n +:alt:.*\n\n +:doc:`/tutorials/(\S+)`')

LIVE = "4_imaging/03_first_light"  # whose fit the reader's GPU does, too

FACTS = """
.. rst-class:: fl-facts

Level: {level} · read first: {needs} · {recorded}
"""
NEXT = """
.. container:: fl-next

   **Where next?**

{ahead}

   Or choose from :doc:`all pages </tutorials/index>`.
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
        return "no machine on record"
    record, state, _ = found[0]
    text = f"recorded on {record.facts['device_name']}, {str(record.facts['date'])[:10]}"
    text += "" if state == "fresh" else f", {state}"
    text = re.sub(r"[`<\\]", r"\\\g<0>", text)
    more = len({record.machine for record, _, _ in found}) - 1
    return f"`{text} <{to_root(env)}machines.html#{record.machine}>`__{f'; and {more} more' if more else ''}"


def cards(gallery: str, env: BuildEnvironment, course: Course) -> str:
    """Return the cards of the tutorials in a gallery; of a page that is no part of the course, the first sentence."""
    found = []
    for begins, picture, name in THUMBNAIL.findall(gallery):
        page = course.pages.get(name)
        line = page.line if page else f"{unescape(begins)}."
        note = " · ".join(filter(None, [minutes(env, name), page.level])) if page else ""
        found.append(CARD.format(picture=picture, name=name, line=line, note=note))
    return "\n.. rst-class:: fl-cards\n" + "".join(found) if found else ""


def pictures(env: BuildEnvironment, name: str) -> list[str]:
    """Return the figure of a tutorial's finding, for each theme, as sphinx-gallery wrote it: that of its thumbnail."""
    page, script = Path(env.srcdir, "tutorials", f"{name}.rst"), home(env) / "examples" / f"{name}.py"
    chosen = FINDING.search(script.read_text(encoding="utf-8")) if page.is_file() and script.is_file() else None
    if not chosen:
        return []
    figure = rf"\.\. image:: \S+_{int(chosen[1]):03}(?:_dark)?\.webp\n(?: +:.*\n)+"
    return re.findall(figure, page.read_text(encoding="utf-8"))


class Finding(SphinxDirective):
    """``{finding} 4_imaging/03_first_light`` shows the figure of a tutorial's finding on another page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Show it in each theme."""
        read_again(self.env)  # it may be another figure when the tutorial was run again
        found: list[nodes.Node] = []
        for picture in pictures(self.env, self.arguments[0]):
            said = dict(re.findall(r":(\w+): (.*)", picture))
            classes, uri = said.pop("class").split(), picture.split()[2]
            found.append(nodes.image("", uri=uri, classes=classes, **said))
        return found


def show_ways(app: Sphinx, docname: str, source: list[str]) -> None:
    """Say under a tutorial's title what it finds and needs, and at its end where to go and why."""
    if not docname.startswith("tutorials/"):
        return
    course, name = course_of(app.env), docname.removeprefix("tutorials/")
    if page := course.pages.get(name):
        facts = FACTS.format(
            level=page.level,
            needs=links(page.needs, course) or "nothing",
            recorded=recorded(app.env, name),
        )
        found = "\n".join(["", *pictures(app.env, name), "", *[".. first-light::\n"] * (name == LIVE)])
        ahead = (f"   - :doc:`/tutorials/{other}`: {course.pages[other].line}" for other in page.next)
        source[0] = HEAD.sub(lambda head: head[1] + facts + head[2] + found, source[0], count=1)
        source[0] += NEXT.format(ahead="\n".join(ahead))
    elif course.pages:
        source[0] = THUMBNAILS.sub(lambda gallery: cards(gallery[0], app.env, course), source[0])
        for name, page in course.pages.items():  # the side bar has little room
            source[0] = source[0].replace(f"\n   /tutorials/{name}\n", f"\n   {page.name} </tutorials/{name}>\n")


def setup(app: Sphinx) -> None:
    """Show the ways."""
    app.add_directive("finding", Finding)
    app.connect("source-read", show_ways)
