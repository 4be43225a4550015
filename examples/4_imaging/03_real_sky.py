"""
First light on a real sky: what does M87* look like?
====================================================

Every sky on the pages before this one was made by us, so we knew the right answer. This
one is different. In April 2017, seven radio telescopes between Spain and Hawaii looked
at the centre of the galaxy M87 together, and what they recorded is public: a file of
half a megabyte. Write down a guess first: will ``image``, which got every simulated
flux right, get this one right, too?

By the end of the page you'll have made the picture of a black hole's shadow yourself,
and you'll know what to do when your own data are calibrated badly.

**You will learn**

- why an image of real data can be wrong although nothing is broken;
- what three telescopes know that two don't;
- how to calibrate antennas by the image itself.

**Time:** 6 minutes. **Needs:** any computer, and a network for the first part. Without
one, the page shows what it gave on the machine that it names.
"""

# %%
# Get the data
# ------------
#
# The file comes from the public archive of the Event Horizon Telescope (EHT). It's
# downloaded once and then kept, and its checksum tells whether it's the file that we
# mean. If you use it for your own work, `the archive says how to cite it`__.
#
# __ https://github.com/eventhorizontelescope/2019-D01-01

# sphinx_gallery_thumbnail_number = 1
import hashlib
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from astropy.utils.data import download_file

from firstlight.imaging import image, read_visibilities
from firstlight.imaging.calibration import closure_image, self_calibrate

ARCHIVE = "https://raw.githubusercontent.com/eventhorizontelescope/2019-D01-01/master"
FILE = "uvfits/SR1_M87_2017_101_lo_hops_netcal_StokesI.uvfits"
SHA256 = "697af2bb3bbf732115108ffefacd3e59e307f38fe685c3c4579146b0bd661298"

try:
    path = Path(download_file(f"{ARCHIVE}/{FILE}", cache=True, timeout=20))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SHA256, "another file"
except OSError:
    path = None
    print("No network here, and the file was never downloaded: this part is not run.")

if path:
    seen = read_visibilities(path)
    print(
        f"{seen.data.size:,} visibilities of {len(np.unique(seen.antennas))} stations"
    )

# %%
# Try the usual way
# -----------------

if path:
    print(image(seen, draws=0))

# %%
# It refuses. It doesn't say that the file is damaged, or that there's too much noise.
# It says that the data aren't *calibrated*, and hands out no flux at all. What's wrong?
#
# A :term:`visibility` is measured by two telescopes that both write down the same wave.
# But a telescope's atomic clock has an offset of its own, and the air above it holds
# the wave up by a different amount every few seconds. So each telescope turns the
# :term:`phase` of all its visibilities by an angle that nobody knows. It's like a choir
# whose singers all know the tune, but each starts when he likes: the singing is right,
# and the chord is not.
#
# Astronomers call the unknown factor of each antenna its *gain*. ALMA looks at a bright
# point every few minutes to measure its gains. The EHT can't do that well enough.
#
# What three telescopes know
# --------------------------
#
# Take three telescopes, and add up their phases around the triangle: from the first to
# the second, from there to the third, and back to the first. Each telescope comes in
# twice, once with each sign. So whatever its clock did, it cancels. The sum is called a
# *closure phase*. Let's try it, with clocks as bad as they can be:

rng = np.random.default_rng(1)
sky_phases = rng.uniform(-np.pi, np.pi, 3)  # of the baselines 1-2, 2-3 and 3-1
for _ in range(3):
    clocks = rng.uniform(-np.pi, np.pi, 3)
    measured = sky_phases + clocks - np.roll(clocks, -1)
    closure = np.angle(np.exp(1j * measured.sum()))
    turned = np.degrees(np.angle(np.exp(1j * measured)))
    print(f"phases {turned.round()}, closure phase {np.degrees(closure):.1f}°")
    assert np.isclose(closure, np.angle(np.exp(1j * sky_phases.sum())))

# %%
# The phases are different each time, and the closure phase stays. With four telescopes
# there's a product and quotient of amplitudes that doesn't change either. Such closure
# quantities are all that this file really knows. There are fewer of them than
# visibilities, and they don't tell where on the sky the source is. But they're right.
#
# The image
# ---------
#
# ``closure_image`` looks for the smoothest image that agrees with all closure phases
# and closure amplitudes. It needs one more thing, how large the picture should be. We
# ask for 120 microarcseconds. Seen from here, a coin on the moon is a tenth as wide.

micro = 1e-6  # arcsec
if path:
    found = closure_image(seen, field=120 * micro)
    print(found)

# %%

# folded: The ring: of all circles, the one that is brightest beside its own inside

from scipy.ndimage import map_coordinates

theta = np.radians(np.arange(0, 360, 6))  # position angles, from north to east


def along(found, north, east, radius):
    """Return the brightness along circles around places; all in steps of a pixel."""
    middle = (np.array(found.sky.shape)[:, None] - 1) / 2
    rows = north[..., None] + radius[..., None] * np.cos(theta)
    columns = east[..., None] + radius[..., None] * np.sin(theta)
    where = rows.ravel() + middle[0], middle[1] - columns.ravel()
    return map_coordinates(found.sky, where, order=1).reshape(rows.shape)


def ring_of(found):
    """Return a ring's middle and diameter, and how bright its south is to its north."""
    step = found.coords.cell_size / micro
    offsets, radii = np.arange(-30, 31, 1.5) / step, np.arange(12, 33, 0.5) / step
    grid = np.meshgrid(offsets, offsets, radii, indexing="ij")
    rim, inside = along(found, *grid), along(found, grid[0], grid[1], grid[2] / 2)
    best = (rim.mean(-1) - inside.mean(-1)).argmax()
    north, east = (part.flat[best] + 0 * radii for part in grid[:2])
    around = along(found, north, east, radii)
    ridge, brightness = radii[around.argmax(0)], around.max(0)
    south = brightness[np.cos(theta) < 0].mean() / brightness[np.cos(theta) > 0].mean()
    return north[0] * step, east[0] * step, 2 * np.median(ridge) * step, south


# %%

# measured figure
fig, ax = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
if path:
    north, east, diameter, south = ring_of(found)
    extent = np.array(found.coords.img_ext) / micro
    ax.imshow(found.sky, origin="lower", extent=extent, cmap="afmhot")
    circle = plt.Circle((east, north), diameter / 2, fill=False, ls=":", ec="white")
    ax.add_patch(circle)
    ax.set(xlabel="microarcseconds to the east", ylabel="to the north")
    assert abs(diameter - 42) < 6  # as the text says
    assert south > 1
    print(f"ring: diameter {diameter:.0f} microarcseconds")
    print(f"its southern half is {south:.1f} times as bright as the northern one")
    title = f"M87*, 11 April 2017: a ring of {diameter:.0f} microarcseconds"
    fig.suptitle(title)
    fig.set_label(f"{title}, brighter in the south, with a dark middle.")
plt.show()

# %%
# There it is: a ring with a dark middle, brighter in the south. The collaboration's own
# papers give a diameter of 42 ± 3 microarcseconds from several independent programs
# (`paper IV`__), and eht-imaging, one of them, gives 42.1 from the closure quantities
# of the same file. The flux is as right as the amplitudes are calibrated; the papers
# say about half a Jy.
#
# Don't trust every wisp. A *closure image* of so few telescopes shows the ring and its
# bright side reliably. What is faint and outside is mostly the freedom that the data
# leave.
#
# __ https://iopscience.iop.org/article/10.3847/2041-8213/ab0e85
#
# Calibrate by the image
# ----------------------
#
# Most arrays are much better calibrated than that. Their gains are off by some degrees,
# enough to spoil a bright source. Then there is a cure: make an image all the same, ask
# which gains would make *it* fit, correct the data, and make a better image. That's
# called *self-calibration*. To know whether it's right, we go back to a simulated sky
# once more, and turn the phases of its antennas by up to a fifth of a radian:

from dataclasses import replace

from firstlight.imaging.simulate import Ring, alma_antennas, observe
from firstlight.imaging.simulate import uv_track, with_noise

truth = 0.5  # Jy
track = uv_track(alma_antennas()[::3], n_times=8)
clean = observe([Ring(truth, radius=0.6, width=0.2)], track)
clocks = rng.uniform(-0.2, 0.2, clean.antennas.max() + 1)
wrong = np.exp(1j * (clocks[clean.antennas[:, 0]] - clocks[clean.antennas[:, 1]]))
spoilt = with_noise(replace(clean, data=clean.data * wrong), 0.01, seed=1)

cured = self_calibrate(spoilt)
print(cured)
fluxes = []
for name, vis in (("as observed", spoilt), ("self-calibrated", cured.vis)):
    made = image(vis, draws=2)
    fluxes.append(made.flux)
    print(f"{name}: {made.flux_text}, {made.quality.verdict}")
assert abs(fluxes[1] - truth) < 0.5 * abs(fluxes[0] - truth)

# %%
# The first image is too bright, and its error bar far too small: it knows of the noise,
# and nothing of the clocks. That is how most real sets look, and why so few of their
# fluxes can be believed as they come. With data of your own, the command does the rest:
#
# .. code-block:: bash
#
#    firstlight image my.uvfits --self-calibrate
#
# Where this stops being true
# ---------------------------
#
# - *A first image that is nonsense* teaches the antennas nonsense. If the verdict says
#   "not calibrated", begin with closure quantities.
# - *Faint sources.* There has to be enough signal for each antenna and interval.
#   ``--every 5min`` takes longer intervals.
# - *Amplitudes* can be calibrated as well (``--self-calibrate amplitude``), but they
#   change the flux more easily. Do it last, and look at what it did.
#
# Exercise
# --------
#
# Complete the function: from the three phases of a triangle, in degrees, to its closure
# phase between -180 and 180 degrees.


def closure_phase(first, second, third): ...


# %%

# folded: What checks your answer


def check(answer):
    cases = (
        ((10, 20, 30), 60),
        ((170, 20, 0), -170),
        ((-100, -100, -100), 60),
        ((120, 240, 360), 0),
    )
    for phases, expected in cases:
        try:
            got = answer(*phases)
        except Exception as error:
            return f"closure_phase{phases} raised {type(error).__name__}: {error}"
        if not isinstance(got, (int, float, np.number)):
            return f"closure_phase{phases} gave {got!r}; it has to give one number"
        if not abs(got - expected) < 1e-6:
            return f"closure_phase{phases} gave {got:g}. Hint: a turn of 360° is none."
    return "Right. No clock can spoil it."


# %%
# Put your function above, and ask:

print(check(closure_phase))

# %%
# Three lines to remember
# -----------------------

# remember
print("1. Real data are limited by the gains of the antennas more often than by noise.")
print("2. Closure phases know nothing of gains. From them alone, M87* is a ring.")
print("3. An image can calibrate its own data, if it's good enough to begin with.")

# %%
# Solution
# --------

# solution


def closure_phase_solution(first, second, third):
    return (first + second + third + 180) % 360 - 180


print(f"Our solution: {check(closure_phase_solution)}")
