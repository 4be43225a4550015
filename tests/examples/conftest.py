"""Run a page once, with little time for its measurements: for its own tests, and for what holds of every page."""

import io
import re
import runpy
from contextlib import redirect_stderr
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from firstlight import Bench
from firstlight.measure.imports import closure
from firstlight.measure.runner import digest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def stands_on(tests: Path) -> str | None:
    """A digest of all that the tests of a page stand on; other tests have none."""
    named = re.findall('^PAGE = "(.+)"$', tests.read_text(encoding="utf-8"), re.MULTILINE)
    scripts = [tests, Path(__file__), *(EXAMPLES / name for name in named), *sorted(EXAMPLES.glob("*/[a-z]*.py"))]
    sources = [script.read_text(encoding="utf-8") for script in scripts]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    return digest(repr([pins, *sources, *map(closure, sources)])) if named else None


def pytest_collection_modifyitems(config, items):
    if not config.getoption("changed"):
        return
    now = {item.path: stands_on(item.path) for item in items if item.path.parent == Path(__file__).parent}
    green = {tests for tests, digest in now.items() if digest and config.cache.get(f"pages/{tests.stem}", "") == digest}
    config.hook.pytest_deselected(items=[item for item in items if item.path in green])
    items[:] = [item for item in items if item.path not in green]


@pytest.fixture(scope="module", autouse=True)
def noted(request):
    """Note that the tests of a page are green, for --changed."""
    before = request.session.testsfailed
    yield
    if request.config.getoption("changed") and request.session.testsfailed == before:
        request.config.cache.set(f"pages/{request.path.stem}", stands_on(request.path))


@pytest.fixture(scope="module")
def page(request, tmp_path_factory):
    """What the page that the module names as PAGE has defined when it has run from its first line to its last."""
    folder, said = tmp_path_factory.mktemp("page"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(plt, "show", lambda: None)
        patch.setattr(Bench.__init__, "__defaults__", (0.4,))
        with redirect_stderr(said):
            defined = runpy.run_path(str(EXAMPLES / request.module.PAGE))
        assert said.getvalue() == ""
        assert list(folder.iterdir()) == []  # a script leaves nothing behind
        yield defined
        plt.close("all")
