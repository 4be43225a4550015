from __future__ import annotations

import re

import pytest

HEAD = ".. list-table:: {}\n    :header-rows: 1\n\n    * - name\n      - value\n    * - one\n      - 1\n"
DRAWING = '.. raw:: html\n\n    <svg role="img"><path id="p_1"/><use href="#p_1"/><g clip-path="url(#p_1)"/></svg>\n'
PAGE = f"Page\n====\n\n{HEAD.format('What it shows')}\n{DRAWING}\nText.\n\n{DRAWING}\n"
TABS = """
.. tab-set::

    .. tab-item:: One

        Text.
"""


ELSEWHERE = "\n.. only:: not html\n\n" + "".join(f"    {line}\n" for line in HEAD.format("").splitlines())


@pytest.fixture(scope="module")
def site(make_site):
    """It has a table without a caption, which only other builders show."""
    site = make_site({"page.rst": PAGE + TABS + ELSEWHERE}).build("html", "-n")
    assert not site.failed, site.log
    return site


def test_heads_say_of_what_they_are_heads(site) -> None:
    heads = [attributes["scope"] for tag, attributes, _ in site.elements("html/page.html").found if tag == "th"]
    assert heads == ["col", "col", "row"]


def test_a_table_without_a_caption_fails_the_build(make_site) -> None:
    site = make_site({"page.rst": "Page\n====\n\n" + HEAD.format("")}).build("html")
    assert site.failed
    assert re.search(r"page\.rst.*caption", site.log)


def test_drawings_have_names_of_their_own(site) -> None:
    ids = re.findall(
        r'<path id="([^"]+)"/><use href="#([^"]+)"/><g clip-path="url\(#([^)]+)\)"', site.read("html/page.html")
    )
    assert ids == [("p_1",) * 3, ("p_1-2",) * 3]


def test_the_label_of_a_tab_controls_nothing(site) -> None:
    labels = [attributes for tag, attributes, _ in site.elements("html/page.html").found if tag == "label"]
    assert len(labels) == 1
    assert "aria-controls" not in labels[0]
    assert labels[0]["for"]


def test_the_viewport_is_said_once_at_most_and_the_theme_before_the_body(site) -> None:
    html = site.read("html/page.html")
    assert html.count('name="viewport"') <= 1
    assert html.index("prefers-color-scheme") < html.index("<body")


def test_the_side_bar_s_buttons_have_names() -> None:
    from _ext.barriers import mend_page

    class App:
        def add_js_file(self, *_: object, **__: object) -> None:
            pass

    made = '<ul><li><a href="x">Its <em>name</em></a><details><summary><i></i></summary></details></li></ul>'
    context = {"generate_toctree_html": lambda *_, **__: made}
    mend_page(App(), "", "", context, None)
    assert 'aria-label="Pages of: Its name"' in context["generate_toctree_html"]("sidebar")
