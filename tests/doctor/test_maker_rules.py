"""What the rules for AMD, Intel and Apple, for health and for notes prescribe, and when they keep silent."""

from typing import Any

import pytest

from firstlight.doctor import Facts, case, diagnose, examine
from firstlight.doctor.cases import patched


def like(name: str, **changes: Any) -> Facts:
    """A kept machine with changes, as a merge patch has them."""
    return Facts.of(patched(case(name).facts.content(), changes))


def commands(facts: Facts) -> list[str]:
    """The commands of the first finding."""
    return [step for step in diagnose(facts)[0].seen.fix if step.startswith("$ ")]


def found(facts: Facts) -> list[str]:
    return [finding.rule.code for finding in diagnose(facts)]


def test_joining_a_group_needs_sudo_only_for_others_than_root() -> None:
    assert commands(case("not-in-render-group").facts) == ["$ sudo usermod -aG render $USER"]
    assert commands(like("not-in-render-group", system={"root": True})) == ["$ usermod -aG render $USER"]


def test_a_container_gets_the_hosts_groups_by_number() -> None:
    docker = commands(like("not-in-render-group", system={"container": "docker"}))[0]
    assert "--device /dev/kfd --device /dev/dri --group-add $(stat -c %g /dev/kfd)" in docker


def test_uv_installs_with_uv() -> None:
    assert commands(like("not-built-for-amd", system={"commands": ["uv"]})) == [
        "$ uv pip uninstall torch",
        "$ uv pip install torch --index-url https://download.pytorch.org/whl/rocm7.2",
    ]


def test_pytorch_for_amd_on_windows_comes_from_amd() -> None:
    facts = like(
        "not-built-for-amd", system={"os": "windows", "distro": None, "commands": None}, nodes=None, kernel=None
    )
    assert found(facts)[0] == "not-built-for-amd"
    assert commands(facts) == []


@pytest.mark.parametrize(
    ("card", "archs", "first"),
    [
        ("gfx1031", ["gfx1030", "gfx1100"], "$ export HSA_OVERRIDE_GFX_VERSION=10.3.0"),
        ("gfx1035", ["gfx1030", "gfx1100"], "$ export HSA_OVERRIDE_GFX_VERSION=10.3.0"),
        ("gfx1151", ["gfx1030", "gfx1100"], "$ python -m pip uninstall --yes torch"),
        ("gfx1010", ["gfx1030", "gfx1100"], "$ export FIRSTLIGHT_DEVICE=cpu"),
        ("gfx1031", ["gfx1100"], "$ export FIRSTLIGHT_DEVICE=cpu"),
    ],
)
def test_a_card_may_pass_for_a_sister_but_for_no_other(card: str, archs: list[str], first: str) -> None:
    facts = like("no-code-for-amd", kernel={"gfx": [card]}, torch={"archs": archs})
    assert commands(facts)[0] == first


def test_the_card_in_the_processor_is_hidden_beside_a_better_one() -> None:
    facts = like("no-code-for-amd", kernel={"gfx": ["gfx1036", "gfx1100"]})
    assert commands(facts) == ["$ export HIP_VISIBLE_DEVICES=1"]
    assert "no-code-for-amd" not in found(like("healthy-amd", kernel={"gfx": ["gfx1036", "gfx1100"]}))


@pytest.mark.parametrize("device", ["0x9a49", "0x46A6", "0xa780", "0x3e9b", "0x5917", "0x1912", "0x4c8a"])
def test_older_intel_gpus_are_no_fault(device: str) -> None:
    facts = like("intel-not-supported", gpus=[{"vendor": "intel", "device": device, "driver": "i915"}])
    assert found(facts)[0] == "not-supported"
    assert examine(facts).status == "no-gpu"


@pytest.mark.parametrize("device", ["0x56a0", "0xe20b", "0x0bda", "0x64a0", "0x7d55", "0x7d51", "0xb080"])
def test_newer_intel_gpus_get_the_wheel_for_them(device: str) -> None:
    facts = like("not-built-for-intel", gpus=[{"vendor": "intel", "device": device, "driver": "xe"}])
    assert found(facts)[0] == "not-built-for-intel"
    assert diagnose(facts)[0].seen.certainty == "certain"


def test_a_card_that_computes_is_never_called_too_old() -> None:
    facts = like("healthy-intel", gpus=[{"vendor": "intel", "device": "0xa780", "driver": "i915"}])
    assert found(facts) == []


@pytest.mark.parametrize("bits", [0, 0x1, 0x2, 0x4, 0x8, 0x10, 0x100, 0x1 | 0x8, 0x4 | 0x2 | 0x100])
def test_a_clock_that_rests_or_keeps_its_limit_is_well(bits: int) -> None:
    assert found(throttled_by(bits)) == []


@pytest.mark.parametrize(("bits", "word"), [(0x20, "heat"), (0x40, "heat"), (0x80, "power supply"), (0x41, "heat")])
def test_heat_and_lack_of_power_are_found(bits: int, word: str) -> None:
    facts = throttled_by(bits)
    assert found(facts) == ["throttled"]
    assert word in diagnose(facts)[0].seen.evidence[0]


def test_a_hardware_slowdown_counts_if_the_card_is_slow() -> None:
    assert found(throttled_by(0x8, rate=1e11)) == ["throttled"]


def throttled_by(bits: int, rate: float | None = None) -> Facts:
    torch = {"rate": rate} if rate else {}
    return like("healthy-nvidia", nvml={"devices": [{"name": "GPU", "throttle": bits}]}, torch=torch)


def test_a_slow_copy_on_an_idle_card_is_only_a_possible_cause() -> None:
    facts = like("healthy-nvidia", torch={"rate": 1e11})
    assert found(facts) == ["slow-copy"]
    assert diagnose(facts)[0].seen.certainty == "possible"


def test_a_full_card_points_to_a_free_one_of_its_kind() -> None:
    full = case("memory-full").facts.content()["nvml"]["devices"][0]
    facts = like("memory-full", nvml={"devices": [full, {**full, "memory_used": 0, "processes": 0}]})
    assert "$ export CUDA_VISIBLE_DEVICES=1" in commands(facts)


def test_a_card_that_others_fill_is_no_fault_until_a_program_fails() -> None:
    full = case("memory-full").facts.content()["nvml"]["devices"]
    assert found(like("healthy-nvidia", nvml={"devices": full})) == []


def test_like_cards_have_no_order_to_mistake() -> None:
    name = "NVIDIA GeForce RTX 4090"
    cards = [{"name": name, "capability": [8, 9], "context": 0}] * 2
    nvml = [{"name": name, "bus": "00000000:65:00.0"}, {"name": name, "bus": "00000000:01:00.0"}]
    assert found(like("healthy-nvidia", cuda={"devices": cards}, nvml={"devices": nvml})) == []


def test_one_card_of_two_is_hidden_and_not_out_of_order() -> None:
    facts = case("order-of-cards").facts
    fewer = facts.content()["cuda"]["devices"][:1]
    assert "order-of-cards" not in found(like("order-of-cards", cuda={"devices": fewer}))


@pytest.mark.parametrize("macos", ["14.0", "15.5", "26.3.1", "10.16"])
def test_only_a_macos_that_is_older_is_blamed(macos: str) -> None:
    assert found(like("macos-too-old", system={"macos": macos}))[0] == "no-metal"
