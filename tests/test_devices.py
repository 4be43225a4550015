import getpass
import os
import platform
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from new_python import printed_by

from firstlight import devices
from firstlight.devices import Card, all_devices, best_device, card

H200 = {
    "name": "NVIDIA H200",
    "major": 9,
    "minor": 0,
    "multi_processor_count": 132,
    "total_memory": 150_110_011_392,
    "clock_rate": 1_980_000,
    "memory_clock_rate": 3_201_000,
    "memory_bus_width": 6144,
    "L2_cache_size": 62_914_560,
    "uuid": "5c3f9d0e-1111-2222-3333-444455556666",
}


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every test from a machine without accelerators, whatever the real one has."""
    monkeypatch.delenv(devices.VARIABLE, raising=False)
    for module in (torch.cuda, torch.xpu, torch.backends.mps):
        monkeypatch.setattr(module, "is_available", lambda: False)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch):
    """Return a function that puts GPUs into the machine: fake("cuda", {"name": ...}, {"name": ...})."""

    def put(kind: str, *gpus: dict[str, object]) -> None:
        module = {"cuda": torch.cuda, "xpu": torch.xpu}[kind]
        monkeypatch.setattr(module, "is_available", lambda: True)
        monkeypatch.setattr(module, "device_count", lambda: len(gpus))
        monkeypatch.setattr(module, "get_device_properties", lambda device: SimpleNamespace(**gpus[device.index]))

    return put


@pytest.fixture
def write(tmp_path: Path):
    """Return a function that writes a file of the fake machine whose root is tmp_path."""

    def put(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    return put


# Which devices there are


def test_devices_come_fastest_kind_first_and_the_cpu_last(fake, monkeypatch):
    fake("xpu", {})
    fake("cuda", H200, H200)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert list(map(str, all_devices())) == ["cuda:0", "cuda:1", "xpu:0", "mps:0", "cpu"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # the driver counts them, but cannot start
    assert list(map(str, all_devices())) == ["xpu:0", "mps:0", "cpu"]


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_the_best_device_is_the_first_gpu(fake, kind):
    fake(kind, {}, {})
    assert str(best_device()) == f"{kind}:0"


# The environment variable


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("cpu:0", "cpu"), (" CUDA:1 ", "cuda:1"), ("cuda", "cuda:0"), (" ", "cuda:0"), ("mps", "mps:0")],
)
def test_variable_chooses_whatever_its_case_and_blanks(fake, monkeypatch, wanted, chosen):
    fake("cuda", H200, H200)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setenv(devices.VARIABLE, wanted)
    assert str(best_device()) == chosen


@pytest.mark.parametrize("wanted", ["gpu", "cuda:7", "cuda:", "cuda:-1", "cuda:01", "cpu:1", "mps", "0"])
def test_variable_that_names_no_device_here_is_refused(fake, monkeypatch, wanted):
    fake("cuda", H200, H200)
    monkeypatch.setenv(devices.VARIABLE, wanted)
    with pytest.raises(ValueError, match=f"FIRSTLIGHT_DEVICE='{wanted}'.*cuda:0, cuda:1, cpu"):
        best_device()


# Cards of GPUs


def test_card_of_an_nvidia_gpu_is_in_plain_units(fake, monkeypatch):
    fake("cuda", {"name": "Tesla T4"}, H200)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    described = card("cuda:1")
    assert dict(described.rows()) | {"libraries": ""} == {
        "name": "NVIDIA H200", "kind": "cuda", "capability": "9.0", "multiprocessors": "132", "clock": "1.98 GHz",
        "memory": "139.8 GiB", "memory clock": "3.201 GHz", "memory bus": "6144 bit", "last cache": "60 MiB",
        "libraries": "",
    }  # fmt: skip
    assert described.libraries["cuda"] == "13.0"
    assert described.libraries["torch"] == torch.__version__


def test_zeros_and_gaps_of_a_driver_are_unknown(fake):
    old = {key: H200[key] for key in ("name", "major", "minor", "multi_processor_count", "total_memory")}
    fake("cuda", H200 | {"memory_clock_rate": 0, "memory_bus_width": 0}, old)
    zeros, gaps = card("cuda:0"), card("cuda:1")
    assert (zeros.memory_clock_hz, zeros.bus_bits, zeros.clock_hz) == (None, None, 1_980_000_000)
    assert (gaps.memory_clock_hz, gaps.bus_bits, gaps.clock_hz, gaps.cache_bytes) == (None, None, None, None)
    assert "memory bus" not in dict(gaps.rows())


def test_card_of_an_amd_gpu_has_no_cuda_capability(fake, monkeypatch):
    fake("cuda", H200 | {"name": "", "gcnArchName": "gfx942:sramecc+:xnack-"})
    monkeypatch.setattr(torch.version, "hip", "6.4.4")
    described = card()
    assert (described.name, described.kind) == ("gfx942", "rocm")
    assert (described.capability, described.architecture) == (None, "gfx942")
    assert described.libraries["hip"] == "6.4.4"


def test_card_of_an_intel_gpu_reads_its_memory_clock_in_mhz(fake):
    max1550 = {
        "name": "Intel(R) Data Center GPU Max 1550",
        "gpu_subslice_count": 64,
        "total_memory": 2**36,
        "memory_clock_rate": 3200,
        "memory_bus_width": 64,
        "last_level_cache_size": 0,
        "driver_version": "1.6.33578",
    }
    fake("xpu", max1550)
    described = card("xpu")
    assert (described.kind, described.slug) == ("xpu", "intel-data-center-gpu-max-1550")
    assert (described.memory_clock_hz, described.cache_bytes) == (3_200_000_000, None)
    assert (described.multiprocessors, described.driver) == (64, "1.6.33578")


SYSCTL = """\
machdep.cpu.brand_string: Apple M2 Max
hw.memsize: 68719476736
hw.perflevel0.l2cachesize: 16777216
hw.l2cachesize: 4194304
"""


def test_cards_of_a_mac_share_name_and_memory(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "get_core_count", lambda: 38, raising=False)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("15.1", ("", "", ""), "arm64"))
    monkeypatch.setattr(devices, "_output", lambda *_: SYSCTL)
    gpu, cpu = card(), card("cpu")
    assert (gpu.slug, cpu.slug) == ("apple-m2-max", "cpu-apple-m2-max")
    assert gpu.memory_bytes == cpu.memory_bytes == 2**36
    assert (gpu.multiprocessors, gpu.cache_bytes, gpu.driver) == (38, None, "macOS 15.1")
    assert cpu.cache_bytes == 2**24


@pytest.mark.parametrize("device", ["cuda:2", "meta", "", 0, torch.device("meta")])
def test_card_of_no_device_is_refused(fake, device):
    fake("cuda", H200, H200)
    with pytest.raises(ValueError, match=rf"card\('{device}'\).*cuda:0, cuda:1, cpu"):
        card(device)


# Driver versions

PROC = "NVRM version: NVIDIA UNIX {}  Release Build  (builder@host-12.345)\nGCC version:  gcc version 12.3.0\n"


@pytest.mark.parametrize(
    ("text", "printed", "version"),
    [
        ("x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023", "", "535.129.03"),
        (None, "566.36\r\n", "566.36"),
        (None, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n", None),
    ],
)
def test_nvidia_driver_is_read_from_proc_else_asked_of_nvidia_smi(tmp_path, write, monkeypatch, text, printed, version):
    monkeypatch.setattr(devices, "_output", lambda *_: printed)
    if text:
        write("proc/driver/nvidia/version", PROC.format(text))
    assert devices._nvidia_driver(tmp_path) == version


def test_a_command_that_is_missing_or_hangs_says_nothing(monkeypatch):
    assert devices._output("no-such-command-firstlight") == ""

    def hang(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert devices._output("nvidia-smi") == ""


# Cards of CPUs


def write_cache(write, cpu: int, index: int, level: str, kind: str, size: str, shared: str) -> None:
    folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    for name, text in {"level": level, "type": kind, "size": size, "shared_cpu_list": shared}.items():
        write(f"{folder}/{name}", f"{text}\n")


@pytest.mark.parametrize(
    ("cpuinfo", "slug"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 7763  \n", "cpu-amd-epyc-7763"),
        ("processor\t: 0\nmodel name\t:\nCPU implementer\t: 0x41\n", "cpu-arm-aarch64"),
    ],
)
def test_card_of_a_linux_cpu(tmp_path, write, monkeypatch, cpuinfo, slug):
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    write("proc/cpuinfo", cpuinfo)
    write("proc/meminfo", "MemTotal:       24684092 kB\nMemFree:        23671944 kB\n")
    write("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3529052\n")
    write_cache(write, 0, 2, "2", "Unified", "0K", "0")
    described = devices._cpu_card(tmp_path)
    assert (described.slug, described.memory_bytes, described.clock_hz) == (slug, 24684092 * 1024, 3_529_052_000)
    assert described.cache_bytes is None


def test_last_cache_counts_each_shared_cache_once_and_no_instructions(tmp_path, write):
    for cpu, shared in enumerate(["0-1", "0-1", "2-3", "2-3"]):
        write_cache(write, cpu, 0, "1", "Data", "32K", str(cpu))
        write_cache(write, cpu, 1, "1", "Instruction", "32K", str(cpu))
        write_cache(write, cpu, 3, "3", "Unified", "32768K", shared)
    write_cache(write, 0, 4, "4", "Instruction", "99K", "0")
    assert devices._cpu_card(tmp_path).cache_bytes == 2 * 32 * 2**20


def test_a_cpu_says_its_model_and_its_threads_a_core(tmp_path, write):
    assert devices._cpu_card(tmp_path).threads_per_core is None
    write("proc/cpuinfo", "cpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n")
    write("sys/devices/system/cpu/cpu0/topology/thread_siblings", "00000001,00000000,00000001\n")
    described = devices._cpu_card(tmp_path)
    assert (described.model, described.threads_per_core, described.slug) == ("family 26, model 2", 2, "cpu-amd-epyc")


@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, 64),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 3),
        ("0::/\n", {"cpu.max": "6400000 50000\n"}, 64),
        ("0::/job_7/step_0\n", {"job_7/cpu.max": "400000 100000\n", "job_7/step_0/cpu.max": "max 100000\n"}, 4),
        ("0::/../other\n", {"cpu.max": "200000 100000\n"}, 2),
        ("4:memory:/x\n3:cpu,cpuacct:/x\n0::/\n", {"cpu,cpuacct/x/cpu.cfs_quota_us": "-1\n"}, 64),
        (
            "3:cpu,cpuacct:/x\n2:cpuset:/y\n",
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "150000\n", "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n"},
            2,
        ),
        ("", {}, 64),
    ],
)
def test_usable_cores_are_no_more_than_a_containers_quota(tmp_path, write, monkeypatch, group, files, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    monkeypatch.setattr(os, "process_cpu_count", lambda: 64, raising=False)
    write("proc/self/cgroup", group)
    for name, text in files.items():
        write(f"sys/fs/cgroup/{name}", text)
    assert devices._cpu_card(tmp_path).cores == cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot bind a process to cores")
def test_cores_are_those_the_process_may_use_and_a_cpu_needs_no_library():
    program = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    program += "from firstlight.devices import card; print(card(' CPU:0 ').cores)\n"
    program += "import sys; print({'torch', 'numba', 'numpy'} & {*sys.modules})"
    assert printed_by(program) == "1\nset()"


def test_cards_tell_nothing_about_whose_machine_it_is(fake):
    fake("cuda", H200)
    told = repr([card("cuda"), card("cpu")])
    secrets = [str(H200["uuid"]), platform.node(), getpass.getuser(), str(Path.home()), str(Path.cwd())]
    long_enough = [secret for secret in secrets if len(secret) > 5]  # a shorter one may be part of any word
    assert [secret for secret in long_enough if secret in told] == []


# What a card shows


@pytest.mark.parametrize(
    ("name", "kind", "slug"),
    [
        ("11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz", "cpu", "cpu-11th-gen-intel-core-i7-1165g7"),
        ("Intel® Core™ Ultra", "cpu", "cpu-intel-core-ultra"),
        ("../../etc/passwd", "cuda", "etc-passwd"),
        ("CPU", "cpu", "cpu-unknown"),
        ("显卡", "cuda", "unknown"),
    ],
)
def test_slug_is_fit_for_a_file_name(name, kind, slug):
    assert Card(name, kind).slug == slug
