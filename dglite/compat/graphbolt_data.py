"""Features and data sets on disk for ``dgl.graphbolt``: folders that a YAML file describes, as it is documented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from ..convert import graph, heterograph
from ..errors import DGLError
from ..graph import DGLGraph
from .graphbolt import FusedCSCSamplingGraph, HeteroItemSet, ItemSet, _by_type, etype_str_to_tuple

__all__ = ["BasicFeatureStore", "OnDiskDataset", "OnDiskTask", "TorchBasedFeature", "TorchBasedFeatureStore"]


class TorchBasedFeature:
    """A feature: a tensor, or an array that may be mapped from a file."""

    def __init__(self, torch_feature: Any) -> None:
        self._values = torch_feature

    def read(self, ids: torch.Tensor | None = None) -> torch.Tensor:
        """Return the rows of some ids, or all."""
        if torch.is_tensor(self._values):
            return self._values if ids is None else self._values[ids]
        return torch.from_numpy(np.asarray(self._values if ids is None else self._values[ids.numpy()]))

    def size(self) -> torch.Size:
        """Return the shape of a row."""
        return torch.Size(self._values.shape[1:])


class BasicFeatureStore(dict[tuple[str, str | None, str], Any]):
    """Features by (domain, type, name): domain is "node" or "edge", type None in a homogeneous graph."""

    def __missing__(self, key: Any) -> Any:
        raise KeyError(f"there is no feature {key}; there are {list(self)}")

    def read(self, domain: str, type_name: str | None, feature_name: str, ids: Any = None) -> torch.Tensor:
        """Return a feature's rows of some ids, or all; KeyError where there is no such feature."""
        return self[domain, type_name, feature_name].read(ids)

    def size(self, domain: str, type_name: str | None, feature_name: str) -> torch.Size:
        """Return the shape of a feature's row."""
        return self[domain, type_name, feature_name].size()

    def update(self, domain: Any, type_name: Any = None, feature_name: Any = None, value: Any = None) -> None:  # type: ignore[override]
        """Put a feature in another's place."""
        self[domain, type_name, feature_name] = TorchBasedFeature(value)

    def to(self, device: Any = None) -> Self:
        """Return the store, whose features stay where they are: batches are copied."""
        return self

    pin_memory_ = to


TorchBasedFeatureStore = BasicFeatureStore


class OnDiskTask:
    """A task of a data set: its item sets, and ``metadata``, all else that its description says."""

    def __init__(self, metadata: dict[str, Any], sets: Sequence[Any]) -> None:
        self.metadata = metadata
        self.train_set, self.validation_set, self.test_set = sets


class OnDiskDataset:
    """A data set in a folder with ``metadata.yaml``, as GraphBolt documents it, read in :meth:`load`.

    Graph, features and sets are read from the files that are described; nothing is written beside them. Edges are
    ``numpy`` arrays (2, num_edges) or ``csv`` files of two columns without a header. Features that are not
    ``in_memory`` are mapped from their ``.npy`` files. Raises DGLError where the description lacks something.
    """

    def __init__(self, path: str | Path, include_original_edge_id: bool = False, **others: Any) -> None:
        self._folder = Path(path)
        file = self._folder / "metadata.yaml"
        if not file.exists():
            raise DGLError(f"{file} does not exist; it describes the data set, see dgl.graphbolt.OnDiskDataset")
        import yaml  # an extra, which the rest of the module does without

        self.yaml_data: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        self.dataset_name = self.yaml_data.get("dataset_name")

    def load(self, tasks: Sequence[str] | str | None = None) -> Self:
        """Read graph, features and tasks, those of the given names or all; return self."""
        described = self.yaml_data
        if "graph" not in described:
            raise DGLError(f"{self._folder / 'metadata.yaml'} describes no graph: nodes, edges")
        self.graph = FusedCSCSamplingGraph(self._graph(described["graph"]))
        listed = described.get("feature_data") or []
        self.feature = BasicFeatureStore(
            {(x["domain"], x.get("type"), x["name"]): TorchBasedFeature(self._read(x, False)) for x in listed}
        )
        wanted = [tasks] if isinstance(tasks, str) else tasks
        self.tasks = [
            OnDiskTask(
                {name: x for name, x in task.items() if not name.endswith("_set")},
                [self._items(task.get(f"{part}_set")) for part in ("train", "validation", "test")],
            )
            for task in described.get("tasks") or []
            if wanted is None or task.get("name") in wanted
        ]
        nodes = _by_type(lambda count: ItemSet(count, "seeds"), self.graph.num_nodes)
        self.all_nodes_set = HeteroItemSet(nodes) if isinstance(nodes, Mapping) else nodes
        return self

    def _read(self, described: Mapping[str, Any], whole: bool = True) -> Any:
        path = self._folder / described["path"]
        if described["format"] == "torch":
            return torch.load(path, weights_only=True)
        if described["format"] != "numpy":
            raise DGLError(f"{path} has the format {described['format']!r}; expected 'numpy' or 'torch'")
        if whole or described.get("in_memory", True):
            return torch.from_numpy(np.load(path))
        return np.load(path, mmap_mode="r")

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
            view = g.nodes if x["domain"] == "node" else g.edges
            kind = x.get("type") or (g.ntypes if x["domain"] == "node" else g.etypes)[0]
            view[etype_str_to_tuple(kind) if ":" in kind else kind].data[x["name"]] = self._read(x)
        return g

    def _items(self, described: Sequence[Mapping[str, Any]] | None) -> ItemSet | HeteroItemSet | None:
        if not described:
            return None
        sets = {
            x.get("type"): ItemSet(tuple(self._read(y) for y in x["data"]), [y.get("name") for y in x["data"]])
            for x in described
        }
        return sets[None] if list(sets) == [None] else HeteroItemSet(sets)  # type: ignore[arg-type]
