"""Broken files, drawn by seed: each is refused in one line, or read as what it was before it broke."""

import io
import shutil
import signal
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

from firstlight.imaging.data.reading import read_visibilities
from firstlight.imaging.data.visibilities import Visibilities

Random = np.random.Generator
CASA = Path(__file__).parents[1] / "casa.tar.xz"  # CASA's own: benchmarks/casa/make_set.py made them
WHAT_COUNTS = ("uu", "vv", "data", "weight", "frequency", "window", "antennas", "execution")
GARBAGE = [b"'a'", b"1.0.0", b"NaN", b"??", b"T", b"1E999", b"-", b"'\xff'", b"= = =", b""]
FLIPPED = 16  # values at most that some bytes flipped within the data may change


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    with tarfile.open(CASA) as archive:
        archive.extractall(folder, filter="data")
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
    for at in random.integers(len(content), size=random.integers(1, 5)):
        content[at] ^= 1 << random.integers(8)
    path.write_bytes(content)


def replace_member(path: Path, random: Random) -> None:
    """Replace an array by one of another size or kind, by a claim of far more numbers, or by no array."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = str(random.choice(list(members)))
    values = np.load(io.BytesIO(members[name]))
    others = [values[..., :1], values[..., None], values * np.nan, values.astype("U5"), np.array(None), values[:0]]
    others = (
        [values.ravel(), np.full(values.shape, np.inf), np.zeros((3, 0)), *others]
        if values.dtype.kind != "U"
        else [np.arange(3)]
    )
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
    parts = sorted(part for part in path.rglob("*") if part.is_file() and part.stat().st_size)
    flip_bytes(parts[random.integers(len(parts))], random)


# Of each kind of file, how it breaks; whether values that are flipped may then be read; and how often.
MUTATIONS = [
    ("disk.0.uvfits", drop_card, False, 80),
    ("disk.0.uvfits", garble_card, False, 80),
    ("disk.0.uvfits", truncate, False, 30),
    ("disk.0.uvfits", flip_bytes, True, 30),
    ("disk.0.npz", replace_member, False, 80),
    ("disk.0.npz", mark_members, False, 2),
    ("disk.0.npz", truncate, False, 20),
    ("disk.0.npz", flip_bytes, True, 20),
    ("small.ms", delete_part, False, 80),
    ("small.ms", cut_part, False, 80),
    ("small.ms", flip_part, True, 40),
]


def read(path: Path) -> Visibilities:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_visibilities(path, **({"field": 0} if path.suffix == ".ms" else {}))
