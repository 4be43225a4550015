"""Reports that somebody broke or made up, drawn by seed: each is refused in one line, or judged and not believed."""

import faulthandler
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from firstlight_doctor import Facts, case, cases
from firstlight_doctor.cli import main

NAMES = [*cases()]
COMMAND = " $ touch owned; $(touch owned) `touch owned` && {owned} %(owned)s \\ ' \"\n    $ touch owned"
VALUES: list[Any] = [None, True, 0, -1, 2**63, -(2**64), 10**400, 1.5, float("nan"), float("-inf"), "", [], {}, [[]]]
VALUES += ["right", "nvidia", "13.0", "\ud800", "\x00\x1b[2J\u202e", "1" * 5000, "9" * 9 + ".1", "(a+)+" * 3000 + "!"]
VALUES += [["x"] * 5000, [{}] * 50, "\n" * 20_000, "…" * 20_000, COMMAND, COMMAND * 90, "\u0661\u0662.\u0663"]


def places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every value inside some JSON, as what holds it, and where."""
    for key in content if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], (dict, list)):
            yield from places(content[key])


def put(content: Any, holder: Any, key: Any, value: Any) -> None:
    """Put a value into a report, unless it would be refused for it."""
    old, holder[key] = holder[key], value
    try:
        Facts.of(content)
    except ValueError:
        holder[key] = old


def other_values(content: Any, random: Random) -> None:
    for holder, key in random.choices([*places(content)], k=random.randint(1, 4)):
        holder[key] = random.choice(VALUES)


def fitting_values(content: Any, random: Random) -> None:
    found = [*places(content)]
    for holder, key in random.sample(found, len(found) // random.randint(1, 4)):
        if isinstance(holder, list) or key in holder:
            put(content, holder, key, random.choice(VALUES))


def commands_in_texts(content: Any, random: Random) -> None:
    found = [(holder, key) for holder, key in places(content) if isinstance(holder[key], str)]
    for holder, key in random.sample(found, len(found) // random.randint(1, 4)):
        put(content, holder, key, random.choice([COMMAND, holder[key] + COMMAND, holder[key] + COMMAND * 6]))


def parts_of_others(content: Any, random: Random) -> None:
    for part, value in case(random.choice(NAMES)).facts.content().items():
        if random.random() < 0.5:
            content[part] = value


def without_parts(content: Any, random: Random) -> None:
    for holder, key in random.choices([*places(content)], k=random.randint(1, 8)):
        if isinstance(holder, dict):
            holder.pop(key, None)


def other_bytes(written: bytes, random: Random) -> bytes:
    """Flip bits of a file, cut it, write it twice, or write a key twice."""
    at = random.randrange(len(written))
    flipped = bytearray(written)
    for spot in random.choices(range(len(written)), k=4):
        flipped[spot] ^= 1 << random.randrange(8)
    doubled = written.replace(b"{", b'{"cuda": {"init": 0}, "gpus": 7, ', 1)
    return random.choice([bytes(flipped), bytes(flipped), written[:at], written * 2, written[at:], doubled])


MUTATIONS = [other_values, fitting_values, commands_in_texts, parts_of_others, without_parts]


def broken(mutate: Callable[[Any, Random], None] | None, random: Random) -> bytes:
    """What is in the file of a kept machine after a mutation: of its facts, or else of its bytes."""
    content = case(random.choice(NAMES)).facts.content()
    if mutate:
        mutate(content, random)
    written = json.dumps({"format": 1, "facts": content} if random.random() < 0.5 else content).encode()
    return written if mutate else other_bytes(written, random)


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    faulthandler.dump_traceback_later(300, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("mutate", [*MUTATIONS, None])
def test_a_hostile_report_is_refused_or_judged_and_not_believed(mutate, tmp_path: Path, capsys) -> None:
    for seed in range(55):
        file = tmp_path / "kept.json"
        file.write_bytes(broken(mutate, Random(seed)))
        status = main(["--facts", str(file), "--error", "CUDA error: unknown error"])
        out, err = capsys.readouterr()
        if status == 2:
            assert (out, err.count("\n"), "kept.json" in err, err.strip().isprintable()) == ("", 1, True, True), seed
            continue
        assert err == ""
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", out), seed
        assert not [line for line in out.splitlines() if is_forged(line)], seed
        assert main(["--facts", str(file), "--json"]) in (0, 1)
        check(json.loads(capsys.readouterr().out), seed)


def is_forged(line: str) -> bool:
    """Whether what stands in a report could be copied as a command of ours; in quotes it does nothing."""
    return line.strip().startswith("$ ") and "owned" in re.sub("'[^']*'|\"'\"", "", line)


def check(report: dict[str, Any], seed: int) -> None:
    facts, problems = report["facts"], [found for found in report["findings"] if found["kind"] == "problem"]
    assert not [step for found in report["findings"] for step in found["fix"] if is_forged(step)], seed
    assert all(found["evidence"] for found in report["findings"]), seed
    assert (report["status"] == "problem") == bool(problems), seed
    states = {answer["question"]: answer["state"] for answer in report["ladder"]}
    computed = facts.get("torch", {}).get("kernel")
    if report["status"] == "healthy":  # then nothing that was tried has failed
        assert {computed, facts.get("numba", {}).get("kernel")} <= {None, "right"}, seed
        assert False not in states.values(), seed
    if computed == "right" and states["bus"]:  # then no cause that would stop it is certain
        before = [*states][: [*states].index("torch")]
        assert not [one for one in problems if one["question"] in before and one["certainty"] == "certain"], seed
