"""Long code may break behind its joints, and options stay in one piece; what is copied stays as it was written."""

import re

import pytest

PAGE = """
Page
====

Call ``torch.accelerator.current_accelerator()``, pass ``--self-calibrate``, write ``x.sum()`` and ``a < b``.

.. code-block:: bash

    firstlight image my.ms --assess https://example.org/a/long/address.html

.. code-block:: python

    total = configuration.accelerator.current_accelerator(--value)

.. raw:: html

    <script>const address = configuration.accelerator.current_accelerator - --value;</script>
"""


@pytest.fixture(scope="module")
def body(make_site):
    site = make_site({"page.rst": PAGE})
    site.rebuild("html")
    return site.read("html/page.html")


def test_long_names_have_places_to_break_and_short_ones_none(body) -> None:
    assert "torch.<wbr>accelerator.<wbr>current_<wbr>accelerator()" in body
    assert "address.<wbr>html" in body
    assert "x.sum()" in body


def test_nothing_breaks_between_the_hyphens_of_an_option(body) -> None:
    assert re.findall(r'<span class="fl-whole">(.*?)</span>', body) == ["--s", "--a"]


def test_scripts_and_programs_stay_as_they_are(body) -> None:
    assert "configuration.accelerator.current_accelerator - --value;" in body
    program = re.search(r'<div class="highlight-python.*?</pre>', body, re.DOTALL)[0]
    assert "wbr" not in program


def test_the_text_stays_what_it_was(body) -> None:
    text = re.sub(r"<wbr>|<[^>]*>", "", body)
    for words in (
        "torch.accelerator.current_accelerator()",
        "--self-calibrate",
        "a &lt; b",
        "my.ms --assess https://example",
    ):
        assert words in text
