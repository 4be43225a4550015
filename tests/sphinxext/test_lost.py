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


@pytest.mark.parametrize("root", ["/name/", "/en/latest/", "/"])
def test_where_the_address_is_known_links_begin_at_the_root(make_site, root):
    site = make_site(FILES).build("html", "-D", f"html_baseurl=https://someone.github.io{root}")
    assert not site.failed, site.log
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
    again = site.build("html", "-D", f"html_baseurl=https://someone.github.io{root}")
    assert again.read("html/404.html") == html, "a second build changes nothing"


def test_elsewhere_they_stay_relative(make_site):
    site = make_site(FILES).build("html")
    assert not site.failed, site.log
    assert 'href="deep/page.html"' in site.read("html/404.html")
    assert 'action="search.html"' in site.read("html/404.html")
