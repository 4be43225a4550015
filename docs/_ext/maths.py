"""Set mathematics before pages are written: in one process with one server, where a mistake can name its page."""

from __future__ import annotations

import socket
import subprocess
import time
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.logging import getLogger
from sphinxcontrib import katex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx

html: dict[tuple[str, bool], str] = {}
set_formula = katex.render_latex


def start_server(folder: Path, timeout: float) -> tuple[Any, socket.socket]:
    """Start the server and connect, as soon as it listens: its socket's file is there a moment earlier."""
    address, end = folder / "katex.sock", time.monotonic() + timeout
    process = subprocess.Popen(
        katex.KaTeXServer.build_command(socket=address), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(address))
        except OSError:
            connection.close()
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                raise katex.KaTeXServer.timeout_error(timeout) from None
            time.sleep(0.001)
        else:
            return process, connection


def prepare(trees: Iterable[nodes.Element]) -> None:
    """Set the formulas in these trees. The processes that write pages are forked later, and find them here."""
    for tree in trees:
        for node in tree.findall(lambda node: isinstance(node, nodes.math | nodes.math_block)):
            latex, display = key = node.astext(), isinstance(node, nodes.math_block)
            if key in html:
                continue
            try:
                html[key] = set_formula(latex, {"displayMode": display})
            except katex.KaTeXError as error:
                getLogger(__name__).warning("%s", error, location=node)
                html[key] = f"<code>{escape(latex)}</code>"


def setup(app: Sphinx) -> None:
    """Let sphinxcontrib-katex look formulas up instead of setting them, and reject wrong ones."""

    def of_headings(app: Sphinx, *_: Any) -> None:
        if app.builder.format == "html":
            prepare(app.env.tocs.values())

    def of_page(app: Sphinx, doctree: nodes.document, _: str) -> None:
        if app.builder.format == "html":
            prepare([doctree])

    katex.KATEX_DEFAULT_OPTIONS["throwOnError"] = True
    katex.render_latex = lambda latex, options=None: html[latex, bool(options)]
    katex.KaTeXServer.start_server_process = start_server
    app.connect("env-updated", of_headings)
    app.connect("doctree-resolved", of_page)
