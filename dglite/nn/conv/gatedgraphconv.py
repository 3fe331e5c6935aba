"""Gated graph sequence network."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...opspec import Reducer
from .. import functional
from ..base import Layer, nn


@final
class GatedGraphConv(Layer):
    r"""Gated graph convolution of Li et al., "Gated graph sequence neural networks", 2016.

    .. math:: h_v^{(0)} = [h_v, 0], \quad h_v^{(t+1)} =
              \mathrm{GRU}\Big(\sum_{u \to v} (W_{r(uv)} h_u^{(t)} + b_{r(uv)}),\; h_v^{(t)}\Big)

    Matrices are applied to pairs of a node and an edge type, as in :class:`RelGraphConv`; no message is stored.

    Parameters
    ----------
    in_feats, out_feats
        Sizes of the last axis of input and output; the input is filled up with zeros.
    n_steps
        How many steps are taken.
    n_etypes
        How many types of edges there are.
    bias
        Whether the GRU has biases.

    Raises ``DGLError`` for an output narrower than the input.

    Shapes
    ------
    feat (num_nodes, in_feats), etypes (num_edges,) -> (num_nodes, out_feats)
    """

    def __init__(self, in_feats: int, out_feats: int, n_steps: int, n_etypes: int, bias: bool = True) -> None:
        super().__init__()
        functional.require_sizes(self, in_feats=in_feats, n_steps=n_steps, n_etypes=n_etypes)
        if in_feats > out_feats:
            raise DGLError(f"GatedGraphConv: out_feats={out_feats} must not be less than in_feats={in_feats}")
        self._in_feats, self._out_feats, self._n_steps, self._n_etypes = in_feats, out_feats, n_steps, n_etypes
        self.linears: Any = nn.ModuleList([nn.Linear(out_feats, out_feats) for _ in range(n_etypes)])
        self.gru = nn.GRUCell(out_feats, out_feats, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the types' matrices from Glorot's normal distribution with the gain of ReLU, set their biases to 0."""
        self.gru.reset_parameters()
        for linear in self.linears:
            functional.xavier_normal_(linear.weight, gain=nn.init.calculate_gain("relu"))  # type: ignore[arg-type]
            nn.init.zeros_(linear.bias)  # type: ignore[arg-type]

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Do nothing: a node without in-edges is updated with a sum of 0."""

    def forward(self, graph: DGLGraph, feat: Tensor, etypes: Any = None) -> Tensor:
        """Return the features after the steps.

        ``etypes`` numbers the edges' types; with one type it need not be given. Raises ``DGLError`` for types that are
        missing or out of range, wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        feat = functional.require_one_size(self, "feat", graph, feat, self._in_feats)
        if etypes is None and self._n_etypes != 1:
            raise DGLError(f"GatedGraphConv has {self._n_etypes} types of edges: give etypes, each edge's type")
        if etypes is not None:
            functional.require_rows(self, "etypes", etypes, adjacency.num_edges, "edges")
        missing = self._out_feats - self._in_feats
        if missing:
            feat = framework.cat(
                [feat, framework.zeros(feat.shape[0], missing, dtype=feat.dtype, device=feat.device)], 1
            )
        if etypes is None:
            for _ in range(self._n_steps):
                messages = functional.reduce_neighbours(adjacency, self.linears[0](feat), Reducer.SUM)
                feat = functional.gated_step(self.gru, messages, feat)
            return feat
        for linear in self.linears:
            functional.compute_weights(linear, feat)
        matrices = framework.stack([linear.weight.T for linear in self.linears], 0)
        biases = framework.stack([linear.bias for linear in self.linears], 0)
        arriving = functional.edge_type_counts(adjacency, etypes, self._n_etypes, feat) @ biases
        for _ in range(self._n_steps):
            messages = functional.typed_sum(adjacency, feat, etypes, matrices) + arriving
            feat = functional.gated_step(self.gru, messages, feat)
        return feat
