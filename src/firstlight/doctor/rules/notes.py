"""Notes: what is often misread on a machine that may be well."""

from __future__ import annotations

from firstlight.doctor.rules.ask import MAKERS, computes, cuda_number, has, heard, maker, release_of
from firstlight.doctor.rules.ladder import NAMES
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts


@rule("visible", kind="note")
def order_of_cards(facts: Facts) -> Seen | None:
    """CUDA counts the cards in another order than nvidia-smi.

    nvidia-smi counts by their places on the bus. CUDA, and so PyTorch, begins with the card that it takes for the
    fastest. With unlike cards, cuda:0 is then not GPU 0 of nvidia-smi, and CUDA_VISIBLE_DEVICES counts as CUDA does.
    """
    cuda = [device.name for device in facts.cuda.devices]
    bus = [device.name for device in sorted(facts.nvml.devices, key=lambda device: device.bus)]
    if cuda == bus or sorted(cuda) != sorted(bus) or facts.env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return None
    return Seen(
        evidence=(f"nvidia-smi counts: {numbered(bus)}", f"CUDA counts: {numbered(cuda)}"),
        fix=("Let CUDA count by the bus too, before Python starts:", "$ export CUDA_DEVICE_ORDER=PCI_BUS_ID"),
    )


def numbered(names: list[str]) -> str:
    """Write names with their numbers."""
    return ", ".join(f"{number} {name}" for number, name in enumerate(names))


@rule("version", kind="note")
def cuda_version_of_nvidia_smi(facts: Facts) -> Seen | None:
    """The "CUDA Version" of nvidia-smi is not the CUDA that PyTorch uses.

    nvidia-smi prints the newest CUDA that the driver can run. Nothing of that version needs to be installed. PyTorch
    brings its own CUDA, which may be older and must not be much newer. nvcc, of NVIDIA's toolkit, has yet another.
    """
    driver, wheel = facts.nvml.cuda, facts.torch.cuda
    if not driver or not wheel:
        return None
    older = 0 < release_of(wheel) < driver // 1000
    if not older and not heard(facts, "CUDA Version:", "detected CUDA version"):
        return None
    return Seen(
        evidence=(f'nvidia-smi says "CUDA Version: {cuda_number(driver)}"', f"PyTorch has CUDA {wheel} with it"),
        fix=(
            "Nothing has to be done, and no toolkit installed, for PyTorch or Numba. This prints what PyTorch uses:",
            '$ python -c "import torch; print(torch.version.cuda)"',
        ),
    )


@rule("wheel", kind="note")
def several_makers(facts: Facts) -> Seen | None:
    """The machine has cards of several makers, and PyTorch uses only one maker's.

    Each PyTorch is built for the cards of one maker. The others stay idle, which is no fault. To use both, make two
    environments, each with a PyTorch of its own.
    """
    here = [vendor for vendor in MAKERS if has(facts, vendor)]
    if len(here) < 2:
        return None
    taken = computes(facts) or maker(facts) or here[0]
    others = " and ".join(NAMES[vendor] for vendor in here if vendor != taken)
    return Seen(
        evidence=(
            f"there are cards of {' and '.join(NAMES[vendor] for vendor in here)}",
            f"PyTorch {'uses' if computes(facts) else 'would use'} the card of {NAMES[taken]}",
        ),
        fix=(f"Nothing has to be done. For the card of {others}, install PyTorch from that maker's index elsewhere.",),
    )
