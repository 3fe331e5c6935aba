"""Sparse formats of a graph, its reverse, and exports to sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError, warn_deprecated
from ..ops.traced import reversed_of
from ..structure.formats import FORMATS
from ..structure.metagraph import EdgeType
from .base import GraphBase


class FormatMixin(GraphBase):
    """COO, CSR and CSC of a graph's relations."""

    @explained
    def formats(self, formats: str | Sequence[str] | None = None) -> Any:
        """Say which sparse formats exist, or return a graph that keeps only the given ones.

        Without an argument: ``{"created": [...], "not created": [...]}``. A format that is left out is made when an
        operation needs it, and not kept.

        Raises DGLError: a format is not one of "coo", "csr" and "csc".
        """
        if formats is None:
            allowed = [name for name in FORMATS if all(name in x.allowed for x in self.adjacencies)]
            created = [name for name in allowed if all(name in x.formats for x in self.adjacencies)]
            return {"created": created, "not created": [name for name in allowed if name not in created]}
        names = (formats,) if isinstance(formats, str) else tuple(formats)
        unknown = [name for name in names if name not in FORMATS]
        if unknown or not names:
            raise DGLError(f"formats must be some of {list(FORMATS)}, got {formats!r}")
        graph = self.clone()
        graph.adjacencies = tuple(adjacency.restrict(names) for adjacency in self.adjacencies)
        return graph

    def create_formats_(self) -> None:
        """Make all formats of the graph now. Do so before sharing the graph with other processes."""
        for adjacency in self.adjacencies:
            adjacency.create_formats()

    def reverse(
        self,
        copy_ndata: bool = True,
        copy_edata: bool = False,
        *,
        share_ndata: bool | None = None,
        share_edata: bool | None = None,
    ) -> Self:
        """Return the graph with every edge reversed, in O(1). Edge ids stay; so do features where asked for.

        ``share_ndata`` and ``share_edata`` are classic names of ``copy_ndata`` and ``copy_edata``.

        Raises DGLError: the graph is a block.
        """
        if share_ndata is not None or share_edata is not None:
            warn_deprecated("reverse(share_ndata=, share_edata=)", "use copy_ndata= and copy_edata=")
            copy_ndata = copy_ndata if share_ndata is None else share_ndata
            copy_edata = copy_edata if share_edata is None else share_edata
        if self.type_graph.is_block:
            raise DGLError("a block cannot be reversed: its messages flow from source to destination nodes only")
        graph = self.clone()
        state = graph.__dict__  # of a new graph, for which nothing is to be checked
        state["adjacencies"] = tuple([reversed_of(adjacency) for adjacency in state["adjacencies"]])
        state["type_graph"] = state["type_graph"].reversed()
        if not copy_ndata:
            state["node_frames"] = [None] * len(state["node_frames"])
        if not copy_edata:
            state["edge_frames"] = [None] * len(state["edge_frames"])
        return graph

    # -- exports ------------------------------------------------------------------------------------------------
    @explained
    def adj_tensors(self, fmt: str, etype: EdgeType | None = None) -> tuple[Tensor, ...]:
        """Return the structure as tensors: (src, dst) for "coo", (indptr, indices, edge ids) for "csr" and "csc".

        Edge ids are empty where the graph was made of that format without them: entry j is then edge j.
        """
        adjacency = self.adjacency(etype)
        if fmt == "coo":
            arrays: tuple[np.ndarray, ...] = adjacency.endpoints()
        elif fmt in ("csr", "csc"):
            stored = adjacency.csr() if fmt == "csr" else adjacency.csc()
            edge_ids = stored.indices[:0] if stored.in_order else stored.entry_edge_ids()
            arrays = stored.indptr, stored.indices, edge_ids
        else:
            raise DGLError(f"fmt={fmt!r} is not understood; expected one of {list(FORMATS)}")
        return tuple(self.ids_copy(array) for array in arrays)

    @explained
    def adj_external(
        self, transpose: bool = False, ctx: Any = None, scipy_fmt: str | None = None, etype: EdgeType | None = None
    ) -> Any:
        """Return the adjacency matrix of ones: rows are sources, or destinations with ``transpose``.

        A sparse COO tensor, or with ``scipy_fmt`` "coo" or "csr" a SciPy matrix of the ids' dtype.
        """
        adjacency = self.adjacency(etype)
        adjacency = adjacency.reverse() if transpose else adjacency
        shape = adjacency.num_src, adjacency.num_dst
        if scipy_fmt is None:
            values = active.full((adjacency.num_edges,), 1, "float32", self._device if ctx is None else ctx)
            return active.sparse_coo(np.stack(adjacency.endpoints()), values, shape)
        import scipy.sparse  # 0.2 s, which `import dglite` must not pay

        ones = np.ones(adjacency.num_edges, self.numpy_idtype)
        if scipy_fmt == "csr":
            csr = adjacency.csr()
            return scipy.sparse.csr_matrix((ones, csr.indices, csr.indptr), shape=shape, copy=True)
        if scipy_fmt == "coo":
            return scipy.sparse.coo_matrix((ones, adjacency.endpoints()), shape=shape, copy=True)
        raise DGLError(f"scipy_fmt={scipy_fmt!r} is not understood; expected 'coo' or 'csr'")

    @explained
    def inc(self, typestr: str, ctx: Any = None, etype: EdgeType | None = None) -> Tensor:
        """Return the incidence matrix (num_nodes, num_edges) as a sparse COO tensor.

        "in": 1 where an edge enters a node. "out": 1 where it leaves one. "both": 1 where it enters, -1 where it
        leaves, 0 for a self-loop.

        Raises DGLError: ``typestr`` is something else, or is "both" and the edge type joins different node types.
        """
        index = self.etype_id(etype)
        adjacency = self.adjacencies[index]
        src, dst = adjacency.endpoints()
        edges = np.arange(adjacency.num_edges, dtype=src.dtype)
        if typestr == "both":
            src_set, dst_set = self.type_graph.ends[index]
            if src_set != dst_set:
                raise DGLError(
                    f"inc: edge type {self.type_graph.canonical_etypes[index]} joins different node sets, "
                    "so there is no one row for both ends; use typestr='in' or 'out'"
                )
            proper = src != dst
            nodes, edges = np.concatenate([src[proper], dst[proper]]), np.tile(edges[proper], 2)
            ones = np.repeat(np.array([-1, 1], np.float32), proper.sum())
            num_nodes = adjacency.num_src
        elif typestr in ("in", "out"):
            nodes, num_nodes = (dst, adjacency.num_dst) if typestr == "in" else (src, adjacency.num_src)
            ones = np.ones(adjacency.num_edges, np.float32)
        else:
            raise DGLError(f"typestr={typestr!r} is not understood; expected 'in', 'out' or 'both'")
        values = active.from_numpy(ones, self._device if ctx is None else ctx)
        return active.sparse_coo(np.stack([nodes, edges]), values, (num_nodes, adjacency.num_edges))

    incidence_matrix = inc
