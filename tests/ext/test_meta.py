from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from _ext.meta import LONGEST, first_sentences

PAGES = {
    "index.rst": "Home\n====\n\n.. toctree::\n\n   zeta\n   alpha\n   sub/bare\n",
    "zeta.rst": """Z & "zeta"
==========

.. note::

   Not this, it stands in a box.

One page: "is 1 < 2, & why?" See :doc:`alpha` and *this*.

Not this, it is the second.
""",
    "alpha.rst": "The title of alpha\n==================\n\nText of alpha.\n",
    "sub/bare.rst": "Bare\n====\n\n- a list, and no paragraph\n",
    "alone.rst": ":orphan:\n\nAlone\n=====\n\nNobody lists me.\n",
}
BASE = "https://example.org/site/"
SPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site(PAGES)
    assert not site.build("html").failed, site.log
    return site


def tags(site, page: str) -> dict[str, str]:
    """The meta elements of a page, by name or property."""
    found = site.elements(f"html/{page}.html").found
    metas = [attributes for tag, attributes, _ in found if tag == "meta"]
    return {meta.get("name") or meta.get("property") or "": meta.get("content") or "" for meta in metas}


def test_a_page_is_described_by_its_first_paragraph_with_links_resolved(site) -> None:
    found = tags(site, "zeta")
    assert found["description"] == "One page: “is 1 < 2, & why?” See The title of alpha and this."
    assert found["og:description"] == found["description"]
    assert found["og:title"] == "Z & “zeta”"


def test_a_page_without_a_paragraph_has_no_description(site) -> None:
    found = tags(site, "sub/bare")
    assert "description" not in found
    assert not [name for name in found if name.startswith("og:")]
    assert "theme-color" in found


def test_an_address_is_told_only_where_it_is_known(site) -> None:
    assert "og:url" not in tags(site, "alpha")
    assert not (site.folder / "build/html/sitemap.xml").exists()
    assert "](alpha.html)" in site.read("html/llms.txt")


def test_the_list_for_language_models_has_the_pages_in_their_order(site) -> None:
    lines = site.read("html/llms.txt").splitlines()
    assert lines[0].startswith("# ")
    assert [re.findall(r"\((\S*)\)", line)[0] for line in lines[2:]] == [
        "index.html", "zeta.html", "alpha.html", "sub/bare.html"]  # fmt: skip
    assert lines[3] == "- [Z & “zeta”](zeta.html): One page: “is 1 < 2, & why?” See The title of alpha and this."
    assert lines[5] == "- [Bare](sub/bare.html)"


def test_descriptions_are_kept_when_other_pages_are_written(site) -> None:
    before = site.read("html/llms.txt")
    site.write("alpha.rst", PAGES["alpha.rst"] + "\nMore.\n")
    site.rebuild()
    assert site.read("html/llms.txt") == before


def test_with_an_address_there_is_a_map_of_the_site(site) -> None:
    site.rebuild("html", "-D", f"html_baseurl={BASE}")
    places = [place.text for place in ET.fromstring(site.read("html/sitemap.xml")).iter(f"{SPACE}loc")]
    assert places == [f"{BASE}{page}" for page in ("index.html", "zeta.html", "alpha.html", "sub/bare.html")]
    assert tags(site, "sub/bare").get("og:url") is None
    assert tags(site, "alpha")["og:url"] == f"{BASE}alpha.html"
    assert f"]({BASE}zeta.html): One page" in site.read("html/llms.txt")


def test_other_builders_write_no_lists(site) -> None:
    site.rebuild("text")
    assert not (site.folder / "build/text/llms.txt").exists()


WORD = "word " * 60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Short,  and\nbroken.", "Short, and broken."),
        ("One. Two. " + "Three goes on " * 30, "One. Two."),
        ('He said "no." ' + WORD.capitalize(), 'He said "no."'),
        ("About 3.5 GB. and so on " + WORD, None),
        (WORD, None),
        ("x" * 300, None),
        ("x" * (LONGEST - 1) + ". And more.", "x" * (LONGEST - 1) + "."),
    ],
)
def test_descriptions_are_short_and_end_at_a_sentence_or_word(text: str, expected: str | None) -> None:
    found = first_sentences(text)
    assert len(found) <= LONGEST + 1
    if expected is None:
        assert found.endswith(" …")
        assert " ".join(text.split()).startswith(found[:-2])
    else:
        assert found == expected
