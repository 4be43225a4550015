import torch

from firstlight_imaging.coordinates import GridCoords, packed_to_ground
from firstlight_imaging.fourier.fourier_cube import FourierCube


def test_channels_do_not_mix_and_in_ground_order_the_zero_frequency_is_in_the_middle():
    coords = GridCoords(cell_size=0.5, npix=6)
    fourier = FourierCube(coords)
    cube = torch.rand(3, 6, 6, dtype=torch.float64)
    vis = fourier(cube)
    for channel in range(3):
        torch.testing.assert_close(vis[channel], FourierCube(coords)(cube[channel : channel + 1])[0])
    torch.testing.assert_close(packed_to_ground(vis)[:, 3, 3], cube.sum(dim=(1, 2)) * 0.25 + 0j)
