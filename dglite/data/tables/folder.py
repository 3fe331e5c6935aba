"""A folder that ``convert_tables`` wrote: the graph, its features and its ids, mapped from disk."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...backend import active
from ...errors import DGLError
from ...graph import DGLGraph
from ...io import load_graphs
from ..raw import json_of, npy_of
from .files import file_name
from .ids import NodeIds

META = "meta.json"
VERSION = 1


class GraphFolder:
    """A graph on disk with its features and ids, opened without being read.

    Raises DGLError: it is no such folder, a file is missing or cut short, or a feature has another number of rows than
    the graph.

    Parameters
    ----------
    path
        a folder that :func:`dglite.data.convert_tables` wrote.

    Examples
    --------
    ::

        folder = dglite.data.GraphFolder("follows.graph")
        folder.ids["_N"].numbers(["ann"])
        sampler = NeighborSampler([10, 5], prefetch_node_feats={"x": MappedFeatures(folder.feature_file("_N", "x"))})
        loader = DataLoader(folder.graph, seeds, sampler, batch_size=1000)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not (self.path / META).is_file():
            part = self.path.parent / f"{self.path.name}.converting"
            more = f"; {part} is a conversion that was interrupted: call convert_tables again" if part.exists() else ""
            raise DGLError(f"{self.path} is no folder of a graph: it has no {META}{more}")
        meta = json_of(self.path / META, ("version", "nodes", "edges"))
        if meta["version"] != VERSION:
            raise DGLError(f"{self.path} is of version {meta['version']}; this dglite reads {VERSION}")
        self._nodes: dict[str, dict[str, Any]] = meta["nodes"]
        self._edges: dict[tuple[str, str, str], dict[str, Any]] = {
            (*etype,): columns for etype, columns in meta["edges"]
        }

    def __repr__(self) -> str:
        return f"GraphFolder({str(self.path)!r}, {sorted(self._nodes)}, {sorted(self._edges)})"

    @cached_property
    def graph(self) -> DGLGraph:
        """The graph. Structure and features are mapped: the system reads pages when they are used."""
        (g,), _ = load_graphs(self.path / "graph.dgl", mmap=True)
        for ntype, columns in self._nodes.items():
            g.nodes[ntype].data.update({name: self._mapped(ntype, name, g.num_nodes(ntype)) for name in columns})
        for etype, columns in self._edges.items():
            g.edges[etype].data.update({name: self._mapped(etype, name, g.num_edges(etype)) for name in columns})
        return g

    @cached_property
    def ids(self) -> dict[str, NodeIds]:
        """The ids of each node type, looked up both ways."""
        return {ntype: NodeIds.load(self.path / "ids" / file_name(ntype)) for ntype in self._nodes}

    @cached_property
    def categories(self) -> dict[Any, dict[str, list[str]]]:
        """The texts of the codes of each categorical feature, by node or edge type."""
        tables: dict[Any, dict[str, Any]] = {**self._nodes, **self._edges}
        texts = {key: {name: codes for name, codes in columns.items() if codes} for key, columns in tables.items()}
        return {key: columns for key, columns in texts.items() if columns}

    def feature_file(self, key: str | tuple[str, str, str], name: str) -> Path:
        """Return the ``.npy`` file of a feature of a node or edge type, for ``dglite.dataloading.MappedFeatures``."""
        tables: dict[Any, dict[str, Any]] = {**self._nodes, **self._edges}
        present = {other: [*columns] for other, columns in tables.items()}
        if key not in tables or name not in tables[key]:
            raise DGLError(f"there is no feature {name!r} of {key!r}; there are {present}")
        return self.path / ("nodes" if isinstance(key, str) else "edges") / file_name(key) / f"{file_name(name)}.npy"

    def _mapped(self, key: Any, name: str, num_rows: int) -> Any:
        path = self.feature_file(key, name)
        npy_of(path, num_rows, mapped=True)
        # Copied on write, so that a tensor may be written to and the file stays.
        return active.from_numpy(np.asarray(np.lib.format.open_memmap(path, mode="c")))
