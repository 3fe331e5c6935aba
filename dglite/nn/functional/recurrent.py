"""Recurrent networks, as layers use them."""

from __future__ import annotations

from typing import Any

from ...backend import Tensor, active, framework
from ..base import nn
from .given import is_plain


def recurrent(network: Any, *inputs: Any) -> Any:
    """Run a recurrent network, under autocast in the dtype of its parameters.

    torch's recurrent networks in bfloat16 run on some CPUs only.
    """
    if active.autocast_dtype() is None:
        return network(*inputs)
    dtype = next(network.parameters()).dtype

    def cast(x: Any) -> Any:
        return tuple(map(cast, x)) if isinstance(x, tuple) else x.to(dtype)

    with framework.autocast("cpu", enabled=False):
        return network(*map(cast, inputs))


def gated_step(cell: nn.GRUCell, x: Tensor, state: Tensor) -> Tensor:
    """Return what the cell does, ``cell(x, state)``; (rows, input_size) and (rows, hidden_size) -> the next state.

    On a CPU, torch's cell is made of operations that copy what they overwrite, of which this needs and keeps fewer: six
    tensors like the state in place of eight, and adds up in products what the cell adds up after them.
    """
    if not is_plain(cell, nn.GRUCell):
        return cell(x, state)  # type: ignore[no-any-return]
    if active.name != "torch" or not active.on_cpu(x) or active.autocast_dtype() is not None:
        return cell(x, state)  # type: ignore[no-any-return]
    if not active.compiling() and active.needs_operator((x, state)):  # who looks on may keep what this overwrites
        return cell(x, state)  # type: ignore[no-any-return]
    size = cell.hidden_size
    parts = 2 * size, size
    (gates_x, new_x), (gates_h, new_h) = (w.T.split(parts, 1) for w in (cell.weight_ih, cell.weight_hh))
    if cell.bias:
        (bias_x, new_bias_x), (bias_h, new_bias_h) = (b.split(parts) for b in (cell.bias_ih, cell.bias_hh))
        gates, new, state_bias = bias_x + bias_h, new_bias_x, new_bias_h
    else:
        gates = new = state_bias = framework.zeros((), dtype=x.dtype)
    both = framework.addmm(gates, x, gates_x).addmm_(state, gates_h).sigmoid_()
    reset, keep = both.chunk(2, 1)
    candidate = framework.addmm(new, x, new_x).addcmul_(reset, framework.addmm(state_bias, state, new_h)).tanh_()
    return framework.lerp(candidate, state, keep)
