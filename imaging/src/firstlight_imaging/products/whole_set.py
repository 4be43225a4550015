"""Replace a set of files as a whole, or leave what was there: whatever stops a run, nothing half-written is left."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_OWNER = ".owner"  # the process that writes, and its machine
_MAPS = ("image", "model", "error", "dirty", "residual", "restored", "pbcor")
# Of all that may be in a set.
SUFFIXES = (*(f"{kind}.fits" for kind in _MAPS), "gains.npz", "gains.png", "png", "txt", "json")


@contextmanager
def whole_set(folder: Path, name: str, *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary folder for products; in the end all that it holds replaces the set of that name, or nothing.

    Before, it raises an error where a file exists, another run is at work, or nothing can be written.
    """
    _check_free(folder, name, overwrite)
    temporary, is_new = folder / f".{name}.tmp", not folder.exists()
    if temporary.exists() and _is_abandoned(temporary):
        shutil.rmtree(temporary)
    if temporary.exists():
        raise FileExistsError(
            f"{temporary} exists: another run is making {name}. If none is, since one was killed, remove that folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
    except OSError as error:
        raise OSError(f"nothing can be written into {folder}: {error}. Choose another folder (--out)") from error
    try:
        (temporary / _OWNER).write_text(f"{os.getpid()} {platform.node()}")
        longest = temporary / f"{name}.{max(SUFFIXES, key=len)}"
        longest.touch()
        longest.unlink()
        yield temporary
        (temporary / _OWNER).unlink()
        _check_free(folder, name, overwrite)
        _exchange(folder, name, temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _is_abandoned(temporary: Path) -> bool:
    """Return whether the run that made a temporary folder was one of this machine, and is no more."""
    try:
        process, machine = (temporary / _OWNER).read_text().split(" ", 1)
        if machine != platform.node() or os.name == "nt":  # there, the signal 0 would end the process
            return False
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False
    return False


def _existing(folder: Path, name: str) -> list[Path]:
    """Return those files of a set that exist."""
    return [path for suffix in SUFFIXES if os.path.lexists(path := folder / f"{name}.{suffix}")]


def _check_free(folder: Path, name: str, overwrite: bool) -> None:
    """Raise an error if something is where a file would be written."""
    for path in _existing(folder, name):
        if not overwrite or path.is_dir():
            raise FileExistsError(f"{path} exists; choose another folder (--out), or replace all files (--overwrite)")


def _exchange(folder: Path, name: str, temporary: Path) -> None:
    """Move the files of a set out of a folder, and the new ones in; if that fails, all are back where they were."""
    new, old = list(temporary.iterdir()), temporary / "old"
    old.mkdir()
    moves = [(path, old / path.name) for path in _existing(folder, name)]
    moves += [(path, folder / path.name) for path in new]
    try:
        for path, target in moves:
            path.replace(target)
    except BaseException:
        for path, target in reversed(moves):
            if not os.path.lexists(path):
                target.replace(path)
        raise
