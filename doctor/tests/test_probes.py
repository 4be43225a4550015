"""What the real probes make of drivers that answer, refuse, hang, crash and talk: fakes, built from a little C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from firstlight_doctor import collect, examine, facts, probes
from firstlight_doctor.children import in_child

LONG = 30.0  # more than any of these needs


@pytest.mark.parametrize("code", [0, 100, 999])
def test_the_code_of_cuinit_comes_back(driver, libraries, code):
    found = in_child("cuda", driver(cuda=code), LONG)
    assert found["init"] == code
    assert found["path"] == str(libraries / "libcuda.so.1")
    assert found["version"] == 13000
    assert "failed" not in found
    assert ("devices" in found) == (code == 0)


@pytest.mark.parametrize("code", [4, 999])
def test_the_code_of_nvmlinit_comes_back(driver, code):
    assert in_child("nvml", driver(nvml=code), LONG) == {"init": code}


def test_the_cards_as_cuda_sees_them(driver):
    found = in_child("cuda", driver(devices=2), LONG)["devices"]
    assert found == [
        {"name": "NVIDIA Fake 0", "capability": [9, 0], "context": 0},
        {"name": "NVIDIA Fake 1", "capability": [9, 1], "context": 0},
    ]


def test_no_more_cards_are_described_than_a_reader_could_want(driver):
    assert len(in_child("cuda", driver(devices=100_000), LONG)["devices"]) == probes.MAX_CARDS


def test_the_cards_as_nvml_sees_them(driver):
    found = in_child("nvml", driver(devices=1), LONG)
    assert found["driver"] == "580.95.05"
    assert found["cuda"] == 13000
    assert found["devices"] == [
        {
            "name": "NVIDIA Fake 0",
            "bus": "00000000:3B:00.0",
            "exclusive": False,
            "processes": 0,
            "memory": 2**37,
            "memory_used": 2**30,
            "ecc_errors": 0,
            "throttle": 0,
        }
    ]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (
            {"mig": 0, "ecc": 7, "mode": 2, "throttle": 0x48, "processes": 5, "fabric": 1},
            {"mig": True, "mig_instances": 0, "ecc_errors": 7, "exclusive": False}
            | {"throttle": 0x48, "processes": 5, "fabric": "not started"},
        ),
        ({"mig": 3, "mode": 3, "fabric": 2}, {"mig_instances": 3, "exclusive": True, "fabric": "in progress"}),
        ({"fabric": 3}, {"fabric": "completed"}),
        ({"fabric": 200}, {"fabric": None}),  # from the future
    ],
)
def test_the_state_of_a_card(driver, setting, expected):
    (device,) = in_child("nvml", driver(**setting), LONG)["devices"]
    assert {name: device.get(name) for name in expected} == expected


def test_a_lost_card_is_told_beside_one_that_works(driver):
    found = in_child("nvml", driver(devices=2, lost=1), LONG)
    assert [device["name"] for device in found["devices"]] == ["NVIDIA Fake 1"]
    assert found["refused"] == [15]


@pytest.mark.parametrize(
    ("probe", "way"),
    [("cuda", "fork"), *(pytest.param("nvml", way, marks=pytest.mark.slow) for way in ("hang", "fork"))],
)
def test_a_driver_that_hangs_is_stopped_with_all_that_it_started(driver, probe, way):
    found = in_child(probe, driver(**{probe: way}), 1.0)
    assert found.pop("failed").startswith("hung")
    assert ("version" in found) == (probe == "cuda")  # what it said before is kept


@pytest.mark.slow
def test_a_probe_ends_by_itself_when_nobody_waits_for_it(driver):
    command = [sys.executable, "-PS", probes.__file__, "cuda", "-4"]  # 1 s: each waits 5 s longer than its parent
    done = subprocess.run(command, env=driver(cuda="hang"), capture_output=True, timeout=LONG)
    assert done.returncode == -signal.SIGALRM


@pytest.mark.parametrize("probe", ["cuda", "nvml"])
def test_a_driver_that_crashes_is_told(driver, probe):
    assert in_child(probe, driver(**{probe: "crash"}), LONG)["failed"].startswith("was killed by signal 11")


def test_what_a_driver_prints_is_not_taken_for_facts(driver):
    found = in_child("cuda", driver(cuda="print"), LONG)
    assert found["init"] == 0
    assert found["devices"]
    assert "failed" not in found


@pytest.mark.parametrize("probe", ["cuda", "nvml"])
def test_a_library_without_its_functions_is_told(driver, probe):
    assert "undefined symbol" in in_child(probe, driver("empty"), LONG)["failed"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.parametrize("probe", ["cuda", "nvml"])
def test_a_file_that_is_no_library_is_told(tmp_path, probe):
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (tmp_path / name).write_bytes(b"\x7fELF" + bytes(range(256)))
    found = in_child(probe, {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}, LONG)
    assert found["error"].startswith("OSError: ")


@pytest.mark.parametrize(
    "env",
    [{"HUGE": "x" * 10_000_000}, {"ZERO": "a\0b"}, {"A=B": "c"}, {"HALF": "\ud800"}],
    ids=lambda env: next(iter(env)),
)
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_an_environment_that_no_process_can_have_is_told(env):
    assert in_child("cuda", env, LONG)["failed"].startswith("could not be started")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize("probe", ["cuda", "torch"])
def test_a_python_without_p_keeps_the_current_folder_out(driver, tmp_path, monkeypatch, probe):
    python = tmp_path / "python3.10"
    python.write_text(f'#!/bin/sh\ncase "$1" in -*P*) exit 2;; esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    for name in ("json", "torch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the current folder')")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/torch.py").write_text("raise ImportError('none')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(python))
    found = in_child(probe, driver() | {"PYTHONPATH": str(tmp_path / "elsewhere")}, LONG)
    assert (found["init"] == 0) if probe == "cuda" else found == {"error": "ImportError: none"}


TORCHES = {
    "print('hello'); print('[1]'); print('5'); import os; os._exit(3)": "ended with 3: 5",
    "raise KeyboardInterrupt": "KeyboardInterrupt: ",
    "raise ImportError('libcudart.so.13: \\ud800 \\x1b[31m')": "ImportError: libcudart.so.13: \ud800 \x1b[31m",
    "import ctypes; ctypes.string_at(0)": "was killed by signal 11",
    "import subprocess; subprocess.run(['sleep', '1000'])": "hung",
    "print('x' * 10_000_000); raise OSError('full')": "OSError: full",
    "": "AttributeError: module 'torch' has no attribute 'backends'",
    "\0": "source code",
}


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize(
    "code", [pytest.param(code, marks=pytest.mark.slow) if TORCHES[code] == "hung" else code for code in TORCHES]
)
def test_whatever_is_found_in_pytorchs_place(tmp_path, code):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(code)
    found = in_child("torch", {**os.environ, "PYTHONPATH": str(tmp_path)}, 3.0 if TORCHES[code] == "hung" else LONG)
    assert TORCHES[code] in (found.get("error") or found["failed"])


def test_what_python_prints_when_it_starts_is_not_taken_for_facts(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "print('5'); print('[' * 100_000); print('{\"kind\": \"cuda\"}'); print('end')"
    )
    (tmp_path / "torch.py").write_text("raise ImportError('none')")
    found = in_child("torch", {**os.environ, "PYTHONPATH": str(tmp_path)}, LONG)
    assert found == {"error": "ImportError: none"}


NVIDIA_TORCH = {"version": "2.13.0+cu130", "cuda": "13.0", "imported": True, "archs": ["sm_75", "sm_80", "sm_90"]}


def fake_run(probe: str, env: Any, seconds: float) -> dict[str, Any]:
    """The real probes of the driver, beside a PyTorch and a Numba for NVIDIA."""
    if probe in ("cuda", "nvml"):
        return in_child(probe, env, seconds)
    works = {"kind": "cuda", "kernel": "right"} if "FAKE_ECC" in env else {}
    return NVIDIA_TORCH | works if probe == "torch" else {"version": "0.68.1", "target": "0.30.4", "toolchain": "works"}


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"cuda": 34, "nvml": 12, "folder": "stubs"}, "stub-library"),
        ({"context": 46, "mode": 3, "processes": 1}, "exclusive-card"),
        ({"cuda": 100}, "nvml-sees-cuda-does-not"),
        ({"cuda": 100, "CUDA_VISIBLE_DEVICES": "-1"}, "cuda-visible-devices"),
        ({"cuda": 100, "mig": 0}, "mig-without-instance"),
        ({"cuda": 802, "fabric": 1}, "fabric-manager"),
        ({"cuda": 803, "nvml": 18}, "driver-half-updated"),
        pytest.param({"cuda": "hang"}, "hangs", marks=pytest.mark.slow),
        ({"cuda": 100, "lost": 1}, "card-lost"),
        ({"ecc": 3}, "memory-errors"),
    ],
    ids=str,
)
def test_the_cause_behind_each_code_leads(driver, machine, monkeypatch, settings, cause):
    monkeypatch.setattr(facts, "SECONDS", dict.fromkeys(facts.SECONDS, 2.0 if settings.get("cuda") == "hang" else LONG))
    monkeypatch.setattr(facts, "wheel", lambda: NVIDIA_TORCH if settings.get("cuda") == "hang" else {})
    monkeypatch.setattr(facts, "memory_limit", lambda: None)
    plain = {name: value for name, value in settings.items() if name.isupper()}
    fakes = {name: value for name, value in settings.items() if not name.isupper()}
    env = {name: value for name, value in driver(**fakes).items() if not name.startswith(("SLURM_", "KUBERNETES_"))}
    report = examine(collect(machine.nvidia().root, {**env, **plain}, fake_run))
    assert [finding.rule.code for finding in report.findings][:1] == [cause]
    assert report.text()


@pytest.mark.slow
def test_collecting_beside_a_fake_driver_with_the_real_pytorch_and_numba(driver, machine):
    found = collect(machine.nvidia().root, driver())
    assert found.cuda.init == found.nvml.init == 0
    assert found.torch.imported or found.torch.error or found.torch.failed
    assert examine(found).text()


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interrupt_waits_for_nothing_that_hangs(driver, tmp_path):
    (tmp_path / "torch.py").write_text(f"open({str(tmp_path / 'started')!r}, 'w')\nimport time\ntime.sleep(1000)")
    env = {**driver(), "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-P", "-m", "firstlight_doctor"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A shell that runs the tests in the background has them ignore interrupts, and with them what they start.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, env=env, preexec_fn=heed, **pipes) as doctor:
        while not Path(tmp_path / "started").exists() and doctor.poll() is None:
            time.sleep(0.05)
        doctor.send_signal(signal.SIGINT)
        out, err = doctor.communicate(timeout=10)
    assert (out, doctor.returncode) == ("", 130)
    assert err.startswith("firstlight-doctor: ")
    assert err.count("\n") == 1
