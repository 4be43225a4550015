import pytest

PAGES = {
    "index.rst": "Home\n====\n\n.. toctree::\n\n   zeta\n   sub/bare\n",
    "zeta.rst": """Z & "zeta"
==========

.. note::

   Not this, it stands in a box.

One page: "is 1 < 2, & why?" See :doc:`sub/bare` and *this*.

Not this, it is the second.
""",
    "sub/bare.rst": "Bare\n====\n\n- a list, and no paragraph\n",
    "long.rst": ":orphan:\n\nLong\n====\n\n" + "word " * 60,
}


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site(PAGES)
    site.rebuild()
    return site


def described(site, page: str) -> list[str | None]:
    found = site.elements(f"html/{page}.html").found
    return [attributes["content"] for tag, attributes, _ in found if tag == "meta" if "description" in
            (attributes.get("name") or "")]  # fmt: skip


def test_a_page_is_described_by_its_first_paragraph_with_links_resolved(site) -> None:
    assert described(site, "zeta") == ["One page: “is 1 < 2, & why?” See Bare and this."]
    assert described(site, "sub/bare") == []
    assert described(site, "long") == ["word " * 39 + "…"]
    assert site.read("html/zeta.html").count('name="viewport"') <= 1
