"""A call on a graph that is not large: one script, which is filled in by one call and run without coming back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..kernels import compiled
from .memory import Pool
from .order import Order
from .script import DTYPES, Addresses, Filled, Script
from .stages import lies_by_columns

__all__ = ["MOST_NODES", "SmallRun"]

MOST_NODES = 1024
"""On larger graphs products of many rows are the tensor library's, which a script cannot call.

With 300 nodes (eight trees, states of 128 to 512) a script was faster by a tenth to a fifth, with 1,200 by as much,
with 2,400 as fast.
"""


class SmallRun:
    """One call of a program by its script."""

    def __init__(
        self, script: Script, order: Order, rows_of: np.ndarray, values: Sequence[torch.Tensor],
        shared: Sequence[torch.Tensor], wanted: Sequence[bool], push_widths: Sequence[int], dtype: torch.dtype,
        pool: Pool,
    ) -> None:  # fmt: skip
        """``wanted`` are the inputs that have gradients."""
        self._script, self._order, self._rows_of, self._shared, self._pool = script, order, rows_of, shared, pool
        self._values = [x if x.is_contiguous() else x.contiguous() for x in values]
        self._lengths = np.array([len(x) for x in values], np.int64)
        self._wanted, self._widths, self._dtype = wanted, push_widths, dtype
        self._threads = compiled("schedule").team_of(script.work, torch.get_num_threads())
        self._pushes = [pool.empty((order.num_nodes, width), dtype) for width in push_widths]
        self._filled: Filled | None = self._fill(None)

    def _fill(self, lease: Any) -> Filled:
        """Fill the script in; the memory of the values is that of an earlier time where there was one."""
        self._value_grads: list[Any] = [None] * len(self._values)
        self._push_grads: list[torch.Tensor] = []
        if self._script.has_backward:
            pairs = zip(self._values, self._wanted, strict=True)
            self._value_grads = [self._pool.empty(x.shape, x.dtype).zero_() if wants else None for x, wants in pairs]
            self._push_grads = [self._pool.empty(x.shape, x.dtype) for x in self._pushes]
        addresses = Addresses(
            [x.data_ptr() for x in self._values],
            [0 if x is None else x.data_ptr() for x in self._value_grads],
            [x.data_ptr() for x in self._pushes],
            [x.data_ptr() for x in self._push_grads] or [0] * len(self._pushes),
        )
        filled = self._script.fill(
            self._order, self._shared, self._rows_of, self._lengths, addresses, self._pool, self._threads, None, lease
        )
        self._lease = filled.lease
        return filled

    def run(self) -> list[torch.Tensor]:
        """Return the pushed values in the order of the graph's nodes."""
        assert self._filled is not None
        compiled("schedule").run_script(self._filled.teams, 0, self._threads)
        pushes, self._pushes = self._pushes, [x.detach() for x in self._pushes]
        return pushes

    def backward(self, gradients: Sequence[torch.Tensor | None]) -> tuple[list[Any], list[Any]]:
        """Return the gradients of the inputs and of the shared tensors, None where nothing reached them."""
        filled = self._filled if self._filled is not None else self._fill(self._lease)
        self._filled = None  # what it gives is no longer ours: another time it is filled in anew
        for given, into in zip(gradients, self._push_grads, strict=True):
            into.zero_() if given is None else into.copy_(given.view(into.shape))
        compiled("schedule").run_script(filled.teams, 1, self._threads)
        return list(self._value_grads), self._shared_grads(filled)

    def _shared_grads(self, filled: Filled) -> list[torch.Tensor | None]:
        """Add up what the rows of all classes give to each shared tensor."""
        found: list[torch.Tensor | None] = [None] * len(self._shared)
        parts, rows = self._script.parts, filled.parts
        if not parts:
            return found
        words = np.empty((len(parts), 11), np.int64)
        make, dtype = compiled("matrix").matrix_kernel, DTYPES[self._dtype]
        for i, part in enumerate(parts):
            weight = self._shared[part.shared]
            turned = part.form == "outer" and lies_by_columns(weight)
            known = found[part.shared]
            numbers = _NUMBERS[dtype][0 if known is None else 1]
            if known is None:
                shape = weight.shape[::-1] if turned else weight.shape
                made = self._pool.empty(shape, weight.dtype)
                known = found[part.shared] = made.t() if turned else made
            into = known.t() if turned else known
            height, width = into.shape if part.form == "outer" else (1, into.numel())
            count, x, x_row, y, y_row = rows[i].tolist()
            if turned:
                x, x_row, y, y_row = y, y_row, x, x_row
            row = width * weight.element_size()
            words[i] = make(part.form, dtype), count, height, width, x, x_row, into.data_ptr(), row, y, y_row, numbers
        starts = np.arange(0, words.size, words.shape[1])
        work = int((words[:, 1] * words[:, 2] * words[:, 3]).sum())
        compiled("steps").run_steps(words.ctypes.data, starts.ctypes.data, 0, len(parts), work, self._threads)
        return found


_PAIRS = {name: np.array([[0.0, 1.0], [1.0, 1.0]], name) for name in ("float32", "float64")}
_NUMBERS = {name: (pairs.ctypes.data, pairs.ctypes.data + pairs.strides[0]) for name, pairs in _PAIRS.items()}
"""Addresses of what is kept of a gradient and the scale of what is added: for the first part, for others."""
