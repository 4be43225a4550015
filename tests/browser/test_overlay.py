"""The reader's own machine, on the page of the first speed-up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checks import wait_until
from conftest import SITE

PAGE = SITE / "tutorials/1_setup/02_first_speedup.html"
RECORDS = sorted(Path(__file__).resolve().parents[2].glob("records/*/1_setup/02_first_speedup.json"))
HOSTILE = '<img src=x onerror="document.title=1"><script>alert(1)</script>'
HEAD = '{"version": "1.0", "metadata": {"record_schema": 1, "example": "3_kernels/x"}, "benchmarks": []}'
NO_RECORDS = ("", "{", "null", "[]", '{"version": "1.0", "metadata": 3, "benchmarks": []}',
              HEAD.replace('"record_schema": 1', '"record_schema": 2'), HEAD)  # fmt: skip


def record(page: Any, **changes: Any) -> str:
    """A record of this very page, of a machine that is ten times as fast."""
    content = json.loads(RECORDS[0].read_text(encoding="utf-8"))
    code = page.locator(".fl-timings").first.get_attribute("data-code").split()[0]  # with the solution, and without
    content["metadata"] |= {"device_name": "Reader's GPU", "code_sha256": code} | changes
    for benchmark in content["benchmarks"]:
        benchmark["runs"][0]["values"] = [value / 10 for value in benchmark["runs"][0]["values"]]
    return json.dumps(content)


def choose(page: Any, text: str) -> None:
    file = {"name": "mine.json", "mimeType": "application/json", "buffer": text.encode()}
    page.locator(".fl-yours input").set_input_files(file)


def taken(page: Any, text: str) -> bool:
    """Give a record: whether it is taken."""
    page.evaluate("document.querySelector('.fl-status').textContent = ''")
    choose(page, text)
    wait_until(page, "document.querySelector('.fl-status').textContent !== ''")
    return page.locator(".fl-status.fl-bad").count() == 0


def test_a_record_becomes_a_column(page: Any) -> None:
    rows = page.locator(".fl-timings tbody tr").count()
    assert taken(page, record(page))
    assert "Reader's GPU" in page.locator("th.fl-mine").inner_text()
    assert page.locator("td.fl-mine").count() == rows
    assert page.locator("td.fl-mine strong").count() > 0
    assert page.locator("td.fl-mine s").count() == 0
    assert taken(page, record(page, code_sha256="0", example="elsewhere/02_first_speedup"))
    assert page.locator("td.fl-mine s").count() > 0  # other code is struck through


def test_numbers_are_those_of_the_table(page: Any) -> None:
    """The same record as a column of ours and as the reader's reads the same."""
    own = RECORDS[0].read_text(encoding="utf-8")
    machine = json.loads(own)["metadata"]["machine"]
    links = page.locator(".fl-timings thead th a").evaluate_all("all => all.map(one => one.hash.slice(1))")
    assert taken(page, own)
    for tr in page.locator(".fl-timings tbody tr").all():
        cells = tr.locator("td").all_inner_texts()
        assert cells[-1].split() == cells[links.index(machine)].split()


def test_hostile_names_are_text(page: Any) -> None:
    dialogs = []
    page.once("dialog", lambda dialog: (dialogs.append(dialog), dialog.dismiss()))
    assert taken(page, record(page, device_name=HOSTILE, date=HOSTILE))
    assert HOSTILE in page.locator("th.fl-mine").inner_text()
    assert page.locator(".fl-timings img, .fl-timings script").count() == 0
    assert not dialogs
    assert page.title() != "1"


def test_what_is_no_record_is_refused_and_what_was_there_stays(page: Any) -> None:
    assert taken(page, record(page))
    content = json.loads(record(page))
    content["benchmarks"][0]["runs"][0]["values"] = [0]
    for text in (*NO_RECORDS, json.dumps(content), record(page, example="elsewhere/03_other")):
        assert not taken(page, text), text
        assert page.locator(".fl-status").text_content().strip()
        assert page.locator("th.fl-mine").count() == 1


def test_without_javascript_the_page_is_complete(bare: Any) -> None:
    assert bare.locator(".fl-timings td strong").count() > 0
    assert bare.locator(".fl-yours").count() == 0
