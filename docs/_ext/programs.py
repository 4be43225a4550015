"""What programs read of the site: each page as Markdown, lists of these for assistants, and a map for searches."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin, urlsplit

from _ext.search import documents

if TYPE_CHECKING:
    from bs4 import Tag
    from sphinx.application import Sphinx

ARTICLE = re.compile(r'<article class="bd-article">(.*)</article>', re.DOTALL)
# Most of what there is to parse, and nothing that Markdown has: without it a page takes a fifth of the time.
DRAWN = re.compile(r"<(svg|math)\b([^>]*)>.*?</\1>", re.DOTALL)
SPAN = re.compile(r"</?span\b[^>]*>")
LABEL = re.compile(r'aria-label="([^"]*)"')
BLANK = re.compile(r"\n(?:[ \t]*\n){2,}")
ONLY_SEEN = "a.headerlink, button, input, select, textarea, script, noscript, .only-dark"
LANGUAGES = {"default": "python", "Python": "python", "ipython3": "python", "none": ""}


def markdown(html: str, page: str, base: str) -> str:
    """Return a page as Markdown, with its numbers' machines, and tabs and folds one after the other."""
    from bs4 import BeautifulSoup
    from markdownify import ATX, MarkdownConverter

    class Converter(MarkdownConverter):
        def convert_math(self, formula: Tag, *_: object, **__: object) -> str:
            """Assistants read LaTeX, and few read MathML."""
            latex = str(formula.get("alttext", "")).strip()
            return f"\n\n$${latex}$$\n\n" if formula.get("display") else f"${latex}$"

        def convert_summary(self, _: Tag, text: str, **__: object) -> str:
            return f"\n\n**{text.strip().strip('# ')}**\n\n"

        convert_label = convert_summary  # of a tab

        def convert_td(self, cell: Tag, text: str, **_: object) -> str:
            return " " + " ".join(text.split()).replace("|", r"\|") + " |" * int(str(cell.get("colspan", "1")))

        convert_th = convert_td

        def convert_abbr(self, short: Tag, text: str, **_: object) -> str:
            return f"{text} ({short['title']})" if short.get("title") else text

    found = ARTICLE.search(html)
    article = BeautifulSoup(SPAN.sub("", DRAWN.sub(drawn, found[1] if found else "")), "html.parser")
    for part in article.select(ONLY_SEEN):
        part.decompose()
    for part in article.select("ol.loweralpha"):
        part.name = "ul"  # Markdown has only numbers, and a text refers to the letters
        for number, item in enumerate(part.find_all("li", recursive=False)):
            (item.p or item).insert(0, f"({chr(97 + number)}) ")
    for part in article.select("[href], [src]"):
        name = "href" if part.has_attr("href") else "src"
        part[name] = address(page, base, str(part[name]))
    as_it_is: dict[str, Any] = dict.fromkeys(("escape_asterisks", "escape_underscores", "escape_misc"), False)
    converter = Converter(heading_style=ATX, bullets="-", code_language_callback=language, **as_it_is)
    return BLANK.sub("\n\n", converter.convert_soup(article)).strip() + "\n"


def drawn(part: re.Match[str]) -> str:
    """Return what a drawing says of itself, and of a formula the element that has its LaTeX."""
    label = LABEL.search(part[2])
    return f"<math{part[2]}></math>" if part[1] == "math" else f"<p>[Figure: {label[1]}]</p>" if label else ""


def language(code: Tag) -> str:
    """Return the language of a block of code, by the class of its box."""
    box = code.find_parent(class_=re.compile("^highlight-"))
    name = next((one[10:] for one in box["class"] if one.startswith("highlight-")), "") if box else ""
    return LANGUAGES.get(name, name)


def address(page: str, base: str, link: str) -> str:
    """Return where a link leads: to Markdown, and to a whole address if the site has one.

    Examples
    --------
    >>> address("tutorials/a", "https://x.org/", "../machines.html#b"), address("a", "", "c.html")
    ('https://x.org/machines.md#b', 'c.md')
    """
    if urlsplit(link).scheme or link.startswith("#"):
        return link
    link = re.sub(r"\.html(?=#|$)", ".md", link)
    return urljoin(f"{base}{page}", link) if base else link


def write(app: Sphinx) -> None:
    """Write the Markdown of pages that have changed, and what lists all pages."""
    out, base = Path(app.outdir), app.config.html_baseurl
    lists: dict[str, list[str]] = {}
    whole: dict[str, list[str]] = {}
    places = ""
    for found in documents(app):
        if "#" in found.url:
            continue  # an entry of the glossary
        page, html = found.url.removesuffix(".html"), out / unquote(found.url)
        made = html.with_suffix(".md")
        if not made.is_file() or made.stat().st_mtime < html.stat().st_mtime:
            made.write_text(markdown(html.read_text(encoding="utf-8"), page, base), encoding="utf-8")
        *above, _ = page.split("/")
        lists.setdefault("/".join(above), []).append(f"- [{found.title}]({base}{page}.md): {found.line}\n")
        places += f"<url><loc>{escape(base + found.url)}</loc></url>\n"
        if above[1:]:
            whole.setdefault(above[1], []).append(made.read_text(encoding="utf-8"))
    text = f"# {app.config.project}\n"
    for folder, lines in sorted(lists.items()):
        text += f"\n## {folder or 'Pages'}\n\n{''.join(lines)}"
    text += "\n## Whole chapters\n\n" + "".join(f"- [{chapter}]({base}llms-{chapter}.txt)\n" for chapter in whole)
    for chapter, texts in whole.items():
        (out / f"llms-{chapter}.txt").write_text("\n\n".join(texts), encoding="utf-8")
    (out / "llms.txt").write_text(text, encoding="utf-8")
    if base:
        space = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        (out / "sitemap.xml").write_text(f"<urlset {space}>\n{places}</urlset>\n", encoding="utf-8")
