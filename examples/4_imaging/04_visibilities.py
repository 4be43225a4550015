"""
What does an interferometer measure?
====================================

A colleague sends you a file from a radio telescope. It has five columns of numbers,
called ``uu``, ``vv``, ``data_re``, ``data_im`` and ``weight``, and a hundred thousand
rows. What is in a row?

**Could two skies that look quite different give the same file, row by row?** Write down
yes or no. By the end you'll be able to compute a row for any sky, and you'll know two
things about a sky that no such file contains.

**Needs:** any computer, and some NumPy.
"""

# %%
# Try it: one pair, one number
# ----------------------------
#
# Each row of the file comes from one pair of antennas. Let's take a pair that stands
# 150 m apart, one antenna to the east of the other, and listens at 230 GHz. Above them
# is a star.
#
# If the star is exactly overhead, its waves reach both antennas at the same moment. If
# it's a little to the east, they reach the eastern antenna first, and the other after a
# detour. The telescope multiplies the two signals, once as they are and once with one
# of them delayed by a quarter of a wave. These two products are the real and the
# imaginary part of a complex number, which depends on how many wavelengths fit into the
# detour. **Before you run the cell: which will change when the star moves, the size of
# the number, or its angle?**

import numpy as np

ARCSEC = np.pi / 180 / 3600  # in radians
wavelength = 299_792_458 / 230e9  # metres


def seen_by(metres, flux, east):
    """Return what a pair measures of a star, if one antenna is to the east."""
    waves = metres / wavelength * east * ARCSEC  # that fit into the detour
    return flux * np.exp(-2j * np.pi * waves)


for east in (0.0, 0.45, 0.9, 1.34, 1.79):
    vis = seen_by(150, 1.0, east)
    print(f"star at {east:4.2f} arcsec: {vis:+.2f}", end="   ")
    print(f"size {abs(vis):.2f}, angle {np.angle(vis, deg=True):+4.0f}°")

# %%
# The size stays the same, and the angle turns. At 1.79 arcsec it has turned once
# around. So this pair cannot tell a star overhead from one that is 1.79 arcsec away! It
# looks at the sky through a picket fence, and notices how far a star is from the
# nearest picket, but not which picket that is.
#
# Such a number is called a :term:`visibility`. Its size is the :term:`amplitude` and
# its angle the :term:`phase`. The distance between the two antennas is their
# :term:`baseline`. The fence is a :term:`fringe`, and the distance from one picket to
# the next is the wavelength divided by the baseline: here 1.3 mm over 150 m, which is
# 1.79 arcsec. In the file, ``uu`` says how far the two stand apart to the east, as seen
# from the source, and ``vv`` how far to the north, both in wavelengths, or in thousands
# of them. ``data_re`` and ``data_im`` are the number.
#
# The upper panels of the figure show the fringes of two pairs. The blue dots are a star
# that moves east. In the lower panels you see the visibility, as a point in the complex
# plane. The orange squares come from a source that grows. **What does growing do to a
# visibility, and why do the squares reach zero only on the right?**

# figure
import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREEN, GREY, ORANGE
from firstlight_imaging import GridCoords, Point, Ring, plot_image

npix = 180
grid = GridCoords(cell_size=0.03, npix=npix)
east, north = grid.sky_coordinates()
steps = np.linspace(0, 0.4, 6)  # arcsec
fig, axes = plt.subplots(2, 2, figsize=(7.2, 6.6), layout="constrained")
for (top, bottom), metres in zip(axes.T, (150, 450), strict=True):
    u = metres / wavelength
    fringe = np.cos(2 * np.pi * u * east * ARCSEC)
    plot_image(fringe, grid, ax=top, stretch="linear", unit=None, cmap="gray")
    top.plot(steps, 0 * steps, "o-", color=BLUE, mec="#fefefe", ms=7)
    top.set(title=f"{metres} m to the east", xlim=(0.9, -0.9), ylim=(-0.9, 0.9))
    moved = np.array([Point(1, east=x).visibilities(u, 0) for x in steps])
    grown = np.array([Ring(1, 0, x + 1e-9).visibilities(u, 0) for x in steps])
    bottom.add_patch(plt.Circle((0, 0), 1, fill=False, ls="--", ec=GREY))
    bottom.plot(moved.real, moved.imag, "o-", color=BLUE, label="moves")
    bottom.plot(grown.real, grown.imag, "s-", color=ORANGE, label="grows")
    bottom.set(aspect="equal", xlabel="real, Jy", ylabel="imaginary, Jy")
axes[1, 0].legend(frameon=False, loc=(0.25, 0.62), fontsize=9)  # inside the circle
fig.suptitle("A shift turns the phase, and a width lowers the amplitude")
fig.set_label(
    "Above, stripes over the sky. Below, the visibility: as a point moves east it runs "
    "along a circle, three times as far for 450 m as for 150 m. As a source grows, V "
    "moves inwards, and only for 450 m nearly to zero."
)
plt.show()

# %%
# A wide source is many stars side by side, and a pair adds up their numbers. Stars on
# the bright stripes and stars on the dark ones have opposite signs, so they cancel. The
# pickets of the pair on the right are three times as narrow, so a source fills both
# kinds sooner. *Position turns the phase, and size lowers the amplitude.* The longer
# the baseline, the sooner both happen.
#
# As a formula, a visibility is the sum over the whole sky of brightness times wave,
#
# .. math::
#
#     V(u, v) = \iint I(l, m)\, e^{-2 \pi i (u l + v m)}\, \mathrm{d}l\, \mathrm{d}m,
#
# where :math:`l` points to the east and :math:`m` to the north. This sum is what
# ``seen_by`` computes for one star, and it's the two-dimensional Fourier transform of
# the sky :math:`I`. A row of the file is the value of that transform at one point
# :math:`(u, v)`, and the points lie in the :term:`plane of u and v`, or *uv plane*.
# Mind the sign convention of a visibility: CASA and WSClean, and so every measurement
# set, have a plus in the exponent. Use the plus for what you read from a measurement
# set or write into one, unless ``read_ms`` has turned it round for you. If you mix the
# two up, your image is rotated by half a turn, and gains that you solve with such a
# model are wrong.
#
# .. dropdown:: From a measurement set to the five columns
#
#    ``read_ms`` does this :doc:`for you </tutorials/4_imaging/02_your_own_data>`.
#
#    - ``UVW``, in metres, becomes ``uu`` and ``vv``. Divide by the wavelength of the
#      channel.
#    - ``DATA``, for each channel and polarization, becomes ``data_re`` and ``data_im``,
#      a row for each channel: the conjugate of the mean of XX and YY (or RR and LL).
#    - ``WEIGHT``, or ``WEIGHT_SPECTRUM``, becomes ``weight``: the sum of those of XX
#      and YY.
#    - ``FLAG``: what is flagged is left out.
#
# A night of rows
# ---------------
#
# An array like ALMA has, say, 43 antennas, so 43 · 42 / 2 = 903 pairs. But the Earth
# turns. As seen from the source, each pair turns with it, and over a night its point
# draws an arc.
#
# **How much of the uv plane will the arcs cover in six hours?** An image of 180 × 180
# pixels of 0.03 arcsec has a Fourier transform of as many cells. Guess how many of them
# get at least one measurement.

# figure
from firstlight_imaging.simulate import observe, uv_track, with_noise

filled, look = {}, {"figsize": (7.2, 3.4), "layout": "constrained"}
fig, axes = plt.subplots(1, 3, sharex=True, sharey=True, **look)
for ax, hours in zip(axes, (0, 1, 6), strict=True):
    span = {"hour_angles": (-hours / 2, hours / 2), "n_times": 1 + 10 * hours}
    u, v = uv_track(declination=-24, **span).uvw.T[:2] / wavelength
    cells = np.unique(grid.packed_cells(np.append(u, -u), np.append(v, -v))).size
    filled[hours] = cells / npix**2
    within = cells / np.sum(np.hypot(*grid.packed_uv()) <= np.hypot(u, v).max())
    for sign, colour in ((1, BLUE), (-1, ORANGE)):
        ax.plot(sign * u[::3] / 1e6, sign * v[::3] / 1e6, ".", ms=0.5, color=colour)
    ax.set(xlim=(2, -2), ylim=(-2, 2), aspect="equal")
    title = {0: "a moment", 1: "1 hour"}.get(hours, f"{hours} hours")
    ax.set_title(f"{title}: {filled[hours]:.1%} filled", fontsize=10)
fig.supxlabel("u to the left, v upwards: million wavelengths", fontsize=11)
title = f"Even six hours fill only {filled[6]:.0%} of the cells"
fig.suptitle(f"{title}, and {within:.0%} of those within reach")
fig.set_label(
    f"The uv plane. In a moment 43 antennas fill {filled[0]:.1%} of the cells, in "
    f"6 hours {filled[6]:.0%}. The points crowd in the middle."
)
plt.show()

# %%
# The arcs are called :term:`tracks <track>`. Six hours with one of the largest
# telescopes leave six cells in seven empty. Most of these lie beyond the longest
# baseline, because our pixels are finer than this array can resolve. But even of the
# cells within its reach, two in five have nothing. The orange points come for free: a
# sky is a real number everywhere, so :math:`V(-u, -v)` must be the complex conjugate of
# :math:`V(u, v)`. They're called the :term:`mirror image`, and a file must not contain
# them, too.
#
# What is the fifth column for?
# -----------------------------
#
# The last column, ``weight``, says how much noise a measurement has:
# :math:`1/\sigma^2`, where :math:`\sigma` is the noise of the real part, and of the
# imaginary part as well. A row with twice the noise should count a quarter as much.
# That's all that a :term:`weight` is.
#
# Our sky is a ring of 0.25 :term:`jansky <Jy>`, or Jy, the unit of :term:`flux`, which
# is how much light arrives in all. Around the ring is a broad, faint glow of another
# 0.5 Jy. Every fourth antenna is noisier than the rest. We average rows with baselines
# of about the same length. You can average the complex numbers, or take the amplitudes
# first and average those. **Which one would you plot?**
#
# The position of the ring turns the phases, and numbers of different phases cancel. So
# we first move the source to the middle, the :term:`phase centre`, with
# ``shift_phase_centre``. The source must be round, too, so straighten a tilted disk
# first.

# folded: The observation: a ring in a glow, and 54,180 rows
from dataclasses import replace

from firstlight_imaging.data import shift_phase_centre

place = {"east": 0.5, "north": -0.3}
ring, glow = Ring(flux=0.25, radius=0.8, width=0.12), Ring(flux=0.5, radius=0, width=8)
sky = [replace(part, **place) for part in (ring, glow)]
sigma = np.where(np.arange(43) % 4 == 0, 0.06, 0.02)  # Jy, of each antenna
seen = with_noise(observe(sky, uv_track(n_times=60)), sigma, seed=1)
length, weight = np.hypot(seen.uu, seen.vv)[0], seen.weight[0]

# %%


def means(values, edges):
    total = np.histogram(length, edges, weights=weight)[0]
    return np.histogram(length, edges, weights=weight * values)[0] / total, total**-0.5


centred = shift_phase_centre(seen, **place).data[0]
edges = np.quantile(length, np.linspace(0, 1, 40))
amplitude, _ = means(np.abs(centred), edges)
real, error = means(centred.real, edges)
print(f"longest baselines, mean of amplitudes: {1e3 * amplitude[-1]:.1f} mJy")
print(f"mean of complex numbers: {1e3 * real[-1]:.1f} ± {1e3 * error[-1]:.1f} mJy")

# %%

# figure
q = np.linspace(0, length.max(), 4000)
alone, glowing = ring.visibilities(q, 0).real, glow.visibilities(q, 0).real
fig, axes = plt.subplots(2, figsize=(7.2, 6.2), layout="constrained")
limits = (length.max(), -0.12, 0.3), (1e5, 0, 0.8)
for ax, (reach, low, high) in zip(axes, limits, strict=True):
    bins = np.quantile(length[length <= reach], np.linspace(0, 1, 40))
    mean, bar = means(centred.real, bins)
    middle = means(length / 1e3, bins)[0]
    sizes = means(np.abs(centred), bins)[0]
    ax.plot(middle, sizes, "s", ms=5, color=ORANGE, label="mean of amplitudes")
    look = {"fmt": "o", "ms": 5, "color": BLUE, "capsize": 2}
    ax.errorbar(middle, mean, bar, **look, label="mean of complex numbers")
    ax.plot(q / 1e3, alone + glowing, color=GREEN, label="ring and glow, no noise")
    ax.plot(q / 1e3, alone, "--", color=GREEN, label="the ring alone")
    ax.axvspan(0, length.min() / 1e3, color=GREY, alpha=0.4, label="not measured")
    ax.set(xlim=(0, reach / 1e3), ylim=(low, high), ylabel="Jy")
axes[0].legend(frameon=False, fontsize=9)
axes[1].set_xlabel("length of the baseline, thousand wavelengths")
bias = f"{1e3 * amplitude[-1]:.0f} mJy of noise"
fig.suptitle(f"Averaged amplitudes level off at {bias}; complex means do not")
fig.set_label(
    "Means of complex numbers follow the analytic curve; amplitudes level off. "
    "Below: where nothing is measured, near zero, it rises to 0.75 Jy."
)
plt.show()

# %%
# On the longest baselines the sky has next to nothing left. The complex numbers say so:
# 0.7 ± 0.7 mJy. But the amplitudes average to 29 mJy, as if something were there. It's
# only noise, because an amplitude is never negative, so noise adds up instead of
# cancelling. *Centre the source, then average complex numbers.*
#
# All this relies on the weights, and in real files they are often :doc:`wrong by a
# factor </tutorials/4_imaging/12_ten_traps>`.
#
# Two things that no row contains
# -------------------------------
#
# The lower panel of the last figure enlarges the left edge of the upper one. The total
# flux of a sky is :math:`V(0, 0)`. But a baseline of length zero would need two
# antennas in the same place. So how much of our 0.75 Jy does the shortest pair see?

total = ring.flux + glow.flux
shortest = sum(part.visibilities(length.min(), 0).real for part in (ring, glow))
print(f"shortest pair, without noise: {shortest:.2f} of {total:.2f} Jy")
fringe = 1 / length.min() / ARCSEC
print(f"the widest fringe: {fringe:.1f} arcsec; 0.6 of it: {0.6 * fringe:.1f} arcsec")

# %%
# Less than half! Half of the glow's light falls within 19 arcsec, so it reaches over a
# bright and a dark stripe of even the widest fringe, and they cancel. As a rule, an
# array loses what is wider than 0.6 λ/b, where b is its shortest baseline. That's its
# *maximum recoverable scale*. To see more, you need a more compact array, or a single
# dish.
#
# The second thing that no row contains hides in the empty cells. Take the largest hole
# between the tracks of 11 antennas in an hour, at :math:`(u_0, v_0)`, and multiply a
# smooth cloud by the fringe that a pair there would see. **Will the telescope notice?**

# folded: A cloud, a short observation, and the largest hole between its tracks
from firstlight_imaging.simulate import alma_antennas

cloud = Ring(flux=0.25, radius=0, width=0.5, inclination=40, position_angle=60)
few = uv_track(alma_antennas()[::4], hour_angles=(-0.5, 0.5), n_times=20)
u, v = few.uvw.T[:2] / wavelength
side = np.arange(-8e5, 8.1e5, 4e4)
places = np.array([(a, b) for a in side for b in side if np.hypot(a, b) > 3e5])
clear = [np.hypot(np.append(u, -u) - a, np.append(v, -v) - b).min() for a, b in places]
u0, v0 = places[np.argmax(clear)]
smooth = cloud.image(grid.cell_size, npix)


def added(u, v):
    """Return what the stripes add: half of V, moved there, and to the mirror image."""
    return (cloud.visibilities(u - u0, v - v0) + cloud.visibilities(u + u0, v + v0)) / 2


# %%

stripes = 1 + np.cos(2 * np.pi * ARCSEC * (u0 * east + v0 * north))
skies = {"smooth": smooth, "striped": stripes * smooth}
models = {"smooth": cloud.visibilities(u, v)}
models["striped"] = models["smooth"] + added(u, v)

data = with_noise(observe([cloud], few), 5e-3, seed=2)
chi2 = {}
for name, model in models.items():
    chi2[name] = float((data.weight * np.abs(data.data - model) ** 2).sum())
    print(f"{name:>7}: chi² {chi2[name]:.4f}, of {2 * u.size} numbers")

# %%

# figure
from matplotlib.lines import Line2D

fig, axes = plt.subplots(1, 3, figsize=(7.2, 3.5), layout="constrained")
for ax, (name, image) in zip(axes, skies.items(), strict=False):
    plot_image(image, grid, ax=ax, vmax=0.4, stretch="linear", unit=None)
    ax.set(title=name, xlim=(1.4, -1.4), ylim=(-1.4, 1.4), xlabel="arcsec", ylabel="")
key = [Line2D([], [], color=GREEN, label="what the stripes add")]
for sign, colour, name in ((1, BLUE, "measured"), (-1, ORANGE, "mirror image")):
    axes[2].plot(sign * u / 1e6, sign * v / 1e6, ".", ms=1, color=colour)
    key += [Line2D([], [], color=colour, ls="", marker="o", ms=4, label=name)]
fig.legend(handles=key, loc="outside lower right", ncols=3, frameon=False, fontsize=9)
many = np.linspace(-1.5e6, 1.5e6, 151)
change = np.abs(added(*np.meshgrid(many, many))) / cloud.flux
axes[2].contour(many / 1e6, many / 1e6, change, [0.01, 0.1, 0.4], colors=GREEN)
axes[2].set(title="uv plane", xlim=(1.5, -1.5), ylim=(-1.5, 1.5), aspect="equal")
axes[2].set_xlabel("million wavelengths")
differ = np.abs(added(u, v)).max() / cloud.flux
title = "No fit can tell these skies apart: in the data, V differs"
fig.suptitle(f"{title} by {differ:.0e} of the flux")
fig.set_label(
    "A smooth cloud; the same cloud cut into bright and black stripes; and the uv "
    "plane: what the stripes add lies in two wide holes between the measured tracks."
)
plt.show()

# %%
# The two values of :math:`\chi^2`, the sum of squared differences between data and sky
# in units of the noise, agree in all eight digits. *As far as these rows go, the two
# are the same sky.* CLEAN, a fit or a neural network will give you one of them, because
# it likes one better, not because the data say so. Such a liking is called a
# :term:`prior`. Without it there would be no image, but say which one you used.
#
# More antennas are the remedy. Here is how far apart the two skies are in
# :math:`\chi^2` for larger arrays; 25 would be five sigma:

apart = {}
for count, hours, times in ((11, 1, 20), (11, 6, 120), (22, 1, 20), (43, 1, 20)):
    span = {"hour_angles": (-hours / 2, hours / 2), "n_times": times}
    larger = uv_track(alma_antennas()[:: 44 // count], **span)
    difference = np.abs(added(*larger.uvw.T[:2] / wavelength)) ** 2
    apart[count, hours] = float(difference.sum()) / 5e-3**2
    print(f"{count} antennas, {hours} h: {apart[count, hours]:.2g} apart in chi²")

# %%
# A GPU can't find what wasn't measured.
#
# .. dropdown:: Where the formula stops being true
#
#    The integral takes the sky to be flat, the antennas to see all of it equally well,
#    and each row to be measured at one frequency in one moment. For :doc:`wide fields
#    </scope>` that isn't so. And the atmosphere turns phases as well, so real data have
#    to be calibrated first.
#
# Your turn
# ---------
#
# You're given a picture of the sky: ``image`` in Jy/arcsec², and, for each of its
# pixels, how far it is to the ``east`` and to the ``north``, in arcsec. Return the
# visibility, a complex number in Jy, that a pair at ``u`` and ``v`` (in wavelengths)
# would measure. A pixel is ``cell_size`` arcsec wide. Put your answer where the dots
# are, and run ``firstlight try 04_visibilities.py``.


def visibility(image, east, north, cell_size, u, v): ...


# %%


# folded: The checker
def check(answer):
    offsets = 0.05 * (10 - np.arange(20))  # arcsec; east is to the left
    x, y = np.meshgrid(offsets, offsets)
    image = np.random.default_rng(seed=4).random((20, 20))
    for u, v in ((0.0, 0.0), (3.0e5, 0.0), (2.0e5, -5.0e5)):
        waves = (u * x + v * y) * ARCSEC
        mistakes = {
            "Jy/arcsec² times the area of a pixel is Jy": (waves, 1 / 0.05**2),
            "cell_size is a width: the area is its square": (waves, 1 / 0.05),
            "cell_size stays in arcsec, as Jy/arcsec² does": (waves, ARCSEC**2),
            "add up the pixels, don't average them": (waves, 1 / 400),
            "the exponent is negative": (-waves, 1),
            "a whole turn is 2π": (waves / (2 * np.pi), 1),
            "arcsec are not radians": (waves / ARCSEC, 1),
            "east goes with u, and north with v": ((u * y + v * x) * ARCSEC, 1),
        }
        values = {
            hint: factor * (image * np.exp(-2j * np.pi * turns)).sum() * 0.05**2
            for hint, (turns, factor) in mistakes.items()
        }
        right = (image * np.exp(-2j * np.pi * waves)).sum() * 0.05**2
        try:
            got = answer(image.copy(), x.copy(), y.copy(), 0.05, u, v)
            if got is None:
                return "Not yet answered: visibility returned nothing."
            got = complex(got)
        except Exception as error:
            return f"visibility raised {type(error).__name__}: {error}"
        if not np.isclose(got, right):
            hint = "brightness × exp(-2πi (u l + v m)), added up over all pixels"
            hint = next((one for one in values if np.isclose(got, values[one])), hint)
            return f"At u = {u:g}, v = {v:g} it gave {got:.3g}. Hint: {hint}."
    return "Right: you can compute what any pair measures of any sky."


# %%

print(check(visibility))

# %%
# Three lines to remember
# -----------------------

# remember
print("1. A pair of antennas measures one point of the sky's Fourier transform.")
print("   Position turns its phase, and size lowers its amplitude.")
print("2. Put the phase centre on a source that is round, then average complex")
print(f"   numbers. Amplitudes average to {1e3 * amplitude[-1]:.0f} mJy of mere noise.")
print(f"3. The shortest pair saw {shortest:.2f} of {total:.2f} Jy, and a striped cloud")
print("   fits as well as a smooth one. A prior decides what was not measured.")

# %%
# Solution
# --------

# solution


def visibility_solution(image, east, north, cell_size, u, v):
    turns = (u * east + v * north) * ARCSEC
    return (image * np.exp(-2j * np.pi * turns)).sum() * cell_size**2


print(f"Our solution: {check(visibility_solution)}")

# %%
# To look up: shift, deproject, error bars, and a Gaussian's visibilities
# -----------------------------------------------------------------------
#
# With u, v in wavelengths, and all angles in radians:
#
# - *Shift the phase centre.* To move what lies at east :math:`x`, north :math:`y` to
#   the middle, multiply each visibility by ``np.exp(2j * np.pi * (u * x + v * y))``.
#   With CASA's signs, as in a measurement set, it's the other sign.
# - *Which antenna is conjugated, and which way does uvw point?* The two go together.
#   With uvw = pos(ant2) - pos(ant1), a visibility is ant1 * conj(ant2) (`pyuvdata's
#   convention`__, and ours). UVFITS has it the other way round, so pyuvdata conjugates
#   the data and turns uvw when it reads one. `CASA knows both`__. If you turn only one
#   of the two, the image is rotated by 180°. So image a source whose place you know.
# - *Deproject a disk* of inclination :math:`i`, whose long axis has the position angle
#   ``pa``, from north through east: ``along = u * sin(pa) + v * cos(pa)``, ``across =
#   (u * cos(pa) - v * sin(pa)) * cos(i)``, and ``q = np.hypot(along, across)`` is the
#   baseline that would see it face-on.
# - *A Gaussian* of flux :math:`F` and width at half maximum :math:`\theta` has
#   :math:`F \exp(-\pi^2 \theta^2 q^2 / (4 \ln 2))`. Fit that to the data with
#   ``scipy.optimize.curve_fit``, with ``sigma=1 / np.sqrt(weight)``, real and imaginary
#   parts one after the other. A point has :math:`F` everywhere.
# - *Error bars of binned visibilities.* Average with the weights. Then the error of the
#   mean is ``1 / np.sqrt(w.sum())``, for the real and the imaginary part each, if a
#   weight is :math:`1/\sigma^2` of either part. The scatter within the bin must say the
#   same: ``chi2 = (w * (x - mean) ** 2).sum() / (n - 1)`` is about 1. If it isn't, in
#   narrow bins of a centred source, the weights are too large by that factor, and the
#   error is ``np.sqrt(chi2)`` times as large. So one array's bars may be too long and
#   another's too short. Before you combine arrays, divide the weights of each by its
#   own factor. :py:func:`~firstlight_imaging.data.weights.check_weights` finds it from
#   neighbouring times, as CASA's `statwt`__ does. A factor of 2 often means that
#   :math:`\sigma^2` was taken for both parts together.
# - *An image's visibilities* at any u and v:
#   :py:func:`~firstlight_imaging.fourier.nufft.visibilities`, or the sum above. Another
#   NUFFT, such as finufft, wants the phase from one pixel to the next, in [−π, π):
#
#   .. code-block:: python
#
#      turn = 2 * np.pi * cell  # radians; cell < 1 / (2 * the largest of |u| and |v|)
#      jansky = image * area_of_a_pixel + 0j  # row 0 is south, column 0 east
#      vis = finufft.nufft2d2(turn * v, -turn * u, jansky, isign=-1)
#
#   For pynufft, ``om`` is ``np.stack([turn * v, -turn * u], 1)``. Both take pixel
#   ``n // 2`` of rows and columns for the centre. If yours is one beside it, phases are
#   wrong and amplitudes aren't, so compare ten visibilities with the sum.
#
#   If a program takes an FFT and *interpolates* linearly between its cells, amplitudes
#   of offset or wide sources come out too low. Half-way between two cells, a point at
#   :math:`x` keeps :math:`\cos(\pi x / \text{field})` in each direction, which is 0.71
#   at a quarter of the field. Pad the image with zeros to four times its width.
#
# __ https://github.com/RadioAstronomySoftwareGroup/pyuvdata/issues/924
# __ https://github.com/RadioAstronomySoftwareGroup/pyuvdata/issues/1540
# __ https://casadocs.readthedocs.io/en/stable/notebooks/data_weights.html
