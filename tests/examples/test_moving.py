"""What the page says of moves holds, and its check accepts what is right and tells what is wrong."""

import re
from textwrap import dedent

import numpy as np
import pytest
import torch
from pages import EXAMPLES, judged

PAGE = "2_devices/01_moving.py"


def from_a_list(x):
    return np.array(x.tolist(), dtype=np.float64)


def numpy_copies(x):
    return x.detach().cpu().double().numpy().copy()


def to_float32(x):
    return x.detach().cpu().float().numpy().copy()


def shares_float64(x):
    return x.detach().cpu().double().numpy()


def without_detach(x):
    return x.cpu().to(torch.float64, copy=True).numpy()


def numpy_converts(x):
    return x.detach().cpu().numpy().astype(np.float64)


def takes_the_gradient_away(x):
    return from_a_list(x.requires_grad_(False))


def empties(x):
    array = from_a_list(x)
    with torch.no_grad():
        x.zero_()
    return array


WRONG = {
    "the start": ("snapshot", "NoneType"),
    "shares where nothing is to do": (shares_float64, "shares memory"),
    "without detach": (without_detach, "requires grad"),
    "NumPy has no bfloat16": (numpy_converts, "BFloat16"),
    "another type": (to_float32, "float32"),
    "flat": (lambda x: from_a_list(x).ravel(), "another shape"),
    "other numbers": (lambda x: from_a_list(x) + 1e-9, "other numbers"),
    "a tensor": (lambda x: x.detach().cpu().to(torch.float64, copy=True), "Tensor"),
    "a list": (lambda x: x.tolist(), "list"),
    "takes the gradient away": (takes_the_gradient_away, "has changed"),
    "changes the tensor": (empties, "has changed"),
}


test_answers = judged(["snapshot_solution", from_a_list, numpy_copies], WRONG)


def test_the_loop_at_the_top_gives_the_two_lists(capsys) -> None:
    lines = re.search(r"code-block:: python\n\n((?:    .*\n)+)", (EXAMPLES / PAGE).read_text(encoding="utf-8"))
    assert lines
    expected = {"cpu": "[3, 3, 3]\n"}
    if torch.accelerator.is_available():
        expected[torch.accelerator.current_accelerator().type] = "[1, 2, 3]\n"
    for device, said in expected.items():
        exec(dedent(lines[1]), {"torch": torch, "device": torch.device(device)})
        assert capsys.readouterr().out == said


def test_a_model_moves_itself_and_meets_its_batch_there(capsys) -> None:
    _, lines, *_ = re.findall(r"code-block:: python\n#?\n((?:(?:#   )? .*\n)+)", (EXAMPLES / PAGE).read_text("utf-8"))
    exec(lines.replace("#    ", ""), {"torch": torch, "device": torch.device("meta")})
    assert capsys.readouterr().out == "meta\n"


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_counts_become_float32_and_have_a_mean_only_then(dtype) -> None:
    counts = np.array([1, 2**15 + 1], dtype=dtype)
    assert torch.tensor(counts, dtype=torch.float32).mean() == 2**14 + 1
    with pytest.raises(RuntimeError, match="mean"):
        torch.from_numpy(counts).mean()
    if dtype == np.uint16:
        with pytest.raises(NotImplementedError, match="UInt16"):
            _ = torch.from_numpy(counts) + torch.from_numpy(counts)


def test_what_was_kept_is_what_the_page_says(page) -> None:
    assert [int(value) for value in page["kept"]] == [3, 3, 3]
    assert [int(value) for value in page["copies"]] == [1, 2, 3]
    assert all(one is page["total"] for one in page["kept"])


def test_a_list_of_devices_is_never_empty(page, monkeypatch) -> None:
    assert page["try_all_gpus"]()
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("xpu"))
    assert page["try_all_gpus"]() == [torch.device("xpu:0"), torch.device("xpu:1")]
    assert page["try_gpu"](1) == torch.device("xpu:1")
    assert page["try_gpu"](2) == torch.device("cpu")


def test_a_device_is_called_as_the_page_says() -> None:
    assert torch.device("cuda:2").index == 2
    assert torch.ones(3).get_device() == torch.ones(3, device="meta").get_device() == -1
    with pytest.raises(RuntimeError, match=r"one of cpu, cuda.*: random"):
        torch.ones(3).to("random")
    with pytest.raises(TypeError, match="gpu"):
        torch.ones(3, gpu=True)
    if not torch.backends.cuda.is_built():
        with pytest.raises(AssertionError, match="not compiled with CUDA enabled"):
            torch.ones(3).to("cuda:2")


def test_single_numbers_go_with_every_device_and_no_other_tensor_does(page) -> None:
    there, here = torch.ones(3, device=page["gpu"]), torch.ones(3)
    assert (there * 2).device == (there * torch.tensor(2.0)).device == there.device
    for other in (here, torch.ones(1), torch.tensor(2.0, device=there.device)):
        with pytest.raises(RuntimeError, match="device"):
            _ = (here if other.device == there.device else there) * other


def test_old_lines_mean_what_stands_beside_them(page) -> None:
    x = torch.ones(3)
    assert torch.equal(torch.FloatTensor([1, 2]), torch.tensor([1.0, 2.0]))
    assert torch.LongTensor([1, 2]).dtype == torch.tensor([1, 2], dtype=torch.int64).dtype
    assert x.untyped_storage().device == x.device
    assert page["shared"].untyped_storage().data_ptr() == page["signal"].ctypes.data
