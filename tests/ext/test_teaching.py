"""Plans add up, each page of the short course has a guess, and wrong answers are given to the page's own check."""

import json
import re
import subprocess
import sys

import pytest

from _ext.course import read, tutorials_in
from _ext.downloads import ROOT
from _ext.teaching import COLLECTOR, class_time

COURSE = read((ROOT / "docs/course.toml").read_text(encoding="utf-8"), tutorials_in(ROOT))
PLANS = re.findall(r"```{plan} (.+)\n((?:.+\n)+?)```", (ROOT / "docs/teach.md").read_text(encoding="utf-8"))


def test_every_page_of_the_short_course_or_a_plan_has_a_guess_and_no_other():
    planned = {line for _, lines in PLANS for line in lines.splitlines() if line in COURSE.pages}
    assert {name for name, page in COURSE.pages.items() if page.guess} == planned.union(COURSE.short)


@pytest.mark.parametrize("lines", [lines for title, lines in PLANS if title.startswith("Ninety minutes")])
def test_ninety_minutes_are_no_longer(lines):
    pages = COURSE.pages
    took = [class_time(pages[line].minutes) if line in pages else int(line.split()[0]) for line in lines.splitlines()]
    assert sum(took) <= 90


def test_wrong_answers_hear_what_the_pages_check_says(tmp_path):
    kept = tmp_path / "said.json"
    subprocess.run([sys.executable, COLLECTOR, kept, "small_copies", "same_seed"], cwd=ROOT, check=True)
    said = json.loads(kept.read_text(encoding="utf-8"))
    copies, seeds = (dict(said[page]) for page in ("2_devices/04_small_copies", "2_devices/19_same_seed"))
    assert "left at the end" in copies["forgets the rest"]
    assert "the start" not in copies
    assert seeds["with_torch"], "an answer without a name is shown as code"
