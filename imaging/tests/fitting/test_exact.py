from dataclasses import dataclass

import numpy as np
import pytest
import torch
from direct import ARCSEC, CELL, baselines, field_filling, ratio_error, relative_error, sky_of, vis_of
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from firstlight_imaging.fitting import exact
from firstlight_imaging.fitting.exact import DirtyLikelihood, ExactLikelihood
from firstlight_imaging.fourier import nufft

NPIX, NVIS = 32, 1000


@dataclass
class Observation:
    """A field-filling sky, its noisy visibilities, and the truth about any image."""

    sky: np.ndarray
    u: np.ndarray
    v: np.ndarray
    weight: np.ndarray
    data: np.ndarray
    beam: np.ndarray | float = 1.0
    factor: np.ndarray | float = 1.0

    def model(self, image) -> np.ndarray:
        return self.factor * vis_of(np.asarray(image, dtype=np.float64) * self.beam, self.u, self.v)

    def chi_squared(self, image) -> np.ndarray:
        return (self.weight * np.abs(self.data - self.model(image)) ** 2).sum(-1)

    def gradient(self, image) -> np.ndarray:
        back = self.weight * np.conj(self.factor) * (self.data - self.model(image))
        return -2 * self.beam * sky_of(np.broadcast_to(back, self.data.shape), self.u, self.v, image.shape[-1])

    def likelihood(self, dtype: torch.dtype = torch.float64, **options) -> ExactLikelihood:
        extra = {
            name: getattr(self, name) for name in ("beam", "factor") if isinstance(getattr(self, name), np.ndarray)
        }
        return ExactLikelihood(
            self.u, self.v, self.data, self.weight, CELL, self.sky.shape[-1], dtype=dtype, **extra, **options
        )


def observe(snr: float, nchan: int = 1, own_uv: bool = False, seed: int = 0, **extra) -> Observation:
    """Observe at a signal-to-noise ``snr`` a visibility (rms), with weights that differ by a factor of 100."""
    rng = np.random.default_rng(seed + 100)
    u, v = baselines(NVIS, seed)
    if own_uv:
        stretch = 1 + 0.01 * np.arange(nchan)[:, None]
        u, v = u * stretch, v * stretch
    seen = Observation(field_filling(nchan, NPIX, seed), u, v, np.ones(NVIS), np.zeros((nchan, NVIS)), **extra)
    vis = seen.model(seen.sky)
    sigma = rng.uniform(0.3, 3, NVIS)
    sigma *= np.sqrt((np.abs(vis / sigma) ** 2).mean()) / snr
    seen.weight = 1 / sigma**2
    seen.data = vis + sigma * (rng.standard_normal(vis.shape) + 1j * rng.standard_normal(vis.shape))
    return seen


def value_and_gradient(likelihood: ExactLikelihood, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    image = image.clone().requires_grad_()
    value = likelihood.chi_squared(image)
    value.sum().backward()
    return value.detach(), image.grad


def gradient_error(gradient: torch.Tensor, seen: Observation, image) -> float:
    """The gradient's error over the gradient at the true sky, which is made of noise alone."""
    off = gradient.double().numpy() - seen.gradient(np.asarray(image, dtype=np.float64))
    return float(np.linalg.norm(off) / np.linalg.norm(seen.gradient(seen.sky)))


@pytest.mark.parametrize(("snr", "nchan", "own_uv"), [(1, 1, False), (10, 3, True), (100, 3, False)])
def test_float64_is_the_direct_sum(snr: float, nchan: int, own_uv: bool) -> None:
    seen = observe(snr, nchan, own_uv)
    likelihood = seen.likelihood()
    for image in (torch.tensor(seen.sky), torch.tensor(field_filling(nchan, NPIX, seed=5))):
        value, gradient = value_and_gradient(likelihood, image)
        assert value.dtype == torch.float64
        assert ratio_error(value, seen.chi_squared(image)) < 1e-10
        assert gradient_error(gradient, seen, image) < 1e-8


def at_distance(share: float, likelihood: ExactLikelihood, seed: int = 3) -> torch.Tensor:
    """An image as far from the reference as makes δ·Tδ this share of c₀, in each channel."""
    away = torch.tensor(np.random.default_rng(seed).uniform(-1, 1, likelihood.reference.shape))
    away = away.to(likelihood.reference)
    curved = (away * likelihood.normal_operator(away)).sum((-2, -1), keepdim=True)
    return likelihood.reference + away * (share * likelihood.c0[:, None, None] / curved).sqrt().to(away)


@pytest.mark.parametrize(("snr", "nchan"), [(1, 1), (100, 2), (1e4, 1)])
def test_recentred_float32_is_exact_wherever_no_recentring_is_due(snr: float, nchan: int) -> None:
    seen = observe(snr, nchan, own_uv=nchan > 1)
    likelihood = seen.likelihood(torch.float32)
    likelihood.recentre(torch.tensor(seen.sky))
    for share in (0, 0.01, 1, 3):
        image = at_distance(share, likelihood)
        assert not likelihood.needs_recentring(image)
        value, gradient = value_and_gradient(likelihood, image)
        assert gradient.dtype == torch.float32
        assert ratio_error(value, seen.chi_squared(image)) < 1e-7
        assert gradient_error(gradient, seen, image) < 1e-5


def test_float32_about_an_empty_reference_fails_and_is_told_to_recentre() -> None:
    seen = observe(600)
    likelihood = seen.likelihood(torch.float32)
    image = torch.tensor(seen.sky, dtype=torch.float32)
    value, gradient = value_and_gradient(likelihood, image)
    assert ratio_error(value, seen.chi_squared(image)) > 1e-4
    assert gradient_error(gradient, seen, image) > 1e-5
    assert likelihood.needs_recentring(image)
    likelihood.recentre(image)
    assert not likelihood.needs_recentring(image)


def test_reference_is_rounded_before_its_visibilities_are_made() -> None:
    seen = observe(600)
    likelihood = seen.likelihood(torch.float32)
    likelihood.recentre(torch.tensor(seen.sky))
    rounded = torch.tensor(seen.sky, dtype=torch.float32)
    assert torch.equal(likelihood.reference, rounded)
    assert ratio_error(likelihood.c0, seen.chi_squared(rounded)) < 1e-10
    rounded += 1  # the reference is a copy
    assert not torch.equal(likelihood.reference, rounded)


def test_second_derivative_is_twice_the_normal_operator() -> None:
    seen = observe(5, nchan=2, own_uv=True)
    likelihood = seen.likelihood()
    image = torch.tensor(seen.sky, requires_grad=True)
    way = torch.tensor(field_filling(2, NPIX, 1))
    (gradient,) = torch.autograd.grad(likelihood(image), image, create_graph=True)
    (bent,) = torch.autograd.grad((gradient * way).sum(), image)
    expected = 2 * likelihood.normal_operator(way)
    assert (bent - expected).abs().max() < 1e-13 * expected.abs().max()


@pytest.mark.parametrize("own_uv", [True, False])
def test_normal_operator_is_the_direct_one(own_uv: bool) -> None:
    seen = observe(20, nchan=2, own_uv=own_uv)
    likelihood = seen.likelihood()
    a = torch.tensor(field_filling(2, NPIX, 1))
    direct = sky_of(seen.weight * vis_of(a, seen.u, seen.v), seen.u, seen.v, NPIX)
    assert np.abs(likelihood.normal_operator(a).numpy() - direct).max() < 1e-12 * np.abs(direct).max()


@pytest.mark.parametrize(("dtype", "each_channel"), [(torch.float64, True), (torch.float32, False)])
def test_beam_and_factors(dtype: torch.dtype, each_channel: bool) -> None:
    rng = np.random.default_rng(8)
    y, x = np.mgrid[:NPIX, :NPIX] / NPIX - 0.4
    beam = np.exp(-(x**2 + 2 * y**2))
    factor = rng.uniform(0.3, 1.5, NVIS) * np.exp(2j * np.pi * rng.uniform(size=NVIS))
    if each_channel:
        beam, factor = np.array([beam, beam**2]), np.array([factor, factor[::-1]])
    seen = observe(30, nchan=2, beam=beam, factor=factor)
    likelihood = seen.likelihood(dtype)
    likelihood.recentre(torch.tensor(seen.sky))
    image = at_distance(1, likelihood)
    value, gradient = value_and_gradient(likelihood, image)
    assert ratio_error(value, seen.chi_squared(image)) < (1e-10 if dtype == torch.float64 else 1e-7)
    assert gradient_error(gradient, seen, image) < (1e-10 if dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize(("chunk", "own_uv"), [(1, True), (37, False), (NVIS - 1, True)])
def test_chunks_change_nothing(chunk: int, own_uv: bool) -> None:
    seen = observe(20, nchan=2, own_uv=own_uv)
    keep = 60 if chunk == 1 else NVIS
    for name in ("u", "v", "weight", "data"):
        setattr(seen, name, getattr(seen, name)[..., :keep])
    whole, parts = seen.likelihood(), seen.likelihood(chunk=chunk)
    for likelihood in (whole, parts):
        likelihood.recentre(torch.tensor(field_filling(2, NPIX, 3)))
    for name in ("transfer", "dirty", "c0"):
        assert relative_error(getattr(parts, name), getattr(whole, name)) < 1e-12
    image = torch.tensor(field_filling(2, NPIX, 1))
    assert ratio_error(parts.chi_squared(image), whole.chi_squared(image)) < 1e-12


@pytest.mark.parametrize("mode", ["r", "c"])
def test_maps_of_files_are_read_and_left_as_they_are(tmp_path, mode: str) -> None:
    seen = observe(20, nchan=2, own_uv=True)
    seen.data[1, 5], seen.weight = np.nan, np.tile(seen.weight, (2, 1))
    seen.weight[1, 5] = 0
    maps = []
    for name in ("u", "v", "data", "weight"):
        np.save(tmp_path / f"{name}.npy", getattr(seen, name))
        maps.append(np.load(tmp_path / f"{name}.npy", mmap_mode=mode))
    if mode == "c":  # what was changed for this process alone is what counts
        maps[3][0, 7] = seen.weight[0, 7] = 0
    likelihood = ExactLikelihood(*maps, CELL, NPIX, dtype=torch.float64, chunk=300)
    seen.data[1, 5] = 0
    image = torch.tensor(field_filling(2, NPIX, 1))
    assert ratio_error(likelihood.chi_squared(image), seen.chi_squared(image)) < 1e-10
    assert (maps[3] == seen.weight).all()


def test_shared_baselines_share_one_transfer_function_and_own_weights_do_not() -> None:
    seen = observe(20, nchan=3)
    assert seen.likelihood().transfer.shape[0] == 1
    seen.weight = seen.weight * np.array([[1.0], [2.0], [0.5]])
    likelihood, image = seen.likelihood(), torch.tensor(field_filling(3, NPIX, 1))
    assert likelihood.transfer.shape[0] == 3
    assert ratio_error(likelihood.chi_squared(image), seen.chi_squared(image)) < 1e-10


def test_residuals_of_the_reference_and_of_any_image() -> None:
    seen = observe(20, nchan=2)
    likelihood, image = seen.likelihood(), torch.tensor(field_filling(2, NPIX, 1))
    assert np.abs(likelihood.residuals(likelihood.reference).numpy() - seen.data).max() < 1e-12
    expected = seen.data - seen.model(image)
    assert np.abs(likelihood.residuals(image).numpy() - expected).max() < 1e-12 * np.abs(expected).max()


def test_an_evaluation_reads_no_visibilities(monkeypatch) -> None:
    """It costs the same however many there are."""
    likelihood = observe(20).likelihood()
    monkeypatch.setattr(likelihood, "read", None)
    monkeypatch.setattr(exact, "nufft", None)
    value_and_gradient(likelihood, torch.tensor(field_filling(1, NPIX, 1)))
    assert likelihood.needs_recentring(torch.tensor(field_filling(1, NPIX, 1)))


def gains(nchan: int, spread: float, seed: int = 0) -> np.ndarray:
    """Each visibility's factor from two of 12 antennas, whose moduli differ by this much, whose phases by radians."""
    rng = np.random.default_rng(seed)
    antennas = np.exp(spread * rng.normal(size=(nchan, 12)) + 1j * rng.normal(size=(nchan, 12)))
    first, second = rng.integers(0, 12, (2, NVIS))
    return antennas[:, first] * antennas[:, second].conj()


def test_new_data_are_compared_about_the_same_reference_and_keep_the_transfer_function() -> None:
    seen = observe(20, nchan=2, factor=gains(2, 0.3))
    likelihood, image = seen.likelihood(), torch.tensor(field_filling(2, NPIX, 1))
    likelihood.recentre(torch.tensor(field_filling(2, NPIX, 3)))
    transfer, seen.data = likelihood.transfer, seen.data[:, ::-1] * np.exp(0.3j)
    with pytest.raises(ValueError, match="2000 visibilities"):
        likelihood.replace(np.full((2, NVIS), np.nan))
    likelihood.replace(seen.data)
    assert likelihood.transfer is transfer
    value, gradient = value_and_gradient(likelihood, image)
    assert ratio_error(value, seen.chi_squared(image)) < 1e-10
    assert relative_error(gradient, seen.gradient(image)) < 1e-10


@pytest.mark.parametrize(("part", "due"), [(-2, False), (0.26, False), (0.28, True), (4, True)])
def test_recentring_is_due_when_a_term_outgrows_chi_squared(part: float, due: bool) -> None:
    """On the way from an empty image to the sky the first to do so is 2δ·R, after 2 − √3 of it; both by direct sums."""
    seen = observe(200)
    likelihood, image = seen.likelihood(), part * seen.sky
    curved = (seen.weight * np.abs(seen.model(image)) ** 2).sum()
    sloped = -(image * seen.gradient(0 * image)).sum()
    assert (max(curved, abs(sloped)) > seen.chi_squared(image)[0]) == due
    assert likelihood.needs_recentring(torch.tensor(image)) == due


# -- A device without float64 ------------------------------------------------------------


class NoFloat64On(TorchDispatchMode):
    """Fails where anything makes a number of double precision on a device; the operations' results are looked at."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device, self.seen = device, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for part in tree_leaves(out):
            if isinstance(part, torch.Tensor) and part.device.type == self.device:
                self.seen += 1
                assert part.dtype not in (torch.float64, torch.complex128), func
        return out


def without_float64(monkeypatch, device: str) -> None:
    """Let the rule for Apple's GPUs hold for a device that is here."""
    for module in (nufft, exact):
        monkeypatch.setattr(module, "float64_device", lambda d: torch.device("cpu") if d.type == device else d)


def test_a_move_to_a_device_without_float64_takes_none_along(monkeypatch) -> None:
    without_float64(monkeypatch, "meta")  # it has shapes and types, and no values
    seen = observe(100, nchan=2, own_uv=True, beam=np.full((NPIX, NPIX), 0.5), factor=gains(1, 0.1)[0])
    likelihood = seen.likelihood(torch.float32)
    with NoFloat64On("meta") as watch:
        image = torch.ones(2, NPIX, NPIX, device="meta", requires_grad=True)
        value = likelihood.to("meta").chi_squared(image)
        value.sum().backward()
    assert watch.seen > 10
    assert (value.dtype, image.grad.dtype, likelihood.c0.dtype) == (torch.float32,) * 3


def test_without_float64_sums_float32_is_nearly_as_exact(monkeypatch) -> None:
    seen = observe(1e4)
    likelihood = seen.likelihood(torch.float32)
    likelihood.recentre(torch.tensor(seen.sky))
    monkeypatch.setattr(exact, "_sum_dtype", lambda device: torch.float32)
    image = at_distance(1, likelihood)
    value, gradient = value_and_gradient(likelihood, image)
    assert ratio_error(value, seen.chi_squared(image)) < 1e-6
    assert gradient_error(gradient, seen, image) < 1e-5


def test_flagged_visibilities_and_their_factors_may_hold_anything() -> None:
    seen = observe(20, factor=gains(1, 0.2)[0])
    seen.weight[::7] = 0
    image = torch.tensor(field_filling(1, NPIX, 1))
    expected = seen.chi_squared(image)
    seen.data[:, ::7] = np.nan
    seen.factor[::14] = np.inf
    value, gradient = value_and_gradient(seen.likelihood(), image)
    assert ratio_error(value, expected) < 1e-10
    assert gradient.isfinite().all()


def test_change_of_type_makes_everything_anew() -> None:
    seen = observe(600, nchan=2)
    likelihood = seen.likelihood(torch.float64)
    likelihood.recentre(torch.tensor(seen.sky))
    assert likelihood.to(torch.float32) is likelihood
    image = at_distance(1, likelihood)
    assert image.dtype == torch.float32
    assert ratio_error(likelihood.chi_squared(image), seen.chi_squared(image)) < 1e-7
    assert likelihood.double().transfer.dtype == torch.float64
    assert ratio_error(likelihood.chi_squared(image.double()), seen.chi_squared(image)) < 1e-10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": -np.ones(5)}, "5 weights"),
        ({"weight": np.ones(4)}, r"weight .*\(4,\)"),
        ({"data": np.array([1, 1, 1, 1, np.inf]) + 0j, "chunk": 2}, "1 visibilities"),
        ({"factor": np.ones((2, 5))}, "factor"),
        ({"beam": np.ones((3, 4, 4))}, "beam"),
        ({"npix": 5}, "npix"),
        ({"dtype": torch.float16}, "float16"),
    ],
)
def test_what_does_not_fit_is_named(change: dict, message: str) -> None:
    uv = np.linspace(-1, 1, 5) / (4 * CELL * ARCSEC)
    good = {"u": uv, "v": uv, "data": np.ones(5) + 0j, "weight": np.ones(5), "cell_size": CELL, "npix": 4}
    with pytest.raises((ValueError, TypeError), match=message):
        ExactLikelihood(**(good | change))


def test_images_are_neither_broadcast_nor_rounded_in_silence() -> None:
    likelihood = observe(5, nchan=2).likelihood(torch.float32)
    for image in (torch.ones(1, NPIX, NPIX), torch.ones(NPIX, NPIX), torch.ones(2, NPIX, NPIX).double()):
        with pytest.raises(ValueError, match="image"):
            likelihood(image)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_same_on_a_cuda_device(dtype: torch.dtype) -> None:
    seen = observe(100, nchan=2, own_uv=True)
    likelihood = seen.likelihood(dtype).to("cuda")
    likelihood.recentre(torch.tensor(seen.sky, device="cuda"))
    value = likelihood.chi_squared(torch.tensor(seen.sky, dtype=dtype, device="cuda"))
    assert value.device.type == "cuda"
    assert ratio_error(value.cpu(), seen.chi_squared(seen.sky.astype(str(dtype)[6:]))) < 1e-7


def test_a_dirty_image_tells_as_much_as_the_visibilities():
    seen = observe(snr=1e4, factor=np.linspace(1, 2, NVIS))
    whole = seen.likelihood(torch.float32)
    dirty = DirtyLikelihood(whole, whole.reference, whole.dirty, whole.c0)
    image = torch.from_numpy(seen.sky * 1.001).float()
    for one in (whole, dirty):
        one.recentre(image)
    assert relative_error(dirty.dirty, whole.dirty) < 2e-3  # of what is left of a thousandth
    assert abs(float(dirty(image) / whole(image)) - 1) < 0.05  # of a millionth of the chi² of a dark sky
    left = seen.data + whole.residuals(image).numpy()
    whole.replace(left)
    dirty.add_residuals(image, 1)
    assert relative_error(dirty.dirty, whole.dirty) < 2e-3


def test_noise_on_a_grid_scatters_as_that_of_visibilities():
    seen, draws = observe(snr=1.0, factor=np.linspace(1, 2, NVIS)), 400
    drawn = seen.likelihood().draw_noise(draws, seed=1).numpy()
    random = np.random.default_rng(2).standard_normal((2, draws, NVIS)) / np.sqrt(seen.weight)
    noise = ExactLikelihood(
        seen.u, seen.v, random[0] + 1j * random[1], seen.weight, CELL, NPIX, factor=seen.factor
    ).dirty.numpy()
    assert abs(drawn.std() / noise.std() - 1) < 0.05
    inner = np.s_[:, 10:22, 8:20]
    assert abs(drawn[inner].sum((1, 2)).std() / noise[inner].sum((1, 2)).std() - 1) < 0.15
