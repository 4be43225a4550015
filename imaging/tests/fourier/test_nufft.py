import numpy as np
import pytest
import torch
from direct import CELL, baselines, field_filling, relative_error, sky_of, vis_of

from firstlight_imaging.fourier import nufft
from firstlight_imaging.fourier.nufft import adjoint, visibilities

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def complex_noise(nchan: int, nvis: int, dtype: torch.dtype, seed: int = 7) -> torch.Tensor:
    return torch.randn(nchan, nvis, dtype=nufft.COMPLEX[dtype], generator=torch.Generator().manual_seed(seed))


def per_channel(nchan: int, nvis: int):
    pairs = [baselines(nvis, seed) for seed in range(nchan)]
    return tuple(np.array(w) for w in zip(*pairs, strict=True))


@pytest.mark.parametrize(
    ("dtype", "npix", "shared"),
    [(torch.float64, 2, True), (torch.float32, 38, True), (torch.float64, 38, False), (torch.float32, 64, False)],
)
def test_both_ways_against_the_sums_written_out(dtype: torch.dtype, npix: int, shared: bool) -> None:
    u, v = baselines(301) if shared else per_channel(3, 301)
    sky = torch.tensor(field_filling(3, npix), dtype=dtype)
    vis = complex_noise(3, 301, dtype)
    predicted, image = visibilities(sky, u, v, CELL), adjoint(vis, u, v, CELL, npix)
    assert (predicted.dtype, image.dtype) == (nufft.COMPLEX[dtype], dtype)
    assert predicted.shape == (3, 301)
    assert relative_error(predicted, vis_of(sky, u, v)) < TOLERANCE[dtype]
    assert relative_error(image, sky_of(vis.to(torch.complex128).numpy(), u, v, npix)) < TOLERANCE[dtype]


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_against_finite_differences(shared: bool) -> None:
    u, v = baselines(3) if shared else per_channel(2, 3)
    sky = torch.tensor(field_filling(2, 4), requires_grad=True)
    vis = complex_noise(2, 3, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: visibilities(x, u, v, CELL, chunk=2), sky)
    assert torch.autograd.gradcheck(lambda x: adjoint(x, u, v, CELL, 4, chunk=2), vis)
    assert torch.autograd.gradgradcheck(lambda x: visibilities(x, u, v, CELL).abs() ** 2, sky[:, :2, :2])


@pytest.mark.parametrize("eps", [1e-3, 1e-6, 1e-10])
def test_accuracy_is_a_choice(eps: float) -> None:
    u, v = baselines(400)
    sky = torch.tensor(field_filling(1, 64))
    error = relative_error(visibilities(sky, u, v, CELL, eps=eps), vis_of(sky, u, v))
    assert eps / 1e3 < error < 10 * eps
    vis = complex_noise(1, 400, torch.float64)
    assert relative_error(adjoint(vis, u, v, CELL, 64, eps=eps), sky_of(vis.numpy(), u, v, 64)) < 10 * eps


@pytest.mark.parametrize("chunk", [1, 7, 101])
def test_chunks_change_nothing(chunk: int) -> None:
    u, v = baselines(100)
    sky, vis = torch.tensor(field_filling(2, 12)), complex_noise(2, 100, torch.float64)
    assert relative_error(visibilities(sky, u, v, CELL, chunk=chunk), visibilities(sky, u, v, CELL).numpy()) < 1e-13
    assert relative_error(adjoint(vis, u, v, CELL, 12, chunk=chunk), adjoint(vis, u, v, CELL, 12).numpy()) < 1e-13


def test_no_visibilities_at_all() -> None:
    nothing = np.array([])
    assert visibilities(torch.ones(2, 4, 4), nothing, nothing, CELL).shape == (2, 0)
    image = adjoint(torch.ones(2, 0, dtype=torch.complex64), nothing, nothing, CELL, 4)
    assert image.tolist() == torch.zeros(2, 4, 4).tolist()


def test_float32_baselines_are_multiplied_in_float64() -> None:
    u, v = (w.astype(np.float32) for w in baselines(100))
    sky = torch.tensor(field_filling(1, 64))
    exact = vis_of(sky, u.astype(np.float64), v.astype(np.float64))
    assert relative_error(visibilities(sky, u, v, CELL), exact) < 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda sky, u: visibilities(sky[0], u, u, CELL), "image"),
        (lambda sky, u: visibilities(sky[:, :5], u, u, CELL), r"\(1, 5, 6\)"),
        (lambda sky, u: visibilities(sky.half(), u, u, CELL), "float16"),
        (lambda sky, u: visibilities(sky, u, u[:-1], CELL), r"\(9,\) and \(8,\)"),
        (lambda sky, u: visibilities(sky, u, torch.tensor(u, requires_grad=True), CELL), r"v\.detach"),
        (lambda sky, u: visibilities(sky, u, u, CELL, chunk=0), "chunk is 0"),
        (lambda sky, u: adjoint(torch.tensor(u + 0j)[None, 1:], u, u, CELL, 6), r"\(8,\)"),
        (lambda sky, u: adjoint(torch.tensor(u + 0j)[None], u, u, CELL, 7), "npix is 7"),
    ],
)
def test_what_does_not_fit_is_named(call, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call(torch.ones(1, 6, 6), np.linspace(-1e5, 1e5, 9))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@BOTH
def test_same_on_a_cuda_device(dtype: torch.dtype) -> None:
    u, v = baselines(500)
    sky, vis = torch.tensor(field_filling(2, 48), dtype=dtype), complex_noise(2, 500, dtype)
    there = visibilities(sky.cuda(), u, v, CELL)
    assert there.device.type == "cuda"
    assert relative_error(there.cpu(), vis_of(sky, u, v)) < TOLERANCE[dtype]
    image = adjoint(vis.cuda(), u, v, CELL, 48).cpu()
    assert relative_error(image, sky_of(vis.to(torch.complex128).numpy(), u, v, 48)) < TOLERANCE[dtype]


def test_a_cufinufft_that_does_not_load_is_told(tmp_path, monkeypatch) -> None:
    (tmp_path / "cufinufft.py").write_text('raise ImportError("no libcufft.so.11")')
    monkeypatch.syspath_prepend(tmp_path)
    nufft.find_cufinufft.cache_clear()
    with pytest.warns(UserWarning, match=r"no libcufft\.so\.11"):
        assert nufft.find_cufinufft() is None
    nufft.find_cufinufft.cache_clear()
