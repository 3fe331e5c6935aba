"""Convolution by mixtures of Gaussians."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor, framework
from ...graph import DGLGraph
from ...opspec import Reducer
from .. import functional
from ..base import InEdgesRequired, nn

_AGGREGATORS = ("sum", "mean", "max")


@final
class GMMConv(InEdgesRequired):
    r"""Gaussian mixture model convolution of Monti et al., "Geometric deep learning on graphs and manifolds using
    mixture model CNNs", 2017.

    .. math:: h_v' = h_v W_r + \sum_{k=1}^{K} \mathrm{aggregate}_{u \to v}\big(w_k(p_{uv})\, h_u W_k\big) + b, \quad
              w_k(p) = \exp\Big(-\frac12 \sum_d \big(\sigma^{-1}_{kd} (p_d - \mu_{kd})\big)^2\Big)

    of each edge's pseudo-coordinates p. Sums and means are taken before the products: one pass over the edges reads
    each source's features once for all kernels.

    Parameters
    ----------
    in_feats
        Size of the input's last axis, or a pair (source, destination).
    out_feats
        Size of the output.
    dim, n_kernels
        Size of the pseudo-coordinates, and :math:`K`.
    aggregator_type
        ``"sum"``, ``"mean"`` or ``"max"``; another raises ``KeyError``.
    residual
        Whether :math:`h_v W_r` is added; the features as they are where sizes agree.
    bias
        Whether :math:`b` is learned.
    allow_zero_in_degree
        Without it, a graph with nodes without in-edges is refused.

    Shapes
    ------
    feat (num_src, in_feats), pseudo (num_edges, dim) -> (num_dst, out_feats)
    """

    bias: Tensor | None
    res_fc: nn.Module | None

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        dim: int,
        n_kernels: int,
        aggregator_type: str = "sum",
        residual: bool = False,
        bias: bool = True,
        allow_zero_in_degree: bool = False,
    ) -> None:
        super().__init__()
        if aggregator_type not in _AGGREGATORS:
            raise KeyError(f"aggregator_type={aggregator_type!r} is not known; expected one of {_AGGREGATORS}")
        self._in_src_feats, self._in_dst_feats = functional.pair_of_sizes(in_feats)
        self._out_feats, self._dim, self._n_kernels = out_feats, dim, n_kernels
        self._aggre_type, self._allow_zero_in_degree = aggregator_type, allow_zero_in_degree
        self.mu = nn.Parameter(framework.empty(n_kernels, dim))
        self.inv_sigma = nn.Parameter(framework.empty(n_kernels, dim))
        self.fc = nn.Linear(self._in_src_feats, n_kernels * out_feats, bias=False)
        self.res_fc = functional.residual(self._in_dst_feats, out_feats) if residual else None
        self.register_parameter("bias", nn.Parameter(framework.empty(out_feats)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw matrices from Glorot's normal distribution with the gain of ReLU, and means from N(0, 0.1)."""
        gain = nn.init.calculate_gain("relu")
        functional.xavier_normal_(self.fc.weight, gain=gain)
        if isinstance(self.res_fc, nn.Linear):
            functional.xavier_normal_(self.res_fc.weight, gain=gain)
        nn.init.normal_(self.mu, 0, 0.1)
        nn.init.constant_(self.inv_sigma, 1)
        functional.zeros_(self.bias)

    def forward(self, graph: DGLGraph, feat: Any, pseudo: Tensor) -> Tensor:
        """Return the new features of the destination nodes.

        Raises ``DGLError`` for nodes without in-edges, wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        self.require_in_edges(adjacency)
        both = self.res_fc is not None
        source, destination = functional.pair_of_features(self, "feat", graph, adjacency, feat, both)
        functional.require_width(self, "feat", source, self._in_src_feats)
        functional.require_rows(self, "pseudo", pseudo, adjacency.num_edges, "edges", self._dim)
        weights = functional.gaussians(adjacency, pseudo, self.mu, self.inv_sigma)
        reducer, kernels = Reducer(self._aggre_type), self._n_kernels
        if reducer is Reducer.MAX or not functional.is_plain(self.fc):
            projected = self.fc(source).reshape(source.shape[0], kernels, self._out_feats)
            result = functional.reduce_neighbours(adjacency, projected, reducer, weights[:, :, None]).sum(1)
        else:
            matrices = self.fc.weight.reshape(kernels, self._out_feats, self._in_src_feats).transpose(1, 2)
            result = functional.sum_of_products(adjacency, source, weights, matrices, reducer)
        if self.res_fc is not None:
            result = result + self.res_fc(destination)
        return result if self.bias is None else result + self.bias
