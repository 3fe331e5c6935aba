"""A graph convolution written by hand and one of the library's, trained on Cora, as DGL's users write it."""

import argparse

import dgl
import dgl.function as fn
import torch as th
import torch.nn as nn
import torch.nn.functional as F
from dgl import AddSelfLoop
from dgl.data import CoraGraphDataset
from dgl.nn.pytorch import GraphConv


class GCNLayer(nn.Module):
    def __init__(self, in_feats, out_feats):
        super().__init__()
        self.linear = nn.Linear(in_feats, out_feats)

    def forward(self, g, h):
        with g.local_scope():
            g.ndata["h"] = self.linear(h)
            g.update_all(message_func=fn.copy_u("h", "m"), reduce_func=fn.mean("m", "h"))
            return g.ndata.pop("h")


class Net(nn.Module):
    def __init__(self, in_feats, hidden, classes):
        super().__init__()
        self.layers = nn.ModuleList([GraphConv(in_feats, hidden, activation=F.relu), GCNLayer(hidden, classes)])
        self.dropout = nn.Dropout(0.5)

    def forward(self, g, h):
        for i, layer in enumerate(self.layers):
            h = layer(g, h if i == 0 else self.dropout(h))
        return h


def evaluate(model, g, mask):
    model.eval()
    with th.no_grad():
        pred = model(g, g.ndata["feat"]).argmax(dim=1)
    return (pred[mask] == g.ndata["label"][mask]).float().mean().item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    args = parser.parse_args()
    th.manual_seed(0)
    dgl.seed(0)
    data = CoraGraphDataset(transform=AddSelfLoop(), verbose=False)
    g = data[0].int()
    model = Net(g.ndata["feat"].shape[1], 16, data.num_classes)
    optimizer = th.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    for _ in range(args.epochs):
        model.train()
        logits = model(g, g.ndata["feat"])
        loss = F.cross_entropy(logits[g.ndata["train_mask"]], g.ndata["label"][g.ndata["train_mask"]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"Test accuracy {evaluate(model, g, g.ndata['test_mask']):.4f}")
