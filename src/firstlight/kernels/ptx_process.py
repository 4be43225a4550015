"""Keep one process that compiles, ask it, and wait no longer than a limit; it ends with this one."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any

LIMIT_SECONDS = 60.0
CHILD = Path(__file__).with_name("ptx_child.py")


class NoAnswerError(Exception):
    """The process ended, or took too long."""


class AbsentError(Exception):
    """The process finds no compiler; the next one may, since it may be installed meanwhile."""


class Process:
    """A Python with Numba's simulator off: started by the first question, and again by the next one after it ended."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = Lock()

    def ask(self, question: bytes) -> dict[str, Any]:
        """Return its answer, or raise NoAnswerError or AbsentError."""
        with self._lock:
            with suppress(EOFError):  # killed since the last question: another one is started
                return self._once(question)
            try:
                return self._once(question)
            except EOFError:
                raise NoAnswerError("the compiler crashed, twice. Simplify the kernel until it does not") from None

    def _once(self, question: bytes) -> dict[str, Any]:
        child, late = self._running(), Event()

        def cut_off() -> None:
            late.set()
            kill(child)

        watch = Timer(LIMIT_SECONDS, cut_off)
        watch.start()
        answered = False
        try:
            pickle.dump(question, child.stdin)  # type: ignore[arg-type]
            child.stdin.flush()  # type: ignore[union-attr]
            answer: dict[str, Any] = pickle.load(child.stdout)  # type: ignore[arg-type]
            if "absent" in answer:
                raise AbsentError(answer["absent"])
            answered = True
        except (OSError, EOFError, pickle.UnpicklingError):
            if late.is_set():
                raise NoAnswerError(
                    f"the compiler needed more than {LIMIT_SECONDS:g} seconds and was stopped"
                ) from None
            raise EOFError from None
        finally:  # also when the reader interrupts: half an answer must not be taken for the next one
            watch.cancel()
            if not answered:
                self.stop()
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        forked = self._owner != os.getpid()  # then the process answers the program that this one was forked from
        if self._child is None or forked or self._child.poll() is not None:
            self.stop()
            inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
            self._child = subprocess.Popen(
                [sys.executable, "-P", str(CHILD)],  # -P: its folder has a cuda.py, which is not NVIDIA's `cuda`
                env=inherited | {"NUMBA_ENABLE_CUDASIM": "0", "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C does not reach it, and what it started dies with it
            )
            self._owner = os.getpid()
        return self._child

    def stop(self) -> None:
        """End the process if it is ours."""
        child, self._child = self._child, None
        if child is None or self._owner != os.getpid():
            return
        kill(child)
        for pipe in (child.stdin, child.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        child.wait()


def kill(child: subprocess.Popen[bytes]) -> None:
    """End a process, and those that it started."""
    with suppress(OSError):
        if sys.platform == "win32":
            child.kill()
        elif child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)


PROCESS = Process()
atexit.register(PROCESS.stop)


@lru_cache(maxsize=256)
def asked(question: bytes) -> dict[str, Any]:
    """Return the answer to a pickled question; the same one is asked once."""
    return PROCESS.ask(question)
