import re

import pytest
from docutils.core import publish_doctree

from _ext.terms import Entry, mentions

GLOSSARY = """---
linked_in:
  block: [kernels]
  hidden: []
---
# Glossary

```{glossary}
:sorted:

warp
  32 threads that go together. More of it.

  Shown in {doc}`kernels`

block
  A group of threads.

  Shown in {doc}`kernels`

shared memory
hidden
  Memory of one block. Small!

  Shown in {doc}`kernels`

memory
  Where numbers are.
```
"""
KERNELS = "Kernels\n=======\n\nA block is cut into *warps*. A warp loads from shared\nmemory, and this is memory.\n"
MEMORY = "Memory\n======\n\nA block of memory, hidden from a warp.\n"
PAGES = {"glossary.md": GLOSSARY, "kernels.rst": KERNELS, "memory.rst": MEMORY}


def entry(*forms, page=""):
    return Entry(f"term-{forms[0]}", forms, f"What {forms[0]} is.", page)


def found(text, *entries, page="page", **linked_in):
    tree = publish_doctree(text, settings_overrides={"report_level": 5})
    return [str(one.text[one.start : one.end]) for one in mentions(tree, page, [*entries], linked_in)]


WARP = entry("warp")


@pytest.mark.parametrize(
    ("text", "forms", "expected"),
    [
        ("A warp and a warp.", ["warp"], ["warp"]),
        ("Warps wait.", ["warp"], ["Warps"]),
        ("The warp's lanes, the warp’s end.", ["warp"], ["warp"]),
        ("Some *warps*, some **warps**.", ["warp"], ["warps"]),
        ("A warped warp-level prewarp subwarp_ warp2 µwarp.", ["warp"], []),
        ("A batch, then batches.", ["batches"], ["batches"]),
        ("Two batches of visibilities.", ["batch", "visibility"], ["batches", "visibilities"]),
        ("The delay and its delays.", ["delay"], ["delay"]),
        ("An SM is no sm.", ["SM"], ["SM"]),
        ("An sm.", ["SM"], []),
        ("A TF, many SMs.", ["SM"], ["SMs"]),
        ("numba, Numba", ["Numba"], ["Numba"]),
        ("From shared\nmemory to memory.", ["memory", "shared memory"], ["shared\nmemory", "memory"]),
        ("Amdahl’s law, Amdahl's law.", ["Amdahl's law"], ["Amdahl’s law"]),
        ("Data are launch-bound: a launch.", ["launch", "launch-bound"], ["launch-bound", "launch"]),
        ("Only launch-bound.", ["launch"], []),
        ("In Jy/arcsec², not Jy.", ["Jy", "Jy/arcsec²"], ["Jy/arcsec²", "Jy"]),
        ("The λ, and χ² of it.", ["λ", "χ²"], ["λ", "χ²"]),
        ("A (warp), “warp”", ["warp"], ["warp"]),
        ("An axb, then a.b", ["a.b"], ["a.b"]),
    ],
)
def test_forms_are_found_as_they_are_written(text, forms, expected):
    assert found(text, *(entry(form) for form in forms)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The warp\n========\n\nText.",
        "Of ``warp``.",
        "See `the warp <https://a.org>`__.",
        "::\n\n   a warp",
        "=====  =====\na      warp\n=====  =====\nwarp   b\n=====  =====",
        ".. figure:: x.png\n\n   A warp.\n\n   Each warp.",
        ".. image:: x.png\n   :alt: a warp",
        ".. sidebar:: A\n\n   A warp.",
        ".. topic:: A\n\n   A warp.",
        "warp\n   A definition.",
        ".. rubric:: A warp",
        ".. A warp in a remark",
    ],
)
def test_what_is_no_running_prose_is_left_alone(text):
    assert found(text, WARP) == []


def test_other_forms_of_an_entry_are_no_second_mention():
    assert found("A multiprocessor (SM), an SM.", entry("SM", "multiprocessor")) == ["multiprocessor"]


def test_an_ambiguous_form_is_linked_in_its_places_only():
    block, places = entry("block", "thread block"), {"block": ["3_kernels", "how"]}
    text = "A block, a thread block."
    assert found(text, block, page="tutorials/3_kernels/01_first", **places) == ["block"]
    assert found(text, block, page="how_we_measure", **places) == ["block"]
    assert found(text, block, page="tutorials/2_devices/01", **places) == ["thread block"]
    assert found(text, block, page="tutorials/2_devices/01", block=[]) == ["thread block"]


def test_a_page_has_twelve_links_and_first_those_it_explains():
    words = [f"word{letter}" for letter in "abcdefghijklmn"]
    entries = [entry(word, page="page" if word == "wordn" else "other") for word in words]
    assert found(" ".join(words), *entries) == ["wordn", *words[:11]]


# -- On a site -----------------------------------------------------------------------------------------------------


def links(site, page):
    """Each link to the glossary on a page: where to, what it says of it, and its words."""
    html = re.sub(r"\s+", " ", site.read(f"html/{page}.html"))
    pattern = r'<a class="fl-term reference internal" href="([^"]*)" title="([^"]*)">(.*?)</a>'
    return {words: (target, title) for target, title, words in re.findall(pattern, html)}


HOME = "Home\n====\n\nA warp.\n\n.. toctree::\n   :glob:\n\n   *\n"


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site(PAGES | {"index.rst": HOME, "other.rst": "Other\n=====\n\nText.\n"})
    with (site.folder / "conf.py").open("a", encoding="utf-8") as conf:
        conf.write('extensions.append("myst_parser")\n')
    site.rebuild()
    return site


def test_first_mentions_become_links_with_the_gist_as_their_title(site):
    assert links(site, "kernels") == {
        "block": ("glossary.html#term-block", "A group of threads."),
        "warps": ("glossary.html#term-warp", "32 threads that go together."),
        "shared memory": ("glossary.html#term-shared-memory", "Memory of one block."),
        "memory": ("glossary.html#term-memory", "Where numbers are."),
    }
    assert set(links(site, "memory")) == {"memory", "warp"}
    text = " ".join(re.sub(r"<[^>]*>", "", site.read("html/kernels.html")).split())
    assert "A block is cut into warps. A warp loads from shared memory, and this is memory." in text


def test_the_glossary_and_the_home_page_stay_calm(site):
    assert "fl-term" not in site.read("html/glossary.html")
    assert "fl-term" not in site.read("html/index.html")


def test_the_second_build_has_nothing_to_do(site):
    assert (site.rebuild(), written(site)) == ("0 added, 0 changed, 0 removed", set())


def written(site):
    """The pages that the last build wrote."""
    return set(re.findall(r"writing output\.\.\. \[.*?\] (\S+)", site.log))


def test_what_changes_is_written_anew(site):
    glossary = GLOSSARY.replace("Where numbers are.", "Where numbers wait.")
    site.write("glossary.md", glossary)
    assert site.rebuild() == "0 added, 1 changed, 0 removed", "the pages with links are not read again"
    assert links(site, "memory")["memory"][1] == links(site, "kernels")["memory"][1] == "Where numbers wait."
    assert {"memory", "kernels", "glossary"} <= written(site)

    site.write("glossary.md", glossary.replace("\nmemory\n", "\ntext\n  Words.\n\nmemory\n"))
    site.rebuild()
    assert links(site, "other") == {"Text": ("glossary.html#term-text", "Words.")}, "read before there was the term"
