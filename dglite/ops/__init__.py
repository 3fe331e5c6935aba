"""Differentiable sparse operations: where tensors meet kernels.

``gspmm`` and ``gsddmm`` are the general forms; the rest are their common cases by name.
"""

from __future__ import annotations

from ..expr import Side
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
    "copy_e_max",
    "copy_e_mean",
    "copy_e_min",
    "copy_e_sum",
    "copy_u",
    "copy_u_max",
    "copy_u_mean",
    "copy_u_min",
    "copy_u_sum",
    "copy_v",
    "dot_attention",
    "e_add_u",
    "e_add_v",
    "e_div_u",
    "e_div_v",
    "e_dot_u",
    "e_dot_v",
    "e_mul_u",
    "e_mul_v",
    "e_sub_u",
    "e_sub_v",
    "edge_softmax",
    "gat_attention",
    "gather_mm",
    "gatv2_attention",
    "gsddmm",
    "gspmm",
    "segment_mm",
    "segment_reduce",
    "segment_softmax",
    "u_add_e",
    "u_add_e_max",
    "u_add_e_mean",
    "u_add_e_min",
    "u_add_e_sum",
    "u_add_v",
    "u_div_e",
    "u_div_e_max",
    "u_div_e_mean",
    "u_div_e_min",
    "u_div_e_sum",
    "u_div_v",
    "u_dot_e",
    "u_dot_v",
    "u_mul_e",
    "u_mul_e_max",
    "u_mul_e_mean",
    "u_mul_e_min",
    "u_mul_e_sum",
    "u_mul_v",
    "u_sub_e",
    "u_sub_e_max",
    "u_sub_e_mean",
    "u_sub_e_min",
    "u_sub_e_sum",
    "u_sub_v",
    "v_add_e",
    "v_add_u",
    "v_div_e",
    "v_div_u",
    "v_dot_e",
    "v_dot_u",
    "v_mul_e",
    "v_mul_u",
    "v_sub_e",
    "v_sub_u",
]


u_add_e_sum = binary_reduce("add", "sum")
u_add_e_mean = binary_reduce("add", "mean")
u_add_e_max = binary_reduce("add", "max")
u_add_e_min = binary_reduce("add", "min")
u_sub_e_sum = binary_reduce("sub", "sum")
u_sub_e_mean = binary_reduce("sub", "mean")
u_sub_e_max = binary_reduce("sub", "max")
u_sub_e_min = binary_reduce("sub", "min")
u_mul_e_sum = binary_reduce("mul", "sum")
u_mul_e_mean = binary_reduce("mul", "mean")
u_mul_e_max = binary_reduce("mul", "max")
u_mul_e_min = binary_reduce("mul", "min")
u_div_e_sum = binary_reduce("div", "sum")
u_div_e_mean = binary_reduce("div", "mean")
u_div_e_max = binary_reduce("div", "max")
u_div_e_min = binary_reduce("div", "min")
copy_u_sum = copy_reduce(Side.U, "sum")
copy_u_mean = copy_reduce(Side.U, "mean")
copy_u_max = copy_reduce(Side.U, "max")
copy_u_min = copy_reduce(Side.U, "min")
copy_e_sum = copy_reduce(Side.E, "sum")
copy_e_mean = copy_reduce(Side.E, "mean")
copy_e_max = copy_reduce(Side.E, "max")
copy_e_min = copy_reduce(Side.E, "min")
copy_u = copy_per_edge(Side.U)
copy_v = copy_per_edge(Side.V)
u_add_v = per_edge("u", "add", "v")
u_add_e = per_edge("u", "add", "e")
v_add_u = per_edge("v", "add", "u")
v_add_e = per_edge("v", "add", "e")
e_add_u = per_edge("e", "add", "u")
e_add_v = per_edge("e", "add", "v")
u_sub_v = per_edge("u", "sub", "v")
u_sub_e = per_edge("u", "sub", "e")
v_sub_u = per_edge("v", "sub", "u")
v_sub_e = per_edge("v", "sub", "e")
e_sub_u = per_edge("e", "sub", "u")
e_sub_v = per_edge("e", "sub", "v")
u_mul_v = per_edge("u", "mul", "v")
u_mul_e = per_edge("u", "mul", "e")
v_mul_u = per_edge("v", "mul", "u")
v_mul_e = per_edge("v", "mul", "e")
e_mul_u = per_edge("e", "mul", "u")
e_mul_v = per_edge("e", "mul", "v")
u_div_v = per_edge("u", "div", "v")
u_div_e = per_edge("u", "div", "e")
v_div_u = per_edge("v", "div", "u")
v_div_e = per_edge("v", "div", "e")
e_div_u = per_edge("e", "div", "u")
e_div_v = per_edge("e", "div", "v")
u_dot_v = per_edge("u", "dot", "v")
u_dot_e = per_edge("u", "dot", "e")
v_dot_u = per_edge("v", "dot", "u")
v_dot_e = per_edge("v", "dot", "e")
e_dot_u = per_edge("e", "dot", "u")
e_dot_v = per_edge("e", "dot", "v")
