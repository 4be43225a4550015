"""Causes that let a GPU work, but slowly, wrongly, or not for you: and notes on what is often misread."""

from __future__ import annotations
