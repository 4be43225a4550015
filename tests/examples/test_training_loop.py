"""What the page says of a training loop holds; its check tells right answers from wrong ones."""

import torch
from pages import judged
from torch import nn
from torch.nn.functional import cross_entropy
from variants import edited

PAGE = "2_devices/02_training_loop.py"


def loop(model, batches, device):
    model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        loss = cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def one_by_one(model, batches, device):
    model = model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x, y in batches:
        loss = nn.CrossEntropyLoss()(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


MOVE, MAKE = "model.to(device).train()", "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
BOTH, ALL = "x, y = x.to(device), y.to(device)", "torch.stack(losses)"
WRONG = {
    "the model stays": (edited(loop, ("model.to(device)", "model")), "model stayed"),
    "the batch stays": (edited(loop, (BOTH, "pass")), "batch stayed"),
    "the labels stay": (edited(loop, (", y.to(device)", ", y")), "labels stayed"),
    "the moved batch is dropped": (edited(loop, (BOTH, "x.to(device), y.to(device)")), "batch stayed"),
    "still in eval mode": (edited(loop, (".train()", "")), "train()"),
    "gradients add up": (edited(loop, ("optimizer.zero_grad()", "pass")), "cleared"),
    "no step": (edited(loop, ("optimizer.step()", "pass")), "have not changed"),
    "a tensor": (edited(loop, (".tolist()", "")), "not a list"),
    "the mean": (edited(loop, (f"{ALL}.tolist()", f"{ALL}.mean().item()")), "not a list"),
    "the last": (edited(loop, (ALL, f"{ALL}[-1:]")), "one for each batch"),
    "another rate": (edited(loop, ("0.1", "0.01")), "differ"),
    "twice": (edited(loop, ("in batches", "in batches * 2")), "6 batches"),
    "the optimizer too early": (edited(loop, (f"{MOVE}\n    {MAKE}", f"{MAKE}\n    {MOVE}")), "optimizer"),
    "the start": ("train_anywhere", "0 batches"),
}

test_answers = judged(["train_anywhere_solution", one_by_one, loop], WRONG)


def test_the_network_finds_out_its_input(page) -> None:
    for colours, side, numbers in ((1, 8, 128), (3, 32, 2048)):
        model = page["CNN"](colours)
        model(torch.zeros(1, colours, side, side))
        assert model.decide[0].in_features == numbers
    assert sum(p.numel() for p in page["new_model"]().parameters()) == 31_294


def test_the_loop_learns_and_fewer_steps_learn_less(page) -> None:
    assert page["losses"][-1] < 0.5 * page["losses"][0]
    rights = [right for *_, right in page["rows"]]
    assert rights == sorted(rights, reverse=True)
    assert rights[0] > 0.85


def test_in_one_go_every_picture_comes_once_with_its_label(page) -> None:
    def seen(batches):
        return sorted((y.item(), *x.flatten().tolist()) for xs, ys in batches for x, y in zip(xs, ys, strict=True))

    assert seen(page["in_one_go"]()) == seen(page["one_by_one"]())


def test_with_an_old_optimizer_nothing_is_learned(page) -> None:
    assert min(page["stuck"]) > 0.95 * page["stuck"][0]
    assert page["moved"][-1] < 0.5 * page["moved"][0]


def test_a_checkpoint_brings_back_everything(page, tmp_path) -> None:
    model, loader, optimizer = page["start"](batch=64)
    page["train"](model, loader, optimizer, epochs=1)
    page["save"](tmp_path / "file.pt", 1, model, optimizer)
    again, _, other = page["start"](batch=64)
    assert page["load"](tmp_path / "file.pt", again, other) == 1
    runs = []
    for net, steps in ((model, optimizer), (again, other)):
        torch.manual_seed(5)
        runs.append(page["train"](net, loader, steps, epochs=1))
    assert runs[0] == runs[1]


def test_a_trainer_moves_both(page) -> None:
    trainer = page["Trainer"](torch.device("meta"))
    trainer.prepare_model(nn.Linear(2, 2))
    assert trainer.model.weight.is_meta
    assert trainer.optimizer.param_groups[0]["params"][0] is trainer.model.weight
    assert all(part.is_meta for part in trainer.prepare_batch((torch.zeros(3, 2), torch.zeros(3))))
