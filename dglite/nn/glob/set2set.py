"""Set2Set pooling."""

from __future__ import annotations

from typing import final

from ...backend import Tensor, framework
from ...graph import DGLGraph
from .. import functional
from ..base import Layer, nn


@final
class Set2Set(Layer):
    r"""Set2Set of Vinyals et al., "Order matters: sequence to sequence for sets", 2016.

    .. math:: q_t = \mathrm{LSTM}(q^*_{t-1}), \quad
              r_t = \sum_i \mathrm{softmax}_i(x_i \cdot q_t)\, x_i, \quad
              q^*_t = q_t \,\Vert\, r_t

    Scores, softmax and sum of a step are one kernel. A graph without nodes has :math:`r_t = 0`. Nodes are of one type.

    Parameters
    ----------
    input_dim
        Size of the last axis of the features.
    n_iters
        How many steps :math:`t` there are.
    n_layers
        Layers of the LSTM.

    Shapes
    ------
    feat (num_nodes, input_dim) -> (batch_size, 2 * input_dim)
    """

    def __init__(self, input_dim: int, n_iters: int, n_layers: int) -> None:
        super().__init__()
        self.input_dim, self.output_dim = input_dim, 2 * input_dim
        self.n_iters, self.n_layers = n_iters, n_layers
        self.lstm = nn.LSTM(self.output_dim, input_dim, n_layers)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters of the LSTM again, as it does itself."""
        self.lstm.reset_parameters()

    def forward(self, graph: DGLGraph, feat: Tensor) -> Tensor:
        """Return a row for each graph. Raises ``DGLError`` for another number of rows, width or node types."""
        sizes = functional.batch_sizes(self, graph, feat)
        functional.require_width(self, "feat", feat, self.input_dim)
        members = functional.graph_members(sizes, feat)
        state = feat.new_zeros((self.n_layers, sizes.shape[0], self.input_dim))
        states, read = (state, state), feat.new_zeros((sizes.shape[0], self.output_dim))
        for _ in range(self.n_iters):
            queries, states = functional.recurrent(self.lstm, read.unsqueeze(0), states)
            query = queries.squeeze(0).to(feat.dtype)
            read = framework.cat([query, functional.attended_by_graph(members, feat, query)], -1)
        return read

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"n_iters={self.n_iters}"
