"""Mixtures of stochastic block models, for community detection.

Chen, Li and Bruna, "Supervised community detection with line graph neural networks", 2019, appendix C.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from .. import backend
from ..batch import batch
from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from ..transforms import line_graph
from .dataset import DGLDataset


def _block_model(n_blocks: int, size: int, p: float, q: float, numbers: Any) -> DGLGraph:
    """Return a graph of ``n_blocks`` communities of ``size`` nodes, an edge each way.

    Of n nodes, pairs inside of a community are linked with probability p / n, others with q / n; as many as expected
    are drawn.
    """
    nodes = n_blocks * size
    codes = []
    for i in range(n_blocks):
        for j in range(i, n_blocks):
            chance = min((p if i == j else q) / nodes, 1.0)
            cells = numbers.choice(size * size, round(chance * size * size), replace=False)
            codes.append((cells // size + i * size) * nodes + cells % size + j * size)
    row, column = np.divmod(np.concatenate(codes), nodes)
    upper = row <= column
    row, column = row[upper], column[upper]
    below = row < column
    src, dst = np.concatenate([row, column[below]]), np.concatenate([column, row[below]])
    order = np.lexsort((dst, src))
    return graph((src[order], dst[order]), num_nodes=nodes)


@final
class SBMMixtureDataset(DGLDataset):
    """Random graphs of equal communities, each with its own two probabilities of an edge: inside, and in between.

    ``dataset[i]`` is a graph, its line graph without backtracking, the in-degrees of both as float32 tensors, and the
    source of each edge. ``collate_fn`` makes a batch of such for ``torch.utils.data.DataLoader``. The graphs are made
    each time; nothing is saved.

    Raises DGLError: the nodes cannot be divided evenly, or ``pq`` is something else.

    Parameters
    ----------
    n_graphs, n_nodes, n_communities
        Number of graphs, and of nodes and communities in each.
    k, avg_deg
        With "Appendix_C", q is uniform up to ``avg_deg - sqrt(avg_deg)``, p is ``k * avg_deg - q``, and they are
        exchanged in half of the graphs. Of n nodes, a pair is linked with probability p / n or q / n.
    pq
        "Appendix_C", or a pair (p, q) for each graph.
    rng
        ``numpy.random.RandomState`` that is drawn from; by default NumPy's global one.
    """

    def __init__(
        self,
        n_graphs: int,
        n_nodes: int,
        n_communities: int,
        k: float = 2,
        avg_deg: float = 3,
        pq: str | Sequence[tuple[float, float]] = "Appendix_C",
        rng: np.random.RandomState | None = None,
    ) -> None:
        if n_nodes % n_communities:
            raise DGLError(f"{n_nodes} nodes cannot be divided evenly into {n_communities} communities")
        if pq != "Appendix_C" and (isinstance(pq, str) or len(pq) != n_graphs):
            raise DGLError(f"pq is {pq!r:.80}; expected 'Appendix_C', or a pair (p, q) for each of {n_graphs} graphs")
        self._n_graphs, self._n_nodes, self._n_communities = n_graphs, n_nodes, n_communities
        self._k, self._avg_deg, self._pq = k, avg_deg, pq
        self._rng: Any = np.random if rng is None else rng
        super().__init__("sbmmixture")

    def process(self) -> None:
        """Make the graphs."""
        pairs = [self._appendix_c() for _ in range(self._n_graphs)] if isinstance(self._pq, str) else self._pq
        size = self._n_nodes // self._n_communities
        self._graphs = [_block_model(self._n_communities, size, p, q, self._rng) for p, q in pairs]
        self._line_graphs = [line_graph(g, backtracking=False) for g in self._graphs]

    def _appendix_c(self) -> tuple[float, float]:
        q = self._rng.uniform(0, self._avg_deg - self._avg_deg**0.5)
        p = self._k * self._avg_deg - q
        return (p, q) if self._rng.random_sample() < 0.5 else (q, p)

    def __getitem__(self, index: int) -> tuple[DGLGraph, DGLGraph, Any, Any, Any]:
        g, lines = self._graphs[index], self._line_graphs[index]
        degrees = (backend.active.astype(each.in_degrees(), "float32") for each in (g, lines))
        return g, lines, *degrees, g.edges()[0]  # type: ignore[return-value]

    def __len__(self) -> int:
        return self._n_graphs

    def collate_fn(self, x: Sequence[tuple[Any, ...]]) -> tuple[DGLGraph, DGLGraph, np.ndarray, np.ndarray, np.ndarray]:
        """Return the two batched graphs of elements, and the three vectors of all as arrays; sources are renumbered."""
        graphs, lines, degrees, line_degrees, sources = zip(*x, strict=True)
        to_numpy = backend.active.to_numpy
        shifted = [to_numpy(ids) + i * self._n_nodes for i, ids in enumerate(sources)]
        joined = (np.concatenate([to_numpy(part) for part in parts]) for parts in (degrees, line_degrees))
        return batch(graphs), batch(lines), *joined, np.concatenate(shifted)  # type: ignore[return-value]
