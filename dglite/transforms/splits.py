"""Random splits of a graph's edges and nodes into training, validation and test parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import require_graph
from ..random import generator
from ..structure.distinct import contains, distinct
from ..structure.ids import count_of, number_of
from .edges import remove_edges
from .module import BaseTransform


class LinkSplit(NamedTuple):
    """One part of :class:`RandomLinkSplit`. Where it split several edge types, all but the graph are dictionaries by
    canonical edge type.

    Attributes
    ----------
    graph
        The graph whose edges may be used to compute representations, with all nodes and features.
    src, dst
        The pairs to predict, ids of shape (num_pairs,): edges, then pairs without one.
    label
        1 for an edge, 0 for a pair without one, float32 (num_pairs,).
    """

    graph: DGLGraph
    src: Any
    dst: Any
    label: Any

    def __repr__(self) -> str:
        sizes = (
            {etype: len(pairs) for etype, pairs in self.src.items()} if isinstance(self.src, dict) else len(self.src)
        )
        graph = repr(self.graph).replace("\n", "\n" + " " * len("          graph="))
        return f"LinkSplit(pairs to predict: {sizes},\n          graph={graph})"


@final
class RandomLinkSplit(BaseTransform):
    """Splits the edges of a graph for link prediction, with pairs without an edge beside them.

    The edges to predict in validation and test are in no graph that is used to predict them: the training and the
    validation graph have the training edges, the test graph those and the validation edges. Names and meanings are
    PyTorch Geometric's. Draws follow :func:`dglite.seed`. Parallel edges stay together, and count as one.

    Raises DGLError: when called: numbers do not fit the graph, an edge type is not named or does not exist, or
    ``is_undirected`` is said of a graph that lacks the other direction.

    Parameters
    ----------
    num_val, num_test
        How many edges are for validation and test: a number, or a fraction of all.
    is_undirected
        Each edge has one in the other direction: both stay together, and the pair is predicted in one direction.
    add_negative_train_samples
        Draw pairs without an edge for training, too; without, draw them afresh in each epoch by
        :func:`dglite.sampling.global_uniform_negative_sampling`.
    neg_sampling_ratio
        Pairs without an edge for each edge; fewer where the graph has not enough of them. No pair is in two parts.
    disjoint_train_ratio
        A share of training edges that is predicted and not used to compute representations; 0 uses all for both.
    edge_types
        The edge types to split; only needed where there are several.
    rev_edge_types
        For each of ``edge_types`` the type that holds the same edges in the other direction, or None: held-out edges
        are removed from it, too.

    Examples
    --------
    >>> import dglite
    >>> g = dglite.graph(([0, 1, 2, 3, 4], [1, 2, 3, 4, 0]))
    >>> train, val, test = dglite.transforms.RandomLinkSplit(num_val=1, num_test=1)(g)
    >>> train.graph.num_edges(), val.graph.num_edges(), test.graph.num_edges()
    (3, 3, 4)
    >>> val.label
    tensor([1., 0.])
    """

    def __init__(
        self,
        num_val: int | float = 0.1,
        num_test: int | float = 0.2,
        is_undirected: bool = False,
        add_negative_train_samples: bool = True,
        neg_sampling_ratio: float = 1.0,
        disjoint_train_ratio: float = 0.0,
        edge_types: Any = None,
        rev_edge_types: Any = None,
    ) -> None:
        self.num_val, self.num_test, self.is_undirected = num_val, num_test, is_undirected
        self.add_negative_train_samples, self.neg_sampling_ratio = add_negative_train_samples, neg_sampling_ratio
        self.disjoint_train_ratio = disjoint_train_ratio
        several = isinstance(edge_types, list)
        self.edge_types = edge_types if several else [edge_types]
        self.rev_edge_types = rev_edge_types if isinstance(rev_edge_types, list) else [rev_edge_types]
        if rev_edge_types is None:
            self.rev_edge_types = [None] * len(self.edge_types)
        if len(self.edge_types) != len(self.rev_edge_types):
            raise DGLError(
                f"there are {len(self.edge_types)} edge_types and {len(self.rev_edge_types)} rev_edge_types; expected "
                "one for each, None where there is no reverse type"
            )
        for name, share in (("neg_sampling_ratio", neg_sampling_ratio), ("disjoint_train_ratio", disjoint_train_ratio)):
            if number_of(share, name) < 0 or (share >= 1 and name == "disjoint_train_ratio"):
                raise DGLError(f"{name}={share}; expected 0 or more" + (", below 1" if name[0] == "d" else ""))
        self._several = several

    def __call__(self, g: DGLGraph) -> tuple[LinkSplit, LinkSplit, LinkSplit]:  # type: ignore[override]
        """Return the training, the validation and the test part; the graph stays as it is."""
        require_graph(g)
        graphs = [g, g, g]
        pairs: list[dict[Any, tuple[Tensor, Tensor, Tensor]]] = [{}, {}, {}]
        for etype, reverse in zip(self.edge_types, self.rev_edge_types, strict=True):
            canonical = g.canonical_etypes[g.etype_id(etype)]
            split = _EdgeSplit(g, canonical, self)
            for part in range(3):
                graphs[part] = split.without_held_out(graphs[part], part, reverse)
                pairs[part][canonical] = split.pairs(part)
        splits = []
        for graph, of_types in zip(graphs, pairs, strict=True):
            columns: Any = zip(*of_types.values(), strict=True)
            if self._several:
                splits.append(LinkSplit(graph, *(dict(zip(of_types, column, strict=True)) for column in columns)))
            else:
                splits.append(LinkSplit(graph, *(column[0] for column in columns)))
        train, val, test = splits
        return train, val, test


class _EdgeSplit:
    """The split of one edge type: the distinct pairs of nodes in random order, cut into parts."""

    def __init__(self, g: DGLGraph, etype: tuple[str, str, str], options: RandomLinkSplit) -> None:
        self.g, self.etype, self.options = g, etype, options
        adjacency = g.adjacencies[g.etype_id(etype)]
        self.src, self.dst = (np.asarray(ids).astype(np.int64) for ids in adjacency.endpoints())
        self.width = max(adjacency.num_src, adjacency.num_dst, 1)
        codes = self._codes(self.src, self.dst)
        if options.is_undirected:
            self._require_both_directions(codes)
            codes = self._codes(np.minimum(self.src, self.dst), np.maximum(self.src, self.dst))
        self.codes = codes
        pairs = distinct(codes)
        num_edges = len(pairs)
        counts = [_count(options.num_val, num_edges, "num_val"), _count(options.num_test, num_edges, "num_test")]
        num_train = num_edges - sum(counts)
        if num_train <= 0:
            raise DGLError(
                f"num_val={options.num_val} and num_test={options.num_test} leave {num_train} of {num_edges} edges "
                f"of type {etype} to train on"
            )
        shuffled = generator().permutation(pairs)
        self.parts = np.split(shuffled, np.cumsum([num_train, counts[0]]))
        self.predicted = list(self.parts)
        if options.disjoint_train_ratio:
            self.predicted[0] = self.parts[0][: round(options.disjoint_train_ratio * num_train)]
        self.negatives = self._drawn_negatives()

    def _codes(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return u * self.width + v

    def _require_both_directions(self, codes: np.ndarray) -> None:
        back = self._codes(self.dst, self.src)
        lacking = ~contains(codes, back)
        if self.etype[0] != self.etype[2] or lacking.any():
            example = f": {self.src[lacking][0]} -> {self.dst[lacking][0]} has no way back" if lacking.any() else ""
            raise DGLError(
                f"is_undirected=True, but edges of type {self.etype} are not in both directions{example}; "
                "dglite.to_bidirected(g) adds them"
            )

    def _drawn_negatives(self) -> list[tuple[np.ndarray, np.ndarray]]:
        ratio = self.options.neg_sampling_ratio
        quotas = np.array([int(ratio * len(part)) for part in self.predicted])
        if not self.options.add_negative_train_samples:
            quotas[0] = 0
        if not quotas.sum():
            return [(np.empty(0, np.int64),) * 2] * 3
        u, v = (active.to_numpy(ids) for ids in self.g.global_uniform_negative_sampling(
            int(quotas.sum()), etype=self.etype
        ))  # fmt: skip
        quotas = quotas * len(u) // quotas.sum() if len(u) < quotas.sum() else quotas
        cuts = np.cumsum(quotas)[:2]
        return list(zip(np.split(u, cuts), np.split(v, cuts), strict=True))

    def without_held_out(self, graph: DGLGraph, part: int, reverse: Any) -> DGLGraph:
        """Return the graph without the edges that this part, or a later one, predicts."""
        held_out = np.concatenate([self.parts[2], *([self.parts[1]] if part < 2 else [])])
        if part == 0 and self.options.disjoint_train_ratio:
            held_out = np.concatenate([held_out, self.predicted[0]])
        graph = _without(graph, np.flatnonzero(contains(held_out, self.codes)), self.etype)
        if reverse is None:
            return graph
        back = graph.canonical_etypes[graph.etype_id(reverse)]
        if back[0] != self.etype[2] or back[2] != self.etype[0]:
            raise DGLError(f"rev_edge_types has {back} for {self.etype}; it does not go back")
        src, dst = (np.asarray(ids).astype(np.int64) for ids in graph.adjacencies[graph.etype_id(back)].endpoints())
        return _without(graph, np.flatnonzero(contains(held_out, self._codes(dst, src))), back)

    def pairs(self, part: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return sources, destinations and labels of the pairs to predict."""
        u, v = np.divmod(self.predicted[part], self.width)
        no_u, no_v = self.negatives[part]
        label = np.concatenate([np.ones(len(u), np.float32), np.zeros(len(no_u), np.float32)])
        ids = [self.g.ids_tensor(np.concatenate(both)) for both in ((u, no_u), (v, no_v))]
        return ids[0], ids[1], active.to_device(active.from_numpy(label), self.g.device)


def _without(graph: DGLGraph, edges: np.ndarray, etype: tuple[str, str, str]) -> DGLGraph:
    return remove_edges(graph, graph.ids_tensor(edges), etype) if len(edges) else graph.clone()


def _count(number: int | float, total: int, name: str) -> int:
    """Return a number, or a fraction of a total as a number."""
    is_fraction = isinstance(number, float | np.floating)
    if not (0 <= number < 1 if is_fraction else isinstance(number, int | np.integer) and 0 <= number <= total):
        raise DGLError(f"{name}={number}; expected a number up to {total}, or a fraction below 1")
    return int(number * total) if is_fraction else int(number)


@final
class RandomNodeSplit(BaseTransform):
    """Adds ``train_mask``, ``val_mask`` and ``test_mask`` to the nodes, drawn at random.

    Names and meanings are PyTorch Geometric's. Draws follow :func:`dglite.seed`.

    Raises DGLError: when called: numbers are larger than the graph allows, or classes are needed and missing. When
    made: the split is unknown.

    Parameters
    ----------
    split
        ``"train_rest"``: ``num_val`` and ``num_test`` nodes, all others for training. ``"test_rest"``:
        ``num_train_per_class`` of each class, ``num_val``, all others for test. ``"random"``: ``num_train_per_class``,
        ``num_val`` and ``num_test`` nodes.
    num_splits
        How many masks to draw; masks are (num_nodes, num_splits) if more than one, else (num_nodes,).
    num_train_per_class
        Training nodes of each class; fewer where a class has fewer.
    num_val, num_test
        A number of nodes, or a fraction of all.
    key
        The feature with the classes, (num_nodes,) integers; node types without it get no masks. Without any, all
        nodes are split by ``"train_rest"``.

    Examples
    --------
    >>> import dglite
    >>> g = dglite.transforms.RandomNodeSplit(num_val=2, num_test=0.5)(dglite.rand_graph(10, 20))
    >>> [int(g.ndata[name].sum()) for name in ("train_mask", "val_mask", "test_mask")]
    [3, 2, 5]
    """

    def __init__(
        self,
        split: str = "train_rest",
        num_splits: int = 1,
        num_train_per_class: int = 20,
        num_val: int | float = 500,
        num_test: int | float = 1000,
        key: str = "label",
    ) -> None:
        if split not in ("train_rest", "test_rest", "random"):
            raise DGLError(f"split={split!r}; expected 'train_rest', 'test_rest' or 'random'")
        self.split, self.num_splits = split, count_of(num_splits, "num_splits", 1)
        self.num_train_per_class = count_of(num_train_per_class, "num_train_per_class")
        self.num_val, self.num_test, self.key = num_val, num_test, key

    def __call__(self, g: DGLGraph) -> DGLGraph:
        """Return the graph with masks."""
        require_graph(g)
        marked = g.clone()
        ntypes = [ntype for ntype in g.ntypes if self.key in g.nodes[ntype].data]
        if not ntypes and self.split != "train_rest":
            raise DGLError(f"split={self.split!r} takes nodes of each class, but no node has a feature {self.key!r}")
        for ntype in ntypes or g.ntypes:
            data = marked.nodes[ntype].data
            label = active.to_numpy(data[self.key]).reshape(-1) if ntypes else np.zeros(g.num_nodes(ntype))
            splits = [self._masks(label) for _ in range(self.num_splits)]
            for i, name in enumerate(("train_mask", "val_mask", "test_mask")):
                mask = np.stack([masks[i] for masks in splits], axis=1)
                mask = np.ascontiguousarray(mask[:, 0]) if self.num_splits == 1 else mask
                data[name] = active.to_device(active.from_numpy(mask), g.device)
        return marked

    def _masks(self, label: np.ndarray) -> list[np.ndarray]:
        n, random = len(label), generator()
        train = np.empty(0, np.int64)
        if self.split != "train_rest":
            of_class: Mapping[Any, np.ndarray] = {
                c: np.flatnonzero(label == c) for c in np.unique(label, return_counts=True)[0]
            }
            most = self.num_train_per_class
            train = np.concatenate([random.permutation(rows)[:most] for rows in of_class.values()] or [train])
        others = random.permutation(np.flatnonzero(~contains(train, np.arange(n))))
        num_val = _count(self.num_val, n, "num_val")
        num_test = len(others) - num_val if self.split == "test_rest" else _count(self.num_test, n, "num_test")
        if num_test < 0 or num_val + num_test > len(others):
            raise DGLError(
                f"num_val={self.num_val} and num_test={self.num_test} are more than the {len(others)} nodes that are "
                "not for training; pass fractions, num_val=0.1 for instance"
            )
        val, test, rest = np.split(others, [num_val, num_val + num_test])
        return [_mask(n, rows) for rows in (rest if self.split == "train_rest" else train, val, test)]


def _mask(size: int, rows: Sequence[int] | np.ndarray) -> np.ndarray:
    mask = np.zeros(size, dtype=bool)
    mask[rows] = True
    return mask
