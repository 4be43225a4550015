"""The command: what it prints where, with which status, and that nothing a reader gives it makes a traceback."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

from firstlight_doctor import case, report
from firstlight_doctor.cli import main

PACKAGE = Path(report.__file__).parents[1]


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in ("NO_COLOR", "TERM", "COLUMNS", "PYTHONIOENCODING", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def kept(tmp_path):
    """A file with what it is given: kept({"gpus": []})."""

    def write(content) -> str:
        file = tmp_path / "kept.json"
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return str(file)

    return write


NOUVEAU = case("nouveau").facts.content()


def doctor(*words: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "firstlight_doctor", *words], capture_output=True, env={**os.environ, **env}
    )


def test_this_machine(tmp_path):
    done = doctor("--json")
    found = json.loads(done.stdout)
    assert set(found) == {"format", "status", "causes", "ladder", "findings", "facts"}
    assert done.returncode == (found["status"] == "problem")
    assert done.stderr == b""
    (tmp_path / "me.json").write_bytes(done.stdout)
    again = doctor("--json", "--facts", str(tmp_path / "me.json"))
    assert json.loads(again.stdout) == found


@pytest.mark.parametrize("format", ["report", "facts", "utf-16", "utf-8-sig"])
def test_a_kept_report_is_replayed(kept, capsys, format):
    content = report.examine(report.Facts.of(NOUVEAU)).content() if format != "facts" else NOUVEAU
    encoded = json.dumps(content).encode(format if format.startswith("utf") else "utf-8")  # PowerShell writes UTF-16
    assert main(["--facts", kept(encoded), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [finding["code"] for finding in found["findings"]][:1] == ["nouveau"]
    if format != "facts":
        assert found == content


@pytest.mark.parametrize("name", ["healthy-apple", "no-gpu"])
def test_a_healthy_machine_and_one_without_a_gpu_are_no_failure(kept, capsys, name):
    assert main(["--facts", kept(case(name).facts.content())]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        bytes(range(256)),
        b"[" * 200_000,
        b"9" * 5000,
        b"null",
        {"name": "other", "version": 1},
        {"facts": [1]},
        {"facts": {}, "format": 2},
        {"facts": {}, "format": "\x1b[2J"},
        {"facts": {"nvml": {"cuda": 10**400}}},
        {"facts": {"said": "\ud800"}},
        {"facts": {"\x1b]0;title\x07": 1}},
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_file_that_is_no_report_is_refused_in_one_line(kept, capsys, content):
    assert main(["--facts", kept(content)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "kept.json" in err
    assert err.count("\n") == 1
    assert err.strip().isprintable()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("words", [["--facts", ""], ["--error", "@"]])
@pytest.mark.parametrize("file", ["pipe", "/dev/zero"])
def test_a_file_without_an_end_is_refused(words, file, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert main([words[0], f"{words[1]}{tmp_path / file}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


def test_a_report_of_a_huge_size_is_refused_and_of_a_huge_log_the_end_is_read(kept, tmp_path, capsys):
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(1 << 33)
    assert main(["--facts", str(log)]) == 2
    with log.open("wb") as file:
        file.truncate(1 << 26)
        file.seek(0, 2)
        file.write(b"\nRuntimeError: No CUDA GPUs are available\n")
    main(["--facts", kept(NOUVEAU), "--json", "--error", f"@{log}"])
    assert "No CUDA GPUs are available" in json.loads(capsys.readouterr().out)["facts"]["said"]


@pytest.mark.parametrize(
    "words", [["--facts", "none.json"], ["--facts", "."], ["--root", "none"], ["--root", __file__]]
)
def test_what_is_not_there_is_a_usage_error(capsys, words):
    assert main([*words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["--nonsense"], ["--facts"], ["extra"]])
def test_wrong_usage(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*words])
    assert stopped.value.code == 2
    assert "usage: firstlight-doctor" in capsys.readouterr().err


EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\n\x08\u202eevil"


def hostile() -> dict:
    """Facts with what moves a cursor in every text of a machine whose faults are quoted."""

    def spoilt(content):
        if isinstance(content, dict):
            names = ("version", "group")  # which could not be read with anything else in them
            return {key: value if key in names else spoilt(value) for key, value in content.items()}
        if isinstance(content, list):
            return [spoilt(value) for value in content]
        return content + EVIL if isinstance(content, str) else content

    facts = report.Facts.of(NOUVEAU).content()
    told = {
        "nodes": [{"path": "/dev/nvidia0", "open": False, "group": "g"}],
        "env": {"CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs"},
        "kernel": {"version": "580.95.05", "log": ["NVRM: Xid 79"], "on_disk": "/lib/x"},
        "cuda": {"error": "OSError: libcuda.so.1", "failed": "hung", "path": "/stubs/libcuda.so.1"},
        "torch": {"version": "2.13.0", "error": "ImportError: x", "warnings": ["CUDA unknown error"]},
        "numba": {"version": "1.0", "error": "y", "toolchain": "libnvrtc"},
        "said": "CUDA error 802",
    }
    return facts | {name: spoilt(part) for name, part in told.items()}


def test_no_escape_sequence_of_a_report_reaches_the_terminal(kept, capsys):
    main(["--facts", kept(hostile())])
    out = capsys.readouterr().out
    assert "evil" in out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)


def test_an_error_is_cut_and_tells_nobody(kept, capsys, monkeypatch):
    monkeypatch.setenv("USER", "annakeller")
    main(["--facts", kept(NOUVEAU), "--json", "--error", "y" * 100_000 + "/scratch/annakeller/x \udcff"])
    content = json.loads(capsys.readouterr().out)
    assert content["facts"]["said"].endswith("y/scratch/USER/x ?")
    assert report.Facts.of(content["facts"])


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_output_into_a_pipe_is_plain_and_tells_marks_apart_in_any_encoding(kept, encoding):
    done = doctor("--facts", kept(NOUVEAU), TERM="xterm-256color", PYTHONIOENCODING=encoding)
    lines = done.stdout.decode(encoding).splitlines()
    answered = {line[0] for line in lines if "?" in line}
    assert answered == ({"✓", "✗", "·"} if encoding == "utf-8" else {"+", "x", "-"})
    assert b"\x1b" not in done.stdout
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({"NO_COLOR": "", "COLUMNS": "5"}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
    ids=str,
)
def test_a_terminal_gets_colours_unless_it_does_not_want_them(kept, monkeypatch, env, coloured):
    terminal = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    main(["--facts", kept(NOUVEAU)])
    out = terminal.buffer.getvalue().decode()
    assert ("\x1b[31m✗\x1b[0m" in out) == ("\x1b" in out) == coloured
    assert "nouveau" in out


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """The doctor as one file."""
    maker = Path(__file__).parents[1] / "make_pyz.py"
    if not maker.with_name("src").exists():
        pytest.skip("needs the sources, which are not there where a wheel is tested")
    return run_path(str(maker))["build"](tmp_path_factory.mktemp("archive"))


def another(version: str) -> str:
    """A Python of another version: on the path, or among those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = next(map(str, pyenv.glob(f"versions/{version}.*/bin/python")), None) or shutil.which(f"python{version}")
    if sys.platform != "linux" or not found:
        pytest.skip(f"needs Linux and a Python {version}")
    return found


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.13"])
def test_one_file_finds_on_any_python_what_is_broken(archive, machine, driver, version):
    words = [another(version), "-W", "error", str(archive), "--json", "--root", str(machine.nvidia().root)]
    done = subprocess.run(words, env=driver(devices=1), capture_output=True)
    facts = json.loads(done.stdout)["facts"]
    assert (facts["system"]["python"].startswith(version), done.stderr) == (True, b"")
    assert facts["cuda"]["devices"] == [{"name": "NVIDIA Fake 0", "capability": [9, 0], "context": 0}]
    assert not [name for name in ("cuda", "nvml", "torch", "numba") if "failed" in facts[name]]
    done = subprocess.run([*words, "--error", "No CUDA GPUs are available"], env=driver(cuda=803), capture_output=True)
    report = json.loads(done.stdout)
    assert (report["findings"][0]["code"], len(report["causes"]) > 2) == ("driver-half-updated", True)


def test_another_python_is_examined_with_its_own_packages_alone(machine, tmp_path, archive, monkeypatch):
    python, root = another("3.10"), str(machine.nvidia().root)
    monkeypatch.chdir(tmp_path)
    Path("json.py").write_text("raise SystemExit('a file of the working folder')")
    for run in ([sys.executable, "-m", "firstlight_doctor"], [sys.executable, str(archive)]):
        env = {**os.environ, "PYTHONSAFEPATH": "1"} if "-m" in run else os.environ
        done = subprocess.run([*run, "--json", "--root", root, "--python", python], capture_output=True, env=env)
        facts = json.loads(done.stdout)["facts"]
        assert (facts["system"]["python"][:4], "packages" in facts, done.stderr) == ("3.10", False, b"")


def test_what_is_no_python_is_a_usage_error(capfd, tmp_path):
    assert main(["--python", str(tmp_path / "none")]) == 2
    assert main(["--python", sys.executable, "--root", str(tmp_path / "none")]) == 2
    assert capfd.readouterr().err.count("\n") == 2
    if silent := shutil.which("true"):  # ends well, and says nothing
        assert main(["--python", silent]) == 2
        assert "no Python" in capfd.readouterr().err


def test_one_file_names_itself_where_the_command_would_stand(archive, kept):
    odd = {"gpus": [{"vendor": "nvidia", "driver": "nvidia"}], "torch": {"version": "2.13.0", "imported": True}}
    done = subprocess.run([sys.executable, str(archive), "--facts", kept(odd)], capture_output=True, text=True)
    assert "$ python3 firstlight-doctor.pyz --json" in done.stdout


def test_a_terminal_is_told_what_is_asked_until_it_is_answered(monkeypatch, capsys, machine):
    monkeypatch.setattr("firstlight_doctor.children.in_child", lambda *_: {})
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    main(["--root", str(machine.nvidia().root)])
    said = capsys.readouterr().err
    assert "PyTorch" in said
    assert said.splitlines()[-1].strip("\r").isspace()


def test_a_python_that_drops_docstrings_is_refused_as_they_hold_the_texts(kept):
    command = [sys.executable, "-OO", "-m", "firstlight_doctor", "--facts", kept(NOUVEAU)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "-OO" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_a_reader_that_has_enough_is_no_error(kept):
    command = f"{sys.executable} -m firstlight_doctor --json --facts {kept(NOUVEAU)} | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["--error -", "--facts none.json"])
def test_a_closed_stream_changes_no_status(kept, words, closed):
    command = f"{sys.executable} -W error -m firstlight_doctor --facts {kept(NOUVEAU)} {words}"
    whole, done = (
        subprocess.run(["sh", "-c", f"{command} {end}"], capture_output=True, stdin=subprocess.DEVNULL)
        for end in ("", closed)
    )
    assert whole.returncode == done.returncode == (2 if "none" in words else 1)
    assert done.stdout == (b"" if " >" in f" {closed}" else whole.stdout)
    assert done.stderr == (b"" if "2>" in closed else whole.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_is_full_is_no_problem_of_the_machine(kept):
    command = [sys.executable, "-m", "firstlight_doctor", "--facts", kept(NOUVEAU)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
