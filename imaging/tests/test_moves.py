"""Whatever a module of the package shows moves with it: to a device without memory, and to another precision."""

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import firstlight_imaging as imaging
from firstlight_imaging import (
    BaseCube,
    ExactLikelihood,
    FourierCube,
    GridCoords,
    GriddedDataset,
    GriddedNet,
    HannConvCube,
    ImageCube,
)
from firstlight_imaging.fitting.exact import DirtyLikelihood

COORDS = GridCoords(cell_size=0.1, npix=8)
SHAPE = (2, 8, 8)


def dataset() -> GriddedDataset:
    vis, mask = torch.ones(SHAPE, dtype=torch.complex64), torch.ones(SHAPE, dtype=torch.bool)
    return GriddedDataset(coords=COORDS, vis_gridded=vis, weight_gridded=vis.real, mask=mask, nchan=2)


def likelihood() -> ExactLikelihood:
    u, v = np.array([0.0, 3e5]), np.array([0.0, 1e5])
    ones = np.ones((2, 2))
    return ExactLikelihood(u, v, ones + 0j, ones, 0.1, 8, beam=np.ones(SHAPE[1:]), factor=ones)


# How to make each public module; nothing of it is on the device yet that it will be moved to.
MAKE: dict[type[nn.Module], Callable[[], nn.Module]] = {
    BaseCube: lambda: BaseCube(COORDS, 2),
    ExactLikelihood: likelihood,
    FourierCube: lambda: FourierCube(COORDS),
    GriddedDataset: dataset,
    GriddedNet: lambda: GriddedNet(COORDS, 2),
    HannConvCube: lambda: HannConvCube(2),
    ImageCube: lambda: ImageCube(COORDS, 2),
}
# Visibilities stay where they are, and with them what is exact: so the class says.
STAY = {ExactLikelihood: {"u", "v", "data", "weight", "factor"}}


def public_modules() -> list[type[nn.Module]]:
    """Walk through the package, so that a new module is not forgotten."""
    found = {
        each
        for _, name, _ in pkgutil.walk_packages(imaging.__path__, "firstlight_imaging.")
        for label, each in inspect.getmembers(import_module(name), inspect.isclass)
        if issubclass(each, nn.Module) and each.__module__ == name and not label.startswith("_")
    }
    return sorted(found - {DirtyLikelihood}, key=lambda each: each.__name__)  # which is made where its data are


def of_its_own(module: nn.Module) -> Iterator[str]:
    """Name public attributes and properties, but for those that every module has."""
    for name in {*vars(module), *module._buffers, *module._parameters, *dir(type(module))} - {*dir(nn.Module)}:
        if not name.startswith("_") and not inspect.isroutine(getattr(type(module), name, None)):
            yield name


def shown(module: nn.Module) -> dict[str, Tensor]:
    """Collect each tensor that a module or one of its parts shows."""
    found = dict(module.named_parameters()) | dict(module.named_buffers())
    for path, part in module.named_modules():
        for name in set(of_its_own(part)) - STAY.get(type(part), set()):
            value = getattr(part, name)
            held = value if isinstance(value, dict) else dict(enumerate(value if isinstance(value, list) else [value]))
            found |= {f"{path}.{name}[{key}]": each for key, each in held.items() if isinstance(each, Tensor)}
    return found


@pytest.fixture(params=public_modules(), ids=lambda each: each.__name__)
def used(request: pytest.FixtureRequest) -> nn.Module:
    """Make a module, and call it once, with gradients, so that it has something to show."""
    assert request.param in MAKE, "a new module: tell MAKE how to make one"
    module = MAKE[request.param]()
    takes = inspect.signature(module.forward).parameters
    module(*[torch.ones(SHAPE)] * len(takes))
    return module


def test_the_walk_finds_what_there_is() -> None:
    assert {*public_modules()} == MAKE.keys()
    net = GriddedNet(COORDS)
    net()
    assert {"bcube.base_cube", "icube.sky_cube[0]"} <= shown(net).keys()
    assert {"transfer", "dirty", "reference", "beam", ".c0[0]"} <= shown(likelihood()).keys()


def test_a_tensor_that_is_no_buffer_is_found() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image, self.curves = torch.ones(1), [torch.ones(1)]

        @property
        def flux(self) -> Tensor:
            return self.image.sum()

    left = shown(nn.Sequential(Forgetful()).to("meta"))
    assert left.keys() == {"0.image[0]", "0.curves[0]", "0.flux[0]"}
    assert not any(tensor.is_meta for tensor in left.values())


def test_all_that_a_module_shows_moves_to_a_device(used: nn.Module) -> None:
    before = shown(used)
    after = shown(used.to("meta"))
    assert after.keys() == before.keys()
    assert [name for name, tensor in after.items() if not tensor.is_meta] == []


def test_all_that_a_module_shows_moves_to_another_precision(used: nn.Module) -> None:
    before = shown(used)
    after = shown(used.to(torch.float64))
    assert after.keys() == before.keys()
    for name, tensor in before.items():
        wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(tensor.dtype, tensor.dtype)
        assert after[name].dtype == wide, name
        torch.testing.assert_close(after[name].to(tensor.dtype), tensor, msg=name)
