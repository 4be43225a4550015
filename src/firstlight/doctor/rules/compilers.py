"""Causes in what compiles kernels: Numba's CUDA target, and the C compiler that PyTorch and Triton call."""

from __future__ import annotations
