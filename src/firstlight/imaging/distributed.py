"""Data of a fit on several devices: each process has its own channels of the image, and reads its own visibilities.

Visibilities are needed to build an exact likelihood and to centre it anew. For that, each process takes its part of
them, of all channels, and what they put on the pixels is added up; after it, each goes on with its channels alone.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from tqdm import tqdm

from firstlight.imaging.crossval import dense
from firstlight.imaging.datasets import GriddedDataset
from firstlight.imaging.exact import ExactLikelihood
from firstlight.imaging.nufft import Array
from firstlight.imaging.processes import Group


class ShardedLikelihood(ExactLikelihood):
    """An exact likelihood of the channels of one process, made by all of them.

    All processes of the group must build it, centre it, move it and fit with it together.

    Parameters
    ----------
    group
        From `processes`.
    u, v, data, weight, cell_size, npix
        As for an `ExactLikelihood`: all of the visibilities. Where they are many, give maps of files
        (``np.load(name, mmap_mode="r")``), of which each process reads its own part.
    options
        What else an `ExactLikelihood` takes; its ``device`` is the process's own.

    Attributes
    ----------
    nchan
        How many channels this process has; none, if there are more processes than channels. It then helps to read
        visibilities, and no more.
    mine
        Which of all channels these are.

    Examples
    --------
    >>> import numpy as np
    >>> from firstlight.imaging import processes
    >>> u, v, data = np.array([0.0, 3e5]), np.array([0.0, 1e5]), np.ones((3, 2), complex)
    >>> with processes() as group:  # of one, without torchrun
    ...     likelihood = ShardedLikelihood(group, u, v, data, np.ones(2), cell_size=0.1, npix=8)
    >>> likelihood.nchan, likelihood.mine
    (3, slice(0, 3, None))
    """

    def __init__(
        self, group: Group, u: Array, v: Array, data: Array, weight: Array, cell_size: float, npix: int, **options: Any
    ) -> None:
        self.group = group
        data = data if data.ndim > 1 else data[None]
        self.mine = group.share(len(data))
        self.nchan = self.mine.stop - self.mine.start
        read = own_visibilities(group, u=u, v=v, data=data, weight=weight, factor=options.pop("factor", None))
        quiet = {} if group.first else {"progress": False}
        super().__init__(cell_size=cell_size, npix=npix, **read, **{"device": group.device} | options | quiet)

    def residuals(self, image: Tensor | None = None) -> Tensor:
        """Give D − V of this process's visibilities, of all channels; the image has this process's channels."""
        return super().residuals(self.group.whole(self.reference if image is None else image))

    def replace(self, **given: Array | None) -> None:
        """Take other visibilities in place of some or all: all of them, as at first."""
        super().replace(**own_visibilities(self.group, **given))

    def rebuild(self) -> None:
        """Keep this process's channels of what is made for all."""
        if len(self.reference) == len(self.data):
            self.reference = self.reference[self.mine].clone()
        super().rebuild()
        if self.beam is not None and self.beam.ndim == 3 and len(self.beam) == len(self.data):
            self.beam = self.beam[self.mine].clone()

    def point_spread(self, channel: int, progress: tqdm[None]) -> Tensor:
        """Add up what all visibilities of a channel give."""
        return self.group.sum(super().point_spread(channel, progress))

    def sums_about(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Add up what all visibilities say of all channels."""
        c0, dirty = super().sums_about(self.group.whole(image))
        return self.group.sum(c0)[self.mine], self.group.sum(dirty)[self.mine]

    def same_kernel(self, factor: Array | None) -> bool:
        """Tell whether no process needs another kernel."""
        return all(self.group.collect(super().same_kernel(factor)))


class ShardedDataset(GriddedDataset):
    """The channels of one process, of averages in cells: of a cube, or of folds that were stacked (`stack_folds`).

    Parameters
    ----------
    group
        From `processes`.
    dataset
        All channels.

    Attributes
    ----------
    nchan
        How many channels this process has; none, if there are more processes than channels.
    mine
        Which of all channels these are.

    Examples
    --------
    >>> import torch
    >>> from firstlight.imaging import GridCoords
    >>> ones = torch.ones(5, 8, 8)
    >>> cube = GriddedDataset(coords=GridCoords(0.1, 8), vis_gridded=ones, weight_gridded=ones, mask=ones > 0, nchan=5)
    >>> ShardedDataset(Group(rank=1, size=2), cube).mine
    slice(3, 5, None)
    """

    def __init__(self, group: Group, dataset: GriddedDataset) -> None:
        mine = group.share(dataset.nchan)
        super().__init__(
            coords=dataset.coords,
            vis_gridded=dense(dataset.vis_indexed, dataset)[mine],
            weight_gridded=dense(dataset.weight_indexed, dataset)[mine],
            mask=dataset.mask[mine],
            nchan=mine.stop - mine.start,
        )
        self.group, self.mine = group, mine
        self.to(group.device)


def own_visibilities(group: Group, **given: Array | None) -> dict[str, Any]:
    """Cut this process's part out of arrays or maps of files, without reading them."""
    lengths = {name: int(array.shape[-1]) for name, array in given.items() if array is not None and array.ndim}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"all arrays should end in one number of visibilities; they end in {lengths}.")
    part = group.share(max(lengths.values(), default=0))
    return {name: None if array is None else array[..., part] for name, array in given.items()}
