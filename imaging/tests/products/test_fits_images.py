import math

import numpy as np
import pytest
import torch
from astropy import units
from astropy.coordinates import SkyCoord
from astropy.io import fits
from astropy.wcs import WCS
from hypothesis import given
from hypothesis import strategies as st

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.directions import from_j2000
from firstlight_imaging.fourier.beams import Beam
from firstlight_imaging.products.fits_images import read_mask, write_image
from firstlight_imaging.units import ARCSEC

COORDS = GridCoords(cell_size=0.03, npix=60)
WHERE = {"ra": 83.82, "dec": -24.3, "frequencies": [230e9, 230.5e9, 231e9]}
BEAM = Beam(major=0.21, minor=0.12, position_angle=37)


def cube(nchan=3, dtype=np.float32):
    return np.random.default_rng(0).normal(size=(nchan, COORDS.npix, COORDS.npix)).astype(dtype)


@pytest.mark.parametrize("unit", ["Jy/pixel", "Jy/beam"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_written_is_there(tmp_path, unit, dtype):
    path = tmp_path / "a.fits"
    write_image(path, cube(dtype=dtype), COORDS, unit=unit, beam=BEAM if unit == "Jy/beam" else None, **WHERE)
    data, header = fits.getdata(path, header=True)
    np.testing.assert_array_equal(data, cube(dtype=dtype)[None])
    assert data.dtype.itemsize == np.dtype(dtype).itemsize
    assert header["BUNIT"] == unit
    widths = [3600 * header.get(key, 0) for key in ("BMAJ", "BMIN")]
    assert widths == pytest.approx([BEAM.major, BEAM.minor] if unit == "Jy/beam" else [0, 0], rel=1e-12)


pixels = st.integers(0, 59)


@given(pixels, pixels, st.floats(0, 359.99), st.floats(-89, 89), st.sampled_from([0.001, 0.03, 1.0]))
def test_astropy_finds_every_pixel_where_the_sky_has_it(tmp_path_factory, row, column, ra, dec, cell):
    """The direction is worked out here from l and m alone: rotations of a unit vector, no WCS."""
    coords = GridCoords(cell, 60)
    path = tmp_path_factory.mktemp("wcs") / "a.fits"
    image = np.zeros((1, 60, 60))
    image[0, row, column] = 1
    write_image(path, image, coords, unit="Jy/pixel", ra=ra, dec=dec, frequencies=[1e11])
    east, north = (float(plane[row, column]) * ARCSEC for plane in coords.sky_coordinates())
    towards = math.sqrt(1 - east**2 - north**2)
    d = math.radians(dec)
    up, out = north * math.cos(d) + towards * math.sin(d), towards * math.cos(d) - north * math.sin(d)
    truth = SkyCoord(math.radians(ra) + math.atan2(east, out), math.asin(up), unit="rad")
    with fits.open(path) as file:
        wcs = WCS(file[0].header)
        values = file[0].data
    pixels = wcs.celestial.world_to_pixel(truth)
    assert pixels == pytest.approx((column, row), abs=0.01)
    assert np.unravel_index(values.argmax(), values.shape) == (0, 0, row, column)
    assert wcs.celestial.pixel_to_world(column, row).separation(truth).arcsec < 0.01 * cell


def test_the_header_says_what_it_has_to(tmp_path):
    path = tmp_path / "a.fits"
    write_image(path, cube(), COORDS, unit="Jy/beam", beam=BEAM, **WHERE)
    with fits.open(path) as file:
        file.verify("exception")
        header = file[0].header
        assert file[0].data.shape == (1, 3, 60, 60)
    assert [header[f"CTYPE{n}"] for n in (1, 2, 3, 4)] == ["RA---SIN", "DEC--SIN", "FREQ", "STOKES"]
    assert (header["CRPIX1"], header["CRPIX2"]) == (30, 31)
    assert (header["CDELT1"], header["CDELT2"]) == pytest.approx((-0.03 / 3600, 0.03 / 3600), rel=1e-12)
    assert (header["BUNIT"], header["BPA"]) == ("Jy/beam", 37)
    assert (header["RADESYS"], header["SPECSYS"], header["RESTFRQ"]) == ("ICRS", "TOPOCENT", 230.5e9)
    spectral = WCS(header).spectral
    np.testing.assert_allclose(spectral.wcs_pix2world([0, 1, 2], 0)[0], WHERE["frequencies"])
    assert spectral.wcs.cunit[0] == units.Hz


def test_the_frame_and_the_rest_frequency_are_those_given(tmp_path):
    """A line seen from a source that recedes: the velocity that astropy reads is that of the definition."""
    path = tmp_path / "line.fits"
    write_image(path, cube(), COORDS, unit="Jy/pixel", frame="LSRK", rest_frequency=230.538e9, **WHERE)
    with fits.open(path) as file:
        wcs = WCS(file[0].header)
    assert (wcs.wcs.specsys, wcs.wcs.restfrq) == ("LSRK", 230.538e9)
    radio = wcs.spectral
    radio.wcs.sptr("VRAD-???")
    speed = radio.wcs_pix2world(1, 0)[0]
    assert float(speed) == pytest.approx(299792458 * (1 - 230.5e9 / 230.538e9), rel=1e-9)


@pytest.mark.parametrize("start", [-5e9, 1e15, 0.0])
def test_any_name_and_any_time_can_be_written(tmp_path, start):
    path = tmp_path / "a.fits"
    write_image(path, cube(), COORDS, unit="Jy/pixel", telescope="Élan\n望", start=start, **WHERE)
    assert fits.getheader(path)["TELESCOP"] == "?lan??"
    assert ("DATE-OBS" in fits.getheader(path)) == (start == 0)


def test_a_model_keeps_its_flux_in_jy_per_pixel_and_has_no_beam(tmp_path):
    path = tmp_path / "model.fits"
    model = torch.from_numpy(cube()).requires_grad_()
    write_image(path, model, COORDS, unit="Jy/arcsec^2", **WHERE)
    with fits.open(path) as file:
        header, data = file[0].header, file[0].data[0]
    assert header["BUNIT"] == "Jy/pixel"
    assert "BMAJ" not in header
    np.testing.assert_allclose(data.sum((1, 2)), cube().sum((1, 2)) * 0.03**2, rtol=1e-5)


def test_what_was_there_is_kept_until_another_file_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "a.fits"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match=r"a\.fits"):
        write_image(path, cube(), COORDS, unit="Jy/pixel", **WHERE)

    def half(_part, name, **_options):
        name.write_text("SIMPLE")
        raise KeyboardInterrupt

    monkeypatch.setattr(fits.PrimaryHDU, "writeto", half)
    with pytest.raises(KeyboardInterrupt):
        write_image(path, cube(), COORDS, unit="Jy/pixel", overwrite=True, **WHERE)
    assert [file.name for file in tmp_path.iterdir()] == ["a.fits"]
    assert path.read_text() == "mine"
    monkeypatch.undo()
    write_image(path, cube(), COORDS, unit="Jy/pixel", overwrite=True, **WHERE)
    assert fits.getheader(path)["BUNIT"] == "Jy/pixel"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cube": cube()[0]}, r"\(60, 60\)"),
        ({"cube": np.where(cube() > 3, np.nan, cube())}, r"\d+ pixels"),
        ({"cube": cube().astype(np.complex64)}, "complex64"),
        ({"unit": "Jy/beam"}, "beam"),
        ({"unit": "Jy/arcsec^2", "beam": BEAM}, "beam"),
        ({"ra": -3}, "ra "),
        ({"dec": 91}, "dec "),
        ({"frequencies": [1e9, 2e9, 4e9]}, "even steps"),
        ({"frequencies": [1e9, math.nan, 2e9]}, "Hz"),
        ({"frame": "TOPO"}, "TOPOCENT"),
        ({"rest_frequency": math.nan}, "rest_frequency"),
    ],
)
def test_what_makes_no_image_is_refused(tmp_path, change, message):
    arguments = {"cube": cube(), "unit": "Jy/pixel"} | WHERE | change
    with pytest.raises((ValueError, TypeError), match=message):
        write_image(tmp_path / "a.fits", coords=COORDS, **arguments)
    assert not list(tmp_path.iterdir())


def test_a_mask_needs_a_place_and_a_whole_file(tmp_path):
    write_image(tmp_path / "nowhere.fits", cube(), COORDS, unit="Jy/pixel", frequencies=WHERE["frequencies"])
    with pytest.raises(ValueError, match="place on the sky"):
        read_mask(tmp_path / "nowhere.fits", (83.82, -24.3))
    (tmp_path / "part.fits").write_bytes((tmp_path / "nowhere.fits").read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"part\.fits"):
        read_mask(tmp_path / "part.fits", (83.82, -24.3))
    with pytest.raises(FileNotFoundError, match="absent"):
        read_mask(tmp_path / "absent.fits", (83.82, -24.3))


@pytest.mark.parametrize("back", [False, True], ids=["as AIPS", "as CASA"])
def test_a_mask_in_fk5_lies_where_the_data_do(tmp_path, back):
    """AIPS writes so the coordinates of its data; CASA's data in J2000 are 20 mas beside them in ICRS."""
    inside, coords, centre = np.zeros((64, 64)), GridCoords(1e-3, 64), (83.82, -24.3)
    inside[40, 20] = 1
    ra, dec = from_j2000(*centre, back=True) if back else centre
    write_image(tmp_path / "a.fits", inside[None], coords, unit="Jy/pixel", frequencies=[1e9], ra=ra, dec=dec)
    fits.setval(tmp_path / "a.fits", "RADESYS", value="FK5")
    fits.setval(tmp_path / "a.fits", "EQUINOX", value=2000.0)
    assert (read_mask(tmp_path / "a.fits", centre)(*coords.sky_coordinates()) == (inside > 0)).all()
