"""Many graphs as arrays that have one after another, from which each is made when it is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import backend
from ..convert import graph
from ..graph import DGLGraph


def starts(counts: np.ndarray) -> np.ndarray:
    """Return the offsets of parts of ``counts`` rows, int64 ``(len(counts) + 1,)``."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


@dataclass(frozen=True)
class Joined:
    """Graphs one after another: graph i has nodes ``first_node[i:i + 2]``, numbered from 0 on by its own edges."""

    src: np.ndarray
    dst: np.ndarray
    first_node: np.ndarray
    first_edge: np.ndarray
    ndata: dict[str, np.ndarray]
    edata: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.first_node) - 1

    def graph(self, i: int) -> DGLGraph:
        """Make graph ``i``."""
        nodes, edges = (slice(*first[i : i + 2].tolist()) for first in (self.first_node, self.first_edge))
        g = graph((self.src[edges], self.dst[edges]), num_nodes=nodes.stop - nodes.start)
        for frame, rows, columns in ((g.ndata, nodes, self.ndata), (g.edata, edges, self.edata)):
            for name, column in columns.items():
                frame[name] = backend.active.from_numpy(column[rows])
        return g
