"""Install the lowest versions that the four projects ask for, apart from .venv, and run a page of each with them.

It needs the network, and some gigabytes: `python tools/lowest.py`. uv resolves, because pip can't ask for the lowest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from projects import FOLDERS, ROOT

PAGES = ("1_setup/01", "1_setup/02", "2_devices/01", "3_kernels/01", "3_kernels/08", "3_kernels/10", "4_imaging/01")


def main() -> None:
    """Stop at what fails first: its command is the last one printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, pins = folder / "env/bin/python", folder / "lowest.txt"
        projects = [str(project / "pyproject.toml") for project in FOLDERS.values()]

        def run(*command: str | Path) -> None:
            print(*command, flush=True)
            subprocess.run([*map(str, command)], cwd=folder, check=True, env={**os.environ, "MPLBACKEND": "Agg"})

        run(sys.executable, "-m", "venv", folder / "env")
        run(python, "-m", "pip", "install", "uv")
        run(python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "wheels", *FOLDERS.values())
        asked = ("--all-extras", "--resolution", "lowest-direct", "--find-links", "wheels")
        uv = (python, "-m", "uv", "pip")
        run(*uv, "compile", *projects, *asked, "--python", python, "--output-file", pins)
        packages = ("--find-links", "wheels", "-r", pins, "firstlight", "scikit-learn")
        run(*uv, "install", "--python", python, *packages)
        for page in PAGES:
            run(python, *ROOT.glob(f"examples/{page}*.py"))


if __name__ == "__main__":
    main()
