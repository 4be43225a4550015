"""The ``firstlight`` command. Each subcommand is one function, which loads what it needs when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from firstlight import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run a ``firstlight`` command line and return its exit status.

    The package says with a ValueError what a user got wrong: that becomes one line, and the status 1.

    Parameters
    ----------
    argv
        The words behind ``firstlight``, by default those of this process.

    Examples
    --------
    >>> status = main(["devices"])  # doctest: +SKIP
    """
    parser = argparse.ArgumentParser(prog="firstlight", description="Find, describe and measure your GPU.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        purpose = (run.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(run.__name__, help=purpose, description=purpose)
        command.set_defaults(run=run)
        return command

    add(devices)

    arguments = parser.parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except ValueError as mistake:
        print(f"firstlight: {mistake}", file=sys.stderr)
        return 1
    return status


def devices(_: argparse.Namespace) -> int:
    """Describe each device of this machine, and mark the one that best_device() picks."""
    from firstlight.devices import VARIABLE, all_devices, best_device, card

    best = best_device()
    if wanted := os.environ.get(VARIABLE, "").strip():
        print(f"{VARIABLE}={wanted} chooses the device.\n")
    cards = {device: card(device).rows() for device in all_devices()}
    width = max(len(label) for rows in cards.values() for label, _ in rows)
    for device, rows in cards.items():
        print(f"{device} (best_device() picks this one)" if device == best else device)
        for label, value in rows:
            print(f"  {label:{width}}  {value}")
    return 0
