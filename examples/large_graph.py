"""Train on a graph that stays on disk: edges and features are mapped, and batches read what they need.

    python examples/large_graph.py --expect 0.8
    python examples/large_graph.py --nodes 5000000 --edges 100000000 --folder /data/large

A made-up graph and its features are written to two files, once; a folder that has them is taken as it is. Then the
graph is opened by `load_graphs(..., mmap=True)`, which reads no edge, and features by `MappedFeatures`, which reads
those rows of a batch that `CachedFeatures` does not keep in memory: here the twentieth of the nodes that batches need
most. Features say little of a node's class, its neighbours' together much. Test accuracy of 10,000 nodes with the
defaults, 512 MB of features and 88 MB of edges: features alone 0.314, GraphSAGE 0.826. Memory grew by 425 MB meanwhile,
batches that are made ahead and the optimizer's code included. docs/memory.md has settings for malloc that make training
on large graphs faster.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import dglite
from dglite.dataloading import CachedFeatures, DataLoader, MappedFeatures, NeighborSampler, hot_rows
from dglite.nn import SAGEConv

CLASSES, WIDTH = 8, 128


def write(folder: Path, num_nodes: int, num_edges: int) -> None:
    """Write a graph whose edges mostly join nodes of a class, and float16 features, a part at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = dglite.rand_power_law_graph(num_nodes, num_edges, num_communities=CLASSES, homophily=0.7)
    dglite.save_graphs(folder / "graph.dgl", graph, formats="csc")
    unfinished = folder / "features.partial"
    features = np.lib.format.open_memmap(unfinished, "w+", np.float16, (num_nodes, WIDTH))
    for nodes in torch.arange(num_nodes).split(100_000):
        features[nodes[0] : nodes[-1] + 1] = torch.randn(len(nodes), WIDTH) + 0.8 * F.one_hot(nodes % CLASSES, WIDTH)
    features.flush()
    unfinished.rename(folder / "features.npy")


def resident() -> float:
    """Return the memory of this process that is its own, without pages of mapped files, in MB; 0 if not on Linux."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(float(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000


class SAGE(nn.Module):
    """Layers that join a node with the mean of its neighbours; none, and it is the baseline."""

    def __init__(self, hidden: int, num_layers: int) -> None:
        super().__init__()
        sizes = [WIDTH] + [hidden] * num_layers
        self.convs = nn.ModuleList(SAGEConv(a, b, "mean", activation=F.relu) for a, b in pairwise(sizes))
        self.last = nn.Linear(sizes[-1], CLASSES)

    def forward(self, blocks: list[dglite.DGLGraph], h: Tensor) -> Tensor:
        """Return logits of the last block's destination nodes."""
        for conv, block in zip(self.convs, blocks[len(blocks) - len(self.convs) :], strict=True):
            h = conv(block, h)
        return self.last(h[: blocks[-1].num_dst_nodes()])


def batches(graph: dglite.DGLGraph, nodes: Tensor, store: CachedFeatures | None) -> DataLoader:
    """Return batches of nodes, with features from a store, that are made in a thread ahead."""
    sampler = NeighborSampler([10, 10], prefetch_node_feats={"feat": store} if store else None)
    return DataLoader(graph, nodes, sampler, batch_size=500, shuffle=True, num_workers=1)


def accuracy(model: SAGE, loader: DataLoader) -> float:
    """Return the accuracy over a loader's nodes."""
    right = total = 0
    with torch.no_grad():
        for _, nodes, blocks in loader:
            right += int((model(blocks, blocks[0].srcdata["feat"]).argmax(1) == nodes % CLASSES).sum())
            total += len(nodes)
    return right / total


def main() -> None:
    """Write the files, train, print accuracies and memory."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=2_000_000, help="of the generated graph; default: %(default)s")
    parser.add_argument("--edges", type=int, default=20_000_000, help="of the generated graph; default: %(default)s")
    parser.add_argument("--hidden", type=int, default=64, help="size of hidden layers; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=2, help="passes over the training data; default: %(default)s")
    parser.add_argument(
        "--labelled",
        type=int,
        default=50_000,
        help="nodes to train on; a fifth as many are tested; default: %(default)s",
    )
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: %(default)s")
    parser.add_argument("--folder", type=Path, help="where the files are; default: a temporary folder")
    parser.add_argument("--expect", type=float, metavar="ACCURACY", help="fail when GraphSAGE's is below")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    dglite.seed(arguments.seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / "features.npy").exists():
            write(folder, arguments.nodes, arguments.edges)
        before = resident()
        (graph,), _ = dglite.load_graphs(folder / "graph.dgl", mmap=True)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        print(f"{graph.num_nodes()} nodes, {graph.num_edges()} edges, {size:.0f} MB on disk")
        nodes = torch.randperm(graph.num_nodes())[: arguments.labelled * 6 // 5]
        training, test = nodes[: arguments.labelled], nodes[arguments.labelled :]
        hot = hot_rows(batches(graph, training, None), graph.num_nodes(), graph.num_nodes() // 20)
        store = CachedFeatures(MappedFeatures(folder / "features.npy"), hot)
        accuracies = {}
        for name, num_layers in (("features alone", 0), ("GraphSAGE", 2)):
            model = SAGE(arguments.hidden, num_layers)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
            for epoch in range(arguments.epochs):
                for _, seeds, blocks in tqdm(
                    batches(graph, training, store), desc=f"{name}, epoch {epoch}", disable=None
                ):
                    loss = F.cross_entropy(model(blocks, blocks[0].srcdata["feat"]), seeds % CLASSES)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            accuracies[name] = accuracy(model, batches(graph, test, store))
            print(f"{name}: test accuracy {accuracies[name]:.3f}")
        print(f"rows from memory {100 * store.hit_rate:.0f}%, memory grew by {resident() - before:.0f} MB")
    if arguments.expect is not None and accuracies["GraphSAGE"] < arguments.expect:
        sys.exit(f"expected a test accuracy of at least {arguments.expect}, got {accuracies['GraphSAGE']:.3f}")


if __name__ == "__main__":
    main()
