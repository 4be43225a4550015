"""Run a page as the site does, but with little time for its measurements."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from firstlight import Bench

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def page(request, tmp_path_factory):
    """What the page that the module names as PAGE has defined when it has run from its first line to its last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        patch.setattr(plt, "show", lambda: None)
        patch.setattr(Bench.__init__, "__defaults__", (0.4,))
        yield runpy.run_path(str(EXAMPLES / request.module.PAGE))
        plt.close("all")
