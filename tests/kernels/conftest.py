"""Numba reads the switch of its simulator once, when it is first imported: here it is set before a test does that."""

from firstlight.kernels import cuda  # noqa: F401
