import dgl
import torch
from aug import random_aug
from model import CCA_SSG

torch.manual_seed(0)
u, v = torch.randint(600, (2, 5000))
g = dgl.graph((u, v), num_nodes=600)
x = torch.randn(600, 64)
model = CCA_SSG(64, 128, 128, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def step():
    torch.manual_seed(1)
    (first, x1), (second, x2) = (random_aug(g.remove_self_loop(), x, 0.2, 0.4) for _ in range(2))
    z1, z2 = model(first.add_self_loop(), x1, second.add_self_loop(), x2)
    correlation, eye = z1.T @ z2 / 600, torch.eye(128)
    loss = -torch.diagonal(correlation).sum() + 1e-3 * sum(((eye - z.T @ z / 600) ** 2).sum() for z in (z1, z2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


print("value", [step() for _ in range(3)][-1])
