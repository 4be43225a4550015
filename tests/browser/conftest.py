"""The built site (build/html) in a Chromium or Chrome that is there already; nothing is downloaded."""

from __future__ import annotations

import functools
import os
import shutil
import tomllib
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SITE = Path(__file__).resolve().parents[2] / "build" / "html"
# Sorted: all workers have to find the same tests.
MOVED = tomllib.loads((SITE.parents[1] / "docs/moved.toml").read_text(encoding="utf-8"))  # old addresses
ALL = sorted(
    {path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if "_static" not in path.parts}
    - {f"{old}.html" for old in MOVED}
)
CAUSES = [html for html in ALL if html.startswith("doctor/")]  # built from one template, so some stand for all
PAGES = [*(html for html in ALL if html not in CAUSES), *CAUSES[:: max(1, len(CAUSES) // 9)]]
HERE = ("file:", "data:", "blob:", "http://127.0.0.1:")


def missing(what: str) -> NoReturn:
    """Skip on a person's machine; fail where the tests were asked for to be run."""
    if os.environ.get("CI"):
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Run these only where they are asked for by their folder: they need a built site and a browser."""
    return None if any("browser" in str(argument) for argument in config.invocation_params.args) else True


@pytest.fixture(scope="session", autouse=True)
def site() -> Path:
    if not PAGES:
        missing(f"there is no site in {SITE}: build it first (make docs)")
    return SITE


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed: pip install playwright")
    names = (os.environ.get("CHROME"), "chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, (shutil.which(name) for name in names if name)), None)
    if program is None:
        missing("there is no Chromium or Chrome on the path: install one, or set CHROME to it")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--enable-unsafe-webgpu"])  # in software
        yield chromium
        chromium.close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print no line for each request."""


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The site as it is served, on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def gone(asked: Any) -> bool:
    """What was only on its way when a reader left is not missing."""
    return "ERR_ABORTED" not in (asked.failure or "")


def watched(context: Any) -> Any:
    """A new page that notes what it asks for, and what goes wrong on it: errors, and requests to anybody else."""
    page = context.new_page()
    page.asked, page.problems = [], []
    page.on("request", lambda asked: page.asked.append(asked.url))
    page.on("request", lambda asked: asked.url.startswith(HERE) or page.problems.append(f"asks for {asked.url}"))
    page.on("requestfailed", lambda asked: gone(asked) and page.problems.append(f"cannot have {asked.url}"))
    page.on("pageerror", lambda error: page.problems.append(f"error: {error}"))
    page.on("console", lambda line: line.type == "error" and page.problems.append(f"console: {line.text}"))
    page.on("websocket", lambda socket: page.problems.append(f"opens {socket.url}"))
    return page


def opened(browser: Browser, path: Path, **options: Any) -> Any:
    """A built page in a context of its own."""
    page = watched(browser.new_context(**options))
    page.goto(path.as_uri())
    return page


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Any]:
    page = watched(browser.new_context())
    yield page
    page.context.close()


@pytest.fixture
def page(tab: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page that a module is about, its ``PAGE``, as a new reader finds it; nothing may go wrong on it."""
    tab.problems.clear()
    tab.set_viewport_size({"width": 1280, "height": 720})
    tab.goto(request.module.PAGE.as_uri())
    yield tab
    tab.evaluate("localStorage.clear()")
    assert not tab.problems


@pytest.fixture(params=["light", "dark"])
def telephone(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page of a module on a telephone, in both themes: a finger meets each control, and nothing sticks out."""
    size = {"width": 390, "height": 844}
    page = opened(browser, request.module.PAGE, color_scheme=request.param, has_touch=True, viewport=size)
    yield page
    small = page.locator(f"{request.module.BOARD} :is(select, input, button, summary)").evaluate_all(
        "all => all.filter(one => one.checkVisibility() && one.getBoundingClientRect().height < 44)"
        ".map(one => one.outerHTML)"
    )
    assert not small
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert not page.problems
    page.context.close()


@pytest.fixture
def bare(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page of a module without JavaScript."""
    page = opened(browser, request.module.PAGE, java_script_enabled=False)
    yield page
    page.context.close()
