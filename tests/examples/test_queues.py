"""The page's check counts waits and compares; what the page says of the queue, the model and the lock holds."""

import math
import threading
import warnings
from time import monotonic

import pytest
import torch

PAGE = "2_devices/02_queues.py"


class Steps:
    """The steps of a loop: the number of each, its loss and its errors; ``gain`` is what they led to."""

    def __init__(self, step, gain, batches) -> None:
        self.step, self.gain, self.batches = step, gain, batches

    def __iter__(self):
        for number, batch in enumerate(self.batches, start=1):
            self.gain, error = self.step(self.gain, batch)
            yield number, (error**2).mean(), error


# -- Right answers -----------------------------------------------------------------------------------------------------


def all_losses(*task):
    losses = []
    for _, loss, _ in (steps := Steps(*task)):
        losses.append(loss.detach())
    values = torch.stack(losses).tolist()
    return steps.gain, min(values), [(n, v) for n, v in enumerate(values, start=1) if n % 10 == 0]


def over_with_cpu(*task, bring=lambda losses: losses.cpu(), **where):
    losses = torch.full((len(task[2]),), math.inf, **(where or {"device": task[1].device}))
    for number, loss, _ in (steps := Steps(*task)):
        losses[number - 1] = loss
    here = bring(losses)
    log = [(number, float(value)) for number, value in enumerate(here, start=1) if number % 10 == 0]
    return steps.gain, here.min().item() if isinstance(here, torch.Tensor) else min(here.tolist()), log


def over_with_to(*task):
    return over_with_cpu(*task, bring=lambda losses: losses.to(device="cpu").numpy())


def running_lists(*task):
    best, numbers, kept = torch.tensor(math.inf), [], []
    for number, loss, _ in (steps := Steps(*task)):
        best = torch.where(loss < best, loss, best)
        if number % 10 == 0:
            numbers.append(number)
            kept.append(loss)
    best, *values = torch.stack([best, *kept]).cpu().numpy().astype(float).tolist()
    return steps.gain, best, [*zip(numbers, values, strict=True)]


@pytest.mark.parametrize("answer", [all_losses, over_with_cpu, over_with_to, running_lists])
def test_right_answers(page, answer) -> None:
    assert page["check"](answer).startswith("Right")


def test_the_solution_is_right_and_the_start_waits_in_three_ways(page) -> None:
    assert page["check"](page["fit_and_log_solution"]).startswith("Right")
    said = page["check"](page["fit_and_log"])
    assert all(name in said for name in ("waits", "__bool__", "__float__", "item"))


# -- Wrong answers -----------------------------------------------------------------------------------------------------


def spoil(change):
    """An answer that is right but for one thing."""
    return lambda *task: change(*all_losses(*task))


def waits_in_an_if(*task):
    best, kept = None, []
    for number, loss, _ in (steps := Steps(*task)):
        best = loss if best is None or loss < best else best
        if number % 10 == 0:
            kept.append(loss)
    best, *values = torch.stack([best, *kept]).tolist()
    return steps.gain, best, [(10 * i, v) for i, v in enumerate(values, start=1)]


def waits_when_it_logs(*task):
    best, log = None, []
    for number, loss, _ in (steps := Steps(*task)):
        best = loss if best is None else torch.minimum(best, loss)
        if number % 10 == 0:
            log.append((number, loss.item()))
    return steps.gain, best.item(), log


def with_pythons_min(*task):
    losses = []
    for _, loss, _ in (steps := Steps(*task)):
        losses.append(loss)
    return steps.gain, float(min(losses)), [(n, float(losses[n - 1])) for n in range(10, len(losses) + 1, 10)]


def keeps_what_grows(*task, make=lambda error: error):
    kept = []
    for _, _, error in (steps := Steps(*task)):
        kept.append(make(error))
    errors = torch.stack(kept)
    values = (errors**2 if make(2) == 2 else errors).mean(dim=1).tolist()
    return steps.gain, min(values), [(n, v) for n, v in enumerate(values, start=1) if n % 10 == 0]


def keeps_squares(*task):
    return keeps_what_grows(*task, make=lambda error: error**2)


def one_place_for_all(*task):
    latest, best, numbers = torch.zeros(()), torch.tensor(math.inf), []
    for number, loss, _ in (steps := Steps(*task)):
        latest.copy_(loss)
        best = torch.minimum(best, loss)
        if number % 10 == 0:
            numbers.append((number, latest))
    best, *values = torch.stack([best, *(value for _, value in numbers)]).tolist()
    return steps.gain, best, [(n, v) for (n, _), v in zip(numbers, values, strict=True)]


def logs_the_wrong_step(*task):
    gain, best, log = all_losses(*task)
    return gain, best, [(number - 1, loss) for number, loss in log]


def counts_from_zero(step, gain, batches):
    numbers, losses = [], []
    for number, batch in enumerate(batches):
        gain, error = step(gain, batch)
        losses.append((error**2).mean())
        if number % 10 == 0:
            numbers.append(number)
    values = torch.stack(losses).tolist()
    return gain, min(values), [(n, values[n]) for n in numbers]


def fails_without_a_log(*task):
    kept, best = [], torch.tensor(math.inf)
    for number, loss, _ in (steps := Steps(*task)):
        best = torch.minimum(best, loss)
        kept += [loss] if number % 10 == 0 else []
    both = torch.cat([torch.stack(kept), best[None]]).tolist()
    return steps.gain, both[-1], [(10 * i, v) for i, v in enumerate(both[:-1], start=1)]


def writes_to_the_host(*task):
    return over_with_cpu(*task, dtype=torch.float32)


def builds_a_tensor_of_tensors(*task):
    steps = Steps(*task)
    losses = [loss for _, loss, _ in steps]
    values = [torch.tensor([loss, loss]).min().item() for loss in losses]
    return steps.gain, min(values), [(n, v) for n, v in enumerate(values, start=1) if n % 10 == 0]


WRONG = {
    "writes to the host": (writes_to_the_host, "waits 37 times, by __setitem__"),
    "a tensor of tensors": (builds_a_tensor_of_tensors, "waits 37 times, by tensor"),
    "an if": (waits_in_an_if, "__bool__"),
    "waits when it logs": (waits_when_it_logs, "waits 4 times, by item"),
    "python's min": (with_pythons_min, "__bool__"),
    "keeps errors": (keeps_what_grows, "large results"),
    "keeps squares": (keeps_squares, "large results"),
    "drops the log": (spoil(lambda gain, best, _: (gain, best, [])), "has the steps []"),
    "logs the wrong step": (logs_the_wrong_step, "has the steps [9, 19, 29]"),
    "counts from zero": (counts_from_zero, "has the steps [0, 10, 20, 30]"),
    "one place for all": (one_place_for_all, "the loss of step 10 is"),
    "logs the next loss": (
        lambda *task: logs_another(*task, shift=1),
        "the loss of step 10 is",
    ),
    "logs tensors": (
        spoil(lambda gain, best, log: (gain, best, [(n, torch.tensor(v)) for n, v in log])),
        "no number of Python",
    ),
    "best stays a tensor": (spoil(lambda gain, best, log: (gain, torch.tensor(best), log)), "best is no number"),
    "the last is the best": (spoil(lambda gain, best, log: (gain, best + 1, log)), "best is"),
    "does half the steps": (lambda step, gain, batches: all_losses(step, gain, batches[::2]), "Do every step"),
    "forgets to return": (lambda *_: None, "three things"),
    "fails without a log": (fails_without_a_log, "With 9 steps, it raised RuntimeError"),
    "raises": (lambda *_: 1 / 0, "ZeroDivisionError"),
    "other arguments": (lambda gain: gain, "TypeError"),
    "no function": (3.7, "TypeError"),
}


def logs_another(*task, shift):
    losses = []
    for _, loss, _ in (steps := Steps(*task)):
        losses.append(loss)
    values = torch.stack(losses).tolist()
    there = range(10, len(values) + 1, 10)
    return steps.gain, min(values), [(n, values[min(n - 1 + shift, len(values) - 1)]) for n in there]


@pytest.mark.parametrize(("answer", "hint"), WRONG.values(), ids=WRONG)
def test_wrong_answers_are_told_why(page, answer, hint) -> None:
    said = page["check"](answer)
    assert said.startswith("Not yet.")
    assert hint in said


# -- What the page says ------------------------------------------------------------------------------------------------


def test_what_came_over_is_no_wait_any_more(page) -> None:
    there = torch.arange(4.0)
    with page["Waits"]() as waits:
        here = there.cpu()
        [float(value) for value in here]
        here[1:].max().item()
        there[1:].max().item()
        torch.ones(3).sum().item()
        torch.ones(3, device=there.device).sum().item()
    assert waits.calls == ["cpu", "item", "item"]


def test_lines_wait_where_python_needs_a_number(page) -> None:
    waiting, lines = page["waiting"], page["lines"]
    assert {"x[0].item()", "float(x[0])", "str(x)", "x.cpu()", "x[mask]", "torch.nonzero(mask)"} <= {*waiting}
    assert {"x + 1", "x.sum()", "torch.where(mask, x, 0.0)", "torch.maximum(x[0], x[1])"} <= {*lines} - {*waiting}
    names = page["names_on"]("cpu")
    for line in lines:
        eval(line, names)  # each is a line that works where there are numbers


def test_warnings_of_the_gpu_are_collected_and_the_mode_is_put_back(page, monkeypatch) -> None:
    modes = []

    def set_mode(mode):
        modes.append(mode)
        if mode == "warn":
            warnings.warn("Synchronization debug mode is a prototype", stacklevel=2)

    def synchronizing():
        warnings.warn("a synchronizing operation", stacklevel=2)

    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", set_mode)
    monkeypatch.setattr(torch, "wait_for_me", synchronizing, raising=False)
    assert page["sync_warnings"]("x + 1") == []
    assert page["sync_warnings"]("torch.wait_for_me()") == ["a synchronizing operation"]
    with pytest.raises(NameError):
        page["sync_warnings"]("nothing_of_this_name")
    assert modes == ["warn", "default"] * 3


def test_the_model_goes_from_taking_turns_to_the_longer_of_the_two(page) -> None:
    predict, h, d = page["predict"], page["h"], page["d"]
    assert predict(1) == pytest.approx(h + d)
    assert predict(10**9) == pytest.approx(max(h, d))
    assert predict(10) - max(h, d) == pytest.approx((predict(1) - max(h, d)) / 10)


def test_rows_say_whether_a_toy_or_a_gpu_was_timed(page) -> None:
    labels = [timing.label for timing in page["bench"].timings]
    assert labels[-1] == "torch, add one number"
    assert all(label.startswith(f"{page['where']}, ") for label in labels[:-1])
    assert {f"{page['where']}, read each step", f"{page['where']}, read at the end"} <= {*labels}  # used in prose


@pytest.mark.parametrize("place", ["OnToy", "OnGpu"])
@pytest.mark.parametrize("every", [1, 3, 12])
def test_how_often_one_looks_changes_nothing(page, place, every) -> None:
    torch.manual_seed(1)
    there = page[place](101)
    assert page["fit"](there, every, steps=12) == page["fit"](there, 1, steps=12)[every - 1 :: every]


def test_the_lanes_show_a_wait_for_each_reading(page) -> None:
    waits = [sum(span.label == "wait" for span in spans) for spans in page["runs"].values()]
    assert waits == [8, 1]
    for spans in page["runs"].values():
        assert [span.label for span in spans if span.lane == "queue"] == [*map(str, range(1, 9))]
        assert 0 < page["idle"](spans) < 1


def test_a_thread_that_reads_leaves_the_others_running(page) -> None:
    """The read ends only when the other thread has done five jobs in the meantime: with a kept lock it never would."""
    second, stream, gave_up = page["second"], page["stream"], threading.Event()
    before = len(second.spans)

    def until_others_worked():
        end = monotonic() + 30
        while len([span for span in second.spans[before:] if span.lane == second.name]) < 5:
            if monotonic() > end:
                gave_up.set()
                return

    _, jobs, _ = page["others_while"](lambda: stream.launch(until_others_worked).item())
    assert not gave_up.is_set()
    assert jobs >= 4


def test_errors_come_out_at_the_reading_or_at_the_launch_if_each_launch_waits(page) -> None:
    assert page["where_it_fails"](blocking=False).startswith("when the result of 'add' was read")
    assert page["where_it_fails"](blocking=True).startswith("at the launch of 'invert'")


def test_an_event_keeps_two_queues_in_order(page) -> None:
    assert all(page["total"](wait_for_it=True) == 1000 for _ in range(5))


def test_the_figures_say_what_they_show(page) -> None:
    assert "times as high as the curve" in page["fig"].get_label()
