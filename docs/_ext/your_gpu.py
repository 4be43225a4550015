"""The reader's GPU: the buttons that use it, and the one script behind them, which is fetched when one is pressed."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from _ext.records import browser_digest, project_root, relative_root

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

WEB = Path(__file__).parents[1] / "web/gpu"
#: The experiments that a browser does, too, by a page's Bench.
ON_YOUR_GPU = {
    "wins-add": "wins-add transfers roofline",
    **{name: name for name in ("timing-wrong", "transfers", "coalescing", "shared-memory", "roofline")},
}
PARTS = ("shared", "statistics", "gpu", "experiments", "plot", "record", "board", "fit", "live")
OFFERED = "open, show, openGpu, prepare, measure, summary"
MODULE_LINE = re.compile(r"^import [^;]*;\n|^export (?=\w)", re.MULTILINE)


def bundle() -> str:
    """Return the parts, which are modules, and the kernels as one classic script: from a folder, no module is loaded.

    The parts share its one scope, so what modules import is there already, and no name may stand twice.
    """
    kernels = {path.stem: path.read_text(encoding="utf-8") for path in sorted(WEB.glob("*.wgsl"))}
    parts = "\n".join(MODULE_LINE.sub("", (WEB / f"{name}.js").read_text(encoding="utf-8")) for name in PARTS)
    return (
        '"use strict";\nglobalThis.firstlight ??= (() => {\n'
        f"const KERNELS = {json.dumps(kernels, ensure_ascii=False)};\n{parts}\nreturn {{ {OFFERED} }};\n}})();\n"
    )


def button(text: str, opens: str, scripts: str, **data: str) -> str:
    """Return a board with its button, which is hidden until a script can answer it."""
    rest = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    return (
        f'<div class="fl-gpu" data-opens="{opens}" data-scripts="{scripts}"{rest}>'
        f'<p class="fl-gpu-buttons"><button type="button" hidden>{escape(text)}</button></p>'
        "<noscript><p>This takes JavaScript, which is switched off here.</p></noscript></div>\n"
    )


def your_gpu(env: BuildEnvironment, bench: str = "") -> str:
    """Return the button for one experiment of a page, or for all of them."""
    scripts, code = f"{relative_root(env)}_static/webgpu.js", browser_digest(project_root(env))
    only = {"only": ON_YOUR_GPU[bench], "seconds": "5"} if bench else {}
    return button("On your GPU, now" if bench else "Measure my GPU", "open", scripts, code=code, **only)


class YourGpu(SphinxDirective):
    """``{your-gpu}``: the button that does all experiments in the reader's browser."""

    def run(self) -> list[nodes.Node]:
        """Show the button."""
        return [nodes.raw("", your_gpu(self.env), format="html")]


class FirstLight(SphinxDirective):
    """``{first-light}``: a button for the fit of the chapter's sky, live on the reader's GPU."""

    def run(self) -> list[nodes.Node]:
        """Show the button."""
        self.env.metadata[self.env.docname]["firstlight_sky"] = "shown"
        static = f"{relative_root(self.env)}_static"
        html = button("See it on your GPU, now", "show", f"{static}/webgpu.js {static}/sky.js")
        return [nodes.raw("", html, format="html")]


def write_scripts(app: Sphinx) -> None:
    """Write what the buttons fetch."""
    static = Path(app.outdir, "_static")
    (static / "webgpu.js").write_text(bundle(), encoding="utf-8")
    if any("firstlight_sky" in facts for facts in app.env.metadata.values()):
        from _ext.sky import write_sky  # which imports PyTorch and Numba

        write_sky(static)
