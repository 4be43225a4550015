"""What the files of the built site tell without a browser: a test asks it of all pages and lists all findings."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from conftest import ALL, PAGES, SITE, missing

CHECKER = Path(sys.prefix) / "node/node_modules/vnu-jar/build/dist/vnu.jar"
BROKEN = "<!DOCTYPE html><html lang=en><title>Broken on purpose</title><p><li></p>"


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def ids(path: Path) -> set[str]:
    return {unescape(one) for one in re.findall(r'\s(?:id|name)="([^"]*)"', read(path))} if path.is_file() else set()


def lost(page: Path) -> list[str]:
    """The links to files and places of the site that are not there."""
    problems = []
    for link in set(re.findall(r'\b(?:href|src|action)="([^"]*)"', read(page))):
        parts = urlsplit(unescape(link))
        if parts.scheme or parts.netloc or parts.path.startswith("/"):
            continue  # another site, or the root of a server
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        anchor = unquote(parts.fragment)
        if not target.is_file() or (anchor and target.suffix == ".html" and anchor not in ids(target)):
            problems.append(f"{page.name}: {link}")
    return problems


def test_every_link_leads_somewhere() -> None:
    assert not [problem for html in ALL for problem in lost(SITE / html)]


def test_pictures_say_their_size_and_wait() -> None:
    pictures = [one for html in PAGES for one in re.findall(r'<img [^>]*src="[^"]*_images/[^>]*>', read(SITE / html))]
    assert pictures
    assert not [one for one in pictures if not re.search('height="[0-9]+" loading="lazy" .*width="[0-9]+"', one)]


def test_the_home_page_shows_a_real_sky_as_recorded_and_no_page_shows_a_directive() -> None:
    assert re.search('<figure class="fl-figure"[^>]*><svg [^>]*aria-label="M87', read(SITE / "index.html"))
    prose = {html: re.sub(r"<(pre|code|script)\b.*?</\1>", "", read(SITE / html), flags=re.DOTALL) for html in PAGES}
    assert not [html for html, text in prose.items() if re.search(r"\.\. [a-z-]+::", text)]


@pytest.mark.parametrize(
    ("script", "pages"),
    [
        ("possible.js", ["tutorials/2_devices/03_is_it_possible.html"]),
        ("wins.js", ["tutorials/2_devices/11_when_the_gpu_wins.html"]),
        ("lanes.js", ["tutorials/3_kernels/05_coalescing.html"]),
        ("causes.js", ["404.html", "doctor.html", "index.html", "search.html"]),
        ("doctor.js", ["doctor.html"]),
        ("search.js", ["404.html", "index.html", "search.html"]),
    ],
)
def test_a_script_is_loaded_where_it_is_used(script: str, pages: list[str]) -> None:
    assert [html for html in ALL if f"/{script}" in read(SITE / html)] == pages


def errors(*pages: Path) -> list[str]:
    """What the W3C's checker of HTML finds, in one process."""
    java = shutil.which("java")
    if java is None:
        missing(
            "there is no Java, which the W3C's checker runs on: install a Java runtime (Debian: default-jre-headless)"
        )
    if not CHECKER.exists():
        missing(f"there is no {CHECKER}: make the environment again (make test)")
    command = [java, "-Xss4m", "-jar", str(CHECKER), "--errors-only", "--format", "json", *map(str, pages)]
    checked = subprocess.run(command, capture_output=True, encoding="utf-8")
    return [
        f"{one.get('url', '').rpartition('/html/')[2]}:{one.get('lastLine')}: {one['message']} {one.get('extract', '')}"
        for one in json.loads(checked.stderr)["messages"]
    ]


def test_no_page_has_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "html" / "broken.html"
    broken.parent.mkdir()
    broken.write_text(BROKEN)
    found = errors(*(SITE / html for html in ALL), broken)
    assert [one for one in found if one.startswith("broken.html")], "the checker finds nothing at all"
    found = [one for one in found if not one.startswith("broken.html")]
    assert not found, f"{len(found)} errors:\n" + "\n".join(found[:40])
