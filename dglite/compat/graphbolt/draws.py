"""Sampling of one layer on a graph of GraphBolt, by dglite's samplers: of all types together, of each type, by time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ...convert import heterograph
from ...frame import EID, NID
from ...graph import DGLGraph
from ...sampling import sample_labors, sample_neighbors, sample_neighbors_fused
from ...transforms import to_block
from .base import ORIGINAL_EDGE_ID, CSCFormatBase, expand_indptr, indptr_edge_ids
from .errors import InputError
from .subgraph import SampledSubgraphImpl, subgraph_of

Draw = Callable[..., DGLGraph]
"""Draws edges of a graph around nodes by a fan-out: as a block, or ``in_place`` as the graph with fewer edges."""


def neighbors(prob: str | None, replace: bool) -> Draw:
    """Return what draws with equal probability, or by weights."""

    def draw(g: DGLGraph, nodes: Any, fanout: Any, in_place: bool = False) -> DGLGraph:
        if in_place:
            return sample_neighbors(g, nodes, fanout, prob=prob, replace=replace, copy_ndata=False)
        return sample_neighbors_fused(g, nodes, fanout, prob=prob, replace=replace)

    return draw


def layer_neighbors(prob: str | None, random_seed: torch.Tensor | None, seed2_contribution: float) -> Draw:
    """Return what draws so that seeds share sources."""
    options: dict[str, Any] = {"random_seed": None if random_seed is None else random_seed.tolist()}

    def draw(g: DGLGraph, nodes: Any, fanout: Any, in_place: bool = False) -> DGLGraph:
        sample, _ = sample_labors(g, nodes, fanout, prob=prob, seed2_contribution=seed2_contribution, **options)
        if in_place:
            return sample
        block = to_block(sample, nodes)
        for etype in g.canonical_etypes:
            block.edges[etype].data[EID] = sample.edges[etype].data[EID]
        return block

    return draw


# -- arguments ---------------------------------------------------------------------------------------------------------
def listed_fanouts(graph: Any, fanouts: Sequence[Any]) -> list[list[int]]:
    """Return each layer's fan-outs: a list of one, or of one for each edge type in the order of their numbers.

    Raises
    ------
    DGLError
        A layer has another number of them, or one is below -1 or no integer.
    """
    etypes, listed = graph.edge_type_to_id, []
    count = 1 if etypes is None else len(etypes)
    for fanout in fanouts:
        numbers = np.atleast_1d(np.asarray(fanout))
        if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or (numbers < -1).any():
            raise InputError(f"fan-outs must be integers >= -1, got {fanout!r:.80}")
        if len(numbers) not in (1, count):
            raise InputError(f"fan-outs {numbers.tolist()} are for {len(numbers)} edge types; the graph has {count}")
        listed.append(numbers.tolist())
    return listed


def fanout_by_type(graph: Any, listed: list[int]) -> Any:
    """Return a layer's fan-out as samplers of the DGLGraph take it; for several types not one for all."""
    etypes = graph.edge_type_to_id
    if etypes is None:
        return listed[0]
    numbers = listed * len(etypes) if len(listed) == 1 else listed
    return {tuple(etype.split(":")): numbers[i] for etype, i in etypes.items()}


def in_one(graph: Any, fanouts: list[list[int]]) -> bool:
    """Whether fan-outs of several types are for all types together, so that the merged graph is sampled."""
    return graph.typed and any(len(x) == 1 and x[0] != -1 for x in fanouts)


def check_seeds(graph: Any, seeds: Any) -> None:
    """Raise :class:`DGLError` unless seeds are a tensor, or a dictionary of tensors where there are several types."""
    if graph.typed != isinstance(seeds, Mapping):
        expected = "a dictionary of tensors by node type" if graph.typed else "a tensor of node ids"
        types = "several types" if graph.typed else "one type"
        raise InputError(f"seeds must be {expected}, as the graph has {types}; got {type(seeds).__name__}")
    for ids in seeds.values() if isinstance(seeds, Mapping) else [seeds]:
        if not torch.is_tensor(ids) or ids.ndim != 1:
            shape = tuple(ids.shape) if torch.is_tensor(ids) else type(ids).__name__
            raise InputError(f"seeds must be of one dimension, got {shape}")


def numbered(graph: Any, seeds: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return seeds by type in the numbering of all types, types in their order."""
    first = graph.columns.first_nodes()
    if unknown := set(seeds) - set(first):
        raise InputError(f"seeds are of node types {sorted(unknown)}; the graph has {list(first)}")
    for ntype, (start, end) in first.items():
        ids = seeds.get(ntype)
        if ids is not None and len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < end - start:
            raise InputError(f"seeds of type {ntype!r} are {ids.min()} to {ids.max()}; there are {end - start} nodes")
    dtype = graph.columns.indices.dtype
    parts = [seeds[ntype].to(dtype) + start for ntype, (start, _) in first.items() if ntype in seeds]
    return torch.cat(parts) if parts else torch.empty(0, dtype=dtype)


# -- one layer ---------------------------------------------------------------------------------------------------------
def sample_layer(graph: Any, draw: Draw, seeds: Any, fanouts: Any) -> SampledSubgraphImpl:
    """Return in-edges of the seeds, from sources with their ids in the graph."""
    check_seeds(graph, seeds)
    (listed,) = listed_fanouts(graph, [fanouts])
    if in_one(graph, [listed]):
        return _with_source_ids(split(graph, draw(graph.merged, numbered(graph, seeds), listed[0])))
    block = graph.name_edges(draw(graph.g, seeds, fanout_by_type(graph, listed)))
    return _with_source_ids(subgraph_of(block, graph.typed, graph.has_original_edge_ids))


def _with_source_ids(subgraph: SampledSubgraphImpl) -> SampledSubgraphImpl:
    rows, csc = subgraph.original_row_node_ids, subgraph.sampled_csc
    if not isinstance(csc, Mapping):
        subgraph.sampled_csc = CSCFormatBase(csc.indptr, rows[csc.indices.long()])
    else:
        ids = {etype: rows[etype.split(":")[0]] for etype in csc}
        subgraph.sampled_csc = {k: CSCFormatBase(x.indptr, ids[k][x.indices.long()]) for k, x in csc.items()}
    subgraph.original_row_node_ids = None
    return subgraph


# -- all types in one numbering ----------------------------------------------------------------------------------------
def split(graph: Any, block: DGLGraph) -> SampledSubgraphImpl:
    """Return a block of the merged graph as a sampled subgraph of all types."""
    indptr, indices, order = block.adj_tensors("csc")
    places: Any = block.edata[EID]
    places = places[order.long()] if len(order) else places
    return _split_edges(graph, block.srcdata[NID], block.dstdata[NID], indptr, indices, places)


def _split_edges(
    graph: Any, rows: torch.Tensor, columns: torch.Tensor, indptr: torch.Tensor, indices: torch.Tensor, places: Any
) -> SampledSubgraphImpl:
    """Return edges by destination, between nodes in the numbering of all types, by type.

    ``rows`` and ``columns`` are the nodes that edges are between; ``places`` the edges' places in the columns.
    """
    device, number_type = rows.device, _numpy(graph.columns.indices).dtype
    bounds, sources, places = (_numpy(x) for x in (indptr, indices, places))
    kinds, local = _numpy(graph.columns.type_per_edge)[places], _numpy(_ids_in_types(graph))
    row_ids, row_places, _ = _by_type(graph, _numpy(rows), number_type)
    column_ids, _, of_type = _by_type(graph, _numpy(columns), number_type)
    original = graph.edge_attributes[ORIGINAL_EDGE_ID] if graph.has_original_edge_ids else None
    csc, edge_ids, original_ids = {}, {}, {}
    for etype, number in graph.edge_type_to_id.items():
        picked = np.flatnonzero(kinds == number)
        counts = np.diff(np.searchsorted(picked, bounds))[of_type[etype.split(":")[2]]]
        ends = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])).to(device)
        csc[etype] = CSCFormatBase(ends, torch.from_numpy(row_places[sources[picked]].astype(number_type)).to(device))
        own_places = places[picked]
        edge_ids[etype] = torch.from_numpy(local[own_places].astype(number_type)).to(device)
        if original is not None:
            original_ids[etype] = original[torch.from_numpy(own_places).to(original.device)]
    nodes = [{ntype: torch.from_numpy(ids).to(device) for ntype, ids in x.items()} for x in (column_ids, row_ids)]
    return SampledSubgraphImpl(csc, nodes[0], nodes[1], original_ids or None, edge_ids)


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.cpu().numpy()


def bounds_of(destinations: torch.Tensor, count: int) -> torch.Tensor:
    """Return where each destination's edges begin, of edges that are ordered by destination: int64 (count + 1,)."""
    bounds = torch.zeros(count + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(destinations, minlength=count), 0, out=bounds[1:])
    return bounds


def _by_type(graph: Any, nodes: np.ndarray, dtype: Any) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, Any]]:
    """Return ids by type, each node's place among its type's, and by type the positions of its nodes."""
    places, ids, positions = np.empty(len(nodes), np.int64), {}, {}
    for ntype, (start, end) in graph.columns.first_nodes().items():
        positions[ntype] = of_type = np.flatnonzero((nodes >= start) & (nodes < end))
        ids[ntype] = (nodes[of_type] - start).astype(dtype)
        places[of_type] = np.arange(len(of_type))
    return ids, places, positions


def _ids_in_types(graph: Any) -> torch.Tensor:
    """Return the id of each entry of the columns among the edges of its type in the DGLGraph."""
    columns = graph.columns
    if columns.edge_ids is None:
        ids = torch.empty(len(columns.indices), dtype=torch.int64)
        for etype in graph.edge_type_to_id:
            places = columns.places(etype)
            ids[places] = torch.arange(len(places))
        graph._columns = columns = columns._replace(edge_ids=ids)
    return columns.edge_ids  # type: ignore[no-any-return]


# -- by time -----------------------------------------------------------------------------------------------------------
def sample_earlier(
    graph: Any, draw: Draw, seeds: Any, times: tuple[Any, Any], fanouts: Any, names: tuple[str | None, ...]
) -> SampledSubgraphImpl:
    """Return in-edges of the seeds that are earlier than the seeds.

    Parameters
    ----------
    times
        of the seeds, and how long before an edge may be at most, or None.
    names
        of edge attributes with weights, node attributes with times, and edge attributes with times, or None.
    """
    check_seeds(graph, seeds)
    (listed,) = listed_fanouts(graph, [fanouts])
    columns, (probs, *timed) = graph.columns, names
    nodes = numbered(graph, seeds).long() if graph.typed else seeds.long()
    stamps, windows = (_in_order(graph, seeds, x) for x in times)
    first = columns.indptr[nodes].long()
    bounds = torch.zeros(len(nodes) + 1, dtype=torch.int64)
    torch.cumsum(columns.indptr[nodes + 1] - first, 0, out=bounds[1:])
    near, places = expand_indptr(bounds, torch.int64), indptr_edge_ids(bounds, torch.int64, first)
    keep = torch.ones(len(places), dtype=torch.bool)
    for name, attributes, ids in zip(
        timed, (graph.node_attributes, graph.edge_attributes), (columns.indices[places].long(), places), strict=True
    ):
        if name is not None:
            values = _attribute(attributes, name)[ids]
            assert stamps is not None
            keep &= values < stamps[near]
            if windows is not None:
                keep &= values >= (stamps - windows)[near]
    places, near = places[keep], near[keep]
    weights = None if probs is None else {probs: _attribute(graph.edge_attributes, probs)[places]}
    positions = _drawn_edges(graph, draw, places, near, len(nodes), listed, weights or {})
    places, indptr = places[positions], bounds_of(near[positions], len(nodes))
    sources = columns.indices[places]
    if graph.typed:
        return _with_source_ids(_split_edges(graph, sources, nodes, indptr, torch.arange(len(sources)), places))
    edge_ids = places if columns.edge_ids is None else columns.edge_ids[places]
    original = graph.edge_attributes[ORIGINAL_EDGE_ID][places] if graph.has_original_edge_ids else None
    return SampledSubgraphImpl(CSCFormatBase(indptr, sources), seeds, None, original, edge_ids)


def _drawn_edges(
    graph: Any,
    draw: Draw,
    places: torch.Tensor,
    near: torch.Tensor,
    count: int,
    listed: list[int],
    weights: dict[str, torch.Tensor],
) -> torch.Tensor:
    """Return which of the edges at ``places``, to seeds ``near``, are drawn: by edge type if fan-outs are."""
    picked = []
    for number, fanout in enumerate(listed):
        ids = torch.arange(len(places))
        if len(listed) > 1:
            ids = (graph.columns.type_per_edge[places] == number).nonzero().flatten()
        sizes = {"source": graph.total_num_nodes, "seed": count}
        edges = graph.columns.indices[places[ids]].long(), near[ids]
        candidates = heterograph({("source", "edge", "seed"): edges}, sizes)
        candidates.edata.update({name: x[ids] for name, x in weights.items()})
        picked.append(ids[draw(candidates, {"seed": torch.arange(count)}, fanout, True).edata[EID].long()])
    return torch.cat(picked).sort().values


def _in_order(graph: Any, seeds: Any, values: Any) -> torch.Tensor | None:
    """Return a value of each seed in the order in which seeds are numbered."""
    if values is None:
        return None
    if not graph.typed:
        seeds, values = {None: seeds}, {None: values}
    for key, ids in seeds.items():
        if key not in values or len(values[key]) != len(ids):
            suffix = "" if key is None else f" of type {key!r}"
            raise InputError(f"there are {len(ids)} seeds{suffix}; give a time for each")
    return torch.cat([values[ntype] for ntype in (graph.node_type_to_id or [None]) if ntype in seeds])


def _attribute(attributes: Any, name: str) -> torch.Tensor:
    if name not in (attributes or {}):
        raise InputError(f"the graph has no attribute {name!r}; it has {sorted(attributes or {})}")
    return attributes[name]  # type: ignore[no-any-return]
