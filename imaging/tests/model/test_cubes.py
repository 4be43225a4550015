import pytest
import torch
from torch.nn import functional

from firstlight_imaging.coordinates import GridCoords, packed_to_sky, sky_to_packed
from firstlight_imaging.model.cubes import BaseCube, HannConvCube, ImageCube
from firstlight_imaging.model.gridded_net import GriddedNet, SimpleNet

COORDS = GridCoords(cell_size=0.2, npix=10)


def smoothed(sky):
    return packed_to_sky(HannConvCube(len(sky))(sky_to_packed(sky)))


def test_hann_is_the_two_dimensional_convolution_of_the_map_edges_included():
    sky = torch.rand(3, 10, 10, dtype=torch.float64)
    along = torch.tensor([0.25, 0.5, 0.25], dtype=torch.float64)
    kernel = torch.outer(along, along).expand(3, 1, 3, 3)
    torch.testing.assert_close(smoothed(sky), functional.conv2d(sky, kernel, padding=1, groups=3), rtol=0, atol=1e-15)


def test_base_cube_is_positive_and_starts_from_a_copy():
    start = torch.full((2, 10, 10), -50.0, dtype=torch.float64)
    base = BaseCube(COORDS, nchan=2, base_cube=start)
    start[:] = 7
    cube = base()
    assert cube.dtype == torch.float64
    assert (cube > 0).all()
    assert cube.max() < 1e-20
    assert BaseCube(COORDS)().dtype == torch.get_default_dtype()
    assert (BaseCube(COORDS, pixel_mapping=torch.exp)() == torch.exp(torch.tensor(-3.0))).all()


def test_flux_is_of_each_channel_in_jansky():
    image = ImageCube(COORDS, nchan=2)
    with pytest.raises(RuntimeError, match="image"):
        _ = image.sky_cube
    sky = torch.rand(2, 10, 10, dtype=torch.float64)
    image(sky_to_packed(sky))
    torch.testing.assert_close(image.sky_cube, sky, rtol=0, atol=0)
    torch.testing.assert_close(image.flux, sky.sum(dim=(1, 2)) * 0.04, rtol=1e-12, atol=0)


def test_model_holds_image_and_visibilities_of_the_same_sky():
    model = SimpleNet(coords=COORDS, nchan=3, base_cube=torch.randn(3, 10, 10, dtype=torch.float64))
    assert isinstance(model, GriddedNet)
    vis = model()
    torch.testing.assert_close(vis[:, 0, 0].real, model.icube.flux, rtol=1e-12, atol=0)
    assert [*model.state_dict()] == [name for name, _ in model.named_parameters()] == ["bcube.base_cube"]
    assert model.float()().dtype == torch.complex64
    assert model.double()().dtype == torch.complex128
