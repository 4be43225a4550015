"""
What about your own data?
=========================

You have a measurement set from ALMA, calibrated, and until now you've made images with
``tclean``. How do you get an image out of it here, and how do you know whether to
believe it? The first question takes one line. For the second, we'll go through a real
observation that you can download. By the end you'll be able to read the report that
comes with each image, and to recognize three faults that spoil one.

**Time:** 12 minutes. **Needs:** any computer, and a network once, for 1.2 MB. The site
shows what the real file gave. Without a network, the script simulates a sky like it.
"""

# %%
# Copy this
# ---------
#
# .. code-block:: bash
#
#     pip install python-casacore  # reads measurement sets
#     firstlight image my.ms --of 0 --out images
#
# That's all for a first image, once our package is there (:doc:`/install`). You don't
# need a GPU: ``image`` uses one only from 512 × 512 pixels on, and most images are
# smaller. Cell, image size, mask, threshold and number of iterations are chosen from
# the data. If you don't agree, here is what you know from ``tclean``:
#
# .. list-table:: The same things by two names
#    :header-rows: 1
#
#    * - ``tclean``
#      - ``firstlight image``
#      - if you don't say it
#    * - ``field="0"``
#      - ``--of 0``, or its name
#      - needed if there are several
#    * - ``spw="1,3"``
#      - ``--spw 1,3``
#      - all
#    * - ``datacolumn="data"``
#      - ``--column DATA``
#      - ``CORRECTED_DATA``, or else ``DATA``
#    * - ``uvrange=">50klambda"``
#      - ``--shortest 50e3``
#      - all
#    * - ``vis=["a.ms", "b.ms"]``
#      - ``a.ms b.ms``, of one pointing
#      - one set
#    * - ``imsize`` times ``cell``
#      - ``--field 9``, in arcsec
#      - as wide as the source needs
#    * - ``cell="0.05arcsec"``
#      - ``--cell-size 0.05``
#      - a third of the finest fringe, or less
#    * - ``robust=0``
#      - ``--robust 0``, of the restored map; the fit uses each weight as it is
#      - 0.5
#    * - ``mask="my.mask"``
#      - ``--mask my.mask.fits``, by ``exportfits``
#      - found, as ``auto-multithresh`` does
#    * - ``threshold``, ``niter``
#      - nothing to choose
#      - until noise is left over
#    * - ``pbcor=True``
#      - ``--dish 12``, in metres
#      - no correction
#    * - ``gaincal`` and ``applycal``, in a loop
#      - ``--self-calibrate``
#      - no calibration
#    * - ``specmode="cube"``
#      - a loop over ``--channels``, or :doc:`/tutorials/4_imaging/09_many_channels`
#      - one image of all
#
# All channels make one image, as with ``specmode="mfs"``. With ``--channels 4``, only
# the fifth does, because we count from 0. Flagged data are left out, and the two
# parallel hands are averaged. You find three FITS files that you'll want:
#
# .. list-table:: What you get, and what ``tclean`` calls it
#    :header-rows: 1
#
#    * - file
#      - what it holds
#      - unit
#      - in ``tclean``
#    * - ``my.restored.fits``
#      - smoothed with the beam, residuals added: **publish this one**
#      - Jy/beam
#      - ``.image``
#    * - ``my.model.fits``
#      - the pixels that were fitted, for ``startmodel`` after ``importfits``
#      - Jy/pixel
#      - ``.model``
#    * - ``my.image.fits``
#      - what this page shows, without residuals; the report's flux is its sum
#      - Jy/pixel
#      - nothing; it's *not* the ``.image``
#
# Without casacore, run ``exportuvfits`` in CASA (with ``field="0"``,
# ``multisource=False`` and ``padwithflags=True``) and give the command that file, or
# use our :download:`casa_export.py </_snippets/casa_export.py>`, which writes an npz
# for each spectral window.
#
# Get a file that everybody can have
# ----------------------------------
#
# ALMA looked at SPT0346-52, a galaxy whose light has travelled for more than twelve
# billion years. **Write down a guess: how many galaxies does the picture show, and
# would you publish its flux?**
#
# The data come with visilens, a program by Justin Spilker and colleagues that finds out
# where the mass of a gravitational lens is. Its third example tells what they are: the
# continuum at 2 mm, from an observation whose aim was a line of CO. If you use them,
# `visilens says what to cite`__.
#
# __ https://github.com/jspilker/visilens#attribution

# sphinx_gallery_thumbnail_number = 1
import tempfile
from pathlib import Path

import numpy as np
from astropy.utils.data import download_file

COMMIT = "fd725e8f5885e5d047706ffc82763a7aaff9c4b9"
FILE = (
    "https://raw.githubusercontent.com/jspilker/visilens/"
    f"{COMMIT}/examples/SPT0346-52_cont.bin"
)

# %%

# folded: Download it once, check it, and simulate one where there is no network

import hashlib

from firstlight.imaging.simulate import Ring, alma_antennas, channels, observe
from firstlight.imaging.simulate import sky_image, uv_track, with_noise

SHA256 = "6d4927bb763f88d7308ab468d5a462e0bc0a2fe994393ad93e34b970984e88f2"
BLOBS = ((8.5, 0.1, 0.25, 0.9), (3.5, 0.1, 1.15, -0.5), (3, 0.25, 0.0, -1.0))


def simulated(seed=1):
    """Observe three blobs of mJy, with beam and noise like those of the real file."""
    sky = [
        Ring(1e-3 * mjy, radius=0, width=width, east=east, north=north)
        for mjy, width, east, north in BLOBS
    ]
    track = uv_track(0.6 * alma_antennas(), hour_angles=(-1, 1), n_times=24)
    made = observe(sky, track, channels(140e9, 1e9, 1))
    return sky, with_noise(made, 6e-3, seed=seed)


def rows_of_a_simulation():
    _, made = simulated()
    data, sigma = made.data[0].conj(), made.weight[0] ** -0.5
    return np.stack(
        [made.uu[0], made.vv[0], data.real, data.imag, sigma, *made.antennas.T]
    )


try:
    path = Path(download_file(FILE, cache=True, timeout=20))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SHA256, "another file"
    columns = np.fromfile(path)[:-1].reshape(7, -1)
    name = "SPT0346-52"
except OSError:
    columns, name = rows_of_a_simulation(), "a simulated lens"
    print("No network here: what follows is a simulated lens, and not SPT0346-52.")

# %%
# Now ``columns`` holds seven rows of numbers: u, v, the real and the imaginary part of
# each :term:`visibility`, its noise, and the numbers of its two antennas. That's all we
# need. Let's write them into an npz file, as you would do with numbers of your own:

u, v, real, imag, sigma, first, second = columns
folder = tempfile.TemporaryDirectory()  # removed at the end
mine = Path(folder.name, "spt0346.npz")
np.savez(
    mine,
    uu=u,  # in wavelengths
    vv=v,
    data=real - 1j * imag,  # in Jy; we'll come to the minus
    weight=1 / sigma**2,
    antennas=np.stack([first, second], axis=1).astype(int),
)
print(f"{u.size:,} visibilities, baselines up to {np.hypot(u, v).max() / 1e3:.0f} kλ")

# %%
# One command
# -----------
#
# In a terminal, it's the same line again. (An image needs no frequency, but a FITS file
# does, and an npz doesn't say it.)
#
# .. code-block:: bash
#
#     firstlight image spt0346.npz --frequency 140e9 --out images
#
# The same in Python, in a field of 9 arcsec:

import textwrap
import time

from firstlight import best_device
from firstlight.imaging import image, read_visibilities

how = {"field": 9, "device": best_device()}
seen = read_visibilities(mine)
began = time.perf_counter()
found = image(seen, draws=4, **how)
seconds = time.perf_counter() - began
for line in str(found).splitlines():
    print(textwrap.fill(line, 80, subsequent_indent="    "))
print(f"image() took {seconds:.0f} s")

# %%

# folded: Draw images

import matplotlib.pyplot as plt

from firstlight.imaging import plot_image


def draw(panels, title, caption):
    size = (3.7 * len(panels), 3.7)
    fig, axes = plt.subplots(1, len(panels), figsize=size, layout="constrained")
    for ax, (label, one, shown) in zip(axes, panels, strict=True):
        if shown == "residual":
            look = {"cmap": "PuOr", "vmin": -5, "vmax": 5, "stretch": "linear"}
            plot_image(one.residual, one.coords, ax=ax, unit="σ", **look)
        else:
            look = {"vmin": 0, "stretch": "sqrt", "beam": one.beam}
            plot_image(1e3 * one.sky, one.coords, ax=ax, unit="mJy/arcsec²", **look)
        ax.set_title(label)
    fig.suptitle(title)
    fig.set_label(caption)
    plt.show()


# %%

# measured figure

draw(
    [("the image", found, "sky"), ("what is left over", found, "residual")],
    f"{name}: {1e3 * found.flux:.1f} mJy in three pieces, and noise",
    "Left, three bright pieces around a dark middle; the southern one is an arc. "
    "Right, residuals like noise, with nothing at the place of the source.",
)

# %%
# How many galaxies did you count? It's one. A second galaxy, which is dark here, stands
# in front of it and bends its light, so that we see the far one three times over. The
# piece in the south is stretched into an arc.
#
# Should you believe it?
# ----------------------
#
# A pretty picture proves nothing. Read the report instead. Its first lines say what was
# chosen: the field, the *mask* (the part of it that may be bright), and how smooth the
# image is. With about "0.6 Bregman iterations" it was sharpened by a bit more than half
# a step, and then what was left over was noise. (You'll do such steps by hand in
# :doc:`/tutorials/4_imaging/14_inside_image`.) The other lines answer four questions:
#
# 1. **Does the image explain the data?** Then the reduced :math:`\chi^2` is 1. Here
#    it's 1.03, because the weights promise slightly less noise than there is.
# 2. **Is anything left over?** The :term:`residuals <residual>` on the right should be
#    noise, so their rms should be 1, in the source and beside it. In the source it's
#    that. Beside it they are some ten percent louder, more than the weights explain.
#    (Antennas that are a little off can do that. It's too little for a verdict, but the
#    error of the flux is that of the noise alone.) The largest is at 4 σ, which noise
#    reaches in so many pixels. Above 5 σ, be suspicious.
# 3. **Is the flux what the shortest baselines see?** They see the whole source at once,
#    and need no image. They say 14.7 ± 0.5 mJy, and the image has 15.2 mJy. If they
#    see more, the image misses something, and the line says how much.
# 4. **What's the verdict?** If the last line names no fault, the fit has *converged*.
#    "Limited by calibration" means that something other than noise spoils the image,
#    and then you get no error bar. We'll provoke that one soon.

print("verdict:", found.quality.verdict)
assert found.quality.verdict == "converged"
assert abs(found.flux - found.quality.short_flux) < 3 * found.quality.short_error
assert 0.0145 < found.flux < 0.0160

# %%
# Before you trust the error bars, here's what they can't promise. We simulated a sky
# with three blobs, observed it with the same noise, and imaged it in the same way. Now
# we know the truth, so we can count the pixels that are within two of their errors of
# it. If the errors were complete, that would be 86 % of them, because we took the
# errors from only four draws of the noise (and 95 % with many draws):

sky, known = simulated(seed=2)
again = image(known, draws=4, **how)
truth = sky_image(sky, again.coords.cell_size, again.coords.npix)
off = np.abs(again.sky - truth)[again.mask] / again.error[again.mask].clip(1e-5)
within = np.mean(off < 2)
print(f"{within:.0%} of the pixels are within two errors of the truth")
print(f"flux {1e3 * again.flux:.2f} ± {1e3 * again.flux_error:.2f} mJy, true 15.00")

# %%
# The errors know of the noise, and nothing of what no baseline measured: edges sharper
# than the beam, or a glow more extended than the shortest baseline can see. So trust
# the flux of a compact source, and don't trust a single pixel. Would we publish this
# one? Yes, as 15.2 ± 0.3 mJy, and with a word on the flux scale, which ALMA promises to
# a few percent only: no residual shows when it's off.
#
# What can spoil it?
# ------------------
#
# We now have a file that we know to be good. Let's damage it on purpose, in three ways
# that happen to everybody once:
#
# - **sign**: forget that minus in front of ``1j``;
# - **weights**: make them four times too large;
# - **antennas**: turn the phase of each antenna by up to 40°, like a bad calibration.
#
# **Before you look: which numbers of the report will give each of them away?**

from dataclasses import replace


def turned(vis, degrees, seed=1):
    """Turn the phases of all antennas, each by an angle of its own."""
    one, other = vis.antennas.T
    angles = np.random.default_rng(seed).uniform(-degrees, degrees, 1 + other.max())
    phase = np.radians(angles[one] - angles[other])
    return replace(vis, data=vis.data * np.exp(1j * phase))


damaged = {
    "sign": replace(seen, data=seen.data.conj()),
    "weights": replace(seen, weight=4 * seen.weight),
    "antennas": turned(seen, degrees=40),
}
images = {"as it is": image(seen, draws=0, **how)}
images |= {fault: image(vis, draws=0, **how) for fault, vis in damaged.items()}


def middle(one):
    """Return how far east the source is, in arcsec, weighted by brightness."""
    east, _ = one.coords.sky_coordinates()
    return (east * one.sky)[one.mask].sum() / one.sky[one.mask].sum()


for fault, one in images.items():
    quality = one.quality
    print(
        f"{fault:9} {1e3 * one.flux:.1f} mJy, {middle(one):+.2f}″ east, "
        f"chi² {quality.chi2:.2f}, up to {quality.largest:.1f} σ: {quality.verdict}"
    )

# %%
# (Why 15.4 mJy, and above 15.2? Pixels can't be negative, so noise adds a little flux.
# ``image`` subtracts that, if it may simulate noise. ``draws=0`` leaves it out, to be
# faster.)
#
# With weights that are four times too large, :math:`\chi^2` is four times too large. A
# wrong phase of the antennas shows in :math:`\chi^2` and in the residuals. The verdict
# is the same for both, but the report tells them apart, as we'll see in a moment. And
# the wrong sign? It shows *nowhere*. All numbers are as good as
# before, only the sky is turned by 180°, so that what was in the east is in the west.
#
# No fit can find this out, because it's a matter of convention. You have to know
# something about the sky. Here we do. visilens has the lens half an arcsecond *east* of
# the centre, and so the file needed the minus. Do this once for each program that
# writes your numbers, with a source that you know. (With a measurement set or a UVFITS
# file, you needn't change anything: each has one convention, and we know it.)

# folded: The same as assertions, so that the page can't say anything else

east = middle(images["as it is"])
assert 0.2 < east < 0.8
assert abs(east + middle(images["sign"])) < 0.1
assert abs(images["sign"].quality.chi2 - images["as it is"].quality.chi2) < 0.01
assert abs(images["weights"].quality.chi2 / images["as it is"].quality.chi2 - 4) < 0.1
assert images["antennas"].quality.verdict == "limited by calibration"

# %%
# What can you do about a bad calibration?
# ----------------------------------------
#
# The reports say more than "limited by calibration". Each has worked out whether other
# gains of the antennas would make the image fit the data:

for fault in "weights", "antennas":
    print(f"{fault}:")
    for line in images[fault].quality.faults[0][1].split(": "):
        print(textwrap.fill(line, 80, initial_indent="  ", subsequent_indent="    "))

# %%
# No gains explain the first. And its residuals are as large everywhere as
# :math:`\chi^2` says, so it's the weights. For the second, phases do most of it, and
# the worst antennas are named. (47° is more than the 40° that we planted, because the
# report counts from the mean of all antennas.)

# measured figure

draw(
    [
        ("antennas turned", images["antennas"], "sky"),
        ("what is left over", images["antennas"], "residual"),
    ],
    "Wrong phases leave blobs in the residuals, all over the field",
    "Left, the image from damaged data; right, its residuals, with blobs far above "
    "noise all over the field.",
)

# %%
# So the image, imperfect as it is, knows something about the antennas, and
# ``--self-calibrate`` uses it to correct them. It writes the gains into
# ``my.gains.npz`` and draws them in ``my.gains.png``.
# :doc:`/tutorials/4_imaging/03_real_sky` does it with real data, and their largest
# residual falls to a quarter.
#
# Sometimes that isn't enough. We imaged another file of ALMA's, the disk around the
# young star HD 142527 (from the tests of `gpuvmem`__). :math:`\chi^2` stays above 7,
# and the image misses a tenth of what the shortest baselines see. What can you do then?
#
# - Look where the largest residual is. Here it was at an end of the crescent, just
#   outside the mask. With a mask of our own, a circle of 1.9 arcsec, it fell to half,
#   and the flux rose from 5.92 to 6.05 Jy. (In Python, a mask is a function:
#   ``image(vis, mask=lambda east, north: np.hypot(east + 0.2, north) < 1.9)``.)
# - Look beyond the field. In a file of the gravitational lens J0414+0534, from the
#   VLBA, the image had more flux than the shortest baselines see, and no gains
#   explained it. The report gives one reason: the field is 0.08 arcsec wide, and a
#   second image of the quasar lies 0.43 arcsec away.
# - Calibrate amplitudes as well, but only if the report asks for it. They can move your
#   flux scale (here by 10 %), and the report says by how much.
# - Give the flux without an error bar, beside that of the shortest baselines.
# - Don't believe faint pieces. They may be artefacts of the bright ones.
# - Show the restored map, with contours from 5 times its rms, as ``my.png`` does.
# - Hold it beside ``tclean``'s, as :doc:`/tutorials/4_imaging/13_rml_and_clean` does.
#
# __ https://github.com/miguelcarcamov/gpuvmem
#
# An npz of your own
# ------------------
#
# If your data aren't in a measurement set or a UVFITS file, do as we did above. An npz
# needs the arrays ``uu``, ``vv`` and ``weight``, and ``data``, or ``data_re`` and
# ``data_im`` in its place. Baselines are in wavelengths, but with the latter two often
# in thousands of them. Where both are possible, the command asks you for ``--unit``.
# Add ``antennas`` and ``time``, and the command checks your weights, too. (Ours above
# has no ``time``.) If you fill it by hand from a measurement set, remember the minus:
# CASA counts phases the other way.
#
# Where this stops being true
# ---------------------------
#
# ``image`` is for one small field in total intensity: no mosaics, no polarization.
# Sources far from the centre come out too faint, because antennas see them less well
# (``--dish 12`` corrects for that). If your flux scale is wrong by ten percent, so is
# your flux, and no residual shows it. And if the calibration is so bad that the first
# image is nonsense, self-calibration can't save it:
# :doc:`/tutorials/4_imaging/03_real_sky` begins with such data.
#
# Your turn
# ---------
#
# Three colleagues hand you a file each. You know what is in them: one blob of 0.5 Jy,
# 1.5 arcsec to the *east*, with a faint ring around the centre. Two of the files have a
# fault. Image all three, and look at them. Which is ``"sign"``, ``"weights"``,
# ``"antennas"``, or ``"none"``?

# %%

# folded: What they hand you (it says which fault is where, so don't open it yet)

PLANTED = {"A": "antennas", "B": "none", "C": "sign"}


def handed_out(letter):
    """Return the visibilities of file A, B or C."""
    sky = [Ring(0.5, 0, 0.3, east=1.5), Ring(0.1, radius=0.8, width=0.3)]
    track = uv_track(alma_antennas()[::3] / 3, n_times=8)
    made = with_noise(observe(sky, track), 0.02, seed=ord(letter))
    if PLANTED[letter] == "sign":
        return replace(made, data=made.data.conj())
    if PLANTED[letter] == "weights":
        return replace(made, weight=4 * made.weight)
    return turned(made, 30) if PLANTED[letter] == "antennas" else made


# %%
# One of them, to begin with:

file = handed_out("A")
one = image(file, field=8, draws=0)
for line in str(one).splitlines()[-4:]:
    print(textwrap.fill(line, 80, subsequent_indent="    "))
print(f"the middle of what it shows is {middle(one):+.2f} arcsec east")

# %%
# Now the other two. Then put your answer where the dots are, and run
# ``firstlight try 02_your_own_data.py``.

faults = {"A": ..., "B": ..., "C": ...}

# %%

# folded: What checks your answer

HINTS = {
    "sign": "its blob isn't where you know it to be. Which way is it turned?",
    "weights": "look at its chi², and at where its blob is.",
    "antennas": "its chi² and residuals are too large. What does the report blame?",
    "none": "it has the right blob in the right place, and its residuals are noise.",
}


def check(answer):
    if not isinstance(answer, dict) or set(answer) != set(PLANTED):
        return "Answer with a dictionary of A, B and C."
    for letter, said in answer.items():
        if said is ...:
            return f"What about file {letter}? Put a word in place of the dots."
        if not (isinstance(said, str) and said in HINTS):
            return f"{said!r} is none of {', '.join(HINTS)}."
        if said != PLANTED[letter]:
            return f"Not {said!r}. File {letter}: {HINTS[PLANTED[letter]]}"
    return "Right. And the one that no number gives away, you found by looking."


# %%

print(check(faults))

# %%
# Three lines to remember
# -----------------------

# remember
print("1. Read the report before the picture: chi², residuals, short baselines.")
print("2. A wrong sign shows in no number. Try it once on a source that you know.")
print("3. Limited by calibration? Self-calibrate, and don't give an error bar.")
folder.cleanup()

# %%
# Solution
# --------

# solution

possible_solution = {"A": "antennas", "B": "none", "C": "sign"}
print(f"Our solution: {check(possible_solution)}")
