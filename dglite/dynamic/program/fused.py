"""Functions that torch computes by one operator on a GPU, written with the operators that it uses on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


def _gates(x: Tensor, hidden: Tensor, *biases: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the products with the input and with the hidden state, with their biases."""
    of_input, of_hidden = (*biases, None, None)[:2]
    return (
        x if of_input is None else x + of_input,
        hidden if of_hidden is None else hidden + of_hidden,
    )


def _lstm(x: Tensor, hidden: Tensor, cell: Tensor, *biases: Tensor | None) -> tuple[Tensor, ...]:
    of_input, of_hidden = _gates(x, hidden, *biases)
    i, f, g, o = (of_input + of_hidden).chunk(4, 1)
    after = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(after), after, cell


def _gru(x: Tensor, hidden: Tensor, state: Tensor, *biases: Tensor | None) -> tuple[Tensor, ...]:
    of_input, of_hidden = (gates.chunk(3, 1) for gates in _gates(x, hidden, *biases))
    reset, update = (torch.sigmoid(of_hidden[k] + of_input[k]) for k in range(2))
    new = torch.tanh(of_input[2] + of_hidden[2] * reset)
    return (state - new) * update + new, state


def _dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, ...]:
    if train is False or p == 0:
        return x, x
    return x * torch.empty_like(x).bernoulli_(1 - p).div_(1 - p), x


FUSED: Mapping[str, Callable[..., tuple[Tensor, ...]]] = {
    "_thnn_fused_lstm_cell": _lstm,
    "_thnn_fused_gru_cell": _gru,
    "native_dropout": _dropout,
}
"""By the name of the ATen operator; the last result stands for a workspace or mask that only torch's gradient reads."""
