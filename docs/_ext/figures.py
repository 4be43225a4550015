"""Save the figures of an example for both themes, with the alternative text that the example gave them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.errors import ExtensionError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

INK = {"light": "#000000", "dark": "#ced6dd"}
PAPER = {"light": "#ffffff", "dark": "#14181e"}
MIDDLE = 0.14  # the brightness on which black and the dark theme's ink are read equally well
PARTS = ("color", "edgecolor", "facecolor", "markeredgecolor", "markerfacecolor")
DPI = 100
QUICK = 2  # how hard WebP tries: 4, the default, takes three times as long and saves one part in twenty


def reset(gallery_conf: dict[str, Any], fname: str) -> None:
    """Give every example a page for its tables, and the site's type size."""
    import matplotlib as mpl

    from firstlight import display
    from firstlight.timing.figure import STYLE

    del gallery_conf, fname
    display.on_page = True
    mpl.rcParams.update({**STYLE, "figure.dpi": DPI})


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save each open figure in ink for the light and for the dark theme, and write the reST that shows one of them."""
    import matplotlib.pyplot as plt

    out = []
    for number, path in zip(plt.get_fignums(), block_vars["image_path_iterator"], strict=False):
        fig = plt.figure(number)
        alt = " ".join(str(fig.get_label()).split())
        if not alt:
            where = f"{block_vars['src_file']}, line {block.lineno}"
            raise ExtensionError(
                f'{where}: a figure has no alternative text; say what it shows with fig.set_label("…")'
            )
        light = Path(path).with_suffix(".webp")
        dark = light.with_stem(light.stem + "_dark")
        save(fig, light)
        fig.set_layout_engine("none")  # it is laid out: to do it again takes as long as to draw
        darken(fig)
        save(fig, dark)
        shown = "\n".join(
            image(file.relative_to(gallery_conf["src_dir"]).as_posix(), alt, fig, theme)
            for file, theme in ((light, "only-light"), (dark, "only-dark"))
        )
        light.with_suffix(".rst.txt").write_text(shown, encoding="utf-8")  # for pages that show it, too
        out.append(shown)
    plt.close("all")
    return "\n".join(out)


def in_page(draw: Callable[[], Figure]) -> str:
    """Return a figure that a directive draws, as part of its page."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    from firstlight.timing.figure import STYLE, as_svg

    mpl.use("Agg")
    with mpl.rc_context(STYLE):
        figure = draw()
    plt.close(figure)
    # Salted with all it shows: a page may draw an experiment twice, and its ids have to differ.
    return f'<figure class="fl-figure" tabindex="0">{as_svg(figure, str(figure.get_label()))}</figure>\n'


def save(fig: Figure, path: Path) -> None:
    """Draw a figure through which the page shows. Matplotlib's own savefig goes through all of it twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    for part in fig.findobj(lambda artist: hasattr(artist, "patch")):
        part.patch.set(facecolor="none", edgecolor="none")  # type: ignore[attr-defined]
    fig.set_dpi(2 * DPI)
    FigureCanvasAgg(fig).print_webp(path, pil_kwargs={"method": QUICK})  # type: ignore[no-untyped-call]


def image(path: str, alt: str, fig: Figure, theme: str) -> str:
    """Return one image as reST, with its size, so that the page stays still when it comes."""
    width, height = (round(inches * DPI) for inches in fig.get_size_inches())
    return (
        f".. image:: /{path}\n    :alt: {alt}\n    :width: {width}\n    :height: {height}\n"
        f"    :loading: lazy\n    :class: sphx-glr-single-img {theme}\n"
    )


def darken(fig: Figure) -> None:
    """Swap black ink and white paper of a figure that was drawn for the dark theme's; other colours stay."""
    stay = on_bars(fig)
    for artist in artists(fig):
        for part in PARTS:
            get, put = getattr(artist, f"get_{part}", None), getattr(artist, f"set_{part}", None)
            if get and put and artist not in stay and (new := in_the_dark(get())) is not None:
                put(new)


def artists(fig: Figure) -> Iterator[Artist]:
    """Yield all parts of a figure but colours that are data, and lines on them; findobj leaves out boxes of texts."""
    from matplotlib.collections import Collection, QuadMesh
    from matplotlib.text import Text

    maps = [axes for axes in fig.axes if axes.images or any(isinstance(part, QuadMesh) for part in axes.collections)]
    on_maps = {line for axes in maps for line in axes.lines}  # a map is as bright in the dark
    for artist in fig.findobj():
        if artist in on_maps or (isinstance(artist, Collection) and artist.get_array() is not None):
            continue
        yield artist
        if isinstance(artist, Text):
            yield from filter(None, (artist.get_bbox_patch(), getattr(artist, "arrow_patch", None)))


def on_bars(fig: Figure) -> set[Artist]:
    """Return the texts that lie on a bar or a box on which black is easier to read than light ink, in the dark, too."""
    found: set[Artist] = set()
    for axes in fig.axes:
        for text in axes.texts:
            (left, low), (right, high) = text.get_window_extent().get_points()
            middle, shade = ((left + right) / 2, (low + high) / 2), PAPER["dark"]
            for patch in sorted(axes.patches, key=lambda patch: patch.get_zorder()):
                if patch.contains_point(middle):
                    shade = over(patch.get_facecolor(), shade)
            if not text.get_bbox_patch() and brightness(shade) > MIDDLE:
                found.add(text)
    return found


def over(colour: Any, below: Any) -> Any:
    """Return what is seen of a colour of the light theme, if it is transparent, before another, in the dark."""
    from matplotlib.colors import to_rgb, to_rgba

    *rgb, alpha = to_rgba(swapped if (swapped := in_the_dark(colour)) is not None else colour)
    return tuple(alpha * one + (1 - alpha) * other for one, other in zip(rgb, to_rgb(below), strict=True))


def brightness(colour: Any) -> float:
    """Return the relative luminance of WCAG, by which contrast is judged."""
    from matplotlib.colors import to_rgb

    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour))
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def in_the_dark(colour: Any) -> Any:
    """Return colours with ink and paper swapped and the opacity kept; None where there is nothing to swap."""
    from matplotlib.colors import to_rgb, to_rgba_array

    try:
        now = to_rgba_array(colour)
    except (TypeError, ValueError):
        return None
    new = now.copy()
    for theme in (INK, PAPER):
        new[(now[:, :3] == to_rgb(theme["light"])).all(axis=1), :3] = to_rgb(theme["dark"])
    if (new == now).all():
        return None
    return tuple(new[0]) if len(new) == 1 and getattr(colour, "ndim", 1) == 1 else new
