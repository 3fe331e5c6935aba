import dgl
import torch
from model_RFAGNN import RFAGNN

torch.manual_seed(0)
SHARED = {
    "in_dim": 16, "graph_dim": 16, "hidden_dim": 16, "num_graph": 3, "num_hop": 2, "dropout": 0.0, "beta": 0.2,
    "model_mode": 1, "graph_mode": 0,
}  # fmt: skip


def random_graph(num_nodes, num_edges):
    g = dgl.add_self_loop(dgl.graph(tuple(torch.randint(num_nodes, (2, num_edges))), num_nodes=num_nodes))
    g.ndata["d"] = g.in_degrees().float().pow(-0.5)
    return g


whole, several = random_graph(400, 3000), dgl.batch([random_graph(20, 60) for _ in range(16)])
atoms, norm = torch.randint(28, (320,)), torch.full((320, 1), 0.2)
cases = [
    (RFAGNN(whole, {**SHARED, "dataset": "cora", "out_dim": 4}), (torch.randn(400, 16),)),
    (RFAGNN(several, {**SHARED, "dataset": "syn-relation", "out_dim": 4}), (torch.randn(320, 16),)),
    (RFAGNN(several.clone(), {**SHARED, "dataset": "zinc", "out_dim": 1}), (atoms, norm)),
]


def step():
    total = 0.0
    for model, arguments in cases:
        model.zero_grad()
        loss = model(*arguments).square().mean() + model.compute_disentangle_loss()
        loss.backward()
        total += loss.item()
    return total


print("value", step())
