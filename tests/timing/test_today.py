"""What nvidia-smi says, in all the ways that it says it, and what that does to the site's floors."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from firstlight.timing import today
from firstlight.timing.today import Seen, ask, read

HEADS = (
    "index, name, memory.total [MiB], clocks.current.sm [MHz], clocks.max.sm [MHz], clocks.current.memory [MHz], "
    "clocks.max.memory [MHz], power.limit [W], power.default_limit [W], ecc.mode.current, mig.mode.current, "
    "pcie.link.gen.max, pcie.link.width.current, clocks_throttle_reasons.active"
)
A100 = (
    "0, NVIDIA A100-SXM4-80GB, 81920 MiB, 1128 MHz, 1410 MHz, 1593 MHz, 1593 MHz, 300.00 W, 400.00 W, "
    "Enabled, Disabled, 4, 16, 0x0000000000000004"
)
SLICES = """\
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6)
  MIG 3g.40gb     Device  0: (UUID: MIG-1)
  MIG 1c.2g.20gb  Device  1: (UUID: MIG-2)
  MIG 1g.10gb+me  Device  2: (UUID: MIG-3)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-d2f5ba0d)
  MIG 7g.80gb     Device  0: (UUID: MIG-4)
"""


def told(*lines: str, heads: str = HEADS) -> list[dict[str, tuple[str, str]]]:
    """Of each card, by what a row is about, what it says and what that does."""
    return [{what: (says, does) for what, says, does in seen.rows()} for seen in read("\n".join([heads, *lines]))]


def test_a_lower_clock_raises_the_floor_of_arithmetic_alone() -> None:
    (rows,) = told(A100)
    assert rows["clock"] == ("1128 of 1410 MHz", "arithmetic: 1.25 times as long")
    assert rows["memory's clock"] == ("1593 of 1593 MHz", "memory: as ever")
    assert rows["held back by"][0] == "power"
    assert rows["power limit"][0] == "300 of 400 W"
    assert rows["slot"] == ("PCIe 4 x16", "transfers: as ever")
    assert rows["float64"][0] == "1:2 of float32"


def test_a_card_with_nothing_to_do_tells_nothing_of_its_clock() -> None:
    (rows,) = told(A100.replace("1128", "210").replace("0x0000000000000004", "0x0000000000000001"))
    assert "times" not in rows["clock"][1]
    assert "while your program runs" in rows["clock"][1]


def test_a_card_for_games_is_held_against_the_clock_of_its_sheet() -> None:
    clocks = "2520 MHz, 3105 MHz, 10251 MHz, 10501 MHz"
    game = f"0, NVIDIA GeForce RTX 4090, 24564 MiB, {clocks}, 450.00 W, 450.00 W, [N/A], [N/A], 3, 8, 0x0"
    (rows,) = told(game)
    assert rows["clock"] == ("2520 of 3105 MHz, 2520 on the sheet", "arithmetic: as ever")
    assert rows["memory's clock"][1] == "memory: 1.02 times as long"
    assert rows["slot"] == ("PCIe 3 x8", "transfers: 4 times as long")
    assert rows["held back by"][0] == "nothing"
    assert (rows["ECC"][0], rows["MIG"][0]) == ("not told", "not told")


@pytest.mark.parametrize(
    ("card", "clocks", "floors"),
    [
        # Above the sheet's clock, a floor is lower than the site's, which would be false otherwise.
        ("GeForce RTX 4090", "2730 MHz, 3105 MHz", "arithmetic: 0.923 times as long"),
        (
            "H100 80GB HBM3",
            "1980 MHz, 1980 MHz",
            "arithmetic: as ever; TF32 and shorter: 0.924 times as long",
        ),
        ("H200", "1830 MHz, 1980 MHz", "arithmetic: 1.08 times as long; TF32 and shorter: as ever"),
    ],
)
def test_floors_are_those_of_the_clock_at_which_the_sheet_counts(card, clocks, floors) -> None:
    (rows,) = told(
        f"NVIDIA {card}, {clocks}, 0x0", heads="name, clocks.current.sm, clocks.max.sm, clocks_event_reasons.active"
    )
    assert rows["clock"][1] == floors


@pytest.mark.parametrize(("idle", "slot"), [("0x0", "PCIe 1 x16"), ("0x1", "PCIe 4 x16")])
def test_a_link_that_never_got_faster_is_told_unless_it_rests(idle, slot) -> None:
    heads = "name, pcie.link.gen.max, pcie.link.gen.current, pcie.link.width.current, clocks_event_reasons.active"
    (rows,) = told(f"NVIDIA A100-SXM4-80GB, 4, 1, 16, {idle}", heads=heads)
    assert rows["slot"][0] == slot


@pytest.mark.parametrize(
    "none", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[Insufficient Permissions]", "ERR!", ""]
)
def test_what_a_card_does_not_tell_changes_no_floor(none: str) -> None:
    """As in WSL, or on a laptop."""
    (rows,) = told(f"0, NVIDIA GeForce RTX 4090 Laptop GPU, 16376 MiB{f', {none}' * 11}")
    assert {says for says, _ in rows.values()} == {"not told"}
    assert not any(does for _, does in rows.values())
    assert "float64" not in rows, "a laptop's card isn't the one of the sheet"


def test_slices_are_counted_in_eighths_of_the_memory_and_in_multiprocessors() -> None:
    first, second = told(A100, A100.replace("0, NV", "1, NV"), SLICES)
    assert first["slice 3g.40gb"] == ("0.5 of the memory", "memory: 2 times as long; arithmetic: 2.57 times as long")
    assert first["slice 1c.2g.20gb"][1] == "memory: 4 times as long; arithmetic: see nvidia-smi mig -lgip, under SM"
    assert first["slice 1g.10gb+me"][1] == "memory: 8 times as long; arithmetic: 7.71 times as long"
    assert second["slice 7g.80gb"][1] == "memory: as ever; arithmetic: 1.1 times as long"
    assert "MIG" not in first
    assert [seen.table().caption[:6] for seen in read(f"{HEADS}\n{A100}\n{A100.replace('0, NV', '1, NV')}")] == [
        "GPU 0:",
        "GPU 1:",
    ]


@pytest.mark.parametrize(
    ("name", "mib", "profile", "shares"),
    [
        ("NVIDIA A100-SXM4-40GB", 40960, "1g.5gb", (1 / 8, 14 / 108)),
        ("NVIDIA A100-SXM4-40GB", 40960, "1g.10gb", (2 / 8, 14 / 108)),
        ("NVIDIA H100 80GB HBM3", 81559, "4g.40gb", (4 / 8, 64 / 132)),
        ("NVIDIA H100 80GB HBM3", 81559, "3g.40gb", (4 / 8, 60 / 132)),
        ("NVIDIA H100 80GB HBM3", 81559, "1g.20gb", (2 / 8, 26 / 132)),
        ("NVIDIA H100 PCIe", 81559, "1g.20gb", (2 / 8, None)),
        ("NVIDIA H200", 143771, "1g.18gb", (1 / 8, None)),
        ("NVIDIA B200", 183359, "2g.45gb", (2 / 8, None)),
        ("NVIDIA B300 SXM6 AC", 275040, "3g.135gb", (4 / 8, None)),
        ("NVIDIA A30", 24576, "1g.6gb", (2 / 8, None)),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "1g.24gb+gfx", (2 / 8, None)),
    ],
)
def test_a_slice_has_what_its_card_gives_it(
    name: str, mib: int, profile: str, shares: tuple[float, float | None]
) -> None:
    assert Seen({"name": name, "memory.total": f"{mib} MiB"}).shares(profile) == shares


def test_a_card_in_slices_of_which_none_is_listed_says_where_to_look() -> None:
    (rows,) = told(A100.replace("Disabled", "Enabled"))
    assert "nvidia-smi -L" in rows["MIG"][1]


def test_a_name_that_is_no_slice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1g\.10gb"):
        Seen({"name": "NVIDIA A100-SXM4-80GB"}).shares("half")


@pytest.mark.parametrize(
    "saved",
    [
        f"$ nvidia-smi\nWelcome, all of you, to the cluster\n{HEADS}\n{A100}\n",
        f"{HEADS}\r\n{A100}\r\n".encode("utf-16"),
        f"\ufeff{HEADS}\n{A100}".encode(),
        f"{HEADS}\n{A100}".replace(" MHz", "").replace(" MiB", "").replace(" W,", ","),  # nounits
        f"{HEADS}\n{A100}".replace("throttle", "event"),
        f"{HEADS}\n{A100}\n{A100.replace('0, NV', '1, NV')[:40]}",  # cut off
    ],
    ids=["login", "PowerShell", "BOM", "nounits", "new driver", "cut off"],
)
def test_files_are_read_however_they_were_saved(saved: str | bytes) -> None:
    (seen,) = read(saved)
    assert seen.rows()[0][1:] == ("1128 of 1410 MHz", "arithmetic: 1.25 times as long")
    assert seen.held == ["power"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found",
        HEADS,
        A100,
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ],
)
def test_a_text_without_a_card_is_refused_with_what_it_says(text: str) -> None:
    with pytest.raises(ValueError, match="format=csv") as refused:
        read(text)
    assert text[:30] in str(refused.value)


def playing(monkeypatch: pytest.MonkeyPatch, known: set[str] | None) -> list[list[str]]:
    """A driver that knows some of the fields and, as real ones do, names those that it doesn't one at a time."""
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        if known is None:
            raise FileNotFoundError(command[0])
        if command[1] == "-L":
            return subprocess.CompletedProcess(command, 0, "GPU 0: Tesla T4 (UUID: GPU-1)\n", "")
        fields = command[1].partition("=")[2].split(",")
        for field in fields:
            if field not in known:
                return subprocess.CompletedProcess(
                    command, 2, f'Field "{field}" is not a valid field to query.\n\n', ""
                )
        values = ["Tesla T4" if field == "name" else "795 MHz" for field in fields]
        return subprocess.CompletedProcess(command, 0, f"{', '.join(fields)}\n{', '.join(values)}\n", "")

    monkeypatch.setattr(subprocess, "run", lambda command, **more: run(list(command), **more))
    return asked


def test_an_old_driver_is_asked_for_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {*today.FIELDS} - {"mig.mode.current", "clocks_event_reasons.active"}
    asked = playing(monkeypatch, known)
    (seen,) = read(ask())
    assert seen.number("clocks.max.sm") == 795
    assert seen.said.keys() == known
    assert len(asked) == 4
    assert "\nGPU 0: " in ask()


def test_a_driver_that_knows_nothing_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    playing(monkeypatch, set())
    with pytest.raises(ValueError, match="not a valid field"):
        read(ask())


def test_without_a_driver_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    playing(monkeypatch, None)
    with pytest.raises(ValueError, match="save what it prints"):
        ask()
