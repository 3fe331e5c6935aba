"""Convolution with a matrix per edge, computed from edge features by a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ...backend import Tensor, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from .. import functional
from ..base import Layer, nn

_AGGREGATORS = ("sum", "mean", "max")


@final
class NNConv(Layer):
    r"""Convolution of Gilmer et al., "Neural message passing for quantum chemistry", 2017.

    .. math:: h_v' = h_v W_r + \mathrm{aggregate}_{u \to v}\big(h_u\, f(e_{uv})\big) + b

    where :math:`f` makes a matrix (in_feats, out_feats) of each edge's features. Where ``edge_func`` is a ``Linear``,
    or a ``Sequential`` that ends in one, its matrices are never made: neighbours are added up, weighted by what the
    last layer would read, and multiplied after that. That holds for sums and means.

    Parameters
    ----------
    in_feats
        Size of the input's last axis, or a pair (source, destination).
    out_feats
        Size of the output.
    edge_func
        :math:`f`: (num_edges, edge features) -> (num_edges, in_feats * out_feats).
    aggregator_type
        ``"sum"``, ``"mean"``, or ``"max"``, which is taken of each product of an input and a matrix's element, before
        these are added up; another raises ``KeyError``.
    residual
        Whether :math:`h_v W_r` is added; the features as they are where sizes agree.
    bias
        Whether :math:`b` is learned.

    A node without in-edges aggregates to 0.

    Shapes
    ------
    feat (num_src, in_feats), efeat (num_edges, \*) -> (num_dst, out_feats)
    """

    bias: Tensor | None
    res_fc: nn.Module | None

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        edge_func: Callable[[Tensor], Tensor],
        aggregator_type: str = "mean",
        residual: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        functional.require_module(self, "edge_func", edge_func, "torch.nn.Linear(edge_feats, in_feats * out_feats)")
        if aggregator_type not in _AGGREGATORS:
            raise KeyError(f"aggregator_type={aggregator_type!r} is not known; expected one of {_AGGREGATORS}")
        self._in_src_feats, self._in_dst_feats = functional.pair_of_sizes(in_feats)
        self._out_feats, self._aggre_type = out_feats, aggregator_type
        self.edge_func = edge_func
        self.res_fc = functional.residual(self._in_dst_feats, out_feats) if residual else None
        self.register_parameter("bias", nn.Parameter(framework.empty(out_feats)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the residual matrix from Glorot's normal distribution with the gain of ReLU and set the bias to 0."""
        functional.zeros_(self.bias)
        if isinstance(self.res_fc, nn.Linear):
            functional.xavier_normal_(self.res_fc.weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, graph: DGLGraph, feat: Any, efeat: Tensor) -> Tensor:
        """Return the destinations' new features; raises ``DGLError`` for wrong widths and numbers of rows."""
        adjacency = functional.adjacency_of(graph)
        both = self.res_fc is not None
        source, destination = functional.pair_of_features(self, "feat", graph, adjacency, feat, both)
        functional.require_width(self, "feat", source, self._in_src_feats)
        functional.require_rows(self, "efeat", efeat, adjacency.num_edges, "edges")
        if self.res_fc is not None:
            functional.require_width(self, "feat", destination, self._in_dst_feats)
        result = self._aggregate(adjacency, source, efeat)
        if self.res_fc is not None:
            result = result + self.res_fc(destination)
        return result if self.bias is None else result + self.bias

    def _aggregate(self, adjacency: Adjacency, source: Tensor, efeat: Tensor) -> Tensor:
        reducer, shape = Reducer(self._aggre_type), (self._in_src_feats, self._out_feats)
        last = functional.last_linear(self.edge_func)
        if last is not None and reducer is not Reducer.MAX:
            before, linear = last
            self._require_matrices(linear.weight.shape[0])
            for layer in before:
                efeat = layer(efeat)
            functional.require_width(self, "the input of edge_func's last Linear", efeat, linear.weight.shape[1])
            # One layer less than the matrices: (num_edges, k), times k matrices.
            matrices = linear.weight.T.reshape(linear.weight.shape[1], *shape)
            result = functional.sum_of_products(adjacency, source, efeat, matrices, reducer)
            if linear.bias is not None:
                result = result + functional.reduce_neighbours(adjacency, source, reducer) @ linear.bias.reshape(shape)
            return result
        matrices = self.edge_func(efeat)
        self._require_matrices(matrices.shape[-1])
        matrices = matrices.reshape(adjacency.num_edges, *shape)
        return functional.reduce_neighbours(adjacency, source[:, :, None], reducer, matrices).sum(1)

    def _require_matrices(self, width: int) -> None:
        sizes = self._in_src_feats, self._out_feats
        if width != sizes[0] * sizes[1]:
            raise DGLError(
                f"NNConv: edge_func makes {width} numbers for each edge; expected {sizes[0] * sizes[1]}, a matrix "
                f"in_feats * out_feats = {sizes[0]} * {sizes[1]}"
            )
