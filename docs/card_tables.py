"""The tables of the page on cards: what data sheets say, and what of the site's conclusions turns on them."""

from __future__ import annotations

from collections.abc import Callable

from firstlight.display import MISSING, quantity
from firstlight.timing.ceilings import PER_CLOCK
from firstlight.timing.specs import SPECS, Spec, spec

CARDS = [name for name, of in SPECS.items() if of.memory and (of.slot or of.shares_memory)]
#: For whom the conclusions are worked out, by compute capability.
READERS = {
    "T4": (7, 5), "RTX 4090": (8, 9), "A100 80GB SXM": (8, 0), "H100 SXM": (9, 0), "B300": (10, 3), "GB10": (12, 1),
}  # fmt: skip
LAST_CACHE = {name: f"{name} L2" for name in ("T4", "RTX 4090", "RTX 5090", "H100 SXM", "B200")}
LAST_CACHE |= {"A100 40GB": "A100 40GB L2", "A100 80GB SXM": "A100 40GB L2", "H200": "H100 SXM L2"}
LAST_CACHE |= {"MI300A": "MI300X L3", "MI300X": "MI300X L3"}
ADDED = 99_000_000  # numbers in the addition of the first speed-up, of 4 bytes
ELEMENTS = 500_001 * 101  # of the matrix on the page on the compiler


def ratio(rate: float | None, of: float | None) -> str:
    """Write one rate in units of another, such as ``1:64``."""
    if not (rate and of):
        return MISSING
    return f"1:{of / rate:.0f}" if rate < 0.9 * of else f"{rate / of:.3g}"


def cells(name: str) -> tuple[str, ...]:
    """Return the row of a card."""
    of = SPECS[name]
    shown = [of.text(what) if getattr(of, what) else MISSING for what in ("memory", "bandwidth", "fp32")]
    cache = SPECS[LAST_CACHE[name]].text("size") if name in LAST_CACHE else MISSING
    units = [ratio(getattr(of, what), of.fp32) for what in ("fp64", "tf32", "fp16", "fp8")]
    ridge = f"{of.fp32 / of.bandwidth:.0f}" if of.fp32 and of.bandwidth else MISSING
    return name, *shown, *units, cache, (of.slot or "none").removesuffix(" x16").removeprefix("PCIe "), ridge


HEAD = ("card", "memory", "bandwidth", "float32", "float64", "TF32", "16 bits", "FP8", "last cache", "PCIe", "ridge")


def sources() -> str:
    """Return where each row comes from, as a list in Markdown."""
    return "\n".join(f"- {name}: {SPECS[name].source}" for name in CARDS)


# -- What turns on a card ------------------------------------------------------------------------------------------


def sum_once(of: Spec, _: tuple[int, int]) -> str:
    """Two vectors are added once, and everything is sent."""
    work = 12 * ADDED / (of.bandwidth or 1)
    if not of.slot:
        return f"nothing has to be sent; reading and writing take {quantity(work, 's')}"
    sent = 12 * ADDED / spec(of.slot, "bandwidth")
    return f"there and, after that, back: {quantity(sent, 's')} at least; the work: {quantity(work, 's')}"


def float64_in_products(of: Spec, _: tuple[int, int]) -> str:
    """float64 in place of float32, where arithmetic decides."""
    times = (of.fp32 or 0) / max(of.fp64 or 0, of.fp64_matrix or 0)
    return f"{times:.3g} times as long" if times > 1 else "as long"


def double_zero(of: Spec, _: tuple[int, int]) -> str:
    """A float64 zero in a sum over rows."""
    read, add = 4 * ELEMENTS / (of.bandwidth or 1), 4 * ELEMENTS / (of.fp64 or 1)
    return "reading takes longer" if add < read else f"costs: adding takes {add / read:.2g} times as long as reading"


def tf32_dot(_: Spec, capability: tuple[int, int]) -> str:
    """Whether a product of float32 tiles in Triton uses matrix units."""
    return "10 bits are kept, on tensor cores" if capability >= (8, 0) else "all bits, slowly, if it runs"


def autocast(_: Spec, capability: tuple[int, int]) -> str:
    """Whether bfloat16 gains anything in products."""
    return "can gain" if capability >= (8, 0) else "no units: take float16"


def three_registers(_: Spec, capability: tuple[int, int]) -> str:
    """A step with three new numbers from registers."""
    if PER_CLOCK[capability][0] == 64:
        return "all of the rate"
    return "half of the rate" if capability == READERS["H100 SXM"] else "half, if its registers are like an H100's"


CONCLUSIONS: dict[str, tuple[str, Callable[[Spec, tuple[int, int]], str]]] = {
    "Adding two vectors of 99 million numbers once": ("1_setup/02_first_speedup", sum_once),
    "A product in `float64`, beside one in `float32`": ("2_devices/13_precision", float64_in_products),
    "`total = 0.0` in a kernel that sums rows": ("3_kernels/10_what_the_compiler_did", double_zero),
    "`tl.dot` of `float32` tiles": ("3_kernels/13_triton", tf32_dot),
    "`autocast` to `bfloat16`": ("2_devices/17_training_a_cnn", autocast),
    "A multiply-add of three new numbers": ("1_setup/04_count_your_cpu", three_registers),
}


def conclusions() -> str:
    """Return what each conclusion is on each of the readers' cards, as a table in Markdown."""
    lines = [f"| what | {' | '.join(READERS)} |", "|---" * (len(READERS) + 1) + "|"]
    for says, (page, judge) in CONCLUSIONS.items():
        found = " | ".join(judge(SPECS[name], capability) for name, capability in READERS.items())
        lines.append(f"| {{doc}}`{says.replace('`', '')} </tutorials/{page}>` | {found} |")
    return "\n".join(lines)
