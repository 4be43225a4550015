"""Load the names of a sub-package when they are first used, and say how to install what imaging alone needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazy_loader

_EXTRA = ("astropy", "erfa", "finufft", "scipy")  # what firstlight-imaging brings


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, whose names its stub lists."""
    load, names, public = lazy_loader.attach_stub(package, file)

    def load_or_explain(name: str) -> Any:
        try:
            return load(name)
        except ModuleNotFoundError as error:
            missing = str(error.name).partition(".")[0]
            if missing not in _EXTRA:
                raise
            raise ModuleNotFoundError(
                f"firstlight_imaging needs {missing}: python -m pip install 'firstlight-imaging'", name=missing
            ) from error

    return load_or_explain, names, public
