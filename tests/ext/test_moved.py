"""Old addresses lead to pages that exist."""

import re
import tomllib
from base64 import b64encode
from hashlib import sha256

from _ext.downloads import ROOT

MOVED = tomllib.loads((ROOT / "docs/moved.toml").read_text(encoding="utf-8"))


def is_page(name):
    return (ROOT / f"docs/{name}.md").is_file() or (ROOT / f"{name.replace('tutorials', 'examples', 1)}.py").is_file()


def test_an_old_address_leads_at_once_to_a_page_that_exists_and_hides_none():
    assert MOVED
    assert [(old, new) for old, new in MOVED.items() if not is_page(new) or is_page(old)] == []


def test_an_old_address_is_a_page_that_leads_on(make_site):
    site = make_site({"new.rst": "New\n===\n"})
    with (site.folder / "conf.py").open("a", encoding="utf-8") as conf:
        conf.write('extensions.append("sphinx_reredirects")\nredirects = {"a/old": "/new.html"}\n')
    site.rebuild("html", f"-Dredirect_html_template_file={ROOT / 'docs/_templates/moved.html'}")
    html = site.read("html/a/old.html")
    assert set(re.findall(r'(?:url=|href=")([^"]*)"', html)) == {"../new.html"}
    (script,) = re.findall(r"<script>(.*?)</script>", html)
    assert f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in html  # or no browser runs it
