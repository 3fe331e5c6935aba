"""Graph isomorphism network with edge features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ...backend import Tensor
from ...errors import DGLError
from ...graph import DGLGraph
from .. import functional
from ..base import Layer


@final
class GINEConv(Layer):
    r"""Graph isomorphism network with edge features, of Hu et al., "Strategies for pre-training graph neural
    networks", 2020.

    .. math:: h_v' = f\Big((1 + \epsilon) h_v + \sum_{u \to v} \mathrm{ReLU}(h_u + e_{uv})\Big)

    Message and sum are one kernel.

    Parameters
    ----------
    apply_func
        :math:`f`, usually a multi-layer perceptron; without it the sum is the result.
    init_eps, learn_eps
        :math:`\epsilon` at first, and whether it is learned. It is in the state either way.

    A node without in-edges has the sum 0.

    Shapes
    ------
    node_feat (num_src, in_feats), edge_feat (num_edges, in_feats) -> (num_dst, out_feats)
    """

    eps: Tensor

    def __init__(
        self, apply_func: Callable[[Tensor], Tensor] | None = None, init_eps: float = 0, learn_eps: bool = False
    ) -> None:
        super().__init__()
        self.apply_func = apply_func
        functional.set_number(self, "eps", init_eps, learn_eps)

    def forward(self, graph: DGLGraph, node_feat: Any, edge_feat: Tensor) -> Tensor:
        """Return the new features of the destination nodes; raises ``DGLError`` for wrong numbers of rows."""
        adjacency = functional.adjacency_of(graph)
        source, destination = functional.pair_of_features(self, "node_feat", graph, adjacency, node_feat)
        functional.require_rows(self, "edge_feat", edge_feat, adjacency.num_edges, "edges")
        if edge_feat.shape[-1] not in (1, source.shape[-1]):
            raise DGLError(
                f"GINEConv: edge_feat has shape {tuple(edge_feat.shape)}, node_feat {tuple(source.shape)}; expected as "
                "many features for edges as for nodes: project them first, by a torch.nn.Linear"
            )
        result = (1 + self.eps) * destination + functional.sum_of_relu(adjacency, source, edge_feat)
        return result if self.apply_func is None else self.apply_func(result)
