"""Train GraphSAGE or GAT by mini-batches of sampled neighbours, or on the whole graph, and compare.

    python examples/minibatch_sage.py --seeds 3 --expect 0.78 --within 0.01
    python examples/minibatch_sage.py --model gat --seeds 3 --expect 0.79 --within 0.01
    python examples/minibatch_sage.py --dataset pubmed --fanouts 10 10 --workers 2

Each batch of labelled papers comes with the blocks that its two layers need, sampled ahead by worker threads, and the
features of the first block's source nodes. Both ways train the same model by as many steps, and test it on the
whole graph, layer by layer, with the parameters that did best in validation. ``--within`` fails when the mean accuracy
by mini-batches is further below that on the whole graph. Mean test accuracies on Cora, of three seeds, by mini-batches
and on the whole graph: GraphSAGE 0.810 and 0.815, GAT 0.830 and 0.829.

Papers are downloaded unless --raw-dir or DGLITE_DATA_DIR names a folder that has the files.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
from collections.abc import Iterator
from typing import Any

import dglite
from dglite.backend import framework
from dglite.data import CiteseerGraphDataset, CoraGraphDataset, PubmedGraphDataset
from dglite.dataloading import DataLoader, NeighborSampler
from dglite.nn import GATConv, SAGEConv

nn = framework.nn
F = framework.nn.functional
Tensor = framework.Tensor
DATASETS = {"cora": CoraGraphDataset, "citeseer": CiteseerGraphDataset, "pubmed": PubmedGraphDataset}


class GraphSAGE(nn.Module):
    """Two layers that average the neighbours: Hamilton, Ying and Leskovec, 2017."""

    def __init__(self, in_feats: int, num_classes: int, hidden: int = 16, dropout: float = 0.5) -> None:
        super().__init__()
        self.first = SAGEConv(in_feats, hidden, "mean", feat_drop=dropout, activation=F.relu)
        self.second = SAGEConv(hidden, num_classes, "mean", feat_drop=dropout)

    def forward(self, blocks: list[dglite.DGLGraph], x: Tensor) -> Tensor:
        """Return logits of the last block's destination nodes; a whole graph stands for a block of itself."""
        return self.second(blocks[1], self.first(blocks[0], x))


class GAT(nn.Module):
    """Two layers of attention, the first of several heads: Velickovic et al., 2018."""

    def __init__(self, in_feats: int, num_classes: int, hidden: int = 8, heads: int = 8, dropout: float = 0.6) -> None:
        super().__init__()
        drop: dict[str, Any] = {"feat_drop": dropout, "attn_drop": dropout, "allow_zero_in_degree": True}
        self.first = GATConv(in_feats, hidden, heads, activation=F.elu, **drop)
        self.second = GATConv(hidden * heads, num_classes, 1, **drop)

    def forward(self, blocks: list[dglite.DGLGraph], x: Tensor) -> Tensor:
        """Return logits of the last block's destination nodes; a whole graph stands for a block of itself."""
        return self.second(blocks[1], self.first(blocks[0], x).flatten(1)).squeeze(1)


MODELS = {"sage": GraphSAGE, "gat": GAT}

Step = tuple[list[dglite.DGLGraph], Tensor, Tensor]
"""Blocks, input features, and the labels of the nodes that are trained on: logits come for these nodes first."""


def sampled(loader: DataLoader) -> Iterator[Step]:
    """Yield an epoch of mini-batches."""
    for _, _, blocks in loader:
        yield blocks, blocks[0].srcdata["feat"], blocks[-1].dstdata["label"]


def train(
    make: type[nn.Module],
    graph: dglite.DGLGraph,
    num_classes: int,
    loader: DataLoader | None,
    epochs: int,
    lr: float,
) -> float:
    """Return a model's test accuracy after training by a loader, or without one on the whole graph."""
    features, labels = graph.ndata["feat"], graph.ndata["label"]
    nodes = {part: framework.nonzero(graph.ndata[f"{part}_mask"]).flatten() for part in ("train", "val", "test")}
    model = make(features.shape[1], num_classes)
    optimizer = framework.optim.Adam(model.parameters(), lr=lr, weight_decay=5e-4)

    def accuracy(part: str) -> float:
        logits = dglite.inference(model, graph, features, batch_size=4096, num_layers=2, progress=False)[nodes[part]]
        return (logits.argmax(1) == labels[nodes[part]]).float().mean().item()

    def update(logits: Tensor, right: Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(logits, right).backward()
        optimizer.step()

    best, checkpoint = -1.0, copy.deepcopy(model.state_dict())
    for _ in range(epochs):
        model.train()
        if loader is None:
            update(model([graph, graph], features)[nodes["train"]], labels[nodes["train"]])
        else:
            for blocks, x, right in sampled(loader):
                update(model(blocks, x), right)
        validation = accuracy("val")
        if validation > best:
            best, checkpoint = validation, copy.deepcopy(model.state_dict())
    model.load_state_dict(checkpoint)
    return accuracy("test")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=MODELS, default="sage", help="architecture; default: %(default)s")
    parser.add_argument("--dataset", choices=DATASETS, default="cora", help="data set; default: %(default)s")
    parser.add_argument("--raw-dir", help="folder with the data set's files; default: DGLITE_DATA_DIR, else downloaded")
    parser.add_argument(
        "--fanouts",
        type=int,
        nargs=2,
        default=[10, 10],
        help="neighbours sampled for each layer, -1 for all; default: %(default)s",
    )
    parser.add_argument("--batch-size", type=int, default=32, help="papers of a training step; default: %(default)s")
    parser.add_argument("--workers", type=int, default=1, help="threads that sample ahead; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=40, help="of mini-batches; default: %(default)s")
    parser.add_argument("--learning-rate", type=float, default=0.01, help="of Adam; default: %(default)s")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="train N times, with seeds 0, 1, ...; default: %(default)s"
    )
    parser.add_argument("--expect", type=float, metavar="ACCURACY", help="fail when the mean test accuracy is below")
    parser.add_argument(
        "--within", type=float, metavar="DIFFERENCE", help="also train on the whole graph; fail when that is so better"
    )
    return parser.parse_args()


def main() -> None:
    """Train once per seed, both ways where they are compared, and print what came out."""
    arguments = parse_arguments()
    dataset = DATASETS[arguments.dataset](raw_dir=arguments.raw_dir)
    make, graph, num_classes = MODELS[arguments.model], dataset[0], dataset.num_classes
    if arguments.model == "gat":
        graph = dglite.add_self_loop(dglite.remove_self_loop(graph))
    training = framework.nonzero(graph.ndata["train_mask"]).flatten()
    sampler = NeighborSampler(arguments.fanouts, prefetch_node_feats=["feat"], prefetch_labels=["label"])
    mini, whole = [], []
    for seed in range(arguments.seeds):
        framework.manual_seed(seed)
        dglite.seed(seed)
        loader = DataLoader(
            graph, training, sampler, batch_size=arguments.batch_size, shuffle=True, num_workers=arguments.workers
        )
        mini.append(train(make, graph, num_classes, loader, arguments.epochs, arguments.learning_rate))
        print(f"seed {seed}, mini-batches: test accuracy {mini[-1]:.3f}")
        if arguments.within is not None:
            whole.append(train(make, graph, num_classes, None, arguments.epochs * len(loader), arguments.learning_rate))
            print(f"seed {seed}, whole graph: test accuracy {whole[-1]:.3f}")
    mean = statistics.mean(mini)
    print(f"test accuracy {mean:.3f}, mean of {arguments.seeds} seeds")
    if arguments.expect is not None and mean < arguments.expect:
        sys.exit(f"expected a test accuracy of at least {arguments.expect}, got {mean:.3f}")
    if whole and mean < statistics.mean(whole) - arguments.within:
        sys.exit(f"expected a difference of at most {arguments.within}, got {statistics.mean(whole) - mean:.3f}")


if __name__ == "__main__":
    main()
