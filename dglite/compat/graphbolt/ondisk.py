"""Data sets in a folder that a YAML file describes: as they were put there, or preprocessed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from ...convert import graph, heterograph
from ...data.published import SITE
from ...data.raw import yaml_of
from ...data.utils import download, extract_archive
from ...errors import DGLError
from ...graph import DGLGraph
from ...io.atomic import replacing
from ...io.container import local_path
from ...io.graphbolt_file import load_fused_graph, save_fused_graph
from .base import etype_str_to_tuple, seed_type_str_to_ntypes
from .dataset import Dataset, OnDiskTask, all_nodes
from .features import BasicFeatureStore, feature_of
from .internal import HASHES, calculate_dir_hash, read_data, read_edges
from .itemset import HeteroItemSet, ItemSet
from .metadata import GraphFiles, OnDiskFeatureData, OnDiskMetaData, OnDiskTVTSet
from .sampling_graph import FusedCSCSamplingGraph, fused_csc_sampling_graph
from .subgraph import columns_of_seeds
from .utils import gb_warning

__all__ = ["BuiltinDataset", "OnDiskDataset", "preprocess_ondisk_dataset"]

_FILE, _FOLDER = "metadata.yaml", "preprocessed"
_GRAPH = f"{_FOLDER}/fused_csc_sampling_graph.pt"
_SETS = ("train_set", "validation_set", "test_set")


class OnDiskDataset(Dataset):
    """A data set in a folder with ``metadata.yaml``, as GraphBolt documents it, read in :meth:`load`.

    What :func:`preprocess_ondisk_dataset` wrote is read, if it is there and newer than all files that the description
    names; else these files. Edges are ``numpy`` arrays (2, num_edges) or ``csv`` files of two columns without a header.
    Features that are not ``in_memory`` are mapped from their ``.npy`` files; those of one dimension are (num_rows, 1).

    Raises DGLError: there is no such file, or it is no YAML; ImportError: PyYAML is not installed.

    Parameters
    ----------
    path
        the folder.
    include_original_edge_id
        whether sampled subgraphs have ids that edges have in their files.
    force_preprocess
        True: preprocess the data set anew. Otherwise nothing is written, as DGL does.
    auto_cast_to_optimal_dtype
        see :func:`preprocess_ondisk_dataset`.

    Attributes
    ----------
    yaml_data, dataset_name
        the description, which may be changed before it is loaded, and the name in it.
    graph, feature, tasks
        what :meth:`load` read: a :class:`FusedCSCSamplingGraph`, a :class:`BasicFeatureStore`, a list of
        :class:`OnDiskTask`.
    all_nodes_set
        items of all nodes, named ``"seeds"``.
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
    ) -> None:
        self._folder, self._with_ids = local_path(path), bool(include_original_edge_id)
        if force_preprocess:
            preprocess_ondisk_dataset(path, include_original_edge_id, True, auto_cast_to_optimal_dtype)
        self._file = _description_to_read(self._folder, self._with_ids)
        self.yaml_data = _yaml_of(self._file)
        self.dataset_name = self.yaml_data.get("dataset_name")

    def load(self, tasks: Sequence[str] | str | None = None) -> Self:
        """Read graph, features and tasks, those of the given names or all; return self.

        Raises DGLError: the description lacks something, or a file is missing, damaged or of another shape; nothing is
        changed.
        """
        described = OnDiskMetaData(str(self._file), **self.yaml_data)
        names = [tasks] if isinstance(tasks, str) else tasks
        graph = self._graph(described)
        feature = BasicFeatureStore({})
        for x in described.feature_data:
            key = str(x.domain), x.type, x.name
            if key in feature:
                raise DGLError(f"{x.place} is the feature {key}, which another entry is, too")
            feature[key] = self._feature(x, graph)
        described_tasks = [x for x in described.tasks if names is None or x.extra_fields.get("name") in names]
        if missing := set(names or ()) - {x.extra_fields.get("name") for x in described_tasks}:
            gb_warning(f"{self._file} has no tasks named {sorted(missing)}")
        loaded = [
            OnDiskTask(x.extra_fields, *(self._items(getattr(x, name), graph) for name in _SETS))
            for x in described_tasks
        ]
        self.all_nodes_set = all_nodes(graph)
        self.graph, self.feature, self.tasks, self.dataset_name = graph, feature, loaded, described.dataset_name
        return self

    def _path(self, described: Any) -> Path:
        path = self._folder / described.path
        if not path.is_file():
            raise DGLError(f"{path} does not exist, which {described.place} names")
        return path

    def _read(self, described: Any) -> torch.Tensor:
        return read_data(self._path(described), described.format)

    # -- features --------------------------------------------------------------------------------------------------
    def _feature(self, described: OnDiskFeatureData, graph: FusedCSCSamplingGraph) -> Any:
        path, domain, kind = self._path(described), described.domain, described.type
        feature = feature_of(path, described.format, described.in_memory, described.extra_fields, at_least_2d=True)
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
        return feature

    # -- the graph -------------------------------------------------------------------------------------------------
    def _graph(self, described: OnDiskMetaData) -> FusedCSCSamplingGraph:
        if described.graph_topology is not None:
            return fused_csc_sampling_graph(**load_fused_graph(self._path(described.graph_topology)))
        if described.graph is None:
            raise DGLError(f"{described.place} needs graph, names and values; got None")
        return FusedCSCSamplingGraph(g=self._dglgraph(described.graph), has_original_edge_ids=self._with_ids)

    def _dglgraph(self, described: GraphFiles) -> DGLGraph:
        counts = {x.type: x.num for x in described.nodes}
        etypes = [x.type for x in described.edges]
        if not counts or not etypes:
            raise DGLError(f"{described.place} needs nodes and edges; got {len(counts)} and {len(etypes)}")
        typed = None not in etypes
        if (len(etypes) > 1 and not typed) or any((ntype is not None) != typed for ntype in counts):
            raise DGLError(f"{described.place} has nodes of types {list(counts)}, edges of {etypes}: name all or none")
        edges = {x.type: self._ends(x, counts) for x in described.edges}
        if typed:
            g = heterograph({etype_str_to_tuple(etype): x for etype, x in edges.items()}, counts)
        else:
            g = graph(edges[None], num_nodes=counts[None])
        for x in described.feature_data:
            view, types = (g.nodes, g.ntypes) if x.domain == "node" else (g.edges, g.canonical_etypes)
            kind = x.type or types[0]
            view[etype_str_to_tuple(kind) if ":" in kind else kind].data[x.name] = self._read(x)
        return g

    def _ends(self, described: Any, counts: Mapping[Any, int]) -> tuple[torch.Tensor, torch.Tensor]:
        src, dst = read_edges("", described.format, self._path(described))
        ends = torch.from_numpy(src.copy()), torch.from_numpy(dst.copy())
        kinds = [None, None] if described.type is None else seed_type_str_to_ntypes(described.type, 2)
        for kind, ids in zip(kinds, ends, strict=True):
            self._check_ids(described, ids, kind, counts)
        return ends

    def _check_ids(self, described: Any, ids: torch.Tensor, kind: Any, counts: Mapping[Any, int]) -> None:
        """Raise :class:`DGLError` unless ids in a file are nodes of a type."""
        if kind not in counts:
            raise DGLError(f"{described.place} is of node type {kind!r}; the graph has {list(counts)}")
        low, high = (int(x) for x in ids.aminmax()) if len(ids) else (0, -1)
        if ids.is_floating_point() or low < 0 or high >= counts[kind]:
            of_type, dtype = "" if kind is None else f" of type {kind!r}", str(ids.dtype).removeprefix("torch.")
            raise DGLError(
                f"{self._path(described)}, which {described.place} names, has {dtype} from {low} to {high}; expected "
                f"ids of nodes{of_type}, 0 to {counts[kind] - 1}"
            )

    # -- items -----------------------------------------------------------------------------------------------------
    def _items(self, described: Sequence[OnDiskTVTSet], graph: FusedCSCSamplingGraph) -> ItemSet | HeteroItemSet | None:
        sets = {x.type: self._item_set(x, graph) for x in described}
        if not sets:
            return None
        if None not in sets:
            return HeteroItemSet(sets)
        if len(sets) > 1:
            raise DGLError(f"{described[0].place} and those after it have types {list(sets)}: name all or none")
        return sets[None]

    def _item_set(self, described: OnDiskTVTSet, graph: FusedCSCSamplingGraph) -> ItemSet:
        if not described.data:
            raise DGLError(f"{described.place} needs data, a list of the files that items are read from")
        items, names = tuple(self._read(x) for x in described.data), tuple(x.name for x in described.data)
        if len({len(x) for x in items}) > 1 or len(set(names)) < len(names):
            rows = [f"{name}: {len(x)} rows" for name, x in zip(names, items, strict=True)]
            raise DGLError(f"{described.place} has data {rows}; expected as many rows in all, and each name once")
        counts = graph.num_nodes if graph.typed else {None: graph.num_nodes}
        for x, values in zip(described.data, items, strict=True):
            if x.name == "seeds":
                of_nodes = [(described.type, values)]
                for kind, ids in of_nodes if values.ndim == 1 else columns_of_seeds(described.type, values):
                    self._check_ids(x, ids, kind, counts)
        return ItemSet(items, names)


def _yaml_of(path: Path) -> dict[str, Any]:
    return yaml_of(path, "it describes the data set, see dgl.graphbolt.OnDiskDataset")


# -- preprocessing -----------------------------------------------------------------------------------------------------
def preprocess_ondisk_dataset(
    dataset_dir: str | Path,
    include_original_edge_id: bool = False,
    force_preprocess: bool | None = None,
    auto_cast_to_optimal_dtype: bool = True,
) -> str:
    """Write a data set's graph in compressed columns, features and items as ``.npy`` files, into ``preprocessed/``.

    GraphBolt reads what is there, and so does :class:`OnDiskDataset`, faster than edges as text.

    Raises DGLError: as :meth:`OnDiskDataset.load`; nothing is written then.

    Parameters
    ----------
    dataset_dir
        the folder with ``metadata.yaml``.
    include_original_edge_id
        keep the ids that edges have in their files.
    force_preprocess
        whether to do it again; None: if a file that the description names is newer, or ``include_original_edge_id``
        differs.
    auto_cast_to_optimal_dtype
        whether ids of nodes and edges are int32, and numbers of types uint8, if they fit.

    Returns
    -------
    str
        The path of the new description, ``preprocessed/metadata.yaml``.
    """
    folder = local_path(dataset_dir)
    target, with_ids = folder / _FOLDER / _FILE, bool(include_original_edge_id)
    if force_preprocess is None:
        force_preprocess = _description_to_read(folder, with_ids) != target
    if target.is_file() and not force_preprocess:
        return str(target)
    dataset = _Unprocessed(folder, with_ids)
    described = OnDiskMetaData(str(folder / _FILE), **dataset.yaml_data)
    dataset.load()  # checks every file
    target.parent.mkdir(exist_ok=True)
    save_fused_graph(folder / _GRAPH, dataset.graph.fields(auto_cast_to_optimal_dtype))
    small = auto_cast_to_optimal_dtype and dataset.graph.total_num_nodes <= np.iinfo(np.int32).max
    content = {name: x for name, x in dataset.yaml_data.items() if name != "graph"}
    content["include_original_edge_id"] = with_ids
    content["graph_topology"] = {"type": "FusedCSCSamplingGraph", "path": _GRAPH}
    for entry, file in zip(_file_entries(content), _files(described), strict=True):
        values = dataset._read(file).numpy()
        if isinstance(file, OnDiskFeatureData):
            values = values[:, None] if values.ndim == 1 else values
        elif small and file.name == "seeds":
            values = values.astype(np.int32)
        entry["format"], entry["path"] = "numpy", str(Path(_FOLDER, entry["path"]).with_suffix(".npy").as_posix())
        place = folder / entry["path"]
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as part, open(part, "wb") as written:
            np.save(written, values)
    _write_yaml(target, content)
    _write_hashes(dataset_dir)
    return str(target)


class _Unprocessed(OnDiskDataset):
    """A data set as it was put there."""

    def __init__(self, folder: Path, with_ids: bool) -> None:
        self._folder, self._with_ids, self._file = folder, with_ids, folder / _FILE
        self.yaml_data = _yaml_of(self._file)


def _description_to_read(folder: Path, with_ids: bool) -> Path:
    """Return the description of the preprocessed files, if they are newer than all others, else that of these."""
    source, target = folder / _FILE, folder / _FOLDER / _FILE
    if not target.is_file():
        return source
    if not source.is_file():
        return target
    written, described = target.stat().st_mtime_ns, OnDiskMetaData(str(source), **_yaml_of(source))
    files = [*_files(described), *(described.graph.edges + described.graph.feature_data if described.graph else ())]
    times = [path.stat().st_mtime_ns for x in files if (path := folder / x.path).is_file()]
    newer = any(time > written for time in (*times, source.stat().st_mtime_ns))
    return source if newer or _yaml_of(target).get("include_original_edge_id") != with_ids else target


def _files(described: OnDiskMetaData) -> Iterator[Any]:
    """Yield the descriptions of all files of features and items."""
    yield from described.feature_data
    for task in described.tasks:
        for name in _SETS:
            yield from (file for x in getattr(task, name) for file in x.data)


def _file_entries(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what :func:`_files` yields, as names and values that may be changed."""
    yield from content.get("feature_data") or ()
    for task in content.get("tasks") or ():
        for name in _SETS:
            yield from (file for x in task.get(name) or () for file in x["data"])


def _write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    import yaml  # that the description was read by

    with replacing(path) as part:
        part.write_text(yaml.safe_dump(dict(content)), encoding="utf-8")


def _write_hashes(folder: str | Path) -> None:
    """Write the MD5 of each file, by which GraphBolt knows that nothing was changed since."""
    digests = calculate_dir_hash(folder, ignore=HASHES)
    with replacing(Path(folder, _FOLDER, HASHES)) as part:
        part.write_text(json.dumps(digests, indent=4), encoding="utf-8")


# -- published data sets -----------------------------------------------------------------------------------------------
class BuiltinDataset(OnDiskDataset):
    """A published data set, in the folder ``name`` or ``name-seeds`` of ``root``, or in an archive of that name there.

    What is not there is downloaded.

    Raises DGLError: the data set is not there and cannot be downloaded: the error says which file to put where.

    Parameters
    ----------
    name
        such as "cora", "ogbn-arxiv", "ogbn-products", "ogbn-mag" or "ogbl-citation2".
    root
        the folder that has the data sets' folders.
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
