import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from recorded import keep
from samples import scattered as timing

from _ext.timings import Column, column, machine_name, names_of, svg, table_html
from firstlight.timing.gpu_state import GpuState
from firstlight.timing.result import Timing

EXAMPLE = '''"""
Sums
====

Text.
"""

from firstlight import Bench

bench = Bench("two-sums", budget=0.2)
bench.time("short", sum, (1, 2), n=2, bytes=16)
bench.time("long", sum, range(9999), n=9999)
bench.show()

# %%
# The figure.

bench.plot()

# %%
# One row alone:
#
# .. timings:: two-sums
#    :plot:
#    :machine: gpu-one
#    :rows: only here
#
# .. stacks:: two-sums
#    :machine: gpu-one
#    :stays: only here
#    :title: Where it goes
#
#    first | short; only here |
#    the whole
#
#    second | short | the whole
'''
HOSTILE = '<script>alert("x")</script>'


def record(site, machine: str, name: str = "", date: str = "2026-11-01", source: str = EXAMPLE) -> None:
    rows = (timing("short", 1e-6, n=2, device="cuda:0"), timing("only here", 2e-6, device="cuda:0"))
    rows += (timing("the whole", 5e-6, device="cuda:0"),)
    timings = {f"two-sums/{t.label}/cuda:0": t for t in rows}
    facts = {"name": name or machine.upper(), "date": date, "source": source, "cpu_name": "some CPU", "cpu_cores": 2}
    keep(site.folder, "1_x/01_sums", machine, timings=timings, **facts)


@pytest.fixture(scope="module")
def site(make_site):
    """Three machines: one is as it should be, one ran older code, one has a name that could do harm."""
    files = {
        "examples/1_x/GALLERY_HEADER.rst": "X\n-\n",
        "examples/1_x/01_sums.py": EXAMPLE,
        "index.rst": "Home\n====\n\n.. toctree::\n\n   tutorials/index\n   machines\n",
        "machines.rst": "Machines\n========\n\n.. machines::\n",
    }
    site = make_site(files)
    record(site, "gpu-one")
    record(site, "gpu-old", source=EXAMPLE.replace("9999", "999"))
    record(site, "script-alert-x-script", HOSTILE)
    site.rebuild()
    return site


def page(site) -> str:
    return site.read("html/tutorials/1_x/01_sums.html")


def changed(site) -> int:
    """How many pages a further build reads; and no example may be run again."""
    ran = (site.folder / "tutorials/1_x/01_sums.two-sums.timings.json").stat().st_mtime_ns
    added, differ, _ = map(int, re.findall(r"\d+", site.rebuild()))
    assert (site.folder / "tutorials/1_x/01_sums.two-sums.timings.json").stat().st_mtime_ns == ran
    assert added == 0
    return differ


def test_page_has_this_build_and_the_machine(site) -> None:
    html = page(site)
    assert html.count('<div class="fl-timings"') == 1
    assert html.count('<figure class="fl-figure"') == 3
    shown, _, behind = html.partition("What this build measured")
    assert "This build" not in shown
    assert "This build" in behind
    assert '<a href="../../machines.html#gpu-one">GPU-ONE</a>' in html
    assert shown.count('scope="row"') == 3  # of the machines
    assert behind.count('scope="row"') == 2
    assert "sphx-glr-single-img" not in html  # the example's own drawing does not stand beside the page's
    assert "timings.js" in html
    machines = site.read("html/machines.html")
    assert 'id="gpu-one"' in machines
    assert 'href="tutorials/1_x/01_sums.html"' in machines


def test_older_code_is_struck_through_and_not_drawn(site) -> None:
    assert "<s>1.00 µs</s>" in page(site)
    figure = re.search(r'<figure class="fl-figure".*?</figure>', page(site), re.DOTALL)[0]
    assert "GPU-OLD" not in figure
    assert "GPU-ONE" in figure


def test_a_page_draws_some_rows_of_one_machine(site) -> None:
    _, figure, _ = re.findall(r'<figure class="fl-figure".*?</figure>', page(site), re.DOTALL)
    assert "only here on GPU-ONE" in figure
    assert "short" not in figure
    assert "EVIL" not in figure


def test_stacked_bars_say_what_a_run_took_beyond_its_parts(site) -> None:
    *_, figure = re.findall(r'<figure class="fl-figure".*?</figure>', page(site), re.DOTALL)
    assert "first: short 1.00 µs, only here 2.00 µs, the rest of the run 2.00 µs; second: short 1.00 µs, the" in figure


def test_a_row_that_no_record_has_fails_the_build(site) -> None:
    site.write("examples/1_x/01_sums.py", EXAMPLE.replace(":rows: only here", ":rows: only here; nowhere"))
    assert site.build("html").failed
    assert "GPU-ONE has no row 'nowhere'" in site.log
    site.write("examples/1_x/01_sums.py", EXAMPLE.replace("second | short", "second | shorter"))
    assert site.build("html").failed
    assert "no row 'shorter' on gpu-one" in site.log
    site.write("examples/1_x/01_sums.py", EXAMPLE)
    site.rebuild()


def test_hostile_names_are_text(site) -> None:
    for name in ("tutorials/1_x/01_sums", "machines"):
        assert "<script>alert" not in site.read(f"html/{name}.html")
        assert "&lt;script&gt;alert" in site.read(f"html/{name}.html")


def test_pages_are_read_again_when_their_records_change(site) -> None:
    record(site, "gpu-one", date="2026-11-02")
    record(site, "gpu-two", date="2026-11-03")
    assert changed(site) == 2  # the page and the list of machines
    assert "2026-11-02" in page(site)
    assert page(site).index("GPU-TWO") < page(site).index("GPU-ONE")  # the newest first
    (site.folder / "records/gpu-two/1_x/01_sums.json").unlink()
    assert changed(site) == 2
    assert "GPU-TWO" not in page(site)
    assert changed(site) == 0


def test_what_is_no_record_is_named_and_fails_the_build(site) -> None:
    files = [f"records/gpu-bad{number}/1_x/01_sums.json" for number in range(5)]
    for file, content in zip(files, ("", "{", "[]", '{"version": "1.0"}', "\x00"), strict=True):
        site.write(file, content)
    assert site.build("html").failed
    assert [file for file in files if file not in site.log] == []
    for file in files:
        (site.folder / file).unlink()
    site.rebuild()


def columns(*rows: Timing, **changes) -> list[Column]:
    return [Column("This build", "CPU", rows), Column("GPU", "2026-11-01", rows, **changes)]


def test_sizes_belong_to_the_name_only_where_one_machine_has_several() -> None:
    a = [timing("a", n=10), timing("a", n=20), timing("b", n=10)]
    assert list(names_of([Column("", "", tuple(a))])) == ["a, n = 10", "a, n = 20", "b"]
    one, other = Column("", "", (timing("a", n=10),)), Column("", "", (timing("a", n=99),))
    assert names_of([one, other]) == {"a": [one.timings[0], other.timings[0]]}


def test_more_cores_than_there_are_stand_in_no_table() -> None:
    rows = {cores: timing("one", cores=cores) for cores in (1.5, 2.1, 37.8)}
    facts = {"device_kind": "cpu", "device_name": "AMD EPYC", "cpu_cores": 2, "date": "2026-11-01"}
    record = SimpleNamespace(facts=facts, rows_of=lambda bench: rows, machine="cpu")
    shown = column(SimpleNamespace(record=record, state="fresh", why=[]), "bench").timings
    assert [row.cores for row in shown] == [1.5, 2.1, None]


def test_two_processors_of_one_name_are_two_machines() -> None:
    facts = {"device_kind": "cpu", "device_name": "AMD EPYC", "cpu_cores": 2}
    assert machine_name(facts) == "AMD EPYC, 2 cores"
    assert machine_name({**facts, "cpu_model": "family 26, model 2"}) == "AMD EPYC, family 26, model 2, 2 cores"
    gpu = {"device_kind": "cuda", "device_name": "NVIDIA L4", "cpu_model": "family 26, model 2", "cpu_cores": 2}
    assert machine_name(gpu) == "NVIDIA L4"


def test_all_verdicts_stand_beside_a_number_and_what_slowed_a_gpu_down() -> None:
    slow = GpuState(1.399e9, 699.0, 61, "power")
    row = timing("product", 3e-4, device="cuda:0", verdicts=("launch-bound", "throttled"), after=slow)
    html = table_html([Column("GPU", "", (row,))], "x", "1_x/01_sums", "", "machines.html")
    assert '<em class="fl-verdict">launch-bound, throttled</em>' in html
    assert "1.40 GHz, 699 W, 61 °C, slowed down by power" in html


def test_missing_simulated_and_impossible_have_no_number() -> None:
    rows = (timing("kernel", verdicts=("simulated",), values=()), timing("fast", 3e-9, verdicts=("impossible",)))
    html = table_html([Column("This build", "", rows)], "x", "1_x/01_sums", "", "machines.html")
    assert "<td>simulated</td>" in html
    assert "<td>impossible</td>" in html
    assert "ns" not in html


def test_labels_are_escaped_everywhere() -> None:
    html = table_html(columns(timing(HOSTILE), why=[HOSTILE], state="stale"), "x", "1_x/01_sums", "", "m.html")
    assert "<script>" not in html
    assert "<script>" not in svg(columns(timing(HOSTILE)), "x")


def test_the_same_data_give_the_same_bytes() -> None:
    data = columns(timing("a"), timing("b", 0.02, bytes=100, of_roof=0.5))
    assert svg(data, "x") == svg(data, "x")
    assert "#000000" not in svg(data, "x")


def test_two_figures_of_one_experiment_have_no_id_in_common():
    one, other = (set(re.findall(r' id="([^"]+)"', svg(columns(timing(label)), "x"))) for label in ("a", "b"))
    assert one
    assert other
    assert not one & other


def test_a_column_of_nothing_but_stale_numbers_draws_nothing() -> None:
    stale = replace(columns(timing("a"))[1], state="stale")
    assert "Nothing was timed" in svg([stale], "x")
