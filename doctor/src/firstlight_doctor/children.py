"""Run each probe in a process of its own, which may hang, crash and print what it likes."""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from firstlight_doctor.schema import HUNG

GRACE = 3.0  # seconds in which a process that was stopped has to end
_RUNNING: set[subprocess.Popen[bytes]] = set()


def in_child(probe: str, env: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Run a probe, and return what it found out before it ended, however it ended."""
    code = (pkgutil.get_data("firstlight_doctor", "probes.py") or b"").decode()  # no path: it may lie in an archive
    flags = [] if probe in ("torch", "numba") else ["-S"]  # without packages Python starts sooner
    try:
        # In a session of its own, so that what it started dies with it.
        child = subprocess.Popen(
            [sys.executable, *flags, "-c", code, probe, str(seconds)],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # too large an environment, a zero byte in it
        return {"failed": f"could not be started: {error}"}
    _RUNNING.add(child)
    try:
        out, err, failed = outcome(child, seconds)
    finally:
        stop(child)
        _RUNNING.discard(child)
    found: dict[str, Any] = {}
    for line in out.splitlines():
        with suppress(ValueError, RecursionError):
            content = json.loads(line)
            found = content if isinstance(content, dict) else found
    if out.endswith(b"end\n"):
        return found
    last = err.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
    return {**found, "failed": failed or f"{ending(child)}: {last[0][:500]}"}


def outcome(child: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bytes, str | None]:
    """Wait for a process, and return what it wrote and why it was stopped, if it was."""
    try:
        return *child.communicate(timeout=seconds), None
    except subprocess.TimeoutExpired:
        stop(child)
        failed = f"{HUNG}: it was stopped after {seconds:.0f} seconds"
    try:
        return *child.communicate(timeout=GRACE), failed
    except subprocess.TimeoutExpired as late:  # it hangs inside the kernel, where no signal reaches it
        return late.output or b"", late.stderr or b"", failed


def ending(child: subprocess.Popen[bytes]) -> str:
    """Tell how a process ended."""
    code = child.returncode
    return f"was killed by signal {-code}" if code < 0 else f"ended with {code}"


def stop_all() -> None:
    """End all probes, so that the threads which wait for them end, too."""
    for child in tuple(_RUNNING):
        stop(child)


def stop(child: subprocess.Popen[bytes]) -> None:
    """End a process if it still runs, and those that it started."""
    with suppress(OSError):
        if sys.platform == "win32":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)
