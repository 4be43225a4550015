"""What pages bring along: styles and scripts as they need them, the icons and letters in use, pictures with a size."""

from __future__ import annotations

import re
import sys
from io import BytesIO
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont
from PIL import Image

from _ext.subsets import FORMULA, used_rules

LIKE_OURS = ("-Dhtml_theme=pydata_sphinx_theme", f"-Dhtml_static_path={Path(sys.prefix) / 'site-static'}")
MATHS = """\
About :math:`\\zeta`
===================

.. math:: \\sqrt{x}

.. index:: single: Error 802: out
"""
PICTURES = """\
:orphan:

Pictures
========

.. image:: /größe.png

.. image:: https://example.org/one.png
"""
PAGES = {
    "a_plain.rst": "Plain\n=====\n\nText.\n",
    "b_maths.rst": MATHS,
    "c_next.rst": "Next\n====\n\nText.\n",
    "deep/d_pictures.rst": PICTURES,
}


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site(PAGES)
    Image.new("RGB", (30, 20)).save(site.folder / "größe.png")
    site.build("html", *LIKE_OURS)
    assert not site.failed, site.log
    return site


def letters(site, font: str) -> set[int]:
    return set(TTFont(BytesIO((site.folder / "build/html/_static" / font).read_bytes())).getBestCmap())


def test_styles_for_mathematics_go_where_it_is(site) -> None:
    assert "katex.min.css" in site.read("html/b_maths.html")
    assert "katex.min.css" in site.read("html/c_next.html")  # its link back has mathematics in its title
    assert "katex.min.css" not in site.read("html/deep/d_pictures.html")


def test_search_waits_and_is_there_once_on_its_page(site) -> None:
    plain, search = site.read("html/a_plain.html"), site.read("html/search.html")
    for script in ("searchtools.js", "language_data.js", "searchindex.js"):
        assert script not in plain
        assert search.count(script) == 1
    assert "search.js" in plain
    assert "fontawesome.js" not in plain + search


def test_fonts_have_what_pages_show_and_no_more(site) -> None:
    icons = letters(site, "vendor/fontawesome/webfonts/fa-solid-900.woff2")
    assert {0xF002, 0xF0C9} <= icons  # a magnifying glass and bars, on every page
    assert 0xF6ED not in icons  # a hippopotamus
    assert letters(site, "katex/fonts/KaTeX_Math-Italic.woff2") >= {ord("ζ"), ord("x")}
    assert ord("ψ") not in letters(site, "katex/fonts/KaTeX_Math-Italic.woff2")
    css = site.read("html/_static/styles/pydata-sphinx-theme.css")
    assert ".fa-magnifying-glass" in css
    assert ".fa-hippo" not in css
    assert ".bs-tooltip-auto" in css


def test_every_letter_of_a_formula_is_found() -> None:
    html = '<p><span class="katex-html"><span>a</span><svg><path/></svg><span>&lt;</span></span></p><p>b</p>'
    assert "".join(FORMULA.findall(html)).endswith("<span>&lt;</span></span>")


@pytest.mark.parametrize(
    "css",
    [
        "a{top:0}",
        "@font-face{src:url(a.woff2)}",
        "@media (min-width:1.5px){.on:hover{top:0}}",
        "@keyframes on{0%{top:0}50.5%{top:1px}}",
        "/*! Icons 7.3.1 by @them, a.com {.off{}} */.on{top:0}",
        '@charset "utf-8";.on{top:0}',
        ":is(.off,.on:not(.off)) .on,.on>b{top:0}",
        ".on:not(.off:hover,.off){top:0}",
    ],
)
def test_rules_in_use_stay_as_they_are(css) -> None:
    assert used_rules(css, {"on"}) == css


@pytest.mark.parametrize("css", [".off{top:0}", ".on.off{top:0}", ".on .off,.off b{top:0}", ".off:not(.on){top:0}"])
def test_rules_for_what_nothing_has_go(css) -> None:
    assert used_rules(css, {"on"}) == ""


def test_pictures_have_a_size_and_wait(site) -> None:
    here, elsewhere = [
        attributes for tag, attributes, _ in site.elements("html/deep/d_pictures.html").found if tag == "img"
    ]
    assert here["src"] == "../_images/gr%C3%B6%C3%9Fe.png"
    assert (here["width"], here["height"], here["loading"], here["decoding"]) == ("30", "20", "lazy", "async")
    assert "width" not in elsewhere


def test_a_later_build_brings_no_more_and_forgets_no_error(site) -> None:
    before = site.read("html/_static/styles/pydata-sphinx-theme.css")
    site.write("a_plain.rst", PAGES["a_plain.rst"] + "\nMore.\n")
    site.build("html", *LIKE_OURS)
    assert not site.failed, site.log
    assert site.read("html/_static/styles/pydata-sphinx-theme.css") == before
    assert "error 802: out" in site.read("html/searchindex.js")
    (site.folder / "b_maths.rst").unlink()
    site.write("a_plain.rst", 'A\n=\n\n.. raw:: html\n\n   <i class="fa-solid fa-hippopotamus"></i>\n')
    site.build("html", *LIKE_OURS)
    assert "error 802: out" not in site.read("html/searchindex.js")
    assert site.failed, "an icon that is none"
    assert re.search(r"WARNING: .*a_plain\.html.*fa-hippopotamus", site.log)
