import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tools" / "in_env.py"
PROJECT = """
[project]
requires-python = ">=3.11"
dependencies = ["numpy>=1.26"]
optional-dependencies = {imaging = ["astropy>=7"]}
scripts = {firstlight = "firstlight.cli:main"}
[dependency-groups]
dev = ["pytest>=8.3"]
[tool.ruff]
line-length = 110
"""


def load():
    spec = importlib.util.spec_from_file_location("in_env", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def in_env(tmp_path, monkeypatch):
    """The file as a module, at work in an empty project, where steps of the installation are noted and not taken."""
    monkeypatch.setenv("FIRSTLIGHT_ENV", str(tmp_path / "env"))
    module = load()
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "constraints.txt").write_text("numpy==2.4.0\n", encoding="utf-8")
    module.steps = []
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "run", lambda *command: module.steps.append(command))
    monkeypatch.setattr(sys, "argv", ["in_env.py"])
    return module


def refusal(module):
    """What the user reads where the file gives up: one line, and no traceback."""
    with pytest.raises(SystemExit) as error:
        module.main()
    text = error.value.code
    assert text.startswith("firstlight: ")
    assert "\n" not in text
    return text


def test_an_old_python_can_read_the_file():
    assert ast.parse(FILE.read_text(encoding="utf-8"), feature_version=(3, 7)).body


def test_an_old_python_gets_as_far_as_the_message(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_ENV", str(tmp_path / "env"))
    for newer in ("tomllib", "ensurepip", "venv"):
        monkeypatch.setitem(sys.modules, newer, None)
    in_env = load()
    monkeypatch.setattr(sys, "version_info", (3, 7, 16, "final", 0))
    said = refusal(in_env)
    assert "3.11 or newer is needed" in said
    assert f"{sys.executable} is 3.7." in said
    assert not in_env.ENV.exists()


@pytest.mark.parametrize("missing", ["ensurepip", "venv"])
def test_a_python_without_venv_is_told_what_to_install(in_env, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    assert "python3-venv" in refusal(in_env)
    assert not in_env.ENV.exists()


def test_a_fresh_machine_gets_an_environment_once(in_env):
    in_env.main()
    assert in_env.steps.pop(0)[1:] == ("-m", "venv", in_env.ENV)
    assert {in_env.BIN / "python"} == {step[0] for step in in_env.steps}
    in_env.steps.clear()
    in_env.main()
    assert in_env.steps == []


def test_a_folder_of_someone_else_is_left_alone(in_env):
    in_env.ENV.mkdir()
    (in_env.ENV / "thesis.tex").write_text("years of work", encoding="utf-8")
    said = refusal(in_env)
    assert str(in_env.ENV) in said
    assert "left alone" in said
    assert [path.name for path in in_env.ENV.iterdir()] == ["thesis.tex"]
    assert in_env.steps == []


@pytest.mark.parametrize("stamp", ["unfinished", "", "0" * 64, None])
def test_an_environment_that_is_cut_off_or_old_or_empty_is_made_anew(in_env, stamp):
    in_env.ENV.mkdir()
    if stamp is not None:
        in_env.STAMP.write_text(stamp, encoding="utf-8")
        (in_env.ENV / "half-a-library").touch()
    in_env.main()
    assert in_env.steps
    assert not (in_env.ENV / "half-a-library").exists()
    assert in_env.STAMP.read_text(encoding="utf-8") == in_env.fingerprint()


@pytest.mark.parametrize("stop", [SystemExit, KeyboardInterrupt])
def test_after_a_step_that_fails_or_is_interrupted_all_are_taken_again_in_what_is_there(in_env, monkeypatch, stop):
    note = in_env.run

    def run(*command):
        if len(in_env.steps) == failing:
            raise stop
        note(*command)

    packages = in_env.ENV / "lib"
    for failing in range(4):
        in_env.steps.clear()
        monkeypatch.setattr(in_env, "run", run)
        with pytest.raises(stop):
            in_env.main()
        assert len(in_env.steps) == failing
        (packages / "whole.dist-info").mkdir(parents=True, exist_ok=True)
        (packages / "whole.dist-info/RECORD").touch()
        (packages / "begun.dist-info").mkdir(exist_ok=True)
    monkeypatch.setattr(in_env, "run", note)
    in_env.steps.clear()
    in_env.main()
    assert len(in_env.steps) > failing, "all steps are taken again"
    assert [info.name for info in packages.iterdir()] == ["whole.dist-info"], "pip takes what it had begun for whole"


def test_a_failed_step_is_named_with_what_to_do(in_env, monkeypatch):
    monkeypatch.undo()  # the real run
    with pytest.raises(SystemExit) as error:
        in_env.run(sys.executable, "-c", "raise SystemExit(3)")
    assert "raise SystemExit(3)" in error.value.code
    assert "the same command again" in error.value.code
    in_env.run(sys.executable, "-c", "")


@pytest.mark.parametrize(
    ("file", "old", "new", "steps", "kept"),
    [
        ("pyproject.toml", "line-length = 110", "line-length = 120", 0, True),
        ("pyproject.toml", "[project]", "# a remark\n[project]\nkeywords = ['GPU']", 0, True),
        ("constraints.txt", "2.4.0", "2.4.1", 4, True),
        # Of what is asked for no longer, nothing may stay: a forgotten import would still work.
        ("constraints.txt", "numpy", "numba", 4, False),
        ("pyproject.toml", "numpy>=1.26", "numpy>=2", 4, False),
        ("pyproject.toml", "astropy>=7", "astropy>=8", 4, False),
        ("pyproject.toml", "pytest>=8.3", "pytest>=9", 4, False),
        ("pyproject.toml", "firstlight.cli:main", "firstlight.cli:other", 4, False),
    ],
)
def test_only_what_changes_the_installation_repeats_it_and_only_other_versions_go_into_what_is_there(
    in_env, file, old, new, steps, kept
):
    in_env.main()
    in_env.steps.clear()
    (in_env.ENV / "library").touch()
    path = in_env.ROOT / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    in_env.main()
    assert len(in_env.steps) == steps
    assert (in_env.ENV / "library").exists() is kept


@pytest.mark.parametrize(("version", "pinned"), [((3, 11, 7), True), ((3, 14, 0), False)])
def test_the_pins_are_for_one_python_and_others_have_ranges(in_env, monkeypatch, version, pinned):
    monkeypatch.setattr(sys, "version_info", (*version, "final", 0))
    in_env.main()
    installs = [step for step in in_env.steps if "pip" in step]
    assert len(installs) == 2
    assert all(("constraints.txt" in step) is pinned for step in installs)


def test_the_command_gets_its_arguments_and_its_status_comes_back(in_env, monkeypatch, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os, sys; sys.exit(40 + len(sys.argv) * (os.environ['VIRTUAL_ENV'] == sys.argv[1]))")
    monkeypatch.setattr(sys, "argv", ["in_env.py", sys.executable, str(script), str(in_env.ENV), "two words"])
    with pytest.raises(SystemExit) as done:
        in_env.main()
    assert done.value.code == 43


def test_a_command_that_does_not_exist_is_one_line(in_env, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["in_env.py", "no-such-command"])
    assert "'no-such-command'" in refusal(in_env)


def test_an_environment_of_another_clone_is_left_alone_and_a_copy_of_one_is_made_anew(in_env, monkeypatch, tmp_path):
    in_env.main()
    in_env.steps.clear()
    other = tmp_path / "other"
    other.mkdir()
    for file in ("pyproject.toml", "constraints.txt"):
        (other / file).write_text((tmp_path / file).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(in_env, "ROOT", other)
    said = refusal(in_env)
    assert str(tmp_path) in said
    assert str(other) in said
    assert in_env.steps == []
    monkeypatch.delenv("FIRSTLIGHT_ENV")  # as where somebody copied a clone with its .venv
    in_env.main()
    assert in_env.steps
