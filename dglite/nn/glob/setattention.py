"""Parts of set transformers: attention inside each graph of a batch, with its feed-forward network."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from ...backend import Tensor, active, framework
from .. import functional
from ..base import Layer, nn

MOST_SEEDS = 8
"""Of more seeds, an edge for each row and seed is many edges: keys are made, and meet their queries densely."""


def feed_forward(d_model: int, d_ff: int, dropout: float) -> nn.Sequential:
    """Return two linear layers with ReLU and dropout between."""
    return nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))


@final
class MultiHeadAttention(Layer):
    r"""Attention of rows over the rows of their graph's memory, then a feed-forward network, each added and normalised.

    .. math:: y = \mathrm{norm}\big(x + W_O\, \mathrm{attention}(W_Q x, W_K m, W_V m)\big), \quad
              \mathrm{norm}(y + \mathrm{ffn}(y))

    ``dropouth`` is inside the network, ``dropouta`` of the attention's weights. Where a graph has no memory the
    attention is 0.

    Shapes
    ------
    x (num_rows, d_model), mem (num_memory_rows, d_model) -> (num_rows, d_model)
    """

    def __init__(
        self, d_model: int, num_heads: int, d_head: int, d_ff: int, dropouth: float = 0.0, dropouta: float = 0.0
    ) -> None:
        super().__init__()
        self.d_model, self.num_heads, self.d_head, self.d_ff = d_model, num_heads, d_head, d_ff
        self.dropouta = dropouta
        self.proj_q = nn.Linear(d_model, num_heads * d_head, bias=False)
        self.proj_k = nn.Linear(d_model, num_heads * d_head, bias=False)
        self.proj_v = nn.Linear(d_model, num_heads * d_head, bias=False)
        self.proj_o = nn.Linear(num_heads * d_head, d_model, bias=False)
        self.ffn = feed_forward(d_model, d_ff, dropouth)
        self.norm_in = nn.LayerNorm(d_model)
        self.norm_inter = nn.LayerNorm(d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all matrices from Glorot's uniform distribution."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                functional.xavier_uniform_(parameter)

    def forward(self, x: Tensor, mem: Tensor, pairs: functional.SetPairs | functional.SetSizes) -> Tensor:
        """Return the new rows; ``pairs`` says which rows meet which memory."""
        queries, keys, values = (
            functional.by_head(project(rows), self.num_heads)
            for project, rows in ((self.proj_q, x), (self.proj_k, mem), (self.proj_v, mem))
        )
        return self._finish(x, functional.set_attention(pairs, queries, keys, values, self._dropout()))

    def of_seeds(self, seeds: Tensor, mem: Tensor, sizes: np.ndarray) -> Tensor:
        """Return the new rows of the same seeds for every graph: (m, d_model) -> (batch_size * m, d_model).

        ``sizes`` (batch_size,) are the graphs' numbers of memory rows. Few seeds meet the memory in the product that
        would make its keys.
        """
        x = seeds.repeat(sizes.shape[0], 1)
        many = len(seeds) > min(MOST_SEEDS, self.d_head)
        if many or active.compiling() or active.is_tensor(sizes) or not functional.is_plain(self.proj_k):
            return self(x, mem, functional.set_pairs(functional.equal_sizes(sizes, seeds.shape[0]), sizes))
        queries = functional.by_head(self.proj_q(seeds), self.num_heads) / math.sqrt(self.d_head)
        matrices = self.proj_k.weight.reshape(self.num_heads, self.d_head, self.d_model)
        readers = framework.einsum("shd,hdi->shi", queries, matrices)
        scores = nn.functional.linear(mem, readers.flatten(0, 1)).reshape(len(mem), *readers.shape[:2])
        values = functional.by_head(self.proj_v(mem), self.num_heads)
        return self._finish(x, functional.seed_attention(sizes, scores, values, self._dropout()))

    def _dropout(self) -> float:
        return self.dropouta if self.training else 0.0

    def _finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return what follows of the attention's result, (num_rows, num_heads, d_head)."""
        x = self.norm_in(x + self.proj_o(attended.reshape(x.shape[0], self.num_heads * self.d_head)))
        return self.norm_inter(x + self.ffn(x))


@final
class SetAttentionBlock(Layer):
    """Attention of each graph's rows over themselves: (num_rows, d_model) -> (num_rows, d_model)."""

    def __init__(
        self, d_model: int, num_heads: int, d_head: int, d_ff: int, dropouth: float = 0.0, dropouta: float = 0.0
    ) -> None:
        super().__init__()
        self.mha = MultiHeadAttention(d_model, num_heads, d_head, d_ff, dropouth, dropouta)

    def forward(self, feat: Tensor, pairs: functional.SetPairs | functional.SetSizes) -> Tensor:
        """Return the new rows; ``pairs`` are those of every graph's rows with themselves."""
        return self.mha(feat, feat, pairs)


@final
class InducedSetAttentionBlock(Layer):
    """Attention of ``m`` learned points over each graph's rows, and of the rows over what the points read.

    It costs m scores for each row in place of the graph's size. With one point the second attention has nothing to
    choose between, so its queries and keys are not trained. (num_rows, d_model) -> (num_rows, d_model).
    """

    def __init__(
        self, m: int, d_model: int, num_heads: int, d_head: int, d_ff: int, dropouth: float = 0.0, dropouta: float = 0.0
    ) -> None:
        super().__init__()
        self.m, self.d_model = m, d_model
        self.inducing_points = nn.Parameter(framework.empty(m, d_model))
        both = (MultiHeadAttention(d_model, num_heads, d_head, d_ff, dropouth, dropouta) for _ in range(2))
        self.mha = nn.ModuleList(both)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the points from Glorot's uniform distribution."""
        functional.xavier_uniform_(self.inducing_points)

    def forward(self, feat: Tensor, sizes: np.ndarray) -> Tensor:
        """Return the new rows; ``sizes`` (batch_size,) are the graphs' numbers of rows."""
        points = functional.equal_sizes(sizes, self.m)
        read, write = self.mha
        memory = read.of_seeds(self.inducing_points, feat, sizes)  # type: ignore[operator]
        return write(feat, memory, functional.set_pairs(sizes, points))

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"inducing_points={tuple(self.inducing_points.shape)}"


@final
class PMALayer(Layer):
    """Attention of ``k`` learned seeds over each graph's rows: (num_rows, d_model) -> (batch_size * k, d_model)."""

    def __init__(
        self, k: int, d_model: int, num_heads: int, d_head: int, d_ff: int, dropouth: float = 0.0, dropouta: float = 0.0
    ) -> None:
        super().__init__()
        self.k, self.d_model = k, d_model
        self.seed_vectors = nn.Parameter(framework.empty(k, d_model))
        self.mha = MultiHeadAttention(d_model, num_heads, d_head, d_ff, dropouth, dropouta)
        self.ffn = feed_forward(d_model, d_ff, dropouth)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the seeds from Glorot's uniform distribution."""
        functional.xavier_uniform_(self.seed_vectors)

    def forward(self, feat: Tensor, sizes: np.ndarray) -> Tensor:
        """Return k rows for each graph; ``sizes`` (batch_size,) are the graphs' numbers of rows."""
        return self.mha.of_seeds(self.seed_vectors, self.ffn(feat), sizes)

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"seed_vectors={tuple(self.seed_vectors.shape)}"
