"""Code that needs a Python of its own, because the libraries that are imported already decide what it does."""

import os
import subprocess
import sys
from textwrap import dedent


def environment(**variables: str) -> dict[str, str]:
    """Return this environment with other variables, and without those that decide what Numba and CUDA do."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA_", "CUDA_"))} | variables


def printed_by(code: str, env: dict[str, str] | None = None) -> str:
    """Run code in a new process and return what it prints; it may neither fail nor warn."""
    command = [sys.executable, "-W", "error", "-c", dedent(code)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
