import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight_imaging.simulate.skies import Point, Ring

NPIX, CELL = 256, 0.03  # 7.7 arcsec


sizes = st.floats(0.01, 2)
places = st.floats(-3, 3)
baselines = st.floats(-3e6, 3e6)
turns = (st.floats(0, 89), st.floats(-360, 360))


@given(st.builds(Ring, st.floats(-2, 2), st.floats(0, 2), sizes, *turns, places, places), baselines, baselines)
def test_a_real_sky_is_hermitian_and_below_its_flux(ring: Ring, u: float, v: float) -> None:
    here, opposite, zero = ring.visibilities([u, -u, 0.0], [v, -v, 0.0])
    assert opposite == pytest.approx(here.conjugate(), abs=1e-15)
    assert zero == ring.flux
    assert abs(here) <= abs(ring.flux) * (1 + 1e-12)


@given(st.builds(Ring, st.just(1.0), st.floats(0, 5), sizes, *turns, places, places))
def test_brightness_is_finite_and_never_negative(ring: Ring) -> None:
    image = ring.image(0.1, 32)
    assert np.isfinite(image).all()
    assert (image >= 0).all()


def test_a_point_may_be_on_the_edge_but_not_beyond() -> None:
    assert Point(1.0, east=3.0, north=-4.0).image(1.0, 8)[0, 0] == 1
    assert Point(1.0, east=-4.0, north=3.0).image(1.0, 8)[7, 7] == 1
    for east, north in [(4.0, 0.0), (-5.0, 0.0), (0.0, 4.0), (0.0, -5.0)]:
        with pytest.raises(ValueError, match="8 arcsec"):
            Point(1.0, east=east, north=north).image(1.0, 8)


@pytest.mark.parametrize(
    ("change", "what"),
    [({"width": 0.0}, "width"), ({"radius": -1.0}, "radius"), ({"inclination": 90.0}, "inclination")],
)
def test_impossible_rings_are_refused(change: dict[str, float], what: str) -> None:
    with pytest.raises(ValueError, match=f"{what} must be"):
        Ring(**({"flux": 1.0, "radius": 0.5, "width": 0.1} | change))
