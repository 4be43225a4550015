from __future__ import annotations

import pytest

LOST = """:orphan:

No page
=======

:doc:`index`, :doc:`Deep <deep/page>`, `elsewhere <https://example.org/a>`__, `here <#no-page>`__

.. raw:: html

   <form action="search.html"><img src="_static/x.png" alt=""><a href="/rooted">x</a></form>
"""
FILES = {"404.rst": LOST, "deep/page.rst": ":orphan:\n\nDeep\n====\n"}


@pytest.fixture(scope="module")
def site(make_site):
    return make_site(FILES)


@pytest.mark.parametrize("root", ["/en/latest/", "/"])
def test_where_the_address_is_known_links_begin_at_the_root(site, root):
    site.rebuild("html", "-D", f"html_baseurl=https://someone.github.io{root}")
    html = site.read("html/404.html")
    for path in ("index.html", "deep/page.html"):
        assert f'href="{root}{path}"' in html
    assert f'data-content_root="{root}"' in html
    assert f'action="{root}search.html"' in html
    assert f'src="{root}_static/x.png"' in html
    assert f'href="{root}_static/basic.css' in html
    for kept in ("https://example.org/a", "#no-page", "/rooted"):
        assert f'href="{kept}"' in html
    assert 'href="../index.html"' in site.read("html/deep/page.html"), "other pages stay as they are"
    site.rebuild("html", "-D", f"html_baseurl=https://someone.github.io{root}")
    assert site.read("html/404.html") == html, "a second build changes nothing"


def test_elsewhere_they_stay_relative(site):
    site.rebuild()
    assert 'href="deep/page.html"' in site.read("html/404.html")
    assert 'action="search.html"' in site.read("html/404.html")
