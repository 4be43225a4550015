"""Guesses are found where a page asks for them, and wrong answers are given to the page's own check."""

import json
import subprocess
import sys

import pytest
from samples import EXAMPLES

from _ext.downloads import ROOT
from _ext.teaching import COLLECTOR, guess_of


@pytest.mark.parametrize(
    ("prose", "guess"),
    [
        ("It runs. **Guess: is it\nfast?** Let us see.", "**Guess: is it fast?**"),
        ("**Guess:** is it fast? Or not?", "**Guess:** is it fast?"),
        ("**Make two guesses:** how long, and how far.\n\nAnd?", "**Make two guesses:** how long, and how far."),
        ("**Write down a guess.** We add twice. How long?", "**Write down a guess.** We add twice. How long?"),
        ("**Write down a guess.** We add twice.", "**Write down a guess.**"),
        ("**Bold.** A guess, then **bold** again?", ""),
    ],
)
def test_a_guess_is_its_whole_question(prose, guess):
    assert guess_of(f'"""\nPage\n====\n\n{prose}\n"""\n\nx = "**Guess:** no?"\n') == guess
    commented = "\n".join(f"# {line}".rstrip() for line in prose.split("\n"))
    assert guess_of(f"# %%\n{commented}\n") == guess


def test_most_pages_ask_for_a_guess():
    asked = [guess_of(script.read_text(encoding="utf-8")) for script in EXAMPLES]
    assert sum(map(bool, asked)) > 0.8 * len(asked)
    assert max(map(len, asked)) < 300


def test_wrong_answers_hear_what_the_pages_check_says(tmp_path):
    kept = tmp_path / "said.json"
    subprocess.run([sys.executable, COLLECTOR, kept, "small_copies", "same_seed"], cwd=ROOT, check=True)
    said = json.loads(kept.read_text(encoding="utf-8"))
    copies, seeds = (dict(said[page]) for page in ("2_devices/04_small_copies", "2_devices/19_same_seed"))
    assert "left at the end" in copies["forgets the rest"]
    assert "the start" not in copies
    assert seeds["with_torch"], "an answer without a name is shown as code"
