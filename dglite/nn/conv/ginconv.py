"""Graph isomorphism network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ...backend import Tensor
from ...graph import DGLGraph
from ...opspec import Reducer
from .. import functional
from ..base import Layer

_AGGREGATORS = ("sum", "max", "mean")


@final
class GINConv(Layer):
    r"""Graph isomorphism network of Xu et al., "How powerful are graph neural networks?", 2019.

    .. math:: h_v' = \sigma\Big(f\big((1 + \epsilon) h_v + \mathrm{aggregate}_{u \to v}(w_{uv} h_u)\big)\Big)

    Parameters
    ----------
    apply_func
        :math:`f`, usually a multi-layer perceptron; without it the sum is the result.
    aggregator_type
        ``"sum"``, ``"max"`` or ``"mean"``; another raises ``KeyError``.
    init_eps, learn_eps
        :math:`\epsilon` at first, and whether it is learned. It is in the state either way.
    activation
        Applied to the result.

    A node without in-edges aggregates to 0.

    Shapes
    ------
    feat (num_src, \*, in_feats) -> (num_dst, \*, out_feats), where ``apply_func`` makes out_feats of in_feats
    """

    eps: Tensor

    def __init__(
        self,
        apply_func: Callable[[Tensor], Tensor] | None = None,
        aggregator_type: str = "sum",
        init_eps: float = 0,
        learn_eps: bool = False,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if apply_func is not None:
            functional.require_module(self, "apply_func", apply_func, "torch.nn.Linear(8, 16)")
        if aggregator_type not in _AGGREGATORS:
            raise KeyError(f"aggregator_type={aggregator_type!r} is not known; expected one of {_AGGREGATORS}")
        self.apply_func = apply_func
        self._aggregator_type = aggregator_type
        self.activation = activation
        functional.set_number(self, "eps", init_eps, learn_eps)

    def forward(self, graph: DGLGraph, feat: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return the new features of the destination nodes.

        ``edge_weight`` (num_edges,) multiplies the messages. Raises ``DGLError`` for wrong numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        source, destination = functional.pair_of_features(self, "feat", graph, adjacency, feat)
        if edge_weight is not None:
            functional.require_edge_weight(self, edge_weight, adjacency.num_edges)
        reducer = Reducer(self._aggregator_type)
        scaled = (1 + self.eps) * destination
        result = functional.reduce_neighbours(adjacency, source, reducer, edge_weight, residual=scaled)
        if self.apply_func is not None:
            result = self.apply_func(result)
        return result if self.activation is None else self.activation(result)
