"""
What about your own data?
=========================

You have a measurement set from ALMA, calibrated, and until now you've made images with
``tclean``. How do you get an image out of it here? And how do you know whether to
believe it?

Below is what one command makes of a real observation. **When you see the picture, stop
and write down two answers: how many galaxies does it show, and would you publish its
flux?** By the end of the page you'll be able to tell from a report whether an image can
be trusted, and you'll have mended one that couldn't.

**Time:** 11 minutes. **Needs:** any computer, and a network once, for 1.2 MB. The site
shows what the real file gave. Without a network, the script simulates a sky like it.
"""

# %%
# Copy this
# ---------
#
# .. code-block:: bash
#
#     pip install "./firstlight-0.1.0-py3-none-any.whl[imaging]"
#     pip install python-casacore  # reads measurement sets
#     firstlight image my.ms --of 0 --out images
#
# The file of the first line is at the end of this page. :doc:`/install` says how to
# download less if you have no GPU, and for one image you need none.
#
# ``--of 0`` is ``field="0"`` of ``tclean``. That's all you have to say, because cell,
# size, mask and threshold are chosen from the data. The command is for one small field
# in total intensity, so no mosaics and no polarization.
#
# Let's see what it gives. The data are ALMA's, the continuum of SPT0346-52 at 2 mm.
# They come with visilens, a program by Justin Spilker and colleagues, and if you use
# them, `visilens says what to cite`__. They're an npz file, and the command is the same
# for a measurement set, which also brings times, and a position on the sky. We ask for
# 9 arcsec, so that there's empty sky around the source:
#
# .. code-block:: bash
#
#     firstlight image spt0346.npz --field 9 --out images
#
# In Python it's two lines, here with a clock around them. (``draws=4`` fits four times
# more, to data with fresh noise, and takes the errors from these fits. The command does
# so 16 times.)
#
# __ https://github.com/jspilker/visilens#attribution

# folded: Download the data once, or simulate some where there is no network
# sphinx_gallery_thumbnail_number = 1

import hashlib
import tempfile
import time
from pathlib import Path

import numpy as np
from astropy.utils.data import download_file

from firstlight.imaging.simulate import Ring, alma_antennas, channels, observe
from firstlight.imaging.simulate import uv_track, with_noise

FILE = (
    "https://raw.githubusercontent.com/jspilker/visilens/"
    "fd725e8f5885e5d047706ffc82763a7aaff9c4b9/examples/SPT0346-52_cont.bin"
)
SHA256 = "6d4927bb763f88d7308ab468d5a462e0bc0a2fe994393ad93e34b970984e88f2"
BLOBS = ((8.5, 0.1, 0.25, 0.9), (3.5, 0.1, 1.15, -0.5), (3, 0.25, 0.0, -1.0))


def rows_of_a_simulation():
    """Observe three blobs of mJy, with beam and noise like those of the real file."""
    sky = [
        Ring(1e-3 * mjy, radius=0, width=width, east=east, north=north)
        for mjy, width, east, north in BLOBS
    ]
    track = uv_track(0.6 * alma_antennas(), hour_angles=(-1, 1), n_times=24)
    made = with_noise(observe(sky, track, channels(140e9, 1e9, 1)), 6e-3, seed=1)
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

# folded: Write them into an npz file

u, v, real, imag, sigma, first, second = columns
folder = tempfile.TemporaryDirectory()  # removed at the end
mine = Path(folder.name, "spt0346.npz")
np.savez(
    mine,
    uu=u,  # in wavelengths
    vv=v,
    data=real - 1j * imag,  # in Jy; the last section tells of the minus
    weight=1 / sigma**2,
    antennas=np.stack([first, second], axis=1).astype(int),
    frequencies=[140e9],
)

# %%

from firstlight.imaging import image, read_visibilities

began = time.perf_counter()
seen = read_visibilities(mine)
found = image(seen, field=9, draws=4)
print(f"{seen.data.size:,} visibilities in {time.perf_counter() - began:.0f} s")

# %%

# folded: Write the command's files, and draw its picture

import matplotlib.pyplot as plt
from astropy.io import fits

from firstlight.imaging import plot_image
from firstlight.imaging.products.report import write_products

SKY = {"stretch": "sqrt", "vmin": 0, "unit": "mJy/arcsec²"}
MAP = {"stretch": "linear", "unit": "mJy/beam"}
LEFT = {"stretch": "linear", "cmap": "PuOr", "unit": "σ", "vmin": -5, "vmax": 5}


def draw(panels, title, caption):
    rows = len(panels) // 2
    size = (6.2, 2.8 * rows)
    fig, axes = plt.subplots(rows, 2, figsize=size, layout="constrained")
    for ax, (label, values, look) in zip(axes.flat, panels, strict=True):
        plot_image(values, found.coords, ax=ax, **look)
        ax.images[0].set_interpolation("none")  # pixels as they are
        ax.set_title(label, fontsize="medium")
    fig.suptitle(title)
    fig.set_label(caption)
    return axes


write_products(found, seen, Path(folder.name), "spt0346")
dirty, restored, residual = (
    1e3 * fits.getdata(Path(folder.name, f"spt0346.{kind}.fits")).squeeze()
    for kind in ("dirty", "restored", "residual")
)
first_contour = 5 * residual.std()

# %%

# measured figure

axes = draw(
    [
        ("dirty image", dirty, MAP),
        ("image", 1e3 * found.sky, SKY),
        ("what is left over", found.residual, LEFT),
        ("restored map, contours from 5 times its rms", restored, MAP),
    ],
    f"{name}: {1e3 * found.flux:.1f} mJy in three pieces, and noise",
    "Four panels. The dirty image and the image show three bright pieces around a dark "
    "middle; the southern one is an arc. The residuals are like noise, with nothing at "
    "the place of the source. The restored map has contours around the three pieces.",
)
levels = first_contour * 2.0 ** np.arange(12)
extent = found.coords.img_ext
axes[1, 1].contour(restored, levels, extent=extent, colors="whitesmoke", linewidths=0.7)
plt.show()

# %%
# These are the four panels of ``images/my.png``. Look at that file first. Beside it are
# FITS files, which CARTA and DS9 open, and ``importfits`` takes them back to CASA. The
# one to publish is ``my.restored.fits``, in Jy/beam, the last panel. It's what
# ``tclean`` calls ``.image``. But nothing was cleaned. All pixels of the second panel
# were fitted at once, as in :doc:`/tutorials/4_imaging/01_first_light`. (The other
# files are listed :ref:`at the end <tclean-words>`.)
#
# How many galaxies did you count? It's one. A second galaxy, which is dark here, stands
# in front of it and bends its light, so that we see the far one three times over. The
# piece in the south is stretched into an arc. This light has travelled for more than
# twelve billion years.
#
# Should you believe it?
# ----------------------
#
# A pretty picture proves nothing. Read the report instead, which the command prints and
# writes to ``my.txt``.

# folded: Print a report in lines of 80 characters

import textwrap


def say(report):
    for line in str(report).splitlines():
        print(textwrap.fill(line, 80, subsequent_indent="    "))


# %%

say(found)

# %%
# Its first lines say what was chosen, and :doc:`/tutorials/4_imaging/14_inside_image`
# explains how. If you don't agree, say ``--field 9`` or ``--spw 1,3``, for example
# (:ref:`all of tclean's words <tclean-words>` are at the end). The other lines answer
# four questions:
#
# .. list-table:: What the report says, and what you want it to say
#    :header-rows: 1
#
#    * - question
#      - you want
#      - here
#    * - Does the image explain the data?
#      - a reduced :math:`\chi^2` of 1
#      - 1.03, a little too much. We'll see why
#    * - Is anything left over?
#      - :term:`residuals <residual>` with an rms of 1, and none above 5 σ
#      - 1.0 in the source, 1.1 beside it, 4 σ at most
#    * - Is it all the flux that the baselines can see?
#      - what the shortest baselines see: they need only the shape of the image
#      - 15.2 mJy, and they see 14.7 ± 0.5
#    * - What's the verdict?
#      - no line more: then the fit has *converged*. Otherwise a last line says what is
#        wrong
#      - the report ends here
#
# **Would you publish this flux? Write down yes or no.**
#
# Yes, as 15.2 ± 0.3 mJy, and with a word on the flux scale. ALMA promises it to a few
# percent only, and no residual shows when it's off. But don't trust a single pixel as
# far as its error says. That error knows of noise, and nothing of what no baseline
# measured, such as edges sharper than the beam. So the error of a pixel is a lower
# limit.
#
# Spoil it, and mend it
# ---------------------
#
# In real data it's the antennas that spoil an image more often than noise does. So
# let's turn the phases of all antennas on purpose, each by an angle of its own, up to
# 40° either way. It's as if the calibration had gone wrong. **Before you look: which of
# the four answers will change?**

# folded: Turn the phases of antennas

from dataclasses import replace


def turned(vis, degrees, seed=1):
    one, other = vis.antennas.T
    angles = np.random.default_rng(seed).uniform(-degrees, degrees, 1 + other.max())
    phase = np.radians(angles[one] - angles[other])
    return replace(vis, data=vis.data * np.exp(1j * phase))


# %%

degrees = 40
bad = turned(seen, degrees)
spoiled = image(bad, field=9, draws=0)
say(spoiled.quality)

# %%
# The first two change, and so does the verdict. :math:`\chi^2` is 1.23, and the largest
# residual is 7 times the noise. The fluxes still agree. If you had looked at nothing
# else, you'd have published it.
#
# Now read the last line slowly, because it says what to do. It has worked out whether
# other phases of the antennas would make the image fit the data. They would:
# :math:`\chi^2` would fall to 1.04. It names the worst antennas. And it says
# "self-calibrate phases". So let's do that:

from firstlight.imaging.calibration import self_calibrate

cured = self_calibrate(bad, field=9)
say(cured)
mended = image(cured.vis, field=9, draws=4)
say(f"flux {mended.flux_text}")
say(mended.quality)

# %%

# measured figure

draw(
    [
        ("left over, spoiled", spoiled.residual, LEFT),
        ("left over, self-calibrated", mended.residual, LEFT),
    ],
    "Wrong phases leave blobs all over the field; the right ones leave noise",
    "Left, the residuals of the spoiled data, with blobs far above noise all over the "
    "field. Right, those after self-calibration, which are like noise.",
)
plt.show()

# %%
# It's mended: the flux is 15.2 mJy again, with an error bar, and no last line names a
# fault. Half of the antennas were off by more than 21°, it says. That's about right,
# because our angles went up to 40°. But why is :math:`\chi^2` even lower than at the
# very beginning, 1.01 in place of 1.03? Because a few phases of the file itself weren't
# quite right, either.
#
# With your own data, the remedy is one word more:
#
# .. code-block:: bash
#
#     firstlight image my.ms --of 0 --self-calibrate --out images
#
# **Now turn the knob yourself.** Write ``degrees = 5`` in place of 40, and then 10.
# From which angle does the report notice, and what does it blame? (A few degrees hardly
# stand out of the noise. There, don't take its word for what is to blame.)

# folded: The same as assertions, so that the page can't say anything else

east, _ = found.coords.sky_coordinates()
assert 0.2 < (east * found.sky).sum() / found.sky.sum() < 0.8
assert found.quality.verdict == "converged"
assert abs(found.flux - found.quality.short_flux) < 3 * found.quality.short_error
assert 0.0145 < found.flux < 0.0160
if degrees == 40:
    assert spoiled.quality.verdict == "limited by calibration"
    assert "Self-calibrate phases" in spoiled.quality.faults[0][1]
    assert mended.quality.verdict == "converged"
    assert abs(mended.flux - found.flux) < 0.4e-3
if name == "SPT0346-52":
    before, after = found.quality, mended.quality
    assert abs(found.flux - 15.2e-3) < 0.1e-3
    assert f"{1e3 * found.flux_error:.1f} {before.chi2:.2f}" == "0.3 1.03"
    assert f"{1e3 * before.short_flux:.1f} {1e3 * before.short_error:.1f}" == "14.7 0.5"
    assert f"{before.inside:.1f} {before.outside:.1f}" == "1.0 1.1"
    assert f"{before.largest:.0f}" == "4"
if name == "SPT0346-52" and degrees == 40:
    bad_one, off = spoiled.quality, cured.phases.phase_scatter
    assert f"{bad_one.chi2:.2f} {after.chi2:.2f} {bad_one.largest:.0f}" == "1.23 1.01 7"
    assert abs(bad_one.flux - bad_one.short_flux) < 3 * bad_one.short_error
    assert abs(mended.flux - 15.2e-3) < 0.1e-3
    assert f"{np.nanmedian(off):.0f}" == "21"

# %%
# What if it says something else?
# -------------------------------
#
# If something other than noise limits an image, you get no error bar, but a last line
# in the report. Look for what it says here:
#
# 1. **It blames the phases.** Add ``--self-calibrate``, as we did.
#    :doc:`/tutorials/4_imaging/03_real_sky` does it with real phases that were off, and
#    their largest residual falls to a quarter. Calibrate amplitudes, too, only if the
#    report asks for it: they can move your flux scale.
# 2. **It names a source outside of the field.** Take the ``--field`` that it names.
# 3. **No gains explain it.** Then the command has compared the spectral windows of the
#    file. If the report names one, image it by itself. It has also tried a field twice
#    as wide, unless you asked for one. If none of this helped, look where the largest
#    residual is, and try a ``--mask`` of your own.
# 4. **It's still limited.** Show the restored map with contours from 5 times its rms,
#    as ``my.png`` does, and don't believe faint pieces. Give the flux without an error
#    bar, beside that of the shortest baselines, and hold the map beside ``tclean``'s
#    (:doc:`/tutorials/4_imaging/13_rml_and_clean`).
#
# Weights that are wrong by a factor aren't in this list, because the command mends them
# by itself in a measurement set, and says so.
#
# .. dropdown:: Two real files whose gains weren't to blame
#
#    In a file of the disk HD 142527, from the tests of `gpuvmem
#    <https://github.com/miguelcarcamov/gpuvmem>`__, two of three spectral windows have
#    less flux than the other. No mask makes that right, so take the one that the report
#    names, ``--spw 0``. In a file of the lens J0414+0534, from the VLBA, the second
#    image of the source was beyond the field.
#
# .. dropdown:: Carry the gains over to CASA
#
#    Our gains are written to ``my.gains.npz``, which ``applycal`` can't read. If you
#    need them in CASA, say for the windows of a line, give ``gaincal`` our model.
#    ``tclean`` puts it into the column ``MODEL_DATA``, if you let it make no
#    iterations:
#
#    .. code-block:: python
#
#       importfits(fitsimage="images/my.model.fits", imagename="my.model")
#       tclean(vis="my.ms", imagename="check", field="0", imsize=100,
#              cell="0.09arcsec", startmodel="my.model", niter=0,
#              savemodel="modelcolumn")
#       gaincal(vis="my.ms", caltable="my.phase", field="0", calmode="p",
#               solint="60s")
#
# All of this has three limits. Sources far from the centre come out too faint, because
# antennas see them less well (``--dish 12`` corrects for that). If a set is too large
# for your computer's memory, ``split`` your target out and average its channels first.
# And if the calibration is so bad that the first image is nonsense, the report says
# "not calibrated". :doc:`/tutorials/4_imaging/03_real_sky` begins with such data.
#
# Your turn
# ---------
#
# Three colleagues hand you a file each, A, B and C. Somebody has told them that the
# source is within 8 arcsec, so they all want a field of that width. Image each file,
# and read its report:
#
# .. code-block:: python
#
#     file = handed_out("A")
#     say(image(file, field=8, draws=0))
#
# What do you tell each colleague: ``"self-calibrate"``, ``"wider field"``, or
# ``"publish"``? Do what you'd tell them, too, and see whether it helps.

# folded: What they hand you (it says which fault is where, so don't open it yet)

PLANTED = {"A": "beyond", "B": "none", "C": "antennas"}


def handed_out(letter):
    """Return the visibilities of file A, B or C."""
    sky = [Ring(0.3, 0, 0.5, east=1.5), Ring(0.2, 0, 0.5, east=-0.5)]
    if PLANTED[letter] == "beyond":
        sky.append(Ring(0.2, 0, 0.3, east=-7, north=3))
    track = uv_track(alma_antennas()[::3] / 4, n_times=8)
    made = with_noise(observe(sky, track), 0.02, seed=ord(letter))
    return turned(made, 20) if PLANTED[letter] == "antennas" else made


# %%
# Put your answer where the dots are, and run ``firstlight try 02_your_own_data.py``.

advice = {"A": ..., "B": ..., "C": ...}

# %%

# folded: What checks your answer

REMEDY = {"beyond": "wider field", "none": "publish", "antennas": "self-calibrate"}
HINTS = {
    "beyond": "its report doesn't blame antennas. Where does it see something?",
    "none": "its chi² is near 1, its residuals are noise, and no fault is named.",
    "antennas": "its chi² is far from 1. Would other phases lower it?",
}


def check(answer):
    if not isinstance(answer, dict) or set(answer) != set(PLANTED):
        return "Answer with a dictionary of A, B and C."
    for letter, said in answer.items():
        planted = PLANTED[letter]
        if said is ...:
            return f"What about file {letter}? Put a word in place of the dots."
        if not (isinstance(said, str) and said in REMEDY.values()):
            return f"{said!r} is none of {', '.join(REMEDY.values())}."
        if said != REMEDY[planted]:
            return f"Not {said!r}. File {letter}: {HINTS[planted]}"
    return "Right. One fault has its cure in the antennas, and one in the field."


# %%

print(check(advice))

# %%
# Three lines to remember
# -----------------------

# remember
print("1. Read the report before the picture: chi², residuals, short baselines.")
print("2. Does it name a fault? Mend it, image again, and only then give an error bar.")
print("3. Still limited? Publish the flux without an error, beside another program's.")
folder.cleanup()

# %%
# .. _tclean-words:
#
# When you need it: tclean's words
# --------------------------------
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
# .. list-table:: What the command writes, and what ``tclean`` calls it
#    :header-rows: 1
#
#    * - file
#      - in ``tclean``
#      - what it holds
#    * - ``my.restored.fits``
#      - ``.image``
#      - Jy/beam, residuals added: **publish this one**
#    * - ``my.residual.fits``
#      - ``.residual``
#      - Jy/beam
#    * - ``my.dirty.fits``
#      - ``.image``, with ``niter=0``
#      - Jy/beam
#    * - ``my.model.fits``
#      - ``.model``
#      - Jy/pixel, as it was fitted: for ``startmodel`` only
#    * - ``my.image.fits``
#      - nothing; it's *not* the ``.image``
#      - Jy/pixel, smoothed over two pixels, without residuals: the second panel,
#        which shows it in mJy/arcsec². Its sum is the flux
#    * - ``my.error.fits``
#      - nothing
#      - Jy/pixel: what noise does to each pixel of ``my.image.fits``, one σ
#    * - ``my.txt``
#      - the log
#      - the report, with warnings if there are any
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
# When you need it: an npz of your own
# ------------------------------------
#
# If your data aren't in a measurement set or a UVFITS file, make an npz. The galaxy's
# file had seven columns of numbers: u, v, the real and the imaginary part of each
# :term:`visibility`, its noise, and its two antennas. A fold at the top of the page
# makes an npz of them. It needs the arrays ``uu``, ``vv`` and ``weight``, and ``data``,
# or ``data_re`` and ``data_im`` in its place. Baselines are in wavelengths, but with
# the latter two often in thousands of them. Where both are possible, the command asks
# you for ``--unit``. Without the array ``frequencies``, it asks for ``--frequency``.
#
# Two mistakes can happen here that a measurement set spares you
# (:doc:`/tutorials/4_imaging/12_ten_traps` makes both):
#
# - **The sign.** CASA counts phases the other way, so an npz that you fill by hand from
#   a measurement set needs a minus in front of ``1j``, as ours did. If you forget it,
#   *no* number of the report will tell. All are as good as before, and only the sky is
#   turned by 180°. So you have to know something about the sky. Here we do: visilens
#   has the lens *east* of the centre, and so has our image. Do this once, with a source
#   that you know, for each program that writes your numbers.
# - **The weights.** If they are four times too large, so is :math:`\chi^2`, while the
#   residuals still look like noise. The report then says by what to divide them. Add
#   ``antennas`` and ``time``, and the command checks the weights by itself. Without
#   times, as in our file, it warns you that it can't. (It also warns that it doesn't
#   know where on the sky this is: ``--phase-centre`` tells it.)

# %%
# Solution
# --------

# solution

possible_solution = {"A": "wider field", "B": "publish", "C": "self-calibrate"}
print(f"Our solution: {check(possible_solution)}")
