"""Make measurement sets of a known sky with CASA's simulator, one for each seed of the noise: `simulate(folder)`.

It runs in CASA's Python, without First Light: the visibilities are computed here by other code, from the same sky.json.
"""

import json
import math
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from casatools import ctsys, image, measures, simulator, table
from scipy.special import j0

HERE = Path(__file__).parent
RINGS = json.loads((HERE / "sky.json").read_text())["rings"]
ARCSEC = math.radians(1 / 3600)
LIGHT_SPEED, HERTZ = 299_792_458.0, 230e9
CENTRE = "ICRS", "83.0deg", "-24.0deg"  # casacore's J2000 is some milliarcseconds off
NOISE = 0.02  # Jy: of the real and of the imaginary part of a visibility in Stokes I
SEEDS = (1, 2, 3, 4, 5)
HOURS, STEP = 2, 180  # around transit; seconds
CELL, NPIX = 0.025, 200  # arcsec; of both methods


@contextmanager
def opened(path, **how):
    """Open a table of a set, and close it afterwards."""
    tb = table()
    tb.open(str(path), **how)
    try:
        yield tb
    finally:
        tb.close()


def visibilities(u, v):
    """Return those of the sky, of the phase exp(-2πi(ul + vm)); u and v in wavelengths."""
    total = 0
    for ring in RINGS:
        angle, tilt = math.radians(ring["position_angle"]), math.cos(math.radians(ring["inclination"]))
        along = u * math.sin(angle) + v * math.cos(angle)
        across = u * math.cos(angle) - v * math.sin(angle)
        q = 2 * math.pi * ARCSEC * np.hypot(along, tilt * across)
        part = ring["flux"] * j0(q * ring["radius"]) * np.exp(-((q * ring["width"]) ** 2) / 2)
        total = total + part * np.exp(-2j * math.pi * ARCSEC * (u * ring["east"] + v * ring["north"]))
    return total


def fringes():
    """Return u and v, in wavelengths, of all that an image of CELL and NPIX can hold; as fftfreq has them."""
    axis = np.fft.fftfreq(NPIX, CELL * ARCSEC)
    return np.meshgrid(axis, axis)


def sky(beam=None):
    """Return the sky in Jy/arcsec², or in Jy/beam at a beam of (major, minor, angle); CASA's centre, row 0 is south."""
    u, v = fringes()
    spectrum = visibilities(u, v)
    if beam:
        spectrum = spectrum * smoothing(beam)
    plane = np.fft.fftshift(np.fft.ifft2(spectrum).real) / CELL**2
    return np.roll(plane[:, ::-1], 1, axis=1)  # east to the left


def smoothing(beam):
    """Return by what a Gaussian of peak 1 multiplies each fringe, in arcsec²."""
    major, minor, angle = beam
    u, v = (ARCSEC * axis for axis in fringes())
    sin, cos = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    along, across = major * (u * sin + v * cos), minor * (u * cos - v * sin)
    area = math.pi * major * minor / (4 * math.log(2))
    return area * np.exp(-(math.pi**2) * (along**2 + across**2) / (4 * math.log(2)))


def noise(seed, shape):
    """Return that of both hands, (2, rows), such that their mean has the NOISE of Stokes I."""
    parts = np.random.default_rng(seed).standard_normal((2, *shape, 2))
    return math.sqrt(2) * NOISE * parts.view(complex)[..., 0]


def antennas():
    """Read the pads of C43-6, as CASA has them: x, y, z, diameters and names."""
    rows = Path(ctsys.resolve("alma/simmos/alma.cycle6.6.cfg")).read_text().splitlines()
    rows = [row.split() for row in rows if row and not row.startswith("#")]
    return [*np.array([row[:4] for row in rows], float).T, [row[4] for row in rows]]


def observe(path):
    """Let the simulator make a measurement set of 43 antennas, without data."""
    me, sm = measures(), simulator()
    x, y, z, diameters, names = antennas()
    frame = {"coordsystem": "local", "referencelocation": me.observatory("ALMA"), "mount": "alt-az"}
    sm.open(str(path))
    sm.setconfig(telescopename="ALMA", x=x, y=y, z=z, dishdiameter=diameters, antname=names, **frame)
    width = {"deltafreq": "2GHz", "freqresolution": "2GHz", "nchannels": 1}
    sm.setspwindow(spwname="one", freq=f"{HERTZ}Hz", stokes="XX YY", **width)
    sm.setfeed("perfect X Y", pol=[""])
    sm.setlimits(shadowlimit=0.001, elevationlimit="20deg")
    sm.setauto(autocorrwt=0.0)
    sm.setfield(sourcename="sky", sourcedirection=me.direction(*CENTRE))
    sm.settimes(integrationtime=f"{STEP}s", usehourangle=True, referencetime=me.epoch("UTC", "2026/01/01"))
    sm.observe("sky", "one", starttime=f"{-HOURS / 2}h", stoptime=f"{HOURS / 2}h")
    sm.close()


def predicted(path):
    """Return CASA's own prediction of the sky, in its own sign, as a witness of ours."""
    ia, sm, me = image(), simulator(), measures()
    model = str(path.with_name("sky.image"))
    ia.fromarray(model, sky().T[:, :, None, None] * CELL**2, overwrite=True)
    frame = ia.coordsys()
    frame.setunits(["rad", "rad", "", "Hz"])
    place = me.direction(*CENTRE)
    frame.setreferencecode("ICRS", "direction", adjust=False)
    frame.setreferencevalue([place["m0"]["value"], place["m1"]["value"]], "direction")
    frame.setincrement([-CELL * ARCSEC, CELL * ARCSEC], "direction")
    frame.setreferencepixel([NPIX // 2, NPIX // 2], "direction")
    frame.setreferencevalue(HERTZ, "spectral")
    frame.setincrement(2e9, "spectral")
    ia.setcoordsys(frame.torecord())
    ia.setbrightnessunit("Jy/pixel")
    ia.close()
    sm.openfromms(str(path))
    sm.setvp(dovp=False)
    sm.predict(imagename=model)
    sm.close()
    with opened(path) as tb:
        return tb.getcol("DATA")[:, 0].mean(axis=0)


def fill(path, seed):
    """Put the sky and the noise of a seed into the set, in CASA's sign, and weights that are right."""
    with opened(path, nomodify=False) as tb:
        u, v = tb.getcol("UVW")[:2] * HERTZ / LIGHT_SPEED
        tb.putcol("DATA", (visibilities(u, v) + noise(seed, u.shape)).conj()[:, None])
        tb.putcol("WEIGHT", np.full((2, u.size), 0.5 / NOISE**2))
        tb.putcol("SIGMA", np.full((2, u.size), math.sqrt(2) * NOISE))
        tb.removecols([name for name in ("CORRECTED_DATA", "MODEL_DATA") if name in tb.colnames()])


def simulate(folder):
    """Make the set without noise and one for each seed, and return what the page needs to make them again."""
    first = Path(folder) / "sky.ms"
    observe(first)
    witness = predicted(first).conj()
    with opened(first) as tb:
        uvw, pairs = tb.getcol("UVW"), np.stack([tb.getcol("ANTENNA1"), tb.getcol("ANTENNA2")])
    count = pairs.max() + 1
    rows = uvw.shape[1] // math.comb(count, 2)
    assert np.array_equal(pairs, np.tile(np.stack(np.triu_indices(count, 1)), rows))
    places = np.zeros((2, rows, count))  # of each antenna from the first, in metres, at each time
    places[:, :, 1:] = uvw[:2].reshape(2, rows, -1)[:, :, : count - 1]
    ours = visibilities(*uvw[:2] * HERTZ / LIGHT_SPEED)
    off = np.linalg.norm(witness - ours) / np.linalg.norm(ours)
    for seed in SEEDS:
        shutil.copytree(first, first.with_name(f"seed{seed}.ms"))
        fill(first.with_name(f"seed{seed}.ms"), seed)
    return places, off
