"""The layout of a graph file whose structure is written later, piece by piece: see docs/file_format.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..graph import DGLGraph
from .container import DTYPE_NAMES, VERSION
from .pack import pack_graphs

_ARRAYS = ("indptr", "indices", "edge_ids")


class CscLayout(NamedTuple):
    """A file with one graph by CSC.

    Attributes
    ----------
    pieces
        position and bytes of everything but the structure.
    places
        for each edge type the positions of its ``indptr``, ``indices`` and ``edge_ids``.
    size
        of the file.
    """

    pieces: list[tuple[int, bytes]]
    places: list[dict[str, int]]
    size: int


def csc_layout(
    schema: DGLGraph, num_nodes: Sequence[int], num_edges: Sequence[int], dtypes: Sequence[np.dtype]
) -> CscLayout:
    """Return the layout for a graph of the types of ``schema``, which has no nodes, and the numbers of nodes and edges.

    ``dtypes`` are those of each edge type's three arrays.
    """
    header, arrays = pack_graphs([schema], ("csc",))
    header = {"kind": "graphs", "version": VERSION, "complex128": [], **header, "labels": []}
    values = {
        "group": np.asarray(arrays["group"]),
        "0.num_nodes": np.array([num_nodes], np.int64),
        "0.num_edges": np.array([num_edges], np.int64),
    }
    shapes = {name: (array.dtype, list(array.shape)) for name, array in values.items()}
    for j, (etype, count, dtype) in enumerate(zip(schema.canonical_etypes, num_edges, dtypes, strict=True)):
        lengths = num_nodes[schema.ntypes.index(etype[2])] + 1, count, count
        shapes |= {_name(j, name): (dtype, [length]) for name, length in zip(_ARRAYS, lengths, strict=True)}
    layout: dict[str, Any] = {"__metadata__": {"dglite": json.dumps(header)}}
    offsets, end = {}, 0
    for name, (dtype, shape) in sorted(shapes.items(), key=lambda item: -item[1][0].itemsize):  # so all are aligned
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        layout[name] = {"dtype": DTYPE_NAMES[str(dtype)], "shape": shape, "data_offsets": [end, end + size]}
        offsets[name], end = end, end + size
    text = json.dumps(layout).encode()
    text += b" " * (-len(text) % 8)
    start = 8 + len(text)
    pieces = [(0, len(text).to_bytes(8, "little") + text)]
    pieces += [(start + offsets[name], array.tobytes()) for name, array in values.items()]
    places = [{name: start + offsets[_name(j, name)] for name in _ARRAYS} for j in range(len(num_edges))]
    return CscLayout(pieces, places, start + end)


def _name(j: int, name: str) -> str:
    return f"0.edges.{j}.csc.{name}"
