"""What a measurement depends on is found wherever it hides, and what it does not depend on is left alone."""

from __future__ import annotations

import ast

import pytest
from samples import EXAMPLES

from firstlight.records.slices import bench_digests, depends_on

PAGE = """
import numpy as np
from firstlight import Bench

scale = 3
unused = np.ones(7)
data = np.zeros(5)
data[0] = 1
items = []
items.append(data)
exec("items.append(2)", {"items": items})

def halve(scale):
    return scale / 2


@np.vectorize
def work(x, by=scale):
    return [offset + y for y in halve(x)]


offset = 4
print("before")
bench = Bench("sums")
if offset:
    bench.time("work", lambda: work(items[0]), n=5)
bench.show()
assert bench["work"].median > 0
offset = 5
"""


def changed(old: str, new: str, page: str = PAGE) -> bool:
    assert old in page
    return bench_digests(page)["sums"] != bench_digests(page.replace(old, new))["sums"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scale = 3", "scale = 2"),  # by a default argument
        ("data[0] = 1", "data[1] = 1"),  # by an item
        ("items.append(data)", "items.extend(data)"),  # by a method, and a name that it names
        ("append(2)", "append(3)"),  # by an argument of a call
        ("scale / 2", "scale / 3"),  # by a function that calls a function
        ("@np.vectorize", "@np.frompyfunc"),
        ("offset = 4", "offset = 6"),  # bound after the function that reads it
        ("if offset:", "if not offset:"),
        ("n=5", "n=6"),
        ('Bench("sums")', 'Bench("sums", budget=2)'),
    ],
)
def test_what_is_timed_depends_on_it(old, new):
    assert changed(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("unused = np.ones(7)", "unused = np.ones(8)"),
        ("import numpy as np", "import numpy as np, math"),
        ('print("before")', 'print("earlier")'),
        ("bench.show()", "bench.plot()"),
        ("median > 0", "median >= 0"),
        ("offset = 5", "offset = 7"),  # afterwards
        ("\ndef halve", "# a comment\n\ndef halve"),
    ],
)
def test_what_is_timed_does_not_depend_on_it(old, new):
    assert not changed(old, new)


def test_a_bench_that_is_handed_on_or_timed_under_another_name():
    page = (
        PAGE
        + """
def both(which):
    for one in (1, 2):
        which.time(f"{one}", abs, one)

first, second = Bench("first"), Bench("second")
for one in [first]:
    one.time("x", abs, 3)
both(second)
"""
    )
    for name in ("first", "second"):
        assert bench_digests(page)[name] != bench_digests(page.replace("abs, 3", "abs, 4"))[name]
    assert bench_digests(page)["second"] != bench_digests(page.replace("abs, one", "pow, one"))["second"]
    assert bench_digests(page)["sums"] == bench_digests(page.replace("both(second)", "both(Bench('x'))"))["sums"]


def test_nothing_depends_on_what_is_not_there():
    assert depends_on("x = 1", lambda statement: isinstance(statement, ast.Assert)) == []
    assert bench_digests("x = 1") == {}


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_no_page_depends_on_all_of_itself(script):
    """A slice that holds the whole page would make its records stale at every word."""
    source = script.read_text(encoding="utf-8")
    for name, now in bench_digests(source).items():
        assert bench_digests(source + "\nprint(1)\n")[name] == now


@pytest.mark.parametrize(
    ("timed", "named", "depends"),
    [
        ("[i + 1 for i in range(9)]", "i", False),  # Python 3.12 and later count such an i as the statement's own
        ("{i: 1 for i in range(9)}", "i", False),
        ("[j for j in range(9)] + [i]", "i", True),
        ("[i for i in range(i)]", "i", True),  # where it begins is looked up outside
    ],
)
def test_a_name_inside_a_comprehension_is_its_own(timed, named, depends):
    page = f"{named} = 1\nbench = Bench('sums')\nx = {timed}\nbench.time('x', len, x)\n"
    assert (bench_digests(page) != bench_digests(page.replace(f"{named} = 1", f"{named} = 2"))) == depends
