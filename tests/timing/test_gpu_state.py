"""The driver's answers, played: a GPU that tells all, one that tells little, and none."""

import ctypes
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from firstlight.timing import gpu_state as module
from firstlight.timing.gpu_state import GpuState, gpu_state

NOT_SUPPORTED = 3


class Driver:
    """NVML, as ctypes sees it: it writes an answer, and returns 0 or an error."""

    def __init__(self, reasons: int = 0, **refused: int) -> None:
        self.reasons, self.refused, self.asked_of = reasons, refused, b""

    def __getattr__(self, question: str) -> Callable[..., int]:
        answers = {"ClockInfo": 1395, "PowerUsage": 698_400, "Temperature": 71}

        def ask(handle: object, *more: object) -> int:
            if question == "nvmlDeviceGetHandleByUUID":
                self.asked_of = handle
                return self.refused.get("handle", 0)
            name = question.removeprefix("nvmlDeviceGet")
            wide = name == "CurrentClocksThrottleReasons"
            kind = ctypes.c_ulonglong if wide else ctypes.c_uint
            answer = ctypes.cast(more[-1], ctypes.POINTER(kind))
            answer[0] = self.reasons if wide else answers[name]
            return self.refused.get(name, 0)

        return ask


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[Driver | None, object], GpuState | None]:
    def ask(driver: Driver | None, device: str = "cuda:1") -> GpuState | None:
        monkeypatch.setattr(module, "_nvml", lambda: driver)
        return gpu_state(device)

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda of: SimpleNamespace(uuid=f"5c3f-{of.index}"))
    return ask


@pytest.mark.parametrize(
    ("reasons", "slowed_by"),
    [
        (0x0, "nothing"),
        (0x1, "nothing"),  # idle
        (0x2, "nothing"),  # somebody has set the clocks
        (0x4, "power"),
        (0x60, "heat"),
        (0x24, "power and heat"),
        (0x1_0000_0000_0008, "hardware"),
    ],
)
def test_a_gpu_that_tells_all(told, reasons: int, slowed_by: str) -> None:
    driver = Driver(reasons)
    assert told(driver) == GpuState(1.395e9, pytest.approx(698.4), 71, slowed_by)
    assert driver.asked_of == b"GPU-5c3f-1"


def test_what_the_driver_does_not_tell_is_unknown(told, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses = Driver(PowerUsage=NOT_SUPPORTED, CurrentClocksThrottleReasons=NOT_SUPPORTED)
    assert told(refuses) == GpuState(clock_hz=1.395e9, celsius=71)
    assert told(Driver(handle=NOT_SUPPORTED)) is None
    assert told(None) is None
    assert told(Driver(), "cpu") is None
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert told(Driver()) is None


def test_a_machine_without_the_drivers_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise OSError

    monkeypatch.setattr(module.ctypes, "CDLL", missing)
    assert module._nvml.__wrapped__() is None
