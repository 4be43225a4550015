"""One step of a fit, written down: the loss of the usual model and its gradient, in a few passes over the pixels.

The modules of this package say what is computed, and autograd what follows from it, in over a hundred kernels and as
many arrays. Here the same is done by hand: softplus and smoothing, a real FFT, the data, the FFT back, regularizers
and smoothing again. The tests compare the two forms.

A pass is a plain function with two loops, over `rows` and over the `columns` of a row, which depend on nothing that
another row writes. It is written once. On a processor Numba shares the rows out among threads, and makes vector
instructions of the columns; on a GPU a row is a block, and a column a thread. Images are in ground order here, in flat
arrays with a margin at both ends, so that a neighbour is always there to be read, and is left out where it lies beyond
the edge; parameters and gradients are packed, as the model has them.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.datasets import GriddedDataset
from firstlight.imaging.exact import ExactLikelihood
from firstlight.imaging.losses import TV_image, entropy, sparsity
from firstlight.imaging.precomposed import GriddedNet

cuda: Any
try:
    from firstlight.kernels import cuda  # before Numba, which decides once whether its CUDA is a simulator
except RuntimeError:  # as it has decided, on a computer without a GPU
    cuda = None
library: Any = importlib.import_module("numba")  # whose types do not tell all that it has

# Without this error model a division may raise, and no loop becomes vector code.
FAST: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz", "arcp"}}
THREADS = 128  # of a block
SETTINGS: dict[Callable[..., Tensor], set[str]] = {
    sparsity: set(),
    TV_image: {"epsilon"},
    entropy: {"prior", "tot_flux"},
}

# What a pass is made of: on a processor as it is here, on a GPU as `gpu_passes` has it.
rows, columns = library.prange, range


def lane():
    """Return the number of the thread that takes a share of a row's columns."""
    return 0


def log1p(x):
    """Return ln(1 + x) of a number between 0 and 1."""
    return math.log1p(x)


def start(row, n):
    """Return where a row begins in a flat array; its margin keeps FFTs aligned."""
    return (n // 16 + 1) * 16 + row * n


def around(flat, row, n):
    """Return a row with its neighbours to the south and to the north, each a pixel longer at both ends."""
    at = start(row, n) - 1
    return flat[at - n : at + 2], flat[at : at + n + 2], flat[at + n : at + 2 * n + 2]


def smoothed(south, here, north, j, first, last, lowest, highest):
    """Mix (1/4, 1/2, 1/4) along both axes; the sky is empty beyond the first and the last column, and the edge rows."""
    real = here.dtype.type
    none = real(0)
    west = (none if lowest else south[j]) + here[j] + here[j] + (none if highest else north[j])
    middle = (none if lowest else south[j + 1]) + here[j + 1] + here[j + 1] + (none if highest else north[j + 1])
    east = (none if lowest else south[j + 2]) + here[j + 2] + here[j + 2] + (none if highest else north[j + 2])
    return ((west if j > first else none) + middle + middle + (east if j < last else none)) * real(1 / 16)


def direction(here, west, north, epsilon):
    """Return the gradient at a pixel over its length, and the length."""
    across, up = west - here, north - here
    length = math.sqrt(across * across + up * up + epsilon)
    return across / length, up / length, length


def brighten(parameters, growth, soft):
    """Make intensities, softplus, of parameters and their exponentials; in place of these, put their slopes."""
    n, half, real = parameters.shape[1], parameters.shape[1] // 2, parameters.dtype.type
    for row in rows(len(parameters)):
        at = start(row // n * n + (row + half) % n, n)
        for side in range(2):
            here, there = side * half, at + (1 - side) * half
            for j in columns(0, half):
                x, power = parameters[row, here + j], growth[row, here + j]
                bright = power > real(1)
                small = real(1) / power if bright else power
                soft[there + j] = x if x > real(20) else (x if bright else real(0)) + log1p(small)  # as torch
                inside = (real(1) if bright else small) / (real(1) + small)
                growth[row, here + j] = real(1) if x > real(20) else inside


def smooth(soft, image, ratio, rules):
    """Smooth the image; and compare it with the prior, for its entropy."""
    n = ratio.shape[1]
    for row in rows(len(ratio)):
        south, here, north = around(soft, row, n)
        out, lowest, highest = image[start(row, n) : start(row, n) + n], row % n == 0, row % n == n - 1
        for j in columns(0, n):
            out[j] = smoothed(south, here, north, j, 0, n - 1, lowest, highest)
            ratio[row, j] = max(out[j] / rules[1], rules[2])


def compare(starts, cell, data, weight, gain, vis, pull, sums):
    """Take chi² in cells, and what it pulls the visibilities with."""
    for row in rows(len(sums)):
        total = 0.0
        for k in columns(starts[row], starts[row + 1]):
            residual = vis[cell[k]] - data[k]
            total += weight[k] * (residual.real * residual.real + residual.imag * residual.imag)
            pull[cell[k]] = gain[k] * residual
        sums[row, lane(), 0] = total


def depart(image, reference, delta):
    """Take δ, an image less a reference, in the sky order that an exact likelihood has."""
    n = delta.shape[1]
    for row in rows(len(reference)):
        east = start(row, n) + n - 1
        for j in columns(0, n):
            delta[row // n, row % n, j] = image[np.uintp(east - j)] - reference[row, j]


def compare_exactly(delta, dirty, scale, back, sums, spread):
    """Take δ·(Tδ − 2R) of an exact likelihood, and the slope 2(Tδ − R), times a scale of the channel."""
    n = delta.shape[1]
    for row in rows(len(back)):
        channel, i, total, twice = row // n, row % n, 0.0, back.dtype.type(2 * scale[row // n])
        for j in columns(0, n):
            half = spread[channel, i, j] - dirty[row, j]
            total += np.float64(delta[channel, i, j]) * np.float64(half - dirty[row, j])
            back[row, np.uintp(n - 1 - j)] = twice * half
        sums[row, lane(), 0] = total * scale[channel]


def regularize(image, back, logarithm, terms, strengths, rules, slope, sums):
    """Add the slopes of sparsity, variation and entropy to those of the data; sum up the flux and the three.

    ``terms`` says which of them there are, ``strengths`` how much of each in each channel; ``rules`` are the softening
    of the variation, the prior of the entropy, and its least ratio.
    """
    n, real = back.shape[1], image.dtype.type
    for row in rows(len(back)):
        south, here, north = around(image, row, n)
        out, lowest, highest = slope[start(row, n) : start(row, n) + n], row % n == 0, row % n == n - 1
        sparse, varied, ordered = strengths[row // n, 0], strengths[row // n, 1], strengths[row // n, 2]
        none, flux, sizes, variation, order = real(0), real(0), real(0), real(0), real(0)
        for j in columns(0, n):
            x = here[j + 1]
            flux += x
            sizes += abs(x)
            out[j] = back[row, j] + sparse * (real(x > 0) - real(x < 0))
        if terms[1]:
            # A pixel has a length if there are one to its west, where columns come from, and one to its north.
            first, last, above = n if highest else 1, 0 if highest else n - 1, n if lowest else 1
            epsilon = rules[0]
            for j in columns(0, n):
                x = here[j + 1]
                across, up, length = direction(x, here[j], north[j + 1], epsilon)
                from_east = direction(here[j + 2], x, north[j + 2], epsilon)[0]
                from_south = direction(south[j + 1], south[j], x, epsilon)[1]
                variation += length if j >= first else none
                # One expression: what is chosen in a statement of its own keeps this loop from becoming vector code.
                out[j] += varied * (
                    (from_east if j < last else none)
                    - (across + up if j >= first else none)
                    + (from_south if j >= above else none)
                )
        if terms[2]:
            least = rules[1] * rules[2]
            for j in columns(0, n):
                x, log = here[j + 1], logarithm[row, j]
                order += x * log
                out[j] += ordered * (log + (real(1) if x >= least else real(0)))
        sums[row, lane(), 1], sums[row, lane(), 2] = flux, sizes
        sums[row, lane(), 3], sums[row, lane(), 4] = variation, order


def descend(slope, bend, gradient):
    """Smooth the slopes, and carry them from the intensities to the parameters."""
    n, half = bend.shape[1], bend.shape[1] // 2
    for row in rows(len(bend)):
        south, here, north = around(slope, row // n * n + (row + half) % n, n)
        lowest, highest = (row + half) % n == 0, (row + half) % n == n - 1
        for side in range(2):
            there, at = side * half, (1 - side) * half
            low, mid, high = south[at : at + half + 2], here[at : at + half + 2], north[at : at + half + 2]
            out, first, last = gradient[row, there : there + half], side - 1, half - 1 if side == 0 else half
            for j in columns(0, half):
                out[j] = smoothed(low, mid, high, j, first, last, lowest, highest) * bend[row, there + j]


PARTS = (start, around, smoothed, direction)
PASSES = (brighten, smooth, compare, depart, compare_exactly, regularize, descend)


@library.extending.overload(log1p, jit_options=FAST)
def log1p_in_vectors(x):
    """2 atanh(x / (2 + x)) as a series, of which Numba makes vector code."""
    real, terms = (np.float32, 8) if x == library.float32 else (np.float64, 17)
    coefficients = tuple(real(2 / (2 * k + 1)) for k in reversed(range(terms)))
    two, none = real(2), real(0)

    def implementation(x):
        s = x / (two + x)
        square, total = s * s, none
        for coefficient in coefficients:
            total = total * square + coefficient
        return s * total

    return implementation


globals().update({part.__name__: library.njit(forceinline=True, **FAST)(part) for part in (lane, *PARTS)})
CPU_PASSES = {each.__name__: library.njit(parallel=True, cache=True, nogil=True, **FAST)(each) for each in PASSES}


@cache
def gpu_passes() -> dict[str, Any]:
    """Compile the same functions for a GPU, or for its simulator: a row for a block, columns for its threads."""
    names: dict[str, Any] = globals() | {"log1p": math.log1p}
    parts = {"rows": blocks_rows, "columns": threads_columns, "lane": thread}
    for name, part in (parts | {part.__name__: part for part in PARTS}).items():
        names[name] = cuda.jit(FunctionType(part.__code__, names), device=True)
    return {each.__name__: cuda.jit(FunctionType(each.__code__, names)) for each in PASSES}


def blocks_rows(n):
    """Return the rows that are a block's."""
    return range(cuda.blockIdx.x, n, cuda.gridDim.x)


def threads_columns(first, last):
    """Return the columns that are a thread's."""
    return range(first + cuda.threadIdx.x, last, cuda.blockDim.x)


def thread():
    """Return the number of a thread in its block."""
    return cuda.threadIdx.x


def runs_on_gpu(cube: Tensor) -> bool:
    """Tell where the passes over a cube run."""
    return cube.is_cuda


class Terms(NamedTuple):
    """What sparsity, total variation and entropy are called in a loss, None where it has not got them; and numbers."""

    names: tuple[str | None, ...]
    epsilon: float = 1e-10
    prior: float = 1.0
    tot_flux: float = 10.0


def usual_terms(functions: Mapping[str, Callable[[Tensor], Tensor]]) -> Terms | None:
    """Read the usual regularizers, each given alone or as a ``partial`` with numbers; return None if there are others.

    Examples
    --------
    >>> usual_terms({"tv": TV_image, "order": partial(entropy, prior=0.1)})
    Terms(names=(None, 'tv', 'order'), epsilon=1e-10, prior=0.1, tot_flux=10.0)
    >>> usual_terms({"mine": lambda sky: sky.sum()})
    """
    names: dict[Any, str] = {}
    settings: dict[str, float] = {}
    for name, function in functions.items():
        keywords = function.keywords if isinstance(function, partial) and not function.args else {}
        core = getattr(function, "func", function)
        numbers = all(isinstance(value, int | float) for value in keywords.values())
        if core not in SETTINGS or core in names or not numbers or not keywords.keys() <= SETTINGS[core]:
            return None
        if core is entropy and not keywords.get("prior", 0) > 0:
            return None
        names[core] = name
        settings |= keywords
    return Terms(tuple(names.get(core) for core in SETTINGS), **settings)


def written_down(objective: Any) -> bool:
    """Tell whether this module has the loss of an objective's model, data and regularizers."""
    model, data = objective.model, objective.data
    if type(model) is not GriddedNet or model.bcube.pixel_mapping is not functional.softplus:
        return False
    cube = model.bcube.base_cube
    if isinstance(data, ExactLikelihood) and not (data.beam is None and data.reference.dtype == cube.dtype):
        return False
    return (
        cube.device.type in ("cpu", "cuda")
        and all(tensor.device == cube.device for tensor in data.buffers())
        and cube.dtype in (torch.float32, torch.float64)
        and cube.is_contiguous()
        and cube.numel() > 0
        and usual_terms(objective.functions) is not None
    )


class Step:
    """The loss of an objective that is `written_down`, and its gradient.

    Examples
    --------
    >>> from firstlight.imaging import GridCoords
    >>> from firstlight.imaging.objective import Objective
    >>> coords, ones = GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    >>> data = GriddedDataset(coords=coords, vis_gridded=ones, weight_gridded=ones, mask=ones.bool())
    >>> objective = Objective(GriddedNet(coords), data, {"sparsity": (1e-2, sparsity)}, "gridded")
    >>> step, optimizer = Step(objective), torch.optim.Adam(objective.model.parameters(), lr=0.1)
    >>> rows = []
    >>> for _ in range(3):
    ...     rows.append(step.differentiate())  # loss, chi² and flux
    ...     optimizer.step()
    >>> bool(rows[2][0] < rows[0][0])
    True
    """

    def __init__(self, objective: Any) -> None:
        terms = usual_terms(objective.functions)
        if terms is None or not written_down(objective):
            raise ValueError(
                "this loss is not written down: that takes a GriddedNet of float32 or float64 on the CPU or an NVIDIA "
                "GPU, data in the same place without a primary beam, and no other losses than sparsity, TV_image and "
                "entropy with a number as its prior, each once"
            )
        self.parameter: Tensor = objective.model.bcube.base_cube
        nchan, n, _ = self.parameter.shape
        lines, margin, real = nchan * n, n // 16 * 16 + 16, np.dtype(str(self.parameter.dtype).removeprefix("torch."))
        self.on_gpu, self.together = runs_on_gpu(self.parameter), nchan > 1 and not objective.separate
        self.gradient, self.growth, self.ratio = (self.new((lines, n), real) for _ in range(3))
        self.soft, self.image, self.slope = (self.new(lines * n + 2 * margin, real) for _ in range(3))
        self.ground = self.image[margin:-margin].view(nchan, n, n)
        self.sums = self.new((lines, THREADS if self.on_gpu else 1, 5), float)
        strengths = np.zeros((nchan, 3))
        for column, name in enumerate(terms.names):
            if name is not None:
                strengths[:, column] = torch.as_tensor(objective.strengths[name], dtype=torch.float64).cpu()
        strengths[:, 2] /= terms.tot_flux
        # Loss, chi² and flux, as sums of what the passes sum up: chi², the flux, and the three regularizers.
        meaning = np.zeros((nchan, 3, 5))
        meaning[:, 0, 2:], meaning[:, :2, 0], meaning[:, 2, 1] = strengths, 1, objective.coords.cell_size**2
        self.meaning = self.put(meaning, float)
        self.ordered = terms.names[2] is not None
        self.parameters = self.parameter.detach().view(lines, n)
        rules = self.put([terms.epsilon, terms.prior, np.finfo(real).eps], real)
        kinds = self.put([name is not None for name in terms.names], bool)
        self.data = (Cells if isinstance(objective.data, GriddedDataset) else Pixels)(self, objective)
        self.brighten = self.bind("brighten", self.parameters, self.growth, self.soft)
        self.smooth = self.bind("smooth", self.soft, self.image, self.ratio, rules)
        whole = self.image, self.data.back, self.ratio, kinds, self.put(strengths, real), rules, self.slope, self.sums
        self.regularize = self.bind("regularize", *whole)
        self.descend = self.bind("descend", self.slope, self.growth, self.gradient)

    def new(self, shape: Any, kind: Any) -> Tensor:
        """Make an array of zeros beside the parameters."""
        return self.put(np.zeros(shape), kind)

    def put(self, values: Any, kind: Any) -> Tensor:
        """Put numbers beside the parameters."""
        return torch.from_numpy(np.array(values, kind)).to(self.parameter.device)

    def bind(self, name: str, *arrays: Tensor) -> Callable[..., None]:
        """Give a pass its arrays, the last ones perhaps when it is called."""
        if self.parameter.is_cuda:
            return partial(self.launch, name, *arrays)
        start = partial(self.launch, name) if self.on_gpu else CPU_PASSES[name]
        bound = partial(start, *(array.numpy() for array in arrays))
        return lambda *more: bound(*(array.numpy() for array in more))

    def launch(self, name: str, *arrays: Any) -> None:
        """Launch a pass on a GPU, in the order of what PyTorch does."""
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream) if self.parameter.is_cuda else 0
        gpu_passes()[name][len(self.ratio), THREADS, stream](*arrays)

    def differentiate(self) -> Tensor:
        """Put the gradient into the parameter's ``grad``; return a row for the curves: loss, chi² and flux."""
        if not self.on_gpu:
            library.set_num_threads(min(torch.get_num_threads(), library.config.NUMBA_NUM_THREADS))
        self.parameter.grad = self.gradient.view(self.parameter.shape)
        torch.exp(self.parameters, out=self.growth)
        self.brighten()
        self.smooth()
        if self.ordered:
            self.ratio.log_()
        self.data.compare()
        self.regularize()
        self.descend()
        totals = self.sums.view(len(self.meaning), -1, 5).sum(1)
        row = torch.baddbmm(self.data.constant, self.meaning, totals[:, :, None])[..., 0]
        return torch.cat([row[:, :2].sum(0), row[:, 2]]) if self.together else row.T.reshape(-1)


class Cells:
    """Averages in cells, folded into the half of the Fourier plane that a real image needs.

    V(−u, −v) is the conjugate of V(u, v). Along u = 0, and along the last column, both halves are kept: there each
    average is divided between its cell and the mirror image, so that what goes back is Hermitian. Averages that fall
    together are averaged again, and what they differ by adds a constant to chi².
    """

    def __init__(self, step: Step, objective: Any) -> None:
        dataset: GriddedDataset = objective.data
        nchan, n, _ = step.ground.shape
        half, area = n // 2, dataset.coords.cell_size**2
        index = dataset.index.cpu().numpy()
        channel, row, column = index // n**2, index // n % n, index % n
        count = np.bincount(channel, minlength=nchan)[channel] if objective.separate else objective.ncell
        data = dataset.vis_indexed.cpu().numpy().astype(complex) / area
        weight = dataset.weight_indexed.cpu().numpy().astype(float) * area**2 / (2 * count)
        data *= 1 - 2 * ((row + column) % 2)  # the centre of the image is its middle, not its first pixel
        edge, flip = column % half == 0, column > half
        weight = np.where(edge, weight / 2, weight)
        mirrored = edge | flip
        cell = (channel * n + row) * (half + 1) + column
        mirror = (channel * n + -row % n) * (half + 1) + -column % n
        cell = np.concatenate([cell[~flip], mirror[mirrored]])
        data = np.concatenate([data[~flip], data[mirrored].conj()])
        weight = np.concatenate([weight[~flip], weight[mirrored]])
        cells, place = np.unique(cell[weight > 0], return_inverse=True)
        data, weight = data[weight > 0], weight[weight > 0]
        total = np.bincount(place, weight)
        mean = (np.bincount(place, weight * data.real) + 1j * np.bincount(place, weight * data.imag)) / total
        rest = np.bincount(cells[place] // (n * (half + 1)), weight * np.abs(data - mean[place]) ** 2, nchan)
        twice = np.where(cells % (half + 1) % half == 0, 2, 1)  # the way back counts the columns in between twice
        self.constant = step.put(rest[:, None, None] * [[1], [1], [0]], float)
        kind = {torch.float32: np.complex64, torch.float64: np.complex128}[step.ground.dtype]
        self.vis, self.pull = (step.new((nchan, n, half + 1), kind) for _ in range(2))
        self.ground, self.back = step.ground, torch.empty_like(step.ratio)
        real = np.dtype(str(step.ground.dtype).removeprefix("torch."))
        self.residuals = step.bind(
            "compare",
            step.put(np.searchsorted(cells, np.arange(nchan * n + 1) * (half + 1)), np.int64),
            step.put(cells, np.int64),
            step.put(mean, kind),
            step.put(total, real),
            step.put(twice * total, real),
            self.vis.view(-1),
            self.pull.view(-1),
            step.sums,
        )

    def refresh(self) -> None:
        """Leave all as it is: averages stay."""

    def compare(self) -> None:
        """Sum up chi² over twice the number of cells; leave its slope at each pixel in ``back``."""
        torch.fft.rfft2(self.ground, out=self.vis)
        self.residuals()
        shape = self.ground.shape
        torch.fft.irfft2(self.pull, s=shape[-2:], norm="forward", out=self.back.view(shape))


class Pixels:
    """An exact likelihood about its reference: one pair of FFTs of twice the width."""

    def __init__(self, step: Step, objective: Any) -> None:
        self.likelihood: ExactLikelihood = objective.data
        scale = 1 / (2 * objective.nvis.double().cpu().numpy() * np.ones(len(step.ground)))
        self.scale, self.constant = step.put(scale, float), step.new((len(step.ground), 3, 1), float)
        self.reference, self.dirty, self.back = (torch.zeros_like(step.ratio) for _ in range(3))
        self.delta = step.ground.new_zeros(*step.ground.shape[:2], self.likelihood.width)
        self.centre: Tensor | None = None
        self.depart = step.bind("depart", step.image, self.reference, self.delta)
        whole = self.delta, self.dirty, self.scale, self.back, step.sums
        self.residuals = step.bind("compare_exactly", *whole)

    def refresh(self) -> None:
        """Take over what changes when the likelihood is centred anew."""
        if self.centre is not self.likelihood.reference:
            self.centre = self.likelihood.reference
            self.reference.copy_(self.centre.view(self.reference.shape))
            self.dirty.copy_(self.likelihood.dirty.view(self.dirty.shape))
            self.constant[:, :2, 0] = (self.likelihood.c0 * self.scale)[:, None]

    def compare(self) -> None:
        """Sum up chi² over twice the number of visibilities; leave its slope at each pixel in ``back``."""
        self.refresh()
        self.depart()
        self.residuals(self.likelihood.convolve(self.delta))


def main() -> None:
    """Compile all passes for this processor, so that no fit has to."""
    from firstlight.imaging.objective import Objective

    u, coords, ones = np.array([0.0, 3e5, 6e5]), GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    cells = GriddedDataset(coords=coords, vis_gridded=ones + 0j, weight_gridded=ones, mask=ones.bool())
    for dtype in (torch.float32, torch.float64):
        exact = ExactLikelihood(u, u, np.ones(3, complex), np.ones(3), cell_size=0.1, npix=8, dtype=dtype)
        for data in (cells, exact):
            Step(Objective(GriddedNet(coords, base_cube=ones.to(dtype)), data, {}, "gridded")).differentiate()


if __name__ == "__main__":
    main()
