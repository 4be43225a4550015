import getpass
import json
import math
import os
import re
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import RECORDS, ROOT, SOURCE, full_timing, record_of, timing

from firstlight.cli import main
from firstlight.devices import card
from firstlight.records import record as records
from firstlight.records.record import (
    MAX_BYTES,
    InvalidRecord,
    facts_of,
    from_json,
    judge_record,
    read,
    to_json,
    to_row,
    write,
)
from firstlight.timing.result import Timing

NOW = datetime(2026, 11, 21, tzinfo=UTC)


# -- What is written is what is read -----------------------------------------------------------------------------------


def test_round_trip_with_four_digits_of_what_was_measured_and_all_of_sizes() -> None:
    exact = timing(values=(0.123456789, 1.23456e-7), n=np.int64(20_000_001), cores=1.23456, of_roof=0.0)
    (row,) = from_json(to_json(record_of(exact))).timings.values()
    assert (row.values, row.n, row.cores, row.of_roof) == ((0.1235, 1.235e-7), 20_000_001, 1.235, 0.0)
    record = record_of(
        full_timing(), timing("<script>alert('1')</script> | ×", n=None, device="mps", verdicts=("few", "noisy"))
    )
    printed = ("[  1.   2. ]\n[ 30.   4. ]", "[1,   2]", "a\r\nb\x1b[0m", "µ × 😀", '"\\u2028')  # to the letter
    record = replace(record, outputs={f"{number:016x}": text for number, text in enumerate(printed)})
    back = from_json(to_json(record))
    assert (back.facts, back.timings, back.outputs) == (record.facts, record.timings, record.outputs)
    assert (back.machine, back.example) == ("nvidia-h200", "1_setup/01_sums")


# -- Old rows are judged by the rules of today, and what they do not hold is unknown -----------------------------------


def read_again(**row: Any) -> Timing:
    facts = {"values": (1e-3,) * 9, "device_seconds": None, **row}
    (back,) = from_json(to_json(record_of(timing(**facts)))).timings.values()
    return back


@pytest.mark.parametrize(
    ("row", "verdicts"),
    [
        (
            {"verdicts": ("launch-bound",), "device_seconds": 1e-4, "values": (1e-3, 2e-3, 3e-3)},
            "launch-bound, few, noisy",
        ),
        ({"verdicts": ("noisy",)}, "ok"),
        ({"verdicts": ("in-cache",), "bytes": 10**6}, "in-cache"),  # by the roof of that day
        (
            {"verdicts": ("above-roof",), "flops": 2 * 4096**3, "values": (376e-6,) * 9},
            "above-roof",
        ),  # which cores did it?
        ({"flops": 2 * 4096**3, "values": (40e-6,) * 9}, "impossible"),
        ({"bytes": 190 * 10**6, "values": (6e-6,) * 9}, "impossible"),
        ({"device": "mps", "bytes": 10**12}, "ok"),  # nobody knows what it can do
        ({"device": "cpu", "cores": 0.5}, "cpu-contended"),
    ],
)
def test_rows_of_old_records_are_judged_again(row: dict[str, Any], verdicts: str) -> None:
    assert read_again(**row).verdict_text == verdicts


def test_what_an_old_row_does_not_hold_is_unknown() -> None:
    row = read_again()
    assert (row.before, row.after, row.queued, row.tensor_cores) == (None,) * 4


def test_rows_of_one_experiment_are_judged_together_and_no_others() -> None:
    rows = {n: timing(n=n, bytes=12 * n, values=(seconds,) * 9) for n, seconds in ((9, 2e-3), (99, 1e-3))}
    record = record_of()
    for benches, verdict in ((("sums", "sums"), "non-monotonic"), (("sums", "other"), "ok")):
        named = zip(benches, rows.items(), strict=True)
        timings = {f"{bench}/add/cuda:0/n={n}": row for bench, (n, row) in named}
        back = from_json(to_json(replace(record, timings=timings))).timings
        assert [row.verdict for row in back.values()] == [verdict, "ok"]


# -- Whole or not at all -----------------------------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "nvidia-h200" / "1_setup" / "01_sums.json"
    write(record_of(), path)
    return path


def unchanged(path: Path, before: bytes) -> bool:
    return path.read_bytes() == before and [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(old, monkeypatch, step, error) -> None:
    before, original = old.read_bytes(), getattr(Path, step)

    def half(path: Path, text: Any, **options: Any) -> None:
        if step == "write_text":
            original(path, text[: len(text) // 2], **options)
        raise error

    monkeypatch.setattr(Path, step, half)
    with pytest.raises(type(error)):
        write(record_of(timing(first=0.5)), old)
    monkeypatch.undo()
    assert unchanged(old, before)


@pytest.mark.parametrize(
    "wrong",
    [
        record_of(timing(values=())),
        record_of(timing(values=(0.1, math.nan))),
        record_of(timing("two\nlines")),
        record_of(example="../../etc/passwd"),
        record_of(hostname="lucy"),
        replace(record_of(), outputs={"0123456789abcdef": "×" * (MAX_BYTES // 2)}),  # two bytes each
    ],
)
def test_what_is_no_record_is_never_written(old: Path, wrong: records.Record) -> None:
    before = old.read_bytes()
    with pytest.raises(ValueError, match=rf"{re.escape(str(old))}|1_setup/01_sums .*60,000"):
        write(wrong, old)
    assert unchanged(old, before)


# -- What is no record is named and refused ----------------------------------------------------------------------------

GOOD = to_json(record_of())


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\xff",
        GOOD.encode("utf-16"),
        GOOD[: len(GOOD) // 2].encode(),
        GOOD.replace("0.75", "NaN").encode(),
        GOOD.replace("0.75", "1e999").encode(),
        GOOD.replace("added", "\\ud800").encode(),
        b"null",
        b'{"version": "1.0", "metadata": ["record_schema"]}',
        b"[" * 50_000,
        b" " * MAX_BYTES + GOOD.encode(),
        None,
    ],
    ids=lambda data: repr(data)[:40],
)
def test_what_is_no_record_is_refused_by_name(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(data) if data else path.mkdir()
    with pytest.raises(InvalidRecord) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).isprintable()  # one line, and nothing that moves a terminal's cursor


# -- States ------------------------------------------------------------------------------------------------------------


def state(record: records.Record, source: str | None = SOURCE, today: datetime | None = None) -> str:
    return judge_record(record, source, today).state


def judged(*args: Any, **kwargs: Any) -> tuple[str, list[str]]:
    found = judge_record(*args, **kwargs)
    return found.state, found.why


def test_one_character_of_timed_code_is_stale_and_prose_is_not() -> None:
    record = record_of()
    assert state(record, SOURCE.replace("-1", "-2")) == "stale"
    assert state(record, SOURCE.replace("More words", "Better words").replace("Sums\n", "Plus\n")) == "fresh"
    assert state(record, SOURCE.replace('print("added")', '# Say so:\n\nprint("added")  ')) == "fresh"
    assert state(record, SOURCE.replace("\n", "\r\n")) == "fresh"
    unrecorded = replace(record, facts={k: v for k, v in record.facts.items() if not k.startswith("bench_")})
    assert state(unrecorded, SOURCE.replace("added", "summed")) == "stale"  # nobody knows what it stood on


def test_timings_outlive_a_page_that_is_written_anew_around_them() -> None:
    around = SOURCE.replace('print("added")', 'print("summed")').replace("bench.show()", "bench.plot()")
    assert state(record_of(), around) == "drifted"
    assert state(record_of(), SOURCE.replace("bench.show()", "bench.plot()")) == "drifted"  # only the last cell
    assert judged(record_of(), around, bench="sums") == ("fresh", [])
    grown = around + 'other = Bench("other")\nother.time("add", abs, -3)\n'
    assert state(record_of(), grown) == "drifted"  # and not partial: it was taken before there was another
    assert judged(record_of(), grown, bench="sums") == ("fresh", [])
    assert judge_record(record_of(), grown, bench="other").state == "stale"
    assert judge_record(record_of(carried="2026-11-25"), SOURCE, bench="sums").state == "drifted"


def test_an_experiment_that_is_missing_is_partial() -> None:
    source = SOURCE + 'other = Bench(\n    "other-sums"\n)\n'
    assert judged(record_of(source=source), source) == ("partial", ["no times of other-sums"])
    assert state(record_of(source=source, left_out="sums/b/cpu/n=2 | other-sums/a/cpu/n=1"), source) == "fresh"
    in_prose = SOURCE.replace("# More words.", '# As ``Bench("vector-add")`` did.') + '# Bench("later")\n'
    assert state(record_of(source=in_prose), in_prose) == "fresh"


def test_minor_versions_of_libraries_drift_and_patches_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "installed", lambda: {"torch": "2.13.1+cu130", "numba-cuda": "0.31.0"})
    record = record_of(lib_torch="2.13.0+cpu", lib_numba_cuda="0.30.9")
    assert judged(record, SOURCE) == ("drifted", ["numba-cuda 0.30 then, 0.31 now"])
    del record.facts["lib_numba_cuda"]  # a machine without it
    assert state(record) == "fresh"


def test_a_year_drifts() -> None:
    assert state(record_of(date="2025-11-21 00:00:00.000000"), today=NOW) == "fresh"
    (reason,) = judge_record(record_of(date="2025-11-20 23:59:59.000000"), SOURCE, NOW).why
    assert "2025-11-20" in reason
    assert state(record_of(date="2026-02-31 00:00:00.000000"), today=NOW) == "fresh"  # no such day, and no crash


def test_code_that_changed_drifts(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCE + "from firstlight_imaging import GridCoords\n"
    record = record_of(source=source)
    assert state(record, source) == "fresh"
    monkeypatch.setitem(record.facts, "code_imaging", "0123456789abcdef")
    assert judged(record, source) == ("drifted", ["firstlight_imaging has changed"])
    assert state(record, source.replace("-1", "-2")) == "stale"  # which is worse


def test_what_one_compiler_gave_is_not_the_others() -> None:
    numba, mlir = (f"from {name} import cuda\n{SOURCE}" for name in ("numba", "numba_cuda_mlir"))
    assert facts_of("1_x/01_y", mlir, card("cpu"), card("cpu"))["compiler"] == "numba-cuda-mlir"
    before = record_of(source=numba)
    del before.facts["compiler"]  # as in the records of last month
    for record in (record_of(source=numba), before):
        assert state(record, numba) == "fresh"
        assert judged(record, mlir, bench="sums")[0] == "orphan"
        assert "numba-cuda-mlir" in judged(record, mlir)[1][0]
        assert state(record, SOURCE) != "orphan"  # no kernels are left
    assert state(record_of(source=mlir), numba) == "orphan"
    together = "import numpy as np\nfrom numba import njit, cuda\n" + SOURCE
    assert state(record_of(source=together), together) == "fresh"


# -- The records in the repository -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_record_is_valid_and_tells_nothing_of_its_host(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert read(path).example == f"{path.parent.name}/{path.stem}"
    told = [str(Path.home()), str(Path.cwd()), str(ROOT), sys.prefix, sys.executable, socket.gethostname()]
    assert [word for word in told if len(word) > 3 and word in text] == []
    assert not re.search(rf"[\\/]{re.escape(getpass.getuser())}\b", text)
    # folders of the system, such as /etc/apt or /usr/lib, are the same on every machine
    assert not re.search(r"(?<![\w.])/(home|root|Users|usr/local|tmp|opt|work|mnt)/|[A-Z]:\\\\|GPU-[0-9a-f]{8}", text)


def test_pyperf_compares_two_machines(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    write(record_of(), one)
    write(record_of(replace(full_timing(), values=(0.02, 0.03, 0.01))), other)
    command = [sys.executable, "-m", "pyperf", "compare_to", str(one), str(other), "--table"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env={**os.environ, "PYTHONUTF8": "1"})
    assert "10.00x slower" in done.stdout, done.stderr


# -- All of a project ----------------------------------------------------------------------------------------------


NAME = "nvidia-h200/1_setup/01_sums"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one example and one fresh record."""
    script = tmp_path / "examples" / "1_setup" / "01_sums.py"
    script.parent.mkdir(parents=True)
    script.write_text(SOURCE, encoding="utf-8")
    write(record_of(), tmp_path / "records" / f"{NAME}.json")
    return tmp_path


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
        (MORE, record_of(source=MORE), 1, 1, "partial no times of more-sums"),
    ],
)
def test_what_is_told_and_whether_it_fails(project, capsys, source, record, status, strict, said) -> None:
    script = project / "examples" / "1_setup" / "01_sums.py"
    script.write_text(source) if source else script.unlink()
    write(record, project / "records" / f"{NAME}.json")
    found = states(project, capsys)
    assert (found[0], states(project, capsys, "--strict")[0]) == (status, strict)
    assert found[1][NAME].startswith(said)


@pytest.mark.parametrize(
    ("row", "facts", "outputs"),
    [
        ({}, {"date": "2099-01-01 00:00:00.000000"}, {}),
        ({}, {"date": "2026-02-31 00:00:00.000000"}, {}),
        ({}, {"device_name": "NVIDIA H100 80GB HBM3"}, {}),
        ({"bytes": 3 * 10**8, "values": (6e-8,) * 9, "device_seconds": None}, {}, {}),  # faster than the memory
        ({"values": (1e-300,) * 9, "device_seconds": None}, {}, {}),
        ({"first": 1e-6, "values": (1e-6,) * 9, "device_seconds": 1e-3}, {}, {}),  # a thousandth of what it was
        ({"of_roof": 50.0}, {}, {}),
        ({}, {}, {"0" * 16: "saved to /home/jdoe/secret"}),
        ({}, {}, {"0" * 16: r"C:\Users\jdoe\run.py"}),
        ({}, {}, {"0" * 16: "logged in with ghp_" + 36 * "A"}),
        ({}, {}, {"0" * 16: "AWS: AKIA" + 16 * "Z"}),
    ],
)
def test_what_cant_be_true_or_tells_of_a_person_is_invalid(project, capsys, row, facts, outputs) -> None:
    record = replace(record_of(timing(**row), **facts), outputs=outputs)
    path = project / "records" / f"{NAME}.json"
    # As somebody's editor would, past what a recorder leaves out.
    good = json.loads(to_json(replace(record, timings={})))
    path.write_text(json.dumps(good | {"benchmarks": [to_row(name, row) for name, row in record.timings.items()]}))
    status, found = states(project, capsys)
    assert status == 1
    assert found[NAME].startswith("invalid ")


@pytest.mark.parametrize("text", ["", '{"version": "1.0", "metadata": {"record_schema": 9}}', "\x00\x1b[2J"])
def test_what_is_no_record_is_invalid_and_the_others_are_still_judged(project, capsys, text) -> None:
    path = project / "records/another/1_setup/01_sums.json"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    status, found = states(project, capsys)
    assert status == 1
    assert found["another/1_setup/01_sums"].startswith("invalid ")
    assert found[NAME] == "fresh"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_what_a_strangers_zip_may_bring_is_named_and_not_followed(project, capsys) -> None:
    (project / "records/run_me.py").write_text("print('not a record')")
    folder = project / "records/another/1_setup"
    folder.mkdir(parents=True)
    (folder / "01_sums.json").symlink_to(project / "records" / f"{NAME}.json")
    (folder / "02_endless.json").symlink_to("/dev/zero")
    os.mkfifo(folder / "03_waits.json")
    status, found = states(project, capsys)
    assert status == 1
    assert [name for name, said in found.items() if said.startswith("invalid")] == [
        "another/1_setup/01_sums", "another/1_setup/02_endless", "another/1_setup/03_waits", "run_me.py",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["another/1_setup/01_sums", "nvidia-h200/1_setup/02_other", "nvidia-h200/2_other/01_sums", "mine"]
)
def test_a_record_in_anothers_place_is_invalid(project, capsys, name) -> None:
    write(record_of(), project / "records" / f"{name}.json")
    status, found = states(project, capsys)
    assert status == 1
    assert "1_setup/01_sums on nvidia-h200" in found[name]


def test_a_folder_without_records_fails(tmp_path, capsys) -> None:
    (tmp_path / "records").mkdir()
    for root in (tmp_path, tmp_path / "nope"):
        assert main(["records", "check", "--root", str(root)]) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert str(root) in err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
def test_a_files_name_cannot_command_the_terminal(project, capsys) -> None:
    (project / "records" / "a\x1b[2J\nb.json").touch()
    assert main(["records", "check", "--root", str(project)]) == 1
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 5
    assert "\x1b" not in out
