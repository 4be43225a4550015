"""Old addresses of names in the reference still lead to them."""

import re
import tomllib
from itertools import product

from _ext.downloads import ROOT
from _ext.references import old_addresses

MOVED = tomllib.loads((ROOT / "docs/moved_names.toml").read_text(encoding="utf-8"))
ONCE = tomllib.loads((ROOT / "tests/ext/addresses.toml").read_text(encoding="utf-8"))
MEMBERS = re.compile(r"automodule:: (\S+)\n +:members: (.*)")


def addresses(modules):
    return {f"{module}.{name}" for module, names in modules for name in names.split(", ")}


def test_every_address_that_the_reference_ever_had_is_on_its_page_still():
    """If one is missing, say in docs/moved_names.toml where its name has gone."""
    for page, modules in ONCE.items():
        now = addresses(MEMBERS.findall((ROOT / f"docs/api/{page}.md").read_text(encoding="utf-8")))
        then = {old for address in now for old in old_addresses(address, MOVED)}
        assert addresses(modules.items()) - now - then == set()


def test_a_name_has_all_its_addresses_and_each_leads_to_it_alone(make_site):
    site = make_site(
        {
            "moved_names.toml": '"first." = "today."\n"second." = "today."\n"today.Card.old" = "today.Card.new"\n',
            "names.rst": "Names\n=====\n\n.. py:class:: today.Card\n\n   .. py:method:: new\n\n"
            ".. py:function:: other.f\n",
        }
    )
    site.rebuild()
    ids = [value["id"] for _, value, _ in site.elements("html/names.html").found if "id" in value]
    moved = {f"{before}.{name}" for before, name in product(("first", "second", "today"), ("Card", "Card.new"))}
    assert moved | {"today.Card.old", "other.f"} <= set(ids)
    assert len(set(ids)) == len(ids)
    assert "first." not in site.read("html/names.html").partition('href="#today.Card"')[2].partition("</a>")[0]
    (site.folder / "moved_names.toml").write_text('"third." = "today."\n', encoding="utf-8")
    assert site.rebuild() == "0 added, 1 changed, 0 removed"
    assert 'id="third.Card"' in site.read("html/names.html")
