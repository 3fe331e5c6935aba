"""Train a GCN on a whole graph in several processes, each with a part of the nodes.

    torchrun --nproc-per-node=2 examples/full_graph.py

Nodes are assigned to processes by METIS where pymetis is installed, else in equal ranges, and numbered process by
process. Each process holds the features, the labels and the in-edges of its nodes. Before a layer adds up neighbours it
fetches the rows of those that other processes own. Every process adds up all gradients, so that all keep the same
parameters. The losses are those of one process, whatever the number of processes is.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import dglite
from dglite.data import CoraGraphDataset
from dglite.distributed import FullGraph, plan_full_graph


class GCN(nn.Module):
    """Two graph convolutions (Kipf and Welling, 2017)."""

    def __init__(self, in_feats: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(in_feats, hidden), nn.Linear(hidden, num_classes)

    def forward(self, graph: FullGraph, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return the logits of this process's nodes."""
        x = F.relu(graph.aggregate(self.first(x), weight))
        return graph.aggregate(self.second(x), weight)


def synthetic(num_nodes: int) -> dglite.DGLGraph:
    """Return a graph of groups whose members know each other; features hint at the group."""
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(4, (num_nodes,), generator=generator)
    src, dst = torch.randint(num_nodes, (2, 40 * num_nodes), generator=generator)
    alike = label[src] == label[dst]
    g = dglite.to_bidirected(dglite.graph((src[alike], dst[alike]), num_nodes=num_nodes))
    g.ndata["label"] = label
    g.ndata["feat"] = F.one_hot(label, 8) + torch.randn(num_nodes, 8, generator=generator)
    g.ndata["train_mask"] = torch.arange(num_nodes) % 4 == 0
    g.ndata["test_mask"] = ~g.ndata["train_mask"]
    return g


def assigned(g: dglite.DGLGraph, num_parts: int) -> torch.Tensor:
    """Return the process of every node."""
    if num_parts > 1 and importlib.util.find_spec("pymetis"):
        return dglite.metis_partition_assignment(g, num_parts)
    return torch.arange(g.num_nodes()) * num_parts // g.num_nodes()


def part_of(g: dglite.DGLGraph, owner: torch.Tensor, num_parts: int, rank: int) -> tuple[FullGraph, torch.Tensor]:
    """Return this process's part of the graph, and which nodes it has."""
    nodes = torch.argsort(owner, stable=True)
    number = torch.empty_like(nodes)
    number[nodes] = torch.arange(len(nodes))
    starts = [0, *torch.bincount(owner, minlength=num_parts).cumsum(0).tolist()]
    src, dst = g.edges()
    mine = owner[dst] == rank
    return FullGraph((number[src[mine]], number[dst[mine]]), starts), nodes[starts[rank] : starts[rank + 1]]


def summed(*tensors: torch.Tensor) -> None:
    """Add up what all processes have."""
    for x in tensors:
        dist.all_reduce(x)


def main() -> None:
    """Partition, train, report the accuracy over all processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--raw-dir", help="folder with Cora's files; default: DGLITE_DATA_DIR, else downloaded")
    parser.add_argument(
        "--synthetic", type=int, metavar="NODES", help="a generated graph of NODES nodes instead of Cora"
    )
    parser.add_argument("--hidden", type=int, default=16, help="size of hidden layers; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=100, help="passes over the training data; default: %(default)s")
    parser.add_argument("--expect", type=float, metavar="ACCURACY", help="fail when the test accuracy is below")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if arguments.synthetic:
        g = synthetic(arguments.synthetic)
    else:
        g = CoraGraphDataset(raw_dir=arguments.raw_dir, verbose=False)[0]
    g = dglite.add_self_loop(g)
    owner = assigned(g, world)
    graph, nodes = part_of(g, owner, world, rank)
    x, labels = g.ndata["feat"][nodes], g.ndata["label"][nodes]
    training, test = g.ndata["train_mask"][nodes], g.ndata["test_mask"][nodes]
    num_training = g.ndata["train_mask"].sum()

    torch.manual_seed(0)
    model = GCN(x.shape[1], arguments.hidden, int(g.ndata["label"].max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    weight = graph.gcn_weights()
    for epoch in range(arguments.epochs):
        loss = F.cross_entropy(model(graph, x, weight)[training], labels[training], reduction="sum") / num_training
        optimizer.zero_grad()
        loss.backward()
        summed(*(p.grad for p in model.parameters() if p.grad is not None))
        optimizer.step()
        summed(total := loss.detach().clone())
        if rank == 0 and epoch % 20 == 19:
            print(f"epoch {epoch + 1}: loss {total.item():.3f}", flush=True)

    right = (model(graph, x, weight).argmax(1) == labels)[test]
    summed(counts := torch.tensor([right.sum().item(), len(right)]))
    accuracy = (counts[0] / counts[1]).item()
    if rank == 0:
        print(f"{world} processes, bytes received by the first: {dict(graph.bytes)}")
        print(plan_full_graph(g, [arguments.hidden, int(labels.max()) + 1], world, owner))
        print(f"test accuracy {accuracy:.3f}")
    dist.destroy_process_group()
    if arguments.expect is not None and accuracy < arguments.expect:
        sys.exit(f"expected a test accuracy of at least {arguments.expect}, got {accuracy:.3f}")


if __name__ == "__main__":
    main()
