from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from _ext.doctor import steps
from firstlight_doctor import case, cases, examine
from firstlight_doctor.errors import TABLE
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


@pytest.fixture(scope="module")
def sections(site):
    """What is in the section of each cause, by its code; a section begins where the one before it ends."""
    parts = site.read("html/doctor.html").split('<section class="fl-cause" id="')[1:]
    return {part.partition('"')[0]: part for part in parts}


def test_every_cause_has_a_section_under_its_question(site, sections) -> None:
    assert set(sections) == {*TABLE, "no-known-cause"}
    page = unescape(site.read("html/doctor.html"))
    at = [page.index(f'<section id="question-{name}">\n<h2>{words}<') for name, words in QUESTIONS.items()]
    assert at == sorted(at)


def test_first_come_a_short_report_and_the_commonest_causes(site) -> None:
    first = unescape(site.read("html/doctor.html").partition('<section id="question-')[0])
    report = re.sub("<[^>]*>", "", first.partition("<pre>")[2].partition("</pre>")[0])
    assert "✗" in report.partition("…")[0]
    assert "Diagnosis: NVIDIA's driver is not installed" in report
    assert "    $ " in report
    assert len(report.splitlines()) < 15
    codes = re.findall('href="#([^"]+)"', first.partition('class="fl-often')[2].partition("</ul>")[0])
    often = [TABLE[rule.code].get("often", 0) for rule in RULES if rule.kind == "problem"]
    assert [TABLE[code]["often"] for code in codes] == sorted(often, reverse=True)[:5]


@pytest.mark.parametrize("rule", SHOWN, ids=lambda rule: rule.code)
def test_a_section_says_what_the_doctor_says(rule, sections) -> None:
    section = sections[rule.code]
    words = unescape(re.sub("<[^>]*>", "", section))
    assert rule.title in words  # with the quotes and dashes that it was written with
    shown = [case(name) for name in cases() if case(name).cause == rule.code]
    first = next((each for each in shown if each.name == rule.code), shown[0])
    finding = next(found for found in examine(first.facts).findings if found.rule.code == rule.code)
    for seen in finding.evidence:
        assert seen in words
    for each in shown:
        assert each.title in words
    assert section.count("<details") == 1 + len(shown)


def test_errors_are_found_by_the_search_and_in_the_page(site, sections) -> None:
    assert "<code" in sections["nouveau"].partition("You may see")[2].partition("nouveau")[0]
    index = site.read("html/searchindex.js").partition('"indexentries":')[2].partition('"objects"')[0]
    for term in TABLE["nouveau"]["says"][:5]:
        assert f'"{term.lower()}":' in index


def test_commands_are_copied_without_their_prompt() -> None:
    made = list(steps(["First this:", "$ one --a 'b'", "$ two", "Then that.", "And that.", "$ three"]))
    assert [node.tagname for node in made] == ["paragraph", "literal_block", "paragraph", "paragraph", "literal_block"]
    assert made[1].astext() == "one --a 'b'\ntwo"


def test_the_tutorial_that_teaches_a_cause_is_there() -> None:
    examples = Path(__file__).parents[2] / "examples"
    pages = {code: cause["page"] for code, cause in TABLE.items() if "page" in cause}
    assert {code: page for code, page in pages.items() if not (examples / f"{page}.py").is_file()} == {}
