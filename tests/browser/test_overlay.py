"""The reader's own machine, on the page of the first speed-up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import SITE, missing

PAGE = SITE / "tutorials/1_setup/02_first_speedup.html"
RECORDS = sorted(Path(__file__).resolve().parents[2].glob("records/*/1_setup/02_first_speedup.json"))
HOSTILE = '<img src=x onerror="document.title=1"><script>alert(1)</script>'


@pytest.fixture
def page(browser):
    if not PAGE.exists():
        missing(f"there is no {PAGE}: build the site first (make docs)")
    context = browser.new_context()
    page = context.new_page()
    page.goto(PAGE.as_uri())
    page.locator(".fl-yours summary").press("Enter")
    yield page
    context.close()


def record(page, **changes) -> str:
    """A record of this very page, of a machine that is ten times as fast."""
    content = json.loads(RECORDS[0].read_text(encoding="utf-8"))
    content["metadata"] |= {"device_name": "Reader's GPU", "code_sha256": code(page)} | changes
    for benchmark in content["benchmarks"]:
        benchmark["runs"][0]["values"] = [value / 10 for value in benchmark["runs"][0]["values"]]
    return json.dumps(content)


def code(page) -> str:
    return page.locator(".fl-timings").first.get_attribute("data-code")


def paste(page, text: str) -> str:
    page.locator(".fl-yours textarea").fill(text)
    page.get_by_role("button", name="Add what I pasted").press("Enter")
    return page.get_by_role("status").inner_text()


def choose(page, text: str) -> str:
    file = {"name": "mine.json", "mimeType": "application/json", "buffer": text.encode()}
    page.locator(".fl-yours input").set_input_files(file)
    page.wait_for_function("document.querySelector('.fl-status').textContent")
    return page.get_by_role("status").inner_text()


DROP = """
([text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], "mine.json"));
    document.querySelector(".fl-timings").dispatchEvent(new DragEvent("drop", {dataTransfer: data, cancelable: true}));
}
"""


def drop(page, text: str) -> str:
    page.evaluate(DROP, [text])
    page.wait_for_function("document.querySelector('.fl-status').textContent")
    return page.get_by_role("status").inner_text()


@pytest.mark.parametrize("give", [paste, choose, drop])
def test_a_record_becomes_a_column_and_marks(page, give) -> None:
    rows = page.locator(".fl-timings tbody tr").count()
    assert "Added Reader's GPU" in give(page, record(page))
    assert page.locator("th.fl-mine").inner_text().startswith("Your machine")
    assert page.locator("td.fl-mine").count() == rows
    assert page.locator("td.fl-mine strong").count() > 0
    assert page.locator("td.fl-mine s").count() == 0
    assert page.locator(".fl-figure g.fl-mine").count() > 0


def test_numbers_are_those_of_the_table(page) -> None:
    """The same record as a column of ours and as the reader's reads the same."""
    own = RECORDS[0].read_text(encoding="utf-8")
    machine = json.loads(own)["metadata"]["machine"]
    heads = page.locator(".fl-timings thead th a")
    place = [a.get_attribute("href").rpartition("#")[2] for a in heads.all()].index(machine)
    paste(page, own)
    for tr in page.locator(".fl-timings tbody tr").all():
        cells = tr.locator("td").all_inner_texts()
        assert cells[-1].split() == cells[place + 1].split()


def test_a_record_of_the_downloaded_script_is_taken(page) -> None:
    assert "Added" in paste(page, record(page, example="elsewhere/02_first_speedup"))
    assert "another page" in paste(page, record(page, example="elsewhere/03_other"))


def test_it_is_kept_and_removed(page) -> None:
    paste(page, record(page))
    page.reload()
    assert page.locator("th.fl-mine").count() == 1
    page.locator(".fl-yours summary").press("Enter")
    page.get_by_role("button", name="Remove my machine").press("Enter")
    assert page.locator(".fl-mine").count() == 0
    page.reload()
    assert page.locator(".fl-mine").count() == 0


def test_hostile_names_are_text(page) -> None:
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog), dialog.dismiss()))
    paste(page, record(page, device_name=HOSTILE, date=HOSTILE))
    assert HOSTILE in page.locator("th.fl-mine").inner_text()
    assert page.locator(".fl-timings img, .fl-timings script").count() == 0
    assert not dialogs
    assert page.title() != "1"


def test_other_code_is_struck_through_and_not_drawn(page) -> None:
    assert "other code" in paste(page, record(page, code_sha256="0"))
    assert page.locator("td.fl-mine s").count() > 0
    assert page.locator(".fl-figure g.fl-mine").count() == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "cut off"),
        ("null", "not a record"),
        ("[]", "not a record"),
        ('{"version": "1.0", "metadata": 3, "benchmarks": []}', "not a record"),
        ('{"version": "1.0", "metadata": {"record_schema": 2}, "benchmarks": []}', "another format"),
        (
            '{"version": "1.0", "metadata": {"record_schema": 1, "example": "3_kernels/x"}, "benchmarks": []}',
            "another page",
        ),
    ],
)
def test_what_is_no_record_is_refused_in_words(page, text: str, says: str) -> None:
    paste(page, record(page))
    assert says in paste(page, text)
    assert page.locator(".fl-status.fl-bad").count() == 1
    assert page.locator("th.fl-mine").count() == 1  # what was there stays


@pytest.mark.parametrize("values", [[], [0], [-1], ["1"], [None], [1e999]])
def test_damaged_rows_are_refused(page, values: list) -> None:
    content = json.loads(record(page))
    content["benchmarks"][0]["runs"][0]["values"] = values
    assert "damaged" in paste(page, json.dumps(content).replace("Infinity", "1e999"))
    assert page.locator(".fl-mine").count() == 0


def test_without_javascript_the_page_is_complete(browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(PAGE.as_uri())
    assert page.locator(".fl-timings td strong").count() > 0
    assert page.locator(".fl-yours").count() == 0
    context.close()
