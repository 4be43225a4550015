"""Kernels to write, each with one constraint that is its lesson, and a judge that lucky answers do not get past."""

from firstlight.kernels.puzzles.puzzle import Puzzle
from firstlight.kernels.puzzles.tasks import PUZZLES

__all__ = ["PUZZLES", "Puzzle"]
