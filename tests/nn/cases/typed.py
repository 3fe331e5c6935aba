"""Layers whose matrices differ by type of nodes and edges."""

from __future__ import annotations

from typing import Any

import torch

from dglite.nn import HGTConv, RelGraphConv
from tests.nn import dense
from tests.nn.laws import Case, add_up, ends, feat, inputs

GRAPHS = ("graph", "lonely", "edgeless", "empty", "block", "bipartite")


def source(size: int = 4) -> Any:
    return feat(size, pair=False)


def etypes(g: Any) -> torch.Tensor:
    return torch.tensor([2, 0, 2, 1, 0, 2, 2, 0])[: g.num_edges()]


def one_type(g: Any) -> torch.Tensor:
    """Return types of which a source has one, so that pairs of sources are fewer than pairs of destinations."""
    return ends(g)[0] % 3


def ntypes(g: Any) -> torch.Tensor:
    return torch.arange(g.num_src_nodes()) % 2


def norm(g: Any) -> torch.Tensor:
    return dense.positive(g.num_edges(), 1)


def matrices(layer: Any) -> torch.Tensor:
    """Return a TypedLinear's matrices, (types, in, out)."""
    if layer.regularizer == "basis":
        return torch.einsum("tb,bio->tio", layer.coeff, layer.W)
    if layer.regularizer is None:
        return layer.W
    blocks = layer.W.reshape(layer.num_types, layer.num_bases, layer.submat_in, layer.submat_out)
    return torch.stack([torch.block_diag(*of_type) for of_type in blocks])


def rgcn(layer: RelGraphConv, g: Any, x: torch.Tensor, types: torch.Tensor, w: Any = None) -> torch.Tensor:
    messages = torch.einsum("ei,eio->eo", x[ends(g)[0]], matrices(layer.linear_r)[types])
    result = add_up(g, messages if w is None else messages * w)
    if layer.layer_norm:
        result = layer.layer_norm_weight(result)
    result = result + layer.h_bias
    if layer.self_loop:
        result = result + x[: g.num_dst_nodes()] @ layer.loop_weight
    return result if layer.activation is None else layer.activation(result)


def hgt(layer: HGTConv, g: Any, x: torch.Tensor, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    src, dst = ends(g)
    own, heads, size = x[: g.num_dst_nodes()], layer.num_heads, layer.head_size

    def typed(linear: Any, rows: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ni,nio->no", rows, linear.W[nodes[: len(rows)]]).reshape(-1, heads, size)

    keys, queries, values = typed(layer.linear_k, x), typed(layer.linear_q, own), typed(layer.linear_v, x)
    outputs = []
    for h in range(heads):
        key = torch.einsum("ei,eio->eo", keys[src, h], layer.relation_att[h].W[edges])
        scores = (key * queries[dst, h]).sum(1) * layer.relation_pri[h][edges] / size**0.5
        message = torch.einsum("ei,eio->eo", values[src, h], layer.relation_msg[h].W[edges])
        outputs.append(add_up(g, message * dense.softmax_by_destination(g, scores)[:, None]))
    met = torch.cat(outputs, 1)
    result = torch.einsum("ni,nio->no", met, layer.linear_a.W[nodes[: len(own)]])
    gate = torch.sigmoid(layer.skip[nodes[: len(own)]])[:, None]
    result = result * gate + (own @ layer.residual_w if hasattr(layer, "residual_w") else own) * (1 - gate)
    return layer.norm(result) if layer.use_norm else result


BASIS = {"linear_r.W": (2, 4, 6), "linear_r.coeff": (3, 2), "h_bias": (6,), "loop_weight": (4, 6)}
FULL = {"linear_r.W": (3, 4, 6), "h_bias": (6,), "loop_weight": (4, 6)}
HGT = {f"linear_{name}.W": (2, 4, 6) for name in "kqv"}
HGT |= {"linear_a.W": (2, 6, 6), "skip": (2,), "residual_w": (4, 6)}
for head in range(2):
    HGT |= {f"relation_pri.{head}": (3,), f"relation_att.{head}.W": (3, 3, 3), f"relation_msg.{head}.W": (3, 3, 3)}

SAME_SIZE = HGT | {f"linear_{name}.W": (2, 6, 6) for name in "kqv"} | {"norm.weight": (6,), "norm.bias": (6,)}
del SAME_SIZE["residual_w"]

CASES = [
    Case(
        "RelGraphConv",
        lambda: RelGraphConv(4, 6, 3),
        inputs(source(), etypes),
        rgcn,
        FULL,
        GRAPHS,
        refused=(
            (inputs(source(5), etypes), "feat has shape .4, 5.; expected"),
            (inputs(source(), lambda g: etypes(g) + 1), "edge types hold 3; expected numbers from 0 to 2"),
            (inputs(source(), lambda g: etypes(g)[:3]), "for 8 edges"),
        ),
    ),
    Case(
        "RelGraphConv of sources",
        lambda: RelGraphConv(4, 6, 3, activation=torch.tanh),
        inputs(source(), one_type, norm),
        rgcn,
        FULL,
        ("graph", "block"),
    ),
    Case(
        "RelGraphConv basis",
        lambda: RelGraphConv(4, 6, 3, "basis", 2, layer_norm=True, self_loop=False),
        inputs(source(), etypes, norm),
        rgcn,
        {
            "linear_r.W": (2, 4, 6),
            "linear_r.coeff": (3, 2),
            "h_bias": (6,),
            "layer_norm_weight.weight": (6,),
            "layer_norm_weight.bias": (6,),
        },
        ("graph", "block", "lonely"),
    ),
    Case(
        "RelGraphConv one basis",
        lambda: RelGraphConv(4, 6, 3, "basis", 1),
        inputs(source(), etypes, norm),
        rgcn,
        BASIS | {"linear_r.W": (1, 4, 6), "linear_r.coeff": (3, 1)},
        GRAPHS,
    ),
    Case(
        "RelGraphConv bdd",
        lambda: RelGraphConv(4, 6, 3, "bdd", 2),
        inputs(source(), etypes, norm),
        rgcn,
        FULL | {"linear_r.W": (3, 12)},
        GRAPHS,
    ),
    Case(
        "HGTConv",
        lambda: HGTConv(4, 3, 2, 2, 3),
        inputs(source(), ntypes, etypes),
        hgt,
        HGT,
        GRAPHS,
        refused=((inputs(source(), ntypes, lambda g: etypes(g) - 1), "edge types hold -1"),),
    ),
    Case(
        "HGTConv of sources",
        lambda: HGTConv(6, 3, 2, 2, 3, use_norm=True),
        inputs(source(6), ntypes, one_type),
        hgt,
        SAME_SIZE,
        ("graph", "block"),
    ),
]
