"""Differentiable sparse operations on tensors: the layer between tensors and kernels.

``gspmm`` and ``gsddmm`` are the general forms. Their common cases have names, made of the tables in ``opspec``:
``copy_u_max``, ``u_mul_e_sum``, ``u_dot_v``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import hints
from ..backend import Tensor
from .grouped import gather_mm, segment_mm
from .public import edge_softmax, gsddmm, gspmm, segment_reduce, segment_softmax
from .public_attention import dot_attention, gat_attention, gatv2_attention
from .shorthands import SHORTHANDS

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

globals().update({_call.__name__: _call for _call in SHORTHANDS})
__all__ += [_call.__name__ for _call in SHORTHANDS]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Tensor]: ...
else:
    __getattr__ = hints.names_of(__name__)
