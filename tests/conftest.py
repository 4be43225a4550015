import matplotlib as mpl
import pytest

mpl.use("Agg")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--changed", action="store_true", help="leave out pages that were green as they are now")
