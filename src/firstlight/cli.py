"""The ``firstlight`` command. Each subcommand is one function, which loads what it needs when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import distributions, entry_points
from pathlib import Path

from firstlight import __version__

# Commands of the projects beside this one: the wheel of each, and what it is for.
BESIDE = {
    "doctor": ("firstlight-doctor", "Find out why there is no GPU, or that it is well, and say what to do."),
    "image": ("firstlight-imaging", "Image visibilities: FITS files, a picture, and a report on the image."),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a ``firstlight`` command line and return its exit status.

    The package says with a ValueError what a user got wrong, the system with an OSError: that becomes one line, and the
    status 1; 2 for an ImportError.

    Parameters
    ----------
    argv
        The words behind ``firstlight``, by default those of this process.

    Examples
    --------
    >>> main(["record", "9_nowhere"])  # says that there is no such example, and which there are
    1
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # it was closed, as by >&-
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nothing, "w" if number else "r", encoding="utf-8", closefd=False))
    parser = argparse.ArgumentParser(
        prog="firstlight", description="Find, describe and measure your GPU, and image with it."
    )
    # A wheel from the site has a newer version than the release that its code has the number of.
    version = next((installed.version for installed in distributions(name="firstlight")), __version__)
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        purpose = (run.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(run.__name__.rstrip("_"), help=purpose, description=purpose)
        command.set_defaults(run=run)
        return command

    for name, (wheel, purpose) in BESIDE.items():
        command = commands.add_parser(name, help=purpose, description=purpose, add_help=False)
        command.add_argument("words", nargs="*", help=f"see {wheel} --help")
        command.set_defaults(run=beside, command=name)
    add(devices)
    saved = "a file with what nvidia-smi printed elsewhere (default: ask it here)"
    add(today).add_argument("file", nargs="?", type=Path, help=saved)
    command = add(record)
    command.add_argument("examples", nargs="*", metavar="EXAMPLE", help="a script, or how a name begins: 1_setup/02")
    command.add_argument("--out", type=Path, default=Path("records"), help="the folder of records (default: records)")
    command.add_argument("--to", type=Path, metavar="FILE", help="one example: write its record to this file")
    command = add(try_)
    command.add_argument("script", type=Path, help="the script of a page, with your answer in place of the dots")
    command.add_argument(
        "--check", type=Path, metavar="PAGE", help="take only the answer from the script, all else here"
    )
    command = add(records)
    command.add_argument("what", choices=["check"])
    command.add_argument("--strict", action="store_true", help="fail on stale records, too")
    command.add_argument("--root", type=Path, default=Path(), help="the folder that holds records/ and examples/")
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] and words[0] in BESIDE:  # their options are their own
        words = [words[0], "--", *words[1:]]
    status = 1
    try:
        try:
            arguments = parser.parse_args(words)
            status = arguments.run(arguments)
        finally:
            sys.stdout.flush()
    except (ImportError, OSError, ValueError) as mistake:
        status = 2 if isinstance(mistake, ImportError) else 1
        if not isinstance(mistake, BrokenPipeError):  # else, whoever read the output has enough of it
            print(f"firstlight: {mistake}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # Python would try to write it once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("firstlight: interrupted; nothing half-written is left behind", file=sys.stderr)
        status = 130
    runner = sys.modules.get("firstlight.records.runner")
    if argv is None and runner and (left := runner.still_running()):  # Python would wait for them, perhaps for ever
        for process in (one for one in left if hasattr(one, "kill")):
            process.kill()
        os._exit(status)
    return status


def beside(arguments: argparse.Namespace) -> int:
    """Run the command of a project beside this one, which says by an entry point that it has one."""
    for found in entry_points(group="firstlight.commands", name=arguments.command):
        status: int = found.load()(arguments.words, prog=f"firstlight {arguments.command}")
        return status
    wheel = BESIDE[arguments.command][0]
    raise ValueError(
        f"{wheel} is not installed. The page Install of the site offers its wheel; in a clone: "
        f"python -m pip install ./{wheel.removeprefix('firstlight-')}"
    )


def devices(_: argparse.Namespace) -> int:
    """Describe each device of this machine, and mark the one that best_device() picks."""
    from firstlight.devices import VARIABLE, all_devices, best_device, card

    best: object = None
    try:
        best = best_device()
        cards = {str(device): card(device).rows() for device in all_devices()}
    except ValueError:
        raise
    except Exception as error:  # no PyTorch, a broken one, or a broken driver
        if not isinstance(error, ModuleNotFoundError) or error.name != "torch":
            first = (str(error).splitlines() or [type(error).__name__])[0]
            words = f"PyTorch does not work here ({first:.200}). This finds out why: firstlight doctor"
            raise ValueError(words) from None
        print(f"{error}\n")
        cards = {"cpu": card("cpu").rows()}
    if wanted := os.environ.get(VARIABLE, "").strip():
        print(f"{VARIABLE}={wanted} chooses the device.\n")
    width = max(len(label) for rows in cards.values() for label, _ in rows)
    for device, rows in cards.items():
        print(f"{device} (best_device() picks this one)" if device == str(best) else device)
        for label, value in rows:
            print(f"  {label:{width}}  {value}")
    return 0


def today(arguments: argparse.Namespace) -> int:
    """Say at what clock, in what slice and in what slot an NVIDIA card is, and which floors of the site that raises."""
    from firstlight.timing.today import ask, read

    if arguments.file:
        with arguments.file.open("rb") as file:
            cards = read(file.read(2**20))  # /dev/zero has no end
    else:
        cards = read(ask())
    print("\n\n".join(card.table().text() for card in cards))
    return 0


def record(arguments: argparse.Namespace) -> int:
    """Run examples and record what they measure and print on this machine."""
    from firstlight.records import recorder as recording

    scripts = recording.scripts_named(arguments.examples)
    if arguments.to is None:
        return recording.record_all(scripts, arguments.out)
    if len(scripts) != 1:
        raise ValueError(f"--to takes one example; {' '.join(arguments.examples)!r} names {len(scripts)}")
    return recording.record_one(scripts[0], arguments.to)


def try_(arguments: argparse.Namespace) -> int:
    """Check your answer to the exercise of a page, without running the rest of it; status 1 unless it is right."""
    from firstlight.records.exercise import try_exercise

    return int(not try_exercise(arguments.script, arguments.check))


def records(arguments: argparse.Namespace) -> int:
    """Check that every record still belongs to the code beside it."""
    from firstlight.records.record import check

    return check(arguments.root, strict=arguments.strict)
