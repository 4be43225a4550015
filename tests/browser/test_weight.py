"""What a visit costs: everything that Chromium asks a server for, packed as servers pack it; pictures apart."""

from __future__ import annotations

import gzip
import re
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest
from conftest import SITE, missing

KB = 1024
FIRST, WITH_MATHS, AGAIN = 150 * KB, 190 * KB, 20 * KB
PACKED = {".html", ".css", ".js", ".svg", ".json", ".txt"}
PICTURES = {".webp", ".png", ".jpg", ".svg"}
READ_BEFORE = "tutorials/4_imaging/01_visibilities.html"  # by somebody who comes again
APART = re.compile(rb'<svg.*?</svg>|<details class="fl-fold"><summary>What the doctor prints.*?</details>', re.DOTALL)
SEARCH = ("searchtools.js", "language_data.js", "searchindex.js")


class Handler(SimpleHTTPRequestHandler):
    """Serves the site, with the caching of the services that will serve it, and keeps what it was asked for."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *args) -> None:
        super().__init__(*args, directory=str(SITE))

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=600")
        super().end_headers()

    def log_request(self, code="-", _size="-") -> None:
        self.server.served.append((str(self.path).removeprefix("/"), int(code)))

    def log_message(self, *_) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.served = []
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def visit(browser, server):
    """Open pages one after the other, as a reader who was never here; return what was asked for by the last."""

    @cache
    def visit(*pages: str) -> tuple[str, ...]:
        context = browser.new_context()
        page = context.new_page()
        for html in pages:
            server.served.clear()
            page.goto(f"http://127.0.0.1:{server.server_port}/{html}", wait_until="networkidle")
        context.close()
        served = [(path, code) for path, code in server.served if path != "favicon.ico"]  # asked for by itself
        assert not [path for path, code in served if code >= 400]
        return tuple(path for path, _ in served)

    return visit


def file(path: str):
    return SITE / unquote(urlsplit(path).path)


@cache
def weight(path: str) -> int:
    content = file(path).read_bytes()
    if file(path).suffix == ".html":  # figures and records apart
        content = APART.sub(b"", content)
    return len(gzip.compress(content, 6)) if file(path).suffix in PACKED else len(content)


def weigh(paths) -> int:
    """All but the pictures, and but the search on its own page, where it is in use."""
    return sum(weight(path) for path in paths if file(path).suffix not in PICTURES and file(path).name not in SEARCH)


def again(visit, html: str) -> int:
    """What a page brings that is neither its text nor there since another page was read."""
    return weigh(set(visit(html)) - set(visit(READ_BEFORE)) - {html})


def has_maths(html: str) -> bool:
    return 'class="katex' in file(html).read_text(encoding="utf-8")


def test_first_visit(visit, html) -> None:
    if html is None:
        missing(f"there is no site in {SITE}: build it first (make docs)")
    asked = visit(html)
    heaviest = sorted(asked, key=weight, reverse=True)
    parts = "\n".join(f"{weight(path) / KB:6.1f} KB {path}" for path in heaviest)
    assert weigh(asked) <= (WITH_MATHS if has_maths(html) else FIRST), parts
    assert has_maths(html) == any("katex" in path for path in asked), parts


@pytest.mark.parametrize("name", ["index.html", "doctor.html"])
def test_search_waits_until_it_is_used(visit, name) -> None:
    assert not [path for path in visit(name) if file(path).name in SEARCH]


def test_another_visit(visit, html) -> None:
    assert again(visit, html) <= AGAIN, sorted(set(visit(html)) - set(visit(READ_BEFORE)))


def test_what_was_had_is_not_asked_for_again(visit) -> None:
    asked = visit("index.html", "doctor.html")
    assert set(asked) == set(visit("doctor.html")) - set(visit("index.html"))


def test_pictures_say_their_size_and_wait(html) -> None:
    pictures = re.findall(r'<img [^>]*src="[^"]*_images/[^>]*>', file(html).read_text(encoding="utf-8"))
    assert not [one for one in pictures if not re.search('width="[0-9]+" height="[0-9]+" loading="lazy"', one)]


@pytest.mark.parametrize("name", ["tutorials/index.html", READ_BEFORE])
def test_pages_stay_still(browser, server, name) -> None:
    """Every picture has its size before it comes, and does not change it then."""
    page = browser.new_page()
    page.route("**/*.webp", lambda route: route.abort())
    page.goto(f"http://127.0.0.1:{server.server_port}/{name}")
    sizes = "images => images.map(image => [image.getAttribute('src'), image.offsetWidth, image.offsetHeight])"
    before = page.locator("img").evaluate_all(sizes)
    page.unroute("**/*.webp")
    page.goto(f"http://127.0.0.1:{server.server_port}/{name}")
    page.locator("img").evaluate_all("images => images.map(image => image.loading = 'eager')")
    page.wait_for_load_state("networkidle")
    assert page.locator("img").evaluate_all(sizes) == before
    page.close()


def test_the_figures(visit, capsys) -> None:
    """Print what was measured."""
    pages = [path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if "_static" not in path.parts]
    rows = sorted(((weigh(visit(html)), html) for html in pages), reverse=True)
    maths = [row for row in rows if has_maths(row[1])]
    plain = [row for row in rows if row not in maths]
    assert maths, "no page with mathematics was weighed"
    assert plain, "no page without mathematics was weighed"
    with capsys.disabled():
        print("\nKB, gzipped   first visit   its text   another visit")
        for total, html in maths[:5] + plain[:5]:
            print(f"{html:55}{total / KB:6.1f}{weight(html) / KB:8.1f}{again(visit, html) / KB:8.1f}")
