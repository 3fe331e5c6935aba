"""A data set of one's own: split, batched, saved, read again and classified by a readout."""

import os
import sys

import dgl
import numpy as np
import torch
from dgl.data import DGLDataset
from dgl.data.utils import Subset, load_graphs, load_info, makedirs, save_graphs, save_info, split_dataset
from dgl.nn import GraphConv
from dgl.utils import recursive_apply
from torch.utils.data import DataLoader


class Cycles(DGLDataset):
    """Cycles and stars, which the model is to classify."""

    def __init__(self, save_dir, force_reload=False):
        super().__init__(name="cycles", save_dir=save_dir, raw_dir=save_dir, force_reload=force_reload, verbose=False)

    def process(self):
        self.graphs, labels = [], []
        for i in range(40):
            size = 4 + i % 5
            ring = torch.arange(size)
            ends = (ring, ring.roll(1)) if i % 2 else (torch.zeros(size - 1, dtype=torch.int64), ring[1:])
            g = dgl.to_bidirected(dgl.graph(ends, num_nodes=size))
            g.ndata["attr"] = torch.eye(4)[g.in_degrees().clamp(max=3)]
            self.graphs.append(dgl.add_self_loop(g))
            labels.append(i % 2)
        self.labels = torch.tensor(labels)

    def has_cache(self):
        return os.path.exists(os.path.join(self.save_path, "graphs.bin"))

    def save(self):
        makedirs(self.save_path)
        save_graphs(os.path.join(self.save_path, "graphs.bin"), self.graphs, {"labels": self.labels})
        save_info(os.path.join(self.save_path, "info.pkl"), {"classes": 2})

    def load(self):
        self.graphs, labels = load_graphs(os.path.join(self.save_path, "graphs.bin"))
        self.labels = labels["labels"]
        self.num_classes = load_info(os.path.join(self.save_path, "info.pkl"))["classes"]

    def __getitem__(self, idx):
        return self.graphs[idx], self.labels[idx]

    def __len__(self):
        return len(self.graphs)


def collate(samples):
    graphs, labels = map(list, zip(*samples, strict=True))
    return dgl.batch(graphs), torch.tensor(labels)


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GraphConv(4, 16), GraphConv(16, 16)
        self.classify = torch.nn.Linear(16, 2)

    def forward(self, g):
        h = torch.relu(self.conv1(g, g.ndata["attr"]))
        g.ndata["h"] = torch.relu(self.conv2(g, h))
        return self.classify(dgl.mean_nodes(g, "h"))


def main(folder):
    np.random.seed(1)
    torch.manual_seed(2)
    Cycles(folder)
    dataset = Cycles(folder)
    assert dataset.num_classes == 2, "read from what the first one saved"
    train, val, test = split_dataset(dataset, [0.6, 0.2, 0.2], shuffle=True, random_state=3)
    assert isinstance(train, Subset) and [len(train), len(val), len(test)] == [24, 8, 8]
    loader = DataLoader(train, batch_size=8, shuffle=True, collate_fn=collate)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(30):
        for batched, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(batched), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    batched, labels = collate([test[i] for i in range(len(test))])
    assert recursive_apply({"n": batched.batch_num_nodes()}, torch.sum)["n"] == batched.num_nodes()
    print(f"accuracy {(model(batched).argmax(1) == labels).float().mean().item():.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
