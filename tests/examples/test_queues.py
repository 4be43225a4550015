"""The page's check finds lines that wait; what the page says of the stream, the model and the lock holds."""

import math
import threading

import pytest
import torch
from pages import judged

PAGE = "2_devices/06_queues.py"


class Steps:
    """The steps of a loop: the number of each and its loss; ``gain`` is what they led to."""

    def __init__(self, step, gain, batches) -> None:
        self.step, self.gain, self.batches = step, gain, batches

    def __iter__(self):
        for number, batch in enumerate(self.batches, start=1):
            self.gain, loss = self.step(self.gain, batch)
            yield number, loss


# -- Right answers -----------------------------------------------------------------------------------------------------


def all_losses(*task):
    steps = Steps(*task)
    losses = torch.stack([loss.detach() for _, loss in steps])
    return steps.gain, losses.amin(), losses[9::10]


def into_a_tensor(*task, device=None):
    losses = torch.full((len(task[2]),), math.inf, device=device or task[1].device)
    for number, loss in (steps := Steps(*task)):
        losses[number - 1] = loss
    return steps.gain, losses.min(), losses[9::10]


# -- Wrong answers -----------------------------------------------------------------------------------------------------


def spoil(change):
    """An answer that is right but for one thing."""
    return lambda *task: change(*all_losses(*task))


def waits_in_an_if(*task):
    best, losses = None, []
    for _, loss in (steps := Steps(*task)):
        best = loss if best is None or loss < best else best
        losses.append(loss)
    return steps.gain, best, torch.stack(losses)[9::10]


def reads_what_it_logs(*task):
    log = [loss.item() for number, loss in Steps(*task) if number % 10 == 0]
    return *all_losses(*task)[:2], torch.tensor(log)


def prints_the_loss(*task):
    for _, loss in Steps(*task):
        f"{loss:.3f}"
    return all_losses(*task)


def fails_without_a_log(*task):
    gain, best, _ = all_losses(*task)
    return gain, best, torch.stack([loss for number, loss in Steps(*task) if number % 10 == 0])


def all_of_them(change, join=torch.stack):
    """Other entries of the list of all losses."""

    def answer(*task):
        steps = Steps(*task)
        losses = join([loss for _, loss in steps])
        return change(steps.gain, losses)

    return answer


def best_and_log(gain, losses):
    return gain, losses.min(), losses[9::10]


WRONG = {
    "waits in an if": (waits_in_an_if, "waits"),
    "reads what it logs": (reads_what_it_logs, "waits"),
    "a tensor of tensors": (all_of_them(best_and_log, torch.tensor), "waits"),
    "formats the loss": (prints_the_loss, "waits"),
    "brings it over": (spoil(lambda gain, best, log: (gain, best, log.cpu())), "waits"),
    "writes to the host": (lambda *task: into_a_tensor(*task, device="cpu"), "waits"),
    "python's min": (all_of_them(lambda gain, losses: (gain, min(losses), losses[9::10])), "waits"),
    "drops the log": (spoil(lambda gain, best, log: (gain, best, log[:0])), "log is []"),
    "counts from zero": (all_of_them(lambda gain, losses: (gain, losses.min(), losses[::10])), "log is ["),
    "logs the next": (all_of_them(lambda gain, losses: (gain, losses.min(), losses[10::10])), "log is ["),
    "one place for all": (all_of_them(best_and_log, lambda losses: losses[-1].expand(len(losses))), "best is"),
    "the last is the best": (all_of_them(lambda gain, losses: (gain, losses[-1], losses[9::10])), "best is"),
    "the best of the log": (spoil(lambda gain, _, log: (gain, log.min(), log)), "best is"),
    "the largest": (all_of_them(lambda gain, losses: (gain, losses.max(), losses[9::10])), "best is"),
    "a list": (spoil(lambda gain, best, log: (gain, best, list(log))), "log is a list"),
    "a number": (spoil(lambda gain, best, log: (gain, best.item(), log)), "best is a float"),
    "does half the steps": (lambda step, gain, batches: all_losses(step, gain, batches[::2]), "gain is"),
    "fails without a log": (fails_without_a_log, "9 steps, it raised"),
    "the start": ("fit_and_wait", "waits"),
}


test_answers = judged(["fit_and_log_solution", all_losses, into_a_tensor], WRONG)


# -- What the page says ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("every", [1, 3, 12])
def test_how_often_one_looks_changes_nothing(page, on_gpu, every) -> None:
    there = page["Experiment"](101, on_gpu)
    assert page["fit"](there, every, steps=12) == page["fit"](there, 1, steps=12)[every - 1 :: every]


def test_the_model_of_both_ways_takes_what_the_formula_says(page) -> None:
    read_each, read_at_the_end = page["ends"]
    assert read_each == 6 * (2 + 3)
    assert read_at_the_end == 6 * 3 + 2


def test_the_toy_sleeps_what_is_left_of_its_pace(page, monkeypatch) -> None:
    slept, clock = [], iter([0.0, 0.005])
    inside = page["Experiment"].paced.__globals__
    place = page["Experiment"](101, on_gpu=False, pace=0.02)
    monkeypatch.setitem(inside, "perf_counter", lambda: next(clock))
    monkeypatch.setitem(inside, "sleep", slept.append)
    gain = place.paced(1.0, place.light, 1.0)
    assert slept == [pytest.approx(0.015)]
    assert gain == page["update"](1.0, place.light, 1.0)


def test_the_price_of_reading_is_the_shorter_of_the_two(page) -> None:
    predict, both = page["predict"], (page["h"], page["d"])
    assert predict(1) == pytest.approx(sum(both))
    assert predict(10) - max(both) == pytest.approx(min(both) / 10)


def test_a_thread_that_reads_leaves_the_others_running(page, monkeypatch) -> None:
    """The read ends when the other thread has asked for five jobs in the meantime: with a kept lock it never would."""
    stream, launched, five = page["stream"], [], threading.Event()

    def launch(*job):
        launched.append(job)
        if len(launched) == 5:
            five.set()
        return stream.launch.__func__(page["second"], *job)

    monkeypatch.setattr(page["second"], "launch", launch)
    page["others_while"](lambda: stream.launch(five.wait, 60).item())
    assert five.is_set()
