import re

import pytest

HEAD = ".. list-table:: {}\n    :header-rows: 1\n\n    * - name\n      - value\n    * - one\n      - 1\n"
PAGE = f"Page\n====\n\n{HEAD.format('What it shows')}\n"
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


def test_what_is_a_stop_where_a_table_is_wide_is_named(site) -> None:
    frames = [
        found for _, found, _ in site.elements("html/page.html").found if "scrollable" in (found.get("class") or "")
    ]
    assert [(frame["role"], frame["aria-label"]) for frame in frames] == [("region", "What it shows")]


def test_a_table_without_a_caption_fails_the_build(make_site) -> None:
    site = make_site({"page.rst": "Page\n====\n\n" + HEAD.format("")}).build("html")
    assert site.failed
    assert re.search(r"page\.rst.*caption", site.log)


def test_the_label_of_a_tab_controls_nothing(site) -> None:
    labels = [attributes for tag, attributes, _ in site.elements("html/page.html").found if tag == "label"]
    assert len(labels) == 1
    assert "aria-controls" not in labels[0]
    assert labels[0]["for"]
