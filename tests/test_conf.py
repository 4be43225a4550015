"""The site's own configuration, on copies of the pages, without a network; no example is run."""

import functools
import http.server
import re
import runpy
import shutil
import threading
import zlib
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from sphinx_here import sphinx_build

from firstlight import __version__

ROOT = Path(__file__).resolve().parents[1]
READ = ("conf.py", "docs", "examples", "records", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "LICENSE")
SERVICES = ("GITHUB_REPOSITORY", "READTHEDOCS_GIT_CLONE_URL", "READTHEDOCS_CANONICAL_URL")
CLOSED = "http://127.0.0.1:9"  # the port of a service that discards what it gets, and that nobody runs any more


def copy(folder, pages=None):
    """What a build reads, with these pages and tutorials, or with all that there are."""
    for path in filter(Path.exists, (ROOT / name for name in READ)):
        if path.is_file():
            shutil.copy(path, folder)
        elif not pages:
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("tutorials", "__pycache__"))
    for name, text in (pages or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("docs/_static", "docs/_templates", "docs/web/boards") if pages else ():
        shutil.copytree(ROOT / name, folder / name)
    if pages:
        shutil.copy(ROOT / "docs/moved.toml", folder / "docs/moved.toml")
    return folder


def build(folder, builder, page="", **environment):
    """Build the site with one page more, where the ways out lead to a closed door; no example runs."""
    (folder / "docs/added.md").write_text(f"---\norphan: true\n---\n# Added\n\n{page}\n", encoding="utf-8")
    env = {"HTTP_PROXY": CLOSED, "HTTPS_PROXY": CLOSED, "NO_PROXY": "127.0.0.1", "ALL_PROXY": ""}
    env |= {name.lower(): value for name, value in env.items()} | dict.fromkeys(SERVICES, "") | environment
    # A notebook that is not run does not know its language.
    quick = ("-Dplot_gallery=0", "-Dnb_execution_mode=off", "-Dsuppress_warnings=myst-nb.lexer")
    return sphinx_build(folder, "-b", builder, *quick, "-W", "-n", "-c", ".", "docs", f"build/{builder}", **env)


def warned(log):
    return [line for line in log.splitlines() if "WARNING" in line]


HEADER = "Chapter\n=======\n\nText.\n"
PAGES = {
    "docs/install.md": "# Install\n",
    "docs/index.md": "# Home\n\n```{toctree}\ninstall\ntutorials/index\n```\n",
    "examples/index.rst": f"{HEADER}\n.. toctree::\n\n   1_setup/index\n",
    "examples/1_setup/index.rst": f"{HEADER}\n.. chapter:: 1_setup\n",
    "examples/1_setup/02_index.py": '"""\nTutorial\n========\n\nText.\n"""\nprint("not run")\n',
}
API = "---\norphan: true\n---\n# API\n\n```{eval-rst}\n.. automodule:: firstlight.devices\n   :members:\n```\n"
OFFLINE = """
{py:class}`torch.Tensor`, {py:func}`numpy.fft.fft2`, {py:meth}`matplotlib.figure.Figure.savefig`,
{py:mod}`pathlib`, {py:func}`time.perf_counter`, {py:func}`print`, {py:exc}`ValueError`,
{py:func}`firstlight.devices.best_device`
"""
BROKEN = [
    "{py:func}`firstlight.devices.no_such`",
    "{py:mod}`firstlight.no_such`",
    "{py:func}`no_such`",
    "{py:func}`copy_of_nothing`",
    "{py:func}`items`",  # a method of dict: not a builtin
    "{ref}`time`",  # a section of ours that would be called like a module of Python's
    "{doc}`platform`",
    "[words](no_such.md)",
    "{doc}`tutorials/1_setup/no_such`",
]


def test_without_a_network_references_to_others_pass_and_broken_ones_of_ours_fail(tmp_path):
    folder = copy(tmp_path, PAGES | {"docs/api.md": API, "docs/others.md": f"---\norphan: true\n---\n# O\n{OFFLINE}"})
    failed, log = build(folder, "dummy", "\n\n".join(BROKEN))
    assert failed
    assert "not fetchable" in log, "the network was there after all"
    lines = [line.partition("added.md:")[2].partition(":")[0] for line in warned(log)]
    assert sorted(int(line or 0) for line in lines) == [6 + 2 * place for place in range(len(BROKEN))], log


@pytest.mark.slow
def test_the_whole_site_passes_without_a_network(tmp_path):
    failed, log = build(copy(tmp_path), "dummy", OFFLINE)
    assert not failed, log
    assert warned(log) == []
    assert "not fetchable" in log, "the network was there after all"


ADDRESSES = {"torch": "https://docs.pytorch.org/docs/stable", "python": "https://docs.python.org/3"}
NAMES = ("torch.Tensor", "pathlib.Path", "torch.NoSuchTensor", "pathlib.NoPath", "numpy.NotAsked")


def inventory(project, *names):
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: 1\n# zlib\n".encode()
    return head + zlib.compress("".join(f"{name} py:class 1 api.html#$ -\n" for name in names).encode())


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A web server on this machine with the inventories of two projects; the others stay out of reach."""
    folder = tmp_path_factory.mktemp("world")
    for project, name in zip(ADDRESSES, NAMES, strict=False):
        (folder / project).mkdir()
        (folder / project / "objects.inv").write_bytes(inventory(project, name))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def online(tmp_path_factory, world):
    """A few pages, with a network that knows two projects, as a service that publishes builds them."""
    folder = copy(tmp_path_factory.mktemp("online"), PAGES)
    conf = (folder / "conf.py").read_text(encoding="utf-8")
    for project, address in ADDRESSES.items():
        assert conf.count(address) == 1
        conf = conf.replace(address, f"{world}/{project}")
    (folder / "conf.py").write_text(conf, encoding="utf-8")
    page = "\n\n".join(f"{{py:class}}`{name}`" for name in NAMES)
    return folder, build(folder, "html", page, GITHUB_REPOSITORY="someone/their-fork")


def test_with_a_network_right_names_link_and_wrong_ones_fail(online, world):
    folder, (failed, log) = online
    assert failed
    torch, python = warned(log)
    assert re.search(r"added\.md:10:.*torch\.NoSuchTensor", torch)
    assert re.search(r"added\.md:12:.*pathlib\.NoPath", python)
    page = (folder / "build/html/added.html").read_text(encoding="utf-8")
    for project, name in zip(ADDRESSES, NAMES, strict=False):
        assert f'href="{world}/{project}/api.html#{name}"' in page


def test_a_service_that_names_the_repository_gets_edit_links_to_the_files_that_made_the_pages(online):
    folder, _ = online
    pages = [path.read_text(encoding="utf-8") for path in (folder / "build/html").rglob("*.html")]
    link = re.compile(r'href="https://github\.com/someone/their-fork/edit/main/([^"]*)"')
    assert {path for page in pages for path in link.findall(page)} == {*PAGES, "docs/added.md"}


def test_a_mistake_on_a_page_is_reported_to_that_repository(online):
    folder, _ = online
    page = (folder / "build/html/added.html").read_text(encoding="utf-8")
    (link,) = re.findall(r'href="https://github\.com/someone/their-fork/issues/new\?([^"]*)"', page)
    asked = parse_qs(unescape(link))
    assert "“Added”" in asked["title"][0]
    assert "https://someone.github.io/their-fork/added.html" in asked["body"][0]
    assert __version__ in asked["body"][0]


def test_a_service_that_names_the_repository_gets_the_address_of_its_pages(online):
    folder, _ = online
    address = "https://someone.github.io/their-fork/"
    assert f'<link rel="canonical" href="{address}added.html"' in (folder / "build/html/added.html").read_text("utf-8")


CANONICAL = {"READTHEDOCS_CANONICAL_URL": "https://x.org/en/"}
ADDRESSES_OF_SITES = [
    ({}, ""),
    ({"GITHUB_REPOSITORY": "Some-One/Their.Fork"}, "https://some-one.github.io/Their.Fork/"),
    ({"GITHUB_REPOSITORY": "Some-One/some-one.github.io"}, "https://some-one.github.io/"),
    (CANONICAL, "https://x.org/en/"),
    (CANONICAL | {"READTHEDOCS_GIT_CLONE_URL": "https://github.com/some/one.git"}, "https://x.org/en/"),
    ({"READTHEDOCS_GIT_CLONE_URL": "https://gitlab.com/some/one.git"}, ""),
]


@pytest.mark.parametrize(("environment", "expected"), ADDRESSES_OF_SITES)
def test_address_of_the_site(monkeypatch, environment, expected):
    for name in (*SERVICES, *environment):
        monkeypatch.delenv(name, raising=False)
        if name in environment:
            monkeypatch.setenv(name, environment[name])
    assert runpy.run_path(str(ROOT / "conf.py"))["html_baseurl"] == expected


def test_where_the_deployment_puts_notebooks_on_a_branch_they_open_in_colab(online):
    folder, _ = online
    page = (folder / "build/html/tutorials/1_setup/02_index.html").read_text(encoding="utf-8")
    address = "https://colab.research.google.com/github/someone/their-fork/blob/notebooks/1_setup/02_index.ipynb"
    assert page.count(f'href="{address}"') == 1
    assert "Upload notebook" not in page


def wheel_of(folder):
    """Where a downloaded notebook takes our package from."""
    notebook = (folder / "build/html/downloads/1_setup/02_index.ipynb").read_text(encoding="utf-8")
    return re.search(r'%pip install \\"(.*)firstlight-', notebook)[1]


def test_downloads_fetch_the_package_from_where_the_service_puts_the_site(online):
    folder, _ = online
    assert wheel_of(folder) == "https://someone.github.io/their-fork/downloads/"
    build(folder, "html", GITHUB_REPOSITORY="a/b", READTHEDOCS_CANONICAL_URL="https://b.example/en/latest/")
    assert wheel_of(folder) == "https://b.example/en/latest/downloads/"


def test_without_one_there_are_none(online):
    folder, _ = online
    failed, log = build(folder, "html")
    assert not failed, log
    assert wheel_of(folder) == "{folder}/"
    for page in (folder / "build/html").rglob("*.html"):
        assert "github.com/someone" not in page.read_text(encoding="utf-8")
        assert "/edit/" not in page.read_text(encoding="utf-8")
