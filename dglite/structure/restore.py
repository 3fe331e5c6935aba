"""Relations from arrays of a file: everything is checked, unless the caller trusts the file."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DGLError
from .adjacency import FORMATS, Adjacency
from .compressed import Compressed, check_indptr, check_permutation, scattered
from .ids import check_range
from .packed import PackedIndices, PackedRows

CompressedRows = tuple[np.ndarray, Any, np.ndarray | None]
"""``indptr``, ``indices``, and the edge id of each entry, None where entry j is edge j.

Indices of a file that is not checked may be :class:`PackedIndices`."""


def restore(
    counts: tuple[int, int, int],
    idtype: np.dtype,
    allowed: tuple[str, ...],
    endpoints: tuple[np.ndarray, np.ndarray] | None = None,
    csr: CompressedRows | None = None,
    csc: CompressedRows | None = None,
    check: bool = True,
) -> Adjacency:
    """Return a relation with the given formats. Arrays of the right dtype are not copied; do not write to them.

    Raises DGLError: lengths do not fit the counts, an id is out of range, edge ids are no permutation, or formats
    disagree.

    Parameters
    ----------
    counts
        Numbers of source nodes, destination nodes and edges.
    allowed
        The formats that the relation may keep.
    check
        Look at every entry. Without it only lengths are looked at, for arrays that dglite itself has written: what lies
        in a mapped file stays there.
    """
    num_src, num_dst, num_edges = counts
    adjacency = Adjacency(num_src, num_dst, num_edges, np.dtype(idtype))
    adjacency.allowed = tuple(name for name in FORMATS if name in allowed)
    if not check:
        return _vouched_for(adjacency, endpoints, csr, csc)
    if endpoints is not None:
        _check_ids(endpoints[0], num_edges, num_src, "source node")
        _check_ids(endpoints[1], num_edges, num_dst, "destination node")
        adjacency._endpoints = tuple(end.astype(adjacency.index_dtype, copy=False) for end in endpoints)  # type: ignore[assignment]
    for name, rows, num_rows, num_cols in (("csr", csr, num_src, num_dst), ("csc", csc, num_dst, num_src)):
        if rows is not None:
            _add_rows(adjacency, name, _checked(rows, num_rows, num_cols, num_edges, adjacency.index_dtype))
    if not adjacency.formats:
        raise DGLError("a relation was given in no format; expected some of coo, csr and csc")
    return adjacency


def _vouched_for(
    adjacency: Adjacency,
    endpoints: tuple[np.ndarray, np.ndarray] | None,
    csr: CompressedRows | None,
    csc: CompressedRows | None,
) -> Adjacency:
    """Give a relation arrays of which only lengths are looked at."""
    dtype, matrices = adjacency.index_dtype, list[Compressed | None]()
    ends = adjacency.num_src, adjacency.num_dst
    for rows, (num_rows, num_cols) in ((csr, ends), (csc, ends[::-1])):
        if rows is not None and (len(rows[0]) != num_rows + 1 or rows[0][0] != 0 or rows[0][-1] != adjacency.num_edges):
            raise DGLError(f"indptr does not run from 0 to {adjacency.num_edges} over {num_rows} rows")
        if rows is None:
            matrices.append(None)
            continue
        indptr, indices, ids = rows
        edge_ids = None if ids is None else ids.astype(dtype, copy=False)
        if isinstance(indices, PackedIndices):
            packed = PackedRows(indptr.astype(dtype, copy=False), indices, edge_ids, adjacency.num_edges, num_cols)
            matrices.append(packed)
        else:
            matrices.append(Compressed(indptr.astype(dtype, copy=False), indices.astype(dtype, copy=False), edge_ids))
    adjacency._csr, adjacency._csc = matrices
    if endpoints is not None:
        adjacency._endpoints = endpoints[0].astype(dtype, copy=False), endpoints[1].astype(dtype, copy=False)
    return adjacency


def _check_ids(ids: np.ndarray, num_edges: int, count: int, label: str) -> None:
    if ids.shape != (num_edges,):
        raise DGLError(f"{label}s of the edges have shape {ids.shape}; expected ({num_edges},)")
    check_range(ids, count, label)


def _checked(rows: CompressedRows, num_rows: int, num_cols: int, num_edges: int, dtype: np.dtype) -> Compressed:
    indptr, indices, edge_ids = rows
    _check_ids(indices, num_edges, num_cols, "neighbour node")
    check_indptr(indptr, num_rows, num_edges)
    if edge_ids is not None:
        check_permutation(edge_ids, num_edges)
    arrays: list[Any] = [None if x is None else x.astype(dtype, copy=False) for x in (indptr, indices, edge_ids)]
    return Compressed(*arrays)


def _add_rows(adjacency: Adjacency, name: str, stored: Compressed) -> None:
    """Give ``adjacency`` a checked CSR or CSC, after holding it against the format that it has already."""
    rows, ids = stored.rows(), stored.edge_ids
    endpoints = adjacency._endpoints
    if endpoints is None and adjacency.formats:
        endpoints = adjacency._endpoints_from_rows()
    if endpoints is not None:
        ends = (rows, stored.indices) if name == "csr" else (stored.indices, rows)
        for end, expected in zip(ends, endpoints, strict=True):
            if not np.array_equal(end, expected if ids is None else expected[ids]):
                raise DGLError(f"the edges in {name} are not those of the other formats")
    if not _ascending_inside_rows(rows, ids):
        # Ours are sorted stably, which kernels rely on for the order of reductions; other libraries' need not be.
        if endpoints is None:
            ends = (rows, stored.indices) if name == "csr" else (stored.indices, rows)
            adjacency._endpoints = tuple(scattered(end, ids) for end in ends)  # type: ignore[assignment, arg-type]
        return
    if name == "csr":
        adjacency._csr = stored
    else:
        adjacency._csc = stored


def _ascending_inside_rows(rows: np.ndarray, edge_ids: np.ndarray | None) -> bool:
    if edge_ids is None:
        return True
    return bool(((edge_ids[1:] > edge_ids[:-1]) | (rows[1:] != rows[:-1])).all())
