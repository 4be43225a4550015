"""The rows of the claims clinic: what five teaching documents say, each put to a test that runs when the site is built.

A test says whether the claim holds, and on what evidence. Every verdict is computed: were the claim true, its own test
would say so.
"""

from __future__ import annotations

import math
import re
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from weakref import WeakSet

import numpy as np
import torch
from numba import cuda
from torch import nn

from firstlight.display import quantity
from firstlight.timing.ceilings import PER_CLOCK
from firstlight.timing.measurement import measure
from firstlight.timing.specs import spec
from firstlight_kernels import ptx, trace

IMAGING = "The GPU tutorial of MPoL"
NOTEBOOK = "A lesson of AI-Core"
BOOT_CAMP = "A PyTorch boot camp"
COURSE = "A course notebook on kernels"
TEXTBOOK = "Notes on a textbook"
PRACTICAL = "https://colab.research.google.com/github/AI-Core/Practical-ML-DS/blob/master/"
LESSON = PRACTICAL + "Chapter%203.%20Deep%20Learning/Module%206.%20GPU%20and%20cloud%20training/0.%20GPU.ipynb"
SOURCES = {
    IMAGING: "*GPU Acceleration*, of 2021, from [MPoL](https://mpol-dev.github.io/MPoL/), a package for radio "
    "interferometry, to which chapter 4 of this site owes its example",
    NOTEBOOK: f"[*AI on a GPU*]({LESSON}), for people who are new to PyTorch; its outputs come from a machine without "
    "a GPU",
    BOOT_CAMP: "*PyTorch BootCamp - Using GPU* by [Jawad Haider](https://github.com/qalmaqihir), with a network that "
    "sorts irises, on a GTX 1080 Ti",
    COURSE: "*PyTorch handling of GPU devices*, with kernels written in Numba, on a GTX 1650. Our copy names neither "
    "its author nor its address",
    TEXTBOOK: "A reader's unsigned notes on the chapter about GPUs of "
    "[Dive into Deep Learning](https://d2l.ai/chapter_builders-guide/use-gpu.html)",
}
VERDICTS = {
    "true": "the test agrees",
    "true, but": "right as far as it goes; the evidence says what is missing",
    "not so": "the test disagrees",
    "impossible": "the hardware or the arithmetic forbids it",
    "not on these cards": "the cards that are named can't do it; another one may have",
    "misread": "the number may be right, but it measures something else",
}
ADDED = 99_000_000  # numbers in the imaging tutorial's addition
MATRIX = 4 * (100_000 * 100 + 100 + 100_000)  # bytes of the course's matrix, vector and result


@dataclass(frozen=True)
class Row:
    """A claim, and what became of it."""

    source: str
    says: str
    test: str
    page: str
    judge: Callable[[], tuple[str, str]]


ROWS: list[Row] = []


def claim(
    source: str, says: str, test: str, page: str
) -> Callable[[Callable[[], tuple[str, str]]], Callable[[], tuple[str, str]]]:
    """Put a claim to the test that follows; it gives a verdict and the evidence."""

    def add(judge: Callable[[], tuple[str, str]]) -> Callable[[], tuple[str, str]]:
        ROWS.append(Row(source, says, test, page, judge))
        return judge

    return add


def verdict(holds: bool, otherwise: str = "not so", then: str = "true") -> str:
    """Choose by what the test found."""
    return then if holds else otherwise


def table(source: str) -> str:
    """Judge the claims of a document, and write the table as Markdown."""
    lines = ["| It says | The verdict, and what the test found |", "|---|---|"]
    for row in ROWS:
        if row.source == source:
            try:
                found, evidence = row.judge()
            except ptx.NoCompilerError:
                continue  # the page says so
            lines.append(f"| {row.says} | **{found}**: {evidence} *The test:* {{doc}}`{row.test} <{row.page}>` |")
    return "\n".join(lines)


def rate(amount: float, seconds: float, unit: str = "B/s") -> str:
    """Write bytes or operations a second."""
    return quantity(amount / seconds, unit)


def raised(call: Callable[[], object]) -> str:
    """Give the name of what a call raises, and the beginning of what it says, up to a comma or a full stop."""
    try:
        call()
    except Exception as error:
        whole = str(error).splitlines()[0].rstrip(".!")
        said = whole.split(". ")[0].split(", ")[0]
        return f'`{type(error).__name__}`: "{said.replace("|", "/")}{" …" * (said != whole)}"'
    return ""


@cache
def core_rate() -> tuple[float, float]:
    """Measure how many cores a matrix product keeps busy here, and what each of them does in a second."""
    a = torch.ones(1001, 1001)
    product = measure(torch.mm, a, a, flops=2 * 1001**3, budget=1)
    cores = max(product.cores or 1, 1)
    return cores, 2 * 1001**3 / product.median / cores


def processor_time(call: Callable[[], object]) -> float:
    """Take the time that this thread is at work, whatever else the machine does."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


def turns_during(call: Callable[[], object]) -> int:
    """Count the turns that a second thread makes meanwhile, which it can only with Python's lock."""
    turns, stop = 0, False

    def count() -> None:
        nonlocal turns
        while not stop:
            turns += 1

    counter = threading.Thread(target=count)
    counter.start()
    try:
        before = turns
        call()
        return turns - before
    finally:
        stop = True
        counter.join()


def course_network() -> nn.Sequential:
    """Build the notebook's network."""
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5, padding=3), nn.ReLU()),
        *(nn.Conv2d(16, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(64, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


KINDS = "The kinds of device that PyTorch knows"
IMAGE = "/tutorials/4_imaging/01_first_light"
FIND, FIRST, COUNT = (
    f"/tutorials/1_setup/{page}" for page in ("01_find_your_gpu", "02_first_speedup", "04_count_your_cpu")
)
MOVING, QUEUES, WRONG = (f"/tutorials/2_devices/{page}" for page in ("01_moving", "06_queues", "03_is_it_possible"))
DEVICES, KERNELS = "/tutorials/2_devices", "/tutorials/3_kernels"
TRANSFERS, MEMORY, WINS = (f"{DEVICES}/{page}" for page in ("04_small_copies", "10_memory", "11_when_the_gpu_wins"))
PRECISION, NETWORK = f"{DEVICES}/13_precision", f"{DEVICES}/17_training_a_cnn"
MODELS, TRAINING = f"{DEVICES}/05_moving_a_model", f"{DEVICES}/02_training_loop"
PRODUCT, COALESCING = f"{KERNELS}/02_matrix_vector", f"{KERNELS}/05_coalescing"
WAVES = f"{KERNELS}/04_waves_and_blocks"
COMPILER = f"{KERNELS}/10_what_the_compiler_did"


# -- The GPU tutorial of MPoL --------------------------------------------------------------------------------------


@claim(IMAGING, "A GPU adds 99 million numbers in 3.1 milliseconds.", "Bytes over time", WRONG)
def gpu_add() -> tuple[str, str]:
    seconds, moved = 3.1e-3, 3 * 4 * ADDED
    best = max(spec(card, "bandwidth") for card in ("GTX 1080", "GTX 1660 Ti"))
    return (
        verdict(moved / seconds <= best, "not on these cards"),
        f"That needs {rate(moved, seconds)}. The page names two cards, where it installs PyTorch: "
        "{spec}`GTX 1080 bandwidth` and {spec}`GTX 1660 Ti bandwidth`. A V100 has {spec}`V100 SXM2 bandwidth`.",
    )


@claim(IMAGING, "A CPU takes 320 milliseconds for that.", "The same addition, with and without a new result", FIRST)
def cpu_add() -> tuple[str, str]:
    a, b, out = (np.ones(ADDED // 8, np.float32) for _ in range(3))  # three vectors, or fewer bytes would move
    fresh, kept = (measure(lambda to=to: np.add(a, b, out=to), budget=1) for to in (None, out))
    claimed = 3 * 4 * ADDED / 0.320
    return (
        verdict(3 * a.nbytes / kept.median < 2 * claimed, "misread"),
        f"That is {quantity(claimed, 'B/s')}. Here one core adds at {rate(3 * a.nbytes, fresh.median)} into new "
        f"memory, and at {rate(3 * a.nbytes, kept.median)} into memory that is there already, where 99 million "
        f"numbers would take {quantity(8 * kept.median, 's')}. Much of the rest probably went into "
        "getting new pages from the system, in the one call that was timed.",
    )


@claim(IMAGING, 'So the GPU is "up to 100x" faster.', "The host-device transfers, at the limit of PCIe", FIRST)
def hundred_times() -> tuple[str, str]:
    least = 3 * 4 * ADDED / max(spec(card, "bandwidth") for card in ("GTX 1080", "GTX 1660 Ti"))
    there_and_back = 3 * 4 * ADDED / spec("PCIe 3 x16", "bandwidth")
    most = 0.320 / least
    return (
        verdict(most >= 99),
        f"Neither of its cards can have done that. With the least that the faster one needs for its bytes, it is "
        f"{most:.0f} ×, and {0.320 / (least + there_and_back):.1f} × with two vectors sent and one brought back at "
        "{spec}`PCIe 3 x16 bandwidth`.",
    )


@claim(IMAGING, "`.cuda()` and `.to(device)` return a copy.", "Ask whether it is the same object", MOVING)
def copies() -> tuple[str, str]:
    there, model = torch.ones(3), nn.Linear(2, 2)
    same = [there.to("cpu") is there, model.to("cpu") is model]
    moved = there.to("meta") is not there
    return (
        verdict(moved and not any(same), "not so"),
        f"`t.to(...) is t` is `{not moved}` for a tensor that must move, and `{same[0]}` for one that is there "
        f"already. For a model it is `{same[1]}`: it moves in place.",
    )


@claim(IMAGING, "Install the CUDA toolkit first.", "Compile a kernel with what pip has brought", "/install")
def toolkit() -> tuple[str, str]:
    compilers = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvcc")  # or these with an end such as -cu12
    by = " and ".join(sorted({f"`{found.name}`" for found in distributions() if found.name.startswith(compilers)}))
    made = ptx.compile(add_one, "void(float32[::1])").mix["add.f32"]
    return (
        verdict(not (by and made), "not so"),
        f"A kernel was compiled with {by} from pip. PyTorch's wheels bring what they need, too. Only the driver must "
        "be there."
        if by
        else "It compiles, but pip has brought no compiler to this machine.",
    )


@claim(IMAGING, "`model.train()` sets the training mode.", "The model's output in both modes", TRAINING)
def training_mode() -> tuple[str, str]:
    from firstlight_imaging import GridCoords, GriddedNet

    model = GriddedNet(GridCoords(cell_size=0.03, npix=20))
    same = torch.equal(model.train()(), model.eval()())
    return (
        verdict(not same, "true, but"),
        f"Are the outputs the same in both modes? `{same}`. The mode is for dropout, batch normalization and the like. "
        f"This model has only {', '.join(f'`{type(part).__name__}`' for part in model.children())}.",
    )


@claim(IMAGING, "You have now trained a neural network.", "Count layers that take data as input", "/where_from")
def network() -> tuple[str, str]:
    from firstlight_imaging import GridCoords, GriddedNet

    model = GriddedNet(GridCoords(cell_size=0.03, npix=180))
    sizes = [tuple(parameter.shape) for parameter in model.parameters()]
    return (
        verdict(sizes != [(1, 180, 180)], "not so"),
        f"The model has one parameter, of shape {sizes[0]}: the image. It was fitted to the data, "
        "by regularized maximum likelihood; nothing was learned that applies to other data.",
    )


@claim(IMAGING, "`nll_gridded` is a negative log-likelihood.", "Pure noise of known size against it", IMAGE)
def likelihood() -> tuple[str, str]:
    from firstlight_imaging.model.losses import nll

    noise = np.random.default_rng(1).normal(0, 0.5, (2, 100_001))
    got = nll(torch.zeros(100_001), torch.from_numpy(noise[0] + 1j * noise[1]), torch.full((100_001,), 4.0)).item()
    true = 0.5 * float((4 * noise**2).sum())
    return (
        verdict(math.isclose(got, true, rel_tol=0.1), "not so"),
        f"It gives {got:.3f}; the negative log-likelihood is {true:,.0f} plus a constant. It is a reduced chi², as "
        "MPoL calls it now: a λ that balances one does not balance the other.",
    )


# -- A lesson of AI-Core -------------------------------------------------------------------------------------------


@claim(NOTEBOOK, "A CPU can only process one thing at a time.", "Processor time over time on the clock", COUNT)
def one_thing() -> tuple[str, str]:
    cores, each = core_rate()
    in_a_cycle = each / 6e9  # no common CPU has a clock that is much faster
    return (
        verdict(cores <= 1.1 and in_a_cycle < 2, "not so"),
        f"A matrix product kept {cores:.1f} of {torch.get_num_threads()} cores busy here, and each did "
        f"{quantity(each, 'FLOP/s')}. Even at 6 GHz that is {in_a_cycle:.0f} operations in a clock cycle: several "
        "numbers in an instruction, several instructions at once.",
    )


@claim(NOTEBOOK, 'GPU cores "operate at much slower speeds than CPU cores".', "Operations a second of a core", COUNT)
def slower_cores() -> tuple[str, str]:
    lanes = PER_CLOCK[9, 0][0]
    of_gpu, of_cpu = spec("H100 SXM", "fp32") / (132 * lanes), core_rate()[1]  # its whitepaper: 132 multiprocessors
    return (
        verdict(of_cpu > 2 * of_gpu, "not so", "true, but" if lanes * of_gpu > of_cpu else "true"),
        f"Each of an H100's {132 * lanes:,} cores does at most {quantity(of_gpu, 'FLOP/s')}, a core of this CPU did "
        f"{quantity(of_cpu, 'FLOP/s')}. But such a core is one lane of a multiprocessor, of which {lanes} do "
        f"{quantity(lanes * of_gpu, 'FLOP/s')}.",
    )


@claim(NOTEBOOK, "After `x.to('cuda:0')`, `x` is on the GPU.", "Move it, and ask where it is", MOVING)
def dropped() -> tuple[str, str]:
    x = torch.ones(3)
    x.to("meta")
    return (
        verdict(x.device.type == "meta", "not so"),
        f"`x.to('meta')` was called (a device without memory); `x.device` is `{x.device}`. What moved is the "
        "result: `x = x.to('cuda:0')`.",
    )


@claim(NOTEBOOK, "A GPU that is not there gives the error *invalid device string*.", "Ask for one", MOVING)
def invalid_string() -> tuple[str, str]:
    absent = raised(lambda: torch.ones(1).to(f"cuda:{torch.cuda.device_count()}"))
    return (
        verdict("device string" in absent, "not so"),
        f"In this build: {absent}. A string that names no device gives {raised(lambda: torch.device('gpu'))}.",
    )


@claim(NOTEBOOK, "This convolutional network trains on 32 × 32 pictures.", "Make a step of training", NETWORK)
def fits() -> tuple[str, str]:
    model = course_network()
    before = model[0].weight.detach().clone()
    loss = nn.functional.cross_entropy(model(torch.rand(4, 3, 32, 32)), torch.arange(4))
    loss.backward()
    torch.optim.Adam(model.parameters()).step()
    learned = bool(loss.isfinite()) and not torch.equal(before, model[0].weight)
    smaller = raised(lambda: model(torch.rand(4, 3, 16, 16)))
    return verdict(learned and bool(smaller)), f"A step changed its weights. Pictures of 16 × 16 do not fit: {smaller}."


@claim(NOTEBOOK, "Batch sizes show what share of the time goes into moving data.", "Count pictures and steps", TRAINING)
def batch_size() -> tuple[str, str]:
    sizes = (4, 64, 1024)
    batches = [[min(size, 50_000 - first) for first in range(0, 50_000, size)] for size in sizes]
    steps, sent = [len(batch) for batch in batches], [sum(batch) for batch in batches]
    return (
        verdict(len(set(steps)) == 1, "misread"),
        f"An epoch in batches of {sizes[0]} sends {sent[0]:,} pictures in {steps[0]:,} steps, and one in batches of "
        f"{sizes[-1]} sends {sent[-1]:,} in {steps[-1]:,}: all costs of a step change, not only that of moving.",
    )


# -- A PyTorch boot camp -------------------------------------------------------------------------------------------


@claim(BOOT_CAMP, "CUDA is not a language, and not an API.", "A Python kernel; the driver's names", "/glossary")
def no_language() -> tuple[str, str]:
    made = sum(ptx.compile(add_one, "void(float32[::1])").mix.values())
    from cuda.bindings import driver

    calls = [name for name in dir(driver) if re.match("cu[A-Z]", name) and callable(getattr(driver, name))]
    return (
        verdict(made > 0, "not so", "true, but" if calls else "true"),
        f"A kernel in Python became {made} instructions without a line of CUDA C++, so CUDA is more than a language. "
        f"It contains one, though, and an API: its driver has {len(calls)} functions, such as `{calls[0]}`.",
    )


@claim(BOOT_CAMP, "The iris network trains for 100 epochs in 0.467 seconds.", "The same network on a CPU", WINS)
def iris() -> tuple[str, str]:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(120, 4, generator=generator), torch.randint(3, (120,), generator=generator)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 9), nn.ReLU(), nn.Linear(9, 3))
    adam, loss_of = torch.optim.Adam(model.parameters(), lr=0.01), nn.CrossEntropyLoss()

    def epochs() -> None:
        for _ in range(100):
            adam.zero_grad()
            loss_of(model(x), y).backward()
            adam.step()

    busy = min(processor_time(epochs) for _ in range(3))
    flops = 100 * 3 * 2 * 120 * sum(layer.weight.numel() for layer in model if isinstance(layer, nn.Linear))
    return (
        verdict(busy > 0.467, "true, but"),
        f"Random data of the same shapes take {quantity(busy, 's')} of one CPU core here. All of it is "
        f"{quantity(flops, 'FLOP')}: what takes time on a GPU is its start-up and the launch overhead.",
    )


@claim(BOOT_CAMP, "`torch.cuda.memory_cached` tells what PyTorch holds.", "Look for the name", MEMORY)
def memory_cached() -> tuple[str, str]:
    old = getattr(torch.cuda, "memory_cached", None)
    said = getattr(old, "__deprecated__", "")
    return (
        verdict(old is not None, "not so", "true, but" if said else "true"),
        f"{said or 'No warning'}. Does PyTorch have the new name? `{hasattr(torch.cuda, 'memory_reserved')}`.",
    )


@claim(BOOT_CAMP, "A tensor of two numbers takes 512 bytes.", "What it needs, and what it takes", MEMORY)
def rounding() -> tuple[str, str]:
    before = torch.cuda.memory_allocated()
    pair = torch.ones(2, device="cuda" if torch.cuda.is_available() else "cpu")
    taken = torch.cuda.memory_allocated() - before if pair.is_cuda else 512
    thousand, one = (count * -(-size // 512) * 512 for count, size in ((1000, pair.nbytes), (1, 1000 * pair.nbytes)))
    return (
        verdict(taken == 512, "not so", "true" if pair.nbytes == 512 else "true, but"),
        f"It needs {pair.nbytes}. The allocator hands out multiples of 512: a thousand such tensors take "
        f"{thousand:,} bytes, one tensor of a thousand times the size {one:,}."
        + " (By the allocator's rule: no CUDA GPU was there to ask.)"
        * (not pair.is_cuda),
    )


@claim(BOOT_CAMP, "`gpumodel = model.cuda()` makes a second model.", "Change one, look at the other", MODELS)
def second_model() -> tuple[str, str]:
    model, tensor = nn.Linear(2, 2), torch.zeros(2)
    for moved in (model.double().weight, tensor.double()):  # a move to another type shows it without a GPU
        nn.init.constant_(moved, 7.0)
    one, other = (bool((held == 7).all()) for held in (model.weight, tensor))
    return verdict(not one, "not so"), (
        f"What `.double()` returned, which moves as `.cuda()` does, was filled with sevens. "
        f"Does the model hold sevens now? `{one}`. And a tensor, treated in the same way? `{other}`."
    )


@claim(BOOT_CAMP, "`losses.append(loss)` collects the losses.", "See what each keeps alive", MEMORY)
def kept_graphs() -> tuple[str, str]:
    alive: WeakSet[torch.Tensor] = WeakSet()
    weight, losses, held = torch.ones(1000, requires_grad=True), [], {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        alive.add(copy := tensor.detach())
        return copy

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda copy: copy):
        for freed in (True, False):
            for _ in range(10):
                losses.append((weight * torch.ones(1000)).square().sum())
                if freed:
                    losses[-1].backward()
            held[freed] = sum(tensor.nbytes for tensor in alive)
    numbers = all(loss.grad_fn is None for loss in losses)
    return (
        verdict(numbers or not held[True], "not so", "true" if numbers else "true, but"),
        f"Each is a tensor of {losses[0].nbytes} bytes, with its graph. Ten keep {held[True]} bytes more alive, as "
        f"`backward()` ran; without it, {held[False]:,}. `loss.item()` keeps none.",
    )


@claim(COURSE, "PyTorch cannot handle GPUs that are not NVIDIA's.", KINDS, FIND)
@claim(BOOT_CAMP, "You need an NVIDIA GPU.", KINDS, FIND)
def nvidia_only() -> tuple[str, str]:
    kinds = ("cuda", "mps", "xpu", "hpu", "mtia")
    others = [kind for kind in kinds if not raised(lambda kind=kind: torch.device(kind))]
    said = f"PyTorch knows {', '.join(f'`{kind}`' for kind in others)}; AMD's cards are `cuda` too."
    return verdict(others == ["cuda"], "not so"), said


# -- A course notebook on kernels ----------------------------------------------------------------------------------


@claim(COURSE, "PyTorch multiplies a 100,000 × 100 matrix by a vector in 10.4 µs.", "Bytes over time", PRODUCT)
def torch_matvec() -> tuple[str, str]:
    return (
        verdict(MATRIX / 10.4e-6 <= spec("GTX 1650 GDDR6", "bandwidth"), "impossible"),
        f"That needs {rate(MATRIX, 10.4e-6)}. The card has {{spec}}`GTX 1650 bandwidth`. "
        "Most likely only the launch was timed.",
    )


@claim(COURSE, "Numba does it in 264 µs.", "Bytes over time", PRODUCT)
def numba_matvec() -> tuple[str, str]:
    return (
        verdict(MATRIX / 264e-6 <= spec("GTX 1650 GDDR6", "bandwidth"), "impossible", "true, but"),
        f"That needs {rate(MATRIX, 264e-6)}. The card was sold with {{spec}}`GTX 1650 bandwidth`, too little, and "
        "later with {spec}`GTX 1650 GDDR6 bandwidth`, which is enough.",
    )


@claim(COURSE, "Numba's addition of two vectors computes for 304 microseconds.", "Bytes over time", PRODUCT)
def numba_add() -> tuple[str, str]:
    least = 3 * 4 * 100_000 / spec("GTX 1650", "bandwidth")
    return (
        verdict(least > 304e-6 / 2, "misread"),
        f"Its bytes take {quantity(least, 's')} on the card. The rest is launch overhead, as the course says itself.",
    )


@claim(COURSE, 'Against 1.25 milliseconds on a CPU, 264 microseconds are "about 9X".', "Divide", PRODUCT)
def nine_times() -> tuple[str, str]:
    times = 1.25e-3 / 264e-6
    return verdict(round(times) == 9), f"{times:.1f} ×."


@claim(COURSE, "PyTorch's product is \"about 100X\" faster than NumPy's.", "The least time of its bytes", PRODUCT)
def hundred_x() -> tuple[str, str]:
    most = 1.37e-3 / (MATRIX / spec("GTX 1650 GDDR6", "bandwidth"))
    return (
        verdict(most >= 100, "impossible"),
        f"Against its time for NumPy, {quantity(1.37e-3, 's')}, the faster of its cards can reach {most:.1f} ×.",
    )


@claim(COURSE, '"We\'re using `float32`", in a kernel with `tmp = 0.`.', "Read what the compiler made", COMPILER)
def doubles() -> tuple[str, str]:
    signature = "void(float32[:,::1], float32[::1], float32[::1])"
    plain, single = (ptx.compile(kernel, signature).mix for kernel in (matvec_double, matvec_single))
    in_double = sum(count for name, count in plain.items() if name.endswith("f64"))
    return (
        verdict(in_double == 0, "not so"),
        f"{in_double} instructions work on float64 (with `np.float32(0)`: "
        f"{sum(count for name, count in single.items() if name.endswith('f64'))}).",
    )


@claim(COURSE, 'Results differ because CUDA and IEEE 754 are "a complicated couple".', "Against float64", COMPILER)
def less_exact() -> tuple[str, str]:
    generator = np.random.default_rng(1)
    a, v = (generator.standard_normal(shape).astype(np.float32) for shape in ((2001, 100), 100))
    true = a.astype(float) @ v.astype(float)
    scale = np.abs(a.astype(float)) @ np.abs(v.astype(float))
    numpy = np.abs(a @ v - true) / scale
    kernel = np.abs((a * v).astype(float).sum(axis=1).astype(np.float32) - true) / scale
    numpy_error, kernel_error = (float(np.sqrt(np.mean(error**2))) for error in (numpy, kernel))
    return (
        verdict(kernel_error > numpy_error, "not so"),
        f"Relative to the sum of the terms' absolute values, its kernel, which sums in float64 by accident, errs by "
        f"{kernel_error:.1e}, and NumPy in float32 by {numpy_error:.1e}: both follow IEEE 754, but round differently.",
    )


@claim(COURSE, '"GPU was utilized properly", a thread for each row.', "Count the sectors of a load", COALESCING)
def uncoalesced() -> tuple[str, str]:
    a, v, out = np.ones((32, 100), np.float32), np.ones(100, np.float32), np.zeros(32, np.float32)
    by_row = trace(matvec_single, 1, 32, a, v, out).sectors_per_load["a"]
    by_column = trace(matvec_columns, 1, 32, np.ascontiguousarray(a.T), v, out).sectors_per_load["a"]
    return (
        verdict(by_row <= by_column, "true, but"),
        f"A load by 32 threads touches {by_row:g} sectors of 32 bytes. With the matrix stored the other way "
        f"round, {by_column:g}.",
    )


@claim(COURSE, "`t.storage()` shows where a tensor's numbers are.", "Call it", MOVING)
def storage() -> tuple[str, str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.ones(1).storage()
    said = str(told[0].message).split(".")[0] if told else "no warning"
    return verdict(not told, "true, but"), f"PyTorch says: {said}. `untyped_storage()` is the one to use."


@claim(COURSE, "A product of N rows gets N times as fast.", "The time of its bytes, however many threads", PRODUCT)
def n_times() -> tuple[str, str]:
    most = 1.25e-3 / (MATRIX / spec("GTX 1650 GDDR6", "bandwidth"))
    return (
        verdict(most >= 100_000, "impossible"),
        f"Against its time on the CPU, {quantity(1.25e-3, 's')}, the faster of its cards can reach {most:.1f} ×.",
    )


@claim(COURSE, "`float64` is 32 times slower on its card.", "Rates and bytes of cards", PRECISION)
def slower_doubles() -> tuple[str, str]:
    ratios = {card: spec(card, "fp32") / spec(card, "fp64") for card in ("GTX 1080", "RTX 4090", "H100 SXM")}
    times = [
        max(3 * size / spec("GTX 1080", "bandwidth"), 1 / spec("GTX 1080", kind))
        for size, kind in ((4, "fp32"), (8, "fp64"))
    ]
    slower = times[1] / times[0]
    return (
        verdict(32 in map(round, ratios.values()), "not so", "true" if slower > 16 else "true, but"),
        f"Arithmetic may be: {', '.join(f'{ratio:.0f} × ({card})' for card, ratio in ratios.items())}; the data sheet "
        f"of its own card does not say. But an addition is {slower:.1f} × slower on the first: its bytes decide.",
    )


@claim(COURSE, '"Only 32 threads will run at the same time".', "Lanes of such a multiprocessor", PRODUCT)
def warps() -> tuple[str, str]:
    lanes = PER_CLOCK[7, 5][0]
    return (
        verdict(lanes == 32),
        f"A multiprocessor of its card computes for {lanes} threads in a clock cycle, and holds all 1,024 of a block, "
        "which take turns.",
    )


@claim(COURSE, "Each multiprocessor gets 6 or 7 of the 98 blocks.", "Deal them out", WAVES)
def blocks() -> tuple[str, str]:
    gets = [len(range(first, 98, 16)) for first in range(16)]
    return (
        verdict(set(gets) == {6, 7}),
        f"A laptop's GTX 1650 has 16: {gets.count(7)} get 7, and the others 6. While the last {gets.count(7)} run, "
        f"{gets.count(6)} are idle.",
    )


# -- Notes on a textbook -------------------------------------------------------------------------------------------


@claim(TEXTBOOK, "A GPU makes ten products of 10,000 × 10,000 matrices in 0.001 s.", "Operations over time", WRONG)
def ten_products() -> tuple[str, str]:
    flops = 10 * 2 * 10_000**3
    return (
        verdict(flops / 0.001 <= spec("H200", "fp32"), "impossible"),
        f"That needs {rate(flops, 0.001, 'FLOP/s')}; an H200 has {{spec}}`H200 fp32`. "
        "Ten launches were timed, not ten products.",
    )


@claim(TEXTBOOK, "Ten squarings of a random matrix are a sanity check.", "Square one", WRONG)
def overflow() -> tuple[str, str]:
    product = torch.rand(1001, 1001, generator=torch.Generator().manual_seed(1))
    for number in range(1, 11):
        product = product @ product
        if bool(product.isinf().any()):
            return "not so", f"Product {number} is infinite, and all after it multiply infinities."
    return "true", "All ten are finite."


@claim(TEXTBOOK, 'Reporting a loss takes the GIL, which "locks all GPUs".', "A second thread that counts", QUEUES)
def lock() -> tuple[str, str]:
    a = torch.ones(2001, 2001)
    kept, given = turns_during(lambda: sum(range(10_000_000))), turns_during(lambda: (a @ a).sum().item())
    return (
        verdict(given <= 10 * kept, "not so"),
        f"A second thread made {given:,} turns of a loop during a product and the reading of its sum, "
        f"and {kept:,} during a sum that keeps the lock. What waits is one thread, for one stream.",
    )


@claim(TEXTBOOK, "Send large batches rather than many small ones.", "Rates of small and large copies", TRANSFERS)
def large_batches() -> tuple[str, str]:
    small, large = torch.ones(16), torch.ones(2**20)
    rates = [t.nbytes / measure(torch.clone, t, budget=0.5).median for t in (small, large)]
    return (
        verdict(rates[1] > 2 * rates[0]),
        f"Even within the CPU's memory, {quantity(large.nbytes, 'B')} at once move at {rates[1] / rates[0]:,.0f} × "
        f"the rate of {small.nbytes} B.",
    )


@claim(TEXTBOOK, "Tensors on two devices make the framework crash.", "Add them, and go on", MOVING)
def same_device() -> tuple[str, str]:
    said = raised(lambda: torch.ones(2) + torch.ones(2, device="meta"))
    return verdict(bool(said), "not so", "true, but"), f"It is an exception, which a program can catch. {said}."


@claim(TEXTBOOK, "The code works even if there is no GPU.", "Its trainer, with no GPU listed", TRAINING)
def indentation() -> tuple[str, str]:
    class Trainer:
        """The textbook sets the model in any case; the notes only where there are GPUs."""

        gpus: tuple[str, ...] = ()

        def prepare(self, model: nn.Module) -> None:
            if self.gpus:
                model.to(self.gpus[0])
                self.model = model

    trainer = Trainer()
    trainer.prepare(nn.Linear(1, 1))
    return (
        verdict(hasattr(trainer, "model"), "not so"),
        f"The notes set the model only where there are GPUs. {raised(lambda: trainer.model)}.",
    )


# -- Kernels of the tests ------------------------------------------------------------------------------------------


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += np.float32(1)


@cuda.jit
def matvec_double(a, v, out):
    i = cuda.grid(1)
    if i < out.size:
        total = 0.0
        for j in range(v.size):
            total += a[i, j] * v[j]
        out[i] = total


@cuda.jit
def matvec_single(a, v, out):
    i = cuda.grid(1)
    if i < out.size:
        total = np.float32(0)
        for j in range(v.size):
            total += a[i, j] * v[j]
        out[i] = total


@cuda.jit
def matvec_columns(a, v, out):
    i = cuda.grid(1)
    if i < out.size:
        total = np.float32(0)
        for j in range(v.size):
            total += a[j, i] * v[j]
        out[i] = total
