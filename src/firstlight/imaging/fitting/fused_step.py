"""One step of a fit, written down: the loss of the usual model and its gradient, in a few passes over the pixels.

The modules of this package say what is computed, and autograd what follows from it, in over a hundred kernels and as
many arrays. Here the same is done by hand: softplus and smoothing, a real FFT, the data, the FFT back, regularizers
and smoothing again. The tests compare the two forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from firstlight.imaging.data.datasets import GriddedDataset
from firstlight.imaging.fitting.exact import ExactLikelihood
from firstlight.imaging.fitting.pixel_passes import PASSES, cuda, gpu_passes, library
from firstlight.imaging.fourier.padding import CACHED
from firstlight.imaging.fourier.streaming import chunks
from firstlight.imaging.model.gridded_net import GriddedNet
from firstlight.imaging.model.losses import TV_image, entropy, sparsity

THREADS = 128  # of a block
has_gpu = cuda is not None and not library.config.ENABLE_CUDASIM and torch.version.hip is None
SETTINGS: dict[Callable[..., Tensor], set[str]] = {
    sparsity: set(),
    TV_image: {"epsilon"},
    entropy: {"prior", "tot_flux"},
}


def runs_on_gpu(cube: Tensor) -> bool:
    """Tell where the passes over a cube run."""
    return cube.is_cuda


def as_array(tensor: Tensor) -> Any:
    """Show a tensor as what Numba takes: the same memory."""
    if not tensor.is_cuda:
        return tensor.numpy()
    with cuda.gpus[tensor.get_device()]:
        return cuda.as_cuda_array(tensor)


def share_threads() -> None:
    """Have the passes take as many threads as PyTorch."""
    threads = torch.get_num_threads()
    library.set_num_threads(min(threads, library.config.NUMBA_NUM_THREADS))
    if (
        torch.get_num_threads() != threads
    ):  # Numba starts its threads now, and raises OpenMP's number, which is PyTorch's
        torch.set_num_threads(threads)


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
    """Tell whether this module has the loss of an objective's model, data and regularizers.

    Examples
    --------
    >>> from firstlight.imaging import GridCoords
    >>> from firstlight.imaging.fitting.objective import Objective
    >>> coords, ones = GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    >>> data = GriddedDataset(coords=coords, vis_gridded=ones, weight_gridded=ones, mask=ones.bool())
    >>> written_down(Objective(GriddedNet(coords), data, {"sparsity": (1e-2, sparsity)}, "gridded"))
    True
    """
    model, data = objective.model, objective.data
    if type(model) is not GriddedNet or model.bcube.pixel_mapping is not functional.softplus:
        return False
    cube = model.bcube.base_cube
    if isinstance(data, ExactLikelihood) and not (data.beam is None and data.reference.dtype == cube.dtype):
        return False
    return (
        (cube.device.type == "cpu" or (cube.is_cuda and has_gpu))
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
    >>> from firstlight.imaging.fitting.objective import Objective
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
        lines, margin = nchan * n, n // 16 * 16 + 16
        self.real = real = np.dtype(str(self.parameter.dtype).removeprefix("torch."))
        self.on_gpu, self.together = runs_on_gpu(self.parameter), nchan > 1 and not objective.separate
        self.gradient, self.bend = (self.new((lines, n), real) for _ in range(2))
        soft, self.image = (self.new(lines * n + 2 * margin, real) for _ in range(2))
        slope = soft  # which is not needed any more by then
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
        rules = self.put([terms.epsilon, terms.prior, np.finfo(real).eps], real)
        self.data = (Cells if isinstance(objective.data, GriddedDataset) else Exact)(self, objective)
        self.brighten = self.bind("brighten", self.parameter.detach().view(lines, n), self.bend, soft)
        self.smooth = self.bind("smooth", soft, self.bend, self.image)
        wanted = self.put([name is not None for name in terms.names], bool), self.put(strengths, real), rules
        self.regularize = self.bind("regularize", self.image, self.data.back.view(lines, n), *wanted, slope, self.sums)
        self.descend = self.bind("descend", slope, self.bend, self.gradient)

    def new(self, shape: Any, kind: Any) -> Tensor:
        """Make an array of zeros beside the parameters."""
        return self.put(np.zeros(shape), kind)

    def put(self, values: Any, kind: Any) -> Tensor:
        """Put numbers beside the parameters."""
        return torch.from_numpy(np.array(values, kind)).to(self.parameter.device)

    def updates(self, adam: torch.optim.Adam) -> Callable[[], object]:
        """Make further steps of PyTorch's Adam, in its own state, which its first step has made."""
        state, group = adam.state[self.parameter], adam.param_groups[0]
        rates = self.put([*group["betas"], group["lr"], group["eps"]], float)
        means = (state[name].view(self.bend.shape) for name in ("exp_avg", "exp_avg_sq"))
        parameter = self.parameter.detach().view(self.bend.shape)
        update = self.bind("update", self.gradient, *means, state["step"].view(1), rates, parameter)
        return lambda: (update(), state["step"].add_(1))

    def bind(self, name: str, *arrays: Tensor) -> Callable[..., None]:
        """Give a pass its arrays, the last ones perhaps when it is called."""
        start = partial(self.launch, name) if self.on_gpu else PASSES[name]
        bound = partial(start, *map(as_array, arrays))
        return lambda *more: bound(*map(as_array, more))

    def launch(self, name: str, *arrays: Any) -> None:
        """Launch a pass where the parameters are, in the order of what PyTorch does there."""
        if not self.parameter.is_cuda:  # but in a simulator
            gpu_passes()[name][len(self.bend), THREADS](*arrays)
            return
        with cuda.gpus[self.parameter.get_device()]:
            stream = cuda.external_stream(torch.cuda.current_stream(self.parameter.device).cuda_stream)
            gpu_passes()[name][len(self.bend), THREADS, stream](*arrays)

    def differentiate(self) -> Tensor:
        """Put the gradient into the parameter's ``grad``; return a row for the curves: loss, chi² and flux."""
        if not self.on_gpu:
            share_threads()
        self.parameter.grad = self.gradient.view(self.parameter.shape)
        self.brighten()
        self.smooth()
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
        kind = np.result_type(step.real, np.complex64)
        self.vis, self.pull = (step.new((nchan, n, half + 1), kind) for _ in range(2))
        self.ground, self.back = step.ground, step.gradient.view(nchan, n, n)  # of which only the last matters
        self.parts = [slice(None)] if step.on_gpu else list(chunks(nchan, max(1, CACHED // n**2)))
        self.residuals = step.bind(
            "compare",
            step.put(np.searchsorted(cells, np.arange(nchan * n + 1) * (half + 1)), np.int64),
            step.put(cells, np.int64),
            step.put(mean, kind),
            step.put(total, step.real),
            step.put(twice * total, step.real),
            self.vis.view(-1),
            self.pull.view(-1),
            step.sums,
        )

    def refresh(self) -> None:
        """Leave all as it is: averages stay."""

    def compare(self) -> None:
        """Sum up chi² over twice the number of cells; leave its slope at each pixel in ``back``."""
        for at in self.parts:
            torch.fft.rfft2(self.ground[at], out=self.vis[at])
        self.residuals()
        for at in self.parts:
            torch.fft.irfft2(self.pull[at], s=self.ground.shape[-2:], norm="forward", out=self.back[at])


class Exact:
    """An exact likelihood about its reference: one pair of FFTs of twice the width."""

    def __init__(self, step: Step, objective: Any) -> None:
        self.likelihood: ExactLikelihood = objective.data
        scale = 1 / (2 * objective.nvis.double().cpu().numpy() * np.ones(len(step.ground)))
        self.scale, self.constant = step.put(scale, float), step.new((len(step.ground), 3, 1), float)
        self.reference, self.dirty, self.back = (torch.zeros_like(step.bend) for _ in range(3))
        self.delta = step.ground.new_zeros(*step.ground.shape[:2], self.likelihood.width)
        self.centre: Tensor | None = None
        self.depart = step.bind("depart", step.image, self.reference, self.delta)
        self.residuals = step.bind("compare_exactly", self.delta, self.dirty, self.scale, self.back, step.sums)

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
