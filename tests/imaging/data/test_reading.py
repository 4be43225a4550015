import numpy as np
import pytest
from astropy.io import fits

from firstlight.imaging.data.reading import read_visibilities


def test_a_file_is_known_by_what_is_in_it(tmp_path):
    """An npz file by any name; the rest is UVFITS, and a folder a measurement set, or refused as such."""
    ones = np.ones(3)
    np.savez(tmp_path / "sky.npz", uu=3e5 * ones, vv=ones, data=ones + 0j, weight=ones)
    (tmp_path / "sky.npz").rename(tmp_path / "sky")
    assert read_visibilities(tmp_path / "sky", unit="lambda").data.shape == (1, 3)
    assert read_visibilities([str(tmp_path / "sky")] * 2).window.tolist() == [0, 1]
    fits.PrimaryHDU(np.zeros((4, 4))).writeto(tmp_path / "image.fits")
    (tmp_path / "broken.npz").write_bytes(b"no zip")
    broken = {"image.fits": "random groups", "broken.npz": "not an .npz file", ".": "no measurement set"}
    for name, message in broken.items():
        with pytest.raises(ValueError, match=message):
            read_visibilities(tmp_path / name)
    for name in ("absent.npz", "absent.uvfits", "absent.ms"):
        with pytest.raises(FileNotFoundError, match="absent"):
            read_visibilities(tmp_path / name)
    with pytest.raises(TypeError, match="field"):
        read_visibilities(tmp_path / "sky", field=1)
