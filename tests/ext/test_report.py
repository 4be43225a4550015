from __future__ import annotations

import json
import os
import re
import time
import zlib
from types import SimpleNamespace

import pytest
from sphinx.builders.html import StandaloneHTMLBuilder

from _ext import report
from _ext.report import Cost, figures, in_terminal, on_page, run_of, summary, when

LIGHT, DARK = b"light" * 2000, b"dark" * 9000
FIGURES = '.. raw:: html\n\n   <img src="_images/a b.webp"><img class="x only-dark" src="_images/dark.webp">\n'
REPORT = ":orphan:\n\nReport\n======\n\n.. raw:: html\n\n   <!-- report --><!-- end of report -->\n\nThe end.\n"
PAGES = {
    "quick.rst": f"Quick\n=====\n\n{FIGURES}",
    "quick.cost.json": json.dumps({"time": 3.25, "memory": 0}),
    "slow.rst": "Slow\n====\n\nText.\n",
    "slow.cost.json": json.dumps({"time": 20.5, "memory": 0}),
    "shown.rst": "Shown, not run\n==============\n",
    "shown.cost.json": json.dumps({"time": 0, "memory": 0}),
    "again.rst": "Again\n=====\n",
    "again.cost.json": json.dumps({"time": 1, "memory": 0}),
    "plain.rst": "Plain\n=====\n",
}


@pytest.fixture(scope="module")
def site(make_site):
    """Pages of which three ran, an age ago; one of them has a figure for each theme."""
    site = make_site(PAGES | {"build_report.rst": REPORT})
    for name in ("quick", "slow", "shown", "again"):
        os.utime(site.folder / f"{name}.cost.json", (86400, 86400))
    images = site.folder / "build/html/_images"
    images.mkdir(parents=True)
    (images / "a b.webp").write_bytes(LIGHT)
    (images / "dark.webp").write_bytes(DARK)
    assert not site.build("html").failed, site.log
    return site


def rows(site) -> dict[str, list[str]]:
    """The cells of the table on the page, by page."""
    table = site.read("html/build_report.html").partition("<tbody>")[2].partition("</tbody>")[0]
    lines = [re.findall(r"<t[hd][^>]*>(?:<a [^>]*>)?([^<]*)<", row) for row in table.split("<tr>")[1:]]
    return {line[0]: line[1:] for line in lines}


def test_page_says_what_each_page_cost(site) -> None:
    found = rows(site)
    assert set(found) == {"slow", "quick", "again", "index", "plain", "shown"}, "all but the report itself"
    assert list(found)[:2] == ["slow", "quick"], "the slowest first"
    html = round(len(zlib.compress(site.read("html/quick.html").encode())) / 1000)
    assert found["quick"] == ["3.2", f"{html}", "10", f"{found['quick'][3]}", "1970-01-02"]
    assert abs(int(found["quick"][3]) - html - 10) <= 1
    assert found["shown"][0] == found["shown"][4] == found["plain"][0] == "–", "zero seconds: it was not run"


def test_page_keeps_its_own_text_and_links_the_others(site) -> None:
    html = site.read("html/build_report.html")
    assert html.index("<table>") < html.index("<p>The end.")
    assert 'scope="row"><a href="slow.html">slow</a>' in html
    assert "<caption>" in html
    assert '<th scope="col">seconds</th>' in html


def test_a_build_that_writes_nothing_says_and_changes_nothing(site) -> None:
    assert "weights in kB" in site.log
    before = (site.folder / "build/html/build_report.html").stat().st_mtime_ns
    assert site.rebuild() == "0 added, 0 changed, 0 removed"
    assert "weights in kB" not in site.log
    assert (site.folder / "build/html/build_report.html").stat().st_mtime_ns == before


def test_an_edited_page_is_weighed_again_and_the_rest_is_kept(site) -> None:
    before = rows(site)
    site.write("plain.rst", "Plain\n=====\n\n" + "".join(f"{n**3} " for n in range(9000)))
    site.rebuild()
    assert "weights in kB" in site.log
    after = rows(site)
    assert int(after["plain"][3]) > int(before["plain"][3]) + 9
    assert after["slow"] == before["slow"]


def test_a_page_that_ran_again_is_reported_though_its_text_is_the_same(site) -> None:
    assert rows(site)["again"][0] == "1.0"
    site.write("again.cost.json", json.dumps({"time": 2.0, "memory": 0}))
    site.rebuild()
    assert rows(site)["again"][0] == "2.0"


def test_the_report_itself_when_written_again_is_filled_in_again(site) -> None:
    site.write("build_report.rst", REPORT + "\nMore.\n")
    site.rebuild()
    assert next(iter(rows(site))) == "slow"
    assert "More." in site.read("html/build_report.html")


def test_other_builders_and_sites_without_the_page_are_left_alone(site) -> None:
    site.rebuild("text")
    assert "weights in kB" not in site.log
    (site.folder / "build_report.rst").unlink()
    site.write("plain.rst", PAGES["plain.rst"])
    site.rebuild()
    assert "weights in kB" not in site.log


def test_a_failed_build_reports_nothing(monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(report, "measured", lambda *arguments: asked.append(arguments) or [])
    app = SimpleNamespace(builder=object.__new__(StandaloneHTMLBuilder))
    report.report(app, ValueError("broken"), 0.0)
    assert asked == []


def cost(page: str, seconds: float | None = None, html: int = 1000, seen: int = 0) -> Cost:
    return Cost(page, seconds, 86400.0, html, seen)


def test_sums_name_what_is_over_the_budget_and_leave_out_what_did_not_run() -> None:
    text = " ".join(summary([cost("just", 15.0), cost("over", 15.1), cost("plain", None, 2_000_000, 500_000)]))
    assert "2 of 3 pages run code, together 30 s." in text
    assert "Over 15 s: over." in text
    assert "2.5 MB" in text
    assert "Over 15 s: none." in " ".join(summary([cost("plain")]))


def test_terminal_has_five_of_each_and_no_page_that_did_not_run_among_the_slow() -> None:
    costs = [cost(f"p{n}", 20.0 - n, html=1000 * n) for n in range(7)] + [cost("heavy", None, 10, 99_000)]
    slow, heavy, _ = in_terminal(costs, 0.0).split("\n\n")
    assert [line.split()[0] for line in slow.splitlines()[3:]] == ["p0", "p1", "p2", "p3", "p4"]
    assert [line.split()[0] for line in heavy.splitlines()[3:]] == ["heavy", "p6", "p5", "p4", "p3"]
    assert "heavy" not in in_terminal([cost("heavy")], 0.0).split("\n\n")[0]


def test_a_page_whose_name_begins_like_another_keeps_its_own_link() -> None:
    html = on_page([cost("a/index", 1.0), cost("index", 2.0)], 0.0)
    assert html.count("<a ") == 2
    assert '<a href="a/index.html">a/index</a>' in html


def test_days_and_this_build() -> None:
    now = time.time()
    assert when(now, now - 9) == "this build"
    assert when(now - 10, now - 9) != "this build"
    assert when(now + 3600, now - 9) != "this build", "a clock that was wrong is no proof"
    assert when(0.0, now) == "1970-01-01"


def test_executed_pages_say_their_time() -> None:
    cells = {"exec_data": {"runtime": 4.5, "mtime": 7.0}}
    env = SimpleNamespace(doc2path=lambda name: f"/nowhere/{name}.md", nb_metadata={"ran": cells, "plain": {}})
    assert run_of(env, "ran") == (4.5, 7.0)
    assert run_of(env, "plain") == run_of(env, "unknown") == (None, 0)


AWKWARD = """<img src="one.png#part"><img src="one.png?v=2"><img src="gone.png"><img><img src="">
<img src="data:image/png;base64,AA"><img src="https://example.org/one.png"><img src="//example.org/one.png">
<img src="_static/logo.png"><img src="sub/../sub/two%20parts.png"><img class="only-darker" src="three.png">"""


def test_a_page_has_the_images_that_are_its_own(tmp_path) -> None:
    for name in ("one.png", "sub/two parts.png", "three.png", "_static/logo.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = {file.name for file in figures(tmp_path / "page.html", AWKWARD)}
    assert found == {"one.png", "two parts.png", "three.png"}
