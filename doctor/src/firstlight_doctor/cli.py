"""The ``firstlight-doctor`` command. It runs on Python 3.8, too, and from an archive: see make_pyz.py."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Mapping, Sequence

from firstlight_doctor import __version__
from firstlight_doctor.errors import PLACES

if TYPE_CHECKING:
    from firstlight_doctor.schema import Facts

MAX_REPORT = 50_000_000  # bytes
PROBES = {"cuda": "CUDA's driver", "nvml": "NVML", "torch": "PyTorch", "numba": "Numba"}

# The doctor as another Python runs it, which must find there neither our packages nor those of the working folder.
IN_ANOTHER_PYTHON = """import sys
if sys.version_info < (3, 8):
    sys.stderr.write("firstlight-doctor: Python 3.8 or newer is needed; this one is " + sys.version.split()[0] + "\\n")
    sys.exit(2)
sys.path[:] = [sys.argv[2]] + [folder for folder in sys.path if folder]
sys.argv[:3] = sys.argv[1:2]
from firstlight_doctor.cli import main
del sys.path[0]
sys.exit(main(sys.argv[1:]))
"""


def main(argv: Sequence[str] | None = None, prog: str = "firstlight-doctor") -> int:
    """Run a ``firstlight-doctor`` command line and return its exit status.

    Parameters
    ----------
    argv
        The words behind ``firstlight-doctor``, by default those of this process.
    prog
        What the command is called in its own messages.

    Examples
    --------
    >>> main(["--facts", "no-such-file.json"])  # says that there is no such file
    2
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # it was closed, as by >&-
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nothing, "w" if number else "r", encoding="utf-8", closefd=False))
    parser = argparse.ArgumentParser(
        prog=prog, description="Find out why there is no GPU, or that it is well, and say what to do."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--json", action="store_true", help="the report for programs, with all facts")
    parser.add_argument("--facts", type=Path, metavar="FILE", help="judge a report of --json, not this machine")
    parser.add_argument("--python", metavar="PATH", help="examine what another Python has installed")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where /proc, /sys and /dev are (default: /)")
    parser.add_argument(
        "--error", default="", metavar="TEXT", help="an error to explain; - reads it, @FILE takes a file"
    )
    parser.add_argument("--where", default="", choices=PLACES, help="where the program with this error runs")
    arguments = parser.parse_args(argv)
    if sys.flags.optimize > 1:  # all that the doctor has to say stands in its docstrings
        parser.error("python -OO takes the doctor's texts away: run it without -OO and PYTHONOPTIMIZE")
    try:
        status = doctor(arguments, prog)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError) as mistake:  # 1 would say that the machine has a problem
        print(f"{prog}: {mistake}", file=sys.stderr)
        if isinstance(mistake, OSError) and mistake.errno == errno.ENOSPC:  # Python would try to write it once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    return status


def doctor(arguments: argparse.Namespace, prog: str) -> int:
    """Find out why there is no GPU, or that it is well, and say what to do."""
    import json
    import shutil
    from dataclasses import replace

    from firstlight_doctor import examine
    from firstlight_doctor.redaction import redacted, secrets
    from firstlight_doctor.schema import LONGEST

    if not arguments.root.is_dir():
        raise ValueError(f"there is no folder {str(arguments.root)!r}")
    if arguments.python and not arguments.facts:
        return doctor_in(arguments)
    error = redacted(pasted(arguments.error)[-LONGEST:], secrets(os.environ))
    facts = kept_facts(arguments.facts) if arguments.facts else collected(arguments.root)
    if arguments.facts and error:  # then they belong together; here, the error may be another machine's
        facts = replace(facts, said=error)
    report = examine(facts, error or facts.said, arguments.where)
    if arguments.json:
        print(json.dumps(report.content(), indent=1))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        width = min(max(shutil.get_terminal_size((100, 24)).columns, 40), 120)
        text = report.text(colour, width)
        if not arguments.facts:
            text = f"Asked with Python {facts.system.python} ({facts.system.executable}):\n\n{text}"
        archive = sys.argv[0].endswith(".pyz")  # then there is no command of this name
        called = f"python3 {Path(sys.argv[0]).name}" if archive else prog
        text = text.replace("$ firstlight-doctor ", f"$ {called} ")
        print(printable(text, sys.stdout.encoding or "utf-8"))
    return int(report.status == "problem")


def doctor_in(arguments: argparse.Namespace) -> int:
    """Run the doctor with the Python that was named."""
    import subprocess

    if subprocess.call([arguments.python, "-c", "raise SystemExit(42)"], stdout=subprocess.DEVNULL) != 42:
        raise ValueError(f"{arguments.python!r} is no Python: name one, such as env/bin/python")
    ours = str(Path(__file__).parents[1])  # a folder of packages, or the archive
    options = ["--json"] * arguments.json + ["--root", str(arguments.root), f"--error={arguments.error}"]
    options += ["--where", arguments.where] if arguments.where else []
    return subprocess.call([arguments.python, "-c", IN_ANOTHER_PYTHON, sys.argv[0], ours, *options])


def collected(root: Path) -> Facts:
    """Collect the facts, and say in a terminal what is being asked, as it can take a while."""
    from firstlight_doctor import collect
    from firstlight_doctor.children import in_child

    def ask(probe: str, env: Mapping[str, str], seconds: float) -> dict[str, Any]:
        print(f"\rAsking {PROBES[probe]} ...{'':20}", end="", file=sys.stderr, flush=True)
        return in_child(probe, env, seconds)

    if not sys.stderr.isatty():
        return collect(root)
    try:
        return collect(root, run=ask)
    finally:
        print(f"\r{'':40}\r", end="", file=sys.stderr, flush=True)


def pasted(error: str) -> str:
    """Take an error as it is, or read it: "-" from the standard input, "@FILE" from a file."""
    if error != "-" and not error.startswith("@"):
        return error
    text = b""
    with nullcontext(sys.stdin.buffer) if error == "-" else opened(Path(error[1:])) as file:
        while piece := file.read(1_000_000):  # of a log without end, the end is kept
            text = (text + piece)[-1_000_000:]
    return text.decode(errors="replace")


def opened(file: Path) -> BinaryIO:
    """Open a file; one without an end, such as a device or a pipe, is refused."""
    if file.exists() and not file.is_file() and not file.is_dir():
        raise ValueError(f"{str(file)!r} is a device or a pipe; expected a file")
    return file.open("rb")


def kept_facts(file: Path) -> Facts:
    """Read the facts of a report, or bare facts. A ValueError says why a file is neither."""
    import json

    from firstlight_doctor.report import FORMAT
    from firstlight_doctor.schema import Facts

    with opened(file) as stream:
        text = stream.read(MAX_REPORT + 1)
    if len(text) > MAX_REPORT:
        raise ValueError(f"{str(file)!r} is no report: it has more than {MAX_REPORT / 1e6:.0f} MB")
    try:
        kept = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(file)!r} is not JSON: {error}") from None
    whole = isinstance(kept, dict) and "facts" in kept
    if whole and kept.get("format", FORMAT) != FORMAT:
        raise ValueError(
            f"{str(file)!r} is a report of format {kept['format']!r:.20}; this firstlight-doctor reads {FORMAT}"
        )
    try:
        return Facts.of(kept["facts"] if whole else kept)
    except ValueError as error:
        raise ValueError(f"{str(file)!r} is no report: {error}") from None


def printable(text: str, encoding: str) -> str:
    """Write a text with what an encoding has; the marks of the checks stay apart."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        marks = str.maketrans({"✓": "+", "✗": "x", "·": "-", "…": "..."})
        return text.translate(marks).encode(encoding, "replace").decode(encoding)
    return text
