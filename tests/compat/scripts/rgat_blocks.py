"""A relational GAT on sampled blocks of a graph of papers, authors and institutes, one GATConv per relation."""

import dgl
import torch as th
from dgl.nn.pytorch import GATConv, HeteroGraphConv
from torch import nn

COUNTS = {"paper": 8, "author": 6, "institute": 3}


class RGAT(nn.Module):
    def __init__(self, etypes, in_feats, hidden, n_classes, n_heads=2):
        super().__init__()
        self.layers = nn.ModuleList()
        for size in (in_feats, hidden):
            convs = {e: GATConv(size, hidden // n_heads, n_heads, allow_zero_in_degree=True) for e in etypes}
            self.layers.append(HeteroGraphConv(convs, aggregate="sum"))
        self.dropout = nn.Dropout(0.0)
        self.linear = nn.Linear(hidden, n_classes)

    def forward(self, blocks, x):
        h = x
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, h)
            h = dgl.apply_each(h, lambda x: x.view(x.shape[0], x.shape[1] * x.shape[2]))
            if i != len(self.layers) - 1:
                h = dgl.apply_each(h, nn.functional.leaky_relu)
                h = dgl.apply_each(h, self.dropout)
        return self.linear(h["paper"])


def ends(n_src, n_dst, k):
    pairs = [(u, v) for u in range(n_src) for v in range(n_dst) if (u * u + 2 * v + u + k) % 3]
    return tuple(th.tensor(end) for end in zip(*pairs, strict=True))


def make_graph():
    relations = [
        ("paper", "cites", "paper"),
        ("paper", "rev_written_by", "author"),
        ("author", "writes", "paper"),
        ("author", "affiliated_with", "institute"),
        ("institute", "rev_affiliated_with", "author"),
    ]
    data = {r: ends(COUNTS[r[0]], COUNTS[r[2]], k) for k, r in enumerate(relations)}
    g = dgl.heterograph(data, num_nodes_dict=COUNTS)
    g.add_nodes(1, ntype="paper")  # without an edge
    for ntype in g.ntypes:
        n = g.num_nodes(ntype)
        g.nodes[ntype].data["feat"] = th.sin(th.arange(n * 5.0) * len(ntype)).view(n, 5)
    g.nodes["paper"].data["label"] = th.arange(g.num_nodes("paper")) % 3
    return g.formats(["csc"])


def results():
    g = make_graph()
    model = RGAT(g.etypes, 5, 6, 3)
    with th.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(th.cos(th.arange(float(weight.numel())) + len(name)).view_as(weight) / 2)
    sampler = dgl.dataloading.NeighborSampler([50, 50])
    loader = dgl.dataloading.DataLoader(
        g, {"paper": th.tensor([7, 2, 0, 8, 5])}, sampler, batch_size=3, shuffle=False, drop_last=False, num_workers=0
    )
    results = {}
    for step, (input_nodes, output_nodes, blocks) in enumerate(loader):
        blocks = [block.to(th.device("cpu")) for block in blocks]
        x = blocks[0].srcdata["feat"]
        y = blocks[-1].dstdata["label"]["paper"]
        assert y.tolist() == (output_nodes["paper"] % 3).tolist()
        assert {t: len(n) for t, n in input_nodes.items()} == {t: len(n) for t, n in x.items()}
        y_hat = model(blocks, x)
        nn.functional.cross_entropy(y_hat, y).backward()
        results[f"logits{step}"] = y_hat
    return {**results, **{name: p.grad for name, p in model.named_parameters() if p.grad is not None}}
