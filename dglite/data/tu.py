"""Graph classification data sets in the text files of the TU collection.

Morris et al., "TUDataset: a collection of benchmark datasets for learning with graphs", 2020.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .. import backend
from ..backend import Tensor
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..structure.distinct import numbered
from .dataset import Folder, Transform
from .joined import Joined, starts
from .published import PublishedDataset
from .raw import table_of

_URL = "https://www.chrsmrrs.com/graphkerneldatasets/{}.zip"
_WIDEST = 1 << 16
"""More node labels than that are not written as one-hot features; the collection has below 100."""


class _Collection(PublishedDataset):
    """Base of the two classes: the places of the files, and cutting them into graphs.

    Attributes
    ----------
    graph_lists, graph_labels
        The graphs, and a tensor with a row for each.
    max_num_node
        Nodes of the largest graph.
    num_labels
        How many classes there are; None where the graphs have real attributes instead.
    """

    _files = "{self.name}_A.txt", "{self.name}_graph_indicator.txt"
    _subfolders = "{self.name}/{self.name}", "{self.name}", "tu/{self.name}", "."
    graph_lists: list[DGLGraph]
    graph_labels: Tensor
    num_labels: int | None

    # Three names of DGL's, which sets that users derive read.
    def _file_path(self, category: str) -> Path:
        return self._folder / f"{self.name}_{category}.txt"

    @staticmethod
    def _idx_from_zero(idx_tensor: np.ndarray) -> np.ndarray:
        """Return numbers less the lowest of them."""
        return idx_tensor - idx_tensor.min()

    @staticmethod
    def _to_onehot(label_tensor: np.ndarray) -> np.ndarray:
        """Return (labels, highest + 1) with a one in the column of each label."""
        return (label_tensor[:, None] == np.arange(label_tensor.max() + 1)).astype(np.float64)

    def _labels(self, num_graphs: int) -> tuple[np.ndarray, bool]:
        """Return a row for each graph, and whether they are classes."""
        for part in ("graph_labels", "graph_attributes"):
            if self._file_path(part).is_file():
                classes = part == "graph_labels"
                return table_of(self._file_path(part), num_graphs, np.float64).astype(
                    int if classes else float
                ), classes
        raise DGLError(f"{self._folder} has neither {self._file_path('graph_labels').name} nor _graph_attributes.txt")

    def _parts(self) -> Joined:
        """Return the graphs, with the numbers of their nodes and edges in the files."""
        owners = table_of(self._file_path("graph_indicator"), dtype=np.int64)[:, 0]
        edges = table_of(self._file_path("A"), dtype=np.int64)
        if edges.shape[1] != 2 or not len(owners):
            raise DGLError(
                f"{self._file_path('A')} is not two node numbers a line, or {self._file_path('graph_indicator')} empty"
            )
        outside = np.flatnonzero(((edges < 1) | (edges > len(owners))).any(1))
        if len(outside):
            raise DGLError(
                f"line {outside[0] + 1} of {self._file_path('A')} names nodes {edges[outside[0]].tolist()}; "
                f"expected 1 to {len(owners)}"
            )
        owners = owners - owners.min()
        if owners.max() > len(owners):
            raise DGLError(
                f"{self._file_path('graph_indicator')} names graph {owners.max() + 1} for {len(owners)} nodes"
            )
        src, dst = edges.T - 1
        between = np.flatnonzero(owners[src] != owners[dst])
        if len(between):
            raise DGLError(f"line {between[0] + 1} of {self._file_path('A')} is an edge between two graphs")
        counts, of_edges = (np.bincount(x, minlength=owners.max() + 1) for x in (owners, owners[src]))
        nodes = np.argsort(owners, kind="stable")
        place = np.empty(len(owners), np.int64)
        place[nodes] = np.arange(len(owners))
        order = np.argsort(place[src], kind="stable")  # as DGL takes subgraphs: edges by source
        first_node, first_edge = starts(counts), starts(of_edges)
        local = place - first_node[owners]
        return Joined(local[src[order]], local[dst[order]], first_node, first_edge, {NID: nodes}, {EID: order})

    def _build(self, ndata: dict[str, np.ndarray], edata: dict[str, np.ndarray], parts: Joined) -> None:
        for into, columns, ids in ((parts.ndata, ndata, parts.ndata[NID]), (parts.edata, edata, parts.edata[EID])):
            into.update({name: column[ids] for name, column in columns.items()})
        self.graph_lists = [parts.graph(i) for i in range(len(parts))]
        self.max_num_node = int(np.diff(parts.first_node).max())

    @property
    def num_classes(self) -> Any:
        """The number of classes, as ``num_labels``."""
        return self.num_labels

    def statistics(self) -> tuple[int, Any, int]:
        """Return the width of ``ndata['feat']``, ``num_labels`` and ``max_num_node``."""
        return self.graph_lists[0].ndata["feat"].shape[1], self.num_labels, self.max_num_node

    def __getitem__(self, index: int) -> tuple[DGLGraph, Tensor]:
        return self._transformed(self.graph_lists[index]), self.graph_labels[index]

    def __len__(self) -> int:
        return len(self.graph_lists)


class TUDataset(_Collection):
    """One data set of the TU collection, by its name there, such as ``"ENZYMES"``.

    Graphs have what there are files for: ``ndata['node_labels']`` (int64, the lowest is 0), ``ndata['node_attr']``,
    ``edata['edge_labels']`` and ``edata['edge_attr']``, each with a column per column of the file, and the numbers of
    nodes and edges in the files as ``ndata[NID]`` and ``edata[EID]``. Edge attributes are ``edata['node_labels']``,
    too, as DGL calls them. Edges are ordered by source; duplicates stay. Labels, (num_graphs, columns), are int64 from
    0 on, in the order of those in the file; or float64 where the collection has graph attributes only.

    Raises DGLError: a file is missing and not to be had, or contradicts another: which one is said.

    Parameters
    ----------
    name
        Its name in the collection.
    raw_dir
        Folder that has ``<name>_A.txt`` and the others, itself, in ``<name>/`` or ``<name>/<name>/``, or receives them.
    """

    def __init__(
        self,
        name: str,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"name must be that of a data set, such as 'MUTAG'; got {name!r:.60}")
        self._published = name, _URL.format(name)
        super().__init__(raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Read the files and build the graphs."""
        parts = self._parts()
        labels, classes = self._labels(len(parts))
        values, numbers = numbered(labels)
        self.num_labels = len(values) if classes else None
        table = numbers.reshape(labels.shape) if classes else labels
        self.graph_labels = backend.active.from_numpy(table)
        ndata = self._columns("node", ("node_labels", "node_attr"), len(parts.ndata[NID]))
        edata = self._columns("edge", ("edge_labels", "edge_attr"), len(parts.src))
        if "edge_attr" in edata:
            edata["node_labels"] = edata["edge_attr"]
        self._build(ndata, edata, parts)

    def _columns(self, kind: str, names: tuple[str, str], num_rows: int) -> dict[str, np.ndarray]:
        columns = {}
        for part, name in zip((f"{kind}_labels", f"{kind}_attributes"), names, strict=True):
            if self._file_path(part).is_file():
                values = table_of(self._file_path(part), num_rows)
                columns[name] = values - values.min() if "labels" in part and len(values) else values
        return columns


class LegacyTUDataset(_Collection):
    """One data set of the TU collection with features made of the files that it has: ``ndata['feat']``, float32.

    Features are the attributes of the nodes; else one-hot node labels; else ``hidden_size`` ones. ``data_mode`` says
    which: ``"node_attr"``, ``"node_label"``, ``"constant"``. Labels, (num_graphs,), are int64 less the lowest one, so
    that -1 and 1 become 0 and 2, or float64 attributes.

    Parameters
    ----------
    name, raw_dir, force_reload, verbose, transform
        As for :class:`TUDataset`.
    use_pandas
        Accepted for DGL's sake.
    hidden_size
        Columns of constant features.
    max_allow_node
        Leave out graphs with more nodes.
    """

    def __init__(
        self,
        name: str,
        use_pandas: bool = False,
        hidden_size: int = 10,
        max_allow_node: int | None = None,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ) -> None:
        self.use_pandas, self.hidden_size, self.max_allow_node = use_pandas, hidden_size, max_allow_node
        self._options = (name, use_pandas, hidden_size, max_allow_node)
        self._published = name, _URL.format(name)
        super().__init__(raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Read the files and build the graphs."""
        parts = self._parts()
        labels, classes = self._labels(len(parts))
        flat = labels[:, 0] if labels.shape[1] == 1 else labels
        flat = self._idx_from_zero(flat) if classes else flat
        self.num_labels = int(flat.max()) + 1 if classes else None
        self._build({"feat": self._features(len(parts.ndata[NID]))}, {}, parts)
        if self.max_allow_node:
            small = np.flatnonzero(np.diff(parts.first_node) <= self.max_allow_node)
            self.graph_lists, flat = [self.graph_lists[i] for i in small], flat[small]
            self.max_num_node = self.max_allow_node
        self.graph_labels = backend.active.from_numpy(flat)

    def _features(self, num_nodes: int) -> np.ndarray:
        if self._file_path("node_attributes").is_file():
            self.data_mode = "node_attr"
            return table_of(self._file_path("node_attributes"), num_nodes, np.float64).astype(np.float32)
        if not self._file_path("node_labels").is_file():
            self.data_mode = "constant"
            return np.ones((num_nodes, self.hidden_size), np.float32)
        self.data_mode = "node_label"
        labels = table_of(self._file_path("node_labels"), num_nodes, np.int64)
        labels = labels - labels.min(0)
        if labels.max() >= _WIDEST:
            raise DGLError(
                f"{self._file_path('node_labels')} has labels {labels.max()} apart, too many for one-hot features"
            )
        return np.concatenate([self._to_onehot(column) for column in labels.T], 1).astype(np.float32)

    @property
    def num_classes(self) -> int:
        """The number of classes, as ``num_labels``; ``DGLError`` where graphs have attributes instead."""
        if self.num_labels is None:
            raise DGLError(f"the graphs of {self.name} have attributes, no classes")
        return self.num_labels
