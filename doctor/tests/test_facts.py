"""Collecting from trees of /proc, /sys and /dev as Linux makes them, and from what no system should ever hold."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from firstlight_doctor import Facts, collect, facts
from firstlight_doctor.schema import LONGEST

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def nothing(*_):
    return {}


def look(machine, env=None, run=nothing) -> Facts:
    return collect(machine.root, {} if env is None else env, run)


# Machines


@linux
def test_a_machine_that_nvidias_open_module_runs(machine):
    found = look(machine.nvidia())
    assert [(gpu.vendor, gpu.device, gpu.driver) for gpu in found.gpus] == [("nvidia", "0x2330", "nvidia")]
    assert (found.kernel.version, found.kernel.open_module) == ("580.95.05", True)
    assert found.kernel.loaded == ("nvidia", "nvidia_uvm")
    assert sorted((node.path, node.open) for node in found.nodes) == [
        (f"/dev/{name}", True) for name in ("nvidia-uvm", "nvidia0", "nvidiactl")
    ]
    assert found.system.distro == ("ubuntu", "debian")


CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\nGCC version: 11"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LINES = f"kernel: [ 12.5] {XID}\nNov 21 lucy kernel: [13.0] usb 1-1\n"
LONG = "h kernel: NVRM: old\n" + "h kernel: usb\n" * 200_000 + "h kernel: NVRM: new\n"
NODES = "sys/class/kfd/kfd/topology/nodes"
GFX = {f"{NODES}/{n}/properties": f"x 0\ngfx_target_version {v}\n" for n, v in enumerate((0, 90010, 110000))}
GFX |= {f"{NODES}/3/properties": b"\xff\x00gfx_target_version x\n"}
MODULES = f"lib/modules/{platform.release()}"
PLACES = ("updates/dkms/nvidia.ko.zst", "updates/dkms/nvidia-current.ko.xz", "kernel/nvidia-580/nvidia.ko")
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
MICROSOFT = "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f) (gcc 11.2.0)"
TEGRA = b"nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0"


@linux
@pytest.mark.parametrize(
    ("files", "part", "expected"),
    [
        ({"proc/driver/nvidia/version": CLOSED}, "kernel", {"version": "550.54.14", "open_module": False}),
        ({"sys/module/nvidia/version": "470.256.02\n"}, "kernel", {"version": "470.256.02", "open_module": None}),
        (GFX, "kernel", {"gfx": ("gfx90a", "gfx1100")}),
        *(({f"{MODULES}/{place}": ""}, "kernel", {"on_disk": f"/{MODULES}/{place}"}) for place in PLACES),
        ({"lib/modules/1.2.3/nvidia.ko": "", f"{MODULES}/extra/nvidiafb.ko": ""}, "kernel", {"on_disk": None}),
        ({"var/log/kern.log": f"Nov 21 10:00:01 lucy {LINES}"}, "kernel", {"log": (f"[ 12.5] {XID}",)}),
        ({"var/log/kern.log": LONG}, "kernel", {"log": ("NVRM: new",)}),
        ({SECURE_BOOT: b"\6\0\0\0\1"}, "system", {"secure_boot": True}),
        ({SECURE_BOOT: b"\6\0\0\0\0"}, "system", {"secure_boot": False}),
        ({SECURE_BOOT: b""}, "system", {"secure_boot": False}),
        ({}, "system", {"secure_boot": None, "distro": (), "container": None}),
        ({"proc/version": MICROSOFT}, "system", {"wsl": True}),
        ({"proc/version": "Linux version 6.8.0-45-generic (buildd@lcy02-amd64-115)"}, "system", {"wsl": False}),
        ({"proc/device-tree/compatible": TEGRA}, "system", {"tegra": True}),
        ({".dockerenv": ""}, "system", {"container": "docker"}),
        ({"run/.containerenv": ""}, "system", {"container": "podman"}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_files_tell(machine, files, part, expected):
    for path, content in files.items():
        machine.file(path, content)
    found = getattr(look(machine), part)
    assert {name: getattr(found, name) for name in expected} == expected


@linux
def test_device_files(machine):
    names = ["/dev/dxg", "/dev/kfd", "/dev/nvhost-gpu", "/dev/nvmap"]
    for name in names:
        machine.file(name[1:])
    assert sorted(node.path for node in look(machine).nodes) == names


@linux
@pytest.mark.parametrize("name", ["KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"])
def test_containers_that_a_variable_tells_of(machine, name):
    kind = "kubernetes" if name.startswith("KUBERNETES") else "apptainer"
    assert look(machine, {name: "x"}).system.container == kind


@linux
@pytest.mark.parametrize(
    ("vendor", "device", "driver", "kind", "maker"),
    [
        ("0x1002", "0x744c", "amdgpu", "0x030000", "amd"),
        ("0x1002", "0x74a1", "amdgpu", "0x120000", "amd"),  # an accelerator is no display
        ("0x8086", "0xe20b", "xe", "0x030000", "intel"),
        ("0x10de", "0x1eb8", "vfio-pci", "0x030200", "nvidia"),
        ("0x10de", "0x2684", None, "0x030000", "nvidia"),
    ],
)
def test_each_maker(machine, vendor, device, driver, kind, maker):
    (gpu,) = look(machine.card(vendor, device, driver, kind)).gpus
    assert (gpu.vendor, gpu.device, gpu.driver) == (maker, device, driver)


@linux
def test_what_is_no_card_is_not_counted(machine):
    machine.card("0x10de", "0x228b", "snd_hda_intel", "0x040300", "01")  # the sound of a graphics card
    machine.card("0x8086", "0x7a60", "xhci_hcd", "0x0c0330", "02")
    machine.card("0x1a03", "0x2000", "ast", "0x030000", "03")  # a server's own screen
    assert look(machine).gpus == ()


@linux
def test_several_cards_come_in_the_order_of_the_bus(machine):
    machine.card("0x10de", "0x2684", "nvidia", slot="41").card("0x8086", "0x4680", "i915", slot="02")
    assert [gpu.vendor for gpu in look(machine).gpus] == ["intel", "nvidia"]


@linux
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="the administrator may open everything")
def test_a_device_file_that_this_user_may_not_open(machine):
    (machine.file("dev/dri/renderD128").root / "dev/dri/renderD128").chmod(0)
    assert [(node.path, node.open) for node in look(machine).nodes] == [("/dev/dri/renderD128", False)]


# Garbage


@linux
def test_garbage_in_every_file_is_survived(machine):
    garbage = bytes(range(256)) * 20_000
    machine.nvidia()
    files = [path for path in machine.root.rglob("*") if path.is_file()]
    assert len(files) > 8
    for path in files:
        path.write_bytes(garbage)
    for path in ("proc/version", "proc/device-tree/compatible", "var/log/kern.log", "etc/os-release"):
        machine.file(path, garbage)
    machine.file("sys/class/kfd/kfd/topology/nodes/1/properties", garbage)
    assert Facts.of(look(machine).content())


@linux
def test_folders_in_place_of_files_and_files_in_place_of_folders(machine):
    for path in ("proc/version", "proc/driver/nvidia/version", "etc/os-release", "var/log/kern.log", "dev/nvidia0"):
        (machine.root / path).mkdir(parents=True)
    for path in ("sys", "lib", ".dockerenv/x"):
        machine.file(path)
    assert look(machine).kernel.version is None


@linux
def test_links_that_lead_in_circles_or_nowhere(machine):
    machine.card("0x10de", "0x2684", None)
    card = machine.root / "sys/bus/pci/devices/0000:01:00.0"
    (card / "driver").symlink_to("driver")
    (machine.root / "sys/bus/pci/devices/0000:02:00.0").symlink_to("../nowhere")
    (machine.root / "sys/bus/pci/devices/0000:03:00.0").symlink_to("0000:03:00.0")
    modules = machine.root / "lib/modules" / platform.release() / "kernel"
    modules.mkdir(parents=True)
    (modules / "loop").symlink_to("..")
    (machine.root / "dev").symlink_to("dev")
    found = look(machine)
    assert [gpu.vendor for gpu in found.gpus] == ["nvidia"]


@linux
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="the administrator may read everything")
def test_what_may_not_be_read_is_missing(machine):
    machine.nvidia()
    folders = [machine.root / name for name in ("proc/driver", "sys/bus", "sys/module", "dev", "etc")]
    for folder in folders:
        folder.chmod(0)
    try:
        assert look(machine).gpus == ()
    finally:
        for folder in folders:
            folder.chmod(0o755)


BAD = [
    {"names": [1, 2]},
    {"kind": ["cuda"]},
    {"archs": "sm_90"},
    {"surprise": True},
    {"warnings": [{"a": [[]]}]},
    {"imported": 1},
    {"version": {"\ud800": None}},
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_probe_that_answers_nonsense_loses_nothing_else(machine, bad):
    probes = {"torch": {"version": "2.13.0", "error": "OSError: disk", **bad}, "cuda": {"init": 0}}
    found = look(machine, run=lambda probe, env, seconds: probes.get(probe, {}))
    assert found.cuda.init == 0
    assert found.torch.error == "OSError: disk"
    assert "facts.torch" in str(found.torch.failed)


def test_texts_without_end_are_cut(machine):
    env = {"LD_LIBRARY_PATH": "x" * 10_000_000, "CUDA_VISIBLE_DEVICES": "0", "CUDA_PATH": "/" * 10_000_000}
    found = look(machine, env, lambda probe, env, seconds: {"error": "y" * 10_000_000})
    assert len(found.env["LD_LIBRARY_PATH"]) < LONGEST
    assert len(str(found.torch.error)) < LONGEST
    assert Facts.of(found.content()) == found


def test_half_characters_and_zero_bytes_can_be_written(machine):
    found = look(machine, {"CUDA_HOME": "/opt/\udcff\ud800\0cuda"}, lambda probe, env, seconds: {"error": "\udc80"})
    assert str(found.content()).encode()
    assert found.env["CUDA_HOME"] == "/opt/??\0cuda"


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """A folder of packages that is the only one."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), "", "/nonexistent", str(tmp_path / "some.zip")])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return folder


def test_what_a_wheel_was_built_for_is_read_without_importing_it(site):
    (site / "torch").mkdir()
    (site / "torch/__init__.py").write_text("raise SystemExit")
    (site / "torch/version.py").write_text(
        "from typing import Optional\n\n__version__ = '2.13.0+cu130'\ndebug = False\n"
        "cuda: Optional[str] = '13.0'\ngit_version = 'abc'\nhip: Optional[str] = None\nxpu: Optional[str] = None\n"
    )
    assert facts.wheel() == {"cuda": "13.0"}
    (site / "torch/version.py").write_text("hip: Optional[str] = '7.2.53211'\ncuda = None")
    assert facts.wheel() == {"hip": "7.2.53211"}
    (site / "torch/version.py").write_bytes(bytes(range(256)))
    assert facts.wheel() == {}


def test_installed_packages(site):
    for name, file in [
        ("torch-2.13.0+cu130.dist-info", "METADATA"),
        ("numba_cuda-0.30.4.dist-info", "METADATA"),
        ("nvidia_cublas-13.1.0.3.dist-info", "METADATA"),
        ("numba-0.61.0-py3.11.egg-info", "PKG-INFO"),
        ("requests-2.32.0.dist-info", "METADATA"),
        ("~riton-3.0.dist-info", "METADATA"),  # what pip leaves on Windows
        ("triton-3.0.dist-info", "RECORD"),  # half removed
        ("cuda.egg-info", "PKG-INFO"),
    ]:
        (site / name).mkdir()
        (site / name / file).write_bytes(b"\xff\0")
    expected = {"nvidia-cublas": "13.1.0.3", "numba": "0.61.0", "numba-cuda": "0.30.4", "torch": "2.13.0+cu130"}
    assert facts.packages() == expected


@linux
def test_a_deleted_working_folder_no_home_and_no_user(tmp_path):
    program = (
        "import os, pwd, sys\n"
        "os.rmdir(os.getcwd())\n"
        "def nobody(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = nobody\n"
        "from firstlight_doctor import collect\n"
        f"print(collect({str(tmp_path)!r}).torch.error)"
    )
    for name in ("torch", "numba"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('none')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for name in ("USER", "USERNAME", "LOGNAME", "HOME"):
        env.pop(name, None)
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-Pc", program], cwd=tmp_path / "gone", env=env, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("ImportError: none\n", 0), done.stderr


def test_importing_the_doctor_loads_no_library():
    program = "import sys, firstlight_doctor; print({'torch', 'numba', 'numpy', 'ctypes', 'asyncio'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# What is told of whom

ANNA = {"HOME": "/home/anna.k", "USER": "anna.k", "HOSTNAME": "lucy07.cluster.uni.edu", "SUDO_USER": "boss"}


def test_nobody_is_named_in_a_whole_report(machine):
    machine.nvidia().file(
        "var/log/kern.log", "Nov 21 lucy07 kernel: NVRM: lucy07 /home/anna.k/x GPU-8932f937-d72c-4106\n"
    )
    env = ANNA | {
        "LD_LIBRARY_PATH": "/home/anna.k/lib:/scratch/anna.k:/home/boris",
        "CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        "SLURM_JOB_ID": "7",
    }
    answer = {"error": "/home/anna.k/a on lucy07.cluster.uni.edu by anna.k", "failed": "boss@lucy07 GPU-8932f937-d72c"}
    report = str(look(machine, env, lambda probe, env, seconds: answer).content())
    for secret in ("anna", "boris", "boss", "lucy07", "uni.edu", "8932f937"):
        assert secret not in report


def test_variables_that_nobody_asked_for_are_never_read(machine):
    env = {"AWS_SECRET_ACCESS_KEY": "s3cret", "HF_TOKEN": "s3cret", "XCUDA_HOME": "s3cret", "CUDA_HOME_X": "s3cret"}
    assert "s3cret" not in str(look(machine, env | {"CUDA_HOME": "/usr/local/cuda"}).content())
    assert look(machine, env).env == {}


def test_a_driver_that_hangs_is_waited_for_once(monkeypatch, tmp_path):
    monkeypatch.setattr(facts, "gpus", lambda root: iter([{"vendor": "nvidia"}]))
    asked = []

    def run(probe, *_):
        asked.append(probe)
        return {"failed": "hung: it was stopped after 15 seconds"} if probe == "cuda" else {}

    assert collect(tmp_path, {}, run).cuda.failed
    assert asked == ["nvml", "cuda"]


ROOMY = {"exclusive": False, "memory": 8 << 30, "memory_used": 1 << 30}


def overlap(machine, *cards) -> bool:
    """Whether PyTorch and Numba are asked at the same time on a machine with such cards."""
    running, most, met = [0], [0], threading.Event()

    def run(probe, *_):
        if probe in ("nvml", "cuda"):
            return {"devices": list(cards)}
        running[0] += 1
        most[0] = max(most[0], running[0])
        if running[0] == 2:
            met.set()
        met.wait(1.0)  # for the other, in vain if they are asked one by one
        running[0] -= 1
        return {"imported": True} if probe == "torch" else {"toolchain": "works"}

    found = look(machine, run=run)
    assert (found.torch.imported, found.numba.toolchain) == (True, "works")
    return most[0] == 2


def test_pytorch_and_numba_are_asked_together_where_neither_takes_the_card_from_the_other(machine):
    assert overlap(machine)
    assert overlap(machine, ROOMY, ROOMY)
    assert not overlap(machine, ROOMY, ROOMY | {"exclusive": True})
    assert not overlap(machine, ROOMY | {"memory_used": 7 << 30})
    assert not overlap(machine, {})
