"""Link prediction with negatives and without the batch's own edges, as DGL's examples/graphbolt/link_prediction.py."""

from functools import partial

import dgl
import dgl.graphbolt as gb
import dgl.nn as dglnn
import torch
import torch.nn.functional as F
from torch.utils.data import functional_datapipe


@functional_datapipe("sample_negative_by_degree")
class DegreeNegativeSampler(gb.NegativeSampler):
    def __init__(self, datapipe, k, node_degrees):
        super().__init__(datapipe, k)
        self.weights, self.k = node_degrees.float() ** 0.75, k

    def _sample_with_etype(self, seeds, etype=None):
        src, _ = seeds.T
        src = src.repeat_interleave(self.k)
        dst = self.weights.multinomial(len(src), replacement=True)
        return src, dst


class SAGE(torch.nn.Module):
    def __init__(self, in_size, hidden_size):
        super().__init__()
        self.layers = torch.nn.ModuleList([dglnn.SAGEConv(in_size, hidden_size, "mean") for _ in range(1)])
        self.predictor = torch.nn.Linear(hidden_size, 1)

    def forward(self, blocks, x):
        for layer, block in zip(self.layers, blocks, strict=True):
            x = F.relu(layer(block, x))
        return x


def main(by_degree=False, as_method=True, num_workers=0):
    torch.manual_seed(0)
    gb.seed(1)
    community = torch.arange(200) % 4
    src, dst = torch.randint(200, (8000,)), torch.randint(200, (8000,))
    keep = community[src] == community[dst]
    g = dgl.add_reverse_edges(dgl.graph((src[keep], dst[keep]), num_nodes=200))
    graph = gb.from_dglgraph(g)
    feat = F.one_hot(community, 4).float() + 0.3 * torch.randn(200, 4)
    features = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(feat)})
    train_set = gb.ItemSet(torch.stack(g.edges(), 1)[:1000], names="seeds")
    datapipe = gb.ItemSampler(train_set, batch_size=100, shuffle=True)
    if by_degree:
        datapipe = datapipe.sample_negative_by_degree(2, g.in_degrees())
    else:
        datapipe = datapipe.sample_uniform_negative(graph, 2)
    datapipe = datapipe.sample_neighbor(graph, [10])
    if as_method:
        datapipe = datapipe.exclude_seed_edges(include_reverse_edges=True, asynchronous=False)
    else:
        datapipe = datapipe.transform(partial(gb.exclude_seed_edges, include_reverse_edges=True))
    datapipe = datapipe.fetch_feature(features, node_feature_keys=["feat"]).copy_to(device="cpu")
    loader = gb.DataLoader(datapipe, num_workers=num_workers)
    model = SAGE(4, 16)
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(6):
        correct = total = 0
        for data in loader:
            y = model(data.blocks, data.node_features["feat"])
            ends = data.compacted_seeds.T
            logits = model.predictor(y[ends[0]] * y[ends[1]]).squeeze(-1)
            loss = F.binary_cross_entropy_with_logits(logits, data.labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            correct += ((logits > 0) == (data.labels > 0)).sum().item()
            total += len(logits)
    return correct / total
