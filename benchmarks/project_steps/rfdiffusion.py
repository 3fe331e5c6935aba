import dgl
import torch
from se3_transformer.model import SE3Transformer
from se3_transformer.model.fiber import Fiber

torch.manual_seed(0)
u, v = torch.randint(200, (2, 3000))
g = dgl.graph((u, v), num_nodes=200)
g.edata["rel_pos"] = torch.randn(3000, 3)
x = {"0": torch.randn(200, 32, 1), "1": torch.randn(200, 32, 3)}
fibers = {"fiber_in": Fiber({0: 32, 1: 32}), "fiber_hidden": Fiber.create(2, 16), "fiber_out": Fiber({0: 1})}
model = SE3Transformer(num_layers=2, **fibers, fiber_edge=Fiber({}), num_heads=4, channels_div=2)


def step():
    model.zero_grad()
    loss = sum(y.square().mean() for y in model(g, x, {}).values())
    loss.backward()
    return loss


print("value", step().item())
