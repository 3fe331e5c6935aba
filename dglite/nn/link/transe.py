"""Relations as translations."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from .. import functional
from ..base import Layer, nn


@final
class TransE(Layer):
    r"""Score of Bordes et al., "Translating embeddings for modeling multi-relational data", 2013.

    .. math:: -\| h + r - t \|_p

    Parameters
    ----------
    num_rels
        Number of relations.
    feats
        Size of the embeddings.
    p
        Which norm.

    Shapes
    ------
    h_head (triples, feats), h_tail (triples, feats), rels (triples,) integers -> (triples,)
    """

    def __init__(self, num_rels: int, feats: int, p: float = 1) -> None:
        super().__init__()
        self.rel_emb = nn.Embedding(num_rels, feats)
        self.p = p

    def reset_parameters(self) -> None:
        """Draw the embeddings of relations from a normal distribution."""
        self.rel_emb.reset_parameters()

    def forward(self, h_head: Tensor, h_tail: Tensor, rels: Tensor) -> Tensor:
        """Return the scores. Raises ``DGLError`` for embeddings of another size."""
        functional.require_width(self, "h_head", h_head, self.rel_emb.embedding_dim)
        functional.require_width(self, "h_tail", h_tail, self.rel_emb.embedding_dim)
        return -(h_head + self.rel_emb(rels) - h_tail).norm(self.p, -1)
