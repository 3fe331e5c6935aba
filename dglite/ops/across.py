"""Edge softmax over several edge types at once, normalised over all in-edges of a destination node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backend import Tensor, active, admitted
from ..errors import DGLError
from ..structure.adjacency import Adjacency
from ..structure.derived import CacheKey, cache_key, variant
from .operands import check_tensor
from .softmax import edge_softmax

_UNION: CacheKey[Adjacency] = cache_key("union", "the edges of several relations as one, for a softmax across them")


def softmax_across(graph: Any, scores: Mapping[Any, Tensor], inward: bool) -> dict[Any, Tensor]:
    """Return weights by canonical edge type: those of all edges that enter (else: leave) a node sum to 1.

    Edge types without scores take no part. Raises ``DGLError`` where an edge type is named twice, or two that share a
    node type have scores of other shapes or dtypes.
    """
    end = 1 if inward else 0
    etype_of = {graph.etype_id(etype): etype for etype in scores}
    if len(etype_of) != len(scores):
        raise DGLError(f"edge types {list(scores)} name one more than once; give one tensor of scores for each")
    groups: dict[int, list[int]] = {}
    for index in sorted(etype_of):
        groups.setdefault(graph.type_graph.ends[index][end], []).append(index)
    weights: dict[int, Tensor] = {}
    for members in groups.values():
        relations = [graph.adjacencies[index] for index in members]
        relations = relations if inward else [relation.reverse() for relation in relations]
        logits = [admitted(scores[etype_of[index]], "the scores") for index in members]
        weights.update(zip(members, _of_group(relations, logits), strict=True))
    return {graph.type_graph.canonical_etypes[index]: weights[index] for index in sorted(etype_of)}


def _of_group(relations: Sequence[Adjacency], logits: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the weights of relations with the same destinations."""
    if len(relations) == 1:
        return [edge_softmax(relations[0], logits[0])]
    for relation, scores in zip(relations, logits, strict=True):
        check_tensor(scores, relation.num_edges, "edge")
    kinds = [(tuple(active.shape(scores)[1:]), active.dtype(scores)) for scores in logits]
    if kinds != kinds[:1] * len(kinds):  # in a program, sizes are symbols or tensors, and in no set
        raise DGLError(
            f"edge types that share a node type have scores of (row shape, dtype) {kinds}; expected the same for all"
        )
    weights = edge_softmax(_joined(relations), active.concat(list(logits)))
    return active.split(weights, [relation.num_edges for relation in relations])


def _joined(relations: Sequence[Adjacency]) -> Adjacency:
    """Return the edges of all relations as one, kept with the first. Sources do not matter: all are node 0."""
    key = variant(_UNION, *(relation.number for relation in relations))
    union = relations[0].cache.get(key)
    if union is None:
        dst = np.concatenate([relation.endpoints()[1] for relation in relations])
        union = Adjacency.from_coo(1, relations[0].num_dst, np.zeros_like(dst), dst, validate=False)
        relations[0].cache[key] = union
    return union
