"""Graph convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ...backend import Tensor, framework
from ...errors import DGLError, warn_deprecated
from ...graph import DGLGraph
from .. import functional
from ..base import InEdgesRequired, nn
from ..sparsefeatures import SparseFeatures


@final
class GraphConv(InEdgesRequired):
    r"""Graph convolution of Kipf and Welling, "Semi-supervised classification with graph convolutional networks", 2017.

    .. math:: h_v' = \sigma\Big(b + \sum_{u \to v} \frac{w_{uv}}{c_{uv}} h_u W\Big)

    Normalisation, edge weights and the sum are one kernel; :math:`W` is applied on the narrower side of it,
    and first where both are as wide and features want a gradient. Then the bias, and ReLU if that is the activation,
    are part of the kernel, too.

    Parameters
    ----------
    in_feats, out_feats
        Sizes of the last axis of input and output.
    norm
        :math:`c_{uv}`: ``"both"`` the square root of out-degree(u) times in-degree(v), ``"right"`` in-degree(v),
        ``"left"`` out-degree(u), ``"none"`` 1. Degrees of 0 count as 1. Classic: True is "both", False "none".
    weight, bias
        Whether the layer has :math:`W` (in_feats, out_feats) and :math:`b` (out_feats,).
    activation
        Applied to the result.
    allow_zero_in_degree
        Without it, a graph with nodes without in-edges is refused: the output of such a node is the bias alone.

    Shapes
    ------
    feat (num_src, \*, in_feats) -> (num_dst, \*, out_feats), or a SciPy or torch sparse matrix (num_src, in_feats)

    >>> layer = GraphConv(5, 2)
    >>> layer(g, g.ndata["h"])  # doctest: +SKIP
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        norm: str | bool = "both",
        weight: bool = True,
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, in_feats=in_feats, out_feats=out_feats)
        if isinstance(norm, bool):
            # Of the caller: Layer wraps constructors.
            warn_deprecated("GraphConv(norm=True or False)", "use norm='both' or norm='none'")
            norm = "both" if norm else "none"
        if norm not in functional.gcn_norms:
            raise DGLError(f"norm={norm!r} is not known; expected one of {', '.join(functional.gcn_norms)}")
        self._in_feats, self._out_feats = in_feats, out_feats
        self._norm = norm
        self._activation = activation
        self._allow_zero_in_degree = allow_zero_in_degree
        self.register_parameter("weight", nn.Parameter(framework.empty(in_feats, out_feats)) if weight else None)
        self.register_parameter("bias", nn.Parameter(framework.empty(out_feats)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight from Glorot's uniform distribution and set the bias to 0."""
        if self.weight is not None:
            functional.xavier_uniform_(self.weight)
        functional.zeros_(self.bias)

    def forward(
        self, graph: DGLGraph, feat: Any, weight: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Return the new features of the destination nodes.

        Of a pair of features, only the source's are read. ``weight`` (in_feats, out_feats) serves a layer constructed
        with ``weight=False``. ``edge_weight`` has shape (num_edges,) or (num_edges, 1). Raises ``DGLError`` for nodes
        without in-edges, for two weights, for wrong numbers of rows, and for sparse features without a weight.
        """
        adjacency = functional.adjacency_of(graph)
        self.require_in_edges(adjacency)
        source: Any = functional.as_features(functional.source_of(self, "feat", feat))
        functional.require_rows(self, "feat", source, adjacency.num_src, "source nodes")
        if edge_weight is not None:
            functional.require_edge_weight(self, edge_weight, adjacency.num_edges)
        weight, bias, activation = self._weight(weight), self.bias, self._activation
        relu = functional.is_relu(activation)
        if weight is not None:
            functional.require_width(self, "feat", source, weight.shape[0])
        if weight is None:
            functional.require_dense(source, "a GraphConv without a weight")
            result = functional.normalised_sum(adjacency, source, self._norm, edge_weight, bias, relu)
        elif isinstance(source, SparseFeatures):
            rows = functional.product(source, weight)
            result = functional.normalised_sum(adjacency, rows, self._norm, edge_weight, bias, relu)
        elif functional.product_goes_first(source, adjacency.num_dst, self._in_feats, self._out_feats):
            result = functional.normalised_sum(adjacency, source, self._norm, edge_weight, bias, relu, weight)
        else:  # bias and ReLU belong to the product
            result = functional.normalised_sum(adjacency, source, self._norm, edge_weight)
            result = functional.product(result, weight, bias, relu)
        return functional.activated(result, None, None if relu else activation)

    def _weight(self, weight: Tensor | None) -> Tensor | None:
        parameter = self.weight
        if weight is None:
            return parameter
        if parameter is not None:
            raise DGLError(
                "a weight was given to a layer that has its own; construct it with weight=False to pass one; "
                "weights of edges are edge_weight=w"
            )
        return weight

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        text = f"in={self._in_feats}, out={self._out_feats}, normalization={self._norm}"
        return f"{text}, activation={self._activation}"
