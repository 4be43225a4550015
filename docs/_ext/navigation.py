"""What a tutorial needs and where it leads, the figure of its finding at its top, the short course, and the cards."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from _ext.course import Course, course_of
from _ext.outputs import recorded_figure
from _ext.records import project_root, records_of, relative_root
from firstlight.records.runner import MEASURED, block_keys, split

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

FINDING = re.compile(r"^# sphinx_gallery_thumbnail_number = (\d+)", re.MULTILINE)
FIRST_SENTENCE = re.compile(r"(?s)^===+\n\n(.+?[.?])\s", re.MULTILINE)  # below a script's title
LIVE = "4_imaging/01_first_light"  # whose fit the reader's GPU does, too

# Written at the end of a page's text; MoveToTop takes the first part away from there.
ENDS = """
.. container:: fl-top

   .. rst-class:: fl-facts no-search

   {place} · {minutes} minutes · read first: {needs} · {recorded} · `run it yourself <#run-it-yourself>`__

{finding}

.. container:: fl-next no-search

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


def place(name: str, course: Course) -> str:
    """Return where a tutorial stands: in the short course, or how deep beside it."""
    if name not in course.short:
        return f"Level: {course.pages[name].level}"
    return f"Page {course.short.index(name) + 1} of {len(course.short)} of the :doc:`short course </tutorials/index>`"


def ahead(name: str, course: Course) -> str:
    """Return where one may go after a tutorial: on in the short course first, then where its entry says."""
    pages = course.short
    after = pages[pages.index(name) + 1 :][:1] if name in pages else []
    others = [other for other in course.pages[name].next if other not in after]
    lines = [("On in the short course: ", other) for other in after] + [("", other) for other in others]
    return "\n".join(f"- {words}:doc:`/tutorials/{other}`: {course.pages[other].line}" for words, other in lines)


def recorded(env: BuildEnvironment, name: str) -> str:
    """Return the machine and the day of a tutorial's newest record, and how many other machines have one."""
    found = records_of(env, name)
    if not found:
        return "no machine on record"
    record = found[0].record
    text = f"{record.facts['device_name']}, {str(record.facts['date'])[:10]}"
    text = re.sub(r"[`<\\]", r"\\\g<0>", text)
    more = len({judged.record.machine for judged in found}) - 1
    text = f"recorded on `{text} <{relative_root(env)}machines.html#{record.machine}>`__"
    return text + " with older code" * (found[0].state == "stale") + f", and on {more} more" * bool(more)


def finding(env: BuildEnvironment, name: str) -> str:
    """Return the figure of a tutorial's finding, that of its thumbnail, as figures.scrape showed it."""
    script = project_root(env) / "examples" / f"{name}.py"
    chosen = FINDING.search(script.read_text(encoding="utf-8")) if script.is_file() else None
    image = f"sphx_glr_{script.stem}_{int(chosen[1]):03}.rst.txt" if chosen else ""
    shown = Path(env.srcdir, "tutorials", f"{name}.rst").with_name("images") / image
    return shown.read_text(encoding="utf-8") if shown.is_file() else ""


def indented(text: str) -> str:
    """Return the lines of a container."""
    return "\n".join(f"   {line}" for line in text.splitlines())


def add_navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Write what a tutorial needs, found and leads to at the end of its text."""
    name = docname.removeprefix("tutorials/")
    course = course_of(app.env) if name != docname else Course()
    if page := course.pages.get(name):
        # On a page of the short course a reader guesses first, and meets the finding where it is found.
        found = "" if name in course.short else finding(app.env, name)
        source[0] += ENDS.format(
            place=place(name, course),
            minutes=page.minutes,
            needs=links(page.needs, course) or "nothing",
            recorded=recorded(app.env, name),
            finding=indented("\n".join([found, *[".. first-light::"] * (name == LIVE)])),
            ahead=indented(ahead(name, course)),
        )


def turn_pages(app: Sphinx, docname: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Let the arrows at the foot of a page of the short course lead along the course."""
    name = docname.removeprefix("tutorials/")
    pages = course_of(app.env).short if name != docname else []
    if name not in pages:
        return
    at = pages.index(name)
    for arrow, to in (("prev", pages[at - 1 : at]), ("next", pages[at + 1 : at + 2])):
        document = f"tutorials/{to[0]}" if to else "tutorials/index"
        title = app.env.titles[document].astext()
        context[arrow] = {"link": app.builder.get_relative_uri(docname, document), "title": escape(title)}


class MoveToTop(SphinxTransform):
    """Move the facts of a page under its title, and its finding under the first paragraph."""

    default_priority: ClassVar[int] = 400

    def apply(self) -> None:
        """Find both, which a page has once or not at all."""
        for top in [node for node in self.document.findall(nodes.container) if "fl-top" in node["classes"]]:
            top.parent.remove(top)
            facts, *finding = top.children
            first = next(self.document.findall(nodes.paragraph))
            page, at = first.parent, first.parent.index(first)
            page[at : at + 1] = [facts, first, *finding]


class Finding(SphinxDirective):
    """``{finding} 4_imaging/03_real_sky`` shows the figure of a tutorial's finding on a page in Markdown."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Show the first figure that is recorded; else what this build drew, in each theme."""
        name = self.arguments[0]
        self.env.note_reread()  # it may be another figure when the tutorial was run again
        source = (project_root(self.env) / "examples" / f"{name}.py").read_text(encoding="utf-8")
        code = [block.text for block in split(source) if block.kind == "code"]
        keys = [key for text, key in zip(code, block_keys(source), strict=True) if MEASURED in text.splitlines()]
        records = [judged.record for judged in records_of(self.env, name)]
        if keys and (html := recorded_figure(records, keys[0])):
            return [nodes.raw("", html, format="html")]
        figure = finding(self.env, name)  # as sphinx-gallery wrote it, in reStructuredText
        return self.parse_text_to_nodes(f"```{{eval-rst}}\n{figure}\n```") if figure else []


class ShortCourse(SphinxDirective):
    """``{short-course}`` lists the pages of the short course, with what each takes, and how long all take."""

    def run(self) -> list[nodes.Node]:
        """Write a numbered list in reStructuredText, which a page in Markdown reads, too."""
        course = course_of(self.env)
        pages = {name: course.pages[name] for name in course.short}
        total = sum(page.minutes for page in pages.values())
        lines = [
            f"#. :doc:`/tutorials/{name}` ({page.minutes} minutes)\n\n   {page.line}" for name, page in pages.items()
        ]
        hours = f"about {total / 60:.1g} hours of reading" if total >= 60 else f"{total} minutes of reading"
        listed = indented("\n".join(lines))
        text = f"{len(pages)} pages, {hours}.\n\n.. container:: fl-course\n\n{listed}"
        is_markdown = self.env.doc2path(self.env.docname).endswith(".md")
        return self.parse_text_to_nodes(f"```{{eval-rst}}\n{text}\n```" if is_markdown else text)


class Chapter(SphinxDirective):
    """``.. chapter:: 1_setup`` shows the cards of a chapter; on the chapter's own page, it leads to its tutorials."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Take the tutorials in the order of their files."""
        folder, course = self.arguments[0], course_of(self.env)
        scripts = sorted((project_root(self.env) / "examples" / folder).glob("*.py"), key=lambda one: one.name)
        names = [f"{folder}/{script.stem}" for script in scripts]
        first = [name for name in names if name in course.short]
        text = ""
        for heading, some in (
            ("In the short course", first),
            ("Go deeper", [one for one in names if one not in first]),
        ):
            if some:
                text += f"\n.. rubric:: {heading}\n\n.. rst-class:: fl-cards\n"
                text += "\n".join(self.card(name, course) for name in some) + "\n"
        if self.env.docname == f"tutorials/{folder}/index":  # the side bar has little room
            short = {name: f"{page.name} </tutorials/{name}>" for name, page in course.pages.items()}
            entries = "\n".join(short.get(name, f"/tutorials/{name}") for name in names)
            text += f"\n\n.. toctree::\n   :hidden:\n\n{indented(entries)}"
        return self.parse_text_to_nodes(text)

    def card(self, name: str, course: Course) -> str:
        """Return the card of a tutorial; a script that is no part of the course has its first sentence."""
        made = Path(self.env.srcdir, "tutorials", f"{name}.rst")
        self.env.note_dependency(str(made))
        if not (page := course.pages.get(name)):
            source = (project_root(self.env) / "examples" / f"{name}.py").read_text(encoding="utf-8")
            says = FIRST_SENTENCE.search(source)
            return f"\n- :doc:`/tutorials/{name}`\n\n  {' '.join(says[1].split()) if says else ''}\n"
        # A page that was once listed without being run has a placeholder, too, which is a .png.
        drawn = (made.parent / "images/thumb").glob(f"sphx_glr_{made.stem}_thumb.*")
        kept = Path(self.env.srcdir, "figures", f"{made.stem}.webp")  # of data that a build may not be able to fetch
        picture = kept if kept.is_file() else max(drawn)
        shown = f"/{picture.relative_to(self.env.srcdir).as_posix()}"
        return CARD.format(picture=shown, name=name, line=page.line, note=f"{page.minutes} minutes · {page.level}")
