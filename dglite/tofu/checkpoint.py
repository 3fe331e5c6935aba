"""Parts of a training step's tensors as DTensors, which torch.distributed.checkpoint saves and loads.

The mesh has a dimension for each step of a plan, and each step is one placement. Parts of a plan begin at
``j * n // k``, shards of a DTensor at ``j * ceil(n / k)``: where these differ, rows are moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ..backend.torch_dtensor import DTensor, Placement, Replicate, Shard
from .exchange import Exchange
from .layout import Layout
from .links import Links
from .rounds import moved
from .slices import TensorSlice

Dims = Sequence[int | None]


class Sharding:
    """How the workers of a layout hold tensors, in parts and as shards of DTensors.

    Parameters
    ----------
    layout : Layout
    links : Links
    device : torch.device
        Of this worker's parts.
    """

    def __init__(self, layout: Layout, links: Links, device: torch.device) -> None:
        self.layout, self._links, self._device = layout, links, device
        self._mesh: DeviceMesh | None = None
        self._row_exchanges: dict[Any, Exchange] = {}

    @property
    def mesh(self) -> DeviceMesh:
        """The processes, with a dimension for each step of the plan; all have to ask for it at first."""
        if self._mesh is None:
            self._mesh = init_device_mesh(self._device.type, self.layout.steps or (1,))
        return self._mesh

    def to_dtensor(self, part: torch.Tensor, shape: torch.Size, dims: Dims) -> DTensor:
        """Return the DTensor of this worker's part; its memory is the part's if no rows have to be moved.

        Parameters
        ----------
        part : Tensor
        shape : Size
            Of the whole tensor.
        dims : tuple of int or None
            The dimension that each step of the plan splits.
        """
        shard = self._moved(part, self._parts(shape, dims), self._shards(shape, dims))
        stride = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(
            shard.contiguous(), self.mesh, _placements(dims), run_check=False, shape=shape, stride=stride
        )

    def from_tensor(self, x: torch.Tensor, dims: Dims) -> torch.Tensor:
        """Return this worker's part of a whole tensor or a DTensor; all have to call it with the same.

        It may be memory of the tensor.
        """
        if isinstance(x, DTensor) and x.device_mesh == self.mesh and x.placements == _placements(dims):
            return self._moved(x.to_local(), self._shards(x.shape, dims), self._parts(x.shape, dims))
        x = whole_tensor(x)
        for d, (lo, hi) in enumerate(self.layout.tile(x.shape, dims, self._links.rank)):
            x = x.narrow(d, int(lo), int(hi) - int(lo))
        return x

    def from_rows(self, x: torch.Tensor, dims: Dims) -> torch.Tensor:
        """Return this worker's part of a tensor whose rows the workers hold in equal shares, in their order."""
        key = tuple(x.shape), x.dtype, tuple(dims)
        if key not in self._row_exchanges:
            n, *rest = x.shape
            tiles = [((j * n, (j + 1) * n), *((0, m) for m in rest)) for j in range(self.layout.workers)]
            needed = self._parts([n * len(tiles), *rest], dims)
            self._row_exchanges[key] = Exchange(
                self._links.rank, tiles, needed, x.dtype, self._device, distance=self.layout.distance
            )
        return moved(self._links, self._row_exchanges[key], x.contiguous(), "inputs")  # type: ignore[no-any-return]

    def whole(self, part: torch.Tensor, shape: torch.Size, dims: Dims) -> torch.Tensor:
        """Return the tensor of all workers' parts, in new memory; all have to call it."""
        everything = tuple((0, n) for n in shape)
        return self._moved(part, self._parts(shape, dims), [everything] * self.layout.workers).clone()

    def between(self, part: torch.Tensor, shape: torch.Size, dims: Dims, new: Dims) -> torch.Tensor:
        """Return this worker's part of a tensor that is split by ``dims`` as it is where it is split by ``new``."""
        return (
            part if tuple(dims) == tuple(new) else self._moved(part, self._parts(shape, dims), self._parts(shape, new))
        )

    def _parts(self, shape: Sequence[int], dims: Dims) -> list[TensorSlice]:
        return [self.layout.tile(shape, dims, w) for w in range(self.layout.workers)]

    def _shards(self, shape: Sequence[int], dims: Dims) -> list[TensorSlice]:
        """Return which slice each worker's shard is, as torch.chunk cuts."""
        slices: list[TensorSlice] = []
        for digits in self.layout.digits:
            rows = [(0, int(n)) for n in shape]
            for k, d, j in zip(self.layout.steps, dims, digits, strict=True):
                if d is not None:
                    (lo, hi), size = rows[d], -(-(rows[d][1] - rows[d][0]) // k)
                    rows[d] = min(lo + j * size, hi), min(lo + (j + 1) * size, hi)
            slices.append(tuple(rows))
        return slices

    def _moved(self, x: torch.Tensor, tiles: list[TensorSlice], needed: list[TensorSlice]) -> torch.Tensor:
        if tiles == needed:
            return x
        move = Exchange(self._links.rank, tiles, needed, x.dtype, self._device, distance=self.layout.distance)
        return moved(self._links, move, x, "state")


def _placements(dims: Dims) -> tuple[Placement, ...]:
    return tuple(Replicate() if d is None else Shard(d) for d in dims) or (Replicate(),)


def whole_tensor(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor as it is, and all of a DTensor, whose processes have to call this together."""
    return x.full_tensor() if isinstance(x, DTensor) else x
