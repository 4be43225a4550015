"""Broken files, drawn by seed: each is refused in one line, or read as what it was before it broke."""

import faulthandler
import io
import shutil
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits
from test_uvfits import frequencies, handmade

from firstlight_imaging.data.reading import read_visibilities
from firstlight_imaging.data.visibilities import Visibilities

Random = np.random.Generator
CASA = Path(__file__).parents[1] / "casa.tar.xz"  # CASA's own: benchmarks/casa/make_set.py made them
WHAT_COUNTS = ("uu", "vv", "data", "weight", "frequency", "window", "antennas", "execution")
GARBAGE = [b"'a'", b"1.0.0", b"NaN", b"??", b"T", b"1E999", b"-", b"'\xff'", b"= = =", b""]
MOST_FLIPPED = 4  # bytes
MOST_CHANGED = 12  # visibilities, of one byte three at most


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    with tarfile.open(CASA) as archive:
        archive.extractall(folder, filter="data")
    columns = [fits.Column("ID. NO.", "1J", array=[1, 7]), fits.Column("EPOCH", "1D", array=[2000.0, 1950.0])]
    columns += [fits.Column(name, "1D", array=[5.0, 40.0]) for name in ("RAEPO", "DECEPO")]
    tables = frequencies([0, 5e9], [1e9, 2e9], [1, -1]), fits.BinTableHDU.from_columns(columns, name="AIPS SU")
    cube = np.random.default_rng(2).uniform(1, 2, (40, 2, 3, 2, 3))
    handmade(
        folder / "aips.uvfits",
        cube,
        axes="DEC RA IF FREQ STOKES COMPLEX",
        uv=np.random.default_rng(3).normal(scale=1e-6, size=(2, 40)),
        pairs=256 * (1 + np.arange(40) % 4) + 9,
        parameters={"SOURCE": 7, "FREQSEL": 1, "DATE": 2459000, "DATE#2": np.arange(40) / 256},
        tables=tables,
    )
    rows = np.random.default_rng(4).uniform(1, 2, (40, 5))
    np.savetxt(folder / "disk.txt", rows, header="wavelength[m] = 0.0013\nColumns:\tu[m]\tv[m]\tRe\tIm\tweight")
    return folder


def drop_card(path: Path, random: Random) -> None:
    rewrite_card(path, random, lambda card: b"COMMENT".ljust(80))


def garble_card(path: Path, random: Random) -> None:
    value = GARBAGE[random.integers(len(GARBAGE))]
    rewrite_card(path, random, lambda card: (card[:8] + b"= " + value).ljust(80))


def rewrite_card(path: Path, random: Random, change: Callable[[bytes], bytes]) -> None:
    """Change a card of any header of a file, whatever stands in it, but the end."""
    content = path.read_bytes()
    with warnings.catch_warnings(), fits.open(path) as hdus:
        spans = [(hdu.fileinfo()["hdrLoc"], hdu.fileinfo()["datLoc"]) for hdu in hdus[: 2 + random.integers(3)]]
    cards = [
        at for start, end in spans for at in range(start, end, 80) if content[at : at + 8].strip() not in (b"", b"END")
    ]
    at = int(random.choice(cards))
    path.write_bytes(content[:at] + change(content[at : at + 80]) + content[at + 80 :])


def truncate(path: Path, random: Random) -> None:
    with path.open("r+b") as file:
        file.truncate(int(random.integers(path.stat().st_size)))


def flip_bytes(path: Path, random: Random) -> None:
    content = bytearray(path.read_bytes())
    for at in random.integers(len(content), size=random.integers(1, MOST_FLIPPED + 1)):
        content[at] ^= 1 << random.integers(8)
    path.write_bytes(content)


def replace_member(path: Path, random: Random) -> None:
    """Replace an array by one of another size or kind, by a claim of far more numbers, or by no array."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = str(random.choice(list(members)))
    values = np.atleast_1d(np.load(io.BytesIO(members[name])))
    others = [values[..., :1], values[..., None], values.astype("U5"), np.array(None), values[:0], np.zeros((3, 0))]
    if values.dtype.kind != "U":
        others += [values.ravel(), values * np.nan, np.full(values.shape, np.inf)]
    stream = io.BytesIO()
    np.save(stream, others[random.integers(len(others))])
    claim = members[name].replace(b"'shape': (", b"'shape': (1000000000000, ")
    nested = members[name].replace(b"'shape': (", b"'shape': (" + 50 * b"(")
    choices = [stream.getvalue(), stream.getvalue(), claim, nested, b"no array", members[name][:-9], None]
    members[name] = choices[random.integers(len(choices))]
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in members.items():
            if content is not None:
                archive.writestr(each, content)


def mark_members(path: Path, random: Random) -> None:
    """Say of the members that they are encrypted, or packed in a way that nobody knows."""
    content = bytearray(path.read_bytes())
    at, value = ((6, 1), (8, 99))[random.integers(2)]
    for signature, offset in ((b"PK\3\4", at), (b"PK\1\2", at + 2)):
        start = content.find(signature)
        while start >= 0:
            content[start + offset] = value
            start = content.find(signature, start + 4)
    path.write_bytes(content)


def delete_part(path: Path, random: Random) -> None:
    parts = sorted(path.rglob("*"))
    part = parts[random.integers(len(parts))]
    shutil.rmtree(part) if part.is_dir() else part.unlink()


def cut_part(path: Path, random: Random) -> None:
    parts = sorted(part for part in path.rglob("*") if part.is_file() and part.stat().st_size)
    truncate(parts[random.integers(len(parts))], random)


def flip_part(path: Path, random: Random) -> None:
    """Flip bytes of visibilities; in the description of a table, casacore itself may die of it."""
    parts = sorted(path.glob("table.f*_TSM*"))
    flip_bytes(parts[random.integers(len(parts))], random)


MUTATIONS = [  # of a file; how many are drawn in the slow tests
    *[(name, mutate, 60) for name in ("disk.0.uvfits", "aips.uvfits") for mutate in (drop_card, garble_card)],
    *[(name, mutate, 25) for name in ("disk.0.uvfits", "aips.uvfits") for mutate in (truncate, flip_bytes)],
    ("disk.0.npz", replace_member, 80),
    ("disk.0.npz", mark_members, 4),
    ("disk.0.npz", truncate, 15),
    ("disk.0.npz", flip_bytes, 15),
    ("disk.txt", flip_bytes, 40),
    ("small.ms", delete_part, 60),
    ("small.ms", cut_part, 60),
    ("small.ms", flip_part, 30),
]
IDS = [f"{name}-{mutate.__name__}" for name, mutate, _ in MUTATIONS]


def read(path: Path) -> Visibilities:
    if path.suffix == ".ms":
        pytest.importorskip("arcae", reason="needs arcae")
    faulthandler.dump_traceback_later(120, exit=True)  # for what hangs
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of CASA's weights
            return read_visibilities(path, **({"field": 0} if path.suffix == ".ms" else {}))
    finally:
        faulthandler.cancel_dump_traceback_later()


def put_broken(original: Path, path: Path, mutate: Callable[[Path, Random], None], seed: int) -> None:
    """Replace what is at a path by a broken copy of a file, or of a folder."""
    shutil.rmtree(path.parent, ignore_errors=True)
    path.parent.mkdir(parents=True)
    (shutil.copytree if original.is_dir() else shutil.copy)(original, path)
    mutate(path, np.random.default_rng(seed))


def check(original: Path, broken: Path, mutate: Callable[[Path, Random], None], seeds: int) -> None:
    before = read(original)
    for seed in range(seeds):
        path = broken / original.name
        put_broken(original, path, mutate, seed)
        try:
            vis = read(path)
        except ValueError as error:
            said = str(error)
            assert (said.startswith(str(path)), said.count("\n")) == (True, 0), (seed, said)
            continue
        assert vis.data.shape == before.data.shape, seed
        if mutate in (flip_bytes, flip_part):  # no format but npz has a checksum
            assert ((vis.data != before.data) | (vis.weight != before.weight)).sum() <= MOST_CHANGED, seed
            continue
        for name in WHAT_COUNTS:
            values = getattr(vis, name)
            is_unknown = np.isnan(values).all() if name == "frequency" else not values.any()
            assert is_unknown or (values == getattr(before, name)).all(), (seed, name)
        assert vis.phase_centre in (None, before.phase_centre), seed


@pytest.mark.parametrize(("name", "mutate", "_"), MUTATIONS, ids=IDS)
def test_a_few_broken_files_are_refused_or_read_right(whole, tmp_path, name, mutate, _):
    check(whole / name, tmp_path / "broken", mutate, 4)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mutate", "count"), MUTATIONS, ids=IDS)
def test_broken_files_are_refused_or_read_right(whole, tmp_path, name, mutate, count):
    check(whole / name, tmp_path / "broken", mutate, count)


def test_sets_at_one_path_are_judged_each_by_itself(whole, tmp_path):
    errors = []  # kept, with all that their frames hold
    refused: dict[bool, list[int]] = {True: [], False: []}
    for alone, seeds in refused.items():
        for seed in range(12):
            path = tmp_path / (str(seed) if alone else "one") / "small.ms"
            put_broken(whole / "small.ms", path, cut_part, seed)
            try:
                read(path)
            except ValueError as error:
                errors.append(error)
                seeds.append(seed)
    assert refused[False] == refused[True]
    assert 0 < len(refused[True]) < 12
