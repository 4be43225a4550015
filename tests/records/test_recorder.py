import getpass
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from samples import CPU, EXAMPLES, ROOT, SOURCE

from firstlight.cli import main
from firstlight.records import recorder as recording
from firstlight.records.record import Judged, judge_record, read
from firstlight.records.runner import block_keys
from firstlight.timing.bench import Bench
from firstlight.timing.result import RowName, Timing
from projects import SOURCES

CHAPTER = Path("examples") / "1_setup"
QUICK = SOURCE.replace(", bytes=3996", "")  # without bytes no roof is measured


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one example, in a process that runs on a CPU and may be recorded in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["firstlight"])
    monkeypatch.setattr(recording, "card", lambda *_: CPU)
    add(tmp_path, "01_sums", SOURCE)
    add(tmp_path, "05_twice", SOURCE + "again = bench\nagain = Bench('sums')\n")
    return tmp_path


def add(project: Path, name: str, source: str) -> Path:
    path = project / CHAPTER / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return path


# -- One example, in this process --------------------------------------------------------------------------------------


def test_a_record_is_what_the_example_measured_and_printed(project) -> None:
    assert main(["record", "1_setup/01", "--to", "mine.json"]) == 0
    record = read(project / "mine.json")
    assert (record.example, record.machine) == ("1_setup/01_sums", "cpu-amd-epyc")
    assert [*record.timings] == ["sums/add/cpu/n=333"]
    assert record.outputs == {f"01:{block_keys(SOURCE)[0]}": "added"}
    assert judge_record(record, SOURCE) == Judged(record, "fresh")


def test_a_script_that_is_edited_while_it_runs_is_recorded_as_it_ran(project) -> None:
    editing = f"{SOURCE}from pathlib import Path\nPath({str(project / CHAPTER / '02_edit.py')!r}).write_text('1')\n"
    add(project, "02_edit", editing)
    assert main(["record", "1_setup/02", "--to", "mine.json"]) == 0
    record = read(project / "mine.json")
    assert judge_record(record, editing) == Judged(record, "fresh")


LEAVES = {
    "outside.txt": "from pathlib import Path\nPath(__file__).parents[1].joinpath('outside.txt').touch()\n",
    "Thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(0.5,)).start()\n",
    "Process": "import multiprocessing, time\nfork = multiprocessing.get_context('fork')\n"
    "fork.Process(target=time.sleep, args=(1,)).start()\n",
}
LEAVES_NOTHING = """
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
pool = ThreadPoolExecutor(1)
pool.submit(abs, -1).result()
thread = threading.Thread(target=abs, args=(-1,))
thread.start()
thread.join()
with TemporaryDirectory() as folder:
    Path(folder, "file").touch()
Path(__file__).with_name(".02_page.py.swp").touch()  # as somebody's editor does meanwhile
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.parametrize("left", LEAVES)
def test_a_page_that_leaves_something_behind_is_not_recorded(project, capsys, left) -> None:
    add(project, "02_page", SOURCE + LEAVES[left])
    assert main(["record", "1_setup/02", "--to", "mine.json"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert left in line
    assert not (project / "mine.json").exists()


def test_a_page_that_leaves_nothing_behind_is_recorded(project) -> None:
    add(project, "02_page", SOURCE + LEAVES_NOTHING)
    assert main(["record", "1_setup/02", "--to", "mine.json"]) == 0


def test_a_page_that_changes_the_folder_is_recorded_where_it_was_asked(project, monkeypatch) -> None:
    monkeypatch.chdir(project)
    add(project, "02_page", "import os\nos.chdir('/')\n")
    assert main(["record", "1_setup/02", "--to", "mine.json"]) == 0
    assert (project / "mine.json").exists()


TOLD = [
    "hf_" + 20 * "x",
    "key=sk-proj-" + 20 * "a1",
    "at /home/jdoe/data",
    "https://me:secret@host/x",
    "on jane-17.uni.de",
]
NOT_TOLD = ["half_width", "shf_loss_of_a_thousand_steps", "risk-" + 30 * "a1", "https://host/x:y", "jane-17x", "eyJ"]


def test_a_page_that_tells_a_key_a_path_or_a_name_is_not_recorded(project, capsys, monkeypatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "jane-17.uni.de")
    for line in TOLD:
        add(project, "02_page", f"print('harmless')\nprint({line!r})\n")
        assert main(["record", "1_setup/02", "--to", "mine.json"]) == 1
        assert repr(line) in capsys.readouterr().err
    assert not (project / "mine.json").exists()
    add(project, "02_page", f"print(*{NOT_TOLD!r}, sep='\\n')\n")
    assert main(["record", "1_setup/02", "--to", "mine.json"]) == 0


def test_a_place_that_cannot_be_written_to_is_told_before_anything_is_run(project, capsys) -> None:
    add(project, "02_page", "raise ValueError('it was run')\n")
    (project / "file").touch()
    assert main(["record", "1_setup/02", "--to", "file/mine.json"]) == 1
    err = capsys.readouterr().err
    assert "nothing can be written" in err
    assert "it was run" not in err


def test_simulated_and_impossible_rows_are_left_out_by_name(project, monkeypatch) -> None:
    verdicts = {"add": "impossible", "b, c": "simulated", "d": "noisy"}

    def time(self: Bench, label: str, *_: object, **__: object) -> None:
        row = Timing(label, "cpu", 0.5, (0.1,), n=3, verdicts=(verdicts[label],))
        self.rows[RowName(self.id, label, "cpu", 3)] = row

    monkeypatch.setattr(Bench, "time", time)
    source = SOURCE + 'bench.time("b, c")\nbench.time("d")\nnothing = Bench("nothing")\nnothing.time("add")\n'
    add(project, "01_sums", source)
    assert main(["record", "1_setup/01", "--to", "mine.json"]) == 0
    record = read(project / "mine.json")
    assert [*record.timings] == ["sums/d/cpu/n=3"]
    assert record.facts["left_out"] == "sums/add/cpu/n=3 | sums/b, c/cpu/n=3 | nothing/add/cpu/n=3"
    assert judge_record(record, source).state == "fresh"  # nothing is missing: what is not there is named


def test_an_experiment_that_times_nothing_here_is_named_as_left_out(project) -> None:
    source = SOURCE.replace("bench.time(", "if False:\n    bench.time(")
    add(project, "01_sums", source)
    assert main(["record", "1_setup/01", "--to", "mine.json"]) == 0
    record = read(project / "mine.json")
    assert record.timings == {}
    assert judge_record(record, source).state == "fresh"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nonsense"], "'nonsense'"),
        (["1_setup", "--to", "mine.json"], "names 2"),
        (["1_setup/05", "--to", "mine.json"], "05_twice.py has two experiments"),
        (["1_setup/01", "--to", "examples"], "examples"),
        (["1_setup/01", "--to", "examples/1_setup/01_sums.py"], ".json"),
    ],
)
def test_a_users_mistake_is_one_line(project, capsys, words, says) -> None:
    before = sorted(project.rglob("*"))
    assert main(["record", *words]) == 1
    err = capsys.readouterr().err
    assert err.startswith("firstlight: ")
    assert says in err
    assert err.count("\n") == 1
    assert sorted(project.rglob("*")) == before


def test_which_scripts_are_meant(project) -> None:
    add(project, "02_more", "x = 1\n")
    add(project, "helper", "x = 1\n")
    add(project, "10_last", "x = 1\n")

    def named(*names: str) -> list[str]:
        return [script.stem for script in recording.scripts_named(names)]

    assert named() == named("1_setup") == ["01_sums", "02_more", "05_twice", "10_last"]
    assert named("1_setup/02", "1_setup/02_more", "1_setup/01") == ["02_more", "01_sums"]
    assert named("examples/1_setup/helper.py") == ["helper"]


def test_experiments_of_the_examples_have_names_of_their_own() -> None:
    code = (script.read_text(encoding="utf-8") for script in EXAMPLES)
    names = Counter(
        name for text in code for name in re.findall(r"^\w.*\bBench\(\s*[\"']([^\"']+)", text, re.MULTILINE)
    )
    assert names
    assert [name for name, count in names.items() if count > 1] == []


# -- As a user runs it, in processes of its own ------------------------------------------------------------------------

NAMES = {"USER": "jane-doe-user", "LOGNAME": "jane-doe-user", "HOSTNAME": "jane-doe-host"}


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment that has the package by PYTHONPATH and no Sphinx, and a home to tell nothing of."""
    (tmp_path / "blocked").mkdir()
    for name in ("sphinx", "docutils", "myst_nb"):
        (tmp_path / "blocked" / f"{name}.py").write_text("raise ImportError('blocked')\n", encoding="utf-8")
    (tmp_path / "jane-doe-home").mkdir()
    path = os.pathsep.join([str(tmp_path / "blocked"), *SOURCES])
    home = str(tmp_path / "jane-doe-home")
    return {**os.environ, **NAMES, "HOME": home, "PYTHONPATH": path, "FIRSTLIGHT_DEVICE": "cpu"}


def command(project: Path, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, encoding="utf-8", env=env, cwd=project)


ENDLESS = """
import multiprocessing
import threading
import time
answer = threading.Thread(target=threading.Event().wait)
answer.start()
multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)).start()
check = "Right, {} {}.".format
print(check(answer, multiprocessing))
"""


@pytest.mark.parametrize(
    "words", [["record", CHAPTER / "01_page.py", "--to", "a.json"], ["try", CHAPTER / "01_page.py"]]
)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_what_never_ends_does_not_keep_the_command_from_ending(tmp_path, bare, words) -> None:
    add(tmp_path, "01_page", ENDLESS)
    done = command(tmp_path, bare, "-m", "firstlight", *map(str, words))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Thread" in done.stderr


@pytest.mark.slow
def test_examples_that_fail_or_die_leave_their_old_records_and_the_others_are_recorded(tmp_path, bare) -> None:
    add(tmp_path, "01_sums", QUICK)
    add(tmp_path, "02_fails", QUICK.replace("-1", "'text'"))
    add(tmp_path, "03_dies", "import os\nos._exit(3)\n")
    add(tmp_path, "04_symbols", 'print("× – 😀")\n')
    bare |= {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    machine = tmp_path / "records" / recording.card("cpu").slug / "1_setup"
    machine.mkdir(parents=True)
    for name in ("01_sums", "02_fails", "03_dies"):
        (machine / f"{name}.json").write_text("old", encoding="utf-8")
    done = command(tmp_path, bare, "-X", "utf8", "-m", "firstlight", "record")
    assert done.returncode == 1, done.stderr
    assert f'{CHAPTER / "02_fails.py"}", line 12' in done.stdout
    for told in ("TypeError", "FAILED", "it ended with status 3"):
        assert told in done.stdout
    kept = {path.stem: path.read_text(encoding="utf-8") == "old" for path in machine.iterdir()}
    assert kept == {"01_sums": False, "02_fails": True, "03_dies": True, "04_symbols": False}
    assert [*read(machine / "04_symbols.json").outputs.values()] == ["× – 😀"]
    assert read(machine / "01_sums.json").timings


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no process groups here")
def test_an_interrupted_run_leaves_the_old_record_and_nothing_else(tmp_path, bare) -> None:
    slow = "import time\nfrom pathlib import Path\nPath('started').touch()\nprint('x')\ntime.sleep(300)\n"
    add(tmp_path, "01_slow", QUICK + slow)
    old = tmp_path / "records" / recording.card("cpu").slug / "1_setup" / "01_slow.json"
    old.parent.mkdir(parents=True)
    old.write_text("old", encoding="utf-8")
    # A shell in the background gives its children a deaf ear for this signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    words = [sys.executable, "-m", "firstlight", "record"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
    process = subprocess.Popen(words, env=bare, cwd=tmp_path, start_new_session=True, **pipes)
    signal.signal(signal.SIGINT, before)
    try:
        while process.poll() is None and not (tmp_path / "started").exists():
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 130, out
    assert "interrupted" in out
    assert "Traceback" not in out
    assert old.read_text(encoding="utf-8") == "old"
    assert [*old.parent.iterdir()] == [old]


def test_a_script_is_recorded_once_and_nobody_is_told(tmp_path, bare) -> None:
    ran = "with open('ran', 'a') as file:\n    file.write('once ')\n"
    add(tmp_path, "01_sums", QUICK + ran)
    done = command(tmp_path, bare, "-m", "firstlight", "record", str(CHAPTER / "01_sums.py"), "--to", "mine.json")
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "mine.json").example == "1_setup/01_sums"
    assert recording.example_of(tmp_path / "02 Sums (1).py") == "elsewhere/02_sums_1_"  # no folder of a user's is told
    assert (tmp_path / "ran").read_text(encoding="utf-8") == "once "
    assert done.stdout.count("added") == 1

    text = (tmp_path / "mine.json").read_text(encoding="utf-8")
    told = [*NAMES.values(), "jane-doe", str(tmp_path), tmp_path.name, str(ROOT), sys.prefix, sys.executable]
    told += [str(Path.home()), socket.gethostname(), f"/{getpass.getuser()}", "/site-packages"]
    assert [word for word in told if word in text] == []
    assert {*json.loads(text)} == {"version", "metadata", "benchmarks", "outputs"}
