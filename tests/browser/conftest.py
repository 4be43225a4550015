"""The built site (build/html) in a Chromium or Chrome that is there already; nothing is downloaded."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SITE = Path(__file__).resolve().parents[2] / "build" / "html"


def missing(what: str) -> NoReturn:
    """Skip on a person's machine; fail where the tests were asked for to be run."""
    if os.environ.get("CI"):
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Run these only where they are asked for by their folder: they need a built site and a browser."""
    return None if any("browser" in str(argument) for argument in config.invocation_params.args) else True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test each page of the site in turn."""
    if "html" in metafunc.fixturenames:
        pages = {path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if "_static" not in path.parts}
        metafunc.parametrize("html", sorted(pages) or [None])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was checked for barriers."""
    checks = sys.modules.get("checks")
    if checks and checks.pages:
        runs = sum(checks.pages.values())
        terminalreporter.write_line(f"axe-core: {len(checks.pages)} pages, {runs} runs, {len(checks.rules)} rules")


@pytest.fixture
def address(html: str | None) -> str:
    if html is None:
        missing(f"there is no site in {SITE}: build it first (make docs)")
    return (SITE / html).as_uri()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not (SITE / "index.html").exists():
        missing(f"there is no site in {SITE}: build it first (make docs)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed: pip install playwright")
    names = (os.environ.get("CHROME"), "chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, (shutil.which(name) for name in names if name)), None)
    if program is None:
        missing("there is no Chromium or Chrome on the path: install one, or set CHROME to it")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program)
        yield chromium
        chromium.close()


def opened(browser: Browser, path: Path, **options: Any) -> Any:
    """Open a built page, and note what goes wrong on it: errors of scripts, and requests to anybody else."""
    if not path.exists():
        missing(f"there is no {path}: build the site first (make docs)")
    page: Any = browser.new_context(**options).new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith(("file:", "data:")) or page.problems.append(asked.url))
    page.goto(path.as_uri())
    return page


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page that a module is about, its ``PAGE``; nothing may go wrong on it."""
    page = opened(browser, request.module.PAGE)
    yield page
    assert not page.problems
    page.context.close()
