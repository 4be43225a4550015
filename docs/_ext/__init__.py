"""What First Light adds to Sphinx, in the order in which it happens; `conf.py` names what sphinx-gallery calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

from _ext import (
    accessibility,
    assets,
    beside,
    breaks,
    codelinks,
    course,
    doctor,
    downloads,
    folds,
    gallery,
    holds,
    machines,
    maths,
    meta,
    navigation,
    outputs,
    programs,
    prose,
    published,
    records,
    references,
    search,
    stacks,
    teaching,
    timings,
    your_gpu,
)

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def finish(app: Sphinx, error: Exception | None) -> None:
    """Write what goes with a site whose pages are all there."""
    if not error and app.builder.name == "html":
        for step in (your_gpu.write_scripts, doctor.lay, search.lay, assets.drop_icons, programs.write):
            step(app)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect every step to the build.

    Where two steps share an event, they happen in the order of these lines. A priority stands only where a step has to
    come before or after one of another extension, with the reason.
    """
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.intersphinx")
    app.setup_extension("sphinx_design")
    app.add_config_value("offered_version", downloads.VERSION, "env", types=[str])  # in the names of files on all pages
    app.add_config_value("project_root", ".", "env", types=[str])  # of examples/ and records/, from the sources

    # A build begins.
    app.connect("builder-inited", search.replace_sphinxs)
    references.tell_of_unreachable_inventories()
    app.connect("builder-inited", gallery.one_at_a_time, priority=0)
    app.connect("builder-inited", course.check)
    # sphinx-gallery runs the examples at this event, with the default priority, 500.
    app.connect("builder-inited", gallery.forget_outdated, priority=100)
    app.connect("builder-inited", gallery.freeze_modules, priority=900)
    app.connect("env-get-outdated", records.outdated)

    # A page is read: its text, which gets a beginning and an end.
    app.connect("source-read", downloads.add_downloads)
    app.connect("source-read", navigation.add_navigation)  # "Where next?" is the last thing on a page
    app.add_role("timing", prose.NumberRole(prose.timing_on_page))
    app.add_role("spec", prose.NumberRole(lambda request, _: prose.spec_number(request)))
    app.add_directive("holds", holds.Holds)
    app.add_role("offered", downloads.OfferedRole())
    app.add_directive("chapter", navigation.Chapter)
    app.add_directive("short-course", navigation.ShortCourse)
    app.add_directive("finding", navigation.Finding)
    app.add_directive("plan", teaching.Plan)
    app.add_directive("guess-sheet", teaching.GuessSheet)
    app.add_directive("figure-sheets", teaching.FigureSheets)
    app.add_directive("wrong-answers", teaching.WrongAnswers)
    app.add_directive("timings", timings.Timings)
    app.add_directive("stacks", stacks.Stacks)
    app.add_directive("measured-by-others", published.MeasuredByOthers)
    app.add_directive("machines", machines.Machines)
    app.add_directive("your-gpu", your_gpu.YourGpu)
    app.add_directive("first-light", your_gpu.FirstLight)
    app.add_directive("doctor-rules", doctor.Rules)

    # Its tree. All have one priority, between docutils' own transforms and Sphinx's smart quotes.
    app.add_transform(downloads.RemoveGalleryDownloads)
    app.add_transform(downloads.LinkTries)
    app.add_transform(navigation.MoveToTop)
    app.add_transform(folds.FoldCells)  # counts the figures, so the finding at the top has to be there
    app.add_transform(outputs.ShowOutputs)  # the tabs of a solution land in its fold
    app.add_transform(beside.CellsBeside)  # a folded cell is in its fold, and stays there
    app.add_transform(prose.LeaveOut)  # puts its banner under the facts at the top

    app.connect("doctree-read", meta.note_first_words)
    app.connect("doctree-read", references.keep_addresses)

    # All pages are read.
    app.connect("env-check-consistency", codelinks.note_imported_names)

    # A page is written: its tree, and its HTML.
    app.connect("html-collect-pages", doctor.pages)
    app.connect("write-started", downloads.write_downloads)
    app.add_post_transform(codelinks.KeepReferenceLinks)  # those of sphinx-gallery are there by then
    app.add_post_transform(accessibility.MendParts)  # and sphinx-design's tabs
    app.connect("missing-reference", references.leave_unreachable, priority=900)  # after all who may resolve it
    app.add_html_math_renderer("mathml", maths.INLINE, maths.BLOCK)
    app.add_node(nodes.table, override=True, html=(accessibility.open_table, accessibility.close_table))
    app.add_node(nodes.entry, override=True, html=(accessibility.open_cell, None))
    app.connect("html-page-context", meta.describe)
    app.connect("html-page-context", search.write_parts)
    app.connect("html-page-context", navigation.turn_pages)
    app.connect("html-page-context", breaks.mark)  # after those who read a page's text
    for script in ("found.js", *assets.SCRIPTS):
        app.add_js_file(script, loading_method="defer")
    app.connect("html-page-context", assets.choose, priority=900)  # when all have asked for their files

    # All is written.
    app.connect("build-finished", finish)
    app.connect("build-finished", gallery.tell_costs)
    return {"version": "1", "env_version": 17}
