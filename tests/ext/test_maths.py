from __future__ import annotations

import re

import pytest

# Each page has its own formulas, so that an answer that went to another page shows. The headings of the last one stand
# on the home page too.
PAGES = {f"a_{page:02}": [f"x_{{{page}}}^{{{row}}}" for row in range(1, 11)] for page in range(4)}
HEADINGS = "Last :math:`z^8`\n================\n\nPart :math:`z^9`\n----------------\n\nText.\n"


def page(name, formulas):
    lines = "\n\n".join(f":math:`{formula}`" for formula in formulas)
    return f"{name}\n{'=' * len(name)}\n\n{lines}\n\n.. math:: \\int_0^1 {formulas[0]}\\,dx\n"


def files():
    return {f"{name}.rst": page(name, formulas) for name, formulas in PAGES.items()} | {"zz.rst": HEADINGS}


@pytest.fixture(scope="module")
def site(make_site):
    return make_site(files()).build("html")


def test_every_page_has_its_own_formulas(site):
    assert not site.failed, site.log
    for name, formulas in PAGES.items():
        found = re.findall(r'application/x-tex">\s*(.*?)\s*</annotation>', site.read(f"html/{name}.html"))
        found = [formula for formula in found if not formula.startswith("z")]  # the name of the next page
        assert found == [*formulas, rf"\int_0^1 {formulas[0]}\,dx"], name


def test_a_heading_can_hold_a_formula(site):
    for name in ("index", "zz"):
        assert {"z^8", "z^9"} <= set(
            re.findall(r'application/x-tex">(.*?)</annotation>', site.read(f"html/{name}.html"))
        )


def test_formulas_are_set_in_the_page_and_ask_nobody_for_anything(site):
    elements = site.elements("html/a_00.html").found
    displayed = [attributes.get("display") == "block" for tag, attributes, _ in elements if tag == "math"]
    assert displayed == [False] * 10 + [True]
    asked = [attributes.get("href" if tag == "link" else "src") for tag, attributes, _ in elements
             if tag in {"link", "script", "img", "iframe"}]  # fmt: skip
    assert any("katex" in (address or "") for address in asked)
    assert not [address for address in asked if address and (":" in address or address.startswith("//"))]
    assert not [address for address in asked if address and "katex" in address and ".js" in address]


def test_wrong_mathematics_fails_the_build_and_is_named(make_site):
    site = make_site({"wrong.rst": page("wrong", [r"\frac{1"]), "a.rst": page("a", ["a"])})
    site.build("html")
    assert site.failed
    assert f"{site.folder / 'wrong.rst'}:4: WARNING: KaTeX parse error" in site.log
    assert r"\frac{1" in site.log
    assert "Traceback" not in site.log
