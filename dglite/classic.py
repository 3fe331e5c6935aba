"""Functions of DGL 0.4 to 0.9, built on today's; each gives a ``DeprecationWarning`` with the new name.

Classic methods of graphs are in ``graph/deprecated.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .batch import batch, unbatch
from .convert import from_networkx, from_scipy, heterograph
from .errors import DGLError, warn_deprecated
from .frame import Frame
from .graph import DGLGraph
from .graph.attached import attach
from .graph.deprecated import DeprecatedMixin
from .structure import ALL, Metagraph
from .transforms import to_bidirected, to_heterogeneous, to_homogeneous

__all__ = [
    "BatchedDGLGraph",
    "BatchedHeteroDGLGraph",
    "DGLHeteroGraph",
    "as_heterograph",
    "as_immutable_graph",
    "batch_hetero",
    "bipartite",
    "hetero_from_relations",
    "to_bidirected_stale",
    "to_hetero",
    "to_homo",
    "unbatch_hetero",
]

DGLHeteroGraph = DGLGraph


# -- batches -----------------------------------------------------------------------------------------------------
class _Batched(type):
    """Says that graphs which know their batch numbers are instances, and makes such graphs, also for pickles of DGL."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, DGLGraph) and instance.batch_node_counts is not None

    def __call__(cls, graph_list: Sequence[DGLGraph], node_attrs: Any = ALL, edge_attrs: Any = ALL) -> DGLGraph:
        warn_deprecated(f"{cls.__name__}(graphs)", "use dglite.batch(graphs)")
        return batch(graph_list, node_attrs, edge_attrs)


class BatchedDGLGraph(metaclass=_Batched):
    """Classic type of what :func:`dglite.batch` returns, today a ``DGLGraph``; calling it batches graphs."""

    def __new__(cls) -> Any:  # called for pickles only
        return object.__new__(DGLGraph)


class BatchedHeteroDGLGraph(BatchedDGLGraph):
    """As :class:`BatchedDGLGraph`, for graphs of several types."""


def batch_hetero(graph_list: Sequence[DGLGraph], node_attrs: Any = ALL, edge_attrs: Any = ALL) -> DGLGraph:
    """Call :func:`dglite.batch`."""
    warn_deprecated("batch_hetero", "use dglite.batch")
    return batch(graph_list, node_attrs, edge_attrs)


def unbatch_hetero(graph: DGLGraph) -> list[DGLGraph]:
    """Call :func:`dglite.unbatch`."""
    warn_deprecated("unbatch_hetero", "use dglite.unbatch")
    return unbatch(graph)


# -- construction ------------------------------------------------------------------------------------------------
def bipartite(
    data: Any,
    utype: str = "_U",
    etype: str = "_E",
    vtype: str = "_V",
    num_nodes: tuple[int, int] | None = None,
    card: tuple[int, int] | None = None,
    validate: bool = True,
    restrict_format: str = "any",
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """Make a graph of edges from nodes ``utype`` to nodes ``vtype``, as :func:`dglite.heterograph` does.

    ``num_nodes``, also called ``card``, are the numbers of both; ``validate`` and ``restrict_format`` change nothing.

    Raises DGLError: both types are the same, or as :func:`dglite.heterograph`.
    """
    warn_deprecated("bipartite", "use dglite.heterograph({(utype, etype, vtype): edges})")
    if utype == vtype:
        raise DGLError(f"bipartite: both node types are {utype!r}; use dglite.graph for nodes of one type")
    counts = num_nodes if num_nodes is not None else card
    node_counts = None if counts is None else {utype: counts[0], vtype: counts[1]}
    return heterograph({(utype, etype, vtype): data}, node_counts, idtype, device)


def hetero_from_relations(
    rel_graphs: Sequence[DGLGraph], num_nodes_per_type: Mapping[str, int] | None = None
) -> DGLGraph:
    """Join graphs of one edge type each into one with all of their types and features.

    Nodes of one type are the same in all of them. A feature of a node type follows from the graphs that have as many
    nodes of it as the result.

    Raises DGLError: a graph has several edge types, or two have the same.
    """
    warn_deprecated("hetero_from_relations", "use dglite.heterograph")
    relations = {g.canonical_etypes[g.etype_id()]: g for g in rel_graphs}
    if len(relations) != len(rel_graphs):
        raise DGLError(f"hetero_from_relations: some of the {len(rel_graphs)} graphs have the same edge type")
    joined = heterograph(relations, num_nodes_per_type)
    for etype, g in relations.items():
        joined.edges[etype].data.update(g.edata)
        for ntype in (etype[0], etype[2]):
            frame: Frame = g.node_frame(ntype)
            if frame.num_rows == joined.num_nodes(ntype):
                joined.nodes[ntype].data.update(frame)
    return joined


def as_heterograph(g: DGLGraph, ntype: str | None = None, etype: str | None = None) -> DGLGraph:
    """Return the graph itself; with names for its only types, a clone that has them."""
    warn_deprecated("as_heterograph", "drop it: every graph is one")
    if ntype is None and etype is None:
        return g
    renamed = g.clone()
    node_name, edge_name = ntype or g.ntypes[0], etype or g.etypes[0]
    renamed.type_graph = Metagraph([node_name], [(node_name, edge_name, node_name)])
    return renamed


def as_immutable_graph(hg: DGLGraph) -> DGLGraph:
    """Return the graph itself."""
    warn_deprecated("as_immutable_graph", "drop it: graphs that are not changed are as fast")
    return hg


def _from_networkx(
    g: DGLGraph, nx_graph: Any, node_attrs: Sequence[str] | None = None, edge_attrs: Sequence[str] | None = None
) -> None:
    """Become the graph that :func:`dglite.from_networkx` returns."""
    warn_deprecated("g.from_networkx()", "use dglite.from_networkx")
    edge_ids = "id" if all("id" in data for _, _, data in nx_graph.edges(data=True)) else None
    _become(g, from_networkx(nx_graph, node_attrs, edge_attrs, edge_ids if nx_graph.is_directed() else None))


def _from_scipy_sparse_matrix(g: DGLGraph, spmat: Any, multigraph: bool | None = None) -> None:
    """Become the graph that :func:`dglite.from_scipy` returns."""
    warn_deprecated("g.from_scipy_sparse_matrix()", "use dglite.from_scipy")
    _become(g, from_scipy(spmat))


def _become(g: DGLGraph, result: DGLGraph) -> None:
    registered = vars(g).get("_registered")
    vars(g).clear()
    vars(g).update(vars(result))
    if registered is not None:
        vars(g)["_registered"] = registered


# -- transforms --------------------------------------------------------------------------------------------------
def to_homo(G: DGLGraph) -> DGLGraph:
    """Call :func:`dglite.to_homogeneous`."""
    warn_deprecated("to_homo", "use dglite.to_homogeneous")
    return to_homogeneous(G)


def to_hetero(G: DGLGraph, ntypes: Sequence[str], etypes: Sequence[Any], *args: Any, **kwargs: Any) -> DGLGraph:
    """Call :func:`dglite.to_heterogeneous`."""
    warn_deprecated("to_hetero", "use dglite.to_heterogeneous")
    return to_heterogeneous(G, ntypes, etypes, *args, **kwargs)


def to_bidirected_stale(g: DGLGraph, readonly: bool = True) -> DGLGraph:
    """Call :func:`dglite.to_bidirected`."""
    warn_deprecated("to_bidirected_stale", "use dglite.to_bidirected")
    return to_bidirected(g)


attach(DeprecatedMixin, from_networkx=_from_networkx, from_scipy_sparse_matrix=_from_scipy_sparse_matrix)
