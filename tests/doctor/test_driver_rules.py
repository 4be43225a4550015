"""What the rules for NVIDIA's driver tell apart beyond their cases, and the commands that they give on each system."""

import pytest

from firstlight.doctor import Facts, case, cases, diagnose, examine
from firstlight.doctor.cases import patched
from firstlight.doctor.rules import RULES

BOUND = {"vendor": "nvidia", "device": "0x2684", "driver": "nvidia"}
NODES = [{"path": path} for path in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")]
RUNNING = {
    "gpus": [BOUND],
    "nodes": NODES,
    "kernel": {"version": "580.95.05", "loaded": ["nvidia", "nvidia_uvm"]},
    "cuda": {"path": "/usr/lib/libcuda.so.580.95.05", "init": 0},
}
LOOKS = {rule.code: rule.look for rule in RULES}


def found(patch: dict) -> list[str]:
    return [finding.rule.code for finding in diagnose(Facts.of(patched(RUNNING, patch)))]


def fix(name: str, patch: dict) -> str:
    facts = Facts.of(patched(case(name).facts.content(), patch))
    seen = LOOKS[case(name).cause or ""](facts)
    assert seen is not None
    return "\n".join(seen.fix)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (3, "hmm"),
        (34, "stub-library"),
        (46, "card-unavailable"),
        (101, "card-does-not-start"),
        (214, "memory-broken"),
        (304, "system-call-refused"),
        (802, "system-not-ready"),
        (803, "driver-half-updated"),
        (804, "forward-compatibility"),
        (999, "uvm-stale"),
    ],
)
def test_a_code_of_cuinit_alone_leads_to_its_cause(code: int, cause: str) -> None:
    assert cause in found({"cuda": {"init": code}})


@pytest.mark.parametrize(
    ("code", "cause"), [(4, "no-permission"), (15, "card-lost"), (16, "card-lost"), (18, "driver-half-updated")]
)
def test_a_code_of_nvml_alone_leads_to_its_cause(code: int, cause: str) -> None:
    assert cause in found({"nvml": {"init": code}, "cuda": {"init": 100}})


def test_files_that_cuda_does_not_need_may_be_closed() -> None:
    healthy = patched(RUNNING, {"cuda": {"devices": [{"name": "A", "capability": [8, 9], "context": 0}]}})
    nodes = [*NODES, {"path": "/dev/nvidia1", "open": False}, {"path": "/dev/dri/renderD128", "open": False}]
    assert examine(Facts.of(patched(healthy, {"nodes": nodes}))).ladder[3].state is True


def test_a_card_beside_a_lost_one_still_tells_of_the_loss() -> None:
    devices = {"devices": [{"name": "A", "context": 0}]}
    assert "card-lost" in found({"gpus": [BOUND, BOUND], "cuda": devices, "nvml": {"init": 0, "refused": [15]}})


def test_a_loss_that_a_reset_mended_is_over() -> None:
    log = ["NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."]
    well = {"cuda": {"devices": [{"name": "A", "context": 0}]}, "nvml": {"init": 0, "devices": [{"name": "A"}]}}
    assert "card-lost" not in found({**well, "kernel": {"log": log}})


def test_missing_uvm_is_not_also_taken_for_something_vaguer() -> None:
    for code in (3, 304, 999):
        patch = {"nodes": NODES[:2], "cuda": {"init": code}, "nvml": {"init": 0, "devices": [{"name": "A"}]}}
        assert not {"hmm", "system-call-refused", "uvm-stale", "nvml-sees-cuda-does-not"} & set(found(patch))


def test_a_crash_of_the_probe_is_no_hang() -> None:
    assert "hangs" not in found({"cuda": {"init": None, "failed": "was killed by signal 11: it said nothing"}})


@pytest.mark.parametrize("manager", ["apt", "dnf", "pacman", "zypper"])
@pytest.mark.parametrize("name", ["no-driver", "nouveau", "secure-boot", "closed-module", "no-libcuda"])
def test_commands_are_those_of_the_system(name: str, manager: str) -> None:
    distro = {"apt": ["debian"], "dnf": ["fedora"], "pacman": ["arch"], "zypper": ["opensuse-leap"]}[manager]
    steps = fix(name, {"system": {"distro": distro, "commands": [manager]}})
    others = {"apt install", "dnf install", "pacman -S", "zypper install", "ubuntu-drivers"}
    others -= {f"{manager} install", f"{manager} -S"}
    assert not any(other in steps for other in others), steps
    assert "$ " in steps


def test_the_administrator_needs_no_sudo() -> None:
    for name in cases():
        cause = case(name).cause
        rule = next((rule for rule in RULES if rule.code == cause), None)
        modules = ("driver", "generation", "library", "start", "card", "context")
        if rule is None or not rule.look.__module__.endswith(modules):
            continue
        assert "sudo" not in fix(name, {"system": {"root": True}}), name


def test_only_the_wrong_folder_leaves_the_search_path() -> None:
    path = "/opt/lib:/opt/cuda/lib64/stubs:/opt/cuda/lib64"
    assert "$ export LD_LIBRARY_PATH=/opt/lib:/opt/cuda/lib64" in fix(
        "stub-library", {"env": {"LD_LIBRARY_PATH": path}}
    )
    assert "$ unset LD_LIBRARY_PATH" in fix("stub-library", {"env": {"LD_LIBRARY_PATH": "/opt/cuda/lib64/stubs"}})
    assert "/etc/ld.so.conf.d" in fix("stub-library", {"env": {"LD_LIBRARY_PATH": None}})
