"""Sphinx in this process: a small site takes a tenth of what it takes in a new one, which imports everything again."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from copy import deepcopy
from pathlib import Path
from unittest import mock

import matplotlib.pyplot as plt
from sphinx.cmd.build import build_main
from sphinx.config import Config

from firstlight import display


def sphinx_build(folder: Path, *arguments: str, **environment: str) -> tuple[bool, str]:
    """Run the command in a folder: whether it failed, and what it printed. What it changes around it is put back."""
    out = io.StringIO()
    plt.close("all")  # what tests before have left open would be an example's
    with contextlib.ExitStack() as stack:
        for around in (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
            mock.patch.dict(os.environ, environment | {"NO_COLOR": "1"}),
            mock.patch.object(sys, "path", [*sys.path]),  # examples add to it
            mock.patch.object(Config, "config_values", deepcopy(Config.config_values)),  # extensions change the lists
            mock.patch.object(display, "on_page", False),
            warnings.catch_warnings(),
        ):
            stack.enter_context(around)
        for ignored in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):  # by Python, not by pytest
            warnings.simplefilter("ignore", ignored)
        failed = build_main(arguments) != 0
    return failed, out.getvalue()
