import re
from html import unescape

import pytest
from recorded import course_of, keep

from _ext.outputs import CUT, is_begun, tables_in
from firstlight.display import Table

EXAMPLE = '''"""
Talking
=======

Text, with code that is no block::

    print("one")
"""
# %%
# First.

print("   one\\nhere")

# %%
# Second: nothing is printed.

quiet = 1

# %%
# Third: the same everywhere.

print("the same")

# %%
# A comment only.

# %%

# solution
print("solved here")

# %%
# Sixth, the last.

print("six")
'''
QUIET = '"""\nQuiet\n=====\n"""\n# %%\n# Text.\n\nprint("one")\n'
HOSTILE = "<script>alert(1)</script> & \x1b[31mred\x1b[0m"
PAGE = "html/tutorials/1_part/01_talk.html"
RICH = """\"\"\"
Rich
====
\"\"\"
# %%
# Text.

type("Drawn", (), {"_repr_html_": lambda self: "<b>a drawing</b>"})()
"""
MEASURED = """\"\"\"
Measured
========

The finding.

Rest.
\"\"\"
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

# %%
# Text.

# measured figure
plt.figure(label="drawn by this build")
plt.show()

# %%
# Text.

# remember
print("1. This build took long.")
print("2. Its caches are small.")
"""
SVG = '<svg role="img" aria-label="drawn on the machine"><g id="m0123456789"/><use href="#m0123456789"/></svg>'
TALK, OTHER, BARE, DRAWN = "1_part/01_talk", "1_part/02_quiet", "1_part/03_bare", "1_part/04_drawn"
CLOCK = "1_part/05_measured"
FILES = {
    "index.rst": "Home\n====\n\n.. toctree::\n\n   tutorials/index\n",
    "examples/1_part/GALLERY_HEADER.rst": "Part\n====\n",
    "course.toml": course_of(TALK, OTHER, BARE, DRAWN, CLOCK),
    f"examples/{TALK}.py": EXAMPLE,
    f"examples/{OTHER}.py": QUIET,
    f"examples/{DRAWN}.py": RICH,
    f"examples/{CLOCK}.py": MEASURED,
    f"examples/{BARE}.py": QUIET + "\n# %%\n\n# A remark.\n",
}


def tab_sets(html):
    """The labels and the texts of the tabs, in the order of the page."""
    found = []
    for tabs in html.split('<div class="sd-tab-set')[1:]:
        labels = re.findall(r'<label [^>]*class="sd-tab-label"[^>]*>\s*(.*?)</label>', tabs)
        panels = re.split(r'<div class="sd-tab-content', tabs)[1 : len(labels) + 1]
        texts = [re.sub(r"<[^>]*>", "", re.search(r"<pre>.*?</pre>|<p.*?</p>", p, re.S)[0]) for p in panels]
        pairs = zip(labels, texts, strict=True)
        found.append([(unescape(label), unescape(text).rstrip("\n")) for label, text in pairs])
    return found


@pytest.fixture(scope="module")
def site(make_site):
    """One page that shows three machines, and two of which one shows another."""
    site = make_site(FILES)
    keep(site.folder, TALK, "nvidia-old", {1: "one\n  there", 3: "the same", 4: "solved there", 5: "six"})
    newest = {1: HOSTILE, 2: "loud", 3: "the\n… (cut)"}
    keep(site.folder, TALK, "a-b-card-b", newest, date="2026-06-01", name='A <b>"card"</b>')
    before = EXAMPLE.replace('print("six")', 'print("before")')
    keep(site.folder, TALK, "cpu-stale", {1: "   one\nhere", 5: "before"}, source=before)
    keep(site.folder, OTHER, "nvidia-old", {1: "one"})
    keep(site.folder, BARE, "nvidia-old", {1: "uno"})
    keep(site.folder, DRAWN, "nvidia-old", {1: "a drawing, in words"})
    said = {3: "1. The machine was fast.\n2. Its caches are large."}
    keep(site.folder, CLOCK, "cpu-new", said, figures={2: "<svg ></svg>"}, date="2026-06-01")
    keep(site.folder, CLOCK, "nvidia-old", figures={2: SVG}, date="2026-05-01", cpu_cores=16)
    site.rebuild()
    return site


def test_a_recorded_figure_stands_for_this_builds_in_the_text_and_under_the_title(site):
    html = site.read(f"html/tutorials/{CLOCK}.html")
    assert html.count(SVG) == html.count(SVG.replace("m01", "top-m01")) == 1  # one name, one element
    assert len(re.findall("NVIDIA OLD and .*16 CPU cores", html)) == 2  # a GPU's, though a CPU drew it anew since
    assert html.index('id="top-m01') < html.index("Rest.") < html.index(SVG)
    shown, _, behind = html.partition("What this build drew")
    assert 'alt="drawn by this build"' not in shown
    assert behind.count('alt="drawn by this build"') == 2  # in each theme
    assert not re.search(r"only-light[^>]*>\s*<figure", html)  # it is there in both


def test_another_page_shows_a_finding_as_it_was_recorded(make_site):
    front = ":orphan:\n\nFront\n=====\n\n.. finding:: "
    site = make_site({f"examples/{CLOCK}.py": MEASURED, "front.rst": front + CLOCK})
    keep(site.folder, CLOCK, "nvidia-old", figures={2: SVG})
    site.rebuild()
    html = site.read("html/front.html")
    assert SVG in html
    assert "drawn by this build" not in html


def test_the_box_of_lines_to_remember_holds_the_records(site):
    html = site.read(f"html/tutorials/{CLOCK}.html")
    box = html[html.index("fl-box") :].partition("</ol>")[0]
    assert "The machine was fast." in box
    assert "Its caches are large." in box
    assert "This build" not in box
    assert re.match(r"\s*<p[^>]*>[^<]*CPU NEW", html[html.index("fl-box") :].partition("</ol>")[2])


def test_each_machine_has_a_tab_the_newest_first_and_this_build_is_behind_them(site):
    first = tab_sets(site.read(PAGE))[0]
    assert [label for label, _ in first] == ['A <b>"card"</b>', "NVIDIA OLD", "This build"]
    assert first[1][1] == "one\n  there"
    assert first[2][1] == "   one\nhere"


def test_what_a_record_says_is_text_and_never_markup(site):
    html = site.read(PAGE)
    assert "<script>alert" not in html
    assert '<b>"card"' not in html
    assert "\x1b" not in html
    assert tab_sets(html)[0][0][1] == "<script>alert(1)</script> & [31mred[0m"


def test_a_block_that_prints_on_one_machine_only_says_so(site):
    assert tab_sets(site.read(PAGE))[1] == [('A <b>"card"</b>', "loud"), ("This build", "Nothing was printed.")]


def test_the_output_of_older_code_is_not_shown(site):
    assert tab_sets(site.read(PAGE))[-1] == [("NVIDIA OLD", "solved there"), ("This build", "solved here")]
    assert "CPU STALE" not in site.read(PAGE)
    assert ">before\n<" not in site.read(PAGE)


def test_there_are_no_tabs_where_no_machine_says_something_else(site):
    assert len(tab_sets(site.read(PAGE))) == 3
    assert "sd-tab-set" not in site.read("html/tutorials/1_part/02_quiet.html")


def test_a_drawing_has_no_words_beside_it(site):
    html = site.read("html/tutorials/1_part/04_drawn.html")
    assert "<b>a drawing</b>" in html
    assert "in words" not in html


def test_a_solution_is_folded_with_its_tabs(site):
    (folded,) = site.elements(PAGE).folds
    for part in ("solved here", "NVIDIA OLD", "solved there"):
        assert part in folded


def test_a_block_without_code_of_its_own_shows_nothing_of_its_neighbour(site):
    assert len(tab_sets(site.read("html/tutorials/1_part/03_bare.html"))) == 1


def test_pages_are_read_again_exactly_when_what_they_show_changes(site):
    nothing, one = (f"0 added, {number} changed, 0 removed" for number in (0, 1))
    assert site.rebuild() == nothing

    quiet = "html/tutorials/1_part/02_quiet.html"
    other = keep(site.folder, OTHER, "nvidia-old", {1: "due"})
    assert site.rebuild() == one
    assert "due" in site.read(quiet)

    keep(site.folder, TALK, "nvidia-newest", {1: "drei"}, date="2026-07-01")
    other.unlink()
    assert site.rebuild() == "0 added, 2 changed, 0 removed"
    assert "drei" in site.read(PAGE)
    assert "sd-tab-set" not in site.read(quiet)

    site.write(f"records/nvidia-bad/{TALK}.json", '{"version": "1.0", "metad')
    for _ in range(2):
        site.build("html")
        assert site.failed, "as long as the file is there"
        assert f"records/nvidia-bad/{TALK}.json" in site.log
        assert "drei" in site.read(PAGE), "the page is built without it"
    (site.folder / "records/nvidia-bad" / f"{TALK}.json").unlink()
    site.rebuild()


TABLE = Table("What", ("name", "time", "why"), (("a <b>", "1 ms", "first"), ("b", "20 ms", ""), ("c", "–", "x  y")))


@pytest.mark.parametrize("before", ["", "text before\n", "one\n\n"])
@pytest.mark.parametrize("after", ["", "\n", "\ntext after, which is no row", "\n\n  far\n"])
def test_a_table_in_a_text_becomes_one_and_the_rest_stays(before, after):
    made = tables_in(f"{before}{TABLE.text()}{after}")
    assert [node.astext() for node in made if node.tagname == "raw"] == [TABLE.html()]
    texts = [node.astext().strip() for node in made if node.tagname == "literal_block"]
    assert texts == [text.strip() for text in (before, after) if text.strip()]


def test_other_spaces_and_lines_are_the_same_output_and_other_numbers_are_not():
    assert is_begun("a   1\nb  22", "a  1\nb 22")
    assert is_begun("a 1 b 2", f"a 1 {CUT}")
    assert is_begun("read in line 59: x", "read in line 172: x")
    assert not is_begun("read in line 59: x", "read in line 59: y")
    assert not is_begun("a 1", "a 2")
    assert not is_begun("a 1", f"a 2 {CUT}")


def test_two_tables_and_a_rule_without_a_table():
    assert [node.tagname for node in tables_in(f"{TABLE.text()}\n\n{TABLE.text()}")] == ["raw", "raw"]
    assert [node.tagname for node in tables_in("--  --")] == ["literal_block"]
