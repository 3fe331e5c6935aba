"""Partitioning a graph on disk: nodes and edges are numbered part after part, and each part has a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import make_graph, require_graph
from ..io import save_graphs
from ..io.container import local_path, write_container
from ..progress import progress
from ..structure import Adjacency
from ..structure.compressed import expand_ranges
from ..structure.distinct import contains, distinct
from ..structure.ids import count_of
from .assign import assign_parts
from .config import PartConfig, feature_names, part_files, sha256_of
from .scratch import edges_at_a_time, scratch_array

KIND = "part"


def partition_graph(
    g: DGLGraph,
    graph_name: str,
    num_parts: int,
    out_path: Any,
    num_hops: int = 1,
    part_method: Any = "metis",
    balance_ntypes: Any = None,
    balance_edges: bool = False,
    return_mapping: bool = False,
    num_trainers_per_machine: int = 1,
    objtype: str = "cut",
    graph_formats: Any = None,
    use_graphbolt: bool = False,
    reshuffle: bool = True,
) -> Any:
    """Partition a graph, write its parts to disk, and print their sizes.

    Nodes are numbered part after part and by their ids in ``g`` inside a part; edges by their destination, then by
    their ids in ``g``. So a part owns one range of ids of every type, and an edge belongs to the part of its
    destination. ``out_path`` then has ``<graph_name>.json``, what :class:`DistGraph` is given; ``<graph_name>.graph``,
    the structure of the whole graph, which the processes of a machine map together; and for each part a folder with its
    structure, its features, and the ids that its nodes and edges have in ``g``.

    Raises DGLError: there are more parts than nodes, a part is left without nodes, an argument is not understood, or
    files cannot be written.

    Parameters
    ----------
    g
        a graph on the CPU, of one or several types; features are written too.
    graph_name
        a name for files.
    num_parts
        parts, one for each process that is to train.
    out_path
        a folder, which is made.
    num_hops
        hops around a part's nodes that are its halo, which is listed. From 2 on, the part also has the in-edges of the
        halo's nodes but those of the last hop; with 0, its graph has the edges inside it only.
    part_method
        ``"metis"``, which needs ``pymetis`` and the graph in memory twice; ``"locality"``, which goes through the
        in-edges in order, so that they may be mapped from a file, and keeps numbers by node only (several types are
        copied into one first); ``"random"``; or the part of each node, a tensor, or a dictionary of them by node type.
    balance_ntypes
        a number for each node, or by type: parts get like numbers of each, such as of training nodes. Nodes of each
        type are balanced in any case.
    balance_edges
        parts get like numbers of in-edges.
    return_mapping
        return the id in ``g`` of each new node and each new edge: two tensors, or two dictionaries by type.
    num_trainers_per_machine
        processes for each of ``num_parts`` machines: the product of the two is the number of parts.
    objtype, graph_formats, use_graphbolt, reshuffle
        accepted for DGL's sake: few edges are cut, in-edges are written, any sampler reads them, ids are renumbered.
    """
    require_graph(g)
    if g.is_block:
        raise DGLError("partition_graph: the graph is a block; give it a graph")
    if not isinstance(graph_name, str) or not graph_name or Path(graph_name).name != graph_name:
        raise DGLError(f"graph_name={graph_name!r} must be a name of files, without folders")
    num_trainers = count_of(num_trainers_per_machine, "num_trainers_per_machine", 1)
    if num_trainers > 1 and not isinstance(part_method, str):
        raise DGLError("part_method names the part of each node; leave out num_trainers_per_machine, give all parts")
    num_parts = count_of(num_parts, "num_parts", 1) * num_trainers
    hops, folder = count_of(num_hops, "num_hops"), local_path(out_path)
    parts = assign_parts(g, num_parts, part_method, balance_ntypes, balance_edges)
    new = _Renumbered(g, parts, num_parts, folder)
    names = part_files(graph_name, num_parts)
    save_graphs(folder / names.graph, new.graph, formats="csc")
    steps = progress(range(num_parts), "write parts", "part")
    sizes = [_write_part(g, new, part, hops, folder, names.parts[part]) for part in steps]
    method = part_method if isinstance(part_method, str) else "given"
    config = _config_of(g, new, graph_name, method, hops, sizes, folder)
    config.write(folder / f"{graph_name}.json")
    print(config.table())
    return _mapping(g, new) if return_mapping else None


def _config_of(
    g: DGLGraph, new: _Renumbered, graph_name: str, method: str, hops: int, sizes: list[dict[str, int]], folder: Path
) -> PartConfig:
    """Return what the JSON file of the written parts, of ``sizes``, says."""
    return PartConfig(
        graph_name,
        method,
        hops,
        str(g.numpy_idtype),
        {ntype: bounds.tolist() for ntype, bounds in zip(g.ntypes, new.node_bounds, strict=True)},
        {etype: bounds.tolist() for etype, bounds in zip(g.canonical_etypes, new.edge_bounds, strict=True)},
        feature_names(g),
        sizes,
        {
            name: [(folder / name).stat().st_size, sha256_of(folder / name)]
            for name in part_files(graph_name, len(sizes)).all()
        },
    )


def _mapping(g: DGLGraph, new: _Renumbered) -> Any:
    """Return the old id of each new node and edge: two tensors, or two dictionaries by type."""
    nodes = {ntype: active.from_numpy(ids) for ntype, ids in zip(g.ntypes, new.old_nodes, strict=True)}
    edges = {etype: active.from_numpy(ids) for etype, ids in zip(g.canonical_etypes, new.old_edges, strict=True)}
    if g.is_homogeneous:
        return nodes[g.ntypes[0]], edges[g.canonical_etypes[0]]
    return nodes, edges


@final
class _Renumbered:
    """The graph with new ids.

    Attributes
    ----------
    graph
        its structure, with ``orig_id`` on nodes and edges.
    old_nodes, old_edges
        by type, the old id of each new one.
    node_bounds, edge_bounds
        by type, where each part's ids begin: P + 1 numbers.
    cut
        by edge type, whether each new edge joins two parts.
    """

    def __init__(self, g: DGLGraph, parts: list[np.ndarray], num_parts: int, folder: Path) -> None:
        self.old_nodes = [np.argsort(node_parts, kind="stable") for node_parts in parts]
        self.node_bounds = [_bounds(node_parts, num_parts) for node_parts in parts]
        new_ids = [np.empty(len(node_parts), np.int64) for node_parts in parts]
        for ids, old in zip(new_ids, self.old_nodes, strict=True):
            ids[old] = np.arange(len(old))
        self.old_edges: list[np.ndarray] = []
        self.edge_bounds: list[np.ndarray] = []
        relations = []
        for adjacency, (src, dst) in zip(g.adjacencies, g.type_graph.ends, strict=True):
            relation, old = _renumbered(adjacency, new_ids[src], self.old_nodes[dst], folder)
            relations.append(relation)
            self.old_edges.append(old)
            self.edge_bounds.append(relation.csc().indptr[self.node_bounds[dst]].astype(np.int64))
        self.ends = g.type_graph.ends
        self.graph = make_graph(g.type_graph, tuple(relations), g.node_counts)
        self.graph.numpy_idtype = g.numpy_idtype
        for i, old in enumerate(self.old_nodes):
            self.graph.node_frame_at(i)["orig_id"] = active.from_numpy(old)
        for i, old in enumerate(self.old_edges):
            self.graph.edge_frame_at(i)["orig_id"] = active.from_numpy(old)

    def halo(self, part: int, hops: int) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
        """Return the nodes of other parts within some hops, by type, and the in-edges that lead on from them."""
        none = np.empty(0, np.int64)
        nodes, edges = [none for _ in self.old_nodes], [[none] for _ in self.ends]
        frontier = [np.arange(b[part], b[part + 1]) for b in self.node_bounds]
        for hop in range(hops):
            reached: list[list[np.ndarray]] = [[none] for _ in nodes]
            for i, (src, dst) in enumerate(self.ends):
                rows, ids = self.graph.adjacencies[i].csc(), frontier[dst]
                entries = expand_ranges(rows.indptr[ids].astype(np.int64), np.diff(rows.indptr)[ids])
                if hop:
                    edges[i].append(entries)
                reached[src].append(rows.indices[entries].astype(np.int64))
            for i, pieces in enumerate(reached):
                ids = distinct(np.concatenate(pieces))
                first, last = self.node_bounds[i][part], self.node_bounds[i][part + 1]
                ids = ids[(ids < first) | (ids >= last)]
                frontier[i] = ids[~contains(nodes[i], ids)]
                nodes[i] = distinct(np.concatenate([nodes[i], frontier[i]]))
        return nodes, edges


def _bounds(parts: np.ndarray, num_parts: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=num_parts))])


def _renumbered(
    adjacency: Adjacency, new_src: np.ndarray, old_dst: np.ndarray, folder: Path
) -> tuple[Adjacency, np.ndarray]:
    """Return the relation with new ids, in which entry j of the rows is edge j, and the old id of each edge."""
    rows = adjacency.csc()
    counts, ids = np.diff(rows.indptr)[old_dst], rows.edge_ids
    indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    indices = scratch_array(adjacency.num_edges, adjacency.index_dtype, folder)
    old = scratch_array(adjacency.num_edges, np.int64, folder)
    for first, last in edges_at_a_time(indptr):
        entries = expand_ranges(rows.indptr[old_dst[first:last]].astype(np.int64), counts[first:last])
        here = slice(indptr[first], indptr[last])
        old[here] = entries if ids is None else ids[entries]
        indices[here] = new_src[rows.indices[entries]]
    counts_of = adjacency.num_src, adjacency.num_dst
    renumbered = Adjacency.from_csc(*counts_of, indptr, indices, idtype=adjacency.idtype, copy=False, validate=False)
    return renumbered, old


# -- writing -----------------------------------------------------------------------------------------------------------
def _write_part(
    g: DGLGraph, new: _Renumbered, part: int, hops: int, folder: Path, files: dict[str, str]
) -> dict[str, int]:
    """Write a part's files, and return what there is in it."""
    halo, beyond = new.halo(part, hops)
    structure: dict[str, np.ndarray] = {}
    num_cut = num_edges = num_nodes = 0
    for i, bounds in enumerate(new.node_bounds):
        first, last = bounds[part], bounds[part + 1]
        structure[f"nodes.{i}.orig_id"], structure[f"nodes.{i}.halo"] = new.old_nodes[i][first:last], halo[i]
        num_nodes += int(last - first)
    for i, (src, dst) in enumerate(new.ends):
        rows, bounds = new.graph.adjacencies[i].csc(), new.node_bounds[dst]
        first, last = new.edge_bounds[i][part], new.edge_bounds[i][part + 1]
        indices = rows.indices[first:last]
        structure[f"edges.{i}.indptr"] = rows.indptr[bounds[part] : bounds[part + 1] + 1].astype(np.int64) - first
        structure[f"edges.{i}.indices"], structure[f"edges.{i}.orig_id"] = indices, new.old_edges[i][first:last]
        ids = np.concatenate(beyond[i])
        structure[f"edges.{i}.halo"], structure[f"edges.{i}.halo_src"] = ids, rows.indices[ids].astype(np.int64)
        structure[f"edges.{i}.halo_dst"] = np.searchsorted(rows.indptr, ids, "right") - 1
        src_bounds = new.node_bounds[src]
        num_cut += int(((indices < src_bounds[part]) | (indices >= src_bounds[part + 1])).sum())
        num_edges += int(last - first)
    write_container(folder / files["structure"], KIND, {}, structure)
    names = feature_names(g)
    for kind, frames, old, bounds_of in (
        ("node", g.node_frames, new.old_nodes, new.node_bounds),
        ("edge", g.edge_frames, new.old_edges, new.edge_bounds),
    ):
        arrays: dict[str, Tensor] = {}
        for i, own_names in enumerate(names[kind]):
            ids = old[i][bounds_of[i][part] : bounds_of[i][part + 1]]
            frame = frames[i]
            for name in own_names:
                assert frame is not None
                arrays[f"{i}/{name}"] = active.take(active.detach(frame[name]), ids)
        write_container(folder / files[f"{kind}_feats"], KIND, {}, arrays)
    return {"nodes": num_nodes, "edges": num_edges, "cut": num_cut, "halo": sum(map(len, halo))}
