"""Arrays of ids in the memory of a device: torch's functions, under the names of :mod:`dglite.structure.arrays`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, final

import numpy as np
import torch

from .torch_copies import report_wait, to_device

_DISTANCES = 1 << 26
"""How many distances are computed at once."""
_DTYPES = {
    "int32": torch.int32,
    "int64": torch.int64,
    "bool": torch.bool,
    "float32": torch.float32,
    "float64": torch.float64,
}


@final
class TorchArrays:
    """Makes arrays of ids on one device. The host waits for it in :meth:`nonzero` and :meth:`read` alone."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def asarray(self, x: Any, dtype: Any = None) -> torch.Tensor:
        """Return a tensor or an array of the host as a tensor here."""
        tensor = x if isinstance(x, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(x))
        tensor = to_device(tensor, self.device, True)
        return tensor if dtype is None else self.astype(tensor, dtype)

    def astype(self, x: torch.Tensor, dtype: Any) -> torch.Tensor:
        return x.to(_DTYPES[str(dtype)])

    def viewed(self, memory: torch.Tensor, dtype: Any) -> torch.Tensor:
        """Return bytes as numbers, in the same memory."""
        return memory.view(_DTYPES[str(dtype)])

    def arange(self, count: int, dtype: Any = "int64") -> torch.Tensor:
        return torch.arange(count, dtype=_DTYPES[str(dtype)], device=self.device)

    def full(self, count: int, value: Any, dtype: Any = "int64") -> torch.Tensor:
        return torch.full((count,), value, dtype=_DTYPES[str(dtype)], device=self.device)

    def concatenate(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat(tuple(parts))

    def repeat(self, x: torch.Tensor, counts: torch.Tensor, total: int) -> torch.Tensor:
        return torch.repeat_interleave(x, counts, output_size=total)

    def cumsum(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, 0)

    def nonzero(self, mask: torch.Tensor) -> torch.Tensor:
        report_wait(self.device, 8)
        return mask.nonzero().view(-1)

    def first(self, mask: torch.Tensor) -> torch.Tensor:
        return mask.to(torch.int32).argmax()

    def argsort(self, x: torch.Tensor) -> torch.Tensor:
        return torch.argsort(x, stable=True)

    def bincount(self, ids: torch.Tensor, count: int) -> torch.Tensor:
        ones = torch.ones_like(ids, dtype=torch.int64)
        return torch.zeros(count, dtype=torch.int64, device=self.device).scatter_add_(0, ids.long(), ones)

    def floats(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float32 if self.device.type == "mps" else torch.float64)

    def log(self, x: torch.Tensor) -> torch.Tensor:
        return x.log()

    def firsts(self, ids: torch.Tensor, count: int) -> torch.Tensor:
        """Return where each of ``count`` ids comes up first, ``len(ids)`` for others."""
        places = self.arange(len(ids))
        return self.full(count, len(ids)).scatter_reduce_(0, ids.long(), places, "amin")

    def ranked(
        self, keys: torch.Tensor, sizes: np.ndarray, k: int, descending: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the ``k`` first of each segment of rows in each column, for :func:`dglite.readout.topk_nodes`.

        ``keys`` is (num_rows, width). Results are (num_segments, k, width): numbers inside the segment, and rows. A
        rank that a segment does not reach has itself as number, and the number of all rows as row.
        """
        keys = keys if keys.is_floating_point() else keys.long()
        keys = -keys if descending else keys
        starts, longest = np.cumsum(sizes) - sizes, int(sizes.max(initial=0))
        places = self.arange(longest)[None, :]
        counts, firsts = self.asarray(sizes)[:, None], self.asarray(starts)[:, None]
        absent = places >= counts
        last = torch.nan if keys.is_floating_point() else torch.iinfo(keys.dtype).max
        padded = torch.cat([keys, keys.new_full((1, keys.shape[1]), last)])
        values = padded[torch.where(absent, len(keys), firsts + places)]
        order = torch.argsort(values, dim=1, stable=True)[:, :k]
        beyond = torch.arange(min(longest, k), k, device=self.device)[None, :, None].expand(
            len(sizes), -1, keys.shape[1]
        )
        numbers = torch.cat([order, beyond], 1)
        return numbers, torch.where(numbers < counts[..., None], firsts[..., None] + numbers, len(keys))

    def nearest(self, points: torch.Tensor, k: int, exclude_self: bool) -> torch.Tensor:
        """Return the ``k`` nearest of some points of each, (num_points, k), itself first unless it is left out."""
        blocks, most = [], max(_DISTANCES // max(len(points), 1), 1)
        for start in range(0, len(points), most):
            rows = points[start : start + most]
            apart = torch.cdist(rows, points, compute_mode="donot_use_mm_for_euclid_dist")
            here = self.arange(len(rows))
            apart[here, start + here] = torch.inf if exclude_self else -1.0
            blocks.append(apart.topk(k, largest=False).indices)
        return torch.cat(blocks)

    def read(self, *numbers: torch.Tensor) -> list[int]:
        """Return numbers, each a tensor of one, on the host."""
        report_wait(self.device, 8 * len(numbers))
        return torch.stack([x.reshape(()).long() for x in numbers]).tolist()


@lru_cache(maxsize=64)
def arrays_on(device: Any) -> TorchArrays | None:
    """Return what makes arrays on ``device``; None where those are the host's, or have no values."""
    return None if torch.device(device).type in ("cpu", "meta") else TorchArrays(device)
