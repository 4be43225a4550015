"""End the KaTeX servers that Sphinx's worker processes start: those processes leave without the clean-up that would."""

from __future__ import annotations

import multiprocessing
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any

from sphinxcontrib.katex import KATEX_DEFAULT_OPTIONS, KaTeXServer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

start_server = KaTeXServer.start


def start_and_end() -> Any:
    """Start a server that ends with this process, worker or not."""
    server = start_server()
    if multiprocessing.parent_process() is not None:
        Finalize(server, server.terminate, exitpriority=1)
    return server


def setup(app: Sphinx) -> None:
    """Take the place of the server's start, and let wrong mathematics fail the build instead of showing in red."""
    del app
    KaTeXServer.start = start_and_end
    KATEX_DEFAULT_OPTIONS["throwOnError"] = True
