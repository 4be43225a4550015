"""Check each launch of a kernel in a test, with a GPU or without one: one argument more is all a test needs.

.. code-block:: python

    def test_reverse(check_kernels):
        x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        reverse[1, 64](x, out)
        np.testing.assert_array_equal(out, x[::-1])

Each launch in that test is first run on copies of its arrays, in three orders that a GPU may choose: all threads at
once, one after the other, and one after the other from the last one back. Then it is traced. The test fails, with the
line of the kernel, if threads race, leave an array, miss a barrier or read memory that nobody has written. After that
it goes on as ever: on the GPU, or without one simulated, so that the same test runs on every computer.

- For a whole file: ``pytestmark = pytest.mark.usefixtures("check_kernels")``.
- For all tests, in ``pyproject.toml``, below ``[tool.pytest.ini_options]``: ``usefixtures = ["check_kernels"]``.
- ``check_kernels.must_write("out")`` in a test: it then fails, too, if no thread has written some element of ``out``.
- Arrays on the device that a file makes while it is imported: call ``firstlight_kernels.simulate()`` in
  ``conftest.py``, and they can be made without a GPU.

Without a GPU, on GitHub (``.github/workflows/kernels.yml``):

.. code-block:: yaml

    name: kernels
    on: [push, pull_request]
    jobs:
      test:
        runs-on: ubuntu-latest
        steps:
          - uses: actions/checkout@v7
          - uses: actions/setup-python@v7
            with:
              python-version: "3.12"
          - run: python -m pip install pytest numba ./kernels
          - run: python -m pytest --ignore=kernels

A launch that is too large for a trace is run in the three orders only. Give a test a small one: some blocks, and a size
that is no multiple of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


class KernelCheck:
    """What ``check_kernels`` gives a test.

    Examples
    --------
    >>> check_kernels = KernelCheck()  # as a test gets it
    >>> check_kernels.must_write("out", "total")
    """

    def __init__(self) -> None:
        self._outputs: set[str] = set()

    def must_write(self, *names: str) -> None:
        """Fail if a launch after this leaves an element unwritten of an argument that has one of these names."""
        self._outputs |= set(names)


_active: KernelCheck | None = None


@pytest.fixture
def check_kernels() -> Iterator[KernelCheck]:
    """Check every launch of the test: no races, no index out of bounds, no missed barriers, no unwritten memory."""
    global _active
    from firstlight_kernels.launch import simulate, when_imported

    simulate()
    when_imported(_watch)
    before, _active = _active, KernelCheck()
    try:
        yield _active
    finally:
        _active = before


def _watch(compiler: Any) -> None:
    """Let each launch of a compiler's kernels be checked while a test asks for it."""
    configure = compiler.dispatcher.configure

    def checked(kernel: Any, griddim: Any, blockdim: Any, *more: Any, **named: Any) -> Any:
        configured = configure(kernel, griddim, blockdim, *more, **named)
        if _active is None:
            return configured
        shared_bytes = named.get("sharedmem", more[1] if len(more) > 1 else 0) or 0
        outputs = _active._outputs

        def judged(*arguments: Any) -> Any:
            __tracebackhide__ = True
            from firstlight_kernels.judging import problems_of

            if found := problems_of(kernel, griddim, blockdim, arguments, shared_bytes, outputs):
                size = f"{kernel.py_func.__name__}[{griddim}, {blockdim}]"
                pytest.fail("\n".join([size, *(f"  {each}" for each in found)]))
            return configured(*arguments)

        return judged

    compiler.dispatcher.configure = checked
