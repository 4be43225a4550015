import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = [
    "imaging",
    *(
        f"imaging.{name}"
        for name in ("automatic", "data", "fitting", "fourier", "model", "products", "selfcal", "simulate")
    ),
]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_package_loads_no_library():
    heavy = ("numpy", "torch", "astropy", "matplotlib", "finufft", "numba", "tqdm")
    assert run(f"import sys, firstlight_imaging; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_refusing_a_missing_file_loads_nothing_that_fits_or_draws():
    slow = ("torch", "numba", "scipy", "matplotlib", "astropy.coordinates")
    code = "import sys, firstlight_imaging.cli as cli; cli.main(['no-such.uvfits'])"
    assert run(f"{code}; print([m for m in {slow} if m in sys.modules])") == "[]"


@pytest.mark.parametrize("package", PACKAGES)
def test_names_of_the_package_are_found_and_others_are_not(package):
    there = import_module(f"firstlight_{package}")
    assert all(getattr(there, name) is not None for name in there.__all__)
    with pytest.raises(AttributeError, match="GridCords"):
        _ = there.GridCords
