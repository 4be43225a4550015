from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from samples import CPU, GPU, SOURCE, record_of, timing

from firstlight.cli import main
from firstlight.devices import Card
from firstlight.measure.records import Record, comparison, judged_file, write

NAME = "nvidia-h200/1_setup/01_sums"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one example and one fresh record."""
    script = tmp_path / "examples" / "1_setup" / "01_sums.py"
    script.parent.mkdir(parents=True)
    script.write_text(SOURCE, encoding="utf-8")
    write(record_of(), tmp_path / "records" / f"{NAME}.json")
    return tmp_path


def add(project: Path, record: Record | str, name: str) -> None:
    path = project / "records" / f"{name}.json"
    if isinstance(record, Record):
        write(record, path)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record, encoding="utf-8")


def states(project: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, str]]:
    status = main(["records", "check", "--root", str(project), *words])
    caption, _, _, *rows = capsys.readouterr().out.splitlines()
    assert caption == f"{len(rows)} records"
    return status, {row.split()[0]: " ".join(row.split()[1:]) for row in rows}


MORE = SOURCE + "more = Bench('more-sums')\n"


@pytest.mark.parametrize(
    ("source", "record", "status", "strict", "said"),
    [
        (SOURCE.replace("Words", "Other words"), record_of(), 0, 0, "fresh"),
        (SOURCE.replace("-1", "-2"), record_of(), 0, 1, "stale"),
        (SOURCE.replace("abs, -1", "abs, -1, ("), record_of(), 0, 1, "stale"),  # no Python, and no crash
        (SOURCE, record_of(date="2020-01-01 00:00:00.000000"), 0, 0, "drifted"),
        (None, record_of(), 1, 1, "orphan"),
        (MORE, record_of(source=MORE), 1, 1, "partial nothing of more-sums"),
    ],
)
def test_what_is_told_and_whether_it_fails(project, capsys, source, record, status, strict, said) -> None:
    script = project / "examples" / "1_setup" / "01_sums.py"
    script.write_text(source) if source else script.unlink()
    add(project, record, NAME)
    found = states(project, capsys)
    assert (found[0], states(project, capsys, "--strict")[0]) == (status, strict)
    assert found[1][NAME].startswith(said)


@pytest.mark.parametrize("text", ["", '{"version": "1.0", "metadata": {"record_schema": 9}}', "\x00\x1b[2J"])
def test_what_is_no_record_is_invalid_and_the_others_are_still_judged(project, capsys, text) -> None:
    add(project, text, "another/1_setup/01_sums")
    status, found = states(project, capsys)
    assert status == 1
    assert found["another/1_setup/01_sums"].startswith("invalid ")
    assert found[NAME] == "fresh"


@pytest.mark.parametrize(
    "name", ["another/1_setup/01_sums", "nvidia-h200/1_setup/02_other", "nvidia-h200/2_other/01_sums", "mine", "a/mine"]
)
def test_a_record_in_anothers_place_is_invalid(project, capsys, name) -> None:
    add(project, record_of(), name)
    status, found = states(project, capsys)
    assert status == 1
    assert "1_setup/01_sums on nvidia-h200" in found[name]


def test_a_record_cannot_lead_out_of_the_examples(project) -> None:
    (project / "secret.py").write_text("x = 1\n", encoding="utf-8")
    path = project / "records" / f"{NAME}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["metadata"]["example"] = "../secret"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert judged_file(path, project / "examples")[1] == "invalid"


# -- Two machines side by side -----------------------------------------------------------------------------------------

H100 = replace(GPU, name="NVIDIA H100")


def rows(one: Record, other: Record) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in comparison(one, other).rows}


def test_ratio_and_its_range() -> None:
    one = record_of(timing(values=(1.0, 2.0, 3.0, 4.0, 5.0)))
    other = record_of(timing(values=(0.4, 0.5, 0.5, 0.6)), on=H100)
    table = comparison(one, other)
    assert table.head[1:3] == ("nvidia-h200", "nvidia-h100")
    assert table.caption == "1_setup/01_sums"
    # Medians 3 and 0.5; quartiles 2 to 4 and 0.475 to 0.525.
    assert rows(one, other) == {"sums/add/cuda:0/n=333": ("3.00 s", "500 ms", "6 ×", "3.81 to 8.42")}
    assert rows(other, one)["sums/add/cuda:0/n=333"][2:] == ("0.167 ×", "0.119 to 0.263")


def test_other_sizes_and_other_labels_are_not_compared() -> None:
    one = record_of(timing(n=333), timing("only here"))
    other = record_of(timing(n=334), timing("only there"))
    found = rows(one, other)
    assert len(found) == 4
    assert {row[2:] for row in found.values()} == {("–", "–")}
    assert found["sums/only there/cuda:0/n=333"][0] == "–"


def test_the_same_row_on_another_kind_of_device_is_compared() -> None:
    found = rows(record_of(timing()), record_of(timing(device="mps"), on=Card("Apple M4", "mps")))
    assert found["sums/add/cuda:0/n=333"][2] == "1 ×"
    assert len(found) == 1


def test_a_label_on_two_devices_is_compared_by_device_or_not_at_all() -> None:
    one = record_of(timing(values=(1.0,)), timing(device="cpu", values=(8.0,)))
    other = record_of(timing(device="cpu", values=(2.0,)), timing(values=(0.5,)))
    found = rows(one, other)
    assert (found["sums/add/cuda:0/n=333"][2], found["sums/add/cpu/n=333"][2]) == ("2 ×", "4 ×")
    found = rows(one, record_of(timing(device="mps", values=(2.0,))))
    assert {row[2] for row in found.values()} == {"–"}  # which of the two would it be?


def test_records_of_two_examples_are_refused_and_a_copy_elsewhere_is_not() -> None:
    one = record_of()
    with pytest.raises(ValueError, match=r"1_setup/01_sums .*1_setup/02_other"):
        comparison(one, record_of(source="x = 1", example="1_setup/02_other"))
    assert comparison(one, record_of(example="elsewhere/01_sums")).rows
    assert "different code" in comparison(one, record_of(source="x = 1")).caption


def test_compare_on_the_command_line(tmp_path, capsys) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    write(record_of(), one)
    write(record_of(on=CPU), other)
    assert main(["compare", str(one), str(other)]) == 0
    assert "cpu-amd-epyc" in capsys.readouterr().out
    for wrong in (tmp_path / "missing.json", tmp_path):
        assert main(["compare", str(one), str(wrong)]) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert str(wrong) in err
