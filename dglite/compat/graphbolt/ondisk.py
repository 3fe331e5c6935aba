"""Data sets in a folder that a YAML file describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch

from ...convert import graph, heterograph
from ...data.published import SITE
from ...data.raw import npy_of, table_of, yaml_of
from ...data.utils import download, extract_archive
from ...errors import DGLError
from ...graph import DGLGraph
from ...io.container import local_path
from .base import by_type, etype_str_to_tuple
from .dataset import Dataset, OnDiskTask
from .features import BasicFeatureStore, feature_of, torch_file
from .itemset import HeteroItemSet, ItemSet
from .sampling_graph import FusedCSCSamplingGraph

__all__ = ["BuiltinDataset", "OnDiskDataset", "OnDiskTask", "preprocess_ondisk_dataset"]

Items = ItemSet | HeteroItemSet | None
_Kind = TypeVar("_Kind")
_FILE = "metadata.yaml"
_REQUIRED = object()
_WORDS = {str: "a text", int: "a number from 0 on", bool: "true or false", list: "a list", dict: "names and values"}


class OnDiskDataset(Dataset):
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
        There is no such file, or it is no YAML.
    ImportError
        PyYAML is not installed.
    """

    yaml_data: Any = None
    graph: Any = None
    feature: Any = None
    tasks: Any = None
    all_nodes_set: Any = None
    dataset_name: Any = None

    def __init__(
        self,
        path: str | Path,
        include_original_edge_id: bool = False,
        force_preprocess: bool | None = None,
        auto_cast_to_optimal_dtype: bool = True,
        **others: Any,
    ) -> None:
        self._folder, self._with_ids = local_path(path), bool(include_original_edge_id)
        self.yaml_data = yaml_of(self._folder / _FILE, "it describes the data set, see dgl.graphbolt.OnDiskDataset")
        self.dataset_name = self.yaml_data.get("dataset_name")

    def load(self, tasks: Sequence[str] | str | None = None) -> Self:
        """Read graph, features and tasks, those of the given names or all; return self.

        Raises
        ------
        DGLError
            The description lacks something, or a file is missing, damaged or of another shape; nothing is changed.
        """
        described, names = (
            _DescribedPart(self.yaml_data, self._folder / _FILE),
            [tasks] if isinstance(tasks, str) else tasks,
        )
        graph = FusedCSCSamplingGraph(g=self._graph(described.entry("graph")), has_original_edge_ids=self._with_ids)
        feature = BasicFeatureStore({})
        for x in described.entries("feature_data"):
            self._add_feature(feature, x, graph)
        loaded = [
            OnDiskTask(
                {name: x for name, x in task.content.items() if not name.endswith("_set")},
                *(self._items(task.entries(f"{part}_set")) for part in ("train", "validation", "test")),
            )
            for task in described.entries("tasks")
            if names is None or task.content.get("name") in names
        ]
        nodes = by_type(lambda count: ItemSet(count, "seeds"), graph.num_nodes)
        self.all_nodes_set = HeteroItemSet(nodes) if isinstance(nodes, Mapping) else nodes
        self.graph, self.feature, self.tasks = graph, feature, loaded
        return self

    def _add_feature(self, store: BasicFeatureStore, described: _DescribedPart, graph: FusedCSCSamplingGraph) -> None:
        fields = ("domain", "type", "name", "format", "path", "in_memory")
        more = {name: x for name, x in described.content.items() if name not in fields}
        path, form = self._path(described), described.get("format", str)
        feature = feature_of(path, form, described.get("in_memory", bool, True), more)
        domain, kind = described.get("domain", str), described.get("type", str, None)
        if domain not in ("node", "edge", "graph"):
            raise DGLError(f"{described.place} has the domain {domain!r}; expected 'node', 'edge' or 'graph'")
        if domain != "graph":
            counts = graph.num_nodes if domain == "node" else graph.num_edges
            counts = counts if isinstance(counts, Mapping) else {None: counts}
            if kind not in counts:
                raise DGLError(f"{described.place} has the type {kind!r}; the graph's {domain}s have {list(counts)}")
            if feature.count() != counts[kind]:
                raise DGLError(
                    f"{path}, which {described.place} names, has {feature.count()} rows; expected {counts[kind]}, one "
                    f"for each {domain}"
                )
        store[domain, kind, described.get("name", str)] = feature

    def _read(self, described: _DescribedPart) -> torch.Tensor:
        path, kind = self._path(described), described.get("format", str)
        if kind == "numpy":
            return torch.from_numpy(npy_of(path))
        if kind != "torch":
            raise DGLError(f"{path} has the format {kind!r}; expected 'numpy' or 'torch'")
        return torch_file(path)

    def _path(self, described: _DescribedPart) -> Path:
        path = self._folder / described.get("path", str)
        if not path.is_file():
            raise DGLError(f"{path} does not exist, which {described.place} names")
        return path

    def _graph(self, described: _DescribedPart) -> DGLGraph:
        counts: dict[Any, int] = {x.get("type", str, None): x.get("num", int) for x in described.entries("nodes")}
        edges: dict[Any, Any] = {x.get("type", str, None): self._ends(x) for x in described.entries("edges")}
        if not counts or not edges:
            raise DGLError(f"{described.place} needs nodes and edges; got {sorted(described.content, key=str)}")
        typed = None not in edges
        if (len(edges) > 1 and not typed) or any((ntype is not None) != typed for ntype in counts):
            raise DGLError(
                f"{described.place} has nodes of types {list(counts)}, edges of {list(edges)}: name all or none"
            )
        if typed:
            g = heterograph({etype_str_to_tuple(etype): x for etype, x in edges.items() if etype}, counts)
        else:
            g = graph(edges[None], num_nodes=counts[None])
        for x in described.entries("feature_data"):
            view, types = (g.nodes, g.ntypes) if x.get("domain", str) == "node" else (g.edges, g.canonical_etypes)
            kind = x.get("type", str, None) or types[0]
            view[etype_str_to_tuple(kind) if ":" in kind else kind].data[x.get("name", str)] = self._read(x)
        return g

    def _ends(self, described: _DescribedPart) -> tuple[torch.Tensor, torch.Tensor]:
        path = self._path(described)
        ends = table_of(path, dtype=np.int64).T if described.get("format", str) == "csv" else npy_of(path)
        if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
            raise DGLError(f"{path} has {ends.dtype} of shape {ends.shape}; expected ids of shape (2, num_edges)")
        return torch.from_numpy(ends[0].copy()), torch.from_numpy(ends[1].copy())

    def _items(self, described: Sequence[_DescribedPart]) -> Items:
        sets: dict[Any, ItemSet] = {
            x.get("type", str, None): self._item_set(x.entries("data"), x.place) for x in described
        }
        if not sets:
            return None
        if None not in sets:
            return HeteroItemSet({etype: items for etype, items in sets.items() if etype is not None})
        if len(sets) > 1:
            raise DGLError(f"{described[0].place} and those after it have types {list(sets)}: name all or none")
        return sets[None]

    def _item_set(self, data: Sequence[_DescribedPart], place: str) -> ItemSet:
        if not data:
            raise DGLError(f"{place} needs data, a list of the files that items are read from")
        return ItemSet(tuple(self._read(x) for x in data), tuple(x.get("name", str, None) for x in data))


def preprocess_ondisk_dataset(
    dataset_dir: str | Path,
    include_original_edge_id: bool = False,
    force_preprocess: bool | None = None,
    auto_cast_to_optimal_dtype: bool = True,
) -> str:
    """Check all files of a data set, and return the path of its description; nothing is written, see decision 231.

    Raises
    ------
    DGLError
        As :meth:`OnDiskDataset.load`.
    """
    OnDiskDataset(dataset_dir, include_original_edge_id).load()
    return str(local_path(dataset_dir) / _FILE)


class BuiltinDataset(OnDiskDataset):
    """A published data set, in the folder ``name`` or ``name-seeds`` of ``root``, or in an archive of that name there.

    What is not there is downloaded.

    Parameters
    ----------
    name
        such as "cora", "ogbn-arxiv", "ogbn-products", "ogbn-mag" or "ogbl-citation2".
    root
        the folder that has the data sets' folders.

    Raises
    ------
    DGLError
        The data set is not there and cannot be downloaded: the error says which file to put where.
    """

    def __init__(self, name: str, root: str | Path = "datasets") -> None:
        folder, names = local_path(root), [name] if name.endswith("-seeds") else [f"{name}-seeds", name]
        present = [x for x in names if (folder / x / _FILE).is_file()]
        if not present:
            present = [_unpacked(folder, names)]
        super().__init__(folder / present[0])


def _unpacked(folder: Path, names: Sequence[str]) -> str:
    """Unpack the archive of a data set, downloaded if need be; return which of the names it has."""
    archives = [folder / f"{x}.zip" for x in names]
    archive = next((x for x in archives if x.is_file()), archives[0])
    if not archive.is_file():
        url = f"{SITE}/graphbolt/{archive.name}"
        try:
            download(url, archive, log=False)
        except (DGLError, ImportError) as error:
            raise DGLError(
                f"there is no {' or '.join(str(folder / x / _FILE) for x in names)}, and {url} cannot be "
                f"downloaded; put the unpacked folder there, or the archive at {archive}"
            ) from error
    extract_archive(archive, folder, overwrite=False)
    if not (folder / archive.stem / _FILE).is_file():
        raise DGLError(f"{archive} has no {archive.stem}/{_FILE}")
    return archive.stem


class _DescribedPart:
    """A part of the description, and where it is, for errors."""

    def __init__(self, content: Any, place: Any) -> None:
        if not isinstance(content, Mapping):
            raise DGLError(f"{place} is {content!r:.80}; expected names and values")
        self.content, self.place = content, str(place)

    def get(self, name: str, kind: type[_Kind], default: Any = _REQUIRED) -> _Kind:
        """Return a value of a kind; the default, if there is one, where the description leaves it out."""
        value = self.content.get(name)
        if value is None and default is not _REQUIRED:
            return default  # type: ignore[no-any-return]
        negative = isinstance(value, int) and value < 0
        if not isinstance(value, kind) or negative or (kind is int and isinstance(value, bool)):
            raise DGLError(f"{self.place} needs {name}, {_WORDS[kind]}; got {value!r:.80}")
        return value

    def entry(self, name: str) -> _DescribedPart:
        """Return a part of this part."""
        return _DescribedPart(self.get(name, dict), f"{name} in {self.place}")

    def entries(self, name: str) -> list[_DescribedPart]:
        """Return the parts in a list, none where it is left out."""
        return [_DescribedPart(x, f"{name}[{i}] in {self.place}") for i, x in enumerate(self.get(name, list, []))]
