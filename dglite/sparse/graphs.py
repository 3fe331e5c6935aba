"""Graphs as sparse matrices."""

from __future__ import annotations

from typing import Any

from ..backend import active
from ..errors import warn_deprecated
from ..graph import DGLGraph
from ..graph.attached import attach
from .base import checked_values
from .matrix import SparseMatrix


def adj(
    g: DGLGraph,
    etype: Any = None,
    eweight_name: str | None = None,
    *,
    transpose: bool | None = None,
    ctx: Any = None,
    scipy_fmt: str | None = None,
) -> Any:
    """Return the adjacency matrix of one edge type, (num_src, num_dst); it shares the graph's structure.

    Entry i is edge i. Values are the edge feature ``eweight_name``, of shape (num_edges,) or (num_edges, D), or ones.
    With an argument of DGL 0.4 to 0.9 (``transpose``, also as a bool in place of ``etype``, ``ctx``, ``scipy_fmt``),
    return what :meth:`DGLGraph.adj_external` does instead of a :class:`SparseMatrix`.

    Raises DGLError: the edge type does not exist or is not given where there are several, or the feature has another
    shape.

    Examples
    --------
    >>> from dglite.convert import graph
    >>> adj(graph(([0, 1, 2], [1, 2, 2]))).to_dense()
    tensor([[0., 1., 0.],
            [0., 0., 1.],
            [0., 0., 1.]])
    """
    if isinstance(etype, bool):
        etype, transpose = None, etype
    if transpose is not None or ctx is not None or scipy_fmt is not None:
        warn_deprecated("g.adj(transpose, ctx, scipy_fmt)", "use g.adj_external() or g.adj()")
        return g.adj_external(bool(transpose), ctx, scipy_fmt, etype)
    relation = g.adjacency(etype)
    if eweight_name is None:
        values = active.full((relation.num_edges,), 1, "float32", g.device)
    else:
        values = checked_values(g.edge_frame(etype)[eweight_name], relation.num_edges)
    matrix = object.__new__(SparseMatrix)
    matrix._adj, matrix._val = relation.reverse(), values
    return matrix


attach(adj=adj)
