"""Puzzles: kernels to write, each with one constraint that is its lesson, and checked by its trace."""

from firstlight_kernels.puzzles.attempts import attempt, tally
from firstlight_kernels.puzzles.puzzle import Judgement, Puzzle
from firstlight_kernels.puzzles.tasks import PUZZLES

__all__ = ["PUZZLES", "Judgement", "Puzzle", "attempt", "tally"]
