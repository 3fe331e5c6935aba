"""Graph structure in shared memory, found by name: a graph file in ``/dev/shm``."""

from __future__ import annotations

import getpass
import os
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.attached import attach
from ..graph.storage import make_graph
from .graphs import load_graphs, save_graphs

_SHARED = Path("/dev/shm")
"""A file system in memory, as Linux has it; elsewhere files for a while, which the system keeps in memory, too."""


def shared_memory(g: DGLGraph, name: str, formats: str | Sequence[str] = ("coo", "csr", "csc")) -> DGLGraph:
    """Return a graph of the same structure, without features, in memory that other processes find by ``name``.

    They take it by :func:`hetero_from_shared_memory` as long as the graph returned lives; what they have taken stays
    theirs. Features are shared by torch's own means: pass the graph through a queue of ``torch.multiprocessing``.

    Raises DGLError: the name is empty or no text, a format is unknown, or the memory cannot be written to.

    Parameters
    ----------
    name
        any text; a graph of that name that was shared before is replaced for those who ask from now on.
    formats
        sparse formats to share, of ``coo``, ``csr`` and ``csc``.
    """
    path = shared_place(name)
    if not formats:
        raise DGLError("formats is empty; name some of coo, csr and csc")
    bare = make_graph(g.type_graph, g.adjacencies, g.node_counts)
    bare.numpy_idtype = g.numpy_idtype
    save_graphs(path, bare, formats=formats)
    graph = hetero_from_shared_memory(name)
    weakref.finalize(graph, forget_place, path, path.stat().st_ino, os.getpid())
    return graph


def hetero_from_shared_memory(name: str) -> DGLGraph:
    """Return the graph that :meth:`DGLGraph.shared_memory` put into shared memory, without features.

    Raises DGLError: no graph of that name is shared now.
    """
    path = shared_place(name)
    if not path.is_file():
        raise DGLError(f"no graph is shared by the name {name!r}; its owner must keep what shared_memory() returned")
    return load_graphs(path)[0][0]


def shared_place(name: str) -> Path:
    """Return the file in shared memory that a name stands for; :class:`DGLError` for an invalid name."""
    if not isinstance(name, str) or not name:
        raise DGLError(f"shared memory is named by a text that is not empty, got {name!r:.60}")
    folder = _SHARED if _SHARED.is_dir() else Path(tempfile.gettempdir())
    return folder / quote(f"dglite-{_user()}-{name}", safe="")


def _user() -> str:
    """Return the user's name, or number: in a container a user may have no name."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return str(os.getuid()) if hasattr(os, "getuid") else "user"


def forget_place(path: Path, inode: int, owner: int) -> None:
    """Remove a graph's file, unless this is a fork of its owner or another graph has taken the name."""
    with suppress(OSError):
        if os.getpid() == owner and path.stat().st_ino == inode:
            path.unlink()


attach(shared_memory=shared_memory)
