"""Subgraphs of node types and edge types, which share features with the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arguments import explained
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.scope import set_state
from ..graph.storage import make_graph, require_graph
from .parts import refuse_block


@explained
def node_type_subgraph(graph: DGLGraph, ntypes: Sequence[str], output_device: Any = None) -> DGLGraph:
    """Return all nodes of the given types and all edges between them.

    Features are shared: one that is set on either graph is seen by the other, until nodes or edges are added or
    removed.

    Raises DGLError: a type does not exist, no edge type joins the given types, or the graph is a block.
    """
    refuse_block(graph, "node_type_subgraph")
    node_sets = {graph.type_graph.node_set(name) for name in ((ntypes,) if isinstance(ntypes, str) else ntypes)}
    etype_ids = [i for i, (src, dst) in enumerate(graph.type_graph.ends) if src in node_sets and dst in node_sets]
    if not etype_ids:
        raise DGLError(f"node_type_subgraph: no edge type joins node types {list(ntypes)}; add the types of its ends")
    return _of_types(graph, etype_ids, output_device)


@explained
def edge_type_subgraph(graph: DGLGraph, etypes: Sequence[Any], output_device: Any = None) -> DGLGraph:
    """Return all edges of the given types, in that order, and all nodes of the types that they join.

    Features are shared: one that is set on either graph is seen by the other, until nodes or edges are added or
    removed.

    Raises DGLError: a type does not exist, or its bare name is shared by several relations.
    """
    require_graph(graph)
    etype_ids = list(
        dict.fromkeys(graph.etype_id(etype) for etype in ((etypes,) if isinstance(etypes, str) else etypes))
    )
    if not etype_ids:
        raise DGLError("edge_type_subgraph: the list of edge types is empty; give at least one")
    return _of_types(graph, etype_ids, output_device)


def _of_types(graph: DGLGraph, etype_ids: list[int], output_device: Any) -> DGLGraph:
    metagraph, _ = graph.type_graph.slice(etype_ids)
    if not metagraph.is_block:
        # In the order of the graph, so that type numbers ascend as they did.
        names = [name for name in graph.ntypes if name in metagraph.ntypes]
        metagraph = type(metagraph)(names, metagraph.canonical_etypes)
        sets = [graph.type_graph.node_set(name) for name in names]
    else:
        sets = graph.type_graph.slice(etype_ids)[1]
    part = make_graph(
        metagraph, tuple(graph.adjacencies[i] for i in etype_ids), [graph.node_counts[i] for i in sets], like=graph
    )
    node_frames = [graph.node_frame_at(i) for i in sets]
    set_state(part, node_frames=node_frames, edge_frames=[graph.edge_frame_at(i) for i in etype_ids])
    return part if output_device is None else part.to(output_device)
