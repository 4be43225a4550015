"""The page's check accepts what is right and tells what is wrong; what it claims without a clock is so."""

import subprocess
import sys
import textwrap
import time

import pytest
import torch
from pages import EXAMPLES, judged
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler
from torch.utils.flop_counter import FlopCounterMode

PAGE = "2_devices/17_training_a_cnn.py"


class ByHand:
    """A loader without PyTorch's."""

    def __init__(self, dataset, batch, reach=0, same=False):
        self.dataset, self.batch, self.reach = dataset, batch, reach
        self.order = torch.randperm(len(dataset)) if same else None

    def __len__(self):
        return len(self.dataset) // self.batch

    def __iter__(self):
        order = torch.randperm(len(self.dataset)) if self.order is None else self.order
        for first in range(0, len(self) * self.batch, self.batch):
            x, y = self.dataset[order[first : first + self.batch].numpy()]
            yield x, y.roll(self.reach)


def in_batches(dataset, batch, order=RandomSampler, drop_last=True, **options):
    rows = BatchSampler(order(dataset, **options), batch, drop_last=drop_last)
    return DataLoader(dataset, batch_size=None, sampler=rows)


WRONG = {
    "item by item": (lambda data, batch: DataLoader(data, batch, shuffle=True, drop_last=True), "asks the data set"),
    "in order": (lambda data, batch: in_batches(data, batch, SequentialSampler), "same order"),
    "shuffled once": (lambda data, batch: ByHand(data, batch, same=True), "same order"),
    "loaded beforehand": (lambda data, batch: list(in_batches(data, batch)), "same order"),
    "the rest, too": (lambda data, batch: in_batches(data, batch, drop_last=False), "len(loader)"),
    "drawn with replacement": (lambda data, batch: in_batches(data, batch, replacement=True), "different pictures"),
    "others' labels": (lambda data, batch: ByHand(data, batch, reach=1), "labels"),
    "one batch": (lambda data, batch: [data[list(range(batch))]] * (len(data) // batch), "different pictures"),
    "one epoch alone": (lambda data, batch: iter(in_batches(data, batch)), "0 different pictures"),
    "no length": (lambda data, batch: (each for each in in_batches(data, batch)), "no len()"),
    "the start": ("in_one_go", "NoneType"),
}


test_answers = judged(["in_one_go_solution", in_batches, ByHand], WRONG)


# -- The networks ------------------------------------------------------------------------------------------------------


def the_lesson_writes() -> nn.Sequential:
    """The layers of the lesson's network, in the order in which it lists them."""
    pool = nn.MaxPool2d(2, 2)
    first = [nn.Conv2d(3, 6, 5), nn.ReLU(), pool, nn.Conv2d(6, 16, 5, padding=3), nn.ReLU()]
    second = [nn.Conv2d(16, 16, 5), nn.ReLU(), pool, nn.Conv2d(16, 16, 3), nn.ReLU(), pool, nn.Flatten()]
    last = [nn.Linear(64, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    return nn.Sequential(*first, *second, *last)


def test_the_lesson_is_the_course_s(page) -> None:
    ours = page["cnn"](page["lesson"], 64)
    assert [str(layer) for layer in ours] == [str(layer) for layer in the_lesson_writes()]


def operations(page, name: str) -> tuple[int, int]:
    """The operations of a step, as PyTorch dispatches them, and the arithmetic of a picture."""

    class Calls(TorchDispatchMode):
        number = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            called = function.overloadpacket.__name__
            self.number += called not in {"t", "view", "detach"} and not called.startswith("_record")
            return function(*args, **(kwargs or {}))

    convolutions, flat, shape = page["nets"][name]
    step, one = page["make_step"](page["cnn"](convolutions, flat)), (torch.zeros(1, *shape), torch.zeros(1).long())
    step(*one)
    with Calls() as calls, FlopCounterMode(display=False) as flops:
        step(*one)
    return calls.number, flops.get_total_flops()


def test_the_networks_are_as_large_as_the_page_says(page) -> None:
    counted = {name: operations(page, name) for name in page["nets"]}
    assert [counted[name][0] for name in ("small", "lesson")] == [35, 45]
    assert 75 < counted["large"][1] / counted["lesson"][1] < 90, "80 times the arithmetic"
    for name, weights in {"small": 31_294, "lesson": 30_422, "large": 9_293_054}.items():
        convolutions, flat, _ = page["nets"][name]
        assert sum(weight.numel() for weight in page["cnn"](convolutions, flat).parameters()) == weights


def test_two_parts_tell_loading_from_training(page) -> None:
    steps = []

    class Loader(list):
        def __iter__(self):
            time.sleep(0.05)
            return super().__iter__()

    def step(x, y):
        steps.append((x, y))
        return torch.zeros(())

    load, compute = page["two_parts"](Loader([(1, 2), (3, 4)]), step)
    assert load >= 0.025 > compute
    assert set(steps) == {(3, 4)}  # the last batch, again and again
    assert len(steps) == 3


def test_a_bound_is_larger_where_less_is_loaded(page) -> None:
    assert page["gain_at_once"] > page["gain"] > 0


# -- The training ------------------------------------------------------------------------------------------------------


def test_what_the_page_says_of_the_scores(page) -> None:
    cnn = page["sweep"]["64"][3]
    sweep = {batch: (steps, right) for batch, (_, steps, _, right) in page["sweep"].items()}
    assert sweep["64"][1] == cnn
    few, enough = sweep["1024"], sweep["256, longer"]
    assert few[1] < sweep["256"][1] - page["uncertain"](few[1]) < cnn - 3 * page["uncertain"](few[1])
    assert abs(enough[0] - sweep["64"][0]) <= 3  # as many steps learn as well
    assert enough[1] > cnn - 2 * page["uncertain"](cnn)


def test_pictures_are_prepared_alike_one_by_one_and_at_once(page) -> None:
    one, many = page["prepare"](page["sky"][3]), page["prepare"](page["sky"][:5])
    assert one.shape == (3, 32, 32)
    assert torch.equal(one, many[3])
    assert many.abs().max() <= 1
    for loaded, at_once in zip(page["load_items"](7), page["load_at_once"](7), strict=True):
        assert torch.equal(loaded, at_once)


def test_pictures_are_prepared_as_by_to_tensor_and_normalize(page) -> None:
    to_tensor = torch.from_numpy(page["sky"][:5]).permute(0, 3, 1, 2) / 255
    torch.testing.assert_close(page["prepare"](page["sky"][:5]), (to_tensor - 0.5) / 0.5, rtol=0, atol=1e-6)


def test_train_and_eval_change_nothing_in_these_networks(page) -> None:
    model, x = page["cnn"](page["lesson"], 64), page["prepare"](page["sky"][:5])
    assert torch.equal(model.train()(x), model.eval()(x))
    with pytest.raises(RuntimeError, match="Long"):
        nn.functional.cross_entropy(model(x), torch.zeros(5, dtype=torch.float32))


# -- Where the time goes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("start", ["", "spawn"])
def test_the_script_with_workers_runs_however_they_are_started(start, tmp_path) -> None:
    source = (EXAMPLES / PAGE).read_text(encoding="utf-8")
    block = (
        source.partition("a whole script with one\n")[2]
        .partition("code-block:: python\n")[2]
        .partition("# When faster")[0]
    )
    script = textwrap.dedent("\n".join(line.removeprefix("#").removeprefix(" ") for line in block.splitlines()))
    head, guard, tail = script.partition('if __name__ == "__main__":\n')
    assert guard
    choose = f"    torch.multiprocessing.set_start_method({start!r})\n" if start else ""
    file = tmp_path / "loading.py"
    file.write_text(head + guard + choose + tail, encoding="utf-8")
    done = subprocess.run([sys.executable, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert len(printed) == 16  # 512 pictures in batches of 64, twice
    assert printed[-1] == "1 7 torch.Size([64, 3, 32, 32])"
