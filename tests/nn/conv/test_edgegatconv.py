"""EdgeGATConv draws its weights in DGL's order."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dglite.nn import EdgeGATConv


@pytest.mark.parametrize("in_feats", [3, (3, 4)])
def test_a_seed_gives_dgls_weights(in_feats: int | tuple[int, int]) -> None:
    torch.manual_seed(0)
    layer = EdgeGATConv(in_feats, 2, 5, 2)
    torch.manual_seed(0)
    sides = ["fc_src", "fc_dst"] if isinstance(in_feats, tuple) else ["fc"]
    for name in (*sides, "res_fc", "fc_edge"):  # nn.Linear draws when it is made
        linear = layer.get_submodule(name)
        nn.Linear(linear.in_features, linear.out_features, bias=False)
    drawn = [f"{name}.weight" for name in sides]
    for name in (*drawn, "attn_l", "attn_r", "fc_edge.weight", "attn_edge", "res_fc.weight"):
        weight = torch.empty_like(layer.get_parameter(name))
        nn.init.xavier_normal_(weight, gain=nn.init.calculate_gain("relu"))
        assert torch.equal(weight, layer.get_parameter(name)), name
