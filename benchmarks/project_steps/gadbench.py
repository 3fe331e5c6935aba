import dgl
import torch
from models import gnn

torch.manual_seed(0)
u, v = torch.randint(400, (2, 4000))
g = dgl.add_self_loop(dgl.graph((u, v), num_nodes=400))
g.ndata["feature"] = torch.randn(400, 16)
models = [
    getattr(gnn, name)(16, graph=g)
    for name in ("GCN", "GIN", "GraphSAGE", "SGC", "AMNet", "BWGNN", "BernNet", "ChebNet", "PNA")
]


def step():
    total = 0.0
    for model in models:
        model.zero_grad()
        loss = model(g).square().mean()
        loss.backward()
        total += loss.item()
    return total


print("value", step())
