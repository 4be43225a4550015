import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from new_python import printed_by
from samples import ROOT

from firstlight.cli import main
from firstlight.devices import VARIABLE
from firstlight.records.record import read


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    for module in (torch.cuda, torch.xpu, torch.backends.mps):
        monkeypatch.setattr(module, "is_available", lambda: False)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=2**37)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)


def marked(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if "picks this one" in line]


@pytest.mark.usefixtures("two_gpus")
def test_devices_shows_every_card_and_marks_the_best(capsys):
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    heads = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert heads == ["cuda:0", "cuda:1", "cpu"]
    assert marked(out) == ["cuda:0"]
    assert out.count("128 GiB") == 2
    assert VARIABLE not in out


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(("wanted", "chosen"), [("cpu", "cpu"), (" CUDA:1 ", "cuda:1")])
def test_devices_says_that_the_variable_chose(monkeypatch, capsys, wanted, chosen):
    monkeypatch.setenv(VARIABLE, wanted)
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{VARIABLE}={wanted.strip()} ")
    assert marked(out) == [chosen]


def test_a_variable_that_is_blank_is_not_mentioned(monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "  ")
    assert main(["devices"]) == 0
    assert VARIABLE not in capsys.readouterr().out


@pytest.mark.parametrize("wanted", ["gpu", "cuda:7", "two\nlines"])
def test_a_users_mistake_is_one_line_on_stderr(monkeypatch, capsys, wanted):
    monkeypatch.setenv(VARIABLE, wanted)
    assert main(["devices"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"firstlight: {VARIABLE}={wanted!r}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["devices", "extra"], ["--nonsense"]])
def test_wrong_usage_exits_2_and_shows_the_usage(argv, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert "usage: firstlight" in capsys.readouterr().err


def test_the_reference_names_each_command_with_its_options(capsys):
    def helped(*words: str) -> str:
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        return capsys.readouterr().out

    page = (Path(__file__).parents[1] / "docs/api/command_line.md").read_text(encoding="utf-8")
    written = {line.split()[0]: options(line) for line in re.findall(r"^`firstlight (.+)`$", page, re.MULTILINE)}
    commands = re.findall(r"^    (\w+) ", helped(), re.MULTILINE)
    assert written == {command: options(helped(command)) - {"--help"} for command in commands}


def options(text: str) -> set[str]:
    return set(re.findall(r"--[a-z]+", text))


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_load_no_library(option):
    program = f"""
import atexit, sys
atexit.register(lambda: print({{"torch", "numba", "numpy"}} & {{*sys.modules}}))
sys.argv = ["firstlight", "{option}"]
import runpy
runpy.run_module("firstlight", run_name="__main__")
"""
    assert printed_by(program).splitlines()[-1] == "set()"


def test_python_m_firstlight_is_the_command():
    done = subprocess.run([sys.executable, "-m", "firstlight", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"firstlight {version('firstlight')}\n"


@pytest.mark.parametrize("code", ["raise ImportError('libcudart.so.13: cannot open\\nsecond line')", "def f(:"])
def test_devices_points_to_the_doctor_where_pytorch_is_broken(tmp_path, code):
    (tmp_path / "torch.py").write_text(code)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-m", "firstlight", "devices"], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("firstlight: ")
    assert "firstlight doctor" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_pytorch_numpy_is_timed_recorded_and_checked(tmp_path):
    script = tmp_path / "sums.py"
    script.write_text(
        "import numpy as np\n"
        "from firstlight import Bench, best_device\n"
        "bench, a = Bench('sums', budget=0.1), np.ones(1001)\n"
        "bench.time('add', np.add, a, a, n=1001, bytes=3 * a.nbytes)\n"
        "check = 'Right, {}.'.format\n"
        "print(check(7))\n"
    )
    program = f"""
        import sys
        sys.modules |= dict.fromkeys(("torch", "numba", "tqdm", "greenlet", "scipy"))  # none of them can be imported
        from firstlight import best_device
        from firstlight.cli import main
        assert main(["devices"]) == main(["record", {str(script)!r}, "--to", {str(tmp_path / "mine.json")!r}]) == 0
        assert main(["try", {str(script)!r}]) == main(["records", "check", "--root", {str(ROOT)!r}]) == 0
        try:
            best_device()
        except ImportError as error:
            print("pip install torch" in str(error))
    """
    said = printed_by(program, {**os.environ, "MPLBACKEND": "agg"}).splitlines()
    assert "cpu" in said
    assert said.count("Right, 7.") == 2
    assert said[-1] == "True"
    (timing,) = read(tmp_path / "mine.json").timings.values()
    assert timing.byte_rate > 0


def test_doctor_is_firstlight_doctor_with_its_own_options(tmp_path, capsys):
    facts = tmp_path / "facts.json"
    card = '{"vendor": "nvidia", "driver": "nvidia"}'
    facts.write_text(f'{{"gpus": [{card}], "torch": {{"version": "2.13.0", "imported": true}}}}')
    assert main(["doctor", "--facts", str(facts)]) == 1
    assert "$ firstlight doctor --json" in capsys.readouterr().out  # as it was called, not firstlight-doctor
    assert main(["doctor", "--facts", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.startswith("firstlight doctor: ")


def test_without_firstlight_doctor_one_line_says_where_it_is(monkeypatch, capsys):
    monkeypatch.setattr("firstlight.cli.entry_points", lambda **_: ())
    assert main(["doctor", "--json"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "pip install ./doctor" in err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("words", "status"), [("record 9_nowhere", 1), ("doctor --facts {}", 1)])
def test_a_closed_stream_changes_no_status(tmp_path, words, status, closed):
    facts = tmp_path / "facts.json"
    facts.write_text('{"gpus": [{"vendor": "nvidia", "driver": "nouveau"}]}')
    command = f"{sys.executable} -m firstlight {words.format(facts)}"
    whole, done = (subprocess.run(["sh", "-c", f"{command} {end}"], capture_output=True) for end in ("", closed))
    assert (whole.returncode, done.returncode) == (status, status)
    assert done.stdout == (b"" if " >" in f" {closed}" else whole.stdout)
    assert done.stderr == (b"" if "2>" in closed else whole.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["devices"]])
def test_a_full_output_is_one_line(words):
    with Path("/dev/full").open("w") as full:
        buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
        command = [sys.executable, "-m", "firstlight", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_today_reads_a_saved_output_of_several_cards(tmp_path, capsys):
    saved = tmp_path / "card.txt"
    saved.write_text(
        "name, clocks.current.sm, clocks.max.sm\n" + "Tesla T4, 795 MHz, 1590 MHz\n" * 2, encoding="utf-16"
    )
    assert main(["today", str(saved)]) == 0
    assert capsys.readouterr().out.count("arithmetic: 2 times") == 2
    saved.write_text("No devices were found")
    assert main(["today", str(saved)]) == 1
    assert "No devices" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such file")
def test_today_ends_where_a_file_does_not(capsys):
    assert main(["today", "/dev/zero"]) == 1
    assert "no card" in capsys.readouterr().err
