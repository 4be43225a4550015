import math

import numpy as np
import pytest
from matplotlib import pyplot as plt

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.fourier.beams import Beam
from firstlight_imaging.products.plots import plot_image

COORDS = GridCoords(cell_size=0.1, npix=40)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def some_image():
    return np.random.default_rng(0).normal(size=(40, 40))


@pytest.mark.parametrize("place", [(3, 5), (30, 28)])
def test_a_pixel_is_drawn_where_the_sky_has_it(place):
    image = np.zeros((40, 40))
    image[place] = 1
    drawn = plot_image(image, COORDS)
    east, north = (float(plane[place]) for plane in COORDS.sky_coordinates())
    ax = drawn.axes
    drawn.figure.canvas.draw()
    shown = np.asarray(drawn.figure.canvas.buffer_rgba())[..., :3].astype(int)
    x, y = ax.transData.transform((east, north))
    at_source = shown[round(shown.shape[0] - y), round(x)]
    x, y = ax.transData.transform((east - math.copysign(0.7, east), north))
    elsewhere = shown[round(shown.shape[0] - y), round(x)]
    assert at_source.sum() > 400 > 100 > elsewhere.sum()
    assert ax.get_xlim()[0] > ax.get_xlim()[1]  # east is left


@pytest.mark.parametrize("angle", [30, 145])
def test_the_beam_lies_along_its_position_angle(angle):
    """Its farthest point, as drawn, is at the angle from north through east, inside of the image."""
    beam = Beam(0.6, 0.2, angle)
    drawn = plot_image(some_image(), COORDS, beam=beam)
    (patch,) = drawn.axes.patches
    turn = np.linspace(0, 2 * np.pi, 721)
    outline = patch.get_patch_transform().transform(np.stack([np.cos(turn), np.sin(turn)], axis=1))
    away = outline - patch.center
    east, north = away[np.hypot(*away.T).argmax()]
    assert (math.degrees(math.atan2(east, north)) - angle + 90) % 180 - 90 == pytest.approx(0, abs=2)
    assert np.hypot(*away.T).max() == pytest.approx(0.3, rel=1e-3)
    left, right, bottom, top = COORDS.img_ext
    assert right < outline[:, 0].min()
    assert outline[:, 0].max() < left
    assert bottom < outline[:, 1].min()
    assert outline[:, 1].max() < top


def test_holes_and_images_of_one_value_are_drawn():
    holed = some_image()
    holed[3:9] = np.nan
    drawn = plot_image(holed, COORDS)
    drawn.figure.canvas.draw()
    assert drawn.get_array().mask.sum() == np.isnan(holed).sum() > 0
    assert drawn.get_clim() == (np.nanmin(holed), np.nanmax(holed))
    shown = drawn.make_image(drawn.figure.canvas.get_renderer())[0][..., 3] > 0
    assert shown.mean() == pytest.approx(1 - np.isnan(holed).mean(), abs=0.02)
    flat = plot_image(np.zeros((40, 40)), COORDS, stretch="log")
    flat.figure.canvas.draw()
    low, high = flat.get_clim()
    assert low < high


def test_the_scale_bar_is_as_long_as_it_says_and_inside_of_the_image():
    drawn = plot_image(some_image(), COORDS, scale_bar=0.5)
    (bar,) = drawn.axes.lines
    left, right, bottom, top = COORDS.img_ext
    assert np.ptp(bar.get_xdata()) == pytest.approx(0.5)
    assert right < min(bar.get_xdata()) < max(bar.get_xdata()) < 0 < left
    assert bottom < bar.get_ydata()[0] < 0 < top
    assert "0.5" in drawn.axes.texts[-1].get_text()
    assert drawn.axes.get_xlim() == (left, right)


@pytest.mark.parametrize(("cell_size", "unit", "bar"), [(2e-4, "mas", "1.6 mas"), (5e-6, "µas", "40 µas")])
def test_a_small_field_has_small_units(cell_size, unit, bar):
    coords = GridCoords(cell_size, npix=40)
    drawn = plot_image(some_image(), coords, scale_bar=8 * cell_size)
    drawn.figure.canvas.draw()
    ax = drawn.axes
    assert f"[{unit}]" in ax.get_xlabel()
    assert f"[{unit}]" in ax.get_ylabel()
    assert ax.texts[-1].get_text() == bar
    said = [float(tick.get_text().replace("−", "-")) for tick in ax.get_xticklabels()]
    assert said == pytest.approx({"mas": 1e3, "µas": 1e6}[unit] * ax.get_xticks())


@pytest.mark.parametrize("arcsec", [0, -1, 4, float("nan")])
def test_a_scale_bar_that_does_not_fit_is_refused(arcsec):
    with pytest.raises(ValueError, match="scale_bar"):
        plot_image(some_image(), COORDS, scale_bar=arcsec)
