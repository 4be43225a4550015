"""What pages say of recorded numbers in words holds, and what no longer does is found, beside its sentence."""

import json
import shutil

import pytest
from samples import EXAMPLES, H100, ROOT

from _ext.holds import BLOCK, false_on
from _ext.notebooks import in_words

WITH_CLAIMS = [script for script in EXAMPLES if BLOCK.search(script.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("script", WITH_CLAIMS, ids=lambda path: path.stem)
def test_what_a_page_says_in_words_holds(script) -> None:
    assert false_on(script, ROOT) == []
    assert script.read_text(encoding="utf-8").count(".. holds::") == len(BLOCK.findall(script.read_text("utf-8")))


PAGE = '''"""
Waves
=====
"""
from firstlight import Bench

half = 7 / 2
print("not run", half)
bench = Bench("waves")

# %%
# One block more, and it takes twice as long.
#
# .. holds::
#
#    took = lambda n: median(f"waves/busy/cuda:0/n={n}")
#    1.9 < took(133) / took(132) < 2.1
#
#    CLAIM
#
# More words.

bench.show()
'''


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("took(133) < 2 * took(265)", None),
        ("near(took(265) / took(132), 3, 0.03) and row('waves/busy/cuda:0/n=132').n == 132", None),
        ("code('half') == [3.5]", None),
        ("took(133) < took(132)", "holds no more: took(133) < took(132); took(133) is 0.0"),
        ("near(took(133), 2, 0.5)", "holds no more: near(took(133), 2, 0.5); took(133) is 0.0"),
        ("printed('no such number')", "holds no more"),
        ("took(7) > 0", f"LookupError: {H100} has no row 'waves/busy/cuda:0/n=7'"),
        ("median('wave/busy') > 0", f"LookupError: {H100} has no row 'wave/busy'"),
        ("median('waves/busy', 'nvidia-k80') > 0", "InvalidRecord"),
        ("median('waves/busy') > 0", "several rows"),
        ("took(133) <", "no Python"),
    ],
)
def test_a_claim_is_judged_on_its_line(tmp_path, claim, said) -> None:
    script = tmp_path / "examples/3_kernels/04_waves_and_blocks.py"
    record = f"records/{H100}/3_kernels/04_waves_and_blocks.json"
    for path in (script, tmp_path / record):
        path.parent.mkdir(parents=True)
    shutil.copy(ROOT / record, tmp_path / record)
    script.write_text(PAGE.replace("CLAIM", claim), encoding="utf-8")
    found = false_on(script, tmp_path)
    assert len(found) == (said is not None)
    for problem in found:
        assert problem.startswith("examples/3_kernels/04_waves_and_blocks.py:19: ")
        assert said in problem


def test_a_build_fails_at_a_claim_that_is_false_and_a_page_shows_none(make_site) -> None:
    claims = "Page\n====\n\nWords.\n\n.. holds::\n\n   once = 6\n   once > {}\n\nMore.\n\n.. holds::\n\n   once == 6\n"
    site = make_site({"page.rst": claims.format(7)}).build("html")
    assert site.failed
    assert "page.rst:9: WARNING: this holds no more: once > 7; once is 6" in site.log
    site.write("page.rst", claims.format(5))
    site.rebuild()
    assert "once" not in site.read("html/page.html")


def test_who_takes_a_page_home_gets_no_claims() -> None:
    bare = BLOCK.sub("", PAGE)
    assert "holds" not in bare
    assert "# One block more, and it takes twice as long.\n#\n# More words.\n\nbench.show()" in bare
    cell = {"cell_type": "markdown", "source": ["Words.\n\n.. holds::\n\n   took < 2\n\nMore."]}
    (cell,) = json.loads(in_words(json.dumps({"cells": [cell]}), {}, None, None))["cells"]
    assert cell["source"] == ["Words.\n\nMore."]
