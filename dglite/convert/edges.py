"""Graphs from edges: of one type, of several, and blocks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..arguments import explained, unexpected
from ..errors import DGLError, warn_deprecated
from ..graph import DGLGraph
from ..graph.base import id_dtype
from ..graph.storage import make_graph
from ..structure import Adjacency, Metagraph
from ..structure.ids import count_of
from ..structure.metagraph import HOMOGENEOUS
from ..structure.parse import device_of, parse_edges


def graph(
    data: Any,
    ntype: str | None = None,
    etype: str | None = None,
    num_nodes: int | None = None,
    *,
    idtype: Any = None,
    device: Any = None,
    row_sorted: bool = False,
    col_sorted: bool = False,
    **classic: Any,
) -> DGLGraph:
    """Make a graph of one node type and one edge type.

    Raises DGLError: ids are not integers, negative or not below ``num_nodes``; dtypes or devices are mixed; lengths
    differ.

    Parameters
    ----------
    data
        the edges: a pair ``(u, v)`` of id tensors, lists or arrays, edge i going from ``u[i]`` to ``v[i]``;
        ``("coo", (u, v))``; ``("csr", (indptr, indices, edge_ids))`` or ``("csc", ...)``, where empty edge ids mean
        0, 1, 2, ...; a list of pairs; a square SciPy matrix; or a NetworkX graph.
    num_nodes
        number of nodes; one more than the largest id by default.
    idtype
        int32 or int64, the dtype of the ids that the graph returns; that of the tensors by default, else int64.
    device
        where the graph says that it is, and where its features must be; that of the tensors by default.
    row_sorted, col_sorted
        accepted for DGL's sake; whether edges are sorted is seen when they are converted.
    ntype, etype, **classic
        classic: names of the types; ``card`` for ``num_nodes``; ``validate`` and ``restrict_format`` change nothing.

    Examples
    --------
    >>> g = graph(([0, 1, 2], [1, 2, 0]))
    >>> g.num_nodes(), g.num_edges()
    (3, 3)
    """
    if isinstance(data, DGLGraph):
        raise DGLError("the edges given are a DGLGraph already; use it, or g.clone()")
    if ntype is not None and not isinstance(ntype, str):
        hint = f"num_nodes={ntype}" if isinstance(ntype, int) else "sources and destinations as one pair, graph((u, v))"
        raise DGLError(
            f"the second argument of graph() is the node type, a string, got {type(ntype).__name__}; give {hint}"
        )
    if ntype is not None or etype is not None or classic:
        return _classic_graph(data, ntype or "_N", etype or "_E", num_nodes, idtype, device, classic)
    data_device = device_of(data)
    dtype = None if idtype is None else id_dtype(idtype)
    if num_nodes is not None:
        num_nodes = count_of(num_nodes, "num_nodes")
    adjacency = parse_edges(data, num_nodes, num_nodes, square=True, idtype=dtype)
    return make_graph(HOMOGENEOUS, (adjacency,), (adjacency.num_src,), data_device if device is None else device)


def _classic_graph(
    data: Any, ntype: str, etype: str, num_nodes: int | None, idtype: Any, device: Any, classic: Mapping[str, Any]
) -> DGLGraph:
    unknown = classic.keys() - {"card", "validate", "restrict_format", "index_dtype"}
    if unknown:
        raise unexpected("graph", min(unknown), inspect.signature(graph).parameters)
    warn_deprecated("graph(data, ntype, etype, card=, ...)", "use dglite.heterograph({(ntype, etype, ntype): data})")
    count = classic.get("card") if num_nodes is None else num_nodes
    counts = None if count is None else {ntype: count}
    return heterograph({(ntype, etype, ntype): data}, counts, idtype or classic.get("index_dtype"), device)


@explained
def heterograph(
    data_dict: Mapping[tuple[str, str, str], Any],
    num_nodes_dict: Mapping[str, int] | None = None,
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """Make a graph of several node and edge types.

    Raises DGLError as :func:`graph`; or a key is not three strings.

    Parameters
    ----------
    data_dict
        from (source type, edge type, destination type) to edges, as :func:`graph` takes them; or to a graph of one edge
        type, whose edges and numbers of nodes these are.
    num_nodes_dict
        number of nodes by type; types left out have one more than their largest id. It may name types without edges.
    idtype, device
        as for :func:`graph`.

    Examples
    --------
    >>> g = heterograph({("user", "plays", "game"): ([0, 1], [0, 0])})
    >>> g.num_nodes("user"), g.num_nodes("game")
    (2, 1)
    """
    counts = _counts(num_nodes_dict, "num_nodes_dict")
    relations = _relations(data_dict)
    edges = {etype: _edges_of(data_dict[etype], etype, counts) for etype in relations}
    adjacencies, device = _parsed(edges, counts, counts, idtype, device)
    ntypes = sorted(counts)
    return make_graph(_metagraph(ntypes, relations), adjacencies, [counts[name] for name in ntypes], device)


@explained
def create_block(
    data_dict: Any,
    num_src_nodes: Any = None,
    num_dst_nodes: Any = None,
    idtype: Any = None,
    device: Any = None,
    node_count_check: bool = False,
) -> DGLGraph:
    """Make a block: a graph whose source and destination nodes are separate sets, as message passing on a sample needs.

    Raises DGLError as :func:`heterograph`.

    Parameters
    ----------
    data_dict
        edges as :func:`graph` takes them, for one type; or a mapping as :func:`heterograph` takes it.
    num_src_nodes, num_dst_nodes
        numbers of nodes: integers for one type, else mappings by type; one more than the largest id by default.
    node_count_check
        refuse a type with fewer source than destination nodes where both are given; destination nodes are the first
        source nodes.
    """
    if not isinstance(data_dict, Mapping):
        data_dict = {("_N", "_E", "_N"): data_dict}
        num_src_nodes = None if num_src_nodes is None else _by_type(num_src_nodes)
        num_dst_nodes = None if num_dst_nodes is None else _by_type(num_dst_nodes)
    sources, destinations = _counts(num_src_nodes, "num_src_nodes"), _counts(num_dst_nodes, "num_dst_nodes")
    if node_count_check:
        for name in sources.keys() & destinations.keys():
            if sources[name] < destinations[name]:
                raise DGLError(
                    f"{sources[name]} source nodes of type {name!r} are fewer than its {destinations[name]} "
                    "destination nodes, which come first among them; drop node_count_check if that is meant"
                )
    relations = _relations(data_dict)
    edges = {etype: data_dict[etype] for etype in relations}
    adjacencies, device = _parsed(edges, sources, destinations, idtype, device)
    src_names, dst_names = sorted(sources), sorted(destinations)
    counts = [sources[name] for name in src_names] + [destinations[name] for name in dst_names]
    return make_graph(Metagraph(src_names, relations, dst_names), adjacencies, counts, device)


# -- parts -------------------------------------------------------------------------------------------------------------
def _edges_of(data: Any, etype: tuple[str, str, str], counts: dict[str, int]) -> Any:
    """Return edges in a form that can be parsed; a graph's numbers of nodes are added to ``counts``."""
    if not isinstance(data, DGLGraph):
        return data
    adjacency = data.adjacency()
    counts[etype[0]] = max(counts.get(etype[0], 0), adjacency.num_src)
    counts[etype[2]] = max(counts.get(etype[2], 0), adjacency.num_dst)
    return data.edges()


def _parsed(
    edges: dict[tuple[str, str, str], Any],
    sources: dict[str, int],
    destinations: dict[str, int],
    idtype: Any,
    device: Any,
) -> tuple[tuple[Adjacency, ...], Any]:
    """Return a relation for each edge type, and ``device``, by default the device of all edges.

    What is missing in the numbers of nodes, one dictionary for both ends unless the graph is a block, is added to them.
    """
    dtype, square = None if idtype is None else id_dtype(idtype), sources is destinations
    parsed = {}
    for (src, etype, dst), data in edges.items():
        try:
            adjacency = parse_edges(data, sources.get(src), destinations.get(dst), square and src == dst, dtype)
        except DGLError as error:
            raise DGLError(f"edges of type {(src, etype, dst)}: {error}") from None
        parsed[src, etype, dst] = adjacency
    for (src, _, dst), adjacency in parsed.items():
        sources[src] = max(sources.get(src, 0), adjacency.num_src)
        destinations[dst] = max(destinations.get(dst, 0), adjacency.num_dst)
    if device is None:
        device = _common_device(list(edges.values()))
    resized = [adjacency.resized(sources[src], destinations[dst]) for (src, _, dst), adjacency in parsed.items()]
    return _same_idtype(resized), device


def _counts(by_type: Any, argument: str) -> dict[str, int]:
    """Return numbers of nodes by type, checked; a new dictionary."""
    if not isinstance(by_type, Mapping | None):
        raise DGLError(f"{argument} must be a dictionary from node type to number of nodes, got {by_type!r:.60}")
    return {ntype: count_of(count, f"{argument}[{ntype!r}]") for ntype, count in (by_type or {}).items()}


def _by_type(count: Any) -> Mapping[str, int]:
    return count if isinstance(count, Mapping) else {"_N": count}


def _relations(data_dict: Any) -> list[tuple[str, str, str]]:
    if not isinstance(data_dict, Mapping):
        raise DGLError(
            "expected a dictionary from (source type, edge type, destination type) to edges, "
            f"got {type(data_dict).__name__}; a graph of one type is dglite.graph((u, v))"
        )
    for etype in data_dict:
        if not isinstance(etype, tuple) or len(etype) != 3 or not all(isinstance(name, str) for name in etype):
            raise DGLError(f"an edge type is three strings (source type, edge type, destination type), got {etype!r}")
    return sorted(data_dict)


def _metagraph(ntypes: list[str], relations: list[tuple[str, str, str]]) -> Metagraph:
    if relations == list(HOMOGENEOUS.canonical_etypes) and ntypes == list(HOMOGENEOUS.ntypes):
        return HOMOGENEOUS
    return Metagraph(ntypes, relations)


def _common_device(parts: list[Any]) -> Any:
    devices = {str(device): device for device in map(device_of, parts) if device is not None}
    if len(devices) > 1:
        raise DGLError(f"edges are given on several devices, {sorted(devices)}; move the tensors to one device")
    return next(iter(devices.values()), None)


def _same_idtype(adjacencies: list[Adjacency]) -> tuple[Adjacency, ...]:
    dtypes = {adjacency.idtype for adjacency in adjacencies if adjacency.num_edges}
    if len(dtypes) > 1:
        raise DGLError("edge types have ids of int32 and of int64; give all of them the same dtype, or pass idtype")
    idtype = dtypes.pop() if dtypes else (adjacencies[0].idtype if adjacencies else None)
    return tuple(adjacency.as_idtype(idtype) for adjacency in adjacencies)
