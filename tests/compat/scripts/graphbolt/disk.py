"""Features on disk behind caches, PyG layers, stages of a user's own: examples/graphbolt/disk_based_feature and pyg."""

import dgl
import dgl.graphbolt as gb
import numpy as np
import torch
import torch.nn.functional as F


class MeanLayer(torch.nn.Module):
    """What a PyG layer does with a pair of features and edges."""

    def __init__(self, in_size, out_size):
        super().__init__()
        self.neighbour, self.own = torch.nn.Linear(in_size, out_size), torch.nn.Linear(in_size, out_size)

    def forward(self, x, edge_index, size):
        total = torch.zeros(size[1], x[0].shape[1]).index_add(0, edge_index[1], x[0][edge_index[0]])
        degree = torch.bincount(edge_index[1], minlength=size[1]).clamp(min=1)
        return self.neighbour(total / degree[:, None]) + self.own(x[1])


class Counted(gb.MiniBatchTransformer):
    """A stage that notes how many nodes a batch needs."""

    def __init__(self, datapipe):
        super().__init__(datapipe, self.count)

    def count(self, minibatch):
        minibatch.num_inputs = minibatch.node_ids().size(0)
        return minibatch


def main(folder, num_workers=0):
    torch.manual_seed(0)
    gb.seed(3)
    label = torch.arange(240) % 2
    src, dst = torch.randint(240, (3000,)), torch.randint(240, (3000,))
    keep = label[src] == label[dst]
    graph = gb.from_dglgraph(dgl.graph((src[keep], dst[keep]), num_nodes=240))
    x = (label[:, None] * 2.0 - 1 + 1.5 * torch.randn(240, 8)).numpy()
    gb.numpy_save_aligned(folder / "x.npy", x)
    data = [
        gb.OnDiskFeatureData(domain="node", name="feat", format="numpy", path=str(folder / "x.npy"), in_memory=False)
    ]
    features = gb.TorchBasedFeatureStore(data)
    assert isinstance(features["node", None, "feat"], gb.DiskBasedFeature)
    features["node", None, "feat"] = cached = gb.cpu_cached_feature(features["node", None, "feat"], 100 * 8 * 4)
    features["node", None, "feat"] = gb.gpu_cached_feature(cached, 20 * 8 * 4)
    items = gb.ItemSet((torch.arange(160), label[:160]), names=("seeds", "labels"))
    datapipe = gb.ItemSampler(items, batch_size=32, shuffle=True)
    datapipe = gb.LayerNeighborSampler(datapipe, graph, [4, 4], batch_dependency=2)
    datapipe = gb.CopyTo(gb.FeatureFetcher(Counted(datapipe), features, ["feat"]), "cpu")
    layers = torch.nn.ModuleList([MeanLayer(8, 16), MeanLayer(16, 2)])
    opt = torch.optim.Adam(layers.parameters(), lr=0.02)
    for _ in range(8):
        correct = 0
        for minibatch in gb.DataLoader(datapipe, num_workers=num_workers):
            h = minibatch.node_features["feat"]
            assert np.array_equal(h.numpy(), x[minibatch.input_nodes.numpy()]) and minibatch.num_inputs == len(h)
            for i, (layer, subgraph) in enumerate(zip(layers, minibatch.sampled_subgraphs, strict=True)):
                pair, edge_index, size = subgraph.to_pyg(h)
                h = layer(pair, edge_index, size)
                h = F.relu(h) if i == 0 else h
            loss = F.cross_entropy(h, minibatch.labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            correct += (h.argmax(1) == minibatch.labels).sum().item()
    assert 0 < cached.miss_rate < 1
    return correct / 160
