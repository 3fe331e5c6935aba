"""The graph classification data sets of Xu et al., "How powerful are graph neural networks?", 2019."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import backend
from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure.distinct import distinct
from .dataset import Folder, GraphsWithLabels, Transform, text_of
from .published import PublishedDataset
from .raw import long_tensor

_URL = "https://raw.githubusercontent.com/weihua916/powerful-gnns/master/dataset.zip"


class _Item(NamedTuple):
    """One graph of a file."""

    num_nodes: int
    src: list[int]
    dst: list[int]
    labels: list[int]
    attributes: list[list[float]]


class GINDataset(GraphsWithLabels, PublishedDataset):
    """One of MUTAG, COLLAB, IMDBBINARY, IMDBMULTI, NCI1, PROTEINS, PTC, REDDITBINARY and REDDITMULTI5K.

    Graphs have ``ndata['label']`` (int64, from 0 on in the order of the file, or in-degrees) and ``ndata['attr']``
    (float32: the nodes' attributes, or else one-hot labels, columns in ascending order of the labels). Labels of graphs
    are int64, numbered in the order of the file.

    Parameters
    ----------
    name
        One of the names above.
    self_loop
        Add an edge from each node to itself.
    degree_as_nlabel
        Label nodes by their in-degrees.

    Attributes
    ----------
    N, n, m
        Numbers of graphs, nodes and edges.
    gclasses, nclasses, dim_nfeats
        Numbers of graph labels (``num_classes``, too), node labels and columns of ``attr``.
    glabel_dict, nlabel_dict
        Labels in the file to those of the graphs and nodes.
    """

    _files = ("{self.name}.txt",)
    _subfolders = "GINDataset/dataset/{self.name}", "{self.name}", "gin", "."

    def __init__(
        self,
        name: str,
        self_loop: bool,
        degree_as_nlabel: bool = False,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ) -> None:
        self.self_loop, self.degree_as_nlabel, self.ds_name = self_loop, degree_as_nlabel, "nig"
        self._published, self._options = (name, _URL), (name, self_loop, degree_as_nlabel)
        super().__init__(raw_dir, force_reload, verbose, transform)

    @property
    def raw_path(self) -> str:
        """The folder that the archive is unpacked to, whatever the name."""
        return str(Path(self.raw_dir) / "GINDataset")

    def process(self) -> None:
        """Read the file and build the graphs."""
        (path,) = self._paths
        self.glabel_dict: dict[int, int] = {}
        self.nlabel_dict: dict[int, int] = {}
        items, labels = [], []
        lines = iter(enumerate(text_of(path).splitlines(), 1))
        number = 0
        try:
            number, first = next(lines)
            for _ in range(int(first)):
                number, head = next(lines)
                num_nodes, label = map(int, head.split())
                labels.append(self.glabel_dict.setdefault(label, len(self.glabel_dict)))
                item = _Item(num_nodes, [], [], [], [])
                for node in range(num_nodes):
                    number, row = next(lines)
                    self._add(item, node, row.split())
                items.append(item)
        except StopIteration:
            raise DGLError(f"{path} ends after line {number}, before the last graph; it is cut short") from None
        except ValueError as error:
            raise DGLError(f"line {number} of {path} is not as expected: {error}") from error
        self.graphs = [self._graph(item) for item in items]
        self.labels = long_tensor(labels)
        self._set_attributes([item.attributes for item in items], path)
        self.N, self.n = len(items), sum(item.num_nodes for item in items)
        self.m = sum(len(item.src) for item in items)
        self.gclasses = self.num_classes = len(self.glabel_dict)
        self.nclasses, self.eclasses = len(self.nlabel_dict), 0

    def _add(self, item: _Item, node: int, row: list[str]) -> None:
        """Add a node: its label, the number of its neighbours, these, and its attributes."""
        label, degree = int(row[0]) if row else 0, int(row[1]) if len(row) > 1 else -1
        ends = list(map(int, row[2 : 2 + max(degree, 0)]))
        if degree != len(ends) or any(not 0 <= end < item.num_nodes for end in ends):
            raise ValueError(f"a label, the number of neighbours, and these, from 0 to {item.num_nodes - 1}, are due")
        ends += [node] * self.self_loop
        item.src.extend([node] * len(ends))
        item.dst.extend(ends)
        item.labels.append(self.nlabel_dict.setdefault(label, len(self.nlabel_dict)))
        if len(row) > 2 + degree:
            item.attributes.append(list(map(float, row[2 + degree :])))

    def _graph(self, item: _Item) -> DGLGraph:
        g = graph((np.array(item.src, np.int64), np.array(item.dst, np.int64)), num_nodes=item.num_nodes)
        g.ndata["label"] = long_tensor(item.labels)
        return g

    def _set_attributes(self, attributes: list[list[list[float]]], path: Path) -> None:
        self.nattrs_flag = any(attributes)
        if self.nattrs_flag:
            tables = [np.array(rows, np.float32, ndmin=2) for rows in _even(attributes, self.graphs, path)]
        else:
            if self.degree_as_nlabel:
                for g in self.graphs:
                    g.ndata["label"] = g.in_degrees()
            node_labels = [backend.active.to_numpy(g.ndata["label"]) for g in self.graphs]
            distinct_labels = distinct(np.concatenate(node_labels)) if node_labels else np.zeros(0, np.int64)
            columns = {int(label): i for i, label in enumerate(distinct_labels)}
            if list(columns) == list(range(len(columns))) and columns.keys() <= self.nlabel_dict.keys():
                columns = self.nlabel_dict  # the labels are numbered twice then, as in DGL
            eye = np.eye(len(columns), dtype=np.float32)
            tables = [eye[[columns[label] for label in labels.tolist()]] for labels in node_labels]
        for g, table in zip(self.graphs, tables, strict=True):
            g.ndata["attr"] = backend.active.from_numpy(table)
        self.dim_nfeats = tables[0].shape[1] if tables else 0


def _even(attributes: list[list[list[float]]], graphs: list[DGLGraph], path: Path) -> list[list[list[float]]]:
    """Return the attributes, of which each node has the same number."""
    widths = {len(row) for rows in attributes for row in rows}
    if len(widths) != 1 or [len(rows) for rows in attributes] != [g.num_nodes() for g in graphs]:
        raise DGLError(f"{path} has nodes with {sorted(widths)} attributes, or some with none")
    return attributes
