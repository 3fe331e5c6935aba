"""Samplers of negative pairs of nodes for link prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from ..backend import Tensor
from ..errors import DGLError
from ..graph import DGLGraph
from ..random import generator
from ..sampling import global_uniform_negative_sampling

Pairs = tuple[Tensor, Tensor]
"""Source and destination nodes."""


class _BaseNegativeSampler:
    """Calls :meth:`_generate` for the edges of each type; scripts derive samplers from DGL's class of this name."""

    def __init__(self, k: int) -> None:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
            raise DGLError(f"k, the number of negative pairs for an edge, must be an integer >= 0; got {k!r}")
        self.k = int(k)

    def __call__(self, g: DGLGraph, eids: Any) -> Pairs | dict[tuple[str, str, str], Pairs]:
        """Return (source, destination) pairs for edges; by canonical edge type where the edges are given by type.

        Raises
        ------
        DGLError
            Edges are given without a type and there are several, or an edge does not exist.
        """
        if isinstance(eids, Mapping):
            by_type = {g.to_canonical_etype(etype): ids for etype, ids in eids.items()}
            return {etype: self._generate(g, ids, etype) for etype, ids in by_type.items()}
        if len(g.canonical_etypes) != 1:
            raise DGLError(f"the graph has edge types {g.canonical_etypes}; give edges as a dictionary by edge type")
        return self._generate(g, eids, g.canonical_etypes[0])

    def _generate(self, g: DGLGraph, eids: Any, etype: Any) -> Pairs:
        raise NotImplementedError(
            f"{type(self).__name__} must define _generate(g, eids, etype), which returns node pairs"
        )


@final
class PerSourceUniform(_BaseNegativeSampler):
    """Pairs the source of each edge with ``k`` destination nodes drawn uniformly, edge after edge.

    They may be neighbours, or the edge's own destination. An edge type without destination nodes gives no pairs.
    """

    def _generate(self, g: DGLGraph, eids: Any, etype: Any) -> Pairs:
        index = g.etype_id(etype)
        adjacency = g.adjacencies[index]
        src, _ = adjacency.find_edges(g.edge_ids_of(eids, index))
        src = np.repeat(src, self.k)
        return g._ids_tensor(src), g._ids_tensor(generator().integers(max(adjacency.num_dst, 1), size=len(src)))


Uniform = PerSourceUniform


@final
class GlobalUniform(_BaseNegativeSampler):
    """Draws ``k`` pairs for each edge from all pairs without an edge; fewer if the graph has fewer such pairs.

    Parameters
    ----------
    exclude_self_loops, replace
        as for :func:`dglite.sampling.global_uniform_negative_sampling`.
    """

    def __init__(self, k: int, exclude_self_loops: bool = True, replace: bool = False) -> None:
        super().__init__(k)
        self.exclude_self_loops, self.replace = exclude_self_loops, replace

    def _generate(self, g: DGLGraph, eids: Any, etype: Any) -> Pairs:
        count = len(g.edge_ids_of(eids, etype)) * self.k
        return global_uniform_negative_sampling(g, count, self.exclude_self_loops, self.replace, etype)
