"""Relations as translations, each in a space of its own."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from .. import functional
from ..base import Layer, nn


@final
class TransR(Layer):
    r"""Score of Lin et al., "Learning entity and relation embeddings for knowledge graph completion", 2015.

    .. math:: -\| h M_r + r - t M_r \|_p = -\| (h - t) M_r + r \|_p

    Differences are multiplied relation by relation: no matrix is gathered for a triple.

    Parameters
    ----------
    num_rels
        Number of relations.
    rfeats, nfeats
        Sizes of the embeddings of relations and of nodes.
    p
        Which norm.

    Shapes
    ------
    h_head (triples, nfeats), h_tail (triples, nfeats), rels (triples,) integers -> (triples,)
    """

    def __init__(self, num_rels: int, rfeats: int, nfeats: int, p: float = 1) -> None:
        super().__init__()
        self.rel_emb = nn.Embedding(num_rels, rfeats)
        self.rel_project = nn.Embedding(num_rels, nfeats * rfeats)
        self.rfeats, self.nfeats, self.p = rfeats, nfeats, p

    def reset_parameters(self) -> None:
        """Draw embeddings and matrices from a normal distribution."""
        self.rel_emb.reset_parameters()
        self.rel_project.reset_parameters()

    def forward(self, h_head: Tensor, h_tail: Tensor, rels: Tensor) -> Tensor:
        """Return the scores. Raises ``DGLError`` for embeddings of another size, and relations that do not exist."""
        functional.require_width(self, "h_head", h_head, self.nfeats)
        functional.require_width(self, "h_tail", h_tail, self.nfeats)
        functional.compute_weights(self.rel_project, rels)
        matrices = self.rel_project.weight.reshape(len(self.rel_project.weight), self.nfeats, self.rfeats)
        return -(functional.typed_linear(h_head - h_tail, rels, matrices) + self.rel_emb(rels)).norm(self.p, -1)
