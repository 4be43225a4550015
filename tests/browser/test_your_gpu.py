"""The reader's GPU, here one that a CPU computes: answers, statistics, records, and what may go wrong. No speeds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checks import barriers, wait_until
from conftest import PAGES, SITE, opened, watched

from _ext.records import browser_digest
from _ext.sky import averages, fitted, settings, strength_of
from _ext.your_gpu import ON_YOUR_GPU
from firstlight.records.record import from_json
from firstlight.records.schema import problem

PAGE = SITE / "your_gpu.html"
BOARD = ".fl-gpu"
STATUS = "document.querySelector('.fl-gpu > [role=status]')?.textContent"
DONE = f"/^(Done|Stopped|It failed|This browser|This page)/.test({STATUS})"
PATIENT = "document.querySelector('.fl-gpu').dataset.seconds = 30"  # no busy machine cuts an experiment short
EVERYTHING = {"wins-add", "launches", "timing-wrong", "transfers", "coalescing", "shared-memory", "roofline"}


def press(page: Any, only: str = "") -> str:
    """Press the button, and wait for what is said at the end."""
    if only:
        page.evaluate("only => { document.querySelector('.fl-gpu').dataset.only = only }", only)
    page.locator(f"{BOARD} button").first.click()
    wait_until(page, DONE, timeout=60_000)
    return said(page)


def said(page: Any) -> str:
    return page.locator(f"{BOARD} > [role=status]").inner_text()


def fresh(browser: Any, *scripts: str, at: str = PAGE.as_uri(), **options: Any) -> Any:
    """The page, in a browser that something is wrong with."""
    context = browser.new_context(**options)
    for script in scripts:
        context.add_init_script(script)
    page = context.new_page()
    page.goto(at)
    page.evaluate(PATIENT)
    return page


@pytest.fixture(scope="module")
def done(browser: Any) -> Iterator[Any]:
    """The page after all experiments."""
    page = opened(browser, PAGE, accept_downloads=True)
    page.evaluate(PATIENT)
    press(page)
    yield page
    assert not page.problems
    page.context.close()


def record_of(page: Any) -> Any:
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the record").click()
    return json.loads(Path(download.value.path()).read_text(encoding="utf-8"))


def test_one_page_alone_has_the_button() -> None:
    button = re.compile(r"<button[^>]*>Measure my GPU</button>")
    assert [page for page in PAGES if button.search((SITE / page).read_text(encoding="utf-8"))] == ["your_gpu.html"]


def test_every_experiment_of_every_page_fills_its_table(done: Any) -> None:
    assert said(done).startswith("Done")
    assert "This is your CPU" in done.locator(BOARD).inner_text()
    names = {row["metadata"]["name"].partition("/")[0] for row in record_of(done)["benchmarks"]}
    assert names == EVERYTHING >= {name for names in ON_YOUR_GPU.values() for name in names.split()}
    assert done.locator(f"{BOARD} section").count() == done.locator(f"{BOARD} table").count() == len(EVERYTHING)
    assert done.locator(f"{BOARD} tbody tr").count() == len(record_of(done)["benchmarks"])
    assert all(done.locator(f"{BOARD} section > p").all_inner_texts())
    assert done.locator(f"{BOARD} svg").count() >= 4


def test_what_a_cpu_computed_is_a_record_in_all_but_that(done: Any) -> None:
    content = record_of(done)
    assert "software" in str(problem(content))
    content["metadata"]["software"] = False
    record = from_json(json.dumps(content))
    assert record.facts["code_sha256"] == browser_digest(SITE.parents[1])
    assert record.facts["machine"].startswith("webgpu-")
    assert record.timings["wins-add/x + y/webgpu/n=1000"].bytes == 12_000


def test_rates_are_kept_for_the_calculator(done: Any) -> None:
    """Rows without operations once made the best rate of arithmetic not a number, so that none was kept."""
    kept = done.evaluate("JSON.parse(localStorage.getItem('firstlight gpu'))")
    memory, arithmetic, float64, transfer = kept["rates"]
    assert min(memory, arithmetic, transfer) > 0
    assert float64 is None
    assert re.search(r"Memory .*B/s, float32 arithmetic .*FLOP/s", said(done))


def test_an_addition_that_was_cut_short_tells_no_rate_of_the_memory(browser: Any) -> None:
    """Ten numbers once gave 2 MB/s, in the first line and in the calculator."""
    page = fresh(browser)
    page.evaluate("document.querySelector('.fl-gpu').dataset.seconds = 0.01")
    assert "Memory" not in press(page)
    assert page.evaluate("localStorage.getItem('firstlight gpu')") is None
    page.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_results_have_no_barriers_and_fit(browser: Any, theme: str, width: int) -> None:
    page = fresh(browser, color_scheme=theme, viewport={"width": width, "height": 844})
    press(page, "launches coalescing")
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert not barriers(page, theme)
    page.context.close()


def test_statistics_on_a_clock_that_is_exact(done: Any) -> None:
    script = """async ([call, tick, most]) => {
        let now = 0, longest = 0;
        const run = async (blocks, calls) => { now += blocks * calls * call; longest = Math.max(longest, calls);
                                               return Array(blocks).fill(calls * call); };
        return { ...await firstlight.measure(run, { tick, seconds: 1, most, now: () => now }), longest };
    }"""
    found = done.evaluate(script, [1e-5, 1e-4, 2048])
    assert found["median"] == found["q25"] == found["q75"] == pytest.approx(1e-5)
    assert (found["verdict"], len(found["values"])) == ("ok", 9)
    assert found["longest"] * 1e-5 >= 20 * 1e-4
    assert done.evaluate(script, [1e-7, 1e-4, 16])["verdict"] == "coarse"
    assert done.evaluate(script, [0.4, 1e-4, 2048])["verdict"] == "few"  # the second is over
    summary = done.evaluate("firstlight.summary([3, 1, 2, 40, 2, 2, 3, 1, 2])")
    assert (summary["median"], summary["verdict"]) == (2, "noisy")


NO_GPU = {
    "has no WebGPU": "Object.defineProperty(Navigator.prototype, 'gpu', { get: () => undefined })",
    "offers no GPU": "GPU.prototype.requestAdapter = async () => null",
    "over plain http": "Object.defineProperty(globalThis, 'isSecureContext', { get: () => false })",
    "It failed: no device": "GPUAdapter.prototype.requestDevice = async () => { throw new Error('no device') }",
}


@pytest.mark.parametrize("words", NO_GPU)
def test_without_a_gpu_the_page_says_why_and_the_button_stays(browser: Any, words: str) -> None:
    page = fresh(browser, NO_GPU[words])
    assert words in press(page)
    assert page.locator(f"{BOARD} button").first.is_enabled()
    page.context.close()


CLOCKS = {
    "zero": "0n", "backwards": "1000000n - value", "of another unit": "value * 1000000n",
    "rounded": "value / 100000n * 100000n",
}  # fmt: skip


@pytest.mark.parametrize("clock", CLOCKS)
def test_timestamps_that_cannot_be_true_give_way_to_the_clock_on_the_wall(browser: Any, clock: str) -> None:
    script = f"""const own = GPUBuffer.prototype.getMappedRange;
    GPUBuffer.prototype.getMappedRange = function (...range) {{
        const found = own.apply(this, range);
        if (this.size !== 144) return found;
        const changed = new BigUint64Array(found.slice(0)).map((value) => {CLOCKS[clock]});
        return changed.buffer;
    }};"""
    page = fresh(browser, script, accept_downloads=True)
    assert press(page, "coalescing").startswith("Done: 7 rows"), page.locator(BOARD).inner_text()
    record = record_of(page)
    assert record["metadata"]["clock"] == ("GPU timestamps" if clock == "rounded" else "wall clock")
    assert all(value > 0 for row in record["benchmarks"] for value in row["runs"][0]["values"])
    page.context.close()


def test_a_clock_too_coarse_for_anything_gives_rows_and_no_rates(browser: Any) -> None:
    """A rate that nothing can be said of once stopped all experiments."""
    coarse = """GPUSupportedFeatures.prototype.has = () => false;
    const own = performance.now.bind(performance); performance.now = () => 100 * Math.floor(own() / 100);"""
    page = watched(browser.new_context())
    page.add_init_script(coarse)
    page.goto(PAGE.as_uri())
    page.evaluate(PATIENT)
    assert press(page, "transfers coalescing roofline wins-add").startswith("Done")
    assert not page.problems
    page.context.close()


STOPS = {
    "you pressed Stop": "document.querySelector('.fl-gpu button:nth-child(2)').click()",
    "the page was hidden": "Object.defineProperty(document, 'hidden', { get: () => true, configurable: true });"
                           "document.dispatchEvent(new Event('visibilitychange')); delete document.hidden",
    "the GPU was lost": "lost.destroy()",
}  # fmt: skip


@pytest.mark.parametrize("why", STOPS)
def test_it_stops_at_once_shows_what_it_has_and_starts_again(browser: Any, why: str) -> None:
    keep = (
        "const own = GPUAdapter.prototype.requestDevice; GPUAdapter.prototype.requestDevice = async function (...all) "
    )
    page = fresh(browser, keep + "{ return globalThis.lost = await own.apply(this, all); };")
    page.locator(f"{BOARD} button").first.click()
    wait_until(page, "document.querySelectorAll('.fl-gpu tbody tr').length > 1", timeout=30_000)
    page.evaluate(STOPS[why])
    wait_until(page, DONE, timeout=10_000)
    assert why in said(page)
    assert page.locator(f"{BOARD} tbody tr").count() > 1
    assert press(page, "launches").startswith("Done")
    page.context.close()


def test_what_is_computed_wrong_is_not_timed(browser: Any) -> None:
    wrong = """const own = GPUDevice.prototype.createShaderModule;
    GPUDevice.prototype.createShaderModule = function ({ code }) {
        return own.call(this, { code: code.replace("at += step", "at += 2u * step") });
    };"""
    page = fresh(browser, wrong)
    assert press(page, "coalescing launches").startswith("Done: 3 rows")
    assert "x[::stride]: number 0 is" in page.locator(f"{BOARD} > ul").inner_text()
    page.context.close()


def test_two_lines_of_one_point_each_make_no_figure(browser: Any) -> None:
    """Products of one size, by two kernels, were once drawn at x = NaN."""
    hurried = "const own = performance.now.bind(performance); performance.now = () => 1e4 * own()"
    page = watched(browser.new_context())
    page.add_init_script(hurried)
    page.goto(PAGE.as_uri())
    assert press(page, "shared-memory").startswith("Done: 2 rows")
    assert not page.locator(f"{BOARD} svg").count()
    assert not page.problems
    page.context.close()


def test_the_calculator_takes_the_rates_and_knows_what_was_not_measured(browser: Any) -> None:
    page = opened(browser, SITE / "tutorials/2_devices/11_when_the_gpu_wins.html")
    page.evaluate("""() => {
        localStorage.setItem("firstlight gpu", JSON.stringify({ name: "<b>X</b>", rates: [1e12, 1e13, null, 1e10] }));
        dispatchEvent(new Event("firstlight gpu"));
    }""")
    page.locator("[name=card]").select_option("yours: <b>X</b>, by WebGPU")
    assert "on the GPU and" in page.locator(".fl-wins [role=status]").inner_text()
    page.locator("[name=precision]").select_option("float64")
    assert "WebGPU has no float64" in page.locator(".fl-wins [role=status]").inner_text()
    assert not page.problems
    page.context.close()


# -- First light, live ---------------------------------------------------------------------------------------------


def test_the_fit_on_the_gpu_is_the_packages(done: Any) -> None:
    """The kernels against autograd in float64: the first slope, which Adam keeps a tenth of, and twelve steps."""
    cells, steps = averages(noise=1.0), 12
    weight, data = np.zeros((256, 256)), np.zeros((256, 256), complex)
    where = cells.mask[0].numpy()
    weight[where], data[where] = cells.weight_indexed, cells.vis_indexed
    strength = strength_of(cells, 8)
    found = done.evaluate(
        """async ({ weight, data, strength, steps, settings }) => {
            const arrays = { weight: new Float32Array(weight), data: new Float32Array(data) };
            const gpu = await firstlight.openGpu(), fit = await firstlight.prepare(gpu, { ...settings, ...arrays });
            fit.choose(strength);
            fit.begin();
            fit.steps(1);
            const slope = (await fit.read("means")).filter((_, i) => i % 4 === 0).map((mean) => 10 * mean);
            fit.steps(steps - 1);
            const image = await fit.read("image"), chi2 = await fit.reducedChi2(), dirty = await fit.dirty();
            return { slope: [...slope], image: [...image], chi2, dirty: [...dirty], errors: [...gpu.errors] };
        }""",
        {"weight": weight.ravel().tolist(), "data": data.ravel().view(float).tolist(), "strength": strength,
         "steps": steps, "settings": settings(cells)},
    )  # fmt: skip
    assert not found["errors"]
    slope, image, dirty = (np.reshape(found[name], (256, 256)) for name in ("slope", "image", "dirty"))
    path = list(fitted(cells, strength, steps, torch.float64))
    want = path[0].slope.numpy()
    assert abs(slope - want).max() < 1e-5 * abs(want).max()
    # Where a slope is all but zero, Adam makes a step of a rounding error: only nearly all pixels can agree.
    error = abs(image - path[-1].image.numpy()) / image.max()
    assert np.median(error) < 2e-5
    assert np.quantile(error, 0.99) < 1e-2
    assert found["chi2"] == pytest.approx(path[-1].chi2, rel=1e-3)
    want = np.fft.ifft2(weight * data).real
    assert abs(dirty / dirty.max() - want / want.max()).max() < 1e-5


def pixels(page: Any, which: int) -> list[int]:
    script = "(one) => [...one.getContext('2d').getImageData(0, 0, one.width, one.height).data]"
    return page.locator(f"{BOARD} canvas").nth(which).evaluate(script)


@pytest.fixture
def sky(browser: Any) -> Iterator[Any]:
    page = opened(browser, SITE / "index.html")
    assert not any(
        "sky.js" in address or "webgpu.js" in address for address in page.asked
    )  # before the button is pressed
    page.locator(f"{BOARD} button").first.click()
    wait_until(page, "document.querySelector('.fl-gpu .fl-small')?.textContent?.includes('step')", timeout=30_000)
    yield page
    assert not page.problems
    page.context.close()


def test_the_sky_sharpens_beside_the_truth_and_pauses(sky: Any) -> None:
    numbers = sky.locator(f"{BOARD} .fl-small")
    before = numbers.inner_text()
    wait_until(sky, "before => document.querySelector('.fl-gpu .fl-small')?.textContent !== before", arg=before)
    sky.get_by_text("Pause").click()
    assert all(len(set(pixels(sky, which))) > 50 for which in range(3))
    truth = np.array(pixels(sky, 2)).reshape(128, 128, 4)[..., 0]
    row, column = np.unravel_index(truth.argmax(), truth.shape)
    assert row > 64  # south of the middle
    assert column < 64  # and east, which is left
    sky.wait_for_timeout(300)
    still = numbers.inner_text()
    sky.wait_for_timeout(300)
    assert numbers.inner_text() == still
    sky.get_by_role("button", name="Go on").click()
    wait_until(sky, "still => document.querySelector('.fl-gpu .fl-small')?.textContent !== still", arg=still)
    sky.get_by_text("Start again").click()
    wait_until(sky, "/^step \\d,/.test(document.querySelector('.fl-gpu .fl-small')?.textContent)")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_live_sky_has_no_barriers_on_a_telephone(browser: Any, theme: str) -> None:
    page = opened(browser, SITE / "index.html", color_scheme=theme, viewport={"width": 390, "height": 844})
    page.locator(f"{BOARD} button").first.click()
    wait_until(page, "document.querySelector('.fl-gpu .fl-small')?.textContent?.includes('step')", timeout=30_000)
    page.get_by_text("Pause").click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert not barriers(page, theme)
    page.context.close()


def test_without_a_gpu_the_frames_of_the_build_play(browser: Any, address: str) -> None:
    page = fresh(browser, NO_GPU["offers no GPU"], at=f"{address}/index.html")
    page.locator(f"{BOARD} button").first.click()
    wait_until(page, "document.querySelector('.fl-gpu .fl-small')?.textContent?.startsWith('step 2,')")
    assert "These are frames of the same fit" in said(page)
    early = pixels(page, 1)
    wait_until(page, "document.querySelector('.fl-gpu .fl-small').textContent.startsWith('step 300')")
    assert len(set(pixels(page, 1))) > max(50, len(set(early)))
    page.context.close()
