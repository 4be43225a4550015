"""What assistants, search engines and those who link to a page get: its Markdown, lists of pages, and a card."""

import re
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from _ext.downloads import ROOT

PAGE = """Why *one* page?
===============

It says :math:`a < b`, see :doc:`sub/other`, the `same file <machines.html#card>`__ and https://example.net/x.html.

.. math:: \\frac{n}{b}

.. code-block:: python

   snake_case = "<b>" * 2

.. raw:: html

   <p>An H100 takes
   <a href="machines.html#h100" title="NVIDIA H100, 2026-05-01"><span class="fl-number">3 ms</span></a>.</p>
   <figure><svg role="img" aria-label="A line &amp; a dot"><text>drawn text</text></svg></figure>

.. table:: A caption

   ====  ====
   card  time
   ====  ====
   a|b   1 ms
   ====  ====

.. tab-set::

   .. tab-item:: One

      In the first.

   .. tab-item:: Two

      In the second.

a. First.
b. Second.

1. Numbered.

.. dropdown:: A fold

   Folded.

.. image:: figures/03_real_sky.webp
   :alt: A ring
"""
HERE = "https://x.org/site/"


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site({"a.rst": PAGE, "sub/other.rst": ":orphan:\n\nOther\n=====\n\nFirst words.\n"})
    (site.folder / "figures").mkdir()
    Image.new("RGBA", (40, 30), (0, 0, 0, 0)).save(site.folder / "figures/03_real_sky.webp")
    return site


def built(site, *options: str) -> str:
    theme = ("-Dhtml_theme=pydata_sphinx_theme", f"-Dtemplates_path={ROOT / 'docs/_templates'}")
    site.rebuild("html", *theme, *options)
    return site.read("html/a.md")


def test_a_page_is_told_whole(site) -> None:
    text = built(site)
    assert text.startswith("# Why *one* page?\n\nIt says $a < b$, see [Other](sub/other.md), ")
    for part in (
        "\n\n$$\\frac{n}{b}$$\n\n",
        '```python\nsnake_case = "<b>" * 2\n```',
        '[3 ms](machines.md#h100 "NVIDIA H100, 2026-05-01")',
        "[Figure: A line & a dot]",
        "A caption\n\n| card | time |\n| --- | --- |\n| a\\|b | 1 ms |",
        "**One**\n\nIn the first.\n\n**Two**\n\nIn the second.",
        "- (a) First.\n- (b) Second.\n\n1. Numbered.",
        "**A fold**\n\nFolded.",
        "![A ring](_images/03_real_sky.webp)",
        "<https://example.net/x.html>",
    ):
        assert part in text, text
    assert "drawn text" not in text
    assert "This page" not in text
    assert 'href="a.md"' in site.read("html/a.html")
    listed = site.read("html/llms.txt")
    assert "- [Other](sub/other.md): First words.\n" in listed
    assert "404" not in listed


def test_without_an_address_there_is_no_map_and_no_card(site) -> None:
    built(site)
    assert not (site.folder / "build/html/sitemap.xml").exists()
    assert "og:" not in site.read("html/a.html")
    assert not list((site.folder / "build/html/_images").glob("card*"))


def test_with_one_all_lead_there(site) -> None:
    text = built(site, f"-Dhtml_baseurl={HERE}")
    assert f"[Other]({HERE}sub/other.md)" in text
    assert f"![A ring]({HERE}_images/" in text
    places = [place.text for place in ET.fromstring(site.read("html/sitemap.xml")).iterfind("{*}url/{*}loc")]
    assert sorted(places) == [f"{HERE}{page}.html" for page in ("a", "index", "sub/other")]
    html = site.read("html/sub/other.html")
    assert f'<link rel="canonical" href="{HERE}sub/other.html"' in html
    (picture,) = re.findall(rf'property="og:image" content="{HERE}([^"]+)"', html)
    with Image.open(site.folder / "build/html" / picture) as card:
        assert card.width > 1.8 * card.height
        assert card.getpixel((0, 0)) == (255, 255, 255)


def test_a_page_that_did_not_change_is_not_written_again(site) -> None:
    built(site)
    made = site.folder / "build/html/sub/other.md"
    made.write_text("as before")
    built(site)
    assert made.read_text() == "as before"
