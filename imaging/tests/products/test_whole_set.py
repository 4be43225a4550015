"""Files that are replaced as a set."""

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from firstlight_imaging.products.whole_set import whole_set

NAMES = ("my.image.fits", "my.model.fits", "my.pbcor.fits", "my.txt")


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if not path.name.endswith(".tmp")}


def write(folder: Path, text: str, names: tuple[str, ...] = NAMES) -> None:
    for name in names:
        (folder / name).write_text(text)


def make(folder: Path, then: Callable[[], None] = lambda: None, *, names: tuple[str, ...] = NAMES, overwrite=True):
    with whole_set(folder, "my", overwrite=overwrite) as temporary:
        write(temporary, "new", names)
        then()


@pytest.fixture
def old(tmp_path: Path) -> dict[str, str]:
    write(tmp_path, "old", (*NAMES, "mine.txt", "my.notes"))
    return content(tmp_path)


def test_a_set_replaces_all_of_the_old_one_and_nothing_else(tmp_path, old):
    with whole_set(tmp_path, "my", overwrite=True) as folder:
        write(folder, "new", NAMES[:2])
        assert content(tmp_path) == old
    assert not list(tmp_path.glob(".*"))
    assert content(tmp_path) == {**dict.fromkeys(NAMES[:2], "new"), "mine.txt": "old", "my.notes": "old"}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "disk full")])
def test_a_set_that_is_not_finished_leaves_what_was_there(tmp_path, old, error):
    def fail():
        raise error

    with pytest.raises(type(error)):
        make(tmp_path, fail, names=NAMES[:2])
    assert content(tmp_path) == old
    with pytest.raises(type(error)):
        make(tmp_path / "a/b", fail, overwrite=False)
    assert not (tmp_path / "a/b").exists()


def test_what_a_killed_run_left_is_in_nobodys_way(tmp_path):
    kill = f"import os, signal\nfrom {whole_set.__module__} import whole_set\nfrom pathlib import Path\n"
    kill += "with whole_set(Path.cwd(), 'my', overwrite=True):\n    os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", kill], cwd=tmp_path, check=False)
    assert (tmp_path / ".my.tmp").exists()
    make(tmp_path)
    assert content(tmp_path) == dict.fromkeys(NAMES, "new")
    with whole_set(tmp_path, "my", overwrite=True), pytest.raises(FileExistsError, match="another run"):
        make(tmp_path)


def test_a_disk_that_is_full_from_the_start_blocks_no_later_run(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space"):
            make(tmp_path / "out")
    assert not list(tmp_path.iterdir())
    make(tmp_path)
    assert content(tmp_path) == dict.fromkeys(NAMES, "new")


@pytest.mark.parametrize("nth", range(1, 7))
def test_moving_a_set_that_is_interrupted_is_undone(tmp_path, old, monkeypatch, nth):
    replace, count = Path.replace, iter(range(1, 100))

    def interrupted(path: Path, target: Path) -> Path:
        moved = replace(path, target)
        if next(count) == nth:
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, names=NAMES[:3])
    assert content(tmp_path) == old


def test_two_runs_into_one_folder_do_not_mix(tmp_path):
    with whole_set(tmp_path, "my", overwrite=True) as first:
        with pytest.raises(FileExistsError, match="another run"), whole_set(tmp_path, "my", overwrite=True):
            pass
        with whole_set(tmp_path, "other", overwrite=False) as second:
            write(second, "second", ("other.txt",))
        write(first, "first")
    assert content(tmp_path) == dict.fromkeys(NAMES, "first") | {"other.txt": "second"}
    late = tmp_path / "late"
    with pytest.raises(FileExistsError):
        make(late, lambda: write(late, "theirs", NAMES[:1]), overwrite=False)  # by another program
    assert content(late) == {NAMES[0]: "theirs"}


@pytest.mark.parametrize(("out", "name"), [("file", "my"), ("file/out", "my"), ("out", "m" * 245), (".", "folder")])
def test_where_nothing_can_be_written_it_says_so_at_once(tmp_path, out, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(OSError, match=r"written|exists|long"), whole_set(tmp_path / out, name, overwrite=True):
        pytest.fail("it began")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.png"]
