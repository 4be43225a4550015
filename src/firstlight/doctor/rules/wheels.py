"""Causes in PyTorch's wheel: built for something else, broken, or without code for the card."""

from __future__ import annotations
