"""Rows multiplied by the matrix of their group, for typed linear layers.

Rows are put in order of their groups once, so that each group is one product of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..structure.adjacency import Adjacency
from ..structure.ids import integer_array
from .operands import to_common_dtype
from .rows import take_rows


@dataclass(frozen=True, eq=False)
class Groups:
    """Which rows belong to which group.

    Group g has the rows ``order[offsets[g]:offsets[g + 1]]``; ``order`` is None where rows come in order of groups.
    """

    offsets: np.ndarray
    order: np.ndarray | None

    @property
    def num_rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def num_groups(self) -> int:
        return len(self.offsets) - 1


def group_rows(groups: Any, num_groups: int, label: str = "types") -> Groups:
    """Return the groups of rows from the number of each row's group; rows of a group keep their order.

    Raises ``DGLError``: a number is no integer or no group; ``label`` names them.
    """
    numbers = integer_array(groups, label)
    if numbers.ndim != 1:
        raise DGLError(f"{label} have shape {numbers.shape}; expected one number for each row")
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < num_groups:
        wrong = int(numbers.min()) if numbers.min() < 0 else int(numbers.max())
        raise DGLError(f"{label} hold {wrong}; expected numbers from 0 to {num_groups - 1}")
    if bool((numbers[1:] >= numbers[:-1]).all()):
        return Groups(np.searchsorted(numbers, np.arange(num_groups + 1)), None)
    sorted_rows = Adjacency.from_coo(
        len(numbers), num_groups, np.arange(len(numbers)), numbers, validate=False, copy=False
    ).csc()
    return Groups(np.asarray(sorted_rows.indptr, np.int64), np.asarray(sorted_rows.indices, np.int64))


def grouped_mm(groups: Groups, x: Tensor, matrices: Tensor) -> Tensor:
    """Multiply each row by the matrix of its group.

    Parameters
    ----------
    x
        ``(num_rows, \\*batch, in)``.
    matrices
        ``(num_groups, \\*batch, in, out)``; ``*batch`` the same, or none.

    Returns
    -------
    Tensor
        ``(num_rows, \\*batch, out)``. Differentiable any number of times in both.
    """
    x, matrices = to_common_dtype((x, matrices))
    if active.device(x) != active.device(matrices):
        raise DGLError(
            f"got rows on {active.device(x)} and matrices on {active.device(matrices)}; move them to one device"
        )
    if groups.order is not None:
        x = take_rows(x, groups.order, permutation=True)
    result = _sorted_mm(groups.offsets, x, matrices)
    if groups.order is None:
        return result
    back = np.empty_like(groups.order)
    back[groups.order] = np.arange(len(back))
    return take_rows(result, back, permutation=True)


def grouped_outer(groups: Groups, x: Tensor, y: Tensor) -> Tensor:
    """Return for every group the product of its rows of x, turned, with its rows of y: (num_groups, *batch, in, out).

    ``x`` (num_rows, *batch, in), ``y`` (num_rows, *batch, out).
    """
    if groups.order is not None:
        x, y = (take_rows(rows, groups.order, permutation=True) for rows in (x, y))
    return _sorted_outer(groups.offsets, x, y)


class _SortedMM:
    """Rows in order of their groups, each group times its matrix."""

    saved = (0, 1)

    def __init__(self, offsets: np.ndarray) -> None:
        self.offsets = offsets

    def forward(self, x: Tensor, matrices: Tensor) -> Tensor:
        return active.segment_mm(x, matrices, self.offsets)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        x, matrices = inputs[:2]
        turned = _sorted_mm(self.offsets, grad, active.swap_last(matrices)) if needs[0] else None
        outer = _sorted_outer(self.offsets, x, grad) if needs[1] else None
        return [turned, outer]


class _SortedOuter:
    """For every group the product of its rows of x, turned, with its rows of y: (num_groups, *batch, in, out)."""

    saved = (0, 1)

    def __init__(self, offsets: np.ndarray) -> None:
        self.offsets = offsets

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return active.segment_outer(x, y, self.offsets)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        x, y = inputs[:2]
        to_x = _sorted_mm(self.offsets, y, active.swap_last(grad)) if needs[0] else None
        return [to_x, _sorted_mm(self.offsets, x, grad) if needs[1] else None]


def _sorted_mm(offsets: np.ndarray, x: Tensor, matrices: Tensor) -> Tensor:
    if active.needs_operator((x, matrices)):  # made of the library's own operations, whose gradients it knows
        return active.segment_mm(x, matrices, offsets)
    return active.apply(_SortedMM(offsets), x, matrices)


def _sorted_outer(offsets: np.ndarray, x: Tensor, y: Tensor) -> Tensor:
    if active.needs_operator((x, y)):
        return active.segment_outer(x, y, offsets)
    return active.apply(_SortedOuter(offsets), x, y)


# -- under DGL's names -------------------------------------------------------------------------------------------------
@explained
def segment_mm(a: Tensor, b: Tensor, seglen_a: Any) -> Tensor:
    """Multiply the first ``seglen_a[0]`` rows of ``a`` by ``b[0]``, the next ``seglen_a[1]`` by ``b[1]``, ...

    Raises DGLError: the lengths are not one for each matrix or do not sum to N.

    Parameters
    ----------
    a
        Rows, (N, D1), of a floating dtype.
    b
        A matrix for each segment, (R, D1, D2), of the same dtype.
    seglen_a
        Lengths of the segments, R integers from 0 up that sum to N.

    Returns
    -------
    Tensor
        (N, D2). A segment of length 0 has no rows in it; no rows at all give (0, D2).

    Examples
    --------
    >>> import torch
    >>> from dglite import ops
    >>> b = torch.tensor([[[1.]], [[10.]]])
    >>> ops.segment_mm(torch.tensor([[1.], [2.], [3.]]), b, [2, 1])
    tensor([[ 1.],
            [ 2.],
            [30.]])
    """
    sizes = integer_array(seglen_a, "lengths")
    if len(sizes) != len(b) or int(sizes.sum()) != len(a):
        raise DGLError(
            f"segment_mm: got lengths {sizes.tolist()} for {len(a)} rows and {len(b)} matrices; they must match"
        )
    return grouped_mm(Groups(np.concatenate([[0], np.cumsum(sizes)]), None), a, b)


@explained
def gather_mm(a: Tensor, b: Tensor, *, idx_b: Any) -> Tensor:
    """Multiply row i of ``a`` by matrix ``idx_b[i]`` of ``b``.

    Raises DGLError: another number of indices than rows, or an index without a matrix.

    Parameters
    ----------
    a
        Rows, (N, D1), of a floating dtype.
    b
        Matrices, (R, D1, D2), of the same dtype.
    idx_b
        N integers from 0 to R - 1.

    Returns
    -------
    Tensor
        (N, D2); no rows give (0, D2).

    Examples
    --------
    >>> import torch
    >>> from dglite import ops
    >>> b = torch.tensor([[[1.]], [[10.]]])
    >>> ops.gather_mm(torch.tensor([[1.], [2.], [3.]]), b, idx_b=[1, 0, 1])
    tensor([[10.],
            [ 2.],
            [30.]])
    """
    groups = group_rows(idx_b, len(b), "idx_b")
    if groups.num_rows != len(a):
        raise DGLError(f"gather_mm: got {groups.num_rows} indices for {len(a)} rows; expected one for each")
    return grouped_mm(groups, a, b)
