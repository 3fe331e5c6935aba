"""Making graphs from edges, and converting from and to SciPy and NetworkX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .backend import active
from .errors import DGLError, warn_deprecated
from .graph import DGLGraph
from .graph.attached import attach
from .graph.base import id_dtype
from .graph.storage import make_graph
from .structure import Adjacency, Metagraph
from .structure.ids import count_of
from .structure.metagraph import HOMOGENEOUS
from .structure.parse import device_of, is_networkx, is_scipy, networkx_edges, parse_edges, sorted_nodes

if TYPE_CHECKING:
    import networkx

__all__ = [
    "bipartite_from_networkx",
    "bipartite_from_scipy",
    "create_block",
    "from_networkx",
    "from_scipy",
    "graph",
    "heterograph",
    "to_networkx",
]


def graph(
    data: Any,
    ntype: str | None = None,
    etype: str | None = None,
    *,
    num_nodes: int | None = None,
    idtype: Any = None,
    device: Any = None,
    row_sorted: bool = False,
    col_sorted: bool = False,
    **classic: Any,
) -> DGLGraph:
    """Make a graph of one node type and one edge type.

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

    Raises
    ------
    DGLError
        Ids are not integers, negative or not below ``num_nodes``; dtypes or devices are mixed; lengths differ.

    Examples
    --------
    >>> g = graph(([0, 1, 2], [1, 2, 0]))
    >>> g.num_nodes(), g.num_edges()
    (3, 3)
    """
    if isinstance(data, DGLGraph):
        raise DGLError("the edges given are a DGLGraph already; use it, or g.clone()")
    if ntype is not None or etype is not None or classic:
        return _classic_graph(data, ntype or "_N", etype or "_E", num_nodes, idtype, device, classic)
    found = device_of(data)
    dtype = None if idtype is None else id_dtype(idtype)
    if num_nodes is not None:
        num_nodes = count_of(num_nodes, "num_nodes")
    adjacency = parse_edges(data, num_nodes, num_nodes, square=True, idtype=dtype)
    return make_graph(HOMOGENEOUS, (adjacency,), (adjacency.num_src,), found if device is None else device)


def _classic_graph(
    data: Any, ntype: str, etype: str, num_nodes: int | None, idtype: Any, device: Any, classic: Mapping[str, Any]
) -> DGLGraph:
    unknown = classic.keys() - {"card", "validate", "restrict_format", "index_dtype"}
    if unknown:
        raise TypeError(f"graph() got an unexpected keyword argument {min(unknown)!r}")
    warn_deprecated(
        "graph(data, ntype, etype, card=, ...)", "use dglite.heterograph({(ntype, etype, ntype): data})", stacklevel=4
    )
    count = classic.get("card") if num_nodes is None else num_nodes
    counts = None if count is None else {ntype: count}
    return heterograph({(ntype, etype, ntype): data}, counts, idtype or classic.get("index_dtype"), device)


def heterograph(
    data_dict: Mapping[tuple[str, str, str], Any],
    num_nodes_dict: Mapping[str, int] | None = None,
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """Make a graph of several node and edge types.

    Parameters
    ----------
    data_dict
        from (source type, edge type, destination type) to edges, as :func:`graph` takes them; or to a graph of one edge
        type, whose edges and numbers of nodes these are.
    num_nodes_dict
        number of nodes by type; types left out have one more than their largest id. It may name types without edges.
    idtype, device
        as for :func:`graph`.

    Raises
    ------
    DGLError
        As :func:`graph`; or a key is not three strings.

    Examples
    --------
    >>> g = heterograph({("user", "plays", "game"): ([0, 1], [0, 0])})
    >>> g.num_nodes("user"), g.num_nodes("game")
    (2, 1)
    """
    given = _counts(num_nodes_dict, "num_nodes_dict")
    relations = _relations(data_dict)
    data_dict = {etype: _edges_of(data_dict[etype], etype, given) for etype in relations}
    dtype = None if idtype is None else id_dtype(idtype)
    parsed = {
        etype: parse_edges(data_dict[etype], given.get(etype[0]), given.get(etype[2]), etype[0] == etype[2], dtype)
        for etype in relations
    }
    counts = given.copy()
    for (src, _, dst), adjacency in parsed.items():
        counts[src] = max(counts.get(src, 0), adjacency.num_src)
        counts[dst] = max(counts.get(dst, 0), adjacency.num_dst)
    ntypes = sorted(counts)
    device = _common_device([data_dict[etype] for etype in relations]) if device is None else device
    adjacencies = [parsed[etype].resized(counts[etype[0]], counts[etype[2]]) for etype in relations]
    metagraph = _metagraph(ntypes, relations)
    return make_graph(metagraph, _same_idtype(adjacencies), [counts[name] for name in ntypes], device)


def create_block(
    data_dict: Any,
    num_src_nodes: Any = None,
    num_dst_nodes: Any = None,
    idtype: Any = None,
    device: Any = None,
    node_count_check: bool = False,
) -> DGLGraph:
    """Make a block: a graph whose source and destination nodes are separate sets, as message passing on a sample needs.

    Parameters
    ----------
    data_dict
        edges as :func:`graph` takes them, for one type; or a mapping as :func:`heterograph` takes it.
    num_src_nodes, num_dst_nodes
        numbers of nodes: integers for one type, else mappings by type; one more than the largest id by default.
    node_count_check
        refuse a type with fewer source than destination nodes where both are given; destination nodes are the first
        source nodes.

    Raises
    ------
    DGLError
        As :func:`heterograph`.
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
    dtype = None if idtype is None else id_dtype(idtype)
    parsed = {
        etype: parse_edges(data_dict[etype], sources.get(etype[0]), destinations.get(etype[2]), False, dtype)
        for etype in relations
    }
    for (src, _, dst), adjacency in parsed.items():
        sources[src] = max(sources.get(src, 0), adjacency.num_src)
        destinations[dst] = max(destinations.get(dst, 0), adjacency.num_dst)
    adjacencies = [parsed[etype].resized(sources[etype[0]], destinations[etype[2]]) for etype in relations]
    device = _common_device([data_dict[etype] for etype in relations]) if device is None else device
    src_names, dst_names = sorted(sources), sorted(destinations)
    counts = [sources[name] for name in src_names] + [destinations[name] for name in dst_names]
    return make_graph(Metagraph(src_names, relations, dst_names), _same_idtype(adjacencies), counts, device)


# -- SciPy -------------------------------------------------------------------------------------------------------
def from_scipy(sp_mat: Any, eweight_name: str | None = None, idtype: Any = None, device: Any = None) -> DGLGraph:
    """Make a graph with an edge for each stored entry of a square SciPy matrix, rows to columns, in COO order.

    With ``eweight_name`` the entries become that edge feature.
    """
    _require_scipy(sp_mat)
    made = graph(sp_mat, idtype=idtype, device=device)
    if eweight_name is not None:
        made.edata[eweight_name] = active.asarray(sp_mat.tocoo().data.copy(), device=made.device)
    return made


def bipartite_from_scipy(
    sp_mat: Any,
    utype: str,
    etype: str,
    vtype: str,
    eweight_name: str | None = None,
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """Make a graph from nodes ``utype``, the rows of a SciPy matrix, to nodes ``vtype``, its columns.

    An edge stands for a stored entry; with ``eweight_name`` the entries become that edge feature.
    """
    _require_scipy(sp_mat)
    if utype == vtype:
        raise DGLError(f"rows and columns are both of type {utype!r}; use from_scipy for one node type")
    rows, cols = sp_mat.shape
    made = heterograph({(utype, etype, vtype): sp_mat}, {utype: rows, vtype: cols}, idtype, device)
    if eweight_name is not None:
        made.edata[eweight_name] = active.asarray(sp_mat.tocoo().data.copy(), device=made.device)
    return made


# -- NetworkX ----------------------------------------------------------------------------------------------------
def from_networkx(
    nx_graph: networkx.Graph,
    node_attrs: Sequence[str] | None = None,
    edge_attrs: Sequence[str] | None = None,
    edge_id_attr_name: str | None = None,
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """Make a graph of a NetworkX graph, an undirected edge giving one edge each way.

    Nodes are numbered in sorted order. ``node_attrs`` and ``edge_attrs`` become features, stacked over nodes and edges;
    ``edge_id_attr_name`` gives the ids of edges.

    Raises
    ------
    DGLError
        A node or an edge lacks an attribute, or the ids are not 0 .. num_edges - 1.
    """
    if not is_networkx(nx_graph):
        raise DGLError(f"expected a NetworkX graph, got {type(nx_graph).__name__}")
    # A copy of an undirected graph lists the neighbours of a node in the order of DGL, which relabels before.
    directed = nx_graph if nx_graph.is_directed() else nx_graph.copy().to_directed()
    count, u, v, attributes = networkx_edges(directed, edge_id_attr_name)
    made = graph((u, v), num_nodes=count, idtype=idtype, device=device)
    nodes = [directed.nodes[node] for node in sorted_nodes(directed)]
    for name in node_attrs or ():
        made.ndata[name] = _stacked(nodes, name, "node", made.device)
    for name in edge_attrs or ():
        made.edata[name] = _stacked(attributes, name, "edge", made.device)
    return made


def bipartite_from_networkx(
    nx_graph: networkx.Graph,
    utype: str,
    etype: str,
    vtype: str,
    u_attrs: Sequence[str] | None = None,
    e_attrs: Sequence[str] | None = None,
    v_attrs: Sequence[str] | None = None,
    edge_id_attr_name: str | None = None,
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """Make a graph from nodes ``utype`` to nodes ``vtype`` of a directed NetworkX graph.

    Nodes whose attribute ``bipartite`` is 0 are the first, those with 1 the second.

    Raises
    ------
    DGLError
        The graph is undirected, a node is on no side, an edge does not go from side 0 to side 1, or an attribute lacks.
    """
    if not is_networkx(nx_graph) or not nx_graph.is_directed():
        raise DGLError(
            "expected a directed NetworkX graph; edges go from nodes with bipartite=0 to those with bipartite=1"
        )
    sides: dict[int, list[Any]] = {0: [], 1: []}
    for node in sorted_nodes(nx_graph):
        side = nx_graph.nodes[node].get("bipartite")
        if side not in (0, 1):
            raise DGLError(f"node {node!r} has bipartite={side!r}; expected 0 or 1")
        sides[side].append(node)
    number = {node: i for nodes in sides.values() for i, node in enumerate(nodes)}
    for u, v in nx_graph.edges():
        if nx_graph.nodes[u]["bipartite"] != 0 or nx_graph.nodes[v]["bipartite"] != 1:
            raise DGLError(f"edge {u!r} -> {v!r} does not go from a node with bipartite=0 to one with bipartite=1")
    _, u_ids, v_ids, attributes = networkx_edges(nx_graph, edge_id_attr_name, number)
    counts = {utype: len(sides[0]), vtype: len(sides[1])}
    made = heterograph({(utype, etype, vtype): (u_ids, v_ids)}, counts, idtype, device)
    for names, ntype, nodes in ((u_attrs, utype, sides[0]), (v_attrs, vtype, sides[1])):
        for name in names or ():
            data = [nx_graph.nodes[node] for node in nodes]
            made.nodes[ntype].data[name] = _stacked(data, name, "node", made.device)
    for name in e_attrs or ():
        made.edata[name] = _stacked(attributes, name, "edge", made.device)
    return made


def to_networkx(
    g: DGLGraph,
    node_attrs: Sequence[str] | None = None,
    edge_attrs: Sequence[str] | None = None,
    ntype_attr: str = "ntype",
    etype_attr: str = "etype",
    eid_attr: str = "id",
) -> networkx.MultiDiGraph:
    """Return the graph as a NetworkX multigraph with the given features as attributes, one tensor per node or edge.

    Edges carry their id as ``eid_attr``. With several types, nodes and edges are numbered type after type; nodes
    carry their type as ``ntype_attr``, edges their canonical type as ``etype_attr``.
    """
    import networkx  # 0.1 s, which `import dglite` must not pay

    made = networkx.MultiDiGraph()
    several = not g.is_homogeneous
    names = g.ntypes
    first = np.concatenate([[0], np.cumsum(g._num_nodes)]).tolist()
    for i in range(len(names)):
        frame, count = g._node_frame(i), g._num_nodes[i]
        rows = _rows(frame, node_attrs, count, several)
        for local, attributes in enumerate(rows):
            if several:
                attributes[ntype_attr] = names[i]
            made.add_node(first[i] + local, **attributes)
    first_edge = 0
    for i, (src_set, dst_set) in enumerate(g._metagraph.ends):
        src, dst = (end.tolist() for end in g.adjacencies[i].endpoints())
        rows = _rows(g._edge_frame(i), edge_attrs, len(src), several)
        for edge, attributes in enumerate(rows):
            attributes[eid_attr] = first_edge + edge
            if several:
                attributes[etype_attr] = g.canonical_etypes[i]
            made.add_edge(first[src_set] + src[edge], first[dst_set] + dst[edge], **attributes)
        first_edge += len(src)
    return made


# -- parts -------------------------------------------------------------------------------------------------------
def _edges_of(data: Any, etype: tuple[str, str, str], counts: dict[str, int]) -> Any:
    """Return edges in a form that can be parsed; a graph's numbers of nodes are added to ``counts``."""
    if not isinstance(data, DGLGraph):
        return data
    adjacency = data.adjacency()
    counts[etype[0]] = max(counts.get(etype[0], 0), adjacency.num_src)
    counts[etype[2]] = max(counts.get(etype[2], 0), adjacency.num_dst)
    return data.edges()


def _rows(frame: Any, names: Sequence[str] | None, count: int, several: bool) -> list[dict[str, Any]]:
    """Return one dictionary of attributes per row; with several types, columns that a type lacks are left out."""
    columns = {name: frame[name] for name in names or () if not several or name in frame}
    return [{name: column[i] for name, column in columns.items()} for i in range(count)]


def _stacked(rows: Sequence[Mapping[str, Any]], name: str, what: str, device: Any) -> Any:
    missing = [i for i, row in enumerate(rows) if name not in row]
    if missing:
        raise DGLError(f"{len(missing)} of {len(rows)} {what}s have no attribute {name!r}, {what} {missing[0]} first")
    values: Any = [row[name] for row in rows]
    if values and active.is_tensor(values[0]):
        return active.stack(values)
    if values and isinstance(values[0], np.ndarray | np.generic):
        values = np.asarray(values)  # faster than one value after another, and of their dtype
    return active.asarray(values, device=device)


def _require_scipy(matrix: Any) -> None:
    if not is_scipy(matrix):
        raise DGLError(f"expected a SciPy sparse matrix, got {type(matrix).__name__}")


def _counts(by_type: Any, what: str) -> dict[str, int]:
    """Return numbers of nodes by type, checked; a new dictionary."""
    if not isinstance(by_type, Mapping | None):
        raise DGLError(f"{what} must be a dictionary from node type to number of nodes, got {by_type!r:.60}")
    return {ntype: count_of(count, f"{what}[{ntype!r}]") for ntype, count in (by_type or {}).items()}


def _by_type(count: Any) -> Mapping[str, int]:
    return count if isinstance(count, Mapping) else {"_N": count}


def _relations(data_dict: Any) -> list[tuple[str, str, str]]:
    if not isinstance(data_dict, Mapping):
        raise DGLError(
            "expected a dictionary from (source type, edge type, destination type) to edges, "
            f"got {type(data_dict).__name__}"
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
    found = {str(device): device for device in map(device_of, parts) if device is not None}
    if len(found) > 1:
        raise DGLError(f"edges are given on several devices, {sorted(found)}; move the tensors to one device")
    return next(iter(found.values()), None)


def _same_idtype(adjacencies: list[Adjacency]) -> tuple[Adjacency, ...]:
    dtypes = {adjacency.idtype for adjacency in adjacencies if adjacency.num_edges}
    if len(dtypes) > 1:
        raise DGLError("edge types have ids of int32 and of int64; give all of them the same dtype, or pass idtype")
    wanted = dtypes.pop() if dtypes else (adjacencies[0].idtype if adjacencies else None)
    return tuple(adjacency.as_idtype(wanted) for adjacency in adjacencies)


attach(to_networkx=to_networkx)
