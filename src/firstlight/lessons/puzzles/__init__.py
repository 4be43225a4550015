"""Puzzles: kernels to write, each with one constraint that is its lesson, and checked by its trace."""

from firstlight.lessons.puzzles.puzzle import Puzzle
from firstlight.lessons.puzzles.tasks import ALONE, TOGETHER

__all__ = ["PUZZLES", "Puzzle"]

#: The puzzles by their names, in the order of the page.
#:
#: :meta hide-value:
PUZZLES: dict[str, Puzzle] = {puzzle.name: puzzle for puzzle in (*ALONE, *TOGETHER)}
