import re
from types import SimpleNamespace

import pytest
from docutils import nodes
from recorded import keep

from _ext.course import read
from _ext.downloads import ROOT
from _ext.navigation import ahead, place, turn_pages

TABLE = """
levels = ["easy", "hard"]

["1_one/01_first"]
name = "First"
line = "What you get <first>."
level = "easy"
minutes = 7
needs = []
next = ["1_one/02_second"]

["1_one/02_second"]
name = "Second & last of one"
line = "What you get second."
level = "hard"
minutes = 7
needs = ["1_one/01_first"]
next = ["2_two/01_third"]

["2_two/01_third"]
name = "Third"
line = "What you get third."
level = "hard"
minutes = 7
needs = ["1_one/01_first", "1_one/02_second"]
next = []
"""
NAMES = ["1_one/01_first", "1_one/02_second", "2_two/01_third"]

# -- The table alone


def test_a_good_table_keeps_the_order():
    course = read(TABLE, NAMES)
    assert list(course.pages) == NAMES
    assert course.pages[NAMES[1]].needs == [NAMES[0]]


def changed(old, new):
    assert TABLE.count(old) == 1, "the change would change nothing, or too much"
    return TABLE.replace(old, new)


BAD = {
    "at line 2": ("levels = [", "levels = "),
    "'1_one/03_gone': correct its name or take it out": ('2_two/01_third"]\nname', '1_one/03_gone"]\nname'),
    "'2_two/01_third' is missing": ('["2_two/01_third"]\nname', '["2_two/09_other"]\nname'),
    "has the level 'harder'; there are: easy, hard": ('level = "easy"', 'level = "harder"'),
    "has the level 'short course'; there are: easy, hard": ('level = "easy"\n', ""),
    "the short course has '1_one/04_lost'": ("levels =", 'short_course = ["1_one/04_lost"]\nlevels ='),
    "'1_one/01_first' has the level 'easy'; there are: short course": (
        "levels =",
        'short_course = ["1_one/01_first"]\nlevels =',
    ),
    "'1_one/01_first' needs 1_one/01_first, which is not before it": ("needs = []", 'needs = ["1_one/01_first"]'),
    "'1_one/01_first' needs 2_two/01_third, which is not before it": ("needs = []", 'needs = ["2_two/01_third"]'),
    "leads to pages that are not in the table: 1_one/07_lost": ("next = []", 'next = ["1_one/07_lost"]'),
    "'2_two/01_third' is no page: ": ('line = "What you get third."', 'lime = "x"'),
}


@pytest.mark.parametrize("problem", BAD)
def test_what_is_wrong_with_a_table_is_named(problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        read(changed(*BAD[problem]), NAMES)


def test_a_circle_is_found_whoever_is_first():
    table = changed("needs = []", 'needs = ["1_one/02_second"]')
    with pytest.raises(ValueError, match="not before it"):
        read(table, NAMES)


# -- The short course in it


def short():
    """The third page and then the first, of two chapters."""
    one, _, three = re.split(r"(?=\n\[)", TABLE)[1:]
    table = TABLE
    for entry in (one, three):
        table = table.replace(entry, re.sub("\nlevel = .*", "", entry))
    return read(f"short_course = {[NAMES[2], NAMES[0]]}\n{table}", NAMES)


def test_pages_of_the_short_course_count_themselves_and_lead_on_before_they_lead_deeper():
    assert place(NAMES[0], short()).startswith("Page 2 of 2 of the :doc:`short course")
    assert place(NAMES[1], short()) == "Level: hard"
    assert ahead(NAMES[2], short()) == f"- On in the short course: :doc:`/tutorials/{NAMES[0]}`: What you get <first>."
    assert ahead(NAMES[0], short()) == f"- :doc:`/tutorials/{NAMES[1]}`: What you get second."
    assert ahead(NAMES[1], short()).count("short course") == 0


def test_the_arrows_of_a_page_lead_along_the_short_course(monkeypatch):
    titles = {f"tutorials/{name}": nodes.title(text=f"<{name}>") for name in (*NAMES, "index")}
    builder = SimpleNamespace(get_relative_uri=lambda _, to: f"to {to}")
    app = SimpleNamespace(env=SimpleNamespace(titles=titles), builder=builder)
    monkeypatch.setattr("_ext.navigation.course_of", lambda env: short())
    leads = {}
    for name in NAMES:
        context = leads[name] = {"prev": "as it was", "next": "as it was"}
        turn_pages(app, f"tutorials/{name}", "page.html", context, None)
    assert leads[NAMES[2]]["next"] == {"link": f"to tutorials/{NAMES[0]}", "title": f"&lt;{NAMES[0]}&gt;"}
    assert leads[NAMES[2]]["prev"]["link"] == leads[NAMES[0]]["next"]["link"] == "to tutorials/index"
    assert leads[NAMES[0]]["prev"]["link"] == f"to tutorials/{NAMES[2]}"
    assert leads[NAMES[1]] == {"prev": "as it was", "next": "as it was"}


# -- On the pages of a site

HEAD = '"""\n{}\n======\n\nText of the page.\n\n**Needs:** nothing.\n"""\nprint("printed")\n'
FILES = {
    "course.toml": TABLE,
    "machines.rst": "Machines\n========\n\n.. machines::\n",
    "examples/index.rst": ":orphan:\n\nAll\n===\n\n.. toctree::\n\n   1_one/index\n   2_two/index\n\n"
    ".. include:: 1_one/index.rst\n",
    "examples/1_one/index.rst": "Chapter <one>\n-------------\n\nOf it.\n\n.. chapter:: 1_one\n",
    "examples/1_one/01_first.py": HEAD.format("Page 1"),
    "examples/1_one/02_second.py": HEAD.format("Page 2"),
    "examples/1_one/shown.py": HEAD.format("Shown"),
    "examples/2_two/index.rst": "Chapter two\n-----------\n\nOf it.\n\n.. chapter:: 2_two\n",
    "examples/2_two/01_third.py": HEAD.format("Page 3"),
}


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site(FILES)
    kept = site.folder / "figures/01_first.webp"
    kept.parent.mkdir()
    kept.write_bytes((ROOT / "docs/figures/03_real_sky.webp").read_bytes())
    keep(site.folder, NAMES[0], "cpu-old", date="2026-04-01")
    keep(site.folder, NAMES[0], "gpu-new", name="GPU <new>", date="2026-05-02")
    site.build("html", "-n")
    assert not site.failed, site.log
    return site


def text_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", html))


def block(site, name, start='<p class="fl-facts', end="</p>"):
    html = site.read(f"html/tutorials/{name}.html")
    return html[html.index(start) :].partition(end)[0]


def test_the_line_under_the_title_says_level_needs_and_records(site):
    facts = block(site, NAMES[1])
    assert text_of(facts) == "Level: hard · 7 minutes · read first: First · no machine on record · run it yourself"
    assert 'href="01_first.html"' in facts
    html = site.read(f"html/tutorials/{NAMES[1]}.html").partition("<body")[2]
    assert html.index("</h1>") < html.index("fl-facts") < html.index("Text of the page")


def test_a_page_that_needs_none_says_so(site):
    assert "read first: nothing" in text_of(block(site, NAMES[0]))


def test_the_newest_record_is_named_with_its_day_and_state_and_the_others_are_counted(site):
    facts = block(site, NAMES[0])
    assert 'href="../../machines.html#gpu-new"' in facts
    assert "GPU &lt;new&gt;, 2026-05-02</a>" in facts
    assert "and on 1 more" in text_of(facts)
    assert "cpu-old" not in facts


def test_the_end_of_a_page_says_why_to_go_on(site):
    ahead = block(site, NAMES[0], '<div class="fl-next', "</div>")
    assert "Page 2: What you get second." in text_of(ahead)
    assert 'href="../index.html"' in ahead
    html = site.read(f"html/tutorials/{NAMES[0]}.html")
    assert html.index("printed") < html.index("fl-next")


def test_a_chapter_has_cards_on_its_page_and_on_that_of_all_chapters(site):
    for page in ("tutorials/1_one/index", "tutorials/index"):
        html = site.read(f"html/{page}.html")
        cards = re.findall(r"<li>.*?</li>", html[html.index("fl-cards") :], re.DOTALL)
        assert "Page 1 What you get &lt;first&gt;. 7 minutes · easy" in text_of(cards[0])
        assert all('alt=""' in card for card in cards[:2])
        assert "/01_first.webp" in cards[0]  # the picture that is kept, and not the one that the build drew
        assert text_of(cards[2]).split() == ["Shown", "Text", "of", "the", "page."]
