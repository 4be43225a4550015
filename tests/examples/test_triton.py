"""PTX has what the prose says of it, bytes add up, hints are given."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from pages import judged, running

from firstlight.kernels import ptx

PAGE = "3_kernels/13_triton.py"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="there is no Triton for this system")


@pytest.fixture(scope="module")
def counts(page):
    """What the page counted, by kernel, capability, size or precision, and word."""
    found = {}
    for (name, capability, fits, constants), (text, shared) in zip(page["CASES"], page["made"], strict=True):
        size = constants.get("HOW") or ("n16" if fits else "any")
        mix = ptx.mix_of(text)
        for word, start in page["COUNT"].items():
            found[name, capability, size, word] = sum(n for each, n in mix.items() if each.startswith(start))
        found[name, capability, size, "shared"] = shared
    return found


# -- The kernels -------------------------------------------------------------------------------------------------------


def test_the_same_add_for_a_thread_loads_one_number_at_a_time(page, compiled) -> None:
    mix = compiled(page["add_threads"], "float32[::1], float32[::1], float32[::1]").mix
    assert (mix["ld.global.f32"], mix["st.global.f32"]) == (2, 1)


# -- What the compiler made --------------------------------------------------------------------------------------------


@needs_triton
def test_loads_and_stores_add_up_to_each_number_once(counts) -> None:
    for capability, size in ((75, "n16"), (90, "n16"), (90, "any")):
        for kernel, blocks in (("add", 2), ("softmax", 1)):
            of = {word: counts[kernel, capability, size, word] for word in ("ld4", "ld1", "st4", "st1")}
            assert 128 * (4 * of["ld4"] + of["ld1"]) == blocks * 1024, (kernel, capability, size)
            assert 128 * (4 * of["st4"] + of["st1"]) == 1024, (kernel, capability, size)


@needs_triton
def test_vector_loads_are_gone_for_odd_sizes(counts) -> None:
    for kernel in ("add", "softmax"):
        assert counts[kernel, 90, "n16", "ld1"] == counts[kernel, 90, "any", "ld4"] == 0
        assert counts[kernel, 90, "any", "ld1"] == 4 * counts[kernel, 90, "n16", "ld4"] > 0


@needs_triton
def test_shared_memory_barriers_and_tensor_cores(counts) -> None:
    for key, count in counts.items():
        if key[-1] in ("barrier", "shared"):
            assert (count == 0) == (key[0] == "add"), key
    assert [counts["matmul", *case, "fma"] for case in ((75, "tf32"), (90, "tf32"), (90, "ieee"))] == [512, 0, 512]
    assert [counts["matmul", *case, "wgmma"] for case in ((75, "tf32"), (90, "tf32"), (90, "ieee"))] == [0, 2, 0]


def test_cutting_to_tf32_costs_what_ten_bits_are(page) -> None:
    """The page's model, for the numbers it cut: half a unit in the tenth bit at most, and not less than some lost."""
    for whole, short in zip((page["a"], page["b"]), page["short"], strict=True):
        assert np.max(np.abs(short / whole.astype(np.float64) - 1)) <= 2**-11
        assert not np.any(short.view(np.int32) & 0x1FFF)


# -- Where kernels cannot run ------------------------------------------------------------------------------------------


@needs_triton
def test_a_driver_that_is_not_there_is_told_from_a_failed_check(page, monkeypatch) -> None:
    def missing(_: object) -> None:
        raise AssertionError("libcuda.so cannot found!")

    monkeypatch.setattr(type(page["triton"].runtime.driver), "active", property(missing))
    with pytest.raises(OSError, match="libcuda"):
        page["driver"]()


def test_without_a_compiler_the_steps_stay_as_they_are(page, monkeypatch, capsys) -> None:
    def compiled(_: object) -> object:
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(torch, "compile", lambda _: compiled)
    assert page["compiled_steps"](page["x"]) is None
    assert "C compiler" in capsys.readouterr().out
    monkeypatch.setattr(torch, "compile", lambda function: function)
    assert page["compiled_steps"](torch.ones(3, 5)) is page["five_steps"]


# -- Bytes -------------------------------------------------------------------------------------------------------------


def test_five_steps_move_eight_matrices_and_fused_ones_two(page) -> None:
    rows, columns = 1823, 781
    assert [name for name, _ in page["ways"]["five steps"]] == ["amax", "sub", "exp", "sum", "div"]
    moved = sum(size for _, size in page["ways"]["five steps"])
    assert moved == 4 * (8 * rows * columns + 4 * rows)
    assert page["times"]["torch.softmax"] == page["times"]["your kernel"] == 2


# -- Where there is no Triton ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_triton_the_page_ends_gently(monkeypatch, capsys, tmp_path) -> None:
    """As on macOS, where `import triton` fails."""
    for name in {"triton", *(name for name in sys.modules if name.startswith("triton."))}:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("FIRSTLIGHT_DEVICE", "cpu")
    with running(PAGE, tmp_path):
        assert capsys.readouterr().out.count("no Triton") == 2


# -- The exercise ------------------------------------------------------------------------------------------------------


WRONG = [
    ("bytes_moved", "four"),
    (lambda r, c: (r * c, r * c), "four"),
    (lambda r, c: (6 * r * c + 4 * r, 2 * r * c), "four"),
    (lambda r, c: (24 * r * c + 16 * r, 4 * r * c), "write"),
    (lambda r, c: (24 * r * c + 16 * r, 12 * r * c), "only x"),
    (lambda r, c: (24 * r * c + 16 * r, 8 * r * c + 8 * r), "only x"),
    (lambda r, c: (24 * r * c, 8 * r * c), "travel"),
    (lambda r, c: (24 * r * c + 8 * r, 8 * r * c), "next one"),
    (lambda r, c: (16 * r * c + 16 * r, 8 * r * c), "next one"),
    (lambda r, c: (32 * r * c + 16 * r, 8 * r * c), "no matrix"),
]


test_answers = judged(["bytes_moved_solution", lambda r, c: [24 * r * c + 16 * r, 8.0 * r * c]], WRONG)
