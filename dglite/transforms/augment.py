"""Random transforms for augmentation. They follow ``dglite.seed``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backend import Tensor, active, framework
from ..errors import DGLError
from ..frame import Frame
from ..graph import DGLGraph
from ..random import generator
from ..structure.ids import LARGEST_COUNT, count_of, number_of
from .module import ChangingTransform


class NodeShuffle(ChangingTransform):
    """Permutes the features of the nodes of each type at random, all features alike; edges stay."""

    def change(self, result: DGLGraph) -> None:
        for index, frame in enumerate(result.node_frames):
            if frame:
                result.node_frames[index] = frame.take(generator().permutation(result.node_counts[index]))


class DropNode(ChangingTransform):
    """Drops each node, and the edges at it, with probability ``p``. You et al., Graph Contrastive Learning (2020)."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = number_of(p, "p, a probability,", 0, 1)

    def change(self, result: DGLGraph) -> None:
        if self.p:
            for ntype, count in zip(result.ntypes, result.node_counts, strict=True):
                result.remove_nodes(np.flatnonzero(generator().random(count) < self.p), ntype)


class DropEdge(ChangingTransform):
    """Drops each edge with probability ``p``. Rong et al., DropEdge (2020)."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = number_of(p, "p, a probability,", 0, 1)

    def change(self, result: DGLGraph) -> None:
        if self.p:
            for etype, adjacency in zip(result.canonical_etypes, result.adjacencies, strict=True):
                result.remove_edges(np.flatnonzero(generator().random(adjacency.num_edges) < self.p), etype)


class AddEdge(ChangingTransform):
    """Adds ``ratio`` times as many edges as there are, of each type, between nodes drawn uniformly.

    Their features get the initializer's values. You et al., Graph Contrastive Learning (2020).
    """

    def __init__(self, ratio: float = 0.2) -> None:
        self.ratio = number_of(ratio, "ratio", 0, LARGEST_COUNT)

    def change(self, result: DGLGraph) -> None:
        for etype, adjacency in zip(result.canonical_etypes, result.adjacencies, strict=True):
            count = count_of(int(adjacency.num_edges * self.ratio), "the number of edges that are added")
            if count:
                src = generator().integers(adjacency.num_src, size=count)
                result.add_edges(src, generator().integers(adjacency.num_dst, size=count), etype=etype)


class FeatMask(ChangingTransform):
    """Sets columns of features to 0, each with probability ``p``. You et al., Graph Contrastive Learning (2020).

    ``node_feat_names`` and ``edge_feat_names`` name the features, (rows, ..., columns), or (rows,), one column; none by
    default. Types that lack one pass over it.
    """

    def __init__(
        self, p: float = 0.5, node_feat_names: Sequence[str] | None = None, edge_feat_names: Sequence[str] | None = None
    ) -> None:
        self.p = number_of(p, "p, a probability,", 0, 1)
        self.node_feat_names, self.edge_feat_names = node_feat_names, edge_feat_names

    def change(self, result: DGLGraph) -> None:
        for frame, name in _named(result, self.node_feat_names, self.edge_feat_names):
            frame[name] = self._masked(frame[name])

    def _masked(self, x: Tensor) -> Tensor:
        shape = active.shape(x)
        keep = active.from_numpy(np.asarray(generator().random(shape[1:][-1:]) >= self.p), active.device(x))
        return x * active.astype(keep, active.dtype(x))


class RowFeatNormalizer(ChangingTransform):
    """Divides each row of a feature by its sum, where that is more than 1. DGL leaves the other rows as they are, too.

    A row of a feature (rows,) is one number. With ``subtract_min`` the least value of the whole feature is subtracted
    first. ``node_feat_names`` and ``edge_feat_names`` name the features; none by default. Types that lack one
    pass over it.
    """

    def __init__(
        self,
        subtract_min: bool = False,
        node_feat_names: Sequence[str] | None = None,
        edge_feat_names: Sequence[str] | None = None,
    ) -> None:
        self.subtract_min = subtract_min
        self.node_feat_names, self.edge_feat_names = node_feat_names, edge_feat_names

    def change(self, result: DGLGraph) -> None:
        for frame, name in _named(result, self.node_feat_names, self.edge_feat_names):
            frame[name] = self._normalized(frame[name])

    def _normalized(self, x: Tensor) -> Tensor:
        if self.subtract_min and 0 not in active.shape(x):
            x = x - active.to_numpy(x).min().item()
        axes = len(active.shape(x))
        total = active.sum(x, axes - 1, keepdims=True) if axes > 1 else x
        return x / framework.clamp(total, min=1)


def _named(g: DGLGraph, node_names: Sequence[str] | None, edge_names: Sequence[str] | None) -> list[tuple[Frame, str]]:
    """Return the frames of the graph that have each of the named features."""
    columns = []
    for frames, names in ((g.node_frames, node_names), (g.edge_frames, edge_names)):
        for name in names or ():
            having = [(frame, name) for frame in frames if frame is not None and name in frame]
            if not having:
                raise DGLError(f"no type has a feature {name!r}")
            columns += having
    return columns
