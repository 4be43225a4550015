"""The rows of the claims clinic: what five teaching documents say, each put to a test that runs when the site is built.

A test says whether the claim holds, and on what evidence. Nothing here is an opinion: were the claim true, its own test
would say so.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import distributions

import numpy as np
import torch
from torch import nn

from firstlight.kernels import cuda, ptx, trace
from firstlight.measure.specs import spec
from firstlight.measure.tables import quantity
from firstlight.measure.timing import measure

IMAGING = "An imaging tutorial"
NOTEBOOK = "An introductory notebook"
BOOT_CAMP = "A PyTorch boot camp"
COURSE = "A course notebook on kernels"
TEXTBOOK = "Notes on a textbook"
SOURCES = {
    IMAGING: "the GPU page of MPoL, a package for radio interferometry, of 2021",
    NOTEBOOK: "a lesson for people who are new to PyTorch; its outputs are those of a machine without a GPU",
    BOOT_CAMP: "a chapter on GPUs, with a network that sorts irises",
    COURSE: "PyTorch, and kernels written with Numba, on a GTX 1650",
    TEXTBOOK: "a reader's notes on the GPU chapter of *Dive into Deep Learning*",
}
VERDICTS = {
    "true": "the test agrees",
    "true, but": "right as far as it goes; what is left out decides",
    "not so": "the test disagrees",
    "cannot be": "the hardware or the arithmetic forbids it",
    "not this": "the number is right, and is not about what it is said to be about",
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
    lines = ["| It says | Verdict | What the test found |", "|---|---|---|"]
    for row in ROWS:
        if row.source == source:
            found, evidence = row.judge()
            lines.append(f"| {row.says} | **{found}** | {evidence} *The test:* {{doc}}`{row.test} <{row.page}>` |")
    return "\n".join(lines)


def rate(amount: float, seconds: float, unit: str = "B/s") -> str:
    """Write bytes or operations a second."""
    return quantity(amount / seconds, unit)


def raised(call: Callable[[], object]) -> str:
    """Give the name of what a call raises, and the first sentence of what it says."""
    try:
        call()
    except Exception as error:
        said = str(error).splitlines()[0].split(". ")[0].split(", ")[0]
        return f"`{type(error).__name__}`: {said.replace('|', '/')}"
    return ""


def from_pip(*names: str) -> list[str]:
    """List what is installed of these packages, the CUDA of which may stand behind the name: ``-cu12``."""
    return sorted({found.name for found in distributions() if found.name.startswith(names)})


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


SETUP, DEVICES, KERNELS = (f"/tutorials/{chapter}" for chapter in ("1_setup", "2_devices", "3_kernels"))
WRONG = f"{DEVICES}/03_timing_it_wrong"
MOVING = f"{DEVICES}/01_moving"


# -- An imaging tutorial -------------------------------------------------------------------------------------------


@claim(IMAGING, "A GPU adds 99 million numbers in 3.1 milliseconds.", "Bytes over time, against the memory", WRONG)
def gpu_add() -> tuple[str, str]:
    seconds, moved = 3.1e-3, 3 * 4 * ADDED
    best = max(spec(card, "bandwidth") for card in ("GTX 1080", "GTX 1660 Ti"))
    return (
        verdict(moved / seconds <= best, "cannot be"),
        f"It takes {rate(moved, seconds)}. The page names two cards: "
        "{spec}`GTX 1080 bandwidth` and {spec}`GTX 1660 Ti bandwidth`.",
    )


@claim(
    IMAGING,
    "A CPU takes 320 milliseconds for that.",
    "The same addition, with and without a new result",
    f"{SETUP}/02_first_speedup",
)
def cpu_add() -> tuple[str, str]:
    a, out = np.ones(ADDED // 8, np.float32), np.ones(ADDED // 8, np.float32)
    fresh, kept = (measure(lambda to=to: np.add(a, a, out=to), budget=1) for to in (None, out))
    claimed = 3 * 4 * ADDED / 0.320
    return (
        verdict(3 * a.nbytes / kept.median < 2 * claimed, "not this"),
        f"It is {quantity(claimed, 'B/s')}. Here, on one core, {rate(3 * a.nbytes, fresh.median)} into new memory, and "
        f"{rate(3 * a.nbytes, kept.median)} into memory that is there: it timed the system handing out pages.",
    )


@claim(
    IMAGING,
    'So the GPU is "up to 100x" faster.',
    "The way to the GPU and back, at its slot's limit",
    f"{DEVICES}/05_transfers",
)
def hundred_times() -> tuple[str, str]:
    there_and_back = 3 * 4 * ADDED / spec("PCIe 3 x16", "bandwidth")
    times = 0.320 / (3.1e-3 + there_and_back)
    return (
        verdict(times >= 99, "true, but"),
        f"By its own two times, {0.320 / 3.1e-3:.0f} ×. With two vectors sent and one brought back at "
        f"{{spec}}`PCIe 3 x16 bandwidth`, the same two times give {times:.1f} ×.",
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


@claim(
    IMAGING,
    "Calling `.cuda()` on the model and `.to(device)` on the data suits any machine.",
    "Run it where there is no GPU",
    MOVING,
)
def mixed_calls() -> tuple[str, str]:
    if torch.cuda.is_available():
        return "true, but", "This machine has a GPU. Without one, `.cuda()` raises while `.to('cpu')` works."
    return "not so", raised(lambda: nn.Linear(2, 2).cuda()) + "."


@claim(IMAGING, "Install the CUDA toolkit first.", "Compile a kernel with what pip has brought", "/install")
def toolkit() -> tuple[str, str]:
    by = from_pip("nvidia-cuda-nvrtc", "nvidia-cuda-nvcc")
    made = ptx.compile(add_one, "void(float32[::1])").mix["add.f32"]
    return (
        verdict(not (by and made), "not so"),
        f"Compiled, by {' and '.join(f'`{name}`' for name in by)} from pip. PyTorch's wheels bring what they need, "
        "too. Only the driver must be there.",
    )


@claim(IMAGING, "You have now trained a neural network.", "Count layers that take data as input", "/vocabulary")
def network() -> tuple[str, str]:
    from firstlight.imaging import GridCoords, GriddedNet

    model = GriddedNet(GridCoords(cell_size=0.03, npix=180))
    sizes = [tuple(parameter.shape) for parameter in model.parameters()]
    return (
        verdict(sizes != [(1, 180, 180)], "not so"),
        f"The model has one parameter, of shape {sizes[0]}: the image. It was fitted to the data, "
        "by maximum likelihood with priors; nothing was learned that applies to other data.",
    )


@claim(IMAGING, "`nll_gridded` is a negative log-likelihood.", "Pure noise of known size against it", "/vocabulary")
def likelihood() -> tuple[str, str]:
    from firstlight.imaging.losses import nll

    noise = np.random.default_rng(1).normal(0, 0.5, (2, 100_001))
    got = nll(torch.zeros(100_001), torch.from_numpy(noise[0] + 1j * noise[1]), torch.full((100_001,), 4.0)).item()
    true = 0.5 * float((4 * noise**2).sum())
    return (
        verdict(math.isclose(got, true, rel_tol=0.1), "not so"),
        f"It gives {got:.3f}; the sum in the exponent is {true:,.0f}. It is a reduced chi², which MPoL "
        "has since called it: a λ that balances one does not balance the other.",
    )


# -- An introductory notebook --------------------------------------------------------------------------------------


@claim(
    NOTEBOOK,
    "A CPU can only process one thing at a time.",
    "Processor time over time on the clock",
    f"{SETUP}/03_what_is_a_gpu",
)
def one_thing() -> tuple[str, str]:
    a = torch.ones(1001, 1001)
    at_once = measure(torch.mm, a, a, flops=2 * 1001**3, budget=1)
    loop = measure(lambda: sum(x * x for x in range(10_001)), budget=0.5)
    per_core = 2 * 1001**3 / at_once.median / max(at_once.cores, 1) / (2 * 10_001 / loop.median)
    return (
        verdict(at_once.cores <= 1.1 and per_core < 2, "not so"),
        f"A matrix product kept {at_once.cores:.1f} of {torch.get_num_threads()} cores busy here, and each did "
        f"{per_core:,.0f} × the sums of a Python loop: several numbers an instruction, several instructions at once.",
    )


@claim(NOTEBOOK, "After `x.to('cuda:0')`, `x` is on the GPU.", "Move it, and ask where it is", MOVING)
def dropped() -> tuple[str, str]:
    x = torch.ones(3)
    x.to("meta")
    return verdict(x.device.type == "meta", "not so"), f"`x.to('meta')` was called; `x.device` is `{x.device}`."


@claim(NOTEBOOK, "A GPU that is not there gives the error *invalid device string*.", "Ask for one", MOVING)
def invalid_string() -> tuple[str, str]:
    absent = raised(lambda: torch.ones(1).to(f"cuda:{torch.cuda.device_count()}"))
    return (
        verdict("device string" in absent, "not so"),
        f"{absent}. A string that names no kind of device gives {raised(lambda: torch.device('gpu'))}.",
    )


@claim(
    NOTEBOOK,
    "This convolutional network trains on 32 × 32 pictures.",
    "Make a step of training",
    f"{DEVICES}/12_training_a_cnn",
)
def fits() -> tuple[str, str]:
    model = course_network()
    before = model[0].weight.detach().clone()
    loss = nn.functional.cross_entropy(model(torch.rand(4, 3, 32, 32)), torch.arange(4))
    loss.backward()
    torch.optim.Adam(model.parameters()).step()
    learned = bool(loss.isfinite()) and not torch.equal(before, model[0].weight)
    smaller = raised(lambda: model(torch.rand(4, 3, 16, 16)))
    return verdict(learned and bool(smaller)), f"A step changed its weights. Pictures of 16 × 16 do not fit: {smaller}."


@claim(NOTEBOOK, "It is the biggest network so far.", "Count its parameters", f"{DEVICES}/12_training_a_cnn")
def biggest() -> tuple[str, str]:
    count = sum(parameter.numel() for parameter in course_network().parameters())
    return "true, but", (
        f"{count:,} parameters, {quantity(4 * count, 'B')}: an epoch of it times the loading of the data."
    )


@claim(
    NOTEBOOK,
    "Vary the batch size, to see what moving data costs.",
    "Share of the time, by a profiler",
    f"{DEVICES}/12_training_a_cnn",
)
def batch_size() -> tuple[str, str]:
    sizes = (4, 64, 1024)
    steps = [math.ceil(50_000 / size) for size in sizes]
    sent = [steps_ * size for steps_, size in zip(steps, sizes, strict=True)]
    return (
        verdict(len(set(steps)) == 1, "not this"),
        f"Batches of {sizes[0]} and {sizes[-1]} send the same pictures ({sent[0]:,} and {sent[-1]:,}), but make "
        f"{steps[0]:,} and {steps[-1]:,} steps: every cost of a step changes, not that of moving alone.",
    )


@claim(
    NOTEBOOK,
    "Logging the loss at each step is harmless.",
    "A queue that is read at every step, and at the end",
    f"{DEVICES}/02_queues",
)
def logging_each_step() -> tuple[str, str]:
    return "not so", (
        "On a GPU it waits for the queue each time. With a toy queue on the CPU, reading at the end was "
        '{timing}`queues speedup "toy queue, read at the end"/"toy queue, read each step" @cpu` as fast.'
    )


# -- A PyTorch boot camp -------------------------------------------------------------------------------------------


@claim(
    BOOT_CAMP,
    "The iris network takes 0.467 seconds for 100 epochs on a GPU, which shows its speed.",
    "The same network on a CPU",
    f"{DEVICES}/07_when_the_gpu_wins",
)
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
        verdict(busy > 0.467, "not this"),
        f"{quantity(busy, 's')} of one core's time here, for as many numbers in the same shapes. All of it is "
        f"{quantity(flops, 'FLOP')}: what takes time is asking for it.",
    )


@claim(BOOT_CAMP, "`torch.cuda.memory_cached` tells what PyTorch holds.", "Look for the name", f"{DEVICES}/06_memory")
def memory_cached() -> tuple[str, str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        there = hasattr(torch.cuda, "memory_cached")
        if there and torch.cuda.is_available():
            torch.cuda.memory_cached()
    word = told[0].category.__name__ if told else "a `FutureWarning` where there is a GPU"
    return (
        "true, but",
        f"It gives {word}: the name is `memory_reserved` (there: {hasattr(torch.cuda, 'memory_reserved')}).",
    )


@claim(
    BOOT_CAMP,
    "A tensor of two numbers takes 512 bytes.",
    "Two meters, and the rule between them",
    f"{DEVICES}/06_memory",
)
def rounding() -> tuple[str, str]:
    needed = torch.ones(2).nbytes
    return "true, but", (
        f"It needs {needed}. The allocator hands out multiples of 512: a thousand such tensors take "
        f"{1000 * -(-needed // 512) * 512:,} bytes, one tensor of a thousand {-(-1000 * needed // 512) * 512:,}."
    )


@claim(BOOT_CAMP, "`gpumodel = model.cuda()` makes a second model.", "Change one, look at the other", MOVING)
def second_model() -> tuple[str, str]:
    model, tensor = nn.Linear(2, 2), torch.zeros(2)
    for moved in (model.double().weight, tensor.double()):  # a move to another type shows it without a GPU
        nn.init.constant_(moved, 7.0)
    one, other = (bool((held == 7).all()) for held in (model.weight, tensor))
    return verdict(not one, "not so"), (
        f"What `.double()` returned, which moves as `.cuda()` does, was filled with sevens. "
        f"Now the model holds sevens: {one}. A tensor, treated in the same way: {other}."
    )


@claim(BOOT_CAMP, "`losses.append(loss)` collects numbers.", "See what hangs on each", f"{DEVICES}/06_memory")
def kept_graphs() -> tuple[str, str]:
    held: list[int] = []
    weight = torch.ones(1000, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: held.append(t.nbytes) or t, lambda t: t):
        losses = [(weight * torch.ones(1000)).square().sum() for _ in range(10)]
    return (
        verdict(all(loss.grad_fn is None for loss in losses), "not so"),
        f"Ten losses of {losses[0].nbytes} bytes keep {sum(held):,} bytes alive here, until `backward()` frees them; "
        f"`loss.item()` keeps none.",
    )


@claim(BOOT_CAMP, "You need an NVIDIA GPU.", "The kinds of device that PyTorch knows", f"{SETUP}/01_find_your_gpu")
def nvidia_only() -> tuple[str, str]:
    others = [
        kind for kind in ("cuda", "mps", "xpu", "hpu", "mtia") if not raised(lambda kind=kind: torch.device(kind))
    ]
    return verdict(
        others == ["cuda"], "not so"
    ), f"It takes {', '.join(f'`{kind}`' for kind in others)}; AMD's cards are `cuda` too."


# -- A course notebook on kernels ----------------------------------------------------------------------------------


@claim(
    COURSE,
    "PyTorch multiplies a 100 000 × 100 matrix by a vector in 10.4 microseconds.",
    "Bytes over time, against the memory",
    WRONG,
)
def torch_matvec() -> tuple[str, str]:
    return (
        verdict(MATRIX / 10.4e-6 <= spec("GTX 1650 GDDR6", "bandwidth"), "cannot be"),
        f"It takes {rate(MATRIX, 10.4e-6)}. The card has {{spec}}`GTX 1650 bandwidth`: only the asking was timed.",
    )


@claim(COURSE, "Numba does it in 264 microseconds.", "Bytes over time, against the memory", WRONG)
def numba_matvec() -> tuple[str, str]:
    return (
        verdict(MATRIX / 264e-6 <= spec("GTX 1650 GDDR6", "bandwidth"), "cannot be", "true, but"),
        f"It takes {rate(MATRIX, 264e-6)}. The card was sold with {{spec}}`GTX 1650 bandwidth`, which cannot, and "
        "later with {spec}`GTX 1650 GDDR6 bandwidth`, which can.",
    )


@claim(COURSE, "Adding two vectors takes Numba 304 microseconds.", "Its bytes, beside those of the product", WRONG)
def numba_add() -> tuple[str, str]:
    moved = 3 * 4 * 100_000
    return "not this", (
        f"It moves {MATRIX / moved:.0f} × fewer bytes than the product, and takes longer: what both times show "
        "is how long a launch takes."
    )


@claim(COURSE, 'Against 1.25 milliseconds on a CPU, 264 microseconds are "about 9X".', "Divide", WRONG)
def nine_times() -> tuple[str, str]:
    times = 1.25e-3 / 264e-6
    return verdict(round(times) == 9), f"{times:.1f} ×."


@claim(COURSE, "`u[i] += …` gives the product.", "Launch it three times, as a timing loop does", f"{WRONG}")
def accumulates() -> tuple[str, str]:
    x, out = np.ones(33, np.float32), np.zeros(33, np.float32)
    for _ in range(3):
        trace(accumulate, 2, 32, x, out)
    return verdict(bool((out == x).all()), "not so"), f"After three launches, {out[0]:g} stands where {x[0]:g} should."


@claim(COURSE, "`tmp = 0.` sums in float32.", "Read what the compiler made", f"{KERNELS}/07_what_the_compiler_did")
def doubles() -> tuple[str, str]:
    signature = "void(float32[:,::1], float32[::1], float32[::1])"
    plain, single = (ptx.compile(kernel, signature).mix for kernel in (matvec_double, matvec_single))
    in_double = sum(count for name, count in plain.items() if name.endswith("f64"))
    return (
        verdict(in_double == 0, "not so"),
        f"{in_double} instructions work on float64 (with `np.float32(0)`: "
        f"{sum(count for name, count in single.items() if name.endswith('f64'))}).",
    )


@claim(
    COURSE,
    "The GPU's result differs because its arithmetic is less exact.",
    "Both sums against float64",
    f"{KERNELS}/07_what_the_compiler_did",
)
def less_exact() -> tuple[str, str]:
    generator = np.random.default_rng(1)
    a, v = (generator.standard_normal(shape).astype(np.float32) for shape in ((2001, 100), 100))
    true = a.astype(float) @ v.astype(float)
    scale = np.abs(a.astype(float)) @ np.abs(v.astype(float))
    numpy = np.abs(a @ v - true) / scale
    kernel = np.abs((a * v.astype(float)).sum(axis=1).astype(np.float32) - true) / scale
    numpy_error, kernel_error = (float(np.sqrt(np.mean(error**2))) for error in (numpy, kernel))
    return (
        verdict(kernel_error > numpy_error, "not so"),
        f"Its sums in float64, by accident, err by {kernel_error:.1e} of the sum of sizes; "
        f"NumPy's in float32 by {numpy_error:.1e}.",
    )


@claim(
    COURSE,
    "One thread for each row is the way to divide the matrix.",
    "Count the pieces of memory that a load touches",
    f"{KERNELS}/01_first_kernel",
)
def uncoalesced() -> tuple[str, str]:
    a, v, out = np.ones((32, 100), np.float32), np.ones(100, np.float32), np.zeros(32, np.float32)
    by_row = trace(matvec_single, 1, 32, a, v, out).sectors_per_load["a"]
    by_column = trace(matvec_columns, 1, 32, np.ascontiguousarray(a.T), v, out).sectors_per_load["a"]
    return (
        verdict(by_row <= by_column, "true, but"),
        f"A load by 32 threads touches {by_row:g} pieces of 32 bytes. With the matrix stored the other way "
        f"round, {by_column:g}.",
    )


@claim(COURSE, "`t.storage()` shows where a tensor's numbers are.", "Call it", MOVING)
def storage() -> tuple[str, str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.ones(1).storage()
    return (
        verdict(not told, "true, but"),
        f"{len(told)} warning: {str(told[0].message).split('.')[0]}. `untyped_storage()` is the one to use."
        if told
        else "",
    )


@claim(
    COURSE,
    "A product of N rows gets N times as fast.",
    "The time that its bytes take, however many threads",
    f"{SETUP}/03_what_is_a_gpu",
)
def n_times() -> tuple[str, str]:
    least = MATRIX / spec("GTX 1650", "bandwidth")
    most = 1.25e-3 / least
    return verdict(
        most >= 100_000, "cannot be"
    ), f"By its own CPU time, its card can be {most:.1f} × as fast, not 100,000 ×."


# -- Notes on a textbook -------------------------------------------------------------------------------------------


@claim(
    TEXTBOOK,
    "A GPU makes ten products of 10 000 × 10 000 matrices in 0.001 seconds.",
    "Operations over time, against the card's",
    WRONG,
)
def ten_products() -> tuple[str, str]:
    flops = 10 * 2 * 10_000**3
    return (
        verdict(flops / 0.001 <= spec("H200", "fp32"), "cannot be"),
        f"It takes {rate(flops, 0.001, 'FLOP/s')}; an H200 has {{spec}}`H200 fp32`. "
        "Ten launches were timed, not ten products.",
    )


@claim(TEXTBOOK, "Squaring a matrix of random numbers ten times is a fair load.", "Square one", WRONG)
def overflow() -> tuple[str, str]:
    product = torch.rand(1001, 1001, generator=torch.Generator().manual_seed(1))
    for number in range(1, 11):
        product = product @ product
        if bool(product.isinf().any()):
            return "not so", f"Product {number} is infinite: the rest multiply infinities, and nobody looked."
    return "true", "All ten are finite."


@claim(
    TEXTBOOK,
    "Reading a value takes Python's lock, which stalls all GPUs.",
    "A second thread that counts meanwhile",
    f"{DEVICES}/02_queues",
)
def lock() -> tuple[str, str]:
    a = torch.ones(2001, 2001)
    kept, given = turns_during(lambda: sum(range(10_000_000))), turns_during(lambda: (a @ a).sum().item())
    return (
        verdict(given <= 10 * kept, "not so"),
        f"A second thread made {given:,} turns of a loop during a product and the reading of its sum, "
        f"and {kept:,} during a sum that keeps the lock. What waits is one thread, for one queue.",
    )


@claim(
    TEXTBOOK,
    "Send large batches rather than many small ones.",
    "Rates of small and large copies",
    f"{DEVICES}/05_transfers",
)
def large_batches() -> tuple[str, str]:
    small, large = torch.ones(16), torch.ones(2**20)
    rates = [t.nbytes / measure(torch.clone, t, budget=0.5).median for t in (small, large)]
    return (
        verdict(rates[1] > 2 * rates[0]),
        f"Even within the CPU's memory, {quantity(large.nbytes, 'B')} at once move at {rates[1] / rates[0]:.0f} × "
        f"the rate of {small.nbytes} B.",
    )


@claim(TEXTBOOK, "Tensors on two devices make the framework crash.", "Add them, and go on", MOVING)
def same_device() -> tuple[str, str]:
    said = raised(lambda: torch.ones(2) + torch.ones(2, device="meta"))
    return verdict(not said, "not so"), f"An ordinary exception, that a program can catch. {said}."


@claim(TEXTBOOK, "The trainer keeps working without a GPU.", "The same indentation, with no GPU listed", MOVING)
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
    return verdict(hasattr(trainer, "model"), "not so"), raised(lambda: trainer.model) + "."


# -- Kernels of the tests ------------------------------------------------------------------------------------------


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += np.float32(1)


@cuda.jit
def accumulate(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] += x[i]


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
