import re

PAGE = "{name} :math:`z^8`\n===============\n\n:math:`{formula}`\n\n.. math:: \\int_0^1 x\\,dx\n"


def test_formulas_are_set_in_the_page_in_headings_too_and_ask_nobody_for_anything(make_site):
    site = make_site({"a.rst": PAGE.format(name="A", formula="\\sqrt{x} < 1")})
    site.rebuild()
    found = site.elements("html/a.html").found
    displays = [attributes.get("display") for tag, attributes, _ in found if tag == "math"]
    assert displays.count("block") == 1
    assert "msqrt" in {tag for tag, _, _ in found}
    for page in ("index", "a"):
        assert re.search(r"<msup>\s*<mi>z</mi>\s*<mn>8</mn>", site.read(f"html/{page}.html")), page
    assert "mathjax" not in site.read("html/a.html").lower()


def test_wrong_mathematics_fails_the_build_and_is_named(make_site):
    site = make_site({"wrong.rst": PAGE.format(name="W", formula="\\nosuch{1}")}).build("html")
    assert site.failed
    assert re.search(r"wrong\.rst:\d+: WARNING: the formula \\nosuch\{1\} cannot be set", site.log)
    assert "Traceback" not in site.log
