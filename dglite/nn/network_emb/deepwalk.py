"""DeepWalk."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ...backend import Tensor, active, framework
from ...errors import DGLError
from ...expr import Expr, Operand, Side
from ...graph import DGLGraph
from ...graph.storage import require_graph
from ...ops import core
from ...sampling import random_walk
from ...structure.adjacency import Adjacency
from ...structure.distinct import numbered
from ..base import TorchLayer, nn
from .draw import Draw

_PRODUCT: Expr = Operand(Side.U, 0) * Operand(Side.V, 1)
_LARGEST = 6.0
"""Scores are clipped to this, both ways."""


@final
class DeepWalk(TorchLayer):
    r"""Embeddings of nodes in which nodes close on random walks have large dot products, of Perozzi et al.,
    "DeepWalk: online learning of social representations", 2014, trained by negative sampling.

    .. math:: -\frac{1}{|P|} \sum_{(u, v) \in P} \log \sigma(x_u \cdot y_v)
              - \frac{\lambda}{|P|} \sum_{(u, n) \in N} \log \sigma(-x_u \cdot y_n)

    :math:`P` are the nodes less than ``window_size`` + 1 steps apart on a walk; each has ``negative_size`` nodes in
    :math:`N`. Products are clipped to -6 .. 6. Those of a walk's nodes are one product of matrices, those with negative
    samples one kernel, and no embedding is gathered for a pair. It needs torch.

    Parameters
    ----------
    g
        The graph, of one type of nodes and edges; every node that a walk meets needs an out-edge.
    emb_dim
        Size of the embeddings.
    walk_length
        Nodes of a walk, more than ``window_size``.
    window_size
        How many steps before and after a node count as near.
    neg_weight
        :math:`\lambda`.
    negative_size
        Number of negative samples for each pair.
    fast_neg
        Whether those are nodes of the batch's walks; else nodes of the graph, by out-degree to the power of 3/4.
    sparse
        Whether the gradients of both tables are sparse, for ``torch.optim.SparseAdam``.
    """

    def __init__(
        self,
        g: DGLGraph,
        emb_dim: int = 128,
        walk_length: int = 40,
        window_size: int = 5,
        neg_weight: float = 1,
        negative_size: int = 5,
        fast_neg: bool = True,
        sparse: bool = True,
    ) -> None:
        super().__init__()
        require_graph(g)
        if walk_length < window_size + 1:
            raise DGLError(f"DeepWalk: {walk_length=} is not more than {window_size=}; no walk has a whole window")
        self.g, self.emb_dim, self.walk_length, self.window_size = g, emb_dim, walk_length, window_size
        self.neg_weight, self.negative_size, self.fast_neg = neg_weight, negative_size, fast_neg
        self.node_embed = nn.Embedding(g.num_nodes(), emb_dim, sparse=sparse)
        self.context_embed = nn.Embedding(g.num_nodes(), emb_dim, sparse=sparse)
        self.reset_parameters()
        self._places = pairs_in_windows(walk_length, window_size)
        self._draw = None if fast_neg else Draw(g.adjacency().out_degrees())

    def reset_parameters(self) -> None:
        """Draw embeddings from -1 / emb_dim to 1 / emb_dim, and set those of contexts to 0."""
        nn.init.uniform_(self.node_embed.weight, -1 / self.emb_dim, 1 / self.emb_dim)
        nn.init.zeros_(self.context_embed.weight)

    def sample(self, indices: Any) -> Tensor:
        """Return a walk from each of some nodes, (walks, walk_length), -1 after a node without out-edges."""
        return random_walk(self.g, indices, length=self.walk_length - 1)[0]

    def forward(self, batch_walk: Tensor) -> Tensor:
        """Return the loss of walks (walks, walk_length). Raises ``DGLError`` for walks of another length, or ended."""
        if batch_walk.ndim != 2 or batch_walk.shape[1] != self.walk_length or not len(batch_walk):
            raise DGLError(
                f"DeepWalk: batch_walk has shape {tuple(batch_walk.shape)}; expected (walks, {self.walk_length})"
            )
        if int(batch_walk.min()) < 0:
            raise DGLError(
                "DeepWalk: a walk has ended at a node without out-edges (-1 in batch_walk). Add self-loops or edges in "
                "both directions"
            )
        nodes, contexts = self.node_embed(batch_walk), self.context_embed(batch_walk)
        first, second = (framework.from_numpy(places).to(batch_walk.device) for places in self._places)
        near = (nodes @ contexts.transpose(1, 2))[:, first, second]
        loss = -nn.functional.logsigmoid(near.clamp(-_LARGEST, _LARGEST)).mean()
        far = self._far(nodes.flatten(0, 1), contexts.flatten(0, 1)).clamp(-_LARGEST, _LARGEST)
        return loss - nn.functional.logsigmoid(-far).mean() * self.negative_size * self.neg_weight

    def _far(self, nodes: Tensor, contexts: Tensor) -> Tensor:
        """Return the products of nodes, as often as they stand in pairs, with contexts that are drawn."""
        starts = np.arange(0, len(nodes), self.walk_length)
        rows = np.repeat((starts[:, None] + self._places[0]).ravel(), self.negative_size)
        if self._draw is None:
            context_of = framework.randint(len(contexts), (len(rows),)).numpy()
        else:
            nodes_drawn, context_of = numbered(self._draw(len(rows)))
            contexts = self.context_embed(active.from_numpy(nodes_drawn, active.device(nodes)))
        pairs = Adjacency.from_coo(len(nodes), len(contexts), rows, context_of, validate=False)
        return core.sddmm(pairs, _PRODUCT, (nodes, contexts), dot=True)


def pairs_in_windows(walk_length: int, window_size: int) -> tuple[np.ndarray, ...]:
    """Return the places (pairs,) and (pairs,) of a walk that are at most ``window_size`` apart, and not the same."""
    apart = np.abs(np.subtract.outer(np.arange(walk_length), np.arange(walk_length)))
    return np.nonzero((apart > 0) & (apart <= window_size))
