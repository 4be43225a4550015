import errno
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from firstlight.imaging import image
from firstlight.imaging.products import report
from firstlight.imaging.products.report import point_remark, whole_set, write_products
from firstlight.imaging.simulate.observation import observe, uv_track, with_noise
from firstlight.imaging.simulate.skies import Point, Ring

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


@pytest.mark.parametrize("seed", [1, 7])
def test_of_a_point_between_pixels_the_flux_is_told(seed):
    """Of a sparse array, an image has it 2 to 9 % too bright."""
    rng = np.random.default_rng(seed)
    antennas = rng.uniform(-75, 75, (20, 3)) * [1, 1, 0.05]
    east, north, flux = *rng.uniform(-1, 1, 2), rng.uniform(0.2, 0.6)
    seen = with_noise(observe([Point(flux, east, north)], uv_track(antennas, n_times=8)), 0.05, seed=seed)
    found = image(seen, draws=2)
    (remark,) = point_remark(found, seen)
    told, error = map(float, re.search(r"([\d.e-]+) ± ([\d.e-]+) Jy", remark).groups())
    assert abs(told - flux) < 3 * error < abs(found.flux - flux)
    pair = [Point(flux, east, north), Point(flux / 5, east + 8)]
    two = with_noise(observe(pair, uv_track(antennas, n_times=8)), 0.05, seed=seed)
    assert point_remark(found, two) == []


def test_products_are_all_written_or_none(tmp_path, monkeypatch):
    seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(n_times=2)), 0.03, seed=1)
    found = image(seen, draws=2)
    for dish in (0.0, -12.0, math.nan):
        with pytest.raises(ValueError, match="dish"):
            write_products(found, seen, tmp_path, "my", dish=dish)
    paths = write_products(found, seen, tmp_path / "out", "m" * 240, dish=12)
    assert sorted(paths) == sorted((tmp_path / "out").iterdir())
    assert len(paths) == 9
    written = report.write_image

    def full(path: Path, *rest, **how) -> None:
        if "residual" in path.name:
            raise OSError(errno.ENOSPC, "disk full")
        written(path, *rest, **how)

    monkeypatch.setattr(report, "write_image", full)
    with pytest.raises(OSError, match="disk full"):
        write_products(found, seen, tmp_path / "full", "my")
    assert not (tmp_path / "full").exists()
