"""The ``firstlight-imaging`` command, or ``firstlight image``: visibilities in, FITS files and a report out."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstlight_imaging import __version__

if TYPE_CHECKING:
    from firstlight_imaging import Visibilities


def main(argv: Sequence[str] | None = None, prog: str = "firstlight-imaging") -> int:
    """Run a ``firstlight-imaging`` command line and return its exit status.

    The package says with a ValueError what a user got wrong, the system with an OSError: that becomes one line, and the
    status 1.

    Parameters
    ----------
    argv
        The words behind ``firstlight-imaging``, by default those of this process.
    prog
        What the command is called in its own messages.

    Examples
    --------
    >>> main(["no-such-file.uvfits"])  # says that there is no such file
    1
    """
    parser = argparse.ArgumentParser(prog=prog, description=(image.__doc__ or "").partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("data", type=Path, nargs="+", help="UVFITS, npz, measurement set or text; several: its windows")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where to write (default: here)")
    parser.add_argument("--overwrite", action="store_true", help="replace what was written before")
    parser.add_argument(
        "--field",
        type=_angle,
        metavar="ANGLE",
        help="the width of the image, such as 13mas or 4arcsec (default: by the source)",
    )
    parser.add_argument(
        "--cell-size", type=_angle, metavar="ANGLE", help="the width of a pixel, such as 10mas (default: by the data)"
    )
    parser.add_argument("--mask", type=Path, metavar="FITS", help="where emission is allowed (default: it is found)")
    parser.add_argument("--assess", type=Path, metavar="FITS", help="make no image: report on this model, of tclean's")
    parser.add_argument("--phase-centre", metavar="RA,DEC", help="in degrees (ICRS), where the data do not say it")
    parser.add_argument("--frequency", type=float, metavar="HZ", help="where the data do not say it")
    parser.add_argument("--of", metavar="FIELD", help="of a measurement set: its name or number")
    parser.add_argument("--channels", metavar="N or FROM:TO", help="only these, from 0: 4, or 3:6 for 3, 4 and 5")
    parser.add_argument("--spw", metavar="N,…", help="of a measurement set: only these spectral windows, from 0")
    parser.add_argument("--column", help="of a measurement set: its data (default: CORRECTED_DATA, else DATA)")
    parser.add_argument("--shortest", type=float, metavar="LAMBDA", help="only baselines from so many wavelengths")
    parser.add_argument("--longest", type=float, metavar="LAMBDA", help="and up to so many")
    parser.add_argument("--unit", choices=["lambda", "kilolambda", "metres"], help="of baselines in npz or text")
    parser.add_argument(
        "--self-calibrate",
        nargs="?",
        const="phase",
        choices=["phase", "amplitude"],
        help="calibrate the antennas by the image itself: phases (default), or then amplitudes, too",
    )
    parser.add_argument("--closures", action="store_true", help="fit closure quantities, which no gain can spoil")
    parser.add_argument("--every", type=_seconds, metavar="TIME", help="the least interval of its gains, such as 60s")
    parser.add_argument("--robust", type=float, default=0.5, help="of maps in Jy/beam, from -2 to 2 (default: 0.5)")
    parser.add_argument("--dish", type=float, metavar="METRES", help="correct for the primary beam of such antennas")

    words = sys.argv[1:] if argv is None else list(argv)
    for i in range(len(words) - 1, 0, -1):  # argparse takes -1e9 and -5,3 for options
        if re.match(r"-[\d.]", words[i]) and words[i - 1].startswith("--"):
            words[i - 1 : i + 1] = [f"{words[i - 1]}={words[i]}"]
    arguments = parser.parse_args(words)
    try:
        status = image(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ImportError, OSError, ValueError) as mistake:
        print(f"{prog}: {mistake}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{prog}: interrupted; nothing half-written is left behind", file=sys.stderr)
        return 130
    return status


def image(arguments: argparse.Namespace) -> int:
    """Image visibilities: FITS files, a picture, and a report of how good the image is."""
    from firstlight_imaging.calibration import closure_image
    from firstlight_imaging.products.calibration_files import write_closure_image
    from firstlight_imaging.products.report import whole_set

    most = {"field": 4e5, "cell-size": 4e5, "frequency": 1e15, "dish": 1e4, "shortest": 1e12, "longest": 1e12}
    for option, largest in most.items():  # no sky is as wide, no dish as large
        value = getattr(arguments, option.replace("-", "_"))
        if value is not None and not 0 < value < largest:
            raise ValueError(f"--{option} must be a positive number, less than {largest:g}; got {value:g}")
    if arguments.closures and arguments.self_calibrate:
        raise ValueError("--closures needs no gains, and --self-calibrate solves them: give one of the two")
    if arguments.closures and (arguments.cell_size or arguments.mask):
        raise ValueError("--closures chooses cells by itself and needs no mask: leave out --cell-size and --mask")
    if arguments.assess:
        return _assess(arguments)
    if not -2 <= arguments.robust <= 2:
        raise ValueError(f"--robust must be from -2 (sharp) to 2 (sensitive); got {arguments.robust:g}")
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a killed job leaves nothing behind either
    name = arguments.data[0].name.partition(".")[0] or "image"
    with whole_set(arguments.out, name, overwrite=arguments.overwrite) as folder:
        vis, notes = _read(arguments)
        print("\n".join(notes), flush=True)
        how = {"field": arguments.field, "device": _device()}
        if arguments.closures:
            written = write_closure_image(closure_image(vis, **how), vis, folder, name, "\n".join([*notes, ""]))
        else:
            written = _image_and_report(vis, notes, arguments, how, folder, name)
        print(written[-1].read_text(encoding="utf-8").removeprefix("\n".join([*notes, ""])))
    for path in written:
        print(arguments.out / path.name)
    return 0


def _device() -> str:
    """Return the GPU that CUDA or ROCm runs, or the one that FIRSTLIGHT_DEVICE names; else the CPU."""
    import torch

    asked = os.environ.get("FIRSTLIGHT_DEVICE", "").strip().lower() or "cuda"
    return asked if asked.startswith("cuda") and torch.cuda.is_available() else "cpu"


def _assess(arguments: argparse.Namespace) -> int:
    """Print the report on an image that another program has made."""
    from firstlight_imaging.fitting import assess_model
    from firstlight_imaging.products.fits_images import read_model

    for option in ("field", "cell_size", "mask", "self_calibrate", "closures", "dish"):
        if getattr(arguments, option):
            raise ValueError(f"--assess makes no image: leave out --{option.replace('_', '-')}")
    vis, notes = _read(arguments)
    if vis.phase_centre is None:
        raise ValueError("a model has a place on the sky, and the data have none: give --phase-centre, too")
    print("\n".join([*notes, str(assess_model(vis, *read_model(arguments.assess, vis.phase_centre)))]))
    return 0


def _image_and_report(
    vis: Visibilities, notes: list[str], arguments: argparse.Namespace, how: dict[str, Any], folder: Path, name: str
) -> list[Path]:
    """Calibrate if asked for, image, and write all products, the report last; add to what there is to say."""
    from firstlight_imaging import check_image_grid, image
    from firstlight_imaging.calibration import self_calibrate
    from firstlight_imaging.products.calibration_files import write_gains
    from firstlight_imaging.products.fits_images import read_mask
    from firstlight_imaging.products.report import point_remark, write_products

    how["cell_size"] = arguments.cell_size
    if arguments.mask:
        if vis.phase_centre is None:
            raise ValueError("a --mask has a place on the sky, and the data have none: give --phase-centre, too")
        how["mask"] = read_mask(arguments.mask, vis.phase_centre)
    calibrated = None
    if arguments.self_calibrate:
        amplitude = arguments.self_calibrate == "amplitude"
        calibrated = self_calibrate(vis, amplitude=amplitude, every=arguments.every, **how)
        vis = calibrated.vis
        notes.append(str(calibrated))
        print(calibrated, flush=True)
    found = image(vis, parameters=calibrated.parameters if calibrated else 0.0, **how)
    limits = [str(limit) for limit in check_image_grid(vis, found.coords) if limit.severity in ("warning", "error")]
    limits += point_remark(found, vis)
    head = "\n".join([*notes, *limits, ""])
    written = write_products(found, vis, folder, name, dish=arguments.dish, robust=arguments.robust, head=head)
    return [*(write_gains(calibrated, folder, name) if calibrated else []), *written]


def _read(arguments: argparse.Namespace) -> tuple[Visibilities, list[str]]:
    """Return visibilities with right weights, and what there is to say of them."""
    from dataclasses import replace

    import numpy as np

    from firstlight_imaging import check_weights, read_visibilities, scale_weights
    from firstlight_imaging.data import flag, outlying_weights, select_baselines, select_channels

    of = int(arguments.of) if arguments.of and arguments.of.isdecimal() else arguments.of
    windows = arguments.spw and _windows(arguments.spw)
    asked = {"field": of, "unit": arguments.unit, "column": arguments.column, "windows": windows}
    options = {key: value for key, value in asked.items() if value is not None}
    try:
        vis = read_visibilities(arguments.data if len(arguments.data) > 1 else arguments.data[0], **options)
    except TypeError:  # of an option that a reader does not have
        only_for = "--of, --spw and --column are for measurement sets, --unit for npz and text: leave it out"
        raise ValueError(only_for) from None
    every = vis.frequency
    notes = [f"{', '.join(map(str, arguments.data))}: {vis.data.size:,} visibilities, {vis.flagged.mean():.1%} flagged"]
    if arguments.channels:
        vis = select_channels(vis, _channels(arguments.channels))
        notes.append(f"of {len(every)} channels, {arguments.channels} (counted from 0)")
    if arguments.shortest or arguments.longest:
        every_baseline = vis.data.size
        limits = {"shortest": arguments.shortest or 0.0, "longest": arguments.longest or np.inf}
        vis = select_baselines(vis, **limits)
        notes.append(f"{vis.data.size / every_baseline:.1%} of them on baselines that were asked for")
    if arguments.phase_centre:
        vis = replace(vis, phase_centre=_degrees(arguments.phase_centre))
    if vis.phase_centre is None:
        notes.append("WARNING: the phase centre is not known, and the files do not say where they are: --phase-centre")
    if np.isnan(vis.frequency).any():
        if not arguments.frequency:
            raise ValueError("the data do not say their frequency: give it in Hz, such as --frequency 230e9")
        vis = replace(vis, frequency=np.full(len(vis.frequency), arguments.frequency))
    weights = check_weights(vis)
    if weights.outliers:
        notes.append(f"WARNING (check_weights): left out, since {weights.outliers}")
        vis = flag(vis, outlying_weights(vis))
    if doubtful := [one.factor for one in weights.totals if one.doubtful]:
        times = f"{min(doubtful) ** -0.5:.3g} times as far as their weights say"
        notes.append(
            f"WARNING (check_weights): the data scatter up to {times}. The sky may do that, so the weights are kept; "
            "if it does not, they are too large and the errors too small"
        )
    if weights.wrong:
        factors = " and ".join(sorted({f"{one.factor:.3g}" for one in weights.wrong}))
        notes.append(
            f"WARNING (check_weights): the weights were off, and are multiplied by {factors}, as the data scatter"
        )
        vis = scale_weights(vis, weights)
    elif np.isnan(weights.worst):
        unknown = "nothing tells whether the weights are right: no antennas and times, or too few"
        notes.append(f"WARNING (check_weights): {unknown}")
    elif not doubtful:
        notes.append("check_weights: nothing is wrong with the weights, as far as the scatter of the data tells")
    return vis, notes


def _quantity(text: str, units: dict[str, float]) -> float:
    """Return a number with the unit that follows it; without one, it is that of the factor 1."""
    number = re.sub(r"[^\W\d]*$", "", text)
    try:
        return units[text.removeprefix(number)] * float(number)
    except (KeyError, ValueError):
        known = ", ".join(filter(None, units))
        raise argparse.ArgumentTypeError(f"a number with one of {known} is needed; got {text!r}") from None


def _seconds(text: str) -> float:
    """Return seconds, from a number with or without an s, or of minutes with min."""
    return _quantity(text, {"min": 60, "s": 1, "": 1})


def _angle(text: str) -> float:
    """Return arcsec, from a number with or without that unit, or of mas or µas."""
    micro = text.replace("\N{GREEK SMALL LETTER MU}", "\N{MICRO SIGN}")
    return _quantity(micro, {"arcsec": 1, "mas": 1e-3, "uas": 1e-6, "µas": 1e-6, "": 1})


def _channels(text: str) -> slice:
    """Return channels from a number or from FROM:TO, without TO itself, as Python counts."""
    if not re.fullmatch(r"\d+(:\d+)?", text):
        raise ValueError(f"--channels is a number from 0, or FROM:TO, such as 4 or 3:6; got {text!r}")
    first, _, end = text.partition(":")
    return slice(int(first), int(end or int(first) + 1))


def _windows(text: str) -> list[int]:
    """Return the numbers of spectral windows."""
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise ValueError(f"--spw is numbers from 0, such as 0 or 0,2; got {text!r}")
    return [int(number) for number in text.split(",")]


def _degrees(text: str) -> tuple[float, float]:
    """Read a right ascension and a declination."""
    try:
        ra, dec = map(float, text.split(","))
    except ValueError:
        raise ValueError(f"--phase-centre is two numbers of degrees, such as 83.8,-5.4; got {text!r}") from None
    return ra, dec
