"""Run a command in the project's environment (.venv), which is made first where it is missing, cut off or out of date.

    python3 tools/in_env.py nox -s docs

Standard library only, and no syntax newer than Python 3.6: an old Python must get as far as the message that says so.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENV = Path(os.environ.get("FIRSTLIGHT_ENV") or ROOT / ".venv")
STAMP = ENV / "firstlight-env"
BIN = ENV / ("Scripts" if os.name == "nt" else "bin")
PINNED_PYTHON = (3, 11)


def stop(message):  # type: (str) -> None
    """End with one line that a person can act on."""
    sys.exit("firstlight: " + message)


def check_python():  # type: () -> None
    """Refuse, in words, a Python that cannot make the environment."""
    if sys.version_info < (3, 11):
        found = ".".join(map(str, sys.version_info[:2]))
        stop(f"Python 3.11 or newer is needed, and {sys.executable} is {found}. Try: make PYTHON=python3.11 …")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        stop(f"{sys.executable} has no venv module. On Debian or Ubuntu: sudo apt install python3-venv")


def fingerprint():  # type: () -> str
    """Everything that decides what is installed: what is asked for, the folder, and the pinned versions.

    Other edits of pyproject.toml reinstall nothing. The folder counts, because a copied environment would run the code
    of the original, and so do the names of the pins: an environment that is kept may differ in versions alone.
    """
    import tomllib

    keys = ("name", "requires-python", "dependencies", "optional-dependencies", "scripts", "entry-points")
    projects = [tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")) for folder in folders()]
    asked = [[project["project"].get(key) for key in keys] for project in projects]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    text = repr(
        (
            sys.version_info[:3],
            asked,
            projects[0]["dependency-groups"],
            re.findall(r"(?m)^[\w.-]+", pins),
            Path(__file__).read_text(encoding="utf-8"),
        )
    )
    hashes = [hashlib.sha256(part.encode()).hexdigest() for part in (text, pins)]
    return "\n".join([hashes[0], str(ROOT), hashes[1]])


def folders():  # type: () -> list[Path]
    """Return the folders of our projects, of which the first is the root."""
    return [ROOT, *sorted(file.parent for file in ROOT.glob("*/pyproject.toml"))]


def run(*command):  # type: (object) -> None
    """Run one step of the installation; its failure ends everything and says how to go on."""
    print("$", *command, flush=True)
    result = subprocess.run([str(part) for part in command], cwd=ROOT)
    if result.returncode:
        stop(
            f"this step failed (its messages are above): {' '.join(map(str, command))}\n"
            "firstlight: what is there is kept; mend the cause (network? disk space?) and give the same command again."
        )


def install(anew):  # type: (bool) -> None
    """Make the environment, or go on with one; the stamp says "unfinished" until the last step is done."""
    print("Making" if anew else "Going on with", "the environment in", ENV, "(a few minutes, about 4 GB)", flush=True)
    ENV.mkdir(parents=True, exist_ok=True)
    STAMP.write_text(fingerprint().rpartition("\n")[0] + "\nunfinished", encoding="utf-8")  # and whose folder this is
    for old in set(ENV.iterdir()) - {STAMP} if anew else cut_off():
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink()
    run(getattr(sys, "_base_executable", sys.executable), "-m", "venv", ENV)
    python = BIN / "python"
    pins = ["--constraint", "constraints.txt"] if sys.version_info[:2] == PINNED_PYTHON else []
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", *pins]
    editable = [part for folder in folders()[1:] for part in ("--editable", folder)]
    run(*pip, "--upgrade", "pip>=25.1")
    run(*pip, "--editable", ".[torch,kernels,imaging,doctor]", *editable, "--group", "dev")
    # Compiles the kernels of a fit, so that no reader waits for it.
    run(python, "-m", "firstlight_imaging.fitting.fit_loop")
    STAMP.write_text(fingerprint(), encoding="utf-8")


def cut_off():  # type: () -> list[Path]
    """Return what pip had only begun to install, and would take for whole: it writes the RECORD of a package last."""
    return [info for info in ENV.rglob("*.dist-info") if not (info / "RECORD").exists()]


def main():  # type: () -> None
    """Bring the environment up to date, then become the command."""
    check_python()
    if ENV.exists() and any(ENV.iterdir()) and not STAMP.exists():
        stop(
            f"{ENV} was not made by this project and is left alone. "
            "Move it away, or set FIRSTLIGHT_ENV to another folder."
        )
    stamp = STAMP.read_text(encoding="utf-8") if STAMP.exists() else ""
    owner = "".join(stamp.splitlines()[1:2])
    if owner not in ("", str(ROOT)) and os.environ.get("FIRSTLIGHT_ENV"):
        stop(f"{ENV} runs the code of {owner}. Set FIRSTLIGHT_ENV to a folder for this one, {ROOT}.")
    if stamp != fingerprint():
        install(anew=stamp.rpartition("\n")[0] != fingerprint().rpartition("\n")[0])
    if len(sys.argv) > 1:
        path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
        env = dict(os.environ, PATH=path, VIRTUAL_ENV=str(ENV))
        command = shutil.which(sys.argv[1], path=path) or sys.argv[1]
        try:
            sys.exit(subprocess.run([command, *sys.argv[2:]], env=env).returncode)
        except FileNotFoundError:
            stop(f"there is no command {sys.argv[1]!r} in {ENV}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        stop("interrupted. Give the same command again to go on.")
