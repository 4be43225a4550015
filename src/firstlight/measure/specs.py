"""What makers say of their cards: with measurements, the only numbers that the site shows, each with its source."""

from __future__ import annotations

from dataclasses import dataclass

from firstlight.measure.tables import quantity

GIB = 2**30
# The largest last cache in NVIDIA's whitepaper on each architecture (P100, V100, Turing, A100, Ada, H100): a card has
# this much or less.
PASCAL, VOLTA, TURING, AMPERE, ADA, HOPPER = (mib * 2**20 for mib in (4, 6, 6, 40, 96, 60))
RATES = ("fp32", "fp64", "fp64_matrix", "tf32", "bf16", "fp16")
UNITS = {"bandwidth": "B/s", **dict.fromkeys(RATES, "FLOP/s"), "memory": "B"}


@dataclass(frozen=True)
class Spec:
    """A card or a slot as its maker's paper describes it; None where the paper does not say it without doubt.

    Examples
    --------
    >>> Spec("the paper", bandwidth=320e9).text("bandwidth")
    '320 GB/s'
    """

    source: str
    bandwidth: float | None = None  # bytes a second, of the memory; of a slot, in each direction
    fp32: float | None = None  # operations a second at the boost clock, without tensor cores
    memory: float | None = None  # bytes
    cache_at_most: float | None = None  # bytes; the card's last cache may be smaller
    fp64: float | None = None  # as fp32
    # Matrix products by the matrix units (NVIDIA: tensor cores), of dense matrices, with sums kept in float32 or wider.
    fp64_matrix: float | None = None
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None

    def text(self, what: str) -> str:
        """A value as a page shows it, with as many digits as the source gives, up to four."""
        value = spec_value(self, what)
        if what == "memory":
            return f"{value / GIB:g} GiB"  # chips have powers of two; makers write GB
        number, unit = quantity(value, UNITS[what], digits=4).split(" ")
        return f"{float(number):g} {unit}"


# Matrix rates that a sheet gives "with sparsity" are half of that for dense matrices, as the sheets say.
A100 = {"fp64": 9.7e12, "fp64_matrix": 19.5e12, "tf32": 156e12, "bf16": 312e12, "fp16": 312e12}
H100 = {"fp64": 34e12, "fp64_matrix": 67e12, "tf32": 989e12 / 2, "bf16": 1979e12 / 2, "fp16": 1979e12 / 2}
SPECS = {
    "GTX 1080": Spec(
        "NVIDIA GeForce GTX 1080 whitepaper (2016); float64 for 6.1 in the CUDA C++ Programming Guide 12",
        320e9,
        8.873e12,
        8 * GIB,
        cache_at_most=PASCAL,
        fp64=8.873e12 / 32,
    ),
    "GTX 1080 Ti": Spec("NVIDIA GeForce GTX 1080 Ti specifications", 484e9, memory=11 * GIB, cache_at_most=PASCAL),
    "GTX 1650": Spec(
        "NVIDIA GeForce GTX 1650 specifications, GDDR5 model", 128e9, memory=4 * GIB, cache_at_most=TURING
    ),
    "GTX 1650 GDDR6": Spec(
        "NVIDIA GeForce GTX 1650 specifications, GDDR6 model", 192e9, memory=4 * GIB, cache_at_most=TURING
    ),
    "GTX 1660 Ti": Spec("NVIDIA GeForce GTX 1660 Ti specifications", 288e9, memory=6 * GIB, cache_at_most=TURING),
    "RTX 4090": Spec(
        "NVIDIA Ada GPU architecture whitepaper",
        1008e9,
        82.6e12,
        24 * GIB,
        cache_at_most=ADA,
        fp64=82.6e12 / 64,
        tf32=82.6e12,
        bf16=165.2e12,
        fp16=165.2e12,
    ),
    "V100 SXM2": Spec(
        "NVIDIA V100 Tensor Core GPU data sheet", 900e9, 15.7e12, cache_at_most=VOLTA, fp64=7.8e12, fp16=125e12
    ),
    "A100 40GB": Spec(
        "NVIDIA A100 Tensor Core GPU data sheet, 40 GB", 1555e9, 19.5e12, 40 * GIB, cache_at_most=AMPERE, **A100
    ),
    "A100 80GB SXM": Spec(
        "NVIDIA A100 Tensor Core GPU data sheet, 80 GB SXM", 2039e9, 19.5e12, 80 * GIB, cache_at_most=AMPERE, **A100
    ),
    "H100 SXM": Spec(
        "NVIDIA H100 Tensor Core GPU data sheet, SXM", 3.35e12, 67e12, 80 * GIB, cache_at_most=HOPPER, **H100
    ),
    "H200": Spec("NVIDIA H200 Tensor Core GPU data sheet, SXM", 4.8e12, 67e12, cache_at_most=HOPPER, **H100),
    "L4": Spec(
        "NVIDIA L4 Tensor Core GPU data sheet",
        300e9,
        30.3e12,
        24 * GIB,
        cache_at_most=ADA,
        tf32=120e12 / 2,
        bf16=242e12 / 2,
        fp16=242e12 / 2,
    ),
    "MI300X": Spec(
        "AMD Instinct MI300X data sheet",
        5.3e12,
        163.4e12,
        192 * GIB,
        fp64=81.7e12,
        fp64_matrix=163.4e12,
        tf32=653.7e12,
        bf16=1307.4e12,
        fp16=1307.4e12,
    ),
    # Transfers a second × lanes × the part of the bits that are data / bits in a byte.
    "PCIe 3 x16": Spec("PCI Express Base Specification 3.0", 8e9 * 16 * 128 / 130 / 8),
    "PCIe 4 x16": Spec("PCI Express Base Specification 4.0", 16e9 * 16 * 128 / 130 / 8),
    "PCIe 5 x16": Spec("PCI Express Base Specification 5.0", 32e9 * 16 * 128 / 130 / 8),
    # Of all links of a card together; and of one adapter.
    "NVLink 4": Spec("NVIDIA H100 Tensor Core GPU data sheet, SXM", 900e9 / 2),
    "InfiniBand NDR": Spec("NVIDIA ConnectX-7 data sheet, 400 Gb/s", 400e9 / 8),
    "NVLink-C2C": Spec("NVIDIA Grace Hopper Superchip Architecture whitepaper", 900e9 / 2),
}


def spec(name: str, what: str) -> float:
    """What a card's maker says of it.

    Parameters
    ----------
    name
        The card or slot, such as ``"GTX 1080"``.
    what
        ``"bandwidth"`` in bytes a second, ``"memory"`` in bytes, or a rate in operations a second: ``"fp32"``,
        ``"fp64"``, and by the matrix units ``"fp64_matrix"``, ``"tf32"``, ``"bf16"``, ``"fp16"``.

    Examples
    --------
    >>> spec("GTX 1080", "bandwidth")
    320000000000.0
    """
    return spec_value(spec_of(name), what)


def spec_of(name: str) -> Spec:
    """The specification of a card or slot; a ValueError lists those that are known.

    Examples
    --------
    >>> spec_of("L4").text("fp32")
    '30.3 TFLOP/s'
    """
    if name not in SPECS:
        raise ValueError(f"there is no specification of {name!r}; there are: {', '.join(SPECS)}")
    return SPECS[name]


def spec_value(of: Spec, what: str) -> float:
    """One value of a specification; a ValueError lists what the source gives."""
    given = {name: float(value) for name in UNITS if (value := getattr(of, name)) is not None}
    if what not in given:
        raise ValueError(f"{of.source} gives no {what!r} here; it gives: {', '.join(given)}")
    return given[what]
