"""
What about your own data?
=========================

You have a measurement set from ALMA, calibrated, and until now you've made images with
``tclean``. How do you get an image out of it here, and how do you know whether to
believe it? The first takes one line. For the second, we'll read the report on a real
galaxy, spoil its data in three ways, and see what you can do about each.

**Time:** 10 minutes. **Needs:** any computer, and a network once, for 1.2 MB. The site
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
# That's all, once our package is there (:doc:`/install`). It doesn't clean, but fits
# all pixels at once, as in :doc:`/tutorials/4_imaging/01_first_light`. You don't need a
# GPU: ``image`` uses one only from 512 × 512 pixels on, and most images are smaller. If
# the set is large, ``split`` your target out and average its channels first, as you
# would for ``tclean``.
#
# Look at ``images/my.png`` first. It shows the dirty image, the image, what is left
# over, and the restored map. CARTA and DS9 open the FITS files, and ``importfits``
# takes them back to CASA:
#
# .. list-table:: What you get, and what ``tclean`` calls it
#    :header-rows: 1
#
#    * - file
#      - in ``tclean``
#      - what it holds
#    * - ``my.restored.fits``
#      - ``.image``
#      - Jy/beam, residuals added: **publish this one**
#    * - ``my.model.fits``
#      - ``.model``
#      - Jy/pixel, as it was fitted: for ``startmodel`` only
#    * - ``my.image.fits``
#      - nothing; it's *not* the ``.image``
#      - Jy/pixel, smoothed over two pixels, without residuals: what this page shows, in
#        mJy/arcsec². Its sum is the flux
#
# Cell, size, mask and threshold are chosen from the data. If you don't agree, say so:
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
#    * - ``imsize`` times ``cell``
#      - ``--field 9``, in arcsec
#      - as wide as the source needs
#    * - ``mask="my.mask"``
#      - ``--mask my.mask.fits``, by ``exportfits``
#      - found, as ``auto-multithresh`` does
#    * - ``deconvolver``, ``niter``, ``threshold``
#      - nothing to choose
#      - until noise is left over
#    * - ``robust=0``
#      - ``--robust 0``, of the restored map
#      - 0.5; the fit uses each weight as it is
#    * - ``specmode="cube"``
#      - ``--channels 4`` for the fifth, and so on, or
#        :doc:`/tutorials/4_imaging/09_many_channels`
#      - one image of all, as with ``"mfs"``
#    * - ``gaincal`` and ``applycal``, in a loop
#      - ``--self-calibrate``
#      - no calibration
#
# .. dropdown:: Five more, and what to do without casacore
#
#    ``datacolumn="data"`` is ``--column DATA``. By default the command takes
#    ``CORRECTED_DATA``, or else ``DATA``. ``uvrange=">50klambda"`` is ``--shortest
#    50e3``, ``cell="0.05arcsec"`` is ``--cell-size 0.05`` (by default a third of the
#    finest fringe, or less), and ``pbcor=True`` is ``--dish 12``, in metres. Several
#    sets of one pointing stand one after the other: ``a.ms b.ms``.
#
#    Without casacore, run ``exportuvfits`` in CASA (with ``field="0"``,
#    ``multisource=False`` and ``padwithflags=True``) and give the command that file, or
#    use our :download:`casa_export.py </_snippets/casa_export.py>`, which writes an npz
#    for each spectral window.
#
#    A mask doesn't need CASA either. Take an image that the command has written, and
#    put ones where you allow emission, here in a circle:
#
#    .. code-block:: python
#
#       with fits.open("images/my.image.fits") as hdus:  # from astropy.io import fits
#           row, column = np.indices(hdus[0].data.shape[-2:])
#           circle = np.hypot(row - 60, column - 64) < 25  # pixels, counted from 0
#           hdus[0].data = np.broadcast_to(circle, hdus[0].data.shape).astype("f4")
#           hdus.writeto("my.mask.fits")
#
# Try it on a galaxy
# ------------------
#
# ALMA looked at SPT0346-52, a galaxy whose light has travelled for more than twelve
# billion years. **Write down a guess: how many galaxies does the picture show, and
# would you publish its flux?**
#
# The data are the continuum at 2 mm. They come with visilens, a program by Justin
# Spilker and colleagues that finds out where the mass of a gravitational lens is. If
# you use them, `visilens says what to cite`__.
#
# __ https://github.com/jspilker/visilens#attribution

# folded: Download the file once, or simulate one where there is no network
# sphinx_gallery_thumbnail_number = 1

import hashlib
from pathlib import Path

import numpy as np
from astropy.utils.data import download_file

from firstlight.imaging.simulate import Ring, alma_antennas, channels, observe
from firstlight.imaging.simulate import sky_image, uv_track, with_noise

FILE = (
    "https://raw.githubusercontent.com/jspilker/visilens/"
    "fd725e8f5885e5d047706ffc82763a7aaff9c4b9/examples/SPT0346-52_cont.bin"
)
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
# It isn't a measurement set. It has seven columns of numbers: u, v, the real and the
# imaginary part of each :term:`visibility`, its noise, and its two antennas. So we
# write an npz file, as you could with numbers of your own:

import tempfile

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
# In a terminal it's the same command again, with the frequency, which the file doesn't
# say: ``firstlight image spt0346.npz --frequency 140e9 --out images``. In Python, in a
# field of 9 arcsec, wide enough to have empty sky around the source:

import textwrap
import time

from firstlight.imaging import image, read_visibilities

seen = read_visibilities(mine)
began = time.perf_counter()
found = image(seen, field=9, draws=4)
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
# chosen, and :doc:`/tutorials/4_imaging/14_inside_image` explains them. The rest
# answers four questions:
#
# .. list-table:: What the report says, and what you want it to say
#    :header-rows: 1
#
#    * - question
#      - you want
#      - here
#    * - Does the image explain the data?
#      - a reduced :math:`\chi^2` of 1
#      - 1.03, because there is slightly more noise than the weights promise
#    * - Is anything left over?
#      - :term:`residuals <residual>` with an rms of 1, and none above 5 σ
#      - 1.0 in the source, 1.1 beside it, 4 σ at most
#    * - Is it all the flux?
#      - what the shortest baselines see: they need only the shape of the image
#      - 15.2 mJy, and they see 14.7 ± 0.5
#    * - What's the verdict?
#      - no line more: then the fit has *converged*
#      - no line more
#
# So would you publish the flux? Yes, as 15.2 ± 0.3 mJy, and with a word on the flux
# scale. ALMA promises it to a few percent only, and no residual shows when it's off.
# Don't trust a single pixel as far as its error says. That error knows of noise, but
# nothing of what no baseline measured, such as edges sharper than the beam.
#
# What can spoil it?
# ------------------
#
# We now have a file that passes. Let's damage it on purpose, in three ways
# that happen to everybody once:
#
# - **sign**: forget that minus in front of ``1j``;
# - **weights**: make them four times too large;
# - **antennas**: turn the phase of each antenna by up to 40°, either way, like a bad
#   calibration.
#
# **Before you look: which numbers of the report will give each of them away?**

# %%

# folded: Turn the antennas' phases, and find the middle of an image

from dataclasses import replace


def turned(vis, degrees, seed=1):
    """Turn the phases of all antennas, each by an angle of its own."""
    one, other = vis.antennas.T
    angles = np.random.default_rng(seed).uniform(-degrees, degrees, 1 + other.max())
    phase = np.radians(angles[one] - angles[other])
    return replace(vis, data=vis.data * np.exp(1j * phase))


def middle(one):
    """Return how far east the source is, in arcsec, weighted by brightness."""
    east, _ = one.coords.sky_coordinates()
    return (east * one.sky)[one.mask].sum() / one.sky[one.mask].sum()


# %%

damaged = {
    "as it is": seen,
    "sign": replace(seen, data=seen.data.conj()),
    "weights": replace(seen, weight=4 * seen.weight),
    "antennas": turned(seen, degrees=40),
}
images = {fault: image(vis, field=9, draws=0) for fault, vis in damaged.items()}

for fault, one in images.items():
    quality = one.quality
    print(f"{fault:9} {middle(one):+.2f}″ east, chi² {quality.chi2:.2f}, ", end="")
    print(f"up to {quality.largest:.1f} σ: {quality.verdict}")

# %%
# With weights that are four times too large, :math:`\chi^2` is four times too large.
# Wrong phases show in :math:`\chi^2` and in the residuals. And the wrong sign? It shows
# *nowhere*. All numbers are as good as before, only the sky is turned by 180°, so that
# what was in the east is in the west.
#
# No fit can find this out, because it's a matter of convention. You have to know
# something about the sky. Here we do: visilens has the lens *east* of the centre, and
# so the file needed the minus. Do this once for each program that
# writes your numbers, with a source that you know. With a measurement set or a UVFITS
# file you needn't, because each has one convention, and we know it.

# folded: The same as assertions, so that the page can't say anything else

verdicts = {fault: one.quality.verdict for fault, one in images.items()}
assert found.quality.verdict == verdicts["as it is"] == verdicts["sign"] == "converged"
assert verdicts["weights"] == verdicts["antennas"] == "limited by calibration"
assert abs(found.flux - found.quality.short_flux) < 3 * found.quality.short_error
assert 0.0145 < found.flux < 0.0160
east = middle(images["as it is"])
assert 0.2 < east < 0.8
assert abs(east + middle(images["sign"])) < 0.1
assert abs(images["sign"].quality.chi2 - images["as it is"].quality.chi2) < 0.01
assert abs(images["weights"].quality.chi2 / images["as it is"].quality.chi2 - 4) < 0.1
if name == "SPT0346-52":
    assert f"{1e3 * found.flux:.1f} {found.quality.chi2:.2f}" == "15.2 1.03"
    assert 3.5 < found.quality.largest < 4.5

# %%
# The verdict is "limited by calibration". What now?
# --------------------------------------------------
#
# Then something other than noise spoils the image, and you get no error bar. The report
# says more. It has worked out whether other gains of the antennas would make the image
# fit the data:

for fault in "weights", "antennas":
    print(f"{fault}:")
    for line in images[fault].quality.faults[0][1].split(": "):
        print(textwrap.fill(line, 80, initial_indent="  ", subsequent_indent="    "))

# %%

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
# So go through these in turn:
#
# 1. **It blames the weights.** No gains explain the first file, and its residuals look
#    like noise. In a measurement set, the command mends such weights by itself. In an
#    npz without times, as ours is, divide them by the number that it says.
# 2. **It blames the phases**, and names the worst antennas, as for the second file.
#    Add ``--self-calibrate``. :doc:`/tutorials/4_imaging/03_real_sky` does it with real
#    data, and their largest residual falls to a quarter. Calibrate amplitudes, too,
#    only if the report asks for it: they can move your flux scale.
# 3. **No gains explain it.** Then the command has already tried a field twice as wide,
#    unless you asked for one. It has compared spectral windows, too. In a file of the
#    disk HD 142527, from the tests of `gpuvmem`__, two of three windows have less flux
#    than the other, and no mask makes that right, so take ``--spw 0``. If the report
#    names no window, look where the largest residual is, and try a ``--mask`` of your
#    own. Or there is a source beyond the field, as the second image of the lens
#    J0414+0534 was in a file of the VLBA. If the report names a field that shows both,
#    take it.
# 4. **It's still limited.** Show the restored map with contours from 5 times its rms,
#    as ``my.png`` does, and don't believe faint pieces. Give the flux without an error
#    bar, beside that of the shortest baselines, and hold the map beside ``tclean``'s
#    (:doc:`/tutorials/4_imaging/13_rml_and_clean`).
#
# __ https://github.com/miguelcarcamov/gpuvmem
#
# Our gains are written to ``my.gains.npz``, which ``applycal`` can't read. If you need
# them in CASA, say for the windows of a line, give ``gaincal`` our model. ``tclean``
# puts it into the column ``MODEL_DATA``, if you let it make no iterations:
#
# .. code-block:: python
#
#    importfits(fitsimage="images/my.model.fits", imagename="my.model")
#    tclean(vis="my.ms", imagename="check", field="0", imsize=100, cell="0.09arcsec",
#           startmodel="my.model", niter=0, savemodel="modelcolumn")
#    gaincal(vis="my.ms", caltable="my.phase", field="0", calmode="p", solint="60s")
#
# Where this stops being true
# ---------------------------
#
# ``image`` is for one small field in total intensity: no mosaics, no polarization.
# Sources far from the centre come out too faint, because antennas see them less well
# (``--dish 12`` corrects for that). And if the calibration is so bad that the first
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
print("3. Limited by calibration? Mend what the report names, and give no error bar.")
folder.cleanup()

# %%
# When you need it: an npz of your own
# ------------------------------------
#
# If your data aren't in a measurement set or a UVFITS file, do as we did above. An npz
# needs the arrays ``uu``, ``vv`` and ``weight``, and ``data``, or ``data_re`` and
# ``data_im`` in its place. Baselines are in wavelengths, but with the latter two often
# in thousands of them. Where both are possible, the command asks you for ``--unit``.
# Add ``antennas`` and ``time``, and it checks your weights, too. If you fill the file
# by hand from a measurement set, remember the minus: CASA counts phases the other way.
#
# **How good are the errors?** In the fold, we observe a sky that we know with the same
# noise, and count the pixels that are within two of their errors of the truth. If the
# errors were complete, that would be 86 % of them, because we took the errors from only
# four draws of the noise (and 95 % with many). It's fewer.

# folded: The pixels within two errors of a sky that we know

sky, known = simulated(seed=2)
again = image(known, field=9, draws=4)
truth = sky_image(sky, again.coords.cell_size, again.coords.npix)
off = np.abs(again.sky - truth)[again.mask] / again.error[again.mask].clip(1e-5)
within = np.mean(off < 2)
print(f"{within:.0%} of the pixels are within two errors of the truth")
print(f"flux {1e3 * again.flux:.2f} ± {1e3 * again.flux_error:.2f} mJy, true 15.00")
assert within < 0.86

# %%
# Solution
# --------

# solution

possible_solution = {"A": "antennas", "B": "none", "C": "sign"}
print(f"Our solution: {check(possible_solution)}")
