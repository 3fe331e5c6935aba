"""Layers that make one row of each graph's nodes, and the set transformer's encoder."""

from __future__ import annotations

from typing import Any

import torch

from dglite.nn import (
    AvgPooling,
    GlobalAttentionPooling,
    MaxPooling,
    Set2Set,
    SetTransformerDecoder,
    SetTransformerEncoder,
    SortPooling,
    SumPooling,
    WeightAndSum,
)
from tests.nn import dense
from tests.nn.laws import Case, feat, inputs

BATCHED = ("batch", "graph", "empty")


def parts(g: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Return the rows of each graph."""
    return list(x.split(g.batch_num_nodes().tolist()))


def by_graph(reduce: Any) -> Any:
    """Return the formula that reduces each graph's rows (n, d), 0 for a graph without nodes."""

    def plain(layer: Any, g: Any, x: torch.Tensor, *_: Any) -> torch.Tensor:
        like = reduce(layer, torch.zeros(1, x.shape[1], dtype=x.dtype))
        return torch.stack([reduce(layer, rows) if len(rows) else torch.zeros_like(like) for rows in parts(g, x)])

    return plain


def sort(layer: SortPooling, rows: torch.Tensor) -> torch.Tensor:
    rows = rows.sort(-1).values
    first = rows[rows[:, -1].argsort(descending=True)][: layer.k]
    return torch.cat([first.flatten(), first.new_zeros((layer.k - len(first)) * first.shape[1])])


def gated(layer: GlobalAttentionPooling, rows: torch.Tensor) -> torch.Tensor:
    values = rows if layer.feat_nn is None else layer.feat_nn(rows)
    return (torch.softmax(layer.gate_nn(rows), 0) * values).sum(0)


def gated_with_weights(layer: GlobalAttentionPooling, g: Any, x: torch.Tensor, _: bool) -> Any:
    weights = [torch.softmax(layer.gate_nn(rows), 0) for rows in parts(g, x)]
    return by_graph(gated)(layer, g, x), torch.cat(weights)


def set2set(layer: Set2Set, g: Any, x: torch.Tensor) -> torch.Tensor:
    read, states = x.new_zeros(1, g.batch_size, layer.output_dim), None
    for _ in range(layer.n_iters):
        q, states = layer.lstm(read, states)
        results = [torch.softmax(rows @ query, 0) @ rows for rows, query in zip(parts(g, x), q[0], strict=True)]
        read = torch.cat([q[0], torch.stack(results)], -1)[None]
    return read[0]


def attend(block: Any, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """Return one graph's rows after a block of attention, (n, d)."""
    outputs = []
    for h in range(block.num_heads):
        own = slice(h * block.d_head, (h + 1) * block.d_head)
        q, k, v = (
            x @ block.proj_q.weight[own].T,
            memory @ block.proj_k.weight[own].T,
            memory @ block.proj_v.weight[own].T,
        )
        outputs.append(torch.softmax(q @ k.T / block.d_head**0.5, -1) @ v)
    x = block.norm_in(x + torch.cat(outputs, -1) @ block.proj_o.weight.T)
    return block.norm_inter(x + block.ffn(x))


def encoder(layer: SetTransformerEncoder, g: Any, x: torch.Tensor) -> torch.Tensor:
    results = []
    for rows in parts(g, x):
        for block in layer.layers:
            if layer.block_type == "sab":
                rows = attend(block.mha, rows, rows)
            else:
                rows = attend(block.mha[1], rows, attend(block.mha[0], block.inducing_points, rows))
        results.append(rows)
    return torch.cat(results)


def decoder(layer: SetTransformerDecoder, g: Any, x: torch.Tensor) -> torch.Tensor:
    results = []
    for rows in parts(g, x):
        seeds = attend(layer.pma.mha, layer.pma.seed_vectors, layer.pma.ffn(rows))
        for block in layer.layers:
            seeds = attend(block.mha, seeds, seeds)
        results.append(seeds.flatten())
    return torch.stack(results)


def attention_state(prefix: str) -> dict[str, tuple[int, ...]]:
    state = {f"{prefix}.proj_{name}.weight": (6, 4) for name in "qkv"} | {f"{prefix}.proj_o.weight": (4, 6)}
    state |= {f"{prefix}.ffn.0.weight": (5, 4), f"{prefix}.ffn.0.bias": (5,)}
    state |= {f"{prefix}.ffn.3.weight": (4, 5), f"{prefix}.ffn.3.bias": (4,)}
    return state | {
        f"{prefix}.{norm}.{name}": (4,) for norm in ("norm_in", "norm_inter") for name in ("weight", "bias")
    }


SORT = by_graph(sort)
LSTM = {"lstm.weight_ih_l0": (16, 8), "lstm.weight_hh_l0": (16, 4), "lstm.bias_ih_l0": (16,), "lstm.bias_hh_l0": (16,)}
LSTM |= {"lstm.weight_ih_l1": (16, 4), "lstm.weight_hh_l1": (16, 4), "lstm.bias_ih_l1": (16,), "lstm.bias_hh_l1": (16,)}
DECODER = {"pma.seed_vectors": (2, 4), "pma.ffn.0.weight": (5, 4), "pma.ffn.0.bias": (5,)}
DECODER |= {"pma.ffn.3.weight": (4, 5), "pma.ffn.3.bias": (4,)}
DECODER |= attention_state("pma.mha") | attention_state("layers.0.mha")
ISAB = {"layers.0.inducing_points": (2, 4)} | attention_state("layers.0.mha.0") | attention_state("layers.0.mha.1")

few_rows = (lambda g: (dense.double(3, 4),), "feat has shape .3, 4.; expected a row for each of the 7 nodes")
wide = (inputs(feat(5)), "shape .7, 5.; expected")
result = inputs(feat())


def case(name: str, make: Any, plain: Any, state: Any, refused: Any = (few_rows,), **how: Any) -> Case:
    how = {"inputs": result, "graphs": BATCHED} | how
    return Case(name, make, plain=plain, state=state, refused=refused, **how)


CASES = [
    case("SumPooling", SumPooling, by_graph(lambda _, rows: rows.sum(0)), {}),
    case("AvgPooling", AvgPooling, by_graph(lambda _, rows: rows.mean(0)), {}),
    case("MaxPooling", MaxPooling, by_graph(lambda _, rows: rows.max(0).values), {}, smooth=False),
    case("SortPooling", lambda: SortPooling(3), SORT, {}, smooth=False),
    case(
        "WeightAndSum",
        lambda: WeightAndSum(4),
        by_graph(lambda layer, rows: (layer.atom_weighting(rows) * rows).sum(0)),
        {"atom_weighting.0.weight": (1, 4), "atom_weighting.0.bias": (1,)},
        (few_rows, wide),
    ),
    case(
        "GlobalAttentionPooling",
        lambda: GlobalAttentionPooling(torch.nn.Linear(4, 1)),
        by_graph(gated),
        {"gate_nn.weight": (1, 4), "gate_nn.bias": (1,)},
    ),
    case(
        "GlobalAttentionPooling weights",
        lambda: GlobalAttentionPooling(torch.nn.Linear(4, 1), torch.nn.Linear(4, 3)),
        gated_with_weights,
        {"gate_nn.weight": (1, 4), "gate_nn.bias": (1,), "feat_nn.weight": (3, 4), "feat_nn.bias": (3,)},
        inputs=inputs(feat(), lambda g: True),
    ),
    case("Set2Set", lambda: Set2Set(4, 3, 2), set2set, LSTM, (few_rows, wide), smooth=False),
    case(
        "SetTransformerEncoder",
        lambda: SetTransformerEncoder(4, 2, 3, 5, 2),
        encoder,
        attention_state("layers.0.mha") | attention_state("layers.1.mha"),
        (few_rows, wide),
        smooth=False,
    ),
    case(
        "SetTransformerEncoder isab",
        lambda: SetTransformerEncoder(4, 2, 3, 5, 1, "isab", 2),
        encoder,
        ISAB,
        (few_rows, wide),
        smooth=False,
    ),
    case(
        "SetTransformerDecoder",
        lambda: SetTransformerDecoder(4, 2, 3, 5, 1, 2),
        decoder,
        DECODER,
        (few_rows, wide),
        smooth=False,
    ),
]
