"""Charges of the atoms of molecules: batched graphs, SAGE and GCN stacks, charges that sum to the whole, readouts."""

import dgl
import dgl.function as fn
import torch as th
from dgl.nn.pytorch import GraphConv, SAGEConv
from torch import nn

BONDS = {
    "methanol": [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5)],
    "water": [(0, 1), (0, 2)],
    "helium": [],
    "ozone": [(0, 1), (1, 2)],
}
SIZES = {"methanol": 6, "water": 3, "helium": 1, "ozone": 3}


def molecule(name):
    u, v = (th.tensor([bond[i] for bond in BONDS[name]], dtype=th.int32) for i in (0, 1))
    g = dgl.heterograph(
        {("atom", "forward", "atom"): (u, v), ("atom", "reverse", "atom"): (v, u)}, {"atom": SIZES[name]}
    )
    n = g.number_of_nodes()
    g.ndata["h"] = th.sin(th.arange(n * 7.0) + len(name)).view(n, 7)
    g.ndata["formal"] = th.zeros(n)
    g.ndata["formal"][0] = float(name == "ozone")
    for etype in g.etypes:
        g.edges[etype].data["order"] = th.ones(g.num_edges(etype), 1)
    return g


class Stack(nn.Module):
    def __init__(self, sage):
        super().__init__()
        if sage:
            kinds = [SAGEConv(7, 8, "mean", activation=nn.ReLU()), SAGEConv(8, 8, "pool")]
        else:
            kinds = [GraphConv(7, 8, activation=nn.ReLU(), allow_zero_in_degree=True)]
            kinds += [GraphConv(8, 8, norm="right", allow_zero_in_degree=True)]
        self.convs = nn.ModuleList(kinds)

    def forward(self, graph, h):
        for conv in self.convs:
            h = conv(graph, h)
        return h


class Charges(nn.Module):
    """Electronegativity and hardness of each atom, and from them charges whose sum is the molecule's."""

    def __init__(self, sage):
        super().__init__()
        self.stack = Stack(sage)
        self.pooling = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 2))

    def forward(self, batch):
        flat = dgl.to_homogeneous(batch, ndata=["h"])
        flat.set_batch_num_nodes(batch.batch_num_nodes())
        flat.set_batch_num_edges(batch.batch_num_edges("forward") + batch.batch_num_edges("reverse"))
        both = self.pooling(self.stack(flat, flat.ndata["h"]))
        e, s = both[:, 0], both[:, 1].exp()
        with batch.local_scope():
            batch.ndata["1/s"], batch.ndata["e/s"] = 1 / s, e / s
            total = dgl.sum_nodes(batch, "formal") + dgl.readout_nodes(batch, "e/s", op="sum")
            shared = dgl.broadcast_nodes(batch, total / dgl.sum_nodes(batch, "1/s"))
            batch.ndata["q"] = (shared - e) / s
            batch.ndata["column"] = batch.ndata["q"][:, None]
            passed = fn.u_mul_e("column", "order", "m"), fn.sum("m", "around")
            batch.multi_update_all(dict.fromkeys(batch.etypes, passed), "sum")
            return [part.ndata["q"] for part in dgl.unbatch(batch)], batch.ndata["around"], batch.ndata["q"]


def results():
    names = list(BONDS)
    results = {}
    for kind in ("sage", "gcn"):
        batch = dgl.batch([molecule(name) for name in names])
        assert batch.batch_size == len(names) and batch.idtype == th.int32
        model = Charges(kind == "sage")
        with th.no_grad():
            for i, weight in enumerate(model.parameters()):
                weight.copy_(th.cos(th.arange(float(weight.numel())) + i).view_as(weight) / 2)
        batch.ndata["h"] = batch.ndata["h"].requires_grad_()
        parts, around, charges = model(batch)
        assert [len(part) for part in parts] == [SIZES[name] for name in names]
        sums = th.stack([part.sum() for part in parts])
        assert th.allclose(sums, th.tensor([0.0, 0.0, 0.0, 1.0]), atol=1e-5)
        (charges.square().sum() + around.square().sum() + parts[0].prod()).backward()
        results |= {f"{kind} charges": charges, f"{kind} around": around, f"{kind} h": batch.ndata["h"].grad}
        results |= {f"{kind} {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    return results
