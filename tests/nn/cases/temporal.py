"""Layers of temporal networks that ``tests/nn/test_laws.py`` tries; formulas of the others are beside them."""

from __future__ import annotations

from typing import Any

import torch

from dglite.nn import TGATConv
from tests.nn import dense
from tests.nn.laws import Case, add_up, efeat, ends, feat, inputs, sides


def tgat(layer: TGATConv, g: Any, x: Any, age: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """Return the layer's result, with a row of keys and values for each edge."""
    (source, destination), (src, dst), heads = sides(g, x), ends(g), layer._num_heads
    of_edge = torch.cat([e, layer.time_encoding(age[:, 0])], 1)
    now = layer.time_encoding(age.new_zeros(1)).expand(len(destination), -1)
    query = layer.fc_query(torch.cat([destination, now], 1))[dst].unflatten(1, (heads, -1))
    key = (layer.fc_key(source)[src] + layer.fc_key_edge(of_edge)).unflatten(1, (heads, -1))
    value = (layer.fc_value(source)[src] + layer.fc_value_edge(of_edge)).unflatten(1, (heads, -1))
    scores = (query * key).sum(-1, keepdim=True) / query.shape[-1] ** 0.5
    attended = add_up(g, dense.softmax_by_destination(g, scores) * value).flatten(1)
    if "fc_out.weight" not in layer.state_dict():
        return attended + layer.fc_merge(destination)
    return layer.fc_out(torch.relu(layer.fc_merge(torch.cat([attended, destination], 1))))


TGAT = {
    "time_encoding.frequency": (3,),
    "time_encoding.phase": (3,),
    **{
        f"fc_{name}.weight": (6, width)
        for name, width in {"query": 7, "key": 4, "value": 4, "merge": 10, "out": 6}.items()
    },
    **{f"fc_{name}.bias": (6,) for name in ("query", "key", "value", "merge", "out")},
    **{f"fc_{name}_edge.weight": (6, 5) for name in ("key", "value")},
}
CASES = [
    Case(
        "TGATConv",
        lambda: TGATConv(4, 2, 3, 6, 2),
        inputs(feat(), efeat(1), efeat(2, seed=5)),
        tgat,
        TGAT,
        smooth=False,
        refused=((inputs(feat(), efeat(1)), "edge_feat is missing"),),
    ),
    Case(
        "TGATConv",
        lambda: TGATConv(4, 2, 3, 6, 2, merge="sum"),
        inputs(feat(), efeat(1), efeat(2, seed=5)),
        tgat,
        {name: shape for name, shape in TGAT.items() if "out" not in name} | {"fc_merge.weight": (6, 4)},
        smooth=False,
    ),
]
