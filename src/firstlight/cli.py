"""The ``firstlight`` command. Each subcommand is one function, which loads what it needs when it runs.

What `doctor` needs runs on Python 3.8, too, and from an archive: see tools/doctor_file.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstlight import __version__

if TYPE_CHECKING:
    from firstlight.doctor.shapes import Facts

# The doctor as another Python runs it, which must find there neither our packages nor those of the working folder.
IN_ANOTHER_PYTHON = """import sys
if sys.version_info < (3, 8):
    sys.stderr.write("firstlight: the doctor needs Python 3.8 or newer; this one is " + sys.version.split()[0] + "\\n")
    sys.exit(2)
sys.path[:] = [sys.argv[2]] + [folder for folder in sys.path if folder]
sys.argv[:3] = sys.argv[1:2]
from firstlight.cli import main
del sys.path[0]
sys.exit(main(["doctor"] + sys.argv[1:]))
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a ``firstlight`` command line and return its exit status.

    The package says with a ValueError what a user got wrong, the system with an OSError: that becomes one line, and the
    status 1.

    Parameters
    ----------
    argv
        The words behind ``firstlight``, by default those of this process.

    Examples
    --------
    >>> main(["doctor", "--facts", "no-such-file.json"])  # says so, and that it is no report
    2
    """
    parser = argparse.ArgumentParser(
        prog="firstlight", description="Find, describe and measure your GPU, and image with it."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        purpose = (run.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(run.__name__, help=purpose, description=purpose)
        command.set_defaults(run=run)
        return command

    command = add(doctor)
    command.add_argument("--json", action="store_true", help="the report for programs, with all facts")
    command.add_argument("--facts", type=Path, metavar="FILE", help="judge a report of --json, not this machine")
    command.add_argument("--python", metavar="PATH", help="examine what another Python has installed")
    command.add_argument("--root", type=Path, default=Path("/"), help="where /proc, /sys and /dev are (default: /)")
    command.add_argument(
        "--error", default="", metavar="TEXT", help="an error to explain; - reads it, @FILE takes a file"
    )
    add(devices)
    command = add(record)
    command.add_argument("examples", nargs="*", metavar="EXAMPLE", help="a script, or how a name begins: 1_setup/02")
    command.add_argument("--out", type=Path, default=Path("records"), help="the folder of records (default: records)")
    command.add_argument("--to", nargs="?", const="", metavar="FILE", help="one example: write its record to this file")
    command = add(records)
    command.add_argument("what", choices=["check"])
    command.add_argument("--strict", action="store_true", help="fail on stale records, too")
    command.add_argument("--root", type=Path, default=Path(), help="the folder that holds records/ and examples/")
    command = add(image)
    command.add_argument("data", type=Path, nargs="+", help="UVFITS, npz or a measurement set; several: its windows")
    command.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where to write (default: here)")
    command.add_argument("--overwrite", action="store_true", help="replace what was written before")
    command.add_argument(
        "--field", type=float, metavar="ARCSEC", help="the width of the image (default: by the source)"
    )
    command.add_argument("--phase-centre", metavar="RA,DEC", help="in degrees (ICRS), where the data do not say it")
    command.add_argument("--frequency", type=float, metavar="HZ", help="where the data do not say it")
    command.add_argument("--of", metavar="FIELD", help="of a measurement set: its name or number")
    command.add_argument("--dish", type=float, metavar="METRES", help="correct for the primary beam of such antennas")

    arguments = parser.parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError) as mistake:
        print(f"firstlight: {mistake}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("firstlight: interrupted; nothing half-written is left behind", file=sys.stderr)
        return 130
    return status


def doctor(arguments: argparse.Namespace) -> int:
    """Find out why there is no GPU, or that it is well, and say what to do."""
    import json
    import shutil
    from dataclasses import replace

    from firstlight.doctor import examine
    from firstlight.doctor.redaction import redacted, secrets
    from firstlight.doctor.shapes import LONGEST

    try:
        if not arguments.root.is_dir():
            raise ValueError(f"there is no folder {str(arguments.root)!r}")
        if arguments.python and not arguments.facts:
            return doctor_in(arguments)
        error = redacted(pasted(arguments.error)[-LONGEST:], secrets(os.environ))
        facts = kept_facts(arguments.facts) if arguments.facts else watched(arguments.root)
    except (ValueError, OSError) as mistake:  # 1 would say that the machine has a problem
        print(f"firstlight: {mistake}", file=sys.stderr)
        return 2
    if arguments.facts and error:  # then they belong together; here, the error may be another machine's
        facts = replace(facts, said=error)
    report = examine(facts, error or facts.said)
    if arguments.json:
        print(json.dumps(report.content(), indent=1))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        width = min(max(shutil.get_terminal_size((100, 24)).columns, 40), 120)
        text = report.text(colour, width)
        if not arguments.facts:
            text = f"Asked with Python {facts.system.python} ({facts.system.executable}):\n\n{text}"
        if sys.argv[0].endswith(".pyz"):  # then there is no command of this name
            text = text.replace("firstlight doctor", f"python3 {Path(sys.argv[0]).name}")
        print(printable(text, sys.stdout.encoding or "utf-8"))
    return int(report.status == "problem")


def doctor_in(arguments: argparse.Namespace) -> int:
    """Run the doctor with the Python that was named."""
    import subprocess

    ours = str(Path(__file__).parents[1])  # a folder of packages, or the archive
    options = ["--json"] * arguments.json + ["--root", str(arguments.root), f"--error={arguments.error}"]
    return subprocess.call([arguments.python, "-c", IN_ANOTHER_PYTHON, sys.argv[0], ours, *options])


def watched(root: Path) -> Facts:
    """Collect the facts, and say in a terminal what is being asked, as it can take a while."""
    from firstlight.doctor import collect
    from firstlight.doctor.children import in_child

    def ask(probe: str, env: Mapping[str, str], seconds: float) -> dict[str, Any]:
        said = {"cuda": "CUDA's driver", "nvml": "NVML", "torch": "PyTorch", "numba": "Numba"}[probe]
        print(f" {said} ...", end="", file=sys.stderr, flush=True)
        return in_child(probe, env, seconds)

    if not sys.stderr.isatty():
        return collect(root)
    print("Asking", end="", file=sys.stderr, flush=True)
    try:
        return collect(root, run=ask)
    finally:
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)


def pasted(error: str) -> str:
    """Take an error as it is, or read it: "-" from the standard input, "@FILE" from a file."""
    if error == "-":
        return sys.stdin.buffer.read().decode(errors="replace")
    return Path(error[1:]).read_bytes().decode(errors="replace") if error.startswith("@") else error


def kept_facts(file: Path) -> Facts:
    """Read the facts of a report, or bare facts. A ValueError says why a file is neither."""
    import json

    from firstlight.doctor.report import FORMAT
    from firstlight.doctor.shapes import Facts

    try:
        kept = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(file)!r} is not JSON: {error}") from None
    whole = isinstance(kept, dict) and "facts" in kept
    if whole and kept.get("format", FORMAT) != FORMAT:
        raise ValueError(f"{str(file)!r} is a report of format {kept['format']!r:.20}; this firstlight reads {FORMAT}")
    try:
        return Facts.of(kept["facts"] if whole else kept)
    except ValueError as error:
        raise ValueError(f"{str(file)!r} is no report: {error}") from None


def printable(text: str, encoding: str) -> str:
    """Write a text with what an encoding has; the marks of the ladder stay apart."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        marks = str.maketrans({"✓": "+", "✗": "x", "·": "-", "…": "..."})
        return text.translate(marks).encode(encoding, "replace").decode(encoding)
    return text


def devices(_: argparse.Namespace) -> int:
    """Describe each device of this machine, and mark the one that best_device() picks."""
    from firstlight.devices import VARIABLE, all_devices, best_device, card

    try:
        best = best_device()
        cards = {device: card(device).rows() for device in all_devices()}
    except ValueError:
        raise
    except Exception as error:  # a broken PyTorch, or a broken driver
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"PyTorch does not work here ({first:.200}). This finds out why: firstlight doctor") from None
    if wanted := os.environ.get(VARIABLE, "").strip():
        print(f"{VARIABLE}={wanted} chooses the device.\n")
    width = max(len(label) for rows in cards.values() for label, _ in rows)
    for device, rows in cards.items():
        print(f"{device} (best_device() picks this one)" if device == best else device)
        for label, value in rows:
            print(f"  {label:{width}}  {value}")
    return 0


def record(arguments: argparse.Namespace) -> int:
    """Run examples and record what they measure and print on this machine."""
    from firstlight.measure import recording

    if arguments.to == "":
        raise ValueError("the file to write is missing: name it behind --record or --to, such as mine.json")
    scripts = recording.scripts_named(arguments.examples)
    if arguments.to is None:
        return recording.record_all(scripts, arguments.out)
    if len(scripts) != 1:
        raise ValueError(f"--to takes one example; {' '.join(arguments.examples)!r} names {len(scripts)}")
    return recording.record_one(scripts[0], Path(arguments.to))


def records(arguments: argparse.Namespace) -> int:
    """Check that every record still belongs to the code beside it."""
    from firstlight.measure.records import check

    return check(arguments.root, strict=arguments.strict)


def image(arguments: argparse.Namespace) -> int:
    """Image visibilities: FITS files, a picture, and a report of how good the image is."""
    from dataclasses import replace

    import numpy as np

    from firstlight.devices import best_device
    from firstlight.imaging import check_image_grid, check_weights, read_visibilities, scale_weights
    from firstlight.imaging import image as make_image
    from firstlight.imaging.products import check_names, write_products

    name = arguments.data[0].name.partition(".")[0] or "image"
    if not arguments.overwrite:
        check_names(arguments.out, name)
    options = {"field": int(arguments.of) if arguments.of.isdigit() else arguments.of} if arguments.of else {}
    vis = read_visibilities(arguments.data if len(arguments.data) > 1 else arguments.data[0], **options)
    said = [f"{', '.join(map(str, arguments.data))}: {vis.data.size:,} visibilities, {vis.flagged.mean():.1%} flagged"]
    if arguments.phase_centre:
        vis = replace(vis, phase_centre=degrees(arguments.phase_centre))
    if vis.phase_centre is None:
        said.append("WARNING: the phase centre is not known, and the files do not say where they are: --phase-centre")
    if np.isnan(vis.frequency).any():
        if not arguments.frequency:
            raise ValueError("the data do not say their frequency: give it in Hz, such as --frequency 230e9")
        vis = replace(vis, frequency=np.full(len(vis.frequency), arguments.frequency))
    weights = check_weights(vis)
    if weights.wrong:
        said.append(f"WARNING: the weights were off, and are multiplied by {weights.worst:.3g}, as the data scatter")
        vis = scale_weights(vis, weights)
    elif np.isnan(weights.worst):
        said.append("WARNING: nothing tells whether the weights are right: no antennas and times, or too few")
    print("\n".join(said), flush=True)
    device = best_device()
    found = make_image(vis, field=arguments.field, device=device if device.type == "cuda" else "cpu")
    limits = [str(limit) for limit in check_image_grid(vis, found.coords) if limit.severity in ("warning", "error")]
    print("\n".join([*limits, str(found), ""]))
    head = "\n".join([*said, *limits, ""])
    for path in write_products(found, vis, arguments.out, name, dish=arguments.dish, head=head):
        print(path)
    return 0


def degrees(text: str) -> tuple[float, float]:
    """Read a right ascension and a declination."""
    try:
        ra, dec = map(float, text.split(","))
    except ValueError:
        raise ValueError(f"--phase-centre is two numbers of degrees, such as 83.8,-5.4; got {text!r}") from None
    return ra % 360, dec
