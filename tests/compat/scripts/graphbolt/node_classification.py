"""Node classification by neighbour or layer sampling, as DGL's examples/graphbolt/node_classification.py."""

import dgl
import dgl.graphbolt as gb
import dgl.nn as dglnn
import torch
import torch.nn as nn
import torch.nn.functional as F


def create_dataloader(graph, features, itemset, batch_size, fanout, device, num_workers, job, mode):
    datapipe = gb.ItemSampler(itemset, batch_size=batch_size, shuffle=(job == "train"), drop_last=(job == "train"))
    datapipe = datapipe.copy_to(device=device)
    kwargs = {"layer_dependency": True, "batch_dependency": 4} if mode == "sample_layer_neighbor" else {}
    datapipe = getattr(datapipe, mode)(graph, fanout if job != "infer" else [-1], overlap_fetch=True, **kwargs)
    datapipe = datapipe.fetch_feature(features, node_feature_keys=["feat"], overlap_fetch=False)
    return gb.DataLoader(datapipe, num_workers=num_workers)


class SAGE(nn.Module):
    def __init__(self, in_size, hidden_size, out_size):
        super().__init__()
        self.layers = nn.ModuleList(
            [dglnn.SAGEConv(in_size, hidden_size, "mean"), dglnn.SAGEConv(hidden_size, out_size, "mean")]
        )
        self.out_size = out_size

    def forward(self, blocks, x):
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x = layer(block, x)
            x = x if i == len(self.layers) - 1 else F.relu(x)
        return x

    @torch.no_grad()
    def inference(self, graph, features, dataloader):
        for i, layer in enumerate(self.layers):
            last = i == len(self.layers) - 1
            y = torch.empty(graph.total_num_nodes, layer._out_feats)
            for data in dataloader:
                hidden = layer(data.blocks[0], data.node_features["feat"])
                y[data.seeds[0] : data.seeds[-1] + 1] = hidden if last else F.relu(hidden)
            if not last:
                features.update("node", None, "feat", y)
        return y


def main(mode="sample_neighbor", num_workers=0, device="cpu"):
    torch.manual_seed(0)
    gb.seed(0)
    label = torch.arange(300) % 3
    src = torch.randint(300, (6000,))
    dst = torch.randint(300, (6000,))
    keep = (label[src] == label[dst]) | (torch.rand(6000) < 0.2)
    graph = gb.from_dglgraph(dgl.graph((src[keep], dst[keep]), num_nodes=300)).pin_memory_()
    feat = F.one_hot(label, 3).float() + torch.randn(300, 3)
    features = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(feat)})
    train_set = gb.ItemSet((torch.arange(0, 200), label[:200]), names=("seeds", "labels"))
    model = SAGE(3, 16, 3).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(8):
        for data in create_dataloader(graph, features, train_set, 32, [5, 5], device, num_workers, "train", mode):
            loss = F.cross_entropy(model(data.blocks, data.node_features["feat"]), data.labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
    everything = gb.ItemSet(graph.total_num_nodes, names="seeds")
    loader = create_dataloader(graph, features, everything, 64, [5, 5], device, num_workers, "infer", "sample_neighbor")
    y = model.inference(graph, features, loader)
    return (y[200:].argmax(1) == label[200:]).float().mean().item()
