"""Transforms that weight edges by degree, or replace edges by a diffusion."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.scope import copies
from ..graph.storage import make_graph
from ..structure import Adjacency
from ..structure.ids import LARGEST_COUNT, count_of, number_of
from .module import BaseTransform
from .parts import matrix, require_homogeneous


class GCNNorm(BaseTransform):
    """Weighs the edges between nodes of one type by ``w / sqrt(d(u) d(v))``, d(v) the sum of v's in-edges' weights.

    The edge feature ``eweight_name`` is read (all 1 if the graph has none) and written. Differentiable. An edge at a
    node of degree 0 gets 0. Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks (2017).
    """

    def __init__(self, eweight_name: str = "w") -> None:
        self.eweight_name = eweight_name

    def __call__(self, g: DGLGraph) -> DGLGraph:
        result = g.clone()
        for index, (src, dst) in enumerate(g.type_graph.ends):
            if src == dst:
                frame, adjacency = result.edge_frame_at(index), g.adjacencies[index]
                weights = frame.peek(self.eweight_name)
                weights = _ones(g, adjacency.num_edges) if weights is None else weights
                frame[self.eweight_name] = _symmetric(adjacency, weights)
        return result


def _ones(g: DGLGraph, count: int) -> Tensor:
    return active.full((count,), 1, "float32", g.features_device)


def _symmetric(adjacency: Adjacency, weights: Tensor) -> Tensor:
    """Return ``weights / sqrt(d(u) d(v))``."""
    scale = _power(ops.gspmm(adjacency, "copy_rhs", "sum", None, weights), -0.5)
    src, dst = adjacency.endpoints()
    return weights * active.take(scale, src) * active.take(scale, dst)


def _power(degrees: Tensor, exponent: float) -> Tensor:
    """Return ``degrees ** exponent``, 0 where the degree is 0."""
    positive = active.to_numpy(degrees).reshape(-1).nonzero()[0]
    zeros = active.full(active.shape(degrees), 0, active.dtype(degrees), active.device(degrees))
    return active.put(zeros, positive, active.take(degrees, positive) ** exponent)


# -- diffusion of the structure ----------------------------------------------------------------------------------
class _Diffusion(BaseTransform):
    """Replaces the edges by those of a diffused adjacency matrix, less those of little weight."""

    def __init__(self, eweight_name: str, eps: float | None, avg_degree: int) -> None:
        self.eweight_name, self.eps = eweight_name, None if eps is None else number_of(eps, "eps")
        self.avg_degree = number_of(avg_degree, "avg_degree", 0, LARGEST_COUNT)

    def __call__(self, g: DGLGraph) -> DGLGraph:
        adjacency = require_homogeneous(g, type(self).__name__)
        column = g.edge_frame_at(0).peek(self.eweight_name)
        if column is not None and active.shape(column) != (adjacency.num_edges,):
            raise DGLError(
                f"edge weights {self.eweight_name!r} must be one number per edge, got {active.shape(column)}"
            )
        weights = None if column is None else active.to_numpy(column)
        # By destination, as messages go: entry (v, u) is the weight of u -> v.
        import scipy.sparse  # 0.2 s, which `import dglite` must not pay

        diffused = scipy.sparse.coo_matrix(self._diffused(matrix(adjacency, weights).T.tocsr()))
        order = np.lexsort((diffused.col, diffused.row))
        order = order[diffused.data[order] != 0]
        dst, src, values = diffused.row[order], diffused.col[order], diffused.data[order]
        above = values >= self._threshold(values, adjacency.num_src)
        relation = Adjacency.from_coo(
            adjacency.num_src, adjacency.num_src, src[above], dst[above], g.numpy_idtype, validate=False
        )
        result = make_graph(g.type_graph, (relation,), g.node_counts, g.device)
        result.numpy_idtype, result.node_frames = g.numpy_idtype, copies(g.node_frames)
        dtype = "float32" if column is None else active.dtype(column)
        result.edata[self.eweight_name] = active.astype(result.as_tensor(values[above]), dtype)
        return result

    def _threshold(self, values: np.ndarray, num_nodes: int) -> float:
        """Return the least weight to keep: ``eps``, or the weight above which ``avg_degree`` edges per node remain."""
        if self.eps is not None:
            return self.eps
        num_edges = int(self.avg_degree * num_nodes)
        if num_edges >= len(values):
            return -np.inf
        return float(np.partition(values, len(values) - num_edges)[len(values) - num_edges]) if num_edges else np.inf

    @abstractmethod
    def _diffused(self, adjacency: Any) -> Any:
        """Return the diffused matrix, dense or sparse."""


class PPR(_Diffusion):
    """Replaces edges by personalised PageRank, ``alpha (I - (1 - alpha) A)^-1``. Page et al. (1999).

    Parameters
    ----------
    alpha
        the probability of a restart, mostly 0.05 to 0.2.
    eweight_name
        the edge feature of the weights, all 1 if the graph has none; the result has it, too.
    eps
        the least weight of an edge that stays.
    avg_degree
        without ``eps``: the mean degree of the result.

    Edges are ordered by destination, then source. The matrix is dense: mind the number of nodes.
    """

    def __init__(
        self, alpha: float = 0.15, eweight_name: str = "w", eps: float | None = None, avg_degree: int = 5
    ) -> None:
        super().__init__(eweight_name, eps, avg_degree)
        self.alpha = number_of(alpha, "alpha", 0, 1)

    def _diffused(self, adjacency: Any) -> np.ndarray:
        step = np.eye(adjacency.shape[0]) - (1 - self.alpha) * adjacency.toarray()
        return self.alpha * np.linalg.inv(step)


class HeatKernel(_Diffusion):
    """Replaces edges by the heat kernel ``exp(-t (I - A))``, ``t`` the time. Kondor and Lafferty (2002).

    The other arguments and the order of edges are those of :class:`PPR`.
    """

    def __init__(self, t: float = 2.0, eweight_name: str = "w", eps: float | None = None, avg_degree: int = 5) -> None:
        super().__init__(eweight_name, eps, avg_degree)
        self.t = number_of(t, "t", 0, LARGEST_COUNT)

    def _diffused(self, adjacency: Any) -> np.ndarray:
        from scipy.linalg import expm  # 0.2 s, which `import dglite` must not pay

        heat: np.ndarray = expm(-self.t * (np.eye(adjacency.shape[0]) - adjacency.toarray()))
        return heat


class GDC(_Diffusion):
    """Replaces edges by ``sum_k coefs[k] A^k``. Klicpera et al., Diffusion Improves Graph Learning (2019).

    The other arguments and the order of edges are those of :class:`PPR`.
    """

    def __init__(
        self, coefs: Sequence[float], eweight_name: str = "w", eps: float | None = None, avg_degree: int = 5
    ) -> None:
        super().__init__(eweight_name, eps, avg_degree)
        self.coefs = [number_of(coefficient, "a coefficient") for coefficient in coefs]

    def _diffused(self, adjacency: Any) -> Any:
        import scipy.sparse

        power = scipy.sparse.identity(adjacency.shape[0], format="csr")
        total = 0 * power
        for i, coefficient in enumerate(self.coefs):
            power = power @ adjacency if i else power
            total = total + coefficient * power
        return total.tocsr()


# -- diffusion of features ---------------------------------------------------------------------------------------
class SIGNDiffusion(BaseTransform):
    """Writes the input features diffused 1 .. ``k`` times to the node features ``<out_feat_name>_1`` and so on.

    A step is, by ``diffuse_op``: ``"raw"`` A X; ``"rw"`` the mean over in-edges; ``"gcn"`` ``D^-1/2 A D^-1/2 X``;
    ``"ppr"`` ``(1 - alpha)`` times that plus ``alpha`` times the input. Edges are weighted by ``eweight_name`` where
    one is given. Differentiable. Frasca et al., SIGN (2020).
    """

    def __init__(
        self,
        k: int,
        in_feat_name: str = "feat",
        out_feat_name: str = "out_feat",
        eweight_name: str | None = None,
        diffuse_op: str = "raw",
        alpha: float = 0.2,
    ) -> None:
        if diffuse_op not in ("raw", "rw", "gcn", "ppr"):
            raise DGLError(f"SIGNDiffusion: diffuse_op={diffuse_op!r}; expected 'raw', 'rw', 'gcn' or 'ppr'")
        self.k, self.in_feat_name, self.out_feat_name = count_of(k, "k", 1), in_feat_name, out_feat_name
        self.eweight_name, self.diffuse_op = eweight_name, diffuse_op
        self.alpha = number_of(alpha, "alpha", 0, 1)

    def __call__(self, g: DGLGraph) -> DGLGraph:
        adjacency = require_homogeneous(g, "SIGNDiffusion")
        result = g.clone()
        first = hidden = g.node_frame_at(0)[self.in_feat_name]
        weights = self._weights(g, adjacency, active.dtype(first))
        weights = active.reshape(weights, (adjacency.num_edges, *(1,) * (len(active.shape(first)) - 1)))
        for i in range(self.k):
            hidden = ops.u_mul_e_sum(adjacency, hidden, weights)
            if self.diffuse_op == "ppr":
                hidden = (1 - self.alpha) * hidden + self.alpha * first
            result.ndata[f"{self.out_feat_name}_{i + 1}"] = hidden
        return result

    def _weights(self, g: DGLGraph, adjacency: Adjacency, dtype: str) -> Tensor:
        """Return the entries of the diffusion matrix, one per edge."""
        if self.eweight_name is None:
            weights = active.full((adjacency.num_edges,), 1, dtype, g.features_device)
        else:
            weights = active.reshape(g.edge_frame_at(0)[self.eweight_name], (adjacency.num_edges,))
            weights = active.astype(weights, dtype)
        if self.diffuse_op == "raw":
            return weights
        if self.diffuse_op == "rw":
            inverse = _power(ops.gspmm(adjacency, "copy_rhs", "sum", None, weights), -1)
            return weights * active.take(inverse, adjacency.endpoints()[1])
        return _symmetric(adjacency, weights)
