"""What pages bring along: styles and scripts as they need them, and no icons that nobody sees."""

import re

import pytest

from _ext.downloads import ROOT

LIKE_OURS = ("-Dhtml_theme=pydata_sphinx_theme", f"-Dtemplates_path={ROOT / 'docs/_templates'}")
TABS = "\n.. tab-set::\n\n   .. tab-item:: One\n\n      Text.\n"


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site({"a_plain.rst": "Plain\n=====\n\nText.\n", "b_tabs.rst": f"Tabs\n====\n{TABS}"})
    site.rebuild("html", *LIKE_OURS)
    return site


def test_styles_go_where_they_are_needed(site) -> None:
    assert "sphinx-design" in site.read("html/b_tabs.html")
    assert "sphinx-design" not in site.read("html/a_plain.html")
    assert "timings.js" not in site.read("html/a_plain.html")
    assert "fontawesome.js" not in site.read("html/a_plain.html")


def test_the_theme_s_styles_lose_their_icons_and_nothing_else(site) -> None:
    css = site.read("html/_static/styles/pydata-sphinx-theme.css")
    assert "--fa:" not in css.replace("var(--fa:", "")
    assert ".bs-tooltip-auto" in css
    assert css.count("{") == css.count("}")


def test_no_script_stands_in_a_page_and_each_forbids_them(site) -> None:
    for page in ("a_plain", "b_tabs", "genindex"):
        html = site.read(f"html/{page}.html")
        assert html.index("Content-Security-Policy") < html.index("<script")
        assert not re.search(r"<script(?![^>]* src=)", html)


def test_a_page_for_lost_readers_begins_its_links_at_the_root(make_site) -> None:
    site = make_site({"404.rst": "Lost\n====\n\nText.\n"})
    site.rebuild("html", *LIKE_OURS)
    assert "<base " not in site.read("html/404.html")
    site.rebuild("html", *LIKE_OURS, "-Dhtml_baseurl=https://example.org/site/")
    head = site.read("html/404.html").partition("</head>")[0]
    assert head.index('<base href="https://example.org/site/404.html">') < head.index("<link")
    assert "<base " not in site.read("html/index.html")
