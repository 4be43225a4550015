"""Causes in the place where the program runs: containers, Windows' Linux, clusters, and what hides a GPU."""

from __future__ import annotations
