"""Every task of the project. All of them run in one environment, .venv, which tools/in_env.py makes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["docs", "tests"]

PYTHON = os.environ.get("PYTHON", sys.executable)
SPHINX = ("-c", ".", "-W", "-n", "--keep-going", "docs")


def run(session: nox.Session, *command: str) -> None:
    """Run a command in the project's environment."""
    session.run(PYTHON, "tools/in_env.py", *command, external=True)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site into build/html; one page: nox -s docs -- 2_devices/05."""
    page = [f"-Dsphinx_gallery_conf.filename_pattern=/{name}" for name in session.posargs[:1]]
    warnings = Path("build/warnings.txt")
    warnings.parent.mkdir(exist_ok=True)
    warnings.unlink(missing_ok=True)  # those of a build before
    try:
        run(session, "sphinx-build", *SPHINX, "-w", str(warnings), "build/html", *page)
    finally:
        if warnings.exists() and (text := warnings.read_text(encoding="utf-8").strip()):
            print(f"\nWhat is to be mended:\n{text}")
    print(f"\nOpen {Path('build/html/index.html').resolve().as_uri()}")


@nox.session(name="docs-live")
def docs_live(session: nox.Session) -> None:
    """Build the site, serve it, and rebuild and reload it at every save."""
    made = (r".*/docs/tutorials/.*", r".*/build/.*", r".*\.(new|pyc)$", r".*/__pycache__/.*")
    ignored = [part for pattern in made for part in ("--re-ignore", pattern)]
    folders = ("conf.py", "src", *(str(source) for source in Path().glob("*/src")), "examples", "records")
    watched = [part for folder in folders for part in ("--watch", folder)]
    run(session, "sphinx-autobuild", *watched, *ignored, *SPHINX, "build/html", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the quick tests, without pages that were green as they are now; all tests: nox -s tests -- --all."""
    what = session.posargs or ["--changed"]
    if "--all" in what:
        suites = "tests kernels/tests imaging/tests doctor/tests rehearsal"
        what = ["-m", "", "-o", f"testpaths={suites}", *(argument for argument in what if argument != "--all")]
    # One worker tests a file, for what its tests share, the longest files not last. Each has one thread, or they would
    # wait for each other.
    session.env.update(dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))
    run(session, "python", "-m", "pytest", "-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder", *what)


@nox.session
def rehearse(session: nox.Session) -> None:
    """Run pages on a GPU that is not there; -- all: on every card; -- 3_kernels/11: one page."""
    what = ["--card", "all"] if session.posargs == ["all"] else session.posargs
    run(session, "python", "rehearsal/rehearse.py", *what)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style (ruff, Biome), spelling (codespell), workflows (zizmor), and size (no folder of sources grows)."""
    run(session, "ruff", "check", ".")
    run(session, "ruff", "format", "--check", ".")
    run(session, "codespell")
    run(session, "zizmor", "--offline", "--quiet", ".github")
    run(session, "python", "tools/code_lines.py")
    run(session, "python", "tools/checkers.py", "@biomejs/biome", "--", "biome", "ci", "--error-on-warnings")


@nox.session
def types(session: nox.Session) -> None:
    """Check types (mypy, strict; TypeScript for what runs on the reader's GPU)."""
    run(session, "mypy")
    run(session, "python", "tools/checkers.py", "typescript", "--", "tsc", "--project", "docs/web/gpu/jsconfig.json")


@nox.session
def links(session: nox.Session) -> None:
    """Check that the pages' links to other sites still lead somewhere (needs the network)."""
    run(session, "sphinx-build", "-c", ".", "-b", "linkcheck", "-Dplot_gallery=0", "-Dnb_execution_mode=off",
        "docs", "build/links", *session.posargs)  # fmt: skip


@nox.session
def browser(session: nox.Session) -> None:
    """Drive the built site in Chromium (after docs)."""
    run(session, "python", "tools/checkers.py", "axe-core", "vnu-jar")
    run(session, "python", "-m", "pytest", "tests/browser", "-n", "auto", *session.posargs)


@nox.session
def record(session: nox.Session) -> None:
    """Record the examples on this machine; one of them: -- 1_setup/02."""
    run(session, "firstlight", "record", *session.posargs)
    run(session, "firstlight", "records", "check")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure side by side with other packages; one benchmark: -- timing."""
    for name in session.posargs[:1] or [path.stem for path in sorted(Path("benchmarks").glob("*.py"))]:
        run(session, "python", f"benchmarks/{name}.py", *session.posargs[1:])


if __name__ == "__main__":
    nox.main()
