import subprocess
import sys
from importlib import import_module

import pytest

INSTALL = "python -m pip install 'firstlight-imaging'"
PACKAGES = ["imaging", *(f"imaging.{name}" for name in ("data", "fitting", "fourier", "model", "products", "simulate"))]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_package_loads_no_library():
    heavy = ("numpy", "torch", "astropy", "matplotlib", "finufft", "numba", "tqdm")
    assert run(f"import sys, firstlight_imaging; print([m for m in {heavy} if m in sys.modules])") == "[]"


@pytest.mark.parametrize(
    ("package", "name", "missing"),
    [
        ("imaging", "read_uvfits", "astropy"),
        ("imaging.simulate", "Ring", "scipy"),
        ("imaging.fourier", "adjoint", "finufft"),
        ("imaging", "GridCoords", "astropy"),
    ],
)
def test_without_the_extra_a_name_that_needs_it_says_how_to_install_it(package, name, missing):
    told = run(f"""
import importlib, sys
sys.modules["{missing}"] = None
try:
    importlib.import_module("firstlight_{package}").{name}
except ImportError as error:
    print(error)
""")
    assert told == ("" if name == "GridCoords" else f"firstlight_imaging needs {missing}: {INSTALL}")


@pytest.mark.parametrize("package", PACKAGES)
def test_names_of_the_package_are_found_and_others_are_not(package):
    there = import_module(f"firstlight_{package}")
    assert all(getattr(there, name) is not None for name in there.__all__)
    with pytest.raises(AttributeError, match="GridCords"):
        _ = there.GridCords
