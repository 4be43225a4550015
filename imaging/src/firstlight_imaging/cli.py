"""The ``firstlight-imaging`` command, or ``firstlight image``: visibilities in, FITS files and a report out."""

from __future__ import annotations

import argparse
import errno
import math
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import firstlight_imaging
from firstlight_imaging import __version__, automatic, data, products, selfcal  # which load nothing yet

if TYPE_CHECKING:
    from firstlight_imaging import Visibilities


_WHERE = {"data", "again", "out", "overwrite"}  # what an image is made of, and where it goes, not how


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
    add, angle = parser.add_argument, partial(_quantity, unit="arcsec")
    add("--version", action="version", version=f"%(prog)s {__version__}")
    add("data", type=Path, nargs="*", help="UVFITS, npz, measurement set or text; several are joined")
    add("--out", type=Path, default=Path(), metavar="DIR", help="where to write (default: here)")
    add("--again", type=Path, metavar="JSON", help="make the image of this report again, of the same data")
    add("--overwrite", action="store_true", help="replace what was written before")
    add("--field", type=angle, metavar="ANGLE", help="the width of the image: 13mas, 4arcsec (default: by the source)")
    add("--cell-size", type=angle, metavar="ANGLE", help="the width of a pixel, such as 10mas (default: by the data)")
    add("--mask", type=Path, metavar="FITS", help="where emission is allowed (default: it is found)")
    of = "make no image: is this one right? A model of tclean, difmap or ehtim, or a profile of frank's"
    add("--assess", type=Path, metavar="FILE", help=of)
    add("--restored", type=Path, metavar="FITS", help="of --assess: the map that the model was restored to")
    add("--geometry", metavar="INC,PA,DRA,DDEC", help="of --assess, for a profile: frank's, in degrees and arcsec")
    add("--phase-centre", metavar="RA,DEC", help="in degrees (ICRS), where the data do not say it")
    add("--frequency", type=float, metavar="HZ", help="where the data do not say it")
    add("--of", metavar="FIELD", help="of a measurement set: its name or number")
    add("--channels", metavar="N or FROM:TO", help="only these, from 0: 4, or 3:6 for 3, 4 and 5")
    add("--spw", metavar="N,…", help="of a measurement set: only these spectral windows, from 0")
    add("--column", help="of a measurement set: its data (default: CORRECTED_DATA, else DATA)")
    add("--shortest", type=float, metavar="LAMBDA", help="only baselines from so many wavelengths")
    add("--longest", type=float, metavar="LAMBDA", help="and up to so many")
    add("--unit", choices=["lambda", "kilolambda", "metres"], help="of baselines in npz or text")
    by_itself = "calibrate the antennas by the image itself: phases (default), or then amplitudes, too"
    add("--self-calibrate", nargs="?", const="phase", choices=["phase", "amplitude"], help=by_itself)
    add("--closures", action="store_true", help="fit closure quantities, which no gain can spoil")
    every = "of --self-calibrate: the least interval of gains, such as 60s"
    add("--every", type=partial(_quantity, unit="s"), metavar="TIME", help=every)
    add("--robust", type=float, default=0.5, help="of maps in Jy/beam, from -2 to 2 (default: 0.5)")
    add("--dish", type=float, metavar="METRES", help="correct for the primary beam of such antennas")

    words = sys.argv[1:] if argv is None else list(argv)
    for i in range(len(words) - 1, 0, -1):  # argparse takes -1e9 and -5,3 for options
        if re.match(r"-[\d.]", words[i]) and words[i - 1].startswith("--"):
            words[i - 1 : i + 1] = [f"{words[i - 1]}={words[i]}"]
    try:
        try:
            arguments = parser.parse_args(words)
            if not (arguments.data or arguments.again):
                parser.error("name the data, or a report (--again)")
            options = {key: value for key, value in vars(arguments).items() if value != parser.get_default(key)}
            for key in _WHERE & options.keys():
                del options[key]
            if arguments.again:
                if options:
                    raise ValueError(f"--again has its options from the report: leave out --{', --'.join(options)}")
                arguments.data, options = products.read_run(arguments.again, arguments.data)
                if unknown := options.keys() - vars(arguments).keys():
                    raise ValueError(f"{arguments.again} has options of another version: {', '.join(unknown)}")
                vars(arguments).update(options, mask=Path(options["mask"]) if "mask" in options else None)
            return image(arguments, options)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has enough of it
        _close_output()
    except (ImportError, MemoryError, OSError, RuntimeError, ValueError) as mistake:
        said = (str(mistake) or "no memory is left").rpartition("Allocator: ")[2]  # as PyTorch says it
        if isinstance(mistake, RuntimeError) and not re.search("(allocate|enough|out of) memory", said):
            raise
        print(f"{prog}: {said}", file=sys.stderr)
        if getattr(mistake, "errno", None) == errno.ENOSPC:  # Python would try to write it once more
            _close_output()
    except KeyboardInterrupt:
        print(f"{prog}: interrupted; nothing half-written is left behind", file=sys.stderr)
        return 130
    return 1


def image(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    """Image visibilities: FITS files, a picture, and a report of how good the image is."""
    most = {"field": 4e5, "cell-size": 4e5, "frequency": 1e15, "dish": 1e4, "shortest": 1e12, "longest": 1e12}
    for option, largest in most.items():  # no sky is as wide, no dish as large
        value = getattr(arguments, option.replace("-", "_"))
        if value is not None and not 0 < value < largest:
            raise ValueError(f"--{option} must be a positive number, less than {largest:g}; got {value:g}")
    if arguments.closures and arguments.self_calibrate:
        raise ValueError("--closures needs no gains, and --self-calibrate solves them: give one of the two")
    if arguments.closures and (arguments.cell_size or arguments.mask):
        raise ValueError("--closures chooses cells by itself and needs no mask: leave out --cell-size and --mask")
    if (arguments.restored or arguments.geometry) and not arguments.assess:
        raise ValueError("--restored and --geometry are for --assess alone: leave them out")
    if not -2 <= arguments.robust <= 2:
        raise ValueError(f"--robust must be from -2 (sharp) to 2 (sensitive); got {arguments.robust:g}")
    for stop in ("SIGTERM", "SIGHUP"):  # a killed job, and a closed terminal, leave nothing behind either
        with suppress(ValueError, AttributeError):  # not the main thread; Windows
            if signal.getsignal(number := getattr(signal, stop)) is signal.SIG_DFL:  # nohup is obeyed
                signal.signal(number, signal.default_int_handler)
    name = re.sub(r"(\.(txt|dat)(\.gz|\.bz2)|\.\w+)$", "", arguments.data[0].name, flags=re.IGNORECASE) or "image"
    if arguments.assess:
        for option in ("field", "cell_size", "self_calibrate", "closures", "dish"):
            if getattr(arguments, option):
                raise ValueError(f"--assess makes no image: leave out --{option.replace('_', '-')}")
        name += ".assess"
    with products.whole_set(arguments.out, name, overwrite=arguments.overwrite) as folder:
        vis, notes = _read(arguments)
        data = {path: products.digest_of(path) for path in arguments.data}  # before an hour in which they may change
        _say("\n".join(notes))
        if arguments.assess:
            made, results = _assess(vis, notes, arguments, folder, name)
        elif arguments.closures:
            closures = selfcal.closure_image(vis, field=arguments.field, device=_device())
            made = products.write_closure_image(closures, vis, folder, name, "\n".join([*notes, ""]))
            results = closures.results
        else:
            made, results = _image_and_write(vis, notes, arguments, folder, name)
        made = products.write_provenance(made, data, options, results, folder, name)
    print(f"{made.report}\n", *(arguments.out / path.name for path in made.paths), sep="\n")  # which are there now
    return 0


def _say(text: object) -> None:
    """Print what there is to say before an image is made, which is made even if nobody listens any more."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _close_output()


def _close_output() -> None:
    """Let nothing more be printed into a pipe that is closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _device() -> str:
    """Return the GPU that CUDA or ROCm runs, or the one that FIRSTLIGHT_DEVICE names; else the CPU."""
    import torch

    asked = os.environ.get("FIRSTLIGHT_DEVICE", "").strip().lower() or "cuda"
    return asked if asked.startswith("cuda") and torch.cuda.is_available() else "cpu"


def _assess(
    vis: Visibilities, notes: list[str], arguments: argparse.Namespace, folder: Path, name: str
) -> tuple[products.Products, dict[str, Any]]:
    """Judge an image that another program has made, and write a page on it."""
    geometry = _geometry(arguments.geometry) if arguments.geometry else None
    model = products.read_model(arguments.assess, vis.phase_centre, like=vis, geometry=geometry)
    source = None
    if arguments.mask:
        source = products.read_mask(arguments.mask, vis.phase_centre)(*model.coords.sky_coordinates())
    found = automatic.assess_model(vis, model.sky, model.coords, program=model.program, source=source)
    restored = products.compare_restored(arguments.restored, found) if arguments.restored else ""
    head = "\n".join([*notes, ""])
    return products.write_assessment(found, vis, folder, name, head=head, restored=restored), found.results


def _geometry(text: str) -> tuple[float, float, float, float]:
    """Return an inclination, a position angle and, if they are there, two offsets."""
    try:
        inclination, angle, east, north = map(float, text.split(",") + ["0", "0"] * (text.count(",") == 1))
    except ValueError:
        raise ValueError(f"--geometry is INC,PA or INC,PA,DRA,DDEC, in degrees and arcsec; got {text!r}") from None
    return inclination, angle, east, north


def _image_and_write(
    vis: Visibilities, notes: list[str], arguments: argparse.Namespace, folder: Path, name: str
) -> tuple[products.Products, dict[str, Any]]:
    """Calibrate if asked for, image, and write all products, the report last."""
    how: dict[str, Any] = {"field": arguments.field, "cell_size": arguments.cell_size, "device": _device()}
    if arguments.mask:
        how["mask"] = products.read_mask(arguments.mask, vis.phase_centre)
    gains, parameters = [], 0.0
    if arguments.self_calibrate:
        calibrated = selfcal.self_calibrate(vis, mode=arguments.self_calibrate, every=arguments.every, **how)
        vis, parameters, notes = calibrated.vis, calibrated.parameters, [*notes, str(calibrated)]
        gains = products.write_gains(calibrated, folder, name)
        _say(calibrated)
    found = automatic.image(vis, parameters=parameters, **how)
    remarks = [*products.limit_remarks(found, vis), *products.point_remark(found, vis)]
    head = "\n".join([*notes, *remarks, ""])
    made = products.write_products(found, vis, folder, name, dish=arguments.dish, robust=arguments.robust, head=head)
    return products.Products([*gains, *made.paths], "\n".join([*remarks, made.report])), found.results


def _read(arguments: argparse.Namespace) -> tuple[Visibilities, list[str]]:
    """Return visibilities with right weights, and what there is to say of them."""
    of = int(arguments.of) if arguments.of and arguments.of.isdecimal() else arguments.of
    windows = arguments.spw and _windows(arguments.spw)
    asked = {"field": of, "unit": arguments.unit, "column": arguments.column, "windows": windows}
    options = {key: value for key, value in asked.items() if value is not None}
    held = data.read_executions(arguments.data, **options)
    parts = {name: _with_frequency(vis, arguments) for name, vis in held.items()}
    notes = []
    if len(parts) > 1:
        joined = firstlight_imaging.join([*parts.values()], [*parts])
        vis, notes = joined.vis, [str(joined)]
    else:
        (vis,) = parts.values()
    files = ", ".join(map(str, arguments.data))
    notes = [f"{files}: {vis.data.size:,} visibilities, {vis.flagged.mean():.1%} flagged", *notes]
    if arguments.channels:
        notes.append(f"of {len(vis.frequency)} channels, {arguments.channels} (counted from 0)")
        vis = data.select_channels(vis, _channels(arguments.channels, len(vis.frequency)))
    if arguments.shortest or arguments.longest:
        before = vis.data.size
        vis = data.select_baselines(vis, shortest=arguments.shortest or 0.0, longest=arguments.longest or math.inf)
        notes.append(f"{vis.data.size / before:.1%} of them on baselines that were asked for")
    if arguments.phase_centre:
        vis = replace(vis, phase_centre=_degrees(arguments.phase_centre))
    if vis.phase_centre is None:
        notes.append("WARNING: the phase centre is not known, and the files do not say where they are: --phase-centre")
    vis, said = data.trusted(vis)
    return vis, [*notes, *said]


def _with_frequency(vis: Visibilities, arguments: argparse.Namespace) -> Visibilities:
    """Return visibilities with the frequency that was asked for, if they do not know theirs."""
    import numpy as np

    from firstlight_imaging.units import as_hertz

    if not np.isnan(vis.frequency).any():
        return vis
    if not arguments.frequency:
        raise ValueError("the data do not say their frequency: give it in Hz, such as --frequency 230e9")
    asked_for = as_hertz(np.array([arguments.frequency]), name="--frequency")
    return replace(vis, frequency=np.full(len(vis.frequency), asked_for))


def _quantity(text: str, unit: str) -> float:
    """Return a number in a unit; text may have it in another of its kind behind it."""
    from astropy.units import Quantity  # type: ignore[import-untyped]

    try:
        given = Quantity(text)
        return float(given.value if given.unit == "" else given.to_value(unit))
    except (TypeError, ValueError):
        raise argparse.ArgumentTypeError(f"a number is needed, perhaps with a unit like {unit}; got {text!r}") from None


def _channels(text: str, held: int) -> slice:
    """Return channels from a number or from FROM:TO, without TO itself, as Python counts."""
    if not re.fullmatch(r"\d+(:\d+)?", text):
        raise ValueError(f"--channels is a number from 0, or FROM:TO, such as 4 or 3:6; got {text!r}")
    first, _, end = text.partition(":")
    chosen = slice(int(first), int(end or int(first) + 1))
    if chosen.stop > held:
        raise ValueError(f"there are channels 0 to {held - 1}; --channels {text} reaches beyond them")
    return chosen


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
