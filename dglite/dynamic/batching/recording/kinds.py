"""Shapes and dtypes of lazy tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ...program.layout import DTYPES as DTYPES


class TensorKind:
    """Shape and dtype of a lazy tensor; one object for each pair. Booleans are ``stored`` as int32, 0 and 1."""

    __slots__ = ("dtype", "item", "nbytes", "numel", "shape", "stored")

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.shape, self.dtype, self.stored = shape, dtype, torch.int32 if dtype is torch.bool else dtype
        self.numel, self.item = math.prod(shape), self.stored.itemsize
        self.nbytes = self.numel * self.item

    def __repr__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


def is_recordable(dtype: torch.dtype) -> bool:
    """Whether there are lazy tensors of a dtype: values of 4 or 8 bytes, and booleans."""
    return dtype is torch.bool or (dtype.itemsize in (4, 8) and not dtype.is_complex)


_kinds: dict[tuple[tuple[int, ...], torch.dtype], TensorKind] = {}


def kind_of(shape: Sequence[int], dtype: torch.dtype) -> TensorKind:
    """Return the kind."""
    key = tuple(shape), dtype
    kind = _kinds.get(key)
    if kind is None:
        kind = _kinds.setdefault(key, TensorKind(*key))  # threads must agree: kinds are compared by identity
    return kind


def of_row(kind: TensorKind, axes: int = 1) -> TensorKind:
    """Return the kind without axes of length 1 in front, of which operations are the same; some last ``axes`` stay."""
    shape = kind.shape
    while len(shape) > axes and shape[:1] == (1,):
        shape = shape[1:]
    return kind if shape is kind.shape else kind_of(shape, kind.dtype)
