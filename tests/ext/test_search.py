from __future__ import annotations

import json

import pytest

PAGES = {
    "index.rst": "Home\n====\n\n.. toctree::\n\n   slow\n   words\n   hidden\n",
    "slow.rst": """:keywords: sluggish, lag

Where does the time go?
=======================

Someone *waits*, see :doc:`words`. $\\ x$

A queue
-------

The GPU waits in a queue. Call ``torch.cuda.synchronize()``. An RTX 5090 is sm_120, with 12 fans and 2D images.

.. code-block:: python

   zeta = coded()

.. raw:: html

   <p>rawmarkup</p>

.. container:: no-search

   unseen

.. math:: \\sigma
""",
    "words.rst": """Words
=====

.. glossary::

   occupancy
   utilization
      How many warps there are. And more.

.. py:function:: sync_all(when)

   Wait for everybody.
""",
    "hidden.rst": ":nosearch:\n\nHidden\n======\n\nsecrecy\n",
}


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site(PAGES)
    site.rebuild()
    return site


def index(site) -> tuple[list[list], dict[str, str]]:
    """The documents, and for each word the numbers of those where it stands."""
    told = json.loads(site.read("html/_static/search-index.js").removeprefix("firstlightIndex = ").rstrip(";\n"))
    assert len(told["lengths"]) == len(told["documents"])
    return told["documents"], dict(line.split(" ") for line in told["words"].splitlines())


def pages_with(site, word: str) -> set[str]:
    documents, words = index(site)
    at, found = 0, set()
    for place in filter(None, words.get(word, "").split(",")):
        at += int(place.rstrip("ABCDEFGHI!"), 36)
        found.add(documents[at][0])
    return found


def test_a_page_is_found_by_its_text_its_keywords_and_parts_of_names(site) -> None:
    for word in ("sluggish", "lag", "wait", "cuda", "synchroniz", "word", "5090", "sm_120", "120", "2d"):
        assert "slow.html" in pages_with(site, word), word


def test_what_is_not_text_is_not_found(site) -> None:
    for word in ("rawmarkup", "unseen", "sigma", "secrec", "the", "12", "zeta", "coded"):
        assert pages_with(site, word) == set(), word


def test_the_words_of_titles_and_keywords_say_what_a_page_is_about(site) -> None:
    _, words = index(site)
    assert words["sluggish"].endswith("!")
    assert words["tim"].endswith("!")
    assert not words["synchroniz"].endswith("!")


def test_an_entry_of_the_glossary_is_found_by_each_of_its_names_at_its_place(site) -> None:
    documents, _ = index(site)
    assert {url: title for url, title, *_ in documents if "#" in url} == {
        "words.html#term-occupancy": "Glossary: occupancy, utilization",
    }
    for word in ("warp", "occupanc"):
        assert "words.html#term-occupancy" in pages_with(site, word), word


def test_a_page_that_leads_to_others_stands_lower_than_one_that_answers(site) -> None:
    factors = {url: factor for url, *_, factor in index(site)[0]}
    assert factors["index.html"] < factors["slow.html"]


def test_the_sections_that_are_quoted_have_their_anchors_and_resolved_words(site) -> None:
    url, parts = json.loads(site.read("html/_static/found/slow.js").removeprefix("search.keep(").rstrip(");\n") + "")
    assert url == "slow.html"
    assert parts[0][:2] == ["where-does-the-time-go", "Where does the time go?"]
    assert "Someone waits, see Words." in parts[0][2]
    assert parts[1][:2] == ["a-queue", "A queue"]
    assert parts[1][2].split("\n")[1] == "\tzeta = coded()", "code, which no hit quotes, is marked"
    names = json.loads(site.read("html/_static/found/words.js").removeprefix("search.keep(").rstrip(");\n"))[1]
    assert ["sync_all", "sync_all"] in [part[:2] for part in names]


def test_a_page_that_is_built_again_is_found_by_its_new_words(site) -> None:
    site.write("slow.rst", PAGES["slow.rst"].replace("sluggish", "torpid"))
    assert site.rebuild() == "0 added, 1 changed, 0 removed"
    assert pages_with(site, "torpid") == {"slow.html"}
    assert pages_with(site, "sluggish") == set()
    assert "words.html" in pages_with(site, "everybod"), "a page that was not built again is still there"
