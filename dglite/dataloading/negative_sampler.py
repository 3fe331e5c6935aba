"""Samplers of negative pairs of nodes for link prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from ..arguments import explain_constructors
from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..random import generator
from ..sampling import global_uniform_negative_sampling
from ..sampling.latest import earlier_destinations

Pairs = tuple[Tensor, Tensor]
"""Source and destination nodes."""


@explain_constructors
class _BaseNegativeSampler:
    """Calls :meth:`_generate` for the edges of each type; scripts derive samplers from DGL's class of this name."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        explain_constructors(cls)

    def __init__(self, k: int) -> None:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
            raise DGLError(f"k, the number of negative pairs for an edge, must be an integer >= 0; got {k!r}")
        self.k = int(k)

    def __call__(self, g: DGLGraph, eids: Any) -> Pairs | dict[tuple[str, str, str], Pairs]:
        """Return (source, destination) pairs for edges; by canonical edge type where the edges are given by type.

        Raises ``DGLError``: edges are given without a type and there are several, or an edge does not exist.
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
class Uniform(_BaseNegativeSampler):
    """Pairs the source of each edge with ``k`` destination nodes drawn uniformly, edge after edge.

    They may be neighbours, or the edge's own destination. An edge type without destination nodes gives no pairs.
    """

    def _generate(self, g: DGLGraph, eids: Any, etype: Any) -> Pairs:
        index, arrays = g.etype_id(etype), g.id_arrays
        adjacency, is_ids = g.adjacencies[index], active.is_tensor(eids)
        ids = g.edges_in(arrays, eids if is_ids else g.edge_ids_of(eids, index), index)
        count = len(ids) * self.k
        src = arrays.repeat(adjacency.ends(arrays)[0][ids], arrays.full(len(ids), self.k), count)
        return g.ids_tensor(src), g.ids_tensor(generator().integers(max(adjacency.num_dst, 1), size=count))


PerSourceUniform = Uniform


@final
class Historical(_BaseNegativeSampler):
    """Pairs the source of each edge with destinations that it had before, of Poursafaei et al., "Towards better
    evaluation for dynamic link prediction", 2022: harder negative pairs than those drawn from all nodes.

    A destination is that of an out-edge of the source drawn uniformly from those that are earlier than the edge, so one
    that came often is likelier. A source without such edges, and the rest of the pairs, have destinations drawn
    uniformly.

    Raises DGLError: called for edges without the feature; ``share`` is no number from 0 to 1.

    Parameters
    ----------
    k
        pairs for each edge, edge after edge.
    edge_time
        edge feature with the time of each edge.
    share
        share of the pairs, from 0 to 1, that are of the past; the first ``round(share * k)`` of each edge.
    """

    def __init__(self, k: int, edge_time: str = "t", share: float = 0.5) -> None:
        super().__init__(k)
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            raise DGLError(f"share, of pairs with earlier destinations, must be a number from 0 to 1; got {share!r}")
        self.edge_time, self.share = edge_time, share

    def _generate(self, g: DGLGraph, eids: Any, etype: Any) -> Pairs:
        index = g.etype_id(etype)
        ids = g.edge_ids_of(eids, index)
        src, _ = g.adjacencies[index].find_edges(ids)
        num_dst, of_past, random = g.adjacencies[index].num_dst, round(self.share * self.k), generator()
        dst = random.integers(max(num_dst, 1), size=(len(ids), self.k))
        past = earlier_destinations(g, index, ids, of_past, self.edge_time, random)
        dst[:, :of_past] = np.where(past < 0, dst[:, :of_past], past)
        return g.ids_tensor(np.repeat(src, self.k)), g.ids_tensor(dst.reshape(-1))


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
