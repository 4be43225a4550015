"""The map of the course: a column a chapter, a box a page, an arrow from what a page needs; else a list."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from _ext.course import Course, chapters, course_of, minutes
from _ext.watch import to_root
from _ext.ways import links

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WIDE, HIGH = 184, 34  # of a box
ACROSS, DOWN = 254, 48  # from box to box
LEFT, TOP = 46, 40  # of the first box

Places = dict[str, tuple[int, int]]


class Map(SphinxDirective):
    """``.. course-map::`` draws the course and lists it; the style sheet shows one of the two."""

    def run(self) -> list[nodes.Node]:
        """Draw it, then list the chapters, each page with what to read before it, and how long it takes."""
        course = course_of(self.env)
        by_chapter = chapters(self.env, course)
        if not course.pages:
            return [nodes.paragraph(text="There is no course yet.")]
        lines = []
        for chapter, names in by_chapter.items():
            lines += [f"**{chapter}**", ""]
            for name in names:
                page = course.pages[name]
                after = f" · after {links(page.needs, course)}" if page.needs else ""
                note = f"{minutes(self.env, name)} · {page.level}{after}"
                lines += [f"- :doc:`/tutorials/{name}`", "", "  .. rst-class:: fl-small", "", f"  {note}", ""]
        listed = nodes.container("", *self.parse_text_to_nodes("\n".join(lines)), classes=["fl-map-list"])
        picture = nodes.raw("", drawing(course, by_chapter, to_root(self.env)), format="html")
        return [nodes.container("", picture, listed, classes=["fl-map"])]


def drawing(course: Course, by_chapter: dict[str, list[str]], to_root: str) -> str:
    """The map as part of the page, in the page's own ink; a box that has the focus shows its arrows."""
    places = {name: (LEFT + ACROSS * column, TOP + DOWN * row)
              for column, names in enumerate(by_chapter.values()) for row, name in enumerate(names)}  # fmt: skip
    right, bottom = (max(place[axis] for place in places.values()) for axis in (0, 1))
    heads = "".join(f'<text class="fl-chapter" x="{LEFT + ACROSS * column}" y="22">{escape(chapter)}</text>'
                    for column, chapter in enumerate(by_chapter))  # fmt: skip
    ways = {name: "".join(arrow(other, name, places) for other in page.needs if other in places)
            for name, page in course.pages.items()}  # fmt: skip
    boxes = "".join(box(name, course, places, ways[name], to_root) for name in places)
    return (
        f'<svg viewBox="0 0 {right + WIDE + 4} {bottom + HIGH + 4}" role="group" aria-label="The map of the course">'
        '<defs><marker id="fl-tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0 6 3 0 6z"/></marker></defs>'
        f'{heads}<g class="fl-ways">{"".join(ways.values())}</g>{boxes}</svg>\n'
    )


def box(name: str, course: Course, places: Places, ways: str, to_root: str) -> str:
    """The box of a page, a link; dots tell its level, as many as it has steps."""
    page, (x, y) = course.pages[name], places[name]
    steps = course.levels.index(page.level) + 1 if page.level in course.levels else 0
    first = x + WIDE - 1 - 9 * len(course.levels)
    dots = "".join(
        f'<circle class="fl-o{"n" if place < steps else "ff"}" cx="{first + 9 * place}" cy="{y + HIGH // 2}" r="3"/>'
        for place in range(len(course.levels))
    )
    return (
        f'<g class="fl-page"><g class="fl-ways">{ways}</g>'
        f'<a href="{to_root}tutorials/{name}.html" aria-label="{escape(page.name)}, {escape(page.level)}">'
        f"<title>{escape(page.line)}</title>"
        f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="4"/>'
        f'<text x="{x + 8}" y="{y + HIGH / 2 + 4:g}">{escape(page.name)}</text>{dots}</a></g>\n'
    )


def arrow(start: str, end: str, places: Places) -> str:
    """An arrow between two boxes: down to the next one, around those between, or on to another column."""
    (x1, y1), (x2, y2) = places[start], places[end]
    if x1 == x2 and y2 - y1 == DOWN:
        return f'<path d="M{x1 + 16} {y1 + HIGH}V{y2}"/>'
    middle1, middle2 = y1 + HIGH // 2, y2 + HIGH // 2
    if x1 == x2:
        out = x1 - min(8 + 7 * (y2 - y1) // DOWN, ACROSS - WIDE - 10)
        return f'<path d="M{x1} {middle1}C{out} {middle1} {out} {middle2} {x2} {middle2}"/>'
    bend = (x2 - x1 - WIDE) // 2
    return f'<path d="M{x1 + WIDE} {middle1}C{x1 + WIDE + bend} {middle1} {x2 - bend} {middle2} {x2} {middle2}"/>'


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("course-map", Map)
