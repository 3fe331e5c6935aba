"""Data sets for a task: nodes, edges or graphs to predict, split into training, validation and test parts.

A split is drawn once and kept in a file, so that it is the same in the next process.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from ..backend import Tensor, active
from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from ..io import load_graphs, save_graphs
from ..structure.distinct import contains, distinct
from .dataset import DGLDataset, SingleGraphDataset
from .splits import add_nodepred_split, mask_at, permuted_parts

_PARTS = ("train", "val", "test")
_ROUNDS = 10
"""The most rounds of drawing node pairs without an edge, in nearly complete graphs."""

Ends = tuple[Tensor, Tensor]


class _Adapted(DGLDataset):
    """Base of the three: what ``_state`` returns is kept in a file, and given to ``_restore`` in the next process."""

    def __init__(
        self, dataset: Any, task: str, split_ratio: Sequence[float] | None, options: tuple[Any, ...], **kwargs: Any
    ) -> None:
        if not hasattr(dataset, "name"):
            raise TypeError(
                f"{type(self).__name__} takes a data set, such as dglite.data.CoraGraphDataset(), got "
                f"{type(dataset).__name__}; dglite.RandomNodeSplit()(g) and RandomLinkSplit()(g) split a graph"
            )
        self.dataset = dataset
        self.split_ratio = split_ratio
        ratio = None if split_ratio is None else tuple(split_ratio)
        super().__init__(f"{dataset.name}-as-{task}pred", hash_key=(ratio, *options, dataset.name, task), **kwargs)

    @property
    def _file(self) -> Path:
        return Path(self.save_path) / f"graph_{self.hash}.bin"

    @property
    def _info_file(self) -> Path:
        return Path(self.save_path) / f"info_{self.hash}.json"

    def has_cache(self) -> bool:
        """Whether a split with these options has been kept."""
        return self._file.is_file() and self._info_file.is_file()

    def save(self) -> None:
        """Keep the split."""
        graphs, tensors, numbers = self._state()
        save_graphs(self._file, graphs, tensors)
        self._info_file.write_text(json.dumps(numbers), encoding="utf-8")

    def load(self) -> None:
        """Read the split that was kept."""
        graphs, tensors = load_graphs(self._file)
        self._restore(graphs, tensors, json.loads(self._info_file.read_text(encoding="utf-8")))

    @abstractmethod
    def _state(self) -> tuple[list[DGLGraph], dict[str, Tensor], dict[str, Any]]: ...

    @abstractmethod
    def _restore(self, graphs: list[DGLGraph], tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None: ...


class _AdaptedGraph(SingleGraphDataset, _Adapted):
    """Base of the two whose item is a graph, ``g``."""

    g: DGLGraph

    @property
    def _graph(self) -> DGLGraph:  # type: ignore[override]
        return self.g


def _positions(mask: Any) -> Tensor:
    return active.from_numpy(np.flatnonzero(active.to_numpy(mask)))


@final
class AsNodePredDataset(_AdaptedGraph):
    """The first graph of a data set, with nodes split for prediction.

    ``dataset[0]`` has ``ndata['label']`` and the boolean ``['train_mask']``, ``['val_mask']`` and ``['test_mask']``;
    of a heterograph, the nodes of ``target_ntype`` have them. The given data set's own graph stays as it is.

    Raises DGLError: there are no labels, or neither masks nor a ratio; or the ratio is wrong.

    Parameters
    ----------
    dataset
        A ``DGLDataset`` whose first graph has labels, or a data set of OGB for nodes.
    split_ratio
        Shares of the three parts, which sum to 1; by default the data set's own masks, or OGB's split.
    target_ntype
        Node type; needed where there are several.
    **kwargs
        ``raw_dir``, ``save_dir``, ``force_reload`` and ``verbose`` of ``DGLDataset``; the split is kept in
        ``save_dir``.

    Attributes
    ----------
    train_idx, val_idx, test_idx
        Node ids of the parts, int64.
    num_classes
        The data set's, or how many labels there are.
    """

    def __init__(
        self, dataset: Any, split_ratio: Sequence[float] | None = None, target_ntype: str | None = None, **kwargs: Any
    ) -> None:
        self.target_ntype = target_ntype
        super().__init__(dataset, "node", split_ratio, (target_ntype,), **kwargs)

    def process(self) -> None:
        """Split the nodes."""
        split = getattr(self.dataset, "get_idx_split", None)  # a data set of OGB has it
        if split is None:
            self.g = self.dataset[0].clone()
        else:
            g, label = self.dataset[0]
            self.g = g.clone()
            self.g.ndata["label"] = label.reshape(-1)
        data = self.g.nodes[self.target_ntype].data
        where = f"the nodes of {self.dataset.name}"
        if "label" not in data:
            raise DGLError(f"{where} have no 'label'; they have {sorted(data) or 'no features'}")
        if self.split_ratio is not None:
            add_nodepred_split([self.g], self.split_ratio, self.target_ntype)
        elif split is not None:
            split_parts = split()
            for part, name in zip(_PARTS, ("train", "valid", "test"), strict=True):
                data[f"{part}_mask"] = mask_at(active.to_numpy(split_parts[name]), self.g.num_nodes())
        elif any(f"{part}_mask" not in data for part in _PARTS):
            raise DGLError(f"{where} have no train_mask, val_mask and test_mask; give split_ratio=")
        classes = getattr(self.dataset, "num_classes", None)
        self.num_classes = len(distinct(active.to_numpy(data["label"]))) if classes is None else int(classes)
        self._set_positions()

    def _set_positions(self) -> None:
        data = self.g.nodes[self.target_ntype].data
        self.train_idx, self.val_idx, self.test_idx = (_positions(data[f"{part}_mask"]) for part in _PARTS)

    def _state(self) -> tuple[list[DGLGraph], dict[str, Tensor], dict[str, Any]]:
        return [self.g], {}, {"num_classes": self.num_classes}

    def _restore(self, graphs: list[DGLGraph], tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        self.g, self.num_classes = graphs[0], numbers["num_classes"]
        self._set_positions()


@final
class AsLinkPredDataset(_AdaptedGraph):
    """The first graph of a data set, with edges split for prediction, and pairs of nodes without an edge beside them.

    ``dataset[0]`` is the graph with all edges.

    Raises DGLError: there is no ratio and the data set has no split of its own, or the ratio is wrong.

    Parameters
    ----------
    dataset
        A ``DGLDataset`` whose first graph has one node and one edge type, or a data set of OGB for links.
    split_ratio
        Shares of the three parts, which sum to 1; for a data set of OGB, its own split by default. The order is drawn
        from NumPy's global generator.
    neg_ratio
        Pairs without an edge for each edge of the validation and test parts. There are fewer where the graph has not
        enough of them.
    **kwargs
        As in :class:`AsNodePredDataset`.

    Attributes
    ----------
    train_graph
        The graph of the training edges, with ``ndata['feat']`` where the graph has that.
    val_edges, test_edges
        Two pairs (sources, destinations): edges of the graph, and pairs without one, no node with itself.
    feat_size
        Size of ``ndata['feat']``.
    """

    def __init__(
        self, dataset: Any, split_ratio: Sequence[float] | None = None, neg_ratio: int = 3, **kwargs: Any
    ) -> None:
        self.g = dataset[0]
        self.num_nodes = self.g.num_nodes()
        self.neg_ratio = neg_ratio
        super().__init__(dataset, "link", split_ratio, (neg_ratio,), **kwargs)

    def process(self) -> None:
        """Split the edges."""
        if self.split_ratio is not None:
            return self._split(self.split_ratio)
        split = getattr(self.dataset, "get_edge_split", None)  # a data set of OGB has it
        if split is None:
            raise DGLError(f"{self.dataset.name} has no split of its edges; give split_ratio=")
        split_parts = split()
        self.train_graph = self.g
        self.val_edges, self.test_edges = (_given_edges(split_parts[part]) for part in ("valid", "test"))

    def _split(self, ratio: Sequence[float]) -> None:
        src, dst = self.g.edges()
        train, val, test = permuted_parts(self.g.num_edges(), ratio)
        counts = self.neg_ratio * len(val), self.neg_ratio * len(test)
        u, v = _pairs_without_edge(self.g, sum(counts))
        cut = min(counts[0], len(u) * counts[0] // max(sum(counts), 1))
        others = ((u[:cut], v[:cut]), (u[cut:], v[cut:]))
        self.val_edges, self.test_edges = (
            ((active.take(src, part), active.take(dst, part)), _as_ids(pairs, self.g))
            for part, pairs in zip((val, test), others, strict=True)
        )
        self.train_graph = graph((active.take(src, train), active.take(dst, train)), num_nodes=self.num_nodes)
        if "feat" in self.g.ndata:
            self.train_graph.ndata["feat"] = self.g.ndata["feat"]

    @property
    def feat_size(self) -> int:
        """Size of the nodes' feature."""
        return int(self.train_graph.ndata["feat"].shape[-1])

    def _state(self) -> tuple[list[DGLGraph], dict[str, Tensor], dict[str, Any]]:
        parts = {"val": self.val_edges, "test": self.test_edges}
        names = [f"{part}_{sign}_{end}" for part in parts for sign in ("pos", "neg") for end in ("src", "dst")]
        tensors = [ends for edges in parts.values() for pair in edges for ends in pair]
        return [self.train_graph], dict(zip(names, tensors, strict=True)), {}

    def _restore(self, graphs: list[DGLGraph], tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        self.train_graph = graphs[0]

        def ends(name: str) -> Ends:
            return tensors[f"{name}_src"], tensors[f"{name}_dst"]

        self.val_edges, self.test_edges = ((ends(f"{part}_pos"), ends(f"{part}_neg")) for part in ("val", "test"))


def _given_edges(part: dict[str, Any]) -> tuple[Ends, Ends]:
    """Return the edges, and the pairs without one, of a part of OGB's split in either of its two forms."""
    if "edge" in part:
        edges, others = part["edge"], part["edge_neg"]
        return (edges[:, 0], edges[:, 1]), (others[:, 0], others[:, 1])
    source, others = part["source_node"], part["target_node_neg"]
    repeated = np.repeat(active.to_numpy(source), others.shape[-1])
    return (source, part["target_node"]), (active.from_numpy(repeated), others.reshape(-1))


def _pairs_without_edge(g: DGLGraph, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw distinct pairs of two nodes that have no edge from the one to the other: ``count``, or fewer."""
    nodes = g.num_nodes()
    src, dst = (active.to_numpy(ends).astype(np.int64) for ends in g.edges())
    edges, pairs = distinct(src * nodes + dst), np.zeros(0, np.int64)
    for _ in range(_ROUNDS if nodes else 0):
        candidates = np.random.randint(0, nodes * nodes, 2 * (count - len(pairs)))
        candidates = candidates[(candidates // nodes != candidates % nodes) & ~contains(edges, candidates)]
        both = np.concatenate([pairs, candidates])
        _, first = np.unique(both, return_index=True)
        pairs = both[np.sort(first)][:count]
        if len(pairs) == count:
            break
    return pairs // max(nodes, 1), pairs % max(nodes, 1)


def _as_ids(pairs: tuple[np.ndarray, np.ndarray], g: DGLGraph) -> Ends:
    dtype = active.dtype(g.nodes())
    u, v = (active.to_device(active.astype(active.from_numpy(ends), dtype), g.device) for ends in pairs)
    return u, v


@final
class AsGraphPredDataset(_Adapted):
    """The graphs of a data set, split for prediction. ``dataset[i]`` is the item of the given data set.

    Raises DGLError: there is no ratio and the data set has no split of its own, or the ratio is wrong.

    Parameters
    ----------
    dataset
        A ``DGLDataset`` of graphs with labels, or a data set of OGB for graphs.
    split_ratio
        Shares of the three parts, which sum to 1; by default the data set's own masks, or OGB's split. The order is
        drawn from NumPy's global generator.
    **kwargs
        As in :class:`AsNodePredDataset`.

    Attributes
    ----------
    train_idx, val_idx, test_idx
        Numbers of the graphs of the parts, int64.
    num_classes
        The data set's, or None.
    num_tasks
        The data set's, or 1.
    node_feat_size, edge_feat_size
        Size of ``ndata['feat']`` and ``edata['feat']`` of the first graph, or None if it has no such feature.
    """

    def __init__(self, dataset: Any, split_ratio: Sequence[float] | None = None, **kwargs: Any) -> None:
        super().__init__(dataset, "graph", split_ratio, (), **kwargs)

    def process(self) -> None:
        """Split the graphs."""
        split = getattr(self.dataset, "get_idx_split", None)  # a data set of OGB has it
        masks = [getattr(self.dataset, f"{part}_mask", None) for part in _PARTS]
        if self.split_ratio is not None:
            parts = [active.from_numpy(part) for part in permuted_parts(len(self.dataset), self.split_ratio)]
        elif split is not None:
            split_parts = split()
            parts = [split_parts[name] for name in ("train", "valid", "test")]
        elif any(mask is None for mask in masks):
            raise DGLError(f"{self.dataset.name} has no split of its graphs; give split_ratio=")
        else:
            parts = [_positions(mask) for mask in masks]
        self.train_idx, self.val_idx, self.test_idx = parts
        classes = getattr(self.dataset, "num_classes", None)
        self.num_classes = None if classes is None else int(classes)
        self.num_tasks = int(getattr(self.dataset, "num_tasks", 1))

    def _state(self) -> tuple[list[DGLGraph], dict[str, Tensor], dict[str, Any]]:
        split = {"train_idx": self.train_idx, "val_idx": self.val_idx, "test_idx": self.test_idx}
        return [], split, {"num_classes": self.num_classes, "num_tasks": self.num_tasks}

    def _restore(self, graphs: list[DGLGraph], tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        self.train_idx, self.val_idx, self.test_idx = (tensors[f"{part}_idx"] for part in _PARTS)
        self.num_classes, self.num_tasks = numbers["num_classes"], numbers["num_tasks"]

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[index]

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def node_feat_size(self) -> int | None:
        """Size of the nodes' feature."""
        return _feature_size(self[0][0].ndata)

    @property
    def edge_feat_size(self) -> int | None:
        """Size of the edges' feature."""
        return _feature_size(self[0][0].edata)


def _feature_size(data: Any) -> int | None:
    return int(data["feat"].shape[-1]) if "feat" in data else None
