import types

import dgl
import main
import torch
from BWGNN import BWGNN, BWGNN_Hetero

torch.manual_seed(0)
g = dgl.graph(torch.randint(2000, (2, 20000)).unbind(), num_nodes=2000)
g.ndata["feature"] = torch.randn(2000, 32)
g.ndata["label"] = (torch.rand(2000) < 0.2).long()
hetero = dgl.heterograph({("r", f"net_{i}", "r"): torch.randint(2000, (2, 9000)).unbind() for i in range(3)})
torch.manual_seed(1)
of_types = BWGNN_Hetero(32, 16, 2, hetero)(g.ndata["feature"]).sum().item()
model = BWGNN(32, 64, 2, g)
sampler = dgl.dataloading.MultiLayerFullNeighborSampler(1)
_, _, blocks = next(iter(dgl.dataloading.DataLoader(g, torch.arange(2000), sampler, batch_size=2000)))
of_block = BWGNN(32, 16, 2, g, batch=True).batch(blocks, g.ndata["feature"]).sum().item()
main.dataset_name = "generated"
main.train(model, g, types.SimpleNamespace(train_ratio=0.4, epoch=3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def step():
    loss = torch.nn.functional.cross_entropy(model(g.ndata["feature"]), g.ndata["label"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


print("value", step().item() + of_types)
