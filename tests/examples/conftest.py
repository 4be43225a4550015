"""Run a page once for all of its tests, and not at all while it is what it was when they were green."""

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from pages import EXAMPLES, running

from firstlight.records.package_parts import part_digests
from firstlight.records.runner import digest
from firstlight_kernels import ptx

ROOT = Path(__file__).parents[2]
HELPERS = Path(__file__).with_name("pages.py"), ROOT / "kernels/tests/variants.py"


def stands_on(tests: Path) -> str | None:
    """A digest of all that the tests of a page stand on; other tests have none."""
    named = re.findall('^PAGE = "(.+)"$', tests.read_text(encoding="utf-8"), re.MULTILINE)
    scripts = [
        tests,
        Path(__file__),
        *HELPERS,
        *(EXAMPLES / name for name in named),
        *sorted(EXAMPLES.glob("*/[a-z]*.py")),
    ]
    sources = [script.read_text(encoding="utf-8") for script in scripts]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    return digest(repr([pins, *sources, *map(part_digests, sources)])) if named else None


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
    """What the page that the module names as PAGE has defined when it has run."""
    with running(request.module.PAGE, tmp_path_factory.mktemp("page")) as defined:
        yield defined


@pytest.fixture(params=[(9, 0), pytest.param((7, 5), marks=pytest.mark.slow)], ids=["9.0", "7.5"])
def compiled(request):
    """Compile a kernel of a page for a card."""

    def compiled(kernel, types):
        try:
            return ptx.compile(kernel, types, request.param)
        except ptx.NoCompilerError as missing:
            pytest.skip(str(missing))

    return compiled


@pytest.fixture
def no_compiler(monkeypatch):
    """A machine without NVIDIA's compiler: a page shows what was recorded."""

    def absent(*_, **__):
        raise ptx.NoCompilerError()

    monkeypatch.setattr(ptx, "compile", absent)


@pytest.fixture
def recorded_compiler():
    """The compiler whose results the pages have recorded."""
    try:
        ours, nvcc, _ = (version(f) for f in ("numba-cuda", "nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm"))
    except PackageNotFoundError:
        pytest.skip("not the packages that were recorded")
    if ours != "0.30.4" or not nvcc.startswith("13.0."):
        pytest.skip("other versions than those that were recorded")
