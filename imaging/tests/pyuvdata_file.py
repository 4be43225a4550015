"""Let pyuvdata write UVFITS files of a Gaussian, in a process of its own: ``pyuvdata_file.py FOLDER < JSON``.

The source is in the phase centre at first, where every visibility is a real number. pyuvdata moves the phase centre to
the field's, by its own signs.
"""

import json
import sys
from pathlib import Path

import numpy as np
from astropy import units
from astropy.coordinates import EarthLocation
from astropy.time import Time
from pyuvdata import Telescope, UVData

folder, given = Path(sys.argv[1]), json.load(sys.stdin)
site = EarthLocation.from_geodetic(-67.7549 * units.deg, -23.0229 * units.deg, 5000 * units.m)
east, north = np.array(given["antennas"]).T[:2]
lon, lat = np.radians([-67.7549, -23.0229])
positions = np.outer(east, [-np.sin(lon), np.cos(lon), 0])
positions += np.outer(north, [-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)])
frequency, width, window = (np.array(given[name]) for name in ("frequency", "width", "window"))
telescope = Telescope.new("ALMA", site, positions, antenna_numbers=list(range(1, len(east) + 1)), feeds=["x", "y"],
                          mount_type="alt-az", instrument="ALMA", update_from_known=False)  # fmt: skip
many = {"flex_spw_id_array": window, "spw_array": np.unique(window)} if window.any() else {}
source = {"cat_name": "source", "cat_type": "sidereal", "cat_frame": "icrs", "cat_epoch": 2000.0}
lon_lat = {"cat_lon": np.radians(given["source"][0]), "cat_lat": np.radians(given["source"][1])}
vis = UVData.new(
    freq_array=frequency,
    channel_width=width,
    polarization_array=np.array([-5, -6]),
    times=Time(given["start"]).jd + np.arange(given["n_times"]) * 600 / 86400,
    antpairs=[(a + 1, b + 1) for b in range(len(east)) for a in range(b)],
    do_blt_outer=True,
    integration_time=600.0,
    telescope=telescope,
    phase_center_catalog={0: source | lon_lat},
    vis_units="Jy",
    empty=True,
    **many,
)
length = np.multiply.outer(np.hypot(*vis.uvw_array.T[:2]), frequency / 299_792_458)
blur = np.exp(-2 * (np.pi * np.radians(given["width_of_source"] / 3600) * length) ** 2)
vis.data_array[...] = given["flux"] * blur[..., None]
rng = np.random.default_rng(5)
vis.data_array += given["sigma"] * (rng.normal(size=vis.data_array.shape) + 1j * rng.normal(size=vis.data_array.shape))
vis.nsample_array[...] = 1 / max(given["sigma"], 1e-3) ** 2
vis.flag_array[(vis.ant_1_array == 3)[:, None] & (vis.flex_spw_id_array == window.max())[None, :]] = True
ra, dec = np.radians(given["field"])
vis.phase(ra=ra, dec=dec, phase_frame="icrs", cat_name="field")
vis.write_uvfits(folder / "theirs.uvfits")
names = ("ant_1_array", "ant_2_array", "freq_array", "uvw_array", "flag_array", "data_array", "time_array")
np.savez(folder / "theirs.npz", **{name: getattr(vis, name) for name in names})
vis.conjugate_bls("ant2<ant1")
vis.write_uvfits(folder / "swapped.uvfits")
