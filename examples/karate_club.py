"""Train a GCN on Zachary's karate club, and draw what it learned.

In 1977 a karate club split in two. Told only which side the instructor (node 0) and the officer (node 33) are on, a
two-layer graph convolutional network finds the side of everybody else from who is friends with whom. Runs under every
backend, as ``DGLITE_BACKEND`` says.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from tqdm import tqdm

import dglite
from dglite.backend import framework
from dglite.data import KarateClubDataset
from dglite.nn import GraphConv

F = framework.nn.functional
Tensor = framework.Tensor
SIDES = ("instructor", "officer")


class GCN(framework.nn.Module):
    """Two graph convolutions."""

    def __init__(self, in_feats: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.first = GraphConv(in_feats, hidden, activation=F.relu)
        self.second = GraphConv(hidden, num_classes)

    def forward(self, graph: dglite.DGLGraph, x: Tensor) -> Tensor:
        return self.second(graph, self.first(graph, x))


def train(graph: dglite.DGLGraph, features: Tensor, labels: Tensor, epochs: int) -> Tensor:
    """Train on the labels of the two leaders and return everybody's logits."""
    leaders = framework.tensor([0, 33])
    model = GCN(features.shape[1], 16, len(SIDES))
    optimizer = framework.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    with tqdm(range(epochs), unit="epoch", disable=None) as progress:
        for _ in progress:
            logits = model(graph, features)
            loss = F.cross_entropy(logits[leaders], labels[leaders])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct = (logits.argmax(1) == labels).float().mean()
            progress.set_postfix(loss=f"{loss.item():.3f}", accuracy=f"{correct.item():.3f}", refresh=False)
    with framework.no_grad():
        logits = model(graph, features)
    print(f"loss {F.cross_entropy(logits[leaders], labels[leaders]):.3f}")
    return logits


def draw(graph: dglite.DGLGraph, predicted: Tensor, labels: Tensor, path: Path) -> None:
    """Write a picture of the club: fill colours are predictions, a red ring marks a wrong one."""
    friends = dglite.remove_self_loop(graph)
    sides = [f"predicted with the {side}" for side in SIDES]
    axes = dglite.plot(friends, color=predicted, labels=True, highlight=predicted != labels, legend=sides)
    axes.figure.savefig(path, bbox_inches="tight")


def main() -> None:
    """Train, print the accuracy, draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=100, help="passes over the training data; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: %(default)s")
    parser.add_argument(
        "--picture",
        type=Path,
        default=Path("karate_club.png"),
        help="where the picture is written; default: %(default)s",
    )
    arguments = parser.parse_args()

    framework.manual_seed(arguments.seed)
    graph = KarateClubDataset()[0]
    labels = graph.ndata["label"]
    graph.add_edges(graph.nodes(), graph.nodes())  # a node's own features count too
    logits = train(graph, framework.eye(graph.num_nodes()), labels, arguments.epochs)
    predicted = logits.argmax(1)
    correct = int((predicted == labels).sum())
    print(f"accuracy {correct / len(labels):.3f}: {correct} of {len(labels)} members on the right side")
    draw(graph, predicted, labels, arguments.picture)
    print(f"picture written to {arguments.picture.resolve()}")


if __name__ == "__main__":
    main()
