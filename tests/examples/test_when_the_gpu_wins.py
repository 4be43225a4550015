"""The page's check accepts what is right and tells what is wrong; its jobs, model and crossings are what it says."""

import math

import numpy as np
import pytest
import torch
from pages import judged
from samples import recorded
from torch.utils._python_dispatch import TorchDispatchMode

PAGE = "2_devices/11_when_the_gpu_wins.py"
FIVE = "add", "matrix × vector", "matrix × matrix", "stack", "sampler"
RULE = ["150,000", "4,400", "210", "120", "2,200"], ["never", "never", "700", "never", "2,200"]
CPU, GPU, PCIE, CALL = (5e10, 5e11), (5e11, 1e13), 2.5e10, 5e-6


def work(moved, intensity, rates):
    return moved * max(1 / rates[0], intensity / rates[1])


def by_cases(calls, moved, intensity, sent, uses):
    cpu = moved / CPU[0] if intensity < 10 else moved * intensity / CPU[1]
    gpu = moved / GPU[0] if intensity < 20 else moved * intensity / GPU[1]
    return np.bool_(uses * (calls * CALL + gpu) + sent / PCIE < uses * cpu)


def as_a_ratio(n, b, i, s, k):
    return work(b, i, CPU) / (n * CALL + s / PCIE / k + work(b, i, GPU)) > 1


def variant(
    cpu=lambda b, i: work(b, i, CPU),
    gpu=lambda b, i: work(b, i, GPU),
    transfer=lambda s, k: s / PCIE / k,
    launch=lambda n, k: n,
):
    """The rule with something else in place of one of its terms."""
    return lambda n, b, i, s, k: cpu(b, i) > launch(n, k) * CALL + transfer(s, k) + gpu(b, i)


WRONG = {
    "the transfer is free": (variant(transfer=lambda s, k: 0), "transfer takes longer"),
    "a transfer for each use": (variant(transfer=lambda s, k: s / PCIE), "one transfer"),
    "more transfers, not fewer": (variant(transfer=lambda s, k: k * s / PCIE), "one transfer"),
    "calls are free": (variant(launch=lambda n, k: 0), "CALL"),
    "one call": (variant(launch=lambda n, k: 1), "every call"),
    "bytes alone": (variant(lambda b, i: b / CPU[0], lambda b, i: b / GPU[0]), "arithmetic"),
    "arithmetic alone": (variant(lambda b, i: b * i / CPU[1], lambda b, i: b * i / GPU[1]), "one transfer"),
    "in turn": (variant(lambda b, i: b / CPU[0] + b * i / CPU[1], lambda b, i: b / GPU[0] + b * i / GPU[1]), "sum"),
    "a GPU takes no time": (variant(gpu=lambda b, i: 0), "own work"),
    "calls are shared": (variant(launch=lambda n, k: n / k), "share the transfer"),
    "the other way round": (lambda *numbers: not by_cases(*numbers), "transfer takes longer"),
    "always": (lambda *_: True, "transfer takes longer"),
    "never": (lambda *_: False, "one transfer"),
    "a ratio": (lambda n, b, i, s, k: work(b, i, CPU) / work(b, i, GPU), "True or False"),
    "a text": (lambda *_: "GPU", "True or False"),
    "the start": ("gpu_wins", "None"),
}


test_answers = judged(["gpu_wins_solution", variant(), by_cases, as_a_ratio], WRONG)


def test_the_jobs_count_what_the_arrays_hold(page) -> None:
    for name in ("add", "matrix × vector", "matrix × matrix", "stack"):
        job = page["jobs"][name](101)
        run, inputs = page["makers"][name](101, device="cpu", dtype=torch.float32)
        held = sum(x.numel() * x.element_size() for x in (*inputs, run(*inputs)))
        assert job.moved == job.sent == held, name
        assert job.calls == 1
    job, (flowers, kinds) = page["jobs"]["network"](8), page["train_set"]
    assert job.sent == 4 * flowers.numel() + 8 * kinds.numel() + 4
    weights = sum(weight.numel() for weight in page["Training"](8).net.parameters())
    assert job.operations == 6 * 120 * weights
    assert job.moved == 4 * 10 * weights


def test_the_sampler_counts_what_its_operations_read_and_write(page) -> None:
    class Moved(TorchDispatchMode):
        calls = numbers = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if function.overloadpacket.__name__ not in page["views"] | {"slice", "unsqueeze", "unbind"}:
                self.calls += 1
                self.numbers += sum(x.numel() for x in (*args, result) if torch.is_tensor(x))
            return result

    job, (run, inputs) = page["jobs"]["sampler"](1000), page["makers"]["sampler"](1000)
    with Moved() as moved:
        result = run(*inputs)
    assert moved.calls == job.calls
    assert 4 * moved.numbers == pytest.approx(job.moved, rel=1e-3)
    assert job.operations == job.calls * 64 * 1000
    assert job.sent == 4 * sum(x.numel() for x in (*inputs, result))


def test_the_model_shares_the_transfer_and_takes_the_slower_of_memory_and_arithmetic(page) -> None:
    job, card = page["Job"](sent=10e9, moved=1.008e12, operations=0, calls=3), "RTX 4090"
    assert page["on_gpu"](job, card) == pytest.approx((24e-6, 1 + 9e-6, 1))
    assert page["on_gpu"](job, card, uses=10)[1] == pytest.approx(0.1, rel=1e-3)
    assert page["on_gpu"](job._replace(operations=165.2e12), card)[2] == pytest.approx(2)
    assert page["on_gpu"](job._replace(operations=1.290625e12 * 4), card, precision="fp64")[2] == pytest.approx(4)


def test_a_step_of_the_tiny_network_can_gain_nothing(page) -> None:
    assert page["model"]("network", 8, stay=True) > page["curve"]("network", "CPU")[0]


def test_the_cpus_have_the_rates_of_their_makers(page) -> None:
    assert page["DESKTOP"] == pytest.approx((83.2e9, 1.152e12))
    assert page["LAPTOP"] == pytest.approx((51.2e9, 486.4e9))
    assert page["SERVER"] == pytest.approx((204.8e9, 5.0176e12))
    job = page["Job"](sent=0, moved=83.2e9, operations=2.304e12)
    assert page["on_cpu"](job, page["DESKTOP"]) == pytest.approx(2)
    assert page["on_cpu"](job, page["DESKTOP"], "fp64") == pytest.approx(4)


def test_what_the_text_says_of_the_model_holds(page) -> None:
    jobs, typical, desktop = page["jobs"], page["typical"], page["DESKTOP"]
    sent, stay = ({job: page["gain"](jobs[job[0]](job[1]), desktop, s) for job in typical} for s in (False, True))
    product = ("matrix × matrix", 10_000)
    assert [job for job in typical if sent[job] > 10] == [job for job in typical if sent[job] > 1] == [product]
    losing = {("add", 10_000), ("sampler", 1000)}
    assert {job for job in typical if stay[job] < 2} == losing
    for cpu in (page["LAPTOP"], desktop, page["SERVER"]):
        assert {job for job in typical if page["uses_for_two"](jobs[job[0]](job[1]), cpu) == math.inf} == losing
        for name in ("add", "matrix × vector", "stack"):
            assert page["predicted"](name, cpu, False, card="RTX 4090") == math.inf
    recorded = page["Rates"](100.6e9, 1.112e12)  # the roof of the CPU beside the H100
    rule = [[page["written"](page["predicted"](name, recorded, stay)) for name in FIVE] for stay in (True, False)]
    assert rule == [*RULE]


def test_a_training_step_is_many_calls_and_each_counts_once(page) -> None:
    assert 15 <= page["calls"].number <= 60
    with page["Calls"]() as calls:
        x = torch.ones(3)
        x.view(3, 1).t().add(1)
    assert calls.number == 2


def test_a_crossing_is_where_two_lines_cross_or_nowhere_or_before_all_sizes(page) -> None:
    for crosses in (12.0, 1e3, 7e4):
        sizes = np.array([10, 100, 1000, 10_000, 100_000])
        assert page["crossing"](sizes, sizes / 1e9, np.full(5, crosses / 1e9)) == pytest.approx(crosses)
    sizes, ones = [10, 100, 1000], np.ones(3)
    assert page["crossing"](sizes, ones, 2 * ones) == math.inf
    assert page["crossing"](sizes, ones, ones) == math.inf
    assert page["crossing"](sizes, ones, 0.5 * ones) == 10
    # A win that does not last is none.
    assert page["crossing"](sizes, ones, np.array([0.5, 2.0, 2.0])) == math.inf
    assert 100 < page["crossing"](sizes, ones, np.array([0.5, 2.0, 0.5])) < 1000


def test_the_network_learns_the_flowers(page) -> None:
    (learn, kinds), (test, test_kinds) = page["train_set"], page["test_set"]
    training = page["Training"](8)
    losses = [training(learn, kinds).item() for _ in range(100)]
    assert losses[-1] < 0.2 * losses[0]
    with torch.no_grad():
        assert (training.net(test).argmax(1) == test_kinds).sum() >= 25


def test_the_h100_did_what_the_text_says_of_it(page) -> None:
    timings = recorded(PAGE).timings

    def first_win(bench, way):
        rows = [row for name, row in timings.items() if name.startswith(f"wins-{bench}/")]
        cpu, gpu = (
            {
                row.n: row.median
                for row in rows
                if row.label == label and f"{row.n} of {bench}" != "1000 of matrix-vector"
            }
            for label in ("CPU", way)
        )
        sizes = sorted(cpu)
        fine = np.geomspace(sizes[0], sizes[-1], 200)
        known = [np.exp(np.interp(np.log(fine), np.log(sizes), np.log([of[n] for n in sizes]))) for of in (cpu, gpu)]
        return page["written"](page["crossing"](fine, *known))

    benches = [name.replace(" × ", "-") for name in FIVE]
    found = [[first_win(bench, way) for bench in benches] for way in ("GPU", "GPU, there and back")]
    careful = [
        float(rule.replace(",", "")) / float(met.replace(",", "")) for rule, met in zip(RULE[0], found[0], strict=True)
    ]
    assert min(careful) > 1.9
    assert max(careful) < 7
    small, large = (timings[f"wins-network/GPU/cuda:0/n={n}"].median for n in (8, 4096))
    assert large / small == pytest.approx(1.5, rel=0.1)
    assert timings["wins-network/CPU/cpu/n=8"].median < small
    launches = page["calls"].number * page["LAUNCH"]
    assert small / launches == pytest.approx(5, rel=0.1)


def test_one_row_of_the_record_is_what_nobody_should_believe() -> None:
    """The text tells of it; where a new record has no such row, that paragraph goes, and the size comes back."""
    timings = recorded(PAGE).timings
    odd, next_one = (timings[f"wins-matrix-vector/CPU/cpu/n={n}"] for n in (1000, 10_000))
    assert odd.median > 100 * next_one.median
    assert len(odd.values) == 9
    assert odd.relative_iqr < 0.01
    assert odd.median / timings["wins-matrix-vector/GPU/cuda:0/n=1000"].median > 600
