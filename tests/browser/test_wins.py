"""Will a GPU win? The reader's numbers, judged as the page's own functions judge, kept in a link, and safe to open."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import SITE

from firstlight.display import quantity

PAGE = SITE / "tutorials/2_devices/11_when_the_gpu_wins.html"
BOARD = ".fl-wins"


def told(page: Any) -> str:
    return page.locator(f"{BOARD} [role=status]").inner_text()


def fill(page: Any, **values: object) -> str:
    for name, value in values.items():
        page.locator(f'{BOARD} [name="{name}"]').fill(str(value))
    return told(page)


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    """The cell of the page that holds the rule: one rule, written twice."""
    names: dict[str, Any] = {"__name__": "page"}
    cells = (SITE.parents[1] / "examples/2_devices/11_when_the_gpu_wins.py").read_text().split("\n# %%\n")
    exec(next(cell for cell in cells if "def on_gpu" in cell), names)
    return names


def test_every_number_is_judged_as_python_judges(page: Any, rules: Any) -> None:
    for card, precision in (("GTX 1080", "float32"), ("H200", "float64")):
        page.locator("[name=card]").select_option(card)
        page.locator("[name=precision]").select_option(precision)
        for job in (rules["Job"](0, 1e6, 1e9, 28), rules["Job"](1e9, 1e9, 1e7), rules["Job"](10, 10, 0)):
            said = fill(page, **job._asdict(), uses=3, memory=5e10, arithmetic=5e11)
            parts = rules["on_gpu"](job, card, 3, precision.replace("float", "fp"))
            cpu = rules["on_cpu"](job, rules["Rates"](5e10, 5e11), precision.replace("float", "fp"))
            for time in (*parts, sum(parts), cpu):
                assert quantity(time, "s") in said, (card, job, said)
            verdict = "GPU wins" if cpu > 2 * sum(parts) else "CPU wins" if cpu < sum(parts) / 2 else "tie"
            assert verdict in said


def test_a_listed_job_has_twice_the_bytes_in_float64(page: Any) -> None:
    page.goto(PAGE.as_uri())
    sent = float(page.locator("[name=sent]").input_value())
    page.locator("[name=precision]").select_option("float64")
    assert float(page.locator("[name=sent]").input_value()) == 2 * sent > 0


def test_the_address_is_a_link_to_the_numbers(page: Any) -> None:
    page.locator("[name=start]").select_option(index=4)
    said = fill(page, uses=50)
    page.reload()
    assert told(page) == said
    assert page.locator("[name=start]").input_value() == "your own numbers"


def test_a_cpu_gives_its_rates_and_rates_their_cpu(page: Any) -> None:
    page.goto(PAGE.as_uri())
    cpus = json.loads(page.locator(BOARD).get_attribute("data-wins"))["cpus"]
    assert page.locator("[name=cpu]").input_value().startswith("desktop")
    for name, rates in cpus.items():
        page.locator("[name=cpu]").select_option(name)
        assert [float(page.locator(f"[name={of}]").input_value()) for of in ("memory", "arithmetic")] == rates
    job = page.locator("[name=start]").input_value()
    fill(page, memory=1e9)
    assert page.locator("[name=cpu]").input_value() == "your own rates"
    assert page.locator("[name=start]").input_value() == job
    said = fill(page, memory=cpus["laptop: Ryzen 7 5800U"][0], arithmetic=cpus["laptop: Ryzen 7 5800U"][1])
    assert page.locator("[name=cpu]").input_value() == "laptop: Ryzen 7 5800U"
    page.reload()
    assert told(page) == said
    page.locator("[name=cpu]").select_option("your own rates")
    assert "Type each number" in told(page)


def test_the_verdict_is_in_sight_beside_the_field_that_is_filled(page: Any) -> None:
    for width, height in ((1280, 720), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for name in ("sent", "arithmetic"):
            place = page.locator(f"{BOARD} [name={name}]")
            place.focus()
            field = place.bounding_box()
            verdict = page.locator(f"{BOARD} [role=status]").bounding_box()
            assert field["y"] + field["height"] <= verdict["y"] < verdict["y"] + verdict["height"] <= height + 1


def test_what_is_no_number_is_said_and_a_hostile_link_is_only_text(page: Any) -> None:
    assert "Type each number" in fill(page, moved="<b>")
    assert page.locator("[aria-invalid=true]").count() == 1
    page.goto(f"{PAGE.as_uri()}#card=none&__proto__=1&start=<img>&sent=<img src=x onerror=alert(1)>")
    page.reload()
    assert "Type each number" in told(page)
    assert page.locator(f"{BOARD} img").count() == 0


def test_a_telephone_has_it_and_without_javascript_there_is_a_table(telephone: Any, bare: Any) -> None:
    assert "wins" in fill(telephone, sent=1e9, moved=1e9, operations=1e3, uses=1, memory=1e12)
    assert not any(one.is_visible() for one in bare.locator(f"{BOARD} :is(input, select)").all())
    assert bare.locator(f"{BOARD} tbody tr").count() == 6
