import pytest
from recorded import course_of

PAGE = "html/tutorials/01_fold.html"


@pytest.fixture(scope="module")
def folds(gallery):
    return gallery.elements(PAGE).folds


def test_only_cells_that_begin_with_the_word_are_folded(folds):
    assert len(folds) == 3
    assert all(text.startswith("Show it, if you have tried\n") for text in (folds[0], folds[2]))


def test_a_fold_can_have_a_title_of_its_own(folds):
    assert folds[1].startswith("Another way, for the curious\n")
    assert folds[1].count("printed for the curious") == 2, "in the code and as output"


def test_a_fold_holds_the_cell_and_all_of_its_output(folds):
    for part in ("class Table:", "printed by the solution", "42000 rows"):
        assert part in folds[0]
    assert folds[2].count("printed last") == 2, "in the code and as output"


def test_both_figures_are_in_the_fold_for_both_themes(gallery):
    places = [fold for tag, attributes, fold in gallery.elements(PAGE).found
              if tag == "img" and "sphx-glr-single-img" in (attributes["class"] or "")]  # fmt: skip
    assert places == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "outside",
    ["Text before", "printed before", "printed to mislead", "Text of the exercise", "Text after", "printed after",
     "printed by no solution", "Run it yourself"],
)  # fmt: skip
def test_what_is_not_the_solution_stays_outside(gallery, folds, outside):
    assert outside in gallery.read(PAGE)
    assert not any(outside in text for text in folds)


def test_a_fold_is_closed_until_the_reader_opens_it(gallery):
    folded = [attributes for tag, attributes, _ in gallery.elements(PAGE).found if tag == "details"]
    assert folded
    assert all("open" not in attributes for attributes in folded)


MARKS = '''"""
Marks
=====

What this page finds.

Text at the top.
"""

# %%

# sphinx_gallery_thumbnail_number = 3

# figure
import matplotlib.pyplot as plt

for number in (1, 2):
    fig, ax = plt.subplots()
    fig.set_label(f"Figure {number}")
print("printed beside a figure")

# %%

# figure
plt.figure()
plt.gcf().set_label("Figure 3")

# %%
# Three lines
# -----------

# remember
print("1. The first line is long,")
print("   and goes on; 2. is not its end.")
print(f"2. The second has {6 * 7} in it.")

# %%

# folded code: How the sum is printed

print(f"The sum is {40 + 4} here.")

# %%
# A kernel, twice.

def add(a, b):
    return a + b

# %%
# .. dropdown:: In CUDA C++
#
#    .. code-block:: cuda
#
#        __device__ int add(int a, int b) { return a + b; }
#
# That was a kernel.
'''


@pytest.fixture(scope="module")
def marks(make_site):
    header = "One\n===\n\nOf it.\n"
    files = {
        "examples/1_one/GALLERY_HEADER.rst": header,
        "examples/1_one/01_marks.py": MARKS,
        "course.toml": course_of("1_one/01_marks"),
    }
    site = make_site({**files, "machines.rst": "Machines\n========\n"})
    site.rebuild()
    return site.elements("html/tutorials/1_one/01_marks.html"), site.read("html/tutorials/1_one/01_marks.html")


def test_the_code_of_a_figure_is_folded_and_the_figure_is_not(marks):
    elements, _ = marks
    assert elements.folds[0].startswith("The code of this figure\n")
    assert "printed beside a figure\n" not in elements.folds[0].replace('("printed beside a figure")', "")
    below = [place for tag, attributes, place in elements.found if tag == "img" and attributes["alt"] == "Figure 1"]
    assert below == [0, 0]


def test_folded_code_leaves_what_it_printed_in_sight(marks):
    elements, html = marks
    assert elements.folds[3].startswith("How the sum is printed\n")
    assert "The sum is 44 here." not in elements.folds[3]
    assert "The sum is 44 here." in html


def test_the_finding_of_a_page_stands_after_its_first_paragraph_too(marks):
    elements, html = marks
    shown = [attributes["alt"] for tag, attributes, _ in elements.found if tag == "img"]
    assert shown == ["Figure 3"] * 2 + ["Figure 1"] * 2 + ["Figure 2"] * 2 + ["Figure 3"] * 2
    assert html.index("What this page finds.") < html.index("<img") < html.index("Text at the top.")


def test_the_figure_at_the_top_is_folded_with_its_code_where_it_was_drawn(marks):
    elements, _ = marks
    places = [place for tag, attributes, place in elements.found if tag == "img" and attributes["alt"] == "Figure 3"]
    assert places == [0, 0, 2, 2]
    assert elements.folds[1].startswith("The figure at the top")


def test_lines_to_remember_are_a_list_of_text(marks):
    elements, html = marks
    box = html.partition("fl-box")[2].partition("</ol>")[0]
    assert box.count("<li>") == 2
    assert "The first line is long, and goes on; 2. is not its end." in box
    assert "The second has 42 in it." in box
    assert elements.folds[2].startswith("The code of these lines\n")


def test_a_kernel_in_cuda_is_a_tab_beside_the_cell_above_it(marks):
    elements, html = marks
    tabs = html.partition('class="sd-tab-set')[2].partition("That was a kernel.")[0]
    assert tabs.index("Numba") < tabs.index(">add<") < tabs.index("CUDA C++") < tabs.index("__device__")
    assert not any("__device__" in fold for fold in elements.folds)
