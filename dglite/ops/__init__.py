"""Differentiable sparse operations: where tensors meet kernels.

``gspmm`` and ``gsddmm`` are the general forms. Their common cases have names, made of the tables in ``opspec``:
``copy_u_max``, ``u_mul_e_sum``, ``u_dot_v``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import TYPE_CHECKING

from ..backend import Tensor
from ..expr import Side
from ..opspec import MESSAGES, Reducer
from .grouped import gather_mm, segment_mm
from .public import (
    binary_reduce,
    copy_per_edge,
    copy_reduce,
    dot_attention,
    edge_softmax,
    gat_attention,
    gatv2_attention,
    gsddmm,
    gspmm,
    per_edge,
    segment_reduce,
    segment_softmax,
)

__all__ = [
    "dot_attention",
    "edge_softmax",
    "gat_attention",
    "gather_mm",
    "gatv2_attention",
    "gsddmm",
    "gspmm",
    "segment_mm",
    "segment_reduce",
    "segment_softmax",
]

_NAMED: list[Callable[..., Tensor]] = [copy_per_edge(Side.U), copy_per_edge(Side.V)]
for _reducer in (_entry.value for _entry in Reducer if _entry.fused):
    _NAMED += [copy_reduce(_side, _reducer) for _side in (Side.U, Side.E)]
    _NAMED += [binary_reduce(_op, _reducer) for _op in MESSAGES if _op != "dot"]
for _lhs, _rhs in permutations("uve", 2):
    _NAMED += [per_edge(_lhs, _op, _rhs) for _op in MESSAGES]
globals().update({_call.__name__: _call for _call in _NAMED})
__all__ += [_call.__name__ for _call in _NAMED]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Tensor]: ...
