import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from compiler import PACKAGE

import firstlight_kernels

README = Path(__file__).parents[1].joinpath("README.md").read_text("utf-8")


def test_the_readmes_code_prints_what_stands_below_it(tmp_path, capsys):
    code, printed = (re.search(rf"^```{kind}\n(.*?)^```", README, re.M | re.S)[1] for kind in ("python", "text"))
    script = tmp_path / "readme.py"
    script.write_text(code.replace("from numba import", f"from {PACKAGE} import"), "utf-8")
    runpy.run_path(str(script))
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(("barrier", "outcome"), [("", "1 failed"), ("    cuda.syncthreads()\n", "1 passed")])
def test_the_readmes_test_fails_until_the_barrier_is_there(tmp_path, barrier, outcome):
    kernel, test = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    code = kernel.partition("print(")[0].replace("    out[i] =", f"{barrier}    out[i] =") + test
    code = code.replace("from numba import", f"from {PACKAGE} import")
    (tmp_path / "test_readme.py").write_text(code, "utf-8")
    path = {"PYTHONPATH": str(Path(firstlight_kernels.__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "firstlight_kernels.pytest_plugin", "test_readme.py"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | path, capture_output=True, text=True)
    assert outcome in done.stdout
    assert barrier or "out[i] = tile[63 - i]" in done.stdout.partition("Failed")[2]
