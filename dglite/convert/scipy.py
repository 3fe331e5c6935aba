"""Graphs from SciPy's sparse matrices."""

from __future__ import annotations

from typing import Any

from ..arguments import explained
from ..backend import active
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure.parse import is_scipy
from .edges import graph, heterograph


@explained
def from_scipy(sp_mat: Any, eweight_name: str | None = None, idtype: Any = None, device: Any = None) -> DGLGraph:
    """Make a graph with an edge for each stored entry of a square SciPy matrix, rows to columns, in COO order.

    With ``eweight_name`` the entries become that edge feature.
    """
    _require_scipy(sp_mat)
    g = graph(sp_mat, idtype=idtype, device=device)
    if eweight_name is not None:
        g.edata[eweight_name] = active.asarray(sp_mat.tocoo().data.copy(), device=g.device)
    return g


@explained
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

    Each stored entry is an edge; with ``eweight_name`` the entries become that edge feature.
    """
    _require_scipy(sp_mat)
    if utype == vtype:
        raise DGLError(f"rows and columns are both of type {utype!r}; use from_scipy for one node type")
    rows, cols = sp_mat.shape
    g = heterograph({(utype, etype, vtype): sp_mat}, {utype: rows, vtype: cols}, idtype, device)
    if eweight_name is not None:
        g.edata[eweight_name] = active.asarray(sp_mat.tocoo().data.copy(), device=g.device)
    return g


def _require_scipy(matrix: Any) -> None:
    if not is_scipy(matrix):
        raise DGLError(
            f"expected a SciPy sparse matrix, got {type(matrix).__name__}; convert it first: "
            "scipy.sparse.coo_matrix(array)"
        )
