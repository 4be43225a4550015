from __future__ import annotations

import re
from dataclasses import replace

import pytest
from recorded import keep

from _ext.glance import BENCH, CPU, EXAMPLE, STAY, TRAVEL, comparison, finding, first_win
from firstlight.measure.timing import Timing

SIZES = (10, 100, 1000)


def rows(**medians: tuple[float, ...]) -> dict[str, Timing]:
    """Timings by label; the labels of the GPU have no place in keywords."""
    labels = {"cpu": CPU, "stay": STAY, "travel": TRAVEL}
    return {
        f"{BENCH}/{labels[key]}/n={n}": Timing(
            label=labels[key], device="cpu", n=n, first=1.0, values=(0.9 * median, median, 1.1 * median), cores=1.0
        )
        for key, found in medians.items()
        for n, median in zip(SIZES, found, strict=True)
    }


CPU_ROWS = rows(cpu=(1e-6, 1e-4, 1e-2))
GPU_ROWS = CPU_ROWS | rows(stay=(1e-5, 1e-5, 1e-5), travel=(2e-2, 2e-2, 2e-2))


class Fake:
    def __init__(self, machine: str, timings: dict[str, Timing]) -> None:
        self.machine, self.timings = machine, timings
        self.facts = {"device_name": machine, "cpu_name": "some CPU", "cpu_cores": 3, "date": "2026-05-01 12:00:00"}


def judged(machine, timings, state="fresh"):
    return Fake(machine, timings), state, []


def test_crossings_lie_on_straight_lines_in_logarithms():
    cpu = {10: 1e-6, 100: 1e-4, 1000: 1e-2}
    assert first_win(cpu, dict.fromkeys(SIZES, 1e-5)) == pytest.approx(10**1.5, rel=0.01)
    assert first_win(cpu, dict.fromkeys(SIZES, 1.0)) is None
    assert first_win(cpu, dict.fromkeys(SIZES, 1e-9)) == pytest.approx(10)
    assert first_win(cpu, {10: 1e-7, 100: 1e-3, 1000: 1e-3}) > 100, "what counts is the last loss"


def test_a_gpu_record_takes_the_place_of_the_model_even_if_it_is_older():
    found = comparison([judged("cpu-new", CPU_ROWS), judged("gpu-old", GPU_ROWS)])
    assert found.record.machine == "gpu-old"
    assert not found.modelled
    assert found.machine == "gpu-old beside some CPU, 3 cores"
    assert "at no size measured if they travel" in finding(found)
    assert "from n ≈ 32 on if the data stay" in finding(found)


def test_without_a_gpu_the_model_is_called_a_model():
    found = comparison([judged("cpu-new", CPU_ROWS), judged("cpu-old", CPU_ROWS)])
    assert found.record.machine == "cpu-new"
    assert found.modelled
    assert "a model" in finding(found)
    assert max(found.curves[STAY]) == 4 * 1000


def test_stale_records_and_impossible_numbers_are_not_drawn():
    impossible = {name: replace(row, verdict="impossible") for name, row in CPU_ROWS.items()}
    assert comparison([]) is None
    assert comparison([judged("a", CPU_ROWS, "stale"), judged("b", impossible), judged("c", {})]) is None
    simulated = GPU_ROWS | {name: replace(row, verdict="simulated") for name, row in GPU_ROWS.items() if STAY in name}
    assert comparison([judged("d", simulated)]).modelled


FILES = {
    "glance.rst": "Glance\n======\n\n.. glance::\n",
    "machines.rst": "Machines\n========\n\n.. machines::\n",
    "examples/2_devices/GALLERY_HEADER.rst": "Chapter\n-------\n\nOf it.\n",
    f"examples/{EXAMPLE}.py": '"""\nPage\n====\n\nText.\n"""\n1\n',
}


@pytest.fixture(scope="module")
def site(make_site):
    site = make_site(FILES).build("html")
    assert not site.failed, site.log
    return site


def test_the_page_follows_the_records(site):
    assert "<svg" not in site.read("html/glance.html")
    keep(site.folder, EXAMPLE, "cpu-x", name="CPU <x>", timings=CPU_ROWS)
    site.rebuild()
    html = site.read("html/glance.html")
    figure = html[html.index("<figure") : html.index("</figure>")]
    assert re.search(r'role="img" aria-label="[^"]*a model[^"]*"', figure)
    assert figure.count("<svg") == 1
    assert "currentColor" in figure
    assert "rdf:" not in figure, "no HTML"
    assert "impossible" in figure
    assert '<a href="machines.html#cpu-x">CPU &lt;x&gt;' in figure
    assert "2026-05-01" in figure
    assert "assumed" in figure
    assert f'href="tutorials/{EXAMPLE}.html"' in figure
    site.rebuild("html", "-E")
    assert site.read("html/glance.html") == html, "the same records give the same bytes"
    keep(site.folder, EXAMPLE, "gpu-y", timings=GPU_ROWS, date="2026-04-01")
    site.rebuild()
    html = site.read("html/glance.html")
    assert "machines.html#gpu-y" in html
    assert "(model)" not in html
    assert "assumed" not in html
