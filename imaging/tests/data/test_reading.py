import os

import numpy as np
import pytest
from astropy.io import fits

from firstlight_imaging.data import read_npz, read_uvfits, read_uvtable, read_visibilities


def test_data_that_would_count_twice_are_refused(tmp_path):
    """A file twice, or its copy, or a window beside the whole; but other windows, and another hand, are joined."""
    rng = np.random.default_rng(0)
    u, v = rng.normal(scale=3e5, size=(2, 50))
    part = np.outer([1, 1.1, 1.2], np.ones(50))

    def saved(name: str, channels: slice, seed: int, digits: type = complex) -> str:
        noise = np.random.default_rng(seed).normal(size=(2, 3, 50))
        data = (1 + noise[0] + 1j * noise[1])[channels].astype(digits)
        some = part[channels]
        hertz = 1e11 * some[:, 0]
        np.savez(tmp_path / name, uu=u * some, vv=v * some, data=data, weight=some, frequencies=hertz)
        return str(tmp_path / name)

    whole = saved("whole.npz", slice(3), 1)
    for twice in (whole, saved("copy.npz", slice(3), 1), saved("part.npz", slice(1, 2), 1, np.complex64)):
        with pytest.raises(ValueError, match=r"whole\.npz and .*npz hold the same"):
            read_visibilities([whole, twice])
    assert read_visibilities([whole, saved("other_hand.npz", slice(3), 2)]).window.tolist() == [0, 0, 0, 1, 1, 1]
    parts = [saved(f"{k}.npz", slice(k, k + 1), 1) for k in range(3)]
    assert read_visibilities(parts).window.tolist() == [0, 1, 2]


@pytest.mark.parametrize("read", [read_npz, read_uvfits, read_uvtable])
def test_a_folder_a_pipe_and_a_file_that_is_not_there_are_named(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe"):
        read(tmp_path / "pipe")
    with pytest.raises(ValueError, match="read_ms"):
        read(tmp_path)
    with pytest.raises(FileNotFoundError, match="absent"):
        read(tmp_path / "absent.file")


@pytest.mark.parametrize(
    ("mark", "begins", "message"),
    [
        ("visdata", b"\0", r"MIRIAD .*fits in=\S*my op=uvout"),
        ("sch_read", b"\0", r"SMA .*UVData.from_file\('\S*my'\)"),
        ("ASDM.xml", b"<ASDM/>", r"importasdm\(asdm='\S*my'"),
        ("table.info", b"Type = Image\nSubType = \n", "--assess"),
        ("table.info", b"Type = Calibration\nSubType = G Jones\n", "applycal"),
        ("", b"\x89HDF\r\n\x1a\n", "uvh5"),
        ("", b"GILDAS-UVDAT", "GILDAS .*READ UV"),
    ],
)
def test_formats_that_are_not_read_are_named_with_a_way_to_convert_them(tmp_path, mark, begins, message):
    path = tmp_path / "my"
    if mark:
        path.mkdir()
    (path / mark).write_bytes(begins)
    with pytest.raises(ValueError, match=message):
        read_visibilities(path)


def test_a_file_is_known_by_what_is_in_it(tmp_path):
    """An npz file by any name; the rest is UVFITS, and a folder a measurement set, or refused as such."""
    ones = np.ones(3)
    np.savez(tmp_path / "sky.npz", uu=3e5 * ones, vv=ones, data=ones + 0j, weight=ones)
    (tmp_path / "sky.npz").rename(tmp_path / "sky")
    assert read_visibilities(tmp_path / "sky", unit="lambda").data.shape == (1, 3)
    fits.PrimaryHDU(np.zeros((4, 4))).writeto(tmp_path / "image.fits")
    (tmp_path / "broken.npz").write_bytes(b"no zip")
    broken = {"image.fits": "random groups", "broken.npz": "not an .npz file", ".": "no measurement set"}
    for name, message in broken.items():
        with pytest.raises(ValueError, match=message):
            read_visibilities(tmp_path / name)
    for name in ("absent.npz", "absent.uvfits", "absent.ms"):
        with pytest.raises(FileNotFoundError, match="absent"):
            read_visibilities(tmp_path / name)
    with pytest.raises(ValueError, match=r"read_npz, which has no field .*leave it out"):
        read_visibilities(tmp_path / "sky", field=1)
