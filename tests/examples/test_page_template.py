"""The template of a page, and that of its tests, hold together as a page and its tests do."""

import runpy
from pathlib import Path

import pytest
from pages import running

MAINTAINING = Path(__file__).parents[2] / "maintaining"


@pytest.fixture(scope="module")
def defined(tmp_path_factory):
    with running(MAINTAINING / "page_template.py", tmp_path_factory.mktemp("page")) as defined:
        yield defined


@pytest.mark.parametrize("name", ["test_answers", "test_the_call_and_the_loop_agree"])
def test_the_tests_of_the_template_pass_on_it(defined, name):
    tests = runpy.run_path(str(MAINTAINING / "test_page_template.py"))
    assert set(tests) >= {"PAGE", name}
    tests[name](defined)
