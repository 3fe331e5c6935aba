from types import SimpleNamespace

import dgl
import torch
from data import gen_rel_subset_feature
from model import SIGN, WeightedAggregator

torch.manual_seed(0)
SIZES = {"paper": 400, "author": 300, "venue": 20}
RELATIONS = [("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "in", "venue")]
pairs = {(a, r, b): tuple(torch.randperm(2000) % SIZES[ntype] for ntype in (a, b)) for a, r, b in RELATIONS}
g = dgl.heterograph(pairs, SIZES)
for ntype, size in SIZES.items():
    g.nodes[ntype].data["feat"] = torch.randn(size, 32)
subsets = [["writes"], ["cites"], ["writes", "cites"], ["cites", "in"], ["writes", "cites", "in"]]
aggregator, model = WeightedAggregator(len(subsets), 32, 3), SIGN(32, 64, 4, 3, 2, 0.0, 0.0)


def step():
    hops = [gen_rel_subset_feature(g, subset, SimpleNamespace(R=2, cpu_preprocess=True), "cpu") for subset in subsets]
    loss = model(aggregator([torch.stack(feats, 1) for feats in zip(*hops, strict=True)])).square().mean()
    model.zero_grad()
    aggregator.zero_grad()
    loss.backward()
    return loss.item()


print("value", step())
