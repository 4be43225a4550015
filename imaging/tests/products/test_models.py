"""Models of other programs lie where their programs have put them."""

import math

import numpy as np
import pytest
from astropy.io import fits

from firstlight_imaging.automatic import model_visibilities
from firstlight_imaging.products.models import Model, read_model
from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track
from firstlight_imaging.simulate.skies import Point, Ring, sky_image
from firstlight_imaging.units import ARCSEC

CENTRE, CELL = (83.82, -24.3), 0.03
POINTS = [Point(2.0), Point(-1.0, east=0.6, north=0.15)]


def sees(model: Model, sky) -> bool:
    vis = observe(sky, uv_track(alma_antennas()[:9], n_times=2))
    return np.allclose(model_visibilities(model.sky, vis, model.coords), vis.data, atol=2e-3)


def model_of_casa(path):
    """Write two components as CASA's exportfits does: the centre a column east of ours, in a frame 25 mas beside."""
    pixels = np.zeros((1, 1, 40, 44), np.float32)
    pixels[0, 0, 20, 22], pixels[0, 0, 25, 2] = 2, -1  # in the middle; 0.6 arcsec east and 0.15 north
    hdu = fits.PrimaryHDU(pixels)
    hdu.header.update(CTYPE1="RA---SIN", CTYPE2="DEC--SIN", CRPIX1=23, CRPIX2=21, CRVAL1=83.82, CRVAL2=-24.3)
    hdu.header.update(CDELT1=-0.03 / 3600, CDELT2=0.03 / 3600, CUNIT1="deg", CUNIT2="deg")
    hdu.header.update(RADESYS="FK5", EQUINOX=2000.0, BUNIT="Jy/pixel", ORIGIN="CASA 6.7.0")
    hdu.writeto(path)
    return path


def test_a_model_of_casas_is_where_it_was(tmp_path):
    sky, coords, program = read_model(model_of_casa(tmp_path / "my.model.fits"), (83.82, -24.3))
    east, north = coords.sky_coordinates()
    assert program == "tclean"
    assert coords.cell_size == pytest.approx(0.03)
    found = {(round(east[at], 3), round(north[at], 3)): sky[at] * 0.03**2 for at in zip(*np.nonzero(sky), strict=True)}
    assert found == {(0, 0): pytest.approx(2), (0.6, 0.15): pytest.approx(-1)}


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"BUNIT": "Jy/beam"}, "Jy/pixel"),
        ({"CRVAL2": -24.3 + 1 / 3600}, "arcsec from the phase centre"),
        ({"CRPIX1": 22.3}, "neither the middle"),
        ({"CDELT1": -0.06 / 3600}, "square pixels"),
    ],
)
def test_a_model_that_would_be_elsewhere_is_refused(tmp_path, header, said):
    path = model_of_casa(tmp_path / "my.model.fits")
    with fits.open(path, mode="update") as hdus:
        hdus[0].header.update(header)
    with pytest.raises(ValueError, match=said):
        read_model(path, (83.82, -24.3))


def test_components_of_difmap_and_aips_are_where_they_were(tmp_path):
    hdu = fits.PrimaryHDU(np.ones((1, 1, 64, 64), np.float32))
    hdu.header.update(CTYPE1="RA---SIN", CTYPE2="DEC--SIN", CRPIX1=32, CRPIX2=33, CRVAL1=CENTRE[0], CRVAL2=CENTRE[1])
    hdu.header.update(CDELT1=-CELL / 3600, CDELT2=CELL / 3600, BUNIT="JY/BEAM")
    columns = {"FLUX": [2.0, -0.4, -0.6], "DELTAX": [0.0, 0.6 / 3600, 0.6 / 3600], "DELTAY": [0.0, *[0.15 / 3600] * 2]}
    table = fits.BinTableHDU.from_columns([fits.Column(name, "1E", array=values) for name, values in columns.items()])
    table.name = "AIPS CC"
    fits.HDUList([hdu, table]).writeto(tmp_path / "clean.fits")
    distance, angle = 1e3 * math.hypot(0.6, 0.15), math.degrees(math.atan2(0.6, 0.15))
    text = ["! Flux (Jy) Radius (mas)  Theta (deg)", "  2.0  0.0  0.0", f"-1.0v {distance:.6g}v {angle:.6g}v"]
    text += [f"0.0 {1e3 * CELL * k:.6g} 90.0" for k in (1, 7)]
    (tmp_path / "clean.mod").write_text("\n".join(text))
    for name in ("clean.fits", "clean.mod"):
        model = read_model(tmp_path / name, CENTRE)
        assert model.program == "difmap"
        assert model.coords.cell_size == pytest.approx(CELL)
        assert sees(model, POINTS)
    (tmp_path / "odd.mod").write_text("1.0 0.2 90.0\n0.5 0.3 0.0\n0.1 0.5 90.0\n")  # 2, 3 and 5 pixels off
    odd = read_model(tmp_path / "odd.mod", CENTRE)
    assert odd.coords.cell_size == pytest.approx(1e-4)
    assert odd.sky.sum() * odd.coords.cell_size**2 == pytest.approx(1.6)
    (tmp_path / "wide.mod").write_text("1.0 0.0 0.0 0.5 1.0 0.0 1\n")
    with pytest.raises(ValueError, match="width"):
        read_model(tmp_path / "wide.mod", CENTRE)


def test_an_image_of_ehtims_has_its_centre_between_pixels_and_its_place_in_other_words(tmp_path):
    pixels = np.zeros((20, 20))
    pixels[10, 9], pixels[15, 3] = 2.0, -1.0
    hdu = fits.PrimaryHDU(pixels)
    hdu.header.update(
        CTYPE1="RA---SIN", CTYPE2="DEC---SIN", CRPIX1=10.5, CRPIX2=10.5, OBSRA=CENTRE[0], OBSDEC=CENTRE[1]
    )
    hdu.header.update(CDELT1=-CELL / 3600, CDELT2=CELL / 3600, BUNIT="JY/PIXEL", TELESCOP="VLBI")
    hdu.writeto(tmp_path / "eht.fits")
    model = read_model(tmp_path / "eht.fits", CENTRE)
    assert model.program == "ehtim"
    assert sees(model, [Point(2.0, east=0.015, north=0.015), Point(-1.0, east=0.195, north=0.165)])


def test_a_profile_of_franks_is_inclined_and_turned_as_its_data(tmp_path):
    disc = {"inclination": 40, "position_angle": 35, "east": 0.05, "north": -0.03}
    rings = [Ring(0.2, 0.6, 0.25), Ring(0.1, 0, 0.3)]
    along = np.asarray(sky_image(rings, 0.01, 400)).reshape(400, 400)[
        200, 199::-1
    ]  # of the row in the middle, eastward
    table = np.column_stack([0.01 * np.arange(200), along / math.cos(math.radians(40)) / ARCSEC**2, np.zeros(200)])
    np.savetxt(tmp_path / "my_frank_profile_fit.txt", table, header="r [arcsec]\tI [Jy/sr]\tI_uncer [Jy/sr]")
    like = observe(rings, uv_track(alma_antennas()[:9], n_times=2))
    how = {"like": like, "geometry": (40, 35, 0.05, -0.03)}
    model = read_model(tmp_path / "my_frank_profile_fit.txt", None, **how)
    assert model.program == "frank"
    assert sees(model, [Ring(0.2, 0.6, 0.25, **disc), Ring(0.1, 0, 0.3, **disc)])
    with pytest.raises(ValueError, match="--geometry"):
        read_model(tmp_path / "my_frank_profile_fit.txt", None)
    (tmp_path / "my_frank_sol.obj").write_bytes(b"")
    with pytest.raises(ValueError, match="pickle"):
        read_model(tmp_path / "my_frank_sol.obj", None)
