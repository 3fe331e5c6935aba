"""Data sets in a folder that a YAML file describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from ...convert import graph, heterograph
from ...errors import DGLError
from ...graph import DGLGraph
from .etypes import by_type, etype_str_to_tuple
from .features import BasicFeatureStore, TorchBasedFeature
from .itemset import HeteroItemSet, ItemSet
from .sampling_graph import FusedCSCSamplingGraph

__all__ = ["OnDiskDataset", "OnDiskTask"]

Items = ItemSet | HeteroItemSet | None


@dataclass
class OnDiskTask:
    """A task of a data set: its item sets, or None, and ``metadata``, all else that its description says."""

    metadata: dict[str, Any]
    train_set: Items
    validation_set: Items
    test_set: Items


class OnDiskDataset:
    """A data set in a folder with ``metadata.yaml``, as GraphBolt documents it, read in :meth:`load`.

    Graph, features and sets are read from the files that are described; nothing is written beside them, as DGL does.
    Edges are ``numpy`` arrays (2, num_edges) or ``csv`` files of two columns without a header. Features that are not
    ``in_memory`` are mapped from their ``.npy`` files.

    Attributes
    ----------
    yaml_data, dataset_name
        the description, which may be changed before it is loaded, and the name in it.
    graph, feature, tasks
        what :meth:`load` read: a :class:`FusedCSCSamplingGraph`, a :class:`BasicFeatureStore`, a list of
        :class:`OnDiskTask`.
    all_nodes_set
        items of all nodes, named ``"seeds"``.

    Raises
    ------
    DGLError
        There is no such file; in :meth:`load`, it describes no graph or has an unknown format.
    """

    def __init__(self, path: str | Path, include_original_edge_id: bool = False, **others: Any) -> None:
        self._folder = Path(path)
        file = self._folder / "metadata.yaml"
        if not file.exists():
            raise DGLError(f"{file} does not exist; it describes the data set, see dgl.graphbolt.OnDiskDataset")
        import yaml  # an extra, which the rest of the package does without

        self.yaml_data: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        self.dataset_name = self.yaml_data.get("dataset_name")

    def load(self, tasks: Sequence[str] | str | None = None) -> Self:
        """Read graph, features and tasks, those of the given names or all; return self."""
        described, wanted = self.yaml_data, [tasks] if isinstance(tasks, str) else tasks
        if "graph" not in described:
            raise DGLError(f"{self._folder / 'metadata.yaml'} describes no graph: nodes, edges")
        self.graph = FusedCSCSamplingGraph(self._graph(described["graph"]))
        self.feature = BasicFeatureStore()
        for x in described.get("feature_data") or []:
            values = self._read(x, mapped=not x.get("in_memory", True))
            self.feature[x["domain"], x.get("type"), x["name"]] = TorchBasedFeature(values)
        self.tasks = [
            OnDiskTask(
                {name: x for name, x in task.items() if not name.endswith("_set")},
                *(self._items(task.get(f"{part}_set")) for part in ("train", "validation", "test")),
            )
            for task in described.get("tasks") or []
            if wanted is None or task.get("name") in wanted
        ]
        nodes = by_type(lambda count: ItemSet(count, "seeds"), self.graph.num_nodes)
        self.all_nodes_set = HeteroItemSet(nodes) if isinstance(nodes, Mapping) else nodes
        return self

    def _read(self, described: Mapping[str, Any], mapped: bool = False) -> Any:
        path, kind = self._folder / described["path"], described["format"]
        if kind not in ("numpy", "torch"):
            raise DGLError(f"{path} has the format {kind!r}; expected 'numpy' or 'torch'")
        if kind == "torch":
            return torch.load(path, weights_only=True)
        return np.load(path, mmap_mode="r") if mapped else torch.from_numpy(np.load(path))

    def _graph(self, described: Mapping[str, Any]) -> DGLGraph:
        counts = {x.get("type"): int(x["num"]) for x in described["nodes"]}
        edges = {}
        for x in described["edges"]:
            path = self._folder / x["path"]
            ends = np.loadtxt(path, np.int64, delimiter=",", ndmin=2).T if x["format"] == "csv" else np.load(path)
            edges[x.get("type")] = torch.from_numpy(ends[0].copy()), torch.from_numpy(ends[1].copy())
        if list(edges) == [None]:
            g = graph(edges[None], num_nodes=counts[None])
        else:
            g = heterograph({etype_str_to_tuple(etype): x for etype, x in edges.items()}, counts)
        for x in described.get("feature_data") or []:
            view, types = (g.nodes, g.ntypes) if x["domain"] == "node" else (g.edges, g.canonical_etypes)
            kind = x.get("type") or types[0]
            view[etype_str_to_tuple(kind) if ":" in kind else kind].data[x["name"]] = self._read(x)
        return g

    def _items(self, described: Sequence[Mapping[str, Any]] | None) -> Items:
        if not described:
            return None
        sets: dict[Any, ItemSet] = {
            x.get("type"): ItemSet(tuple(self._read(y) for y in x["data"]), tuple(y.get("name") for y in x["data"]))
            for x in described
        }
        return sets[None] if list(sets) == [None] else HeteroItemSet(sets)
