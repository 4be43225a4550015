"""Skies whose visibilities are known in closed form, and observations of them."""
