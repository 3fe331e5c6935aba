"""Rows of tensors as bytes, which ranks send."""

from __future__ import annotations

import numpy as np
import torch

from ..backend import Tensor


def row_bytes(like: Tensor) -> int:
    """Return the bytes of a row."""
    return int(np.prod(like.shape[1:], dtype=np.int64)) * like.element_size()


def bytes_of(rows: Tensor) -> Tensor:
    """Return the bytes of rows, uint8 of one dimension."""
    return rows.detach().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def take_rows(rows: Tensor, positions: np.ndarray) -> Tensor:
    """Return some rows. ``rows[positions]`` goes through their numbers one by one, which takes three times as long."""
    return rows.index_select(0, torch.from_numpy(positions))


def rows_from_bytes(packed: Tensor, like: Tensor, count: int) -> Tensor:
    """Return rows with the shape and dtype of those of ``like`` from bytes, which need not be aligned."""
    rows = like.new_empty((count, *like.shape[1:]))
    rows.view(-1).view(torch.uint8).copy_(packed)
    return rows
