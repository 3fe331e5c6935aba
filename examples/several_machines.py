"""Train GraphSAGE on a graph in parts, one process for each part, on one machine or several.

    python examples/several_machines.py --partition 2 --folder parts
    torchrun --nproc-per-node 2 examples/several_machines.py --folder parts --expect 0.9

The first command makes a graph of 5 classes, cuts it, and prints what was cut; the second trains. Each process owns the
features of its part and samples around its own training nodes; features of other parts are fetched while the model
computes, and gradients are averaged by torch's DistributedDataParallel. On several machines, copy the folder to each
and start the second command there with torchrun's --nnodes and --rdzv-endpoint: see docs/machines.md.

The first process prints losses, validation accuracy, what it sent to others, and the test accuracy, 0.91 or so, and
draws losses and accuracy with --picture FILE.
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
            print(f"epoch {epoch + 1}: loss {history[-1][0]:.3f}, validation accuracy {history[-1][1]:.3f}")
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
        is_right = model(blocks, blocks[0].srcdata["feat"]).argmax(1) == blocks[-1].dstdata["label"]
        right += torch.tensor([float(is_right.sum()), len(seeds)])
    distributed.all_reduce(right)
    return (right[0] / right[1]).item()


def draw(history: list[tuple[float, float]], path: str) -> None:
    """Draw losses and accuracies."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot([loss for loss, _ in history], label="training loss")
    axes.plot([right for _, right in history], label="validation accuracy")
    axes.set_xlabel("epoch")
    axes.legend()
    figure.savefig(path)
    print(f"picture written to {path}")


def main() -> None:
    """Partition, or train and print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="parts", help="where the parts are; default: %(default)s")
    parser.add_argument("--partition", type=int, metavar="N", help="cut the graph into N parts, and train nothing")
    parser.add_argument(
        "--method", default="locality", help="how to partition: metis, locality or random; default: %(default)s"
    )
    parser.add_argument("--epochs", type=int, default=5, help="passes over the training data; default: %(default)s")
    parser.add_argument(
        "--batch-size", type=int, default=100, help="nodes of a training step, for each process; default: %(default)s"
    )
    parser.add_argument("--picture", metavar="FILE", help="draw losses and accuracy, with matplotlib")
    parser.add_argument("--expect", type=float, metavar="ACCURACY", help="fail when the test accuracy is below")
    arguments = parser.parse_args()
    if arguments.partition:
        partition_graph(planted(), NAME, arguments.partition, arguments.folder, part_method=arguments.method)
        return
    initialize()
    g = DistGraph(NAME, Path(arguments.folder) / f"{NAME}.json")
    model, history = train(g, arguments.epochs, arguments.batch_size)
    result = accuracy(model, g, "test_mask")
    if g.rank() == 0:
        print(f"test accuracy {result:.3f}")
        if arguments.picture:
            draw(history, arguments.picture)
    exit_client()
    if arguments.expect is not None and result < arguments.expect:
        sys.exit(f"expected a test accuracy of at least {arguments.expect}, got {result:.3f}")


if __name__ == "__main__":
    main()
