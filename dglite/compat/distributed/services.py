"""Functions of ``dgl.distributed`` that read a graph's structure, and helpers of its partition book."""

from __future__ import annotations

from typing import Any

from ...backend import Tensor
from ...distributed import load_partition_book
from ...graph import DGLGraph
from .loaders import drawn_types, of_types


def sample_neighbors(
    g: Any,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    replace: bool = False,
    use_graphbolt: bool = False,
) -> DGLGraph:
    """Return the graph of edges drawn around nodes, without features; ``prob`` is a feature of ``g.topology``.

    It has the edge types of which edges were drawn, as DGL's.
    """
    graph = g.sample_neighbors(nodes, fanout, edge_dir=edge_dir, prob=prob, replace=replace)
    return of_types(graph, drawn_types(graph))


def sample_etype_neighbors(
    g: Any,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    replace: bool = False,
    etype_sorted: bool = True,
    use_graphbolt: bool = False,
) -> DGLGraph:
    """Return the graph of edges drawn around nodes by type; ``fanout`` may be a number for each edge type."""
    return sample_neighbors(g, nodes, fanout, edge_dir, prob, replace)


def in_subgraph(g: Any, nodes: Any) -> DGLGraph:
    """Return the graph of the in-edges of nodes, without features."""
    graph: DGLGraph = g.in_subgraph(nodes)
    return graph


def find_edges(g: Any, edge_ids: Any) -> tuple[Tensor, Tensor]:
    """Return the ends of edges, of a dictionary with one edge type or of the only type."""
    etype, ids = next(iter(edge_ids.items())) if isinstance(edge_ids, dict) else (None, edge_ids)
    src, dst = g.find_edges(ids, etype)
    return src, dst


def in_degrees(g: Any, v: Any) -> Tensor:
    """Return the in-degrees of nodes."""
    degrees: Tensor = g.in_degrees(v)
    return degrees


def out_degrees(g: Any, u: Any) -> Tensor:
    """Return the out-degrees of nodes."""
    degrees: Tensor = g.out_degrees(u)
    return degrees


def dgl_partition_to_graphbolt(part_config: Any, **ignored: Any) -> None:
    """Check that the partition can be read: any sampler reads it, so there is nothing to convert."""
    load_partition_book(part_config, 0)


def _etype_tuple_to_str(c_etype: tuple[str, str, str]) -> str:
    """Return an edge type as text, ``"source:name:destination"``."""
    return ":".join(c_etype)


def _etype_str_to_tuple(c_etype: str) -> tuple[str, ...]:
    """Return an edge type of :func:`_etype_tuple_to_str` as a tuple."""
    return tuple(c_etype.split(":"))
