"""A relation of which there are tensors only: what a graph holds while torch traces or exports a program."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from .adjacency import Adjacency
from .derived import DerivedCache

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


@final
class TracedAdjacency:
    """Edges ``src[i] -> dst[i]`` between ``num_src`` and ``num_dst`` nodes, where values may not exist yet.

    The tensors may be fake and the counts a compiler's symbols, so operations on it are registered ones. What an
    :class:`Adjacency` answers with arrays it refuses while there are no values, and has from one of these tensors then.
    """

    def __init__(self, src: Tensor, dst: Tensor, num_src: int, num_dst: int, idtype: Any = None) -> None:
        self.tensors, self.num_src, self.num_dst = (src, dst), num_src, num_dst
        self.idtype = _INT64 if idtype is None else idtype
        self.cache = DerivedCache()

    @property
    def num_edges(self) -> int:
        """Number of edges, a symbol where the program is for any."""
        return self.tensors[0].shape[0]  # type: ignore[no-any-return]

    def reverse(self) -> TracedAdjacency:
        """Return the relation with every edge reversed."""
        return TracedAdjacency(*self.tensors[::-1], self.num_dst, self.num_src, self.idtype)

    def as_idtype(self, idtype: Any) -> TracedAdjacency:
        """Return the same relation with users' ids as ``idtype``."""
        return TracedAdjacency(*self.tensors, self.num_src, self.num_dst, np.dtype(idtype))

    def resized(self, num_src: int, num_dst: int) -> TracedAdjacency:
        """Return the same edges among other numbers of nodes."""
        return TracedAdjacency(*self.tensors, num_src, num_dst, self.idtype)

    def __getattr__(self, name: str) -> Any:
        # Dynamo looks at an object that nothing has initialised
        if name.startswith("_") or not hasattr(Adjacency, name) or "tensors" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        if not active.compiling() and not active.needs_operator(self.tensors):  # a program has returned it
            relation = relation_of(*self.tensors, self.num_src, self.num_dst).as_idtype(self.idtype)
            return getattr(relation, name)
        raise DGLError(
            f"torch traces this program, so the graph's edges have no values yet, which {name!r} reads. Message "
            "passing, readouts and layers work; compute what depends on values before, and pass it in as an input. The "
            "steps of a vertex program of dglite.dynamic depend on the edges, so it is part of no program"
        )


def in_program(adj: Any) -> bool:
    """Whether operations on a relation are part of a program: a compiler reads them, or edges have no values yet."""
    return type(adj) is TracedAdjacency or active.compiling()


def traced_edges(src: Tensor, dst: Tensor, num_src: int, num_dst: int, idtype: Any = None) -> TracedAdjacency:
    """Return the relation of edges in a program, ``src[i] -> dst[i]``; the ids are looked at when it runs.

    Raises ``DGLError``: shapes or dtypes are not those of edges.
    """
    dtypes = {active.dtype(x) for x in (src, dst)}
    if src.ndim != 1 or src.shape != dst.shape or not dtypes <= {"int32", "int64"}:
        raise DGLError(
            f"got edges of shapes {tuple(src.shape)} and {tuple(dst.shape)}, {sorted(dtypes)}; expected two lists of "
            "integers, one source and one destination for each edge"
        )
    if idtype is None:
        idtype = _INT32 if dtypes == {"int32"} else _INT64
    return TracedAdjacency(src, dst, num_src, num_dst, idtype)


def relation_of(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> Adjacency:
    """Return the relation that a program holds as tensors: the one that they are of, or one made of copies of them.

    It is kept as long as the tensors' memory and their values last, so their ids are checked once.

    Raises ``DGLError``: lengths differ, ids are no integers, or an endpoint is not a node.
    """

    def make() -> Adjacency:
        arrays = [active.to_numpy(x) for x in (src, dst)]
        for array in arrays:
            if array.ndim != 1 or array.dtype.kind not in "iu":
                raise DGLError(f"got edges of shape {array.shape} and dtype {array.dtype}; expected a list of integers")
        return Adjacency.from_coo(num_src, num_dst, arrays[0], arrays[1])

    return active.structure_of(src, dst, (num_src, num_dst), make)  # type: ignore[no-any-return]
