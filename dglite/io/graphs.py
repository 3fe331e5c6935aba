"""``save_graphs`` and ``load_graphs``: graphs with their features in one file. Layout: docs/file_format.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure.formats import FORMATS
from ..structure.ids import integer_array
from .container import DGL_MAGIC, PACKED_VERSION, Container, first_bytes, local_path, write_container
from .dgl_file import DGLFile
from .dgl_write import write_dgl_file
from .pack import Compression, pack_graphs
from .unpack import GraphReader

_KIND = "graphs"
_FEW = 16
"""Most graphs whose rows are read one by one; for more, the file is mapped."""


@explained
def save_graphs(
    filename: Any,
    g_list: DGLGraph | Sequence[DGLGraph],
    labels: Mapping[str, Tensor] | None = None,
    formats: str | Sequence[str] | None = None,
    *,
    format: str = "dglite",
    compress: bool = False,
) -> None:
    """Write graphs, with structure, features and batch sizes, and tensors that label them, to a file.

    The file is replaced when the new one is complete. Folders on the way to it are made. Initializers, registered
    functions and gradients are not kept.

    Raises DGLError: something else than a graph or a tensor is given, a format is unknown, a dtype has no name in the
    file, or the file cannot be written; a file that was there before is then left as it was.

    Parameters
    ----------
    filename
        Name of a local file; any extension.
    g_list
        Graphs, blocks among them, or one.
    labels
        Tensors by name, of any shape.
    formats
        Sparse formats to store, some of ``coo``, ``csr`` and ``csc``, which exist again after loading. By default one
        that each graph has: ``coo`` if it has that, else ``csc``, else ``csr``.
    format
        ``"dgl"`` writes the file that DGL writes, for DGL 0.6 to 2.x to read: no blocks, and no batch sizes.
    compress
        Pack the ids of neighbours, of ``csc`` unless ``formats`` is ``csr`` or both: 4 bytes per edge become 1.5 where
        neighbours have near ids, as after :func:`dglite.reorder_graph`, and about 2.7 of a million nodes in random
        order. Of a graph loaded with ``mmap=True`` samplers decode what they draw, the same edges; other operations
        decode all of it. Older versions of dglite refuse such files.

    Examples
    --------
    >>> import os, tempfile, dglite
    >>> path = os.path.join(tempfile.mkdtemp(), "graphs.bin")
    >>> save_graphs(path, [dglite.graph(([0, 1], [1, 2]))])
    >>> load_graphs(path)[0][0].num_edges()
    2
    """
    graphs = [g_list] if isinstance(g_list, DGLGraph) else list(g_list)
    for graph in graphs:
        if not isinstance(graph, DGLGraph):
            raise DGLError(
                f"g_list must be a DGLGraph or a list of them, it holds a {type(graph).__name__}; the file's name "
                "comes first: save_graphs('file.bin', [g])"
            )
    if format not in ("dglite", "dgl"):
        raise DGLError(f'format must be "dglite" or "dgl", got {format!r:.40}')
    if compress and format == "dgl":
        raise DGLError('files of DGL are not compressed; leave out format="dgl", or compress')
    if labels is not None and not isinstance(labels, Mapping):
        raise DGLError(f"labels are tensors by name, as in {{'glabel': labels}}; got {type(labels).__name__}")
    labels = dict(labels or {})
    for name, values in labels.items():
        if not isinstance(name, str) or not active.is_tensor(values):
            raise DGLError(f"labels are tensors by name, got {name!r}: {type(values).__name__}")
    if format == "dgl":
        write_dgl_file(local_path(filename), graphs, labels, _requested_formats(formats))
        return
    stored = _requested_formats(formats)
    if compress:
        write_compressed(filename, graphs, labels, stored)
        return
    header, arrays = pack_graphs(graphs, stored)
    _write(filename, header, arrays, labels)


def write_compressed(
    filename: Any,
    graphs: Sequence[DGLGraph],
    labels: Mapping[str, Tensor],
    formats: tuple[str, ...] | None = None,
    scratch: Path | None = None,
) -> None:
    """Write graphs with packed indices; these are in memory until the file is complete, or in the folder ``scratch``.

    Raises ``DGLError``: as :func:`save_graphs`; lists of edges, which are not packed, are among the formats.
    """
    formats = ("csc",) if formats is None else formats
    if "coo" in formats:
        raise DGLError("compress=True packs rows of neighbours, and coo has lists of edges: write csc, csr or both")
    header, arrays = pack_graphs(graphs, formats, Compression(scratch))
    _write(filename, {"version": PACKED_VERSION, **header}, arrays, labels)


def _write(filename: Any, header: dict[str, Any], arrays: Any, labels: Mapping[str, Tensor]) -> None:
    arrays |= {f"labels.{i}": values for i, values in enumerate(labels.values())}
    write_container(filename, _KIND, {**header, "labels": list(labels)}, arrays)


def _requested_formats(formats: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if formats is None:
        return None
    names = (formats,) if isinstance(formats, str) else tuple(formats)
    if not names:
        return None
    unknown = [name for name in names if name not in FORMATS]
    if unknown:
        raise DGLError(f"formats must be some of {list(FORMATS)}, got {formats!r}")
    return tuple(name for name in FORMATS if name in names)


@explained
def load_graphs(
    filename: Any, idx_list: Sequence[int] | None = None, mmap: bool = False
) -> tuple[list[DGLGraph], dict[str, Tensor]]:
    """Read graphs and labels that :func:`save_graphs` wrote, or a graph file that DGL 0.5 to 2.x wrote.

    Large features and edge lists are mapped: the system reads them when they are first used, and writing to them does
    not change the file. Nothing in the file is executed, and everything that is read of it is checked.

    Raises DGLError: there is no such file, it is damaged, contradicts itself or was not written by either library, or
    it has no graph of a number.

    Parameters
    ----------
    filename
        Name of a local file.
    idx_list
        Numbers of the graphs to read, in the order wanted; all by default.
    mmap
        Do not look at the edges now, so that a graph larger than memory opens at once. That is for files that you have
        written with dglite yourself: a wrong id in one ends the program later, or gives wrong results. A file that is
        cut short is refused all the same; files of DGL are read in full.

    Returns
    -------
    tuple
        The graphs, on the CPU, and all labels by name.
    """
    numbers = None if idx_list is None else integer_array(idx_list, "the numbers in idx_list").reshape(-1)
    if numbers is not None and numbers.dtype.kind == "b":
        raise DGLError(f"idx_list must be a list of integers, got {idx_list!r:.60}")
    requested = [] if numbers is None else numbers.tolist()
    reader = _reader(filename, check=not mmap, few=0 < len(requested) <= _FEW)
    positions = requested or list(range(reader.num_graphs))
    for i in positions:
        if not 0 <= i < reader.num_graphs:
            raise DGLError(f"graph {i} is not in {filename}, which holds {reader.num_graphs} graphs, counted from 0")
    return [reader.graph(i) for i in positions], reader.labels()


def load_labels(filename: Any) -> dict[str, Tensor]:
    """Return the labels in a file of graphs, without reading the graphs; errors are those of :func:`load_graphs`."""
    return _reader(filename).labels()


def _reader(filename: Any, check: bool = True, few: bool = False) -> DGLFile | GraphReader:
    path = local_path(filename)
    if first_bytes(path) == DGL_MAGIC:
        return DGLFile(path)
    return GraphReader(Container(path, _KIND), check, few)
