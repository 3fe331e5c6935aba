"""Train GraphSAGE on a graph in parts, one process for each part, on one machine or several.

    python examples/several_machines.py --partition 2 --folder parts
    torchrun --nproc-per-node 2 examples/several_machines.py --folder parts --expect 0.9

The first command makes a graph of 5 classes, cuts it, and prints what was cut; the second trains. Each process owns the
features of its part and samples around its own training nodes; features of other parts are fetched while the model
computes, and gradients are averaged by torch's DistributedDataParallel. On several machines, copy the folder to each
and start the second command there with torchrun's --nnodes and --rdzv-endpoint: see docs/machines.md.

The first process prints losses, validation accuracy, what it sent to others, and the test accuracy, 0.91 or so, and
draws losses and accuracy with --plot FILE.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import dglite
from dglite.dataloading import MultiLayerFullNeighborSampler, NeighborSampler
from dglite.distributed import DistGraph, DistNodeDataLoader, exit_client, initialize, node_split, partition_graph
from dglite.nn import SAGEConv

NAME, CLASSES, WIDTH = "planted", 5, 16


class GraphSAGE(nn.Module):
    """Two layers that average the neighbours: Hamilton, Ying and Leskovec, 2017."""

    def __init__(self, in_feats: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.first = SAGEConv(in_feats, hidden, "mean", activation=nn.functional.relu)
        self.second = SAGEConv(hidden, num_classes, "mean")

    def forward(self, blocks: list[dglite.DGLGraph], x: torch.Tensor) -> torch.Tensor:
        """Return logits of the last block's destination nodes."""
        return self.second(blocks[1], self.first(blocks[0], x))


def planted(num_nodes: int = 4000, degree: int = 8) -> dglite.DGLGraph:
    """Return a graph whose edges mostly stay inside a class, with features that say a little about it."""
    rng = np.random.default_rng(0)
    label = np.arange(num_nodes) * CLASSES // num_nodes
    src = np.repeat(np.arange(num_nodes), degree)
    inside = label[src] * (num_nodes // CLASSES) + rng.integers(0, num_nodes // CLASSES, len(src))
    dst = np.where(rng.random(len(src)) < 0.8, inside, rng.integers(0, num_nodes, len(src)))
    g = dglite.add_reverse_edges(dglite.graph((src, dst), num_nodes=num_nodes))
    noise = rng.standard_normal((num_nodes, WIDTH)).astype(np.float32)
    g.ndata["feat"] = torch.from_numpy(noise + np.eye(CLASSES, WIDTH, dtype=np.float32)[label])
    g.ndata["label"] = torch.from_numpy(label)
    part = torch.from_numpy(rng.permutation(num_nodes) % 10)
    g.ndata["train_mask"], g.ndata["val_mask"], g.ndata["test_mask"] = part < 3, part == 3, part > 3
    return g


def train(g: DistGraph, epochs: int, batch_size: int) -> tuple[nn.Module, list[tuple[float, float]]]:
    """Return the trained model, and the loss and validation accuracy of each epoch."""
    torch.manual_seed(0)
    model = DistributedDataParallel(GraphSAGE(g.ndata["feat"].shape[1], 32, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = NeighborSampler([10, 10], prefetch_node_feats=["feat"], prefetch_labels=["label"])
    nodes = node_split(g.ndata["train_mask"], g.get_partition_book())
    loader = DistNodeDataLoader(g, nodes, sampler, batch_size=batch_size, shuffle=True, num_workers=1)
    history = []
    for epoch in range(epochs):
        total = torch.zeros(2)
        for _, seeds, blocks in loader:
            count = torch.tensor(float(len(seeds)))
            distributed.all_reduce(count)
            logits = model(blocks, blocks[0].srcdata["feat"])
            loss = nn.functional.cross_entropy(logits, blocks[-1].dstdata["label"], reduction="sum")
            optimizer.zero_grad()
            # DDP takes the mean over processes, whose batches may differ in size.
            (loss * distributed.get_world_size() / count).backward()
            optimizer.step()
            total += torch.tensor([loss.item(), len(seeds)])
        distributed.all_reduce(total)
        history.append(((total[0] / total[1]).item(), accuracy(model.module, g, "val_mask")))
        if g.rank() == 0:
            print(f"epoch {epoch}: loss {history[-1][0]:.3f}, validation accuracy {history[-1][1]:.3f}")
    if g.rank() == 0:
        sent = ", ".join(f"{count / 2**20:.2f} MiB of {kind}" for kind, count in loader.exchange.sent.items())
        print(f"sent by the first process: {sent}")
    return model.module, history


@torch.no_grad()
def accuracy(model: nn.Module, g: DistGraph, mask: str) -> float:
    """Return the share of the nodes of a mask, of all parts, whose class the model says."""
    sampler = MultiLayerFullNeighborSampler(2, prefetch_node_feats=["feat"], prefetch_labels=["label"])
    nodes = node_split(g.ndata[mask], g.get_partition_book())
    right = torch.zeros(2)
    for _, seeds, blocks in DistNodeDataLoader(g, nodes, sampler, batch_size=1000):
        found = model(blocks, blocks[0].srcdata["feat"]).argmax(1) == blocks[-1].dstdata["label"]
        right += torch.tensor([float(found.sum()), len(seeds)])
    distributed.all_reduce(right)
    return (right[0] / right[1]).item()


def draw(history: list[tuple[float, float]], path: str) -> None:
    """Draw losses and accuracies."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    _, axes = pyplot.subplots(figsize=(5, 3), layout="constrained")
    axes.plot([loss for loss, _ in history], label="training loss")
    axes.plot([right for _, right in history], label="validation accuracy")
    axes.set_xlabel("epoch")
    axes.legend()
    pyplot.savefig(path)
    print(f"drawn in {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="parts", help="where the parts are")
    parser.add_argument("--partition", type=int, help="cut the graph into so many parts, and train nothing")
    parser.add_argument("--method", default="locality", help="metis, locality or random")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--plot", help="a file to draw to")
    parser.add_argument("--expect", type=float, default=0.0, help="fail below this test accuracy")
    options = parser.parse_args()
    if options.partition:
        partition_graph(planted(), NAME, options.partition, options.folder, part_method=options.method)
        return
    initialize()
    g = DistGraph(NAME, Path(options.folder) / f"{NAME}.json")
    model, history = train(g, options.epochs, options.batch_size)
    found = accuracy(model, g, "test_mask")
    if g.rank() == 0:
        print(f"test accuracy {found:.3f}")
        if options.plot:
            draw(history, options.plot)
    exit_client()
    if found < options.expect:
        sys.exit(f"test accuracy {found:.3f}; expected at least {options.expect}")


if __name__ == "__main__":
    main()
