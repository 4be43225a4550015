import dataclasses
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

from firstlight.imaging import files
from firstlight.imaging.beams import Beam
from firstlight.imaging.coordinates import ARCSEC, GridCoords
from firstlight.imaging.files import read_image, write_image

COORDS = GridCoords(cell_size=0.03, npix=60)
WHERE = {"ra": 83.82, "dec": -24.3, "frequencies": [230e9, 230.5e9, 231e9]}
BEAM = Beam(major=0.21, minor=0.12, position_angle=37)


def cube(nchan=3, dtype=np.float32):
    return np.random.default_rng(0).normal(size=(nchan, COORDS.npix, COORDS.npix)).astype(dtype)


@pytest.mark.parametrize("unit", ["Jy/pixel", "Jy/beam"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_written_is_read(tmp_path, unit, dtype):
    path = tmp_path / "a.fits"
    beam = BEAM if unit == "Jy/beam" else None
    write_image(path, cube(dtype=dtype), COORDS, unit=unit, beam=beam, **WHERE)
    found = read_image(path)
    np.testing.assert_array_equal(found.cube, cube(dtype=dtype))
    assert found.cube.dtype == dtype
    assert found.cube.dtype.isnative
    assert (found.coords, found.unit) == (COORDS, unit)
    assert (found.ra, found.dec) == pytest.approx((83.82, -24.3), abs=1e-10)
    np.testing.assert_allclose(found.frequencies, WHERE["frequencies"], rtol=1e-14)
    if beam:
        assert dataclasses.astuple(found.beam) == pytest.approx(dataclasses.astuple(BEAM), rel=1e-12)
    else:
        assert found.beam is None


@given(
    st.integers(0, 59),
    st.integers(0, 59),
    st.floats(0, 359.99),
    st.floats(-89, 89),
    st.sampled_from([0.001, 0.03, 1.0]),
)
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
    assert read_image(path).frame == "LSRK"


@pytest.mark.parametrize("beam", [None, BEAM])
def test_a_file_is_read_and_written_again_alike(tmp_path, beam):
    first, second = tmp_path / "a.fits", tmp_path / "b.fits"
    write_image(first, cube(), COORDS, unit="Jy/beam" if beam else "Jy/pixel", beam=beam, frame="BARYCENT", **WHERE)
    found = dataclasses.asdict(read_image(first)) | {"beam": read_image(first).beam}
    write_image(second, found.pop("cube"), COORDS, **{k: v for k, v in found.items() if k != "coords"})
    assert fits.FITSDiff(first, second, rtol=1e-12).identical


def test_a_model_keeps_its_flux_in_jy_per_pixel_and_has_no_beam(tmp_path):
    path = tmp_path / "model.fits"
    model = torch.from_numpy(cube()).requires_grad_()
    write_image(path, model, COORDS, unit="Jy/arcsec^2", **WHERE)
    with fits.open(path) as file:
        header, data = file[0].header, file[0].data[0]
    assert header["BUNIT"] == "Jy/pixel"
    assert "BMAJ" not in header
    np.testing.assert_allclose(data.sum((1, 2)), cube().sum((1, 2)) * 0.03**2, rtol=1e-5)


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path):
    path = tmp_path / "a.fits"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match=r"a\.fits"):
        write_image(path, cube(), COORDS, unit="Jy/pixel", **WHERE)
    assert path.read_text() == "mine"
    write_image(path, cube(), COORDS, unit="Jy/pixel", overwrite=True, **WHERE)
    assert read_image(path).unit == "Jy/pixel"


def test_an_interrupted_run_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "a.fits"
    path.write_text("mine")

    def half(_part, name, **_options):
        name.write_text("SIMPLE")
        raise KeyboardInterrupt

    monkeypatch.setattr(fits.PrimaryHDU, "writeto", half)
    with pytest.raises(KeyboardInterrupt):
        write_image(path, cube(), COORDS, unit="Jy/pixel", overwrite=True, **WHERE)
    assert [file.name for file in tmp_path.iterdir()] == ["a.fits"]
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cube": cube()[0]}, r"\(60, 60\)"),
        ({"cube": cube()[:2]}, r"\(2, 60, 60\)"),
        ({"cube": cube()[:, :, :58]}, r"\(3, 60, 58\)"),
        ({"cube": np.where(cube() > 3, np.nan, cube())}, r"\d+ pixels"),
        ({"unit": "K"}, "'K'"),
        ({"unit": "Jy/beam"}, "beam"),
        ({"unit": "Jy/arcsec^2", "beam": BEAM}, "beam"),
        ({"ra": -3}, "ra "),
        ({"dec": 91}, "dec "),
        ({"dec": math.nan}, "dec "),
        ({"frequencies": [1e9, 2e9, 4e9]}, "even steps"),
        ({"frequencies": [1e9, 1e9, 1e9]}, "even steps"),
        ({"frequencies": [1e9, math.nan, 2e9]}, "Hz"),
        ({"frequencies": []}, "Hz"),
        ({"frequencies": 1e9}, "Hz"),
        ({"frame": "TOPO"}, "TOPOCENT"),
        ({"rest_frequency": 0}, "rest_frequency"),
        ({"rest_frequency": math.nan}, "rest_frequency"),
    ],
)
def test_what_makes_no_image_is_refused(tmp_path, change, message):
    arguments = {"cube": cube(), "unit": "Jy/pixel"} | WHERE | change
    with pytest.raises(ValueError, match=message):
        write_image(tmp_path / "a.fits", coords=COORDS, **arguments)
    assert not list(tmp_path.iterdir())


def test_complex_cubes_are_refused(tmp_path):
    with pytest.raises(TypeError, match="complex64"):
        write_image(tmp_path / "a.fits", cube().astype(np.complex64), COORDS, unit="Jy/pixel", **WHERE)


def test_an_image_of_another_program_is_placed_by_its_header(tmp_path):
    """Stokes before frequency, two axes less, the centre a column further: the sky stays where it is."""
    header = files.make_header(COORDS, 83.82, -24.3, np.array(WHERE["frequencies"]))
    header["BUNIT"], header["CRPIX1"] = "JY/BEAM", 31
    for key in ("CTYPE", "CRVAL", "CRPIX", "CDELT", "CUNIT"):
        header[f"{key}3"], header[f"{key}4"] = header[f"{key}4"], header[f"{key}3"]
    path = tmp_path / "a.fits"
    fits.PrimaryHDU(cube()[:, None], header).writeto(path)
    found = read_image(path)
    np.testing.assert_array_equal(found.cube, cube())
    np.testing.assert_allclose(found.frequencies, WHERE["frequencies"])
    assert (found.unit, found.beam) == ("Jy/beam", None)
    # Their centre is one column to the west of ours, so ours is a pixel east of it.
    assert (found.ra - 83.82) * 3600 * math.cos(math.radians(24.3)) == pytest.approx(0.03, rel=1e-5)
    assert found.dec == pytest.approx(-24.3, abs=1e-9)
    flat = tmp_path / "flat.fits"
    for key in ("CTYPE", "CRVAL", "CRPIX", "CDELT", "CUNIT"):
        del header[f"{key}3"], header[f"{key}4"]
    fits.PrimaryHDU(cube()[0], header).writeto(flat)
    assert read_image(flat).cube.shape == (1, 60, 60)
    assert np.isnan(read_image(flat).frequencies).all()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"CDELT1": 0.03 / 3600}, "east"),
        ({"CDELT2": 0.06 / 3600}, "square"),
        ({"CROTA2": 30.0}, "north"),
        ({"BUNIT": "K"}, "BUNIT is 'K'"),
        ({"CDELT2": -0.03 / 3600}, "east"),
        ({"CTYPE3": "VRAD"}, "VRAD"),
        ({"CTYPE1": "GLON-SIN", "CTYPE2": "GLAT-SIN"}, "GLON"),
    ],
)
def test_images_that_have_no_place_on_the_grid_are_refused(tmp_path, keys, message):
    header = files.make_header(COORDS, 83.82, -24.3, np.array(WHERE["frequencies"]))
    header["BUNIT"] = "Jy/pixel"
    header.update(keys)
    path = tmp_path / "a.fits"
    fits.PrimaryHDU(cube()[None], header).writeto(path)
    with pytest.raises(ValueError, match=rf"a\.fits.*{message}"):
        read_image(path)


def test_a_file_of_casa_is_read_and_one_with_two_stokes_parameters_is_not(tmp_path):
    """The cards that exportfits writes: a PC matrix, a pole, short units, the centre at npix / 2 + 1, no BUNIT case."""
    cards = {
        "BSCALE": 1.0, "BZERO": 0.0, "BMAJ": BEAM.major / 3600, "BMIN": BEAM.minor / 3600, "BPA": BEAM.position_angle,
        "BTYPE": "Intensity", "OBJECT": "disk", "BUNIT": "Jy/beam ", "RADESYS": "ICRS", "LONPOLE": 180.0,
        "LATPOLE": -24.3, "PC1_1": 1.0, "PC2_1": 0.0, "PC3_3": 1.0, "PC4_4": 1.0,
        "CTYPE1": "RA---SIN", "CRVAL1": 83.82, "CDELT1": -0.03 / 3600, "CRPIX1": 31.0, "CUNIT1": "deg",
        "CTYPE2": "DEC--SIN", "CRVAL2": -24.3, "CDELT2": 0.03 / 3600, "CRPIX2": 31.0, "CUNIT2": "deg",
        "CTYPE3": "STOKES", "CRVAL3": 1.0, "CDELT3": 1.0, "CRPIX3": 1.0, "CUNIT3": "",
        "CTYPE4": "FREQ", "CRVAL4": 230e9, "CDELT4": 5e8, "CRPIX4": 1.0, "CUNIT4": "Hz",
        "PV2_1": 0.0, "PV2_2": 0.0, "RESTFRQ": 230.538e9, "SPECSYS": "LSRK", "VELREF": 257, "TELESCOP": "ALMA",
    }  # fmt: skip
    path = tmp_path / "casa.fits"
    fits.PrimaryHDU(cube()[:, None], fits.Header(cards.items())).writeto(path)
    found = read_image(path)
    assert (found.coords, found.unit, found.frame) == (COORDS, "Jy/beam", "LSRK")
    assert dataclasses.astuple(found.beam) == pytest.approx(dataclasses.astuple(BEAM))
    np.testing.assert_allclose(found.frequencies, WHERE["frequencies"])
    assert (found.ra - 83.82) * 3600 * math.cos(math.radians(24.3)) == pytest.approx(0.03, rel=1e-5)
    fits.PrimaryHDU(np.repeat(cube()[:, None], 2, 1), fits.Header(cards.items())).writeto(tmp_path / "two.fits")
    with pytest.raises(ValueError, match="2 Stokes"):
        read_image(tmp_path / "two.fits")


def test_files_without_an_image_are_named(tmp_path):
    empty, bare, odd = (tmp_path / name for name in ("empty.fits", "bare.fits", "odd.fits"))
    fits.PrimaryHDU().writeto(empty)
    with pytest.raises(ValueError, match=r"empty\.fits"):
        read_image(empty)
    fits.PrimaryHDU(np.zeros((4, 4))).writeto(bare)
    with pytest.raises(ValueError, match=r"bare\.fits.*CTYPE1"):
        read_image(bare)
    header = files.make_header(COORDS, 0, 0, np.array([1e9]))
    header["BUNIT"] = "Jy/pixel"
    fits.PrimaryHDU(np.zeros((1, 1, 60, 58)), header).writeto(odd)
    with pytest.raises(ValueError, match=r"60 .*58"):
        read_image(odd)
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "none.fits")
