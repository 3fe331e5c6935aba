"""MetaPath2Vec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ...backend import Tensor, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...sampling import random_walk
from ..base import TorchLayer, nn
from .draw import Draw

_LARGEST = 10.0
"""Scores are clipped to this, both ways."""


@final
class MetaPath2Vec(TorchLayer):
    r"""Embeddings of nodes of several types, of Dong et al., "metapath2vec: scalable representation learning for
    heterogeneous networks", 2017: skip-grams on random walks that follow a metapath, trained by negative sampling.

    Nodes are numbered type after type, as :func:`dglite.to_homogeneous` does; ``local_to_global_nid`` lists the
    numbers by type. Negative samples are drawn from all nodes, by how often walks meet them, to the power of 3/4. It
    needs torch.

    Parameters
    ----------
    g
        The graph.
    metapath
        The edge type of each step.
    window_size
        How many steps before a node, and, the node included, behind it, count as near; at most the nodes of a walk.
    emb_dim
        Size of the embeddings.
    negative_size
        Number of negative samples for each pair.
    sparse
        Whether the gradients of both tables are sparse, for ``torch.optim.SparseAdam``.
    """

    def __init__(
        self,
        g: DGLGraph,
        metapath: Sequence[Any],
        window_size: int,
        emb_dim: int = 128,
        negative_size: int = 5,
        sparse: bool = True,
    ) -> None:
        super().__init__()
        if len(metapath) + 1 < window_size:
            raise DGLError(f"MetaPath2Vec: {window_size=} is more than the {len(metapath) + 1} nodes of a walk")
        self.hg, self.metapath, self.window_size = g, metapath, window_size
        self.emb_dim, self.negative_size = emb_dim, negative_size
        path = [g.to_canonical_etype(etype) for etype in metapath]
        self.node_metapath = [path[0][0], *(etype[2] for etype in path)]
        counts = [g.num_nodes(ntype) for ntype in g.ntypes]
        self.local_to_global_nid = {
            ntype: list(range(first, first + count))
            for ntype, first, count in zip(g.ntypes, first_numbers(g, g.ntypes), counts, strict=True)
        }
        self._starts = first_numbers(g, self.node_metapath)
        visited = self._walk(np.arange(g.num_nodes(self.node_metapath[0])))
        self._draw = Draw(np.bincount(visited[visited >= 0], minlength=sum(counts)))
        self.neg_prob = framework.from_numpy(self._draw.probabilities).float()
        self.node_embed = nn.Embedding(sum(counts), emb_dim, sparse=sparse)
        self.context_embed = nn.Embedding(sum(counts), emb_dim, sparse=sparse)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw embeddings from -1 / emb_dim to 1 / emb_dim, and set those of contexts to 0."""
        nn.init.uniform_(self.node_embed.weight, -1 / self.emb_dim, 1 / self.emb_dim)
        nn.init.zeros_(self.context_embed.weight)

    def sample(self, indices: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Walk from each of some nodes of the first type; return what :meth:`forward` takes.

        Nodes near each other, (pairs,) twice, and negative samples, (pairs, negative_size): numbers of nodes. No place
        of a walk is paired with itself; what lies behind the end of a walk is in no pair.
        """
        walks = self._walk(indices)
        u, v = [], []
        for ahead in range(-self.window_size, self.window_size):
            if ahead and abs(ahead) < walks.shape[1]:
                here, there = (
                    (walks[:, :-ahead], walks[:, ahead:]) if ahead > 0 else (walks[:, -ahead:], walks[:, :ahead])
                )
                both = (here >= 0) & (there >= 0)
                u.append(here[both])
                v.append(there[both])
        nodes, near = (np.concatenate(parts) if parts else np.zeros(0, np.int64) for parts in (u, v))
        far = self._draw(len(nodes) * self.negative_size).reshape(len(nodes), self.negative_size)
        return framework.from_numpy(nodes), framework.from_numpy(near), framework.from_numpy(far)

    def forward(self, pos_u: Tensor, pos_v: Tensor, neg_v: Tensor) -> Tensor:
        """Return the loss of pairs (pairs,) and (pairs,), with negative samples (pairs, negative_size)."""
        nodes, near, far = self.node_embed(pos_u), self.context_embed(pos_v), self.context_embed(neg_v)
        score = (nodes * near).sum(1).clamp(-_LARGEST, _LARGEST)
        against = (far @ nodes[..., None])[..., 0].clamp(-_LARGEST, _LARGEST)
        log = nn.functional.logsigmoid
        return -(log(score) + log(-against).sum(1)).mean()

    def _walk(self, nodes: Any) -> np.ndarray:
        """Return walks (walks, nodes of the metapath), of numbers that all types share; -1 behind the end of a walk."""
        traces = random_walk(self.hg, nodes, metapath=self.metapath)[0].cpu().numpy().astype(np.int64)
        return np.where(traces >= 0, traces + self._starts, -1)


def first_numbers(g: DGLGraph, ntypes: Sequence[str]) -> np.ndarray:
    """Return the number that the first node of each type has, where the nodes of all types are numbered together."""
    counts = np.array([g.num_nodes(ntype) for ntype in g.ntypes])
    starts = dict(zip(g.ntypes, np.cumsum(counts) - counts, strict=True))
    return np.array([starts[ntype] for ntype in ntypes])
