"""The fused step: the loss of the usual model and its gradient, in a few kernels over the pixels.

The modules of this package say what is computed, and autograd derives the gradient, in over a hundred operations and as
many arrays. Here the chain rule is written out by hand: softplus and Hann smoothing, a real FFT, χ², the FFT back,
regularizers, smoothing again and the derivative of softplus. The tests compare the two to the last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from firstlight_imaging.data.datasets import GriddedDataset
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fitting.fused_kernels import CPU_KERNELS, cuda, cuda_kernels, numba
from firstlight_imaging.fourier.padding import CACHED
from firstlight_imaging.model.gridded_net import GriddedNet
from firstlight_imaging.model.losses import TV_image, entropy, sparsity
from firstlight_imaging.streaming import chunks

THREADS = 128  # of a block
_HAS_NVIDIA_GPU = cuda is not None and torch.version.hip is None
_KEYWORDS: dict[Callable[..., Tensor], set[str]] = {
    sparsity: set(),
    TV_image: {"epsilon"},
    entropy: {"prior", "tot_flux"},
}


def _runs_on_gpu(cube: Tensor) -> bool:
    """Return whether the kernels over a cube run on a GPU."""
    return cube.is_cuda


def _numba_array(tensor: Tensor) -> Any:
    """Return a tensor's memory as an array that Numba takes."""
    if not tensor.is_cuda:
        return tensor.numpy()
    with cuda.gpus[tensor.get_device()]:
        return cuda.as_cuda_array(tensor)


def _match_torch_threads() -> None:
    """Give the kernels as many threads as PyTorch has."""
    threads = torch.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    if torch.get_num_threads() != threads:  # Numba has started its threads, and raised OpenMP's number: PyTorch's
        torch.set_num_threads(threads)


class _FusedRegularizers(NamedTuple):
    """The names that a loss gives to sparsity, total variation and entropy, or None; and their settings."""

    names: tuple[str | None, ...]
    epsilon: float = 1e-10
    prior: float = 1.0
    tot_flux: float = 10.0


def _fused_regularizers(functions: Mapping[str, Callable[[Tensor], Tensor]]) -> _FusedRegularizers | None:
    """Return the regularizers of a loss if the kernels have them all, else None.

    They have sparsity, total variation and entropy, each once, given alone or as a ``partial`` with numbers.

    Examples
    --------
    >>> _fused_regularizers({"tv": TV_image, "order": partial(entropy, prior=0.1)})
    _FusedRegularizers(names=(None, 'tv', 'order'), epsilon=1e-10, prior=0.1, tot_flux=10.0)
    >>> _fused_regularizers({"mine": lambda sky: sky.sum()})
    """
    names: dict[Any, str] = {}
    settings: dict[str, float] = {}
    for name, function in functions.items():
        keywords = function.keywords if isinstance(function, partial) and not function.args else {}
        core = getattr(function, "func", function)
        all_numbers = all(isinstance(value, int | float) for value in keywords.values())
        if core not in _KEYWORDS or core in names or not all_numbers or not keywords.keys() <= _KEYWORDS[core]:
            return None
        if core is entropy and not keywords.get("prior", 0) > 0:
            return None
        names[core] = name
        settings |= keywords
    return _FusedRegularizers(tuple(names.get(core) for core in _KEYWORDS), **settings)


def has_fused_step(objective: Any) -> bool:
    """Return whether `fit` takes the fused step for an objective; else it takes autograd.

    Both compute the same loss and gradient to rounding, and only differ in speed. The fused step is taken if all of
    these hold:

    - the model is a `GriddedNet` itself, not a subclass, whose pixel mapping is softplus, in float32 or float64;
    - the data are a `GriddedDataset`, or an `ExactLikelihood` without a primary beam and of the model's type;
    - the regularizers are `sparsity`, `TV_image` and `entropy`, each at most once, without a mask, and with a number as
      prior;
    - all of it lies on the CPU, or on one NVIDIA GPU for which Numba compiles.

    Your own regularizer, `TSV`, another model, an AMD or an Apple GPU are therefore fitted by autograd.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords
    >>> from firstlight_imaging.fitting.objective import Objective
    >>> coords, ones = GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    >>> data = GriddedDataset(coords=coords, vis_gridded=ones, weight_gridded=ones, mask=ones.bool())
    >>> has_fused_step(Objective(GriddedNet(coords), data, {"sparsity": (1e-2, sparsity)}, "gridded"))
    True
    >>> has_fused_step(Objective(GriddedNet(coords), data, {"mine": (1e-2, torch.sum)}, "gridded"))
    False
    """
    model, data = objective.model, objective.data
    if type(model) is not GriddedNet or model.bcube.pixel_mapping is not functional.softplus:
        return False
    cube = model.bcube.base_cube
    if isinstance(data, ExactLikelihood) and not (data.beam is None and data.reference.dtype == cube.dtype):
        return False
    return (
        (cube.device.type == "cpu" or (cube.is_cuda and _HAS_NVIDIA_GPU))
        and all(tensor.device == cube.device for tensor in data.buffers())
        and cube.dtype in (torch.float32, torch.float64)
        and cube.is_contiguous()
        and cube.numel() > 0
        and _fused_regularizers(objective.functions) is not None
    )


class FusedStep:
    """The loss of an objective and its gradient, by the kernels of `fused_kernels`.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords
    >>> from firstlight_imaging.fitting.objective import Objective
    >>> coords, ones = GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    >>> data = GriddedDataset(coords=coords, vis_gridded=ones, weight_gridded=ones, mask=ones.bool())
    >>> objective = Objective(GriddedNet(coords), data, {"sparsity": (1e-2, sparsity)}, "gridded")
    >>> step, optimizer = FusedStep(objective), torch.optim.Adam(objective.model.parameters(), lr=0.1)
    >>> rows = []
    >>> for _ in range(3):
    ...     rows.append(step.value_and_grad())  # loss, chi² and flux
    ...     optimizer.step()
    >>> bool(rows[2][0] < rows[0][0])
    True
    """

    def __init__(self, objective: Any) -> None:
        regularizers = _fused_regularizers(objective.functions)
        if regularizers is None or not has_fused_step(objective):
            raise ValueError("no fused step: it takes a GriddedNet, sparsity, TV_image and entropy; see has_fused_step")
        self.parameter: Tensor = objective.model.bcube.base_cube
        nchan, n, _ = self.parameter.shape
        lines, margin = nchan * n, n // 16 * 16 + 16
        self.real = real = np.dtype(str(self.parameter.dtype).removeprefix("torch."))
        self.on_gpu, self.joint = _runs_on_gpu(self.parameter), nchan > 1 and not objective.separate
        self.gradient, self.softplus_grad = (self.zeros((lines, n), real) for _ in range(2))
        pixels, self.image = (self.zeros(lines * n + 2 * margin, real) for _ in range(2))
        image_grad = pixels  # which are not needed any more by then
        self.ground_image = self.image[margin:-margin].view(nchan, n, n)
        self.sums = self.zeros((lines, THREADS if self.on_gpu else 1, 4), float)
        strengths = np.zeros((nchan, 3))
        for column, name in enumerate(regularizers.names):
            if name is not None:
                strengths[:, column] = torch.as_tensor(objective.strengths[name], dtype=torch.float64).cpu()
        strengths[:, 2] /= regularizers.tot_flux
        # Loss, chi² and flux are linear in what the kernels sum up: chi², the flux (and sparsity), variation, entropy.
        coefficients = np.zeros((nchan, 3, 4))
        coefficients[:, 0, 1:], coefficients[:, :2, 0] = strengths, 1
        coefficients[:, 2, 1] = objective.coords.cell_size**2
        self.coefficients = self.tensor(coefficients, float)
        constants = self.tensor([regularizers.epsilon, regularizers.prior, np.finfo(real).eps], real)
        used = self.tensor([name is not None for name in regularizers.names], bool)
        gridded = isinstance(objective.data, GriddedDataset)
        self.data = (_GriddedChiSquared if gridded else _ExactChiSquared)(self, objective)
        chi2_grad = self.data.image_grad.view(lines, n)
        self.softplus = self.bind("softplus", self.parameter.detach().view(lines, n), self.softplus_grad, pixels)
        self.hann_smooth = self.bind("hann_smooth", pixels, self.softplus_grad, self.image)
        terms = used, self.tensor(strengths, real), constants
        self.regularizers = self.bind("regularizers", self.image, chi2_grad, *terms, image_grad, self.sums)
        self.chain_rule = self.bind("chain_rule_to_parameters", image_grad, self.softplus_grad, self.gradient)

    def zeros(self, shape: Any, dtype: Any) -> Tensor:
        """Return zeros on the device of the parameters."""
        return self.tensor(np.zeros(shape), dtype)

    def tensor(self, values: Any, dtype: Any) -> Tensor:
        """Return numbers on the device of the parameters."""
        return torch.from_numpy(np.array(values, dtype)).to(self.parameter.device)

    def adam_update(self, adam: torch.optim.Adam) -> Callable[[], None]:
        """Return the update of PyTorch's Adam as a kernel, which goes on in the state that Adam's first step made."""
        state, group = adam.state[self.parameter], adam.param_groups[0]
        hyperparameters = self.tensor([*group["betas"], group["lr"], group["eps"]], float)
        averages = (state[name].view(self.gradient.shape) for name in ("exp_avg", "exp_avg_sq"))
        parameter = self.parameter.detach().view(self.gradient.shape)
        update = self.bind("adam_update", self.gradient, *averages, state["step"].view(1), hyperparameters, parameter)

        def step() -> None:
            update()
            state["step"].add_(1)

        return step

    def bind(self, name: str, *arrays: Tensor) -> Callable[..., None]:
        """Return a kernel with its arrays bound, the last ones perhaps when it is called."""
        kernel = partial(self.launch, name) if self.on_gpu else CPU_KERNELS[name]
        bound = partial(kernel, *map(_numba_array, arrays))
        return lambda *more: bound(*map(_numba_array, more))

    def launch(self, name: str, *arrays: Any) -> None:
        """Launch a kernel on the GPU of the parameters, in PyTorch's stream there."""
        if not self.parameter.is_cuda:  # where launches are simulated
            cuda_kernels()[name][len(self.gradient), THREADS](*arrays)
            return
        with cuda.gpus[self.parameter.get_device()]:
            stream = cuda.external_stream(torch.cuda.current_stream(self.parameter.device).cuda_stream)
            cuda_kernels()[name][len(self.gradient), THREADS, stream](*arrays)

    def value_and_grad(self) -> Tensor:
        """Put the gradient into the parameter's ``grad``; return a row of the curves: loss, chi² and flux."""
        if not self.on_gpu:
            _match_torch_threads()
        self.parameter.grad = self.gradient.view(self.parameter.shape)
        self.softplus()
        self.hann_smooth()
        self.data.chi_squared()
        self.regularizers()
        self.chain_rule()
        totals = self.sums.view(len(self.coefficients), -1, 4).sum(1)
        row = torch.baddbmm(self.data.constant, self.coefficients, totals[:, :, None])[..., 0]
        return torch.cat([row[:, :2].sum(0), row[:, 2]]) if self.joint else row.T.reshape(-1)


class _GriddedChiSquared:
    """The gridded chi², its data folded into the half of the Fourier plane that a real image needs.

    V(−u, −v) is the conjugate of V(u, v). Along u = 0, and along the last column, both halves are kept: there each
    average is divided between its cell and the mirror image, so that the gradient is Hermitian. Averages that fall
    together are averaged again, and their scatter adds a constant to chi².
    """

    def __init__(self, step: FusedStep, objective: Any) -> None:
        dataset: GriddedDataset = objective.data
        nchan, n, _ = step.ground_image.shape
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
        cells, inverse = np.unique(cell[weight > 0], return_inverse=True)
        data, weight = data[weight > 0], weight[weight > 0]
        total = np.bincount(inverse, weight)
        mean = (np.bincount(inverse, weight * data.real) + 1j * np.bincount(inverse, weight * data.imag)) / total
        scatter = np.bincount(cells[inverse] // (n * (half + 1)), weight * np.abs(data - mean[inverse]) ** 2, nchan)
        twice = np.where(cells % (half + 1) % half == 0, 2, 1)  # the inverse FFT counts the columns in between twice
        self.constant = step.tensor(scatter[:, None, None] * [[1], [1], [0]], float)
        kind = np.result_type(step.real, np.complex64)
        self.vis, self.vis_grad = (step.zeros((nchan, n, half + 1), kind) for _ in range(2))
        # The gradient of chi² lies where the final gradient is written later.
        self.ground_image, self.image_grad = step.ground_image, step.gradient.view(nchan, n, n)
        self.channels = [slice(None)] if step.on_gpu else list(chunks(nchan, max(1, CACHED // n**2)))
        self.kernel = step.bind(
            "gridded_chi_squared",
            step.tensor(np.searchsorted(cells, np.arange(nchan * n + 1) * (half + 1)), np.int64),
            step.tensor(cells, np.int64),
            step.tensor(mean, kind),
            step.tensor(total, step.real),
            step.tensor(twice * total, step.real),
            self.vis.view(-1),
            self.vis_grad.view(-1),
            step.sums,
        )

    def refresh(self) -> None:
        """Do nothing: cell averages do not change."""

    def chi_squared(self) -> None:
        """Sum up the reduced chi², and put its gradient at each pixel into ``image_grad``."""
        for at in self.channels:
            torch.fft.rfft2(self.ground_image[at], out=self.vis[at])
        self.kernel()
        for at in self.channels:
            shape = self.ground_image.shape[-2:]
            torch.fft.irfft2(self.vis_grad[at], s=shape, norm="forward", out=self.image_grad[at])


class _ExactChiSquared:
    """The chi² of an exact likelihood, about its reference: one pair of FFTs of twice the width."""

    def __init__(self, step: FusedStep, objective: Any) -> None:
        self.likelihood: ExactLikelihood = objective.data
        nchan = len(step.ground_image)
        scale = 1 / (2 * objective.nvis.double().cpu().numpy() * np.ones(nchan))
        self.scale, self.constant = step.tensor(scale, float), step.zeros((nchan, 3, 1), float)
        self.reference, self.dirty, self.image_grad = (torch.zeros_like(step.gradient) for _ in range(3))
        self.delta = step.ground_image.new_zeros(*step.ground_image.shape[:2], self.likelihood.width)
        self.current: Tensor | None = None
        self.subtract = step.bind("subtract_reference", step.image, self.reference, self.delta)
        self.kernel = step.bind("exact_chi_squared", self.delta, self.dirty, self.scale, self.image_grad, step.sums)

    def refresh(self) -> None:
        """Copy what changes when the likelihood is re-centred."""
        if self.current is not self.likelihood.reference:
            self.current = self.likelihood.reference
            self.reference.copy_(self.current.view(self.reference.shape))
            self.dirty.copy_(self.likelihood.dirty.view(self.dirty.shape))
            self.constant[:, :2, 0] = (self.likelihood.c0 * self.scale)[:, None]

    def chi_squared(self) -> None:
        """Sum up the reduced chi², and put its gradient at each pixel into ``image_grad``."""
        self.refresh()
        self.subtract()
        self.kernel(self.likelihood.convolve_with_psf(self.delta))
