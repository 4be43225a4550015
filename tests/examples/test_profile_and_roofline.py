"""The page's check accepts what is right and tells what is wrong; the profile finds the copies that the page names."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pages import judged
from variants import edited

PAGE = "2_devices/14_profile.py"


def all_at_once(frames, dark, gain):
    stacked = (torch.stack(frames) - dark.float()) * torch.from_numpy(gain.astype(np.float32))
    return stacked.clamp(min=0).sum((1, 2)).tolist()


def in_float64(frames, dark, gain):
    stacked = (torch.stack(frames).double() - dark) * torch.from_numpy(gain)
    return stacked.clamp(min=0).sum((1, 2)).tolist()


def one_by_one(frames, dark, gain):
    dark, gain = dark.float(), torch.from_numpy(gain).float()
    return torch.stack([((frame - dark) * gain).clamp(min=0).sum() for frame in frames]).tolist()


BOTH, ONE = "dark, gain = dark.float(), torch.from_numpy(gain).float()", "(frame - dark) * gain"
ITEMS = ("torch.stack([", "["), (".sum()", ".sum().item()"), ("]).tolist()", "]")
ONLY_THE_DARK = (BOTH, "dark = dark.float()"), (ONE, "(frame - dark) * torch.from_numpy(gain).float()")
TO_FLOAT64 = (BOTH, "gain = torch.from_numpy(gain)"), (ONE, "(frame.double() - dark) * gain")
IN_PLACE = f"({ONE})", "frame.sub_(dark).mul_(gain)"


def in_numpy(frames, dark, gain):
    dark = dark.numpy()
    return [float(((frame.numpy() - dark) * gain).clip(0).sum()) for frame in frames]


WRONG = {
    "nothing mended": ("as_found", "aten::_to_copy"),
    "a read for each frame": (edited(one_by_one, *ITEMS), "_local_scalar_dense"),
    "only the gain converted": (edited(one_by_one, (BOTH, "gain = torch.from_numpy(gain).float()")), "_to_copy"),
    "only the dark frame converted": (edited(one_by_one, *ONLY_THE_DARK), "_to_copy"),
    "the frames converted instead": (edited(one_by_one, *TO_FLOAT64), "_to_copy"),
    "a tensor": (lambda f, d, g: torch.tensor(all_at_once(f, d, g)), "a list"),
    "one sum": (lambda f, d, g: [sum(all_at_once(f, d, g))], "others than"),
    "no clamp": (lambda f, d, g: [((x - d) * torch.from_numpy(g)).sum().item() for x in f], "others than"),
    "no dark frame": (lambda f, d, g: all_at_once(f, 0 * d, g), "others than"),
    "in place": (edited(one_by_one, IN_PLACE), "changes the frames"),
    "in NumPy": (in_numpy, "with PyTorch"),
    "the start": ("mended", "a list"),
}

test_answers = judged(["mended_solution", all_at_once, one_by_one, in_float64], WRONG)


@pytest.mark.parametrize("side", [9, 33, 64])
def test_the_loop_agrees_with_numpy(page, side) -> None:
    assert page["check_against_numpy"](page["best_scores"], side=side) < 1e-5


def copies(prof) -> int:
    return sum(row.count for row in prof.key_averages() if row.key == "aten::copy_")


def test_the_profile_finds_the_cast_and_the_copy_of_abs(page) -> None:
    assert copies(page["found"]) >= copies(page["cured"]) + page["frames"]
    modes = torch.fft.rfft2(torch.ones(9, 9))
    for function, some in ((lambda z: z.real.square(), False), (torch.abs, True)):
        assert bool(copies(page["profiled"](function, modes))) is some


def test_a_frame_of_the_trace_is_whole_and_its_copy_lies_within_match(page) -> None:
    before, after = page["before"], page["after"]
    for events in (before, after):
        assert events[0]["name"] == "frame"
        assert {"taper", "FFT", "power", "match", "aten::mv"} <= {event["name"] for event in events}
        json.dumps(events)
    match = next(event for event in before if event["name"] == "match")
    inside = [e for e in before if match["ts"] <= e["ts"] and e["ts"] + e["dur"] <= match["ts"] + match["dur"]]
    assert "aten::copy_" in {event["name"] for event in inside}
    assert 0 < page["share"] < 1


def test_a_frame_on_a_gpu_has_its_kernels_in_a_row_of_their_own(page) -> None:
    def event(cat, name, ts, dur, tid=1):
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": tid}

    class Profile:
        def export_chrome_trace(self, file):
            events = [
                event("Trace", "PyTorch Profiler (0)", 0, 400, "Profiler"),
                event("kernel", "earlier", 80, 10, 7),
                event("gpu_memcpy", "Memcpy HtoD", 120, 20, 7),
                event("kernel", "void gemv", 150, 30, 7),
                event("gpu_user_annotation", "frame", 120, 60, 7),
                event("user_annotation", "frame", 100, 100),
                event("cuda_runtime", "cudaMemcpyAsync", 110, 35),
                event("cpu_op", "aten::mv", 146, 20, 2),
            ]
            Path(file).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")

    frame = page["shortest_frame"](Profile())
    assert [e["name"] for e in frame] == ["frame", "cudaMemcpyAsync", "Memcpy HtoD", "void gemv"]
    fig = page["draw_frames"]({"One frame": frame}, "A frame")
    middles = [round(bar.get_y() + bar.get_height() / 2, 1) for bar in fig.axes[0].patches]
    assert middles == [0, 1, 5.3, 5.3]
    colours = [bar.get_facecolor() for bar in fig.axes[0].patches]
    assert colours[1] == colours[2] != colours[3]  # a copy, on both


def test_the_caller_of_the_longest_copy_is_the_conversion(page) -> None:
    names = page["above"]
    assert names[0] == "frame"
    assert names[-1] == "aten::copy_"
    assert {"match", "scores_of"} <= set(names)
