"""Scaled dot product attention, by samples, heads and rows of the query; distances of pairs; Fourier transforms."""

from __future__ import annotations

import torch

from ..operator import OperatorCall, SplitRule, rule
from .common import IndexNames, aligned, outer, slices

aten = torch.ops.aten

ROWS: list[str | None] = ["b", "h", "l", None]
WHOLE: list[str | None] = ["b", "h", None, None]


def _names(call: OperatorCall) -> dict[str, IndexNames]:
    """Return the indices of the tensors of an attention and of its gradient."""
    rows = ROWS if not call["is_causal"] else WHOLE
    heads = list(rows[:3])
    names: dict[str, IndexNames] = {"query": rows, "key": WHOLE, "value": WHOLE, "out": rows, "grad_out": rows}
    names["logsumexp"] = heads
    for name in ("attn_mask", "attn_bias"):
        if name in call.names:
            names[name] = aligned(call.shape(name), [*heads, None])
    return names


@rule(aten._scaled_dot_product_flash_attention_for_cpu)
def attention(call: OperatorCall) -> SplitRule | None:
    names = _names(call)
    if call.shape("query")[1] != call.shape("key")[1]:
        return None
    random = call["dropout_p"] > 0
    return slices(call, names, [names["out"], names["logsumexp"]], random=random)


@rule(aten._scaled_dot_product_flash_attention_for_cpu_backward)
def attention_backward(call: OperatorCall) -> SplitRule | None:
    names = _names(call)
    if call.shape("query")[1] != call.shape("key")[1]:
        return None
    of_keys = WHOLE if call["is_causal"] else [*WHOLE, "+l"]
    return slices(call, names, [names["query"], of_keys, of_keys])


@rule(aten._cdist_forward)
def cdist(call: OperatorCall) -> SplitRule:
    rank = len(call.outputs[0])
    batch = outer(rank, (rank - 2, rank - 1))[:-2]
    out: list[str | None] = [*batch, "i", "j"]
    return slices(
        call, [aligned(call.inputs[0], [*batch, "i", None]), aligned(call.inputs[1], [*batch, "j", None])], [out]
    )


@rule(aten._fft_r2c, aten._fft_c2r, aten._fft_c2c)
def fft(call: OperatorCall) -> SplitRule:
    names = outer(len(call.outputs[0]), call.dims())
    return slices(call, [names], [names])
