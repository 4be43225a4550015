"""Puzzles: kernels to write, each with one constraint that is its lesson, and checked by its trace."""

from firstlight.lessons.puzzles.attempts import attempt, tally
from firstlight.lessons.puzzles.puzzle import Puzzle
from firstlight.lessons.puzzles.tasks import PUZZLES

__all__ = ["PUZZLES", "Puzzle", "attempt", "tally"]
