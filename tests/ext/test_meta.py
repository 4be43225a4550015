from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from _ext.meta import LONGEST, first_sentences

PAGES = {
    "index.rst": "Home\n====\n\n.. toctree::\n\n   zeta\n   sub/bare\n",
    "zeta.rst": """Z & "zeta"
==========

.. note::

   Not this, it stands in a box.

One page: "is 1 < 2, & why?" See :doc:`sub/bare` and *this*.

Not this, it is the second.
""",
    "sub/bare.rst": "Bare\n====\n\n- a list, and no paragraph\n",
    "alone.rst": ":orphan:\n\nAlone\n=====\n\nNobody lists me.\n",
}
BASE = "https://example.org/site/"
SPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site(PAGES)
    site.rebuild()
    return site


def described(site, page: str) -> list[str | None]:
    found = site.elements(f"html/{page}.html").found
    return [attributes["content"] for tag, attributes, _ in found if tag == "meta" if "description" in
            (attributes.get("name") or "")]  # fmt: skip


def test_a_page_is_described_by_its_first_paragraph_with_links_resolved(site) -> None:
    assert described(site, "zeta") == ["One page: “is 1 < 2, & why?” See Bare and this."]
    assert described(site, "sub/bare") == []
    assert site.read("html/zeta.html").count('name="viewport"') <= 1


def test_with_an_address_there_is_a_map_of_the_site(site) -> None:
    assert not (site.folder / "build/html/sitemap.xml").exists()
    site.rebuild("html", "-D", f"html_baseurl={BASE}")
    places = [place.text for place in ET.fromstring(site.read("html/sitemap.xml")).iter(f"{SPACE}loc")]
    assert places == [f"{BASE}{page}" for page in ("index.html", "zeta.html", "sub/bare.html")]


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
