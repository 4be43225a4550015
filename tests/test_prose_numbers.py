"""No time, rate or speed-up is typed by hand: not in a page, not in the text of an example.

Numbers come from ``:timing:`` and ``:spec:``. What a named source says is quoted to the letter, and stands in QUOTED.
"""

import re
from pathlib import Path

import pytest

from firstlight.records.runner import split

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "tutorials" not in path.relative_to(ROOT).parts),
    *sorted((ROOT / "examples").rglob("*.rst")),
    *sorted((ROOT / "examples").rglob("*.py")),
]
MPOL = "what MPoL's early tutorial says of itself"
COURSE = "what a course notebook on PyTorch and Numba says of itself"
NOTES = "what notes on a textbook's GPU chapter say of themselves"
EXAMPLE = "a made-up number to reckon with"
TITLE = "the question of its title, which it answers"
QUOTED = {
    "docs/install.md": {
        "after 12 hours at the latest": "research.google.com/colaboratory/faq.html",
        "anything from half a day to a week": "github.com/googlecolab/colabtools/issues/1964",
        "some thirty hours a week": "kaggle.com/docs/notebooks",
    },
    "docs/where_from.md": {
        "and 3.1 milliseconds for that addition": MPOL,
        "10.4 microseconds for": COURSE,
    },
    "examples/1_setup/02_first_speedup.py": {
        "320 milliseconds on a CPU": MPOL,
        "3.1 milliseconds on a GPU": MPOL,
        '"up to 100x" faster': MPOL,
        "with its 3.1 milliseconds": MPOL,
        "But 3.1 milliseconds is": MPOL,
    },
    "examples/2_devices/03_is_it_possible.py": {
        "Its 3.1 milliseconds are": MPOL,
        "a vector in 10.4 microseconds": COURSE,
        "6.007 seconds for the CPU and 0.001 seconds for the GPU": NOTES,
        "The 6.007 seconds are for one product, and the 0.001 seconds for ten": NOTES,
    },
    "examples/2_devices/09_copy_and_compute.py": {"a latency of 10 µs, which": EXAMPLE},
    "examples/2_devices/16_fewer_launches.py": {
        "Others found 6.67 µs for": "operation-a100 in docs/published.toml",
        "and 2.67 µs on": "operation-rtx4090 in docs/published.toml",
    },
    "examples/3_kernels/02_matrix_vector.py": {
        "NumPy took 1.25 ms and the kernel 264 µs": COURSE,
        "its kernel, matrix × vector: 264 µs": COURSE,
        "on the GPU, the same: 10.4 µs": COURSE,
        "adds two vectors of 100,000 numbers: 304 µs": COURSE,
        '"about 9X" for Numba': COURSE,
        '"100X" for PyTorch': COURSE,
    },
    "examples/3_kernels/11_bytes_in_flight.py": {"each comes 30 minutes after you have ordered it": EXAMPLE},
    "examples/4_imaging/01_first_light.py": {"up to a hundred times as fast": MPOL},
    "examples/4_imaging/04_visibilities.py": {"will the arcs cover in six hours?": EXAMPLE},
    "examples/4_imaging/11_more_than_one_gpu.py": {"Do four GPUs image four times as fast?": TITLE},
}

GAP = r"[\s\u00a0\u202f-]"
DIGITS = rf"(?<![\w.,^])(?!(?:19|20)\d\ds)\d+(?:[.,\u2009\u202f]\d+)*(?:e[-+]?\d+)?(?: ?× ?10\S+)?{GAP}*"
WORDS = (
    r"\b(?:half an?|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty"
    rf"|(?:hundred|thousand|million)(?:s of)?){GAP}+(?:(?:hundred|thousand|million){GAP}+)?"
)
NUMBER = f"(?:{DIGITS}|{WORDS})"
TIME = r"(?:[nµμmu]s|s|(?:nano|micro|milli)?sec(?:ond)?s?|min(?:ute)?s?|h(?:ours?)?)\b"
EACH = r"(?:\s?/\s?s\b|\s?s⁻¹|(?<=[bBt])ps\b|\s(?:per|a|each|every)\s(?:second|s)\b)"
UNIT = r"(?:[kKMGTPE]i?)?(?:B|bit|b|FLOPs?|flops?|OPS?|[Bb]ytes?)"
FASTER = r"(?:faster|slower|quicker|speed|the speed|as fast|as slow|as quick|as long|longer|shorter)"
TYPED = {
    "time": NUMBER + TIME,
    "rate": rf"{NUMBER}(?:{UNIT}|(?:\w+\s)?\w+){EACH}",
    "flops": rf"{DIGITS}[KMGTPE]?(?:FLOPS|flops)\b",
    "ratio": rf"{DIGITS}[x×](?!\w)(?!\s*(?:\d|[a-zA-Z]\b|[(\\`*|:]|\.\.))",
    "times": rf"(?:{NUMBER}|twice\s)(?:times\s|fold\s)?{FASTER}\b",
    "percent": rf"{DIGITS}(?:%|percent)\s{FASTER}\b",
    "by": rf"(?:faster|slower|quicker|speed-?ups?)\s(?:by|of)\s(?:(?:about|up to|nearly|over|a factor of)\s)*{NUMBER}",
    "factor": rf"factor of\s{NUMBER}(?:faster|slower|in speed|in time)",
    "magnitude": r"orders? of magnitude (?:faster|slower|quicker)",
}
TERM = r"(?::term:|\{term\})`([^`<]+?)(?:\s+<[^`]*>)?`"  # which shows its first part
MARKED = r":?\{?\b[\w:.-]+\}?:?`[^`]+`|(`+)(?:(?!\1).)+\1"  # roles of both languages, and inline code


def typed(text: str) -> list[str]:
    """The times, rates and speed-ups that stand in a text outside roles and inline code."""
    plain = re.sub(r"<!--.*?-->", " ", text, flags=re.DOTALL)
    plain = re.sub(MARKED, " … ", plain, flags=re.DOTALL)
    plain = re.sub(r"[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}", "", plain)
    plain = re.sub(r"\s+", " ", plain)
    return [found[0].strip() for pattern in TYPED.values() for found in re.finditer(pattern, plain)]


def prose(path: Path) -> str:
    """What a reader reads as text: no code, fenced or indented, and none of an example's own code."""
    text = re.sub(TERM, r"\1", path.read_text(encoding="utf-8"))
    if path.suffix == ".py":
        blocks = [block.text for block in split(text) if block.kind == "text"]
        text = "\n\n".join(re.sub(r"^# ?(%%)?", "", block, flags=re.MULTILINE) for block in blocks)
    if path.suffix == ".md":
        text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
        fence = re.compile(r"^(`{3,}|~{3,})(.*?)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
        text = fence.sub(lambda found: found[3] if re.match(r"\{(?!code)", found[2]) else "", text)
        return re.sub(r"(?<=\])\([^)]*\)", "", text)  # where links lead
    text = re.sub(r"(?m)^__ https?://\S+$", "", text)  # where reST's nameless links lead
    literal = re.compile(r"^( *)(\.\. (?:code|holds).*|(?!\.\. ).*::)\n(?:(?:\1 +.*)?\n)+", re.MULTILINE)
    return literal.sub(r"\2\n\n", f"{text}\n")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_number_is_typed_by_hand(path: Path) -> None:
    text = re.sub(r"\s+", " ", prose(path))
    for quotation in QUOTED.get(path.relative_to(ROOT).as_posix(), {}):
        assert quotation in text, f"nothing says {quotation!r} any more: take it out of QUOTED"
        text = text.replace(quotation, " ")
    assert typed(text) == [], "take it from a measurement with :timing: or from a data sheet with :spec:"


# -- The guard itself --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "It takes 3.1 milliseconds on a GPU.",
        "after 320\nmilliseconds",
        "a 30-second run",
        "4.8e12 bytes per second",
        "two million visibilities a second",
        "148 × against NumPy, 9.5 × against PyTorch",
        "3-fold faster",
        "a speed-up of 148",
        "faster by a factor of 12",
        "three orders of magnitude faster",
        "a :timing:`vector-add speedup gpu/cpu` and 7 ms more",
        "It takes 5 minutes.",
    ],
)
def test_typed_numbers_are_caught(text: str) -> None:
    assert typed(text)


@pytest.mark.parametrize(
    "text",
    [
        "**Needs:** any computer.",
        "a 3 × 4 matrix and 12 × n bytes",
        "a bandwidth in bytes a second",
        ":timing:`vector-add speedup gpu/cpu @nvidia-h200` of it",
        "{timing}`vector-add gpu` and {spec}`H200 bandwidth 4.8 TB/s`",
        "<!-- took 5 ms -->",
    ],
)
def test_innocent_numbers_pass(text: str) -> None:
    assert typed(text) == []


def test_code_is_no_prose_and_text_of_every_kind_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "---\nwait: 1 s\n---\n# In 2 s\n\n```python\nsleep(3)  # 3 s\n```\n\n```{code-cell} python\n4 s\n```\n\n"
        "```{note}\n5 s\n```\n\n:::{tip}\n6 s\n:::\n\n[7 s](https://x.org/8 s)\n\n| 9 s |\n",
        encoding="utf-8",
    )
    assert typed(prose(page)) == ["2 s", "5 s", "6 s", "7 s", "9 s"]
    script = tmp_path / "01_page.py"
    script.write_text(
        '"""\nTitle: 1 s\n"""\n\n# %% 2 s\n# 3\n# ms. Like so::\n#\n#     4 s\n#\n#     5 s\n#\n'
        "# .. code-block:: text\n#\n#    6 s\n#\n# .. note::\n#\n#    7 s\n#\n# end 8 s\n\n# code 9 s\nx = '10 s'\n",
        encoding="utf-8",
    )
    assert typed(prose(script)) == ["1 s", "2 s", "3 ms", "7 s", "8 s"]
