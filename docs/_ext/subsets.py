"""Serve of the theme's styles and of the fonts what the site uses: of two thousand icons the pages show a dozen."""

from __future__ import annotations

import re
from hashlib import sha256
from html import unescape
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING

from sphinx.util.logging import getLogger

if TYPE_CHECKING:
    from sphinx.application import Sphinx

logger = getLogger(__name__)

STYLES = ("styles/pydata-sphinx-theme.css", "sphinx-design.min.css")
WORD = re.compile(r"[\w-]+")
CLASSES = re.compile(r'class="([^"]*)"')
RULE = re.compile(r"/\*.*?\*/|([^{}/;]+)\{[^{}]*\}", re.DOTALL)
HEDGED = re.compile(r":(?:not|is|where)\((?:[^()]|\([^()]*\))*\)")
FORMULA = re.compile(r'<span class="katex-html".*?(?=</(?!span|svg|path))', re.DOTALL)


def used_rules(css: str, words: set[str]) -> str:
    """Drop the selectors that name a class which is none of these words.

    Examples
    --------
    >>> used_rules(".on,.off{top:0}@media print{.off{top:0}}a:not(.off) b{top:0}", {"on"})
    '.on{top:0}@media print{}a:not(.off) b{top:0}'
    """

    def shortened(rule: re.Match[str]) -> str:
        if not rule[1]:  # a comment
            return rule[0]
        selectors = re.split(r",(?![^(]*\))", rule[1])
        if any(one.count("(") != one.count(")") for one in selectors):
            return rule[0]
        used = [one for one in selectors if words.issuperset(re.findall(r"\.([A-Za-z_][\w-]*)", HEDGED.sub("", one)))]
        return ",".join(used) + rule[0].removeprefix(rule[1]) if used else ""

    return RULE.sub(shortened, css)


def quoted(css: str) -> set[str]:
    r"""Return the characters that styles put on a page, as icons do.

    Examples
    --------
    >>> sorted(quoted(r'.a{--fa:"\e00d"}.b{--fa:"+"}.c{content:"Out:"}')) == ["+", chr(0xE00D)]
    True
    """
    found = re.findall(r'"(?:\\([0-9a-fA-F]{1,6}) ?|([^"\\]))"', css)
    return {plain or chr(int(code, 16)) for code, plain in found}


def subset(font: Path, text: str, kept: Path) -> None:
    """Put a font with these characters in the place of a font; it is made once and then kept in a folder."""
    from fontTools import subset as tools  # type: ignore[import-untyped]

    small = kept / f"{sha256(font.read_bytes() + text.encode()).hexdigest()}{font.suffix}"
    if not small.exists():
        options = tools.Options(flavor="woff2", layout_features=["*"], hinting=False, recalc_timestamp=False)
        subsetter = tools.Subsetter(options)
        subsetter.populate(text=text)
        kept.mkdir(exist_ok=True)
        with tools.load_font(str(font), options) as loaded:
            subsetter.subset(loaded)
            tools.save_font(loaded, str(small), options)
    copyfile(small, font)


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Make the styles and the fonts as small as the whole site allows."""
    if exception or app.builder.name != "html":
        return
    static = Path(app.outdir, "_static")
    styles = {path: path.read_text(encoding="utf-8") for path in map(static.joinpath, STYLES) if path.exists()}
    names = "".join(styles.values())
    words: set[str] = set()
    formulas: set[str] = set()
    for page in Path(app.outdir).rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        found = set(WORD.findall(" ".join(CLASSES.findall(html))))
        for name in sorted(found):
            if name.startswith("fa-") and f".{name}" not in names and static not in page.parents:
                logger.warning("%s: the theme has no icon %s; choose one of %s", page, name, static / STYLES[0])
        words |= found
        formulas.update(unescape(re.sub("<[^>]*>", "", "".join(FORMULA.findall(html)))))
    for script in {*static.rglob("*.js")} - {static / "scripts/fontawesome.js"}:
        words.update(WORD.findall(script.read_text(encoding="utf-8")))
    # Bootstrap puts these together from parts.
    words |= {"bs-tooltip-auto", "bs-popover-auto"}
    icons: set[str] = set()
    for path, css in styles.items():
        path.write_text(used_rules(css, words), encoding="utf-8")
        icons |= quoted(used_rules(css, words))
    for folder, text in (("vendor", icons), ("katex", formulas)):
        for font in static.joinpath(folder).rglob("*.woff2"):
            subset(font, "".join(sorted(text)), Path(app.doctreedir, "fonts"))


def setup(app: Sphinx) -> None:
    """Work on what was built."""
    app.connect("build-finished", finish)
