"""What data sets have: a graph, features, tasks; and data sets of DGL as such."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...errors import DGLError
from .base import by_type, shown
from .features import BasicFeatureStore, TorchBasedFeature
from .itemset import HeteroItemSet, ItemSet
from .sampling_graph import from_dglgraph

__all__ = ["Dataset", "LegacyDataset", "OnDiskTask", "Task"]


class _Abstract:
    """An attribute that objects, or subclasses, must define."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        raise NotImplementedError(f"{type(owner).__name__} must define {self._name}")


class Task:
    """Base of tasks."""

    metadata: Any = _Abstract("The task's properties, by name.")
    train_set: Any = _Abstract("Items to train on.")
    validation_set: Any = _Abstract("Items to choose a model by.")
    test_set: Any = _Abstract("Items to test on.")


class Dataset:
    """Base of data sets."""

    tasks: Any = _Abstract("A list of tasks.")
    graph: Any = _Abstract("The graph to sample from.")
    feature: Any = _Abstract("The store of features.")
    dataset_name: Any = _Abstract("The name.")
    all_nodes_set: Any = _Abstract("Items of all nodes, named 'seeds'.")


class OnDiskTask(Task):
    """A task of a data set: its item sets, or None, and ``metadata``, all else that its description says."""

    def __init__(self, metadata: Any, train_set: Any, validation_set: Any, test_set: Any) -> None:
        self.metadata, self.train_set = metadata, train_set
        self.validation_set, self.test_set = validation_set, test_set

    def __repr__(self) -> str:
        return shown("OnDiskTask", vars(self))

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, OnDiskTask) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


class LegacyDataset(Dataset):
    """A data set of DGL of one graph, as GraphBolt has data sets.

    The graph's masks ``train_mask``, ``val_mask`` and ``test_mask`` make the items of the one task, nodes with
    ``label``; all other features make the feature store.

    Raises DGLError: it has several graphs, or no nodes with masks.

    Parameters
    ----------
    legacy
        a data set of one graph, homogeneous, or with a type of nodes that has the masks.
    """

    def __init__(self, legacy: Any) -> None:
        if len(legacy) != 1:
            raise DGLError(f"LegacyDataset takes a data set of one graph; {type(legacy).__name__} has {len(legacy)}")
        g = legacy[0]
        masked = [ntype for ntype in g.ntypes if "train_mask" in g.nodes[ntype].data]
        if len(masked) != 1:
            raise DGLError(f"nodes of one type must have train_mask; the graph has it for types {masked}")
        typed, data = not g.is_homogeneous, g.nodes[masked[0]].data
        sets = (self._items(data, f"{part}_mask", masked[0] if typed else None) for part in ("train", "val", "test"))
        classes = getattr(legacy, "num_classes", None)
        self.tasks = [OnDiskTask({"name": "node_classification", "num_classes": classes}, *sets)]
        self.graph, self.dataset_name = from_dglgraph(g), getattr(legacy, "name", None)
        self.feature = BasicFeatureStore(
            {
                ("node", ntype if typed else None, name): TorchBasedFeature(g.nodes[ntype].data[name])
                for ntype in g.ntypes
                for name in g.nodes[ntype].data
                if not name.endswith("_mask")
            }
        )
        self.all_nodes_set = all_nodes(self.graph)

    @staticmethod
    def _items(data: Any, mask: str, ntype: str | None) -> Any:
        if mask not in data:
            return None
        ids = data[mask].to(torch.bool).nonzero().flatten()
        labels = (data["label"][ids],) if "label" in data else ()
        items = ItemSet((ids, *labels), ("seeds", "labels")[: 1 + len(labels)])
        return items if ntype is None else HeteroItemSet({ntype: items})


def all_nodes(graph: Any) -> ItemSet | HeteroItemSet:
    """Return items of all nodes of a sampling graph, named ``"seeds"``."""
    dtype = graph.indices.dtype
    nodes = by_type(lambda count: ItemSet(torch.tensor(count, dtype=dtype), "seeds"), graph.num_nodes)
    return HeteroItemSet(nodes) if isinstance(nodes, Mapping) else nodes
