import dgl
import numpy as np
import torch
from anndata import AnnData
from dance.data import Data
from dance.modules.single_modality.cell_type_annotation.scdeepsort import GNN
from dance.transforms.graph import PCACellFeatureGraph

np.random.seed(0)
torch.manual_seed(0)
counts = np.random.poisson(0.3, (200, 100)).astype(np.float32) + np.eye(200, 100, dtype=np.float32)
data = Data(AnnData(counts), train_size="all")
PCACellFeatureGraph(n_components=20, split_name="train")(data)
g = data.data.uns["CellFeatureGraph"]
model = GNN(20, 4, 32, 2, 100)
sampler = dgl.dataloading.NeighborSampler([-1, -1], edge_dir="in")
g.ndata["id"] = g.ndata["cell_id"].long()
batches = dgl.dataloading.DataLoader(g, torch.arange(100, 300), sampler, batch_size=200)


def step():
    model.zero_grad()
    for _, _, blocks in batches:
        loss = model(blocks, blocks[0].srcdata["features"].float()).square().mean()
        loss.backward()
    return loss


print("value", step().item())
