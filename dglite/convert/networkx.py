"""Graphs from and to NetworkX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import explained
from ..backend import active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.attached import attach
from ..graph.storage import require_graph
from ..progress import progress
from ..structure.parse import is_networkx, networkx_edges, sorted_nodes
from .edges import graph, heterograph

if TYPE_CHECKING:
    import networkx


@explained
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

    Raises DGLError: a node or an edge lacks an attribute, or the ids are not 0 .. num_edges - 1.
    """
    if not is_networkx(nx_graph):
        raise DGLError(f"expected a NetworkX graph, got {type(nx_graph).__name__}")
    # A copy of an undirected graph lists the neighbours of a node in the order of DGL, which relabels before.
    directed = nx_graph if nx_graph.is_directed() else nx_graph.copy().to_directed()
    count, u, v, attributes = networkx_edges(directed, edge_id_attr_name)
    g = graph((u, v), num_nodes=count, idtype=idtype, device=device)
    nodes = [directed.nodes[node] for node in sorted_nodes(directed)]
    for name in node_attrs or ():
        g.ndata[name] = _stacked(nodes, name, "node", g.device)
    for name in edge_attrs or ():
        g.edata[name] = _stacked(attributes, name, "edge", g.device)
    return g


@explained
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

    Raises DGLError: the graph is undirected, a node is on no side, an edge does not go from side 0 to side 1, or an
    attribute lacks.
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
    g = heterograph({(utype, etype, vtype): (u_ids, v_ids)}, counts, idtype, device)
    for names, ntype, nodes in ((u_attrs, utype, sides[0]), (v_attrs, vtype, sides[1])):
        for name in names or ():
            data = [nx_graph.nodes[node] for node in nodes]
            g.nodes[ntype].data[name] = _stacked(data, name, "node", g.device)
    for name in e_attrs or ():
        g.edata[name] = _stacked(attributes, name, "edge", g.device)
    return g


@explained
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
    require_graph(g)
    import networkx  # 0.1 s, which `import dglite` must not pay

    result = networkx.MultiDiGraph()
    several = not g.is_homogeneous
    names = g.ntypes
    first = np.concatenate([[0], np.cumsum(g.node_counts)]).tolist()
    for i in range(len(names)):
        frame, count = g.node_frame_at(i), g.node_counts[i]
        rows = _rows(frame, node_attrs, count, several)
        for local, attributes in enumerate(progress(rows, "nodes for NetworkX", "node")):
            if several:
                attributes[ntype_attr] = names[i]
            result.add_node(first[i] + local, **attributes)
    first_edge = 0
    for i, (src_set, dst_set) in enumerate(g.type_graph.ends):
        src, dst = (end.tolist() for end in g.adjacencies[i].endpoints())
        rows = _rows(g.edge_frame_at(i), edge_attrs, len(src), several)
        for edge, attributes in enumerate(progress(rows, "edges for NetworkX", "edge")):
            attributes[eid_attr] = first_edge + edge
            if several:
                attributes[etype_attr] = g.canonical_etypes[i]
            result.add_edge(first[src_set] + src[edge], first[dst_set] + dst[edge], **attributes)
        first_edge += len(src)
    return result


def _rows(frame: Any, names: Sequence[str] | None, count: int, several: bool) -> list[dict[str, Any]]:
    """Return one dictionary of attributes per row; with several types, columns that a type lacks are left out."""
    if isinstance(names, str):
        raise DGLError(f"attributes are a list of features' names, got {names!r:.60}; write [{names!r:.60}]")
    columns = {name: frame[name] for name in names or () if not several or name in frame}
    return [{name: column[i] for name, column in columns.items()} for i in range(count)]


def _stacked(rows: Sequence[Mapping[str, Any]], name: str, kind: str, device: Any) -> Any:
    missing = [i for i, row in enumerate(rows) if name not in row]
    if missing:
        raise DGLError(f"{len(missing)} of {len(rows)} {kind}s have no attribute {name!r}, {kind} {missing[0]} first")
    values: Any = [row[name] for row in rows]
    if values and active.is_tensor(values[0]):
        return active.stack(values)
    if values and isinstance(values[0], np.ndarray | np.generic):
        values = np.asarray(values)  # faster than one value after another, and of their dtype
    try:
        return active.asarray(values, device=device)
    except (TypeError, ValueError) as error:
        example = next((value for value in values if isinstance(value, str)), values[0])
        raise DGLError(
            f"attribute {name!r} of the {kind}s has values such as {example!r:.40}, which are no numbers; number them "
            "first, by names, numbers = numpy.unique(values, return_inverse=True)"
        ) from error


attach(to_networkx=to_networkx)
