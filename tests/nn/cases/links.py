"""Scores of pairs of nodes, and what models are put together with."""

from __future__ import annotations

from typing import Any

import torch

from dglite.nn import EdgePredictor, JumpingKnowledge, TransE, TransR, WeightBasis
from tests.nn.cases.transformers import case, given

RELATIONS = torch.tensor([0, 2, 2, 1, 0])


def transe(layer: TransE, g: None, head: torch.Tensor, tail: torch.Tensor, rels: torch.Tensor) -> torch.Tensor:
    return -torch.linalg.vector_norm(head + layer.rel_emb.weight[rels] - tail, layer.p, -1)


def transr(layer: TransR, g: None, head: torch.Tensor, tail: torch.Tensor, rels: torch.Tensor) -> torch.Tensor:
    matrices = layer.rel_project.weight[rels].unflatten(1, (layer.nfeats, layer.rfeats))
    head, tail = (torch.einsum("ti,tio->to", x, matrices) for x in (head, tail))
    return -torch.linalg.vector_norm(head + layer.rel_emb.weight[rels] - tail, layer.p, -1)


def edges(layer: EdgePredictor, g: None, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    result = {
        "dot": lambda: torch.einsum("ei,ei->e", src, dst)[:, None],
        "cos": lambda: torch.cosine_similarity(src, dst)[:, None],
        "ele": lambda: src * dst,
        "cat": lambda: torch.cat([src, dst], 1),
    }[layer.op]()
    return result if layer.linear is None else layer.linear(result)


def jumping(layer: JumpingKnowledge, g: None, feats: tuple[torch.Tensor, ...]) -> torch.Tensor:
    if layer.mode == "cat":
        return torch.cat(feats, -1)
    if layer.mode == "max":
        return torch.maximum(torch.maximum(feats[0], feats[1]), feats[2])
    scores = layer.att(layer.lstm(torch.stack(feats, 1))[0])[..., 0]
    weights = torch.softmax(scores, 1)
    return sum(weights[:, i, None] * feat for i, feat in enumerate(feats))


def three(g: None) -> Any:
    return (given((4, 2), (4, 2), (4, 2))(g),)


def lstm_state() -> dict[str, tuple[int, ...]]:
    state: dict[str, tuple[int, ...]] = {"att.weight": (1, 6), "att.bias": (1,)}
    for end in ("", "_reverse"):
        state |= {f"lstm.weight_ih_l0{end}": (12, 2), f"lstm.weight_hh_l0{end}": (12, 3)}
        state |= {f"lstm.bias_ih_l0{end}": (12,), f"lstm.bias_hh_l0{end}": (12,)}
    return state


PAIR = given((5, 4), (5, 4))
WIDTHS = {"dot": 1, "cos": 1, "ele": 4, "cat": 8}
other_rows = (given((5, 4), (4, 4)), "h_src has shape .5, 4. and h_dst .4, 4.")

CASES = [
    *(case(f"TransE {p}", lambda p=p: TransE(3, 4, p), given((5, 4), (5, 4), RELATIONS), transe,
           {"rel_emb.weight": (3, 4)}, ((given((5, 3), (5, 4), RELATIONS), "TransE: h_head has shape"),))
      for p in (1, 2)),
    *(case(f"TransR {p}", lambda p=p: TransR(3, 2, 4, p), given((5, 4), (5, 4), RELATIONS), transr,
           {"rel_emb.weight": (3, 2), "rel_project.weight": (3, 8)},
           ((given((5, 4), (5, 3), RELATIONS), "TransR: h_tail has shape"),))
      for p in (1, 2)),
    *(case(f"EdgePredictor {op}", lambda op=op: EdgePredictor(op), PAIR, edges, {}, (other_rows,)) for op in WIDTHS),
    *(case(f"EdgePredictor {op} linear", lambda op=op: EdgePredictor(op, 4, 3, True), PAIR, edges,
           {"linear.weight": (3, width), "linear.bias": (3,)}) for op, width in WIDTHS.items()),
    *(case(f"JumpingKnowledge {mode}", lambda mode=mode: JumpingKnowledge(mode), three, jumping, {})
      for mode in ("cat", "max")),
    case("JumpingKnowledge lstm", lambda: JumpingKnowledge("lstm", 2, 3), three, jumping, lstm_state(),
         ((lambda g: ((),), "feat_list has the shapes"),)),
    case("WeightBasis", lambda: WeightBasis((2, 3), 2, 4), given(),
         lambda layer, g: torch.einsum("ob,bij->oij", layer.w_comp, layer.weight),
         {"weight": (2, 2, 3), "w_comp": (4, 2)}, smooth=True),
]  # fmt: skip
