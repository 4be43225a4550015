import re
from itertools import count
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba
from PIL import Image

from _ext.figures import INK, PAPER, darken, scrape

PAGE = "html/tutorials/01_fold.html"
NAME = "sphx_glr_01_fold_{:03d}{}.webp"
LABELS = [f'Line {number}: "y" = *x*, <b> & |a|_' for number in (1, 2)]


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def shown(gallery):
    found = [attributes for tag, attributes, _ in gallery.elements(PAGE).found if tag == "img"]
    return [attributes for attributes in found if "sphx-glr-single-img" in attributes["class"]]


def share(path, colour):
    """How much of a picture is of a colour, nearly, and opaque."""
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGBA"))[::2, ::2].astype(int)  # every fourth shows as much
    near = np.abs(pixels[..., :3] - 255 * np.array(to_rgb(colour))).max(axis=-1) < 24
    return (near & (pixels[..., 3] > 250)).mean()


def test_each_theme_shows_its_own_file_of_each_figure(gallery):
    wanted = [(NAME.format(number, suffix), theme)
              for number in (1, 2) for suffix, theme in (("", "only-light"), ("_dark", "only-dark"))]  # fmt: skip
    assert [(a["src"].rpartition("/")[2], a["class"].split()[-1]) for a in shown(gallery)] == wanted
    for name, _ in wanted:
        assert (gallery.folder / "build/html/_images" / name).is_file()


def test_the_label_is_the_alternative_text_whatever_it_contains(gallery):
    assert [attributes["alt"] for attributes in shown(gallery)] == [LABELS[0]] * 2 + [LABELS[1]] * 2
    assert {(a["width"], a["height"], a["loading"]) for a in shown(gallery)} == {("560", "380", "lazy")}


def test_ink_is_light_in_the_dark_and_colours_stay(gallery):
    for number, colour in ((1, "tab:blue"), (2, "tab:red")):
        light, dark = (gallery.folder / "tutorials/images" / NAME.format(number, end) for end in ("", "_dark"))
        assert share(light, INK["light"]) > 0.005
        assert share(dark, INK["light"]) == 0
        assert share(light, INK["dark"]) == 0
        assert share(dark, INK["dark"]) > 0.005
        assert share(light, colour) > 0.01
        assert share(dark, colour) == pytest.approx(share(light, colour), rel=0.05)
        assert share(dark, PAPER["light"]) == share(light, PAPER["light"]) == 0, "the page shows through"


def test_a_figure_without_a_label_fails_the_build_and_is_named(make_site):
    cells = ["# %%", "# Text.", "", "import matplotlib.pyplot as plt", "fig, ax = plt.subplots()", "fig.set_label(' ')"]
    text = "\n".join(['"""', "Bare", "====", '"""', *cells, ""])
    site = make_site({"examples/01_bare.py": text}).build("html")
    assert site.failed
    assert re.search(r"examples/01_bare\.py, line 7: .*set_label", site.log, re.DOTALL)


def block(tmp_path, lineno=1):
    names = (str(tmp_path / f"figure_{number}.png") for number in count(1))
    variables = {"src_file": "examples/01_page.py", "image_path_iterator": names}
    return SimpleNamespace(lineno=lineno), variables, {"src_dir": str(tmp_path)}


def test_a_figure_is_shown_once_and_not_again_by_the_next_block(tmp_path):
    this = block(tmp_path)
    plt.figure(label="one")
    assert "figure_1.webp" in scrape(*this)
    assert scrape(*this) == ""
    plt.figure(label="two")
    assert "figure_2.webp" in scrape(*this), "a block without a figure takes no number"


@pytest.fixture
def drawn():
    """A figure with ink, paper and colours in most places where matplotlib keeps them."""
    fig = plt.figure()
    ax = fig.subplots()
    fig.suptitle("a title")
    a = SimpleNamespace(fig=fig, ax=ax)
    a.ink, a.blue, a.grey = (
        ax.plot([1, 2], [1, level], "o-", color=colour, label=colour)[0]
        for level, colour in enumerate(("black", "tab:blue", "#808080"))
    )
    a.points = ax.scatter([1, 2, 3], [1, 2, 3], c=["black", "tab:blue", "black"])
    a.half = ax.axvspan(1, 2, facecolor=("black", 0.25), edgecolor="none")
    a.note = ax.annotate("a note", (1, 1), (2, 2), arrowprops={"arrowstyle": "->"}, bbox={"facecolor": "white"})
    a.legend = ax.legend(framealpha=0.8)
    a.data = ax.scatter([1, 2], [2, 1], c=[0.0, 1.0], cmap="gray")
    fig.canvas.draw()
    return a


def same(colour, wanted, alpha=1.0):
    return np.allclose(to_rgba(colour), to_rgba(wanted, alpha))


def test_black_becomes_light_and_white_becomes_the_page(drawn):
    darken(drawn.fig)
    assert same(drawn.ink.get_color(), INK["dark"])
    assert same(drawn.ink.get_markerfacecolor(), INK["dark"])
    assert all(same(spine.get_edgecolor(), INK["dark"]) for spine in drawn.ax.spines.values())
    assert all(same(label.get_color(), INK["dark"]) for label in drawn.ax.get_xticklabels())
    assert same(drawn.ax.xaxis.get_ticklines()[0].get_markeredgecolor(), INK["dark"])
    assert same(drawn.fig.get_suptitle() and drawn.fig._suptitle.get_color(), INK["dark"])
    assert same(drawn.ax.get_facecolor(), PAPER["dark"])


def test_other_colours_stay(drawn):
    darken(drawn.fig)
    assert same(drawn.blue.get_color(), "tab:blue")
    assert same(drawn.grey.get_color(), "#808080")
    assert same(drawn.points.get_facecolor()[1], "tab:blue")


def test_the_arrow_and_the_box_of_a_note_are_swapped_as_well(drawn):
    darken(drawn.fig)
    assert same(drawn.note.arrow_patch.get_edgecolor(), INK["dark"])
    assert same(drawn.note.get_bbox_patch().get_facecolor(), PAPER["dark"])


def test_black_that_stands_for_a_value_stays(drawn):
    darken(drawn.fig)
    drawn.fig.canvas.draw()
    assert same(drawn.data.get_facecolor()[0], "black")
    assert same(drawn.data.get_edgecolor()[0], "black")


@pytest.mark.parametrize("show", ["imshow", "pcolormesh"])
def test_a_black_line_on_a_map_stays_and_its_axes_turn_light(show):
    fig, ax = plt.subplots()
    getattr(ax, show)(np.eye(2), cmap="gray_r")
    (cross,) = ax.plot(0, 0, "k+")
    darken(fig)
    assert same(cross.get_markeredgecolor(), "black")
    assert same(ax.spines["left"].get_edgecolor(), INK["dark"])


@pytest.mark.parametrize(
    ("look", "ink"),
    [
        ({"fc": "#d9762b", "hatch": "//"}, "black"), ({"fc": "#d9762b", "alpha": 0.1}, INK["dark"]),
        ({"fc": "white"}, INK["dark"]), ({"fc": "#203040"}, INK["dark"]), ({"fill": False}, INK["dark"]),
    ],
)  # fmt: skip
def test_a_text_has_the_ink_that_is_read_best_on_its_bar(look, ink):
    fig, ax = plt.subplots()
    ax.barh(0, 2, **look)
    on_it, beside = (ax.text(x, 0, "4", ha="center", va="center") for x in (1, 3))
    fig.canvas.draw()
    darken(fig)
    assert same(on_it.get_color(), ink)
    assert same(beside.get_color(), INK["dark"])
