"""Observed visibilities: read from files, checked, weighted, and averaged into cells."""
