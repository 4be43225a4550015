from __future__ import annotations

import re
from html import unescape

import pytest

from _ext.backlinks import home

EXTENSIONS = "sphinx.ext.napoleon,sphinxcontrib.katex,sphinx_gallery.gen_gallery,_ext"
TUTORIAL = '''"""
{title}
{line}

Text.
"""
from firstlight.imaging import GridCoords
{more}
made = GridCoords(0.1, 8)
made.sky_coordinates()
len([made])
'''
REFERENCE = """
Reference
=========

.. automodule:: firstlight.imaging.coordinates
   :members: GridCoords, sky_to_packed

.. automodule:: firstlight.imaging.limits
   :members: suggest_grid

.. automodule:: firstlight.imaging.needs
   :members: plan
"""


@pytest.mark.parametrize(
    ("module", "name", "full"),
    [
        ("firstlight", "Bench", "firstlight.measure.bench.Bench"),
        ("firstlight.imaging", "plan", "firstlight.imaging.needs.plan"),
        ("firstlight.imaging", "losses", "firstlight.imaging.losses"),
        ("firstlight.imaging.observe", "sky_visibilities", "firstlight.imaging.skies.sky_visibilities"),
        ("firstlight.kernels", "cuda", "numba.cuda"),
        ("firstlight.no_such_module", "name", "firstlight.no_such_module.name"),
    ],
)
def test_a_name_is_followed_to_where_it_is_defined(module, name, full):
    assert home(module, name) == full


def tutorial(title: str, more: str = "") -> str:
    return TUTORIAL.format(title=title, line="=" * len(title), more=more)


@pytest.fixture(scope="module")
def site(make_site):
    files = {f"examples/{n:02}_use.py": tutorial(f"Use {n} <of> `it`?") for n in range(1, 8)}
    files["examples/01_use.py"] = tutorial("First", "from firstlight.imaging import plan\n\nprint(plan)")
    site = make_site(files | {"reference.rst": REFERENCE})
    rebuild(site)
    return site


def rebuild(site) -> str:
    return site.rebuild("html", "-D", f"extensions={EXTENSIONS}")


def used_in(site, name: str) -> list[str]:
    """The pages that are named below a function, before the next one."""
    below = site.read("html/reference.html").partition(f'id="{name}"')[2].partition('<dt class="sig')[0]
    paragraph = re.search(r'<p class="fl-uses">(.*?)</p>', below, re.DOTALL)
    return [unescape(re.sub("<.*?>", "", one)) for one in paragraph[1].split(" · ")] if paragraph else []


def test_the_first_tutorials_are_named_and_the_others_counted(site):
    most = ["Used in: First", *(f"Use {n} <of> `it`?" for n in range(2, 6)), "Use 6 <of> `it`?, and 1 more"]
    assert used_in(site, "firstlight.imaging.coordinates.GridCoords") == most
    assert used_in(site, "firstlight.imaging.coordinates.GridCoords.sky_coordinates") == most
    assert used_in(site, "firstlight.imaging.needs.plan") == ["Used in: First"]
    assert used_in(site, "firstlight.imaging.coordinates.sky_to_packed") == []


def test_code_links_once_to_a_function_and_not_to_what_holds_its_results(site):
    links = re.findall(
        '<a class="fl-ref[^>]*href="../reference.html#([^"]*)"[^>]*>(.*?)</a>', site.read("html/tutorials/01_use.html")
    )
    coordinates = "firstlight.imaging.coordinates.GridCoords"
    assert [(target, re.sub("<.*?>", "", text)) for target, text in links] == [
        (coordinates, "GridCoords"),
        ("firstlight.imaging.needs.plan", "plan"),
        (f"{coordinates}.sky_coordinates", "made.sky_coordinates"),
    ]
    assert "sphx-glr-backref" not in site.read("html/tutorials/01_use.html")


def test_a_changed_tutorial_updates_the_reference_and_another_build_reads_nothing(site):
    script = site.folder / "examples/01_use.py"
    script.write_text(tutorial("Changed", "from firstlight.imaging import suggest_grid\n\nprint(suggest_grid)"))
    assert "3 changed" in rebuild(site)  # with the list of tutorials, which has the title
    assert used_in(site, "firstlight.imaging.needs.plan") == []
    assert used_in(site, "firstlight.imaging.limits.suggest_grid") == ["Used in: Changed"]
    script.write_text(script.read_text() + "\n# A remark.\n")
    assert "1 changed" in rebuild(site)
    assert rebuild(site) == "0 added, 0 changed, 0 removed"
