import dgl
import torch
from model import MODULES, Model

torch.manual_seed(0)
u, v = torch.randint(500, (2, 4000))
g = dgl.add_self_loop(dgl.to_bidirected(dgl.graph((u, v), num_nodes=500)))
x, label = torch.randn(500, 32), torch.randint(2, (500,)).float()
names = [name for name in MODULES if name != "ResNet"]
models = [Model(name, 2, 32, 64, 1, 1, 4, "LayerNorm", 0.0) for name in names]


def step():
    total = 0.0
    for model in models:
        model.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(g, x), label)
        loss.backward()
        total += loss.item()
    return total


print("value", step())
