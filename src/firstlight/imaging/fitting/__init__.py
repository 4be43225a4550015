"""Fit a model to visibilities, and judge the fit."""
