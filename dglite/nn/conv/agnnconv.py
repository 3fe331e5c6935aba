"""Attention by cosines."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor
from ...graph import DGLGraph
from .. import functional
from ..base import InEdgesRequired


@final
class AGNNConv(InEdgesRequired):
    r"""Attention-based graph network of Thekumparampil et al., "Attention-based graph neural network for
    semi-supervised learning", 2018.

    .. math:: h_v' = \sum_{u \to v} \alpha_{uv} h_u, \quad
              \alpha_{uv} = \mathrm{softmax}_u\big(\beta \cos(h_u, h_v)\big)

    Scores, softmax and sum are one kernel, in which no score is stored.

    Parameters
    ----------
    init_beta, learn_beta
        :math:`\beta` at first, and whether it is learned. It is in the state either way.
    allow_zero_in_degree
        Without it, a graph with nodes without in-edges is refused: the output of such a node is 0.

    Shapes
    ------
    feat (num_src, \*feat) -> (num_dst, \*feat); cosines are along the last axis
    """

    beta: Tensor

    def __init__(self, init_beta: float = 1.0, learn_beta: bool = True, allow_zero_in_degree: bool = False) -> None:
        super().__init__()
        self._allow_zero_in_degree = allow_zero_in_degree
        functional.set_number(self, "beta", init_beta, learn_beta)

    def forward(self, graph: DGLGraph, feat: Any) -> Tensor:
        """Return the new features of the destination nodes.

        Raises ``DGLError`` for nodes without in-edges and for wrong numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        self.require_in_edges(adjacency)
        source, destination = functional.pair_of_features(self, "feat", graph, adjacency, feat)
        return functional.cosine_attention(adjacency, source, destination, self.beta)
