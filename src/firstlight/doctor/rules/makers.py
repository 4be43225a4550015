"""Causes that belong to the cards of AMD, Intel and Apple."""

from __future__ import annotations
