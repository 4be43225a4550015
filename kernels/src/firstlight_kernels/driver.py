"""Ask the CUDA driver for the number of devices, without torch or numba."""

from __future__ import annotations

import ctypes
import sys


def cuda_device_count() -> int:
    """Return the number of CUDA devices that a program can use: 0 where no driver is found or none answers.

    Asking starts the driver in this process, and CUDA then works in no process that is *forked* from it.

    Returns
    -------
    int
        The number of devices, after ``CUDA_VISIBLE_DEVICES`` has had its say.

    Examples
    --------
    >>> from firstlight_kernels.driver import cuda_device_count
    >>> cuda_device_count() >= 0
    True
    """
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        works = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    except (OSError, AttributeError):  # no such library; a library that is not the driver
        return 0
    return count.value if works else 0
