from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from _ext.doctor import by_question, steps
from firstlight_doctor import case, cases
from firstlight_doctor.errors import TABLE
from firstlight_doctor.report import remedies
from firstlight_doctor.rules import QUESTIONS, RULES

PAGE = """
Why
===

.. raw:: html

   <div class="fl-paste"></div>

.. doctor-rules::
"""
SHOWN = [rule for rule in RULES if any(case(name).cause == rule.code for name in cases())]


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site({"doctor.rst": PAGE, "other.rst": "Other\n=====\n\n:ref:`doctor-nouveau`\n"})
    assert not site.build("html").failed, site.log
    return site


def words_of(site, code: str) -> str:
    """What the page of a cause says, in one line."""
    body = site.read(f"html/doctor/{code}.html").partition('<div class="body"')[2].partition("sphinxsidebar")[0]
    return " ".join(unescape(re.sub("<[^>]*>", "", body)).split())


def test_every_cause_has_its_page_and_a_line_under_its_question_with_its_old_address(site) -> None:
    page = unescape(site.read("html/doctor.html"))
    at = [page.index(f'<section id="question-{name}">\n<h2>{words}<') for name, words in QUESTIONS.items()]
    assert at == sorted(at)
    listed = re.findall(r'<li id="([^"]+)"><p><a class="reference external" href="doctor/([^"]+)\.html"', page)
    assert sorted(listed) == sorted((code, code) for code in [*TABLE, "no-known-cause"])
    assert {path.stem for path in (site.folder / "build/html/doctor").iterdir()} == {code for code, _ in listed}
    assert 'href="doctor/nouveau.html"' in site.read("html/other.html")


def test_first_come_a_short_report_and_the_commonest_causes(site) -> None:
    first = unescape(site.read("html/doctor.html").partition('<section id="question-')[0])
    report = re.sub("<[^>]*>", "", first.partition("<pre>")[2].partition("</pre>")[0])
    assert "✗" in report.partition("…")[0]
    assert "Diagnosis: NVIDIA's driver is not installed" in report
    assert "    $ " in report
    assert len(report.splitlines()) < 15
    codes = re.findall(r'href="doctor/([^"]+)\.html"', first.partition('class="fl-often')[2].partition("</ul>")[0])
    often = [TABLE[rule.code].get("often", 0) for rule in RULES if rule.kind == "problem"]
    assert [TABLE[code]["often"] for code in codes] == sorted(often, reverse=True)[:5]


@pytest.mark.parametrize("rule", SHOWN, ids=lambda rule: rule.code)
def test_each_remedy_stands_beside_the_machines_to_which_the_doctor_gives_it(rule, site) -> None:
    said = words_of(site, rule.code)
    assert rule.title in said  # with the quotes and dashes that it was written with
    had = remedies(rule.code)
    whens = "|".join(re.escape(machines[0][0].when) for _, machines in had)
    parts = re.split(f"If (?={whens})", said)[1:]
    for (fix, machines), part in zip(had, parts if len(had) > 1 else [said], strict=True):
        for step in fix:
            assert " ".join(step.removeprefix("$ ").split()) in part
        for machine, finding in machines:
            assert machine.title in part
            assert machine.when in part
            assert all(" ".join(each.split()) in part for each in finding.evidence)


def test_a_page_is_titled_and_described_with_the_words_of_the_error(site) -> None:
    page = unescape(site.read("html/doctor/forked.html"))
    assert re.search(r"<title>Cannot re-initialize \w+ in forked subprocess", page)
    assert "forked" in next(line for line in page.splitlines() if 'name="description"' in line)
    assert "<code" in page.partition("What it looks like")[2].partition("Cannot re-initialize")[0]
    for cause in (cause for some in by_question().values() for cause in some):
        assert len(words_of(site, cause.code)) > 200


def test_commands_that_ask_for_a_driver_lead_to_the_table_of_drivers(site) -> None:
    assert 'href="../install.html#which-wheel-for-which-driver"' in site.read("html/doctor/cpu-wheel.html")
    assert "which-wheel-for-which-driver" not in site.read("html/doctor/nouveau.html")


def test_commands_are_copied_without_their_prompt() -> None:
    made = list(steps(["First this:", "$ one --a 'b'", "$ two", "Then that.", "And that.", "$ three"]))
    assert [node.tagname for node in made] == ["paragraph", "literal_block", "paragraph", "paragraph", "literal_block"]
    assert made[1].astext() == "one --a 'b'\ntwo"


def test_the_tutorial_that_teaches_a_cause_is_there() -> None:
    examples = Path(__file__).parents[2] / "examples"
    pages = {page for cause in TABLE.values() for page in cause.get("pages", ())}
    assert {page for page in pages if not (examples / f"{page}.py").is_file()} == set()
