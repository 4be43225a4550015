import re
import runpy
from pathlib import Path

from compiler import PACKAGE


def test_the_readmes_code_prints_what_stands_below_it(tmp_path, capsys):
    readme = Path(__file__).parents[1].joinpath("README.md").read_text("utf-8")
    code, printed = (re.search(rf"^```{kind}\n(.*?)^```", readme, re.M | re.S)[1] for kind in ("python", "text"))
    script = tmp_path / "readme.py"
    script.write_text(code.replace("from numba import", f"from {PACKAGE} import"), "utf-8")
    runpy.run_path(str(script))
    assert capsys.readouterr().out == printed
