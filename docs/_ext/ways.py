"""Ways through the course: what a tutorial needs and where it leads, the cards of a chapter, the tutorials by tag."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from _ext.course import Course, Page, course_of, minutes
from _ext.watch import records_of, to_root

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

INDEX = re.compile(r"tutorials/([^/]+/)?index")


# -- Links ---------------------------------------------------------------------------------------------------------


def link(env: BuildEnvironment, target: str, text: str = "", kind: str = "doc") -> addnodes.pending_xref:
    """A link to a page, or to a tag; without a text, it shows the title of the page."""
    shown = nodes.inline("", text or target)
    return addnodes.pending_xref(
        "", shown, refdomain="std", reftype=kind, reftarget=target, refexplicit=bool(text), refdoc=env.docname,
        refwarn=True,
    )  # fmt: skip


def tutorial(env: BuildEnvironment, name: str, text: str = "") -> addnodes.pending_xref:
    """A link to a tutorial."""
    return link(env, f"/tutorials/{name}", text)


def tag_label(tag: str) -> str:
    """The label of a tag's place in the list of the tutorials by tag."""
    return nodes.make_id(f"tag-{tag}")


def joined(parts: list[nodes.Node], between: str = ", ") -> nodes.paragraph:
    """Nodes in one line."""
    line = nodes.paragraph("", "")
    for place, part in enumerate(parts):
        line += [nodes.Text(between)] * bool(place) + [part]
    return line


# -- On a tutorial -------------------------------------------------------------------------------------------------


class ShowWays(SphinxTransform):
    """Say under a tutorial's title what it needs and where it leads, and at its end why to go there."""

    default_priority: ClassVar[int] = 410

    def apply(self) -> None:
        """Change the page, if it is a tutorial of the course."""
        course = course_of(self.env) if self.env.docname.startswith("tutorials/") else Course()
        name = self.env.docname.removeprefix("tutorials/")
        page = course.pages.get(name)
        section = next(iter(self.document.findall(nodes.section)), None)
        if page and section:
            section.insert(1, facts(self.env, name, page, course))
            section += where_next(self.env, page, course)


def facts(env: BuildEnvironment, name: str, page: Page, course: Course) -> nodes.field_list:
    """The block under the title."""
    level: nodes.Node = link(env, "/map", page.level) if "map" in env.found_docs else nodes.Text(page.level)
    tags = [link(env, tag_label(tag), tag, "ref") for tag in page.tags if tag in course.tags]
    needs = [tutorial(env, other, course.pages[other].name) for other in page.needs if other in course.pages]
    ahead = [tutorial(env, other, course.pages[other].name) for other in page.next if other in course.pages]
    rows = {
        "Level": joined([level]),
        "Tags": joined([*tags]),
        "Needs first": joined([*needs]) if needs else joined([nodes.Text("no other page")]),
        "Next": joined([*ahead]),
        "Recorded": recorded(env, name),
    }
    block = nodes.field_list(classes=["fl-facts"])
    block += [nodes.field("", nodes.field_name(text=label), nodes.field_body("", row)) for label, row in rows.items()]
    return block


def recorded(env: BuildEnvironment, name: str) -> nodes.paragraph:
    """The machine and the day of a tutorial's newest record, and whether it still holds."""
    found = records_of(env, name)
    if not found:
        return joined([nodes.Text("not recorded yet")])
    record, state, reasons = found[0]
    text = f"{record.facts['device_name']}, {str(record.facts['date'])[:10]}, {state}"
    address = f"{to_root(env)}machines.html#{record.machine}"
    machine = nodes.reference("", text, refuri=address, internal=True, reftitle="; ".join(reasons))
    more = len({record.machine for record, _, _ in found}) - 1
    return joined([machine, *[nodes.Text(f"{more} more")] * bool(more)], "; and ")


def where_next(env: BuildEnvironment, page: Page, course: Course) -> nodes.container:
    """The block at the end of a tutorial: the pages to go to, and what one gets there."""
    block = nodes.container("", nodes.paragraph("", "", nodes.strong(text="Where next?")), classes=["fl-next"])
    block += described(env, [other for other in page.next if other in course.pages], course)
    if "map" in env.found_docs:
        block += nodes.paragraph("", "", nodes.Text("Or choose from "), link(env, "/map", "the map"), nodes.Text("."))
    return block


def described(env: BuildEnvironment, names: list[str], course: Course) -> nodes.bullet_list:
    """Pages with what one gets there."""
    found = nodes.bullet_list("")
    for name in names:
        line = nodes.Text(f" {course.pages[name].line}")
        found += nodes.list_item("", nodes.paragraph("", "", tutorial(env, name), nodes.Text(":"), line))
    return found


# -- On the page of a chapter --------------------------------------------------------------------------------------


class DrawCards(SphinxTransform):
    """Put our cards in the place of sphinx-gallery's thumbnails: title, line, minutes and level instead of a tooltip.

    A gallery is from one ``raw`` node to another, with a comment behind the first and before the last.
    """

    default_priority: ClassVar[int] = 410

    def apply(self) -> None:
        """Change the page, if it is a list of tutorials."""
        course = course_of(self.env) if INDEX.fullmatch(self.env.docname) else Course()
        if not course.pages:
            return
        for comment in list(self.document.findall(nodes.comment)):
            if comment.astext() == "thumbnail-parent-div-open":
                parent = comment.parent
                start = parent.index(comment) - 2  # the place for a list of tags, and what opens the gallery
                ends = (child for child in parent.children[start:] if child.astext() == "thumbnail-parent-div-close")
                end = parent.index(next(ends)) + 2
                parent[start:end] = self.cards(parent.children[start:end], course)

    def cards(self, gallery: list[nodes.Node], course: Course) -> list[nodes.Node]:
        """The cards of the tutorials in a gallery; of none, for none."""
        found = nodes.bullet_list("", classes=["fl-cards"])
        for shown in gallery:
            targets = [ref["reftarget"] for ref in shown.findall(addnodes.pending_xref)]
            pictures = list(shown.findall(nodes.image))
            if targets:
                found += self.card(targets[0].removeprefix("/tutorials/"), pictures, course)
        return [found] if found.children else []

    def card(self, name: str, pictures: list[nodes.image], course: Course) -> nodes.list_item:
        """The card of one page; a page that is no part of the course has only its title."""
        for picture in pictures[:1]:  # as large as sphinx-gallery makes them, so that the page stays still
            picture.attributes.update(width="400", height="280", loading="lazy")
        card = nodes.list_item("", *pictures[:1], nodes.paragraph("", "", tutorial(self.env, name)))
        if page := course.pages.get(name):
            note = " · ".join(filter(None, [minutes(self.env, name), page.level]))
            card += [nodes.paragraph(text=page.line), nodes.paragraph(text=note, classes=["fl-small"])]
        return card


# -- By tag --------------------------------------------------------------------------------------------------------


class Tags(SphinxDirective):
    """``.. course-tags::`` lists the tutorials by tag; each tag is a label ``tag-…``."""

    def run(self) -> list[nodes.Node]:
        """A line a tag."""
        course = course_of(self.env)
        found = nodes.field_list(classes=["fl-tags"])
        for tag in course.tags:
            head = nodes.inline("", tag, ids=[tag_label(tag)], names=[tag_label(tag)])
            self.state.document.note_explicit_target(head)
            pages = [tutorial(self.env, name, page.name) for name, page in course.pages.items() if tag in page.tags]
            body = nodes.field_body("", joined([*pages], " · "))
            found += nodes.field("", nodes.field_name("", "", head), body)
        return [found]


def setup(app: Sphinx) -> None:
    """Register the transforms and the directive."""
    app.add_transform(ShowWays)
    app.add_transform(DrawCards)
    app.add_directive("course-tags", Tags)
