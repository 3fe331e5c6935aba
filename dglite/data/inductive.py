"""Data sets of many graphs with three splits: proteins (PPI), stochastic block models (PATTERN, CLUSTER), and ZINC.

Zitnik and Leskovec, 2017; Hamilton et al., 2017; Dwivedi et al., "Benchmarking graph neural networks", 2020.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from ..io import load_graphs
from .dataset import Graphs
from .published import SITE, PartOfThree
from .raw import edges_in, float_tensor, json_of, npy_of

_GRAPHS = {"train": (1, 21), "valid": (21, 23), "test": (23, 25)}
"""The numbers of PPI's graphs in each part."""


class PPIDataset(Graphs, PartOfThree):
    """Proteins and their interactions in 24 tissues: 20 / 2 / 2 graphs of 2,372 nodes on average, 121 labels.

    Graphs have ``ndata['feat']`` (num_nodes, 50) and ``ndata['label']`` (num_nodes, 121) of 0 and 1, both float32, and
    the ids of nodes and edges in the graph of the whole part, ``ndata[dglite.NID]`` and ``edata[dglite.EID]``.

    Parameters
    ----------
    mode
        ``"train"``, ``"valid"`` or ``"test"``.

    Attributes
    ----------
    num_labels, num_classes
        121.
    graph, labels, features
        The whole part as one graph, and its labels and features as tensors.

    Examples
    --------
    ::

        for g in dglite.data.PPIDataset(mode="valid"):
            feat, label = g.ndata["feat"], g.ndata["label"]
    """

    _published = "ppi", f"{SITE}/ppi.zip"
    _files = "{self.mode}_graph.json", "{self.mode}_labels.npy", "{self.mode}_feats.npy", "{self.mode}_graph_id.npy"
    num_labels = num_classes = 121

    def process(self) -> None:
        """Read the files and cut the graph into its parts."""
        structure, labels, features, owners = self._paths
        self.graph = _node_link_graph(structure)
        num_nodes = self.graph.num_nodes()
        self.labels = float_tensor(npy_of(labels, num_nodes))
        self.features = float_tensor(npy_of(features, num_nodes))
        of_graph = npy_of(owners, num_nodes)
        self.graphs = []
        for number in range(*_GRAPHS[self.mode]):
            nodes = np.flatnonzero(of_graph == number)
            part = self.graph.subgraph(nodes)
            part.ndata["feat"], part.ndata["label"] = self.features[nodes], self.labels[nodes]
            self.graphs.append(part)


class LegacyPPIDataset(PPIDataset):
    """:class:`PPIDataset`, each graph with its features and labels beside it: ``(g, feat, label)``."""

    def __getitem__(self, item: int) -> Any:
        """Return graph ``item``, its features and its labels."""
        g = super().__getitem__(item)
        return g, g.ndata["feat"], g.ndata["label"]


def _node_link_graph(path: Path) -> DGLGraph:
    """Return the graph in a node-link file of NetworkX: each edge once, in both directions where it is not directed.

    Edges are in NetworkX's order: by their source, as the file lists nodes, then as they were first seen.
    """
    content = json_of(path, ("nodes", "links"))
    try:
        nodes = np.array([node["id"] for node in content["nodes"]])
        src, dst = (np.array([link[end] for link in content["links"]]) for end in ("source", "target"))
    except (TypeError, KeyError, ValueError) as error:
        raise DGLError(f"{path} is no node-link file: {error!r}") from error
    num_nodes = len(nodes)
    if not num_nodes or nodes.dtype.kind not in "iu" or not np.array_equal(np.sort(nodes), np.arange(num_nodes)):
        raise DGLError(f"{path} does not number its {num_nodes} nodes from 0 on")
    src, dst = edges_in(src, dst, num_nodes, path)
    if not content.get("directed", False):
        src, dst = np.stack([src, dst, dst, src], axis=1).reshape(-1, 2).T  # each link, then its reverse
    _, first = np.unique(src * num_nodes + dst, return_index=True)
    first = first[np.lexsort((first, np.argsort(nodes)[src[first]]))]
    return graph((src[first], dst[first]), num_nodes=num_nodes)


class _GraphFile(Graphs, PartOfThree):
    """Base of data sets that are published as graphs in a file of DGL's, which holds arrays and names, no pickle.

    Parameters
    ----------
    mode
        ``"train"``, ``"valid"`` or ``"test"``.

    Examples
    --------
    ::

        data = dglite.data.PATTERNDataset(mode="valid")
        g, num_classes = data[0], data.num_classes
    """

    _columns: ClassVar[tuple[str, ...]] = ("feat", "label")

    def process(self) -> None:
        """Read the file."""
        (path,) = self._paths
        self.graphs, self._labels = load_graphs(str(path))
        for i, g in enumerate(self.graphs):
            lacking = {*self._columns} - {*g.ndata} or {"feat"} - {*g.edata}
            if lacking:
                raise DGLError(f"{path} is another file: its graph {i} has no column {min(lacking)!r}")


class PATTERNDataset(_GraphFile):
    """PATTERN: 10,000 / 2,000 / 2,000 graphs of 44 to 188 nodes; which nodes belong to a pattern? 2 classes.

    Graphs have ``ndata['feat']`` (num_nodes,), int64, 0 to 2, ``ndata['label']`` (num_nodes,), int16, and
    ``edata['feat']`` (num_edges, 1), float32.
    """

    _published = "pattern", f"{SITE}/SBM_PATTERN.zip"
    _files = ("SBM_PATTERN_{self.mode}.bin",)
    num_classes = 2


class CLUSTERDataset(_GraphFile):
    """CLUSTER: 10,000 / 1,000 / 1,000 graphs of 40 to 190 nodes; which cluster is a node in? 6 classes.

    Graphs have ``ndata['feat']`` (num_nodes,), int64, 0 or the known class plus 1, ``ndata['label']`` (num_nodes,),
    int16, and ``edata['feat']`` (num_edges, 1), float32.
    """

    _published = "cluster", f"{SITE}/SBM_CLUSTER.zip"
    _files = ("CLUSTER_{self.mode}.bin",)
    num_classes = 6


class ZINCDataset(_GraphFile):
    """ZINC: 10,000 / 1,000 / 1,000 molecules of 9 to 37 atoms, 23 on average, and their constrained solubility.

    Graphs have ``ndata['feat']`` (num_nodes,), int64, kinds of atoms, and ``edata['feat']`` (num_edges,), int64, kinds
    of bonds. An item is a graph and its label.
    """

    _published = "zinc", f"{SITE}/ZINC12k.zip"
    _files = ("ZincDGL_{self.mode}.bin",)
    _columns = ("feat",)
    num_atom_types, num_bond_types = 28, 4

    def process(self) -> None:
        """Read the file."""
        super().process()
        labels = self._labels.get("g_label")
        if labels is None or len(labels) != len(self.graphs):
            raise DGLError(f"{self._paths[0]} has no g_label for each of {len(self.graphs)} graphs")

    def __getitem__(self, item: int) -> Any:
        """Return graph ``item`` and its label."""
        return super().__getitem__(item), self._labels["g_label"][item]
