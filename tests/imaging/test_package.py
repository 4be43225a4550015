import subprocess
import sys

import pytest

import firstlight.imaging as imaging


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_package_loads_no_library():
    heavy = ("numpy", "torch", "astropy", "matplotlib", "finufft", "numba", "tqdm")
    assert run(f"import sys, firstlight.imaging; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_names_of_the_package_are_found_and_others_are_not():
    for name in imaging.__all__:
        assert callable(getattr(imaging, name)), name
        assert getattr(imaging, name).__name__ == name
    with pytest.raises(AttributeError, match="GridCords"):
        _ = imaging.GridCords
