"""Edges from users (tensors, lists, arrays, SciPy matrices, NetworkX graphs), turned into a relation."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..backend import active
from ..errors import DGLError
from ..progress import progress
from .adjacency import Adjacency
from .ids import LARGEST_COUNT, integer_array, largest_unsigned
from .sizes import require_room
from .traced import traced_edges

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_COMPRESSED = ("csr", "csc")


def parse_edges(
    data: Any,
    num_src: int | None = None,
    num_dst: int | None = None,
    square: bool = False,
    idtype: np.dtype | None = None,
) -> Adjacency:
    """Return the relation of edges ``data``; counts that are None are one more than the largest id.

    ``data`` is a pair (u, v) of ids, ``("coo", (u, v))``, ``("csr" or "csc", (indptr, indices, edge ids))``, a list of
    pairs, a SciPy matrix or a NetworkX graph. With ``square`` sources and destinations are the same nodes.

    Raises ``DGLError``: ids are not integers or negative, dtypes or devices are mixed, lengths differ, or an id is not
    below its count.
    """
    if type(data) is tuple and len(data) == 2 and type(data[0]) is not str:
        if active.compiling() and num_src is not None and num_dst is not None and all(map(active.is_tensor, data)):
            return traced_edges(*data, num_src, num_dst, idtype)  # type: ignore[return-value]
        return _from_pair(data[0], data[1], num_src, num_dst, square, idtype)
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], str):
        return _from_format(data[0], data[1], num_src, num_dst, square, idtype)
    if is_networkx(data):
        count, u, v, _ = networkx_edges(data)
        num_src = count if num_src is None else num_src
        return _from_pair(u, v, num_src, num_dst, square, idtype)
    if is_scipy(data):
        matrix = data.tocoo()
        rows, cols = matrix.shape
        if square and rows != cols:
            raise DGLError(
                f"a SciPy matrix of shape {matrix.shape} is not square; use heterograph or bipartite_from_scipy"
            )
        u, v = matrix.row, matrix.col
        num_src, num_dst = num_src if num_src is not None else rows, num_dst if num_dst is not None else cols
        return _from_pair(u, v, num_src, num_dst, square, idtype or _INT64)
    is_table = hasattr(data, "columns")  # iterating over a table of pandas gives its names
    if isinstance(data, Iterable) and not isinstance(data, str | dict) and not is_table:
        return _from_pair(*_unzipped(data), num_src, num_dst, square, idtype)
    raise DGLError(
        f"edges cannot be read from {type(data).__name__}; expected (u, v), ('csr', (indptr, indices, edge_ids)), "
        "a list of pairs, a SciPy matrix or a NetworkX graph. Several edge types, in a dictionary, are for "
        "dglite.heterograph, tables and CSV files for dglite.from_pandas"
    )


def device_of(data: Any) -> Any:
    """Return the device of the tensors in ``data``, or None when there is none.

    Raises ``DGLError``: tensors are on different devices.
    """
    if type(data) is tuple and len(data) == 2 and active.is_tensor(data[0]) and active.is_tensor(data[1]):
        common = active.device(data[0])
        if active.device(data[1]) == common:
            return common
    common = None
    if isinstance(data, tuple | list):
        if len(data) == 2 and isinstance(data[0], str):
            data = data[1] if isinstance(data[1], tuple | list) else ()
        for part in data[:3]:
            if active.is_tensor(part):
                device = active.device(part)
                if common is not None and device != common:
                    raise DGLError(f"edges are given on {common} and on {device}; move the tensors to one device")
                common = device
    return common


def _from_pair(
    u: Any, v: Any, num_src: int | None, num_dst: int | None, square: bool, idtype: np.dtype | None
) -> Adjacency:
    arrays = _device_arrays(u, v)
    if arrays is not None:
        return _from_device(arrays, u, v, num_src, num_dst, square, idtype)
    src, dst = integer_array(u, "source nodes"), integer_array(v, "destination nodes")
    if not (src.ndim and dst.ndim) and src.size == dst.size == 1:
        src, dst = src.reshape(1), dst.reshape(1)
    if src.ndim != 1 or dst.ndim != 1:
        raise DGLError(f"edges are two one-dimensional sequences of node ids, got shapes {src.shape} and {dst.shape}")
    if src.size != dst.size:
        raise DGLError(f"{src.size} source nodes but {dst.size} destination nodes; expected one of each per edge")
    if src.dtype != dst.dtype or src.dtype != _INT64:
        idtype = _common_dtype(u, v, src, dst, idtype)
    first, second = _bound(src, "source"), _bound(dst, "destination")
    num_src, num_dst = _counts(first, second, num_src, num_dst, square)
    return Adjacency.from_coo(num_src, num_dst, src, dst, idtype, validate=False)


def _counts(first: int, second: int, num_src: int | None, num_dst: int | None, square: bool) -> tuple[int, int]:
    """Return the numbers of sources and destinations, ``first`` and ``second`` of which the edges name."""
    if square:
        count = num_src if num_src is not None else num_dst
        if count is None:
            count = first if first > second else second
        num_src = num_dst = count
    else:
        num_src, num_dst = first if num_src is None else num_src, second if num_dst is None else num_dst
    if first > num_src or second > num_dst or first > LARGEST_COUNT or second > LARGEST_COUNT:  # type: ignore[operator]
        raise _bad_counts(first, num_src, second, num_dst)
    return num_src, num_dst  # type: ignore[return-value]


def _device_arrays(u: Any, v: Any) -> Any:
    """Return what makes arrays on the device that both ends are on, as lists of ids; None where that is the host."""
    if not (active.is_tensor(u) and active.is_tensor(v)) or active.on_cpu(u) or active.on_cpu(v):
        return None
    are_ids = active.dtype(u) == active.dtype(v) in ("int32", "int64") and len(u.shape) == 1 and u.shape == v.shape
    return active.arrays_on(active.device(u)) if are_ids and active.device(u) == active.device(v) else None


def _from_device(
    arrays: Any, u: Any, v: Any, num_src: int | None, num_dst: int | None, square: bool, idtype: np.dtype | None
) -> Adjacency:
    """Return the relation of edges that stay on their device; the host waits for the least and largest ids alone."""
    first = second = 0
    if u.shape[0]:
        least_src, first, least_dst, second = arrays.read(u.min(), u.max(), v.min(), v.max())
        first, second = first + 1, second + 1
        for least, side in ((least_src, "source"), (least_dst, "destination")):
            if least < 0:
                raise DGLError(f"{side} node id {least} is negative; node ids count from 0")
    idtype = np.dtype(active.dtype(u)) if idtype is None else idtype
    if idtype == _INT32 and max(first, second) > 2**31:
        raise DGLError(f"a node id above {2**31 - 1} does not fit idtype int32; use int64")
    counts = _counts(first, second, num_src, num_dst, square)
    return Adjacency.from_ends(*counts, active.copy(u), active.copy(v), idtype, arrays)


def _bad_counts(first: int, num_src: Any, second: int, num_dst: Any) -> DGLError:
    if max(first, second) > LARGEST_COUNT:
        return DGLError(f"node id {max(first, second) - 1} is too large; ids are below 2**48")
    side, last, count = ("source", first - 1, num_src) if first > num_src else ("destination", second - 1, num_dst)
    return DGLError(f"{side} node id {last} does not exist among {count} nodes; give num_nodes of at least {last + 1}")


def _bound(ids: np.ndarray, side: str) -> int:
    """Return one more than the largest id, 0 without ids; refuse negative ones."""
    size = ids.size
    if size == 0:
        return 0
    if size <= 32:
        values = ids.tolist()
        lowest, largest = min(values), max(values)
    else:
        largest = largest_unsigned(ids)
        lowest = -1 if largest >> (8 * ids.itemsize - 1) else 0
    if lowest < 0:
        raise DGLError(f"{side} node id {ids.min()} is negative; node ids count from 0")
    return largest + 1


def _common_dtype(u: Any, v: Any, src: np.ndarray, dst: np.ndarray, idtype: np.dtype | None) -> np.dtype:
    """Return ``idtype``; without it that of the tensors, which must agree; int64 without any."""
    tensors = [array for ids, array in ((u, src), (v, dst)) if active.is_tensor(ids)]
    typed = [array.dtype for array in tensors if array.size]
    if idtype is None and len(set(typed)) > 1:
        raise DGLError(
            f"source nodes are {src.dtype} but destination nodes are {dst.dtype}; give both the same dtype, or idtype"
        )
    if any(dtype.kind == "b" for dtype in (src.dtype, dst.dtype)):
        raise DGLError("node ids must be integers, got booleans")
    dtypes = typed or [array.dtype for array in tensors]
    dtype = idtype or (_INT32 if dtypes and all(x == _INT32 for x in dtypes) else _INT64)
    if src.size and dtype == _INT32 and max(_bound(src, "source"), _bound(dst, "destination")) > 2**31:
        raise DGLError(f"a node id above {2**31 - 1} does not fit idtype int32; use int64")
    return dtype


def _from_format(
    name: str, data: Any, num_src: int | None, num_dst: int | None, square: bool, idtype: np.dtype | None
) -> Adjacency:
    is_sequence = isinstance(data, tuple | list)
    if name == "coo" and is_sequence and len(data) == 2:
        return _from_pair(data[0], data[1], num_src, num_dst, square, idtype)
    if name not in _COMPRESSED or not (is_sequence and 2 <= len(data) <= 3):
        raise DGLError(
            f"({name!r}, {f'{len(data)} arrays' if is_sequence else type(data).__name__}) is not understood; expected "
            "('coo', (u, v)), ('csr', (indptr, indices, edge_ids)) or ('csc', (indptr, indices, edge_ids))"
        )
    parts = [integer_array(x, label) for x, label in zip(data, ("indptr", "indices", "edge ids"), strict=False)]
    for part, label in zip(parts, ("indptr", "indices", "edge ids"), strict=False):
        if part.ndim != 1:
            raise DGLError(f"{label} must be one-dimensional, got shape {part.shape}")
    indptr, indices, edge_ids = parts[0], parts[1], parts[2] if len(parts) == 3 else None
    rows, cols = max(len(indptr) - 1, 0), _bound(indices, "neighbour")
    if idtype is None:
        idtype = _INT32 if indices.dtype == _INT32 or (not indices.size and indptr.dtype == _INT32) else _INT64
    given_rows, given_cols = (num_src, num_dst) if name == "csr" else (num_dst, num_src)
    if square:
        count = given_rows if given_rows is not None else max(rows, cols)
        if count > LARGEST_COUNT:
            raise _bad_counts(count, 0, count, 0)
        require_room(count, 8, len(indices))
        if count > rows and len(indptr):
            indptr = np.concatenate([indptr, np.full(count - rows, indptr[-1])])
        given_rows = given_cols = count
    num_rows = rows if given_rows is None else given_rows
    num_cols = cols if given_cols is None else given_cols
    if name == "csr":
        return Adjacency.from_csr(num_rows, num_cols, indptr, indices, edge_ids, idtype)
    return Adjacency.from_csc(num_cols, num_rows, indptr, indices, edge_ids, idtype)


def _unzipped(data: Any) -> tuple[Any, Any]:
    """Return the ends of a list of pairs; a list of two tensors is a pair itself."""
    pairs = list(data)
    if len(pairs) == 2 and all(active.is_tensor(x) or isinstance(x, np.ndarray) for x in pairs):
        return pairs[0], pairs[1]
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            hint = "or give a tuple (u, v) of id sequences"
            if isinstance(pair, tuple | list) and len(pair) == 3:
                hint = "weights are features of the edges, g.edata['w'] = weights"
            elif getattr(data, "ndim", 0) == 2 and data.shape[0] == data.shape[1]:
                hint = "of an adjacency matrix give the places of its edges, dglite.graph(matrix.nonzero()); in torch, "
                hint += "matrix.nonzero(as_tuple=True)"
            raise DGLError(f"edges must be pairs (u, v) of node ids, got {pair!r:.60}; {hint}")
    return [u for u, _ in pairs], [v for _, v in pairs]


# -- other libraries ---------------------------------------------------------------------------------------------
def is_networkx(data: Any) -> bool:
    """Whether ``data`` is a NetworkX graph. Does not import NetworkX: an instance exists only where it is loaded."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(data, networkx.Graph)


def is_scipy(data: Any) -> bool:
    """Whether ``data`` is a SciPy sparse matrix or array."""
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and scipy.issparse(data)


def networkx_edges(
    nx_graph: Any, edge_id_attr_name: str | None = None, number: Mapping[Any, int] | None = None
) -> tuple[int, list[int], list[int], list[dict[str, Any]]]:
    """Return (number of nodes, u, v, attributes of each edge) of a NetworkX graph.

    Nodes are numbered by ``number``, by default in sorted order, or in their own where they cannot be sorted. An
    undirected edge gives one edge each way. With ``edge_id_attr_name`` that attribute gives each edge's id.

    Raises ``DGLError``: an edge lacks the id attribute, or the ids are not 0 .. num_edges - 1.
    """
    directed = nx_graph if nx_graph.is_directed() else nx_graph.to_directed()
    if number is None:
        number = {node: i for i, node in enumerate(sorted_nodes(directed))}
    rows = progress(directed.edges(data=True), "read edges of NetworkX", "edge", directed.number_of_edges())
    edges = [(number[u], number[v], data) for u, v, data in rows]
    if edge_id_attr_name is not None:
        edges = _by_id(edges, edge_id_attr_name)
    return len(number), [u for u, _, _ in edges], [v for _, v, _ in edges], [data for _, _, data in edges]


def sorted_nodes(nx_graph: Any) -> list[Any]:
    """Return the nodes of a NetworkX graph in the order of the ids that they get."""
    try:
        return sorted(nx_graph.nodes)
    except TypeError:
        return list(nx_graph.nodes)


def _by_id(edges: list[tuple[int, int, dict]], name: str) -> list[tuple[int, int, dict]]:
    if any(name not in data for _, _, data in edges):
        raise DGLError(f"an edge of the NetworkX graph has no attribute {name!r} to give its id")
    placed = {int(data[name]): (u, v, data) for u, v, data in edges if data[name] == int(data[name])}
    if sorted(placed) != list(range(len(edges))):
        raise DGLError(f"edge ids from attribute {name!r} must be 0 .. {len(edges) - 1}, each once")
    return [placed[i] for i in range(len(edges))]
