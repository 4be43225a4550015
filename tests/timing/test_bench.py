import itertools
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest
from samples import scattered

from firstlight import Bench, display
from firstlight.timing import bench as bench_module
from firstlight.timing.ceilings import Roof
from firstlight.timing.result import RowName, Timing


@pytest.fixture(autouse=True)
def known_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_module, "measured_roof", lambda _: Roof(byte_rate=1e10, flop_rate=1e11))


def row(label: str, median: float = 0.01, **changes) -> Timing:
    timing = scattered(label, median, **changes)
    rate = timing.byte_rate
    return replace(timing, of_roof=rate / 1e10) if rate else timing


def bench_of(*timings: Timing) -> Bench:
    bench = Bench("some-thing")
    bench.rows.update({RowName(bench.id, t.label, t.device, t.n): t for t in timings})
    return bench


@pytest.mark.parametrize("name", ["", "Vector Add", "a--b", "-a", "a/b", "ä"])
def test_names_that_cannot_be_linked_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(name))):
        Bench(name)


def test_two_rows_of_one_name_are_refused_other_sizes_are_not() -> None:
    bench = Bench("a", budget=0.1)
    bench.time("abs", abs, -1, n=1)
    bench.time("abs", abs, -1, n=2)
    with pytest.raises(ValueError, match="abs/cpu/n=2"):
        bench.time("abs", abs, -1, n=2)
    assert len(bench.timings) == 2
    assert bench["abs/cpu/n=2"].n == 2
    with pytest.raises(KeyError, match="abs/cpu/n=2"):
        bench["abs"]
    with pytest.raises(KeyError, match="abs/cpu/n=1"):
        bench["add"]


@pytest.mark.parametrize("label", ["add", "host/device", "a/n=3", "a/cpu", "two\nlines", "n=1", "1_000"])
@pytest.mark.parametrize(("device", "n"), [("cpu", None), ("cuda:1", 5), ("cpu", 1e6), ("cpu", 1e20)])
def test_a_name_is_taken_apart_into_what_it_was_made_of(label: str, device: str, n: float | None) -> None:
    name = RowName("some-thing", label, device, n)
    assert RowName.parse(str(name)) == name
    assert str(name) == f"some-thing/{name.in_bench}"


def test_a_name_that_is_no_rows_is_taken_apart_all_the_same() -> None:
    assert RowName.parse("collecting/not run here") == RowName("collecting", "not run here")
    assert [RowName.parse(text).bench for text in ("", "alone", "x//")] == ["", "alone", "x"]


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what begins the next cell of a notebook that is not there."""
    shell, count = SimpleNamespace(execution_count=1), itertools.count(2)

    def run_next() -> None:
        shell.execution_count = next(count)

    monkeypatch.setattr(bench_module, "ipython_shell", lambda: shell)
    return run_next


def test_a_cell_that_is_run_again_replaces_its_rows_and_spends_no_more(cell, monkeypatch) -> None:
    budgets = []

    def measured(*_: object, label: str, budget: float, **__: object) -> Timing:
        budgets.append(budget)
        return row(label, median=0.01 * len(budgets), values=(0.01 * len(budgets),) * 5)

    monkeypatch.setattr(bench_module, "measure", measured)
    bench = Bench("a", budget=1.0)
    first, _ = bench.time("first", abs, -1), bench.time("second", abs, -1)
    with pytest.raises(ValueError, match="first/cpu"):
        bench.time("first", abs, -1)  # twice in one cell
    cell()
    again = bench.time("first", abs, -1)
    assert again.median > first.median
    assert [t.label for t in bench.timings] == ["first", "second"]
    assert bench["first"] is again
    assert budgets == pytest.approx([0.25, 0.95 / 4, 0.9 / 4])  # what the second row took is gone, and no more


def test_a_cell_that_fails_when_it_is_run_again_keeps_the_row(cell) -> None:
    bench = Bench("a", budget=0.1)
    kept = bench.time("abs", abs, -1)
    cell()
    with pytest.raises(TypeError):
        bench.time("abs", abs, "text")
    assert bench.timings == [kept]


def test_a_program_keeps_its_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mine.py", "--record", "video.mp4"])
    assert Bench("mine").timings == []


def test_the_budget_is_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets = []

    def measured(*_: object, label: str, budget: float, **__: object) -> Timing:
        budgets.append(budget)
        return row(label, values=(0.01,) * 5, loops=6)

    monkeypatch.setattr(bench_module, "measure", measured)
    bench = Bench("a", budget=2.0)
    for label in "abc":
        bench.time(label, abs, -1)
    assert budgets == pytest.approx([2.0 / 4, 1.7 / 4, 1.4 / 4])


def test_a_terminal_shows_text_and_a_page_a_table(monkeypatch, capsys) -> None:
    bench = bench_of(row("numpy", n=1001, bytes=10**8))
    assert bench.show() is None
    caption, head, _, line = capsys.readouterr().out.splitlines()
    assert "cores" in caption
    assert "n = 1,001" in caption
    assert head.split() == ["median", "spread", "first", "call", "rate", "of", "roof", "cores", "verdict"]
    assert line.split()[:3] == ["numpy", "10.0", "ms"]
    assert "10.0 GB/s" in line
    assert "100%" in line
    monkeypatch.setattr(display, "on_page", True)
    assert bench.show() is bench  # whose HTML a page shows
    assert capsys.readouterr().out == ""


def test_impossible_and_simulated_numbers_are_never_printed() -> None:
    bench = bench_of(
        row("fast", 3e-6, verdicts=("impossible",), bytes=10**9, device="cuda:0"),
        row("kernel", values=(), verdicts=("simulated",), device="cuda:0"),
        row("honest", 0.02),
    )
    fast, kernel, honest = bench.table().rows
    assert {*fast[2:-1], *kernel[2:-1]} == {"–"}
    assert fast[-1] == "impossible"
    assert "20.0 ms" in honest


def test_rows_are_drawn_with_value_spread_floor_and_words() -> None:
    fig = bench_of(row("slow", 0.1, bytes=10**8), row("fast", 0.005, bytes=10**8)).plot()
    (ax,) = fig.axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["slow", "fast"]
    assert ax.get_xscale() == "log"
    assert {t.get_text() for t in ax.texts} == {"100 ms", "5.00 ms"}
    floors = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert [line.get_xdata()[0] for line in floors] == pytest.approx([0.005] * 2)  # not above a row that beat the roof
    assert "slow on " in fig.get_label()
    assert "100 ms; fast on " in fig.get_label()
    plt.close(fig)


def test_several_sizes_are_drawn_as_curves() -> None:
    timings = [row(label, 1e-6 * n, n=n, bytes=12 * n) for n in (1000, 10, 100) for label in ("a", "b")]
    fig = bench_of(*timings).plot()
    (ax,) = fig.axes
    curves = [line for line in ax.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 3]
    assert len(curves) == 2
    assert list(curves[0].get_xdata()) == [10, 100, 1000]
    assert len(fig.legends[0].get_texts()) == 3  # two curves and one model
    plt.close(fig)


def test_a_gpu_that_only_numba_reaches_is_timed_without_a_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_roof(device: str) -> Roof:
        raise ValueError(device)

    monkeypatch.setattr(bench_module, "measured_roof", no_roof)
    bench = Bench("kernel", budget=0.1)
    bench.time("kernel", abs, -1, n=7, bytes=84, device="cuda:7")
    assert "cuda:7" in bench.table().caption
    assert "of roof" not in bench.table().head


@pytest.mark.parametrize(("values", "others"), [((1.0,), (2.0,) * 9), ((1.0,) * 9, (2.0, 2.0)), ((), ())])
def test_rows_of_too_few_values_say_nothing_about_their_ratio(values, others):
    few, more = (Timing("add", "cpu", 1.0, some) for some in (values, others))
    assert few.speedup_over(more) == (0, math.inf)


def test_a_row_of_too_few_values_has_no_spread():
    few, more = (bench_of(Timing("add", "cpu", 1.0, (1.0,) * count)).table().head for count in (2, 3))
    assert ("spread" in few, "spread" in more) == (False, True)
