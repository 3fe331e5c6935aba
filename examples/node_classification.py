"""Classify the nodes of a network of which few are labelled, with GCN, GAT or GraphSAGE.

    python examples/node_classification.py --model gcn --dataset cora
    python examples/node_classification.py --model gat --dataset karate --epochs 50
    python examples/node_classification.py --model gat --dataset pubmed --device cuda
    DGLITE_BACKEND=numpy python examples/node_classification.py --model gcn --dataset cora

``framework`` is torch, or with the numpy backend the part of torch that dglite has of its own.

Papers of Cora, Citeseer and Pubmed are downloaded unless --raw-dir or DGLITE_DATA_DIR names a folder that has the
files. Their features are words, of which a paper has about 1%: where fewer than 10% of the features differ from 0 they
are kept as a sparse matrix. The hyper-parameters are those of the models' papers. The parameters with the best
validation accuracy are the ones that are tested.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from typing import NamedTuple

import scipy.sparse
from tqdm import tqdm

import dglite
from dglite.backend import framework
from dglite.data import CiteseerGraphDataset, CoraGraphDataset, KarateClubDataset, PubmedGraphDataset
from dglite.nn import FeatureDropout, GATConv, GraphConv, SAGEConv, SparseFeatures

nn = framework.nn
F = framework.nn.functional
Tensor = framework.Tensor
Features = Tensor | SparseFeatures
PAPERS = {"cora": CoraGraphDataset, "citeseer": CiteseerGraphDataset, "pubmed": PubmedGraphDataset}


# -- models ------------------------------------------------------------------------------------------------------------
class GCN(nn.Module):
    """Two graph convolutions: Kipf and Welling, 2017."""

    learning_rate, weight_decay, epochs, self_loops = 0.01, 5e-4, 200, True

    def __init__(self, in_feats: int, num_classes: int, hidden: int = 16, dropout: float = 0.5) -> None:
        super().__init__()
        self.first = GraphConv(in_feats, hidden, activation=F.relu)
        self.second = GraphConv(hidden, num_classes)
        self.dropout = FeatureDropout(dropout)

    def forward(self, graph: dglite.DGLGraph, x: Features) -> Tensor:
        x = self.first(graph, self.dropout(x))
        return self.second(graph, self.dropout(x))


class GAT(nn.Module):
    """Two attention layers, of 8 heads and 1: Velickovic et al., 2018."""

    learning_rate, weight_decay, epochs, self_loops = 0.005, 5e-4, 200, True

    def __init__(self, in_feats: int, num_classes: int, hidden: int = 8, heads: int = 8, dropout: float = 0.6) -> None:
        super().__init__()
        self.first = GATConv(in_feats, hidden, heads, feat_drop=dropout, attn_drop=dropout, activation=F.elu)
        self.second = GATConv(heads * hidden, num_classes, 1, feat_drop=dropout, attn_drop=dropout)

    def forward(self, graph: dglite.DGLGraph, x: Features) -> Tensor:
        x = self.first(graph, x).flatten(1)
        return self.second(graph, x).mean(1)


class GraphSAGE(nn.Module):
    """Two layers that average the neighbours: Hamilton, Ying and Leskovec, 2017."""

    learning_rate, weight_decay, epochs, self_loops = 0.01, 5e-4, 200, False

    def __init__(self, in_feats: int, num_classes: int, hidden: int = 16, dropout: float = 0.5) -> None:
        super().__init__()
        self.first = SAGEConv(in_feats, hidden, "mean", feat_drop=dropout, activation=F.relu)
        self.second = SAGEConv(hidden, num_classes, "mean", feat_drop=dropout)

    def forward(self, graph: dglite.DGLGraph, x: Features) -> Tensor:
        return self.second(graph, self.first(graph, x))


Model = GCN | GAT | GraphSAGE
MODELS: dict[str, type[Model]] = {"gcn": GCN, "gat": GAT, "sage": GraphSAGE}


# -- data --------------------------------------------------------------------------------------------------------------
class Task(NamedTuple):
    """A graph with features, labels and three sets of nodes."""

    graph: dglite.DGLGraph
    features: Features
    labels: Tensor
    num_classes: int
    training: Tensor
    validation: Tensor
    test: Tensor

    def to(self, device: str) -> Task:
        """Return the task with graph and tensors on a device."""
        graph, features, labels, num_classes, *nodes = self
        return Task(
            graph.to(device), features.to(device), labels.to(device), num_classes, *[x.to(device) for x in nodes]
        )


def load(name: str, raw_dir: str | None) -> Task:
    """Read a data set by name."""
    if name == "karate":
        return load_karate()
    dataset = PAPERS[name](raw_dir=raw_dir)
    graph = dataset[0]
    nodes = (framework.nonzero(graph.ndata[f"{part}_mask"]).flatten() for part in ("train", "val", "test"))
    return Task(graph, graph.ndata["feat"], graph.ndata["label"], dataset.num_classes, *nodes)


def load_karate() -> Task:
    """Zachary's karate club: each node is its own feature; the two leaders are labelled, a friend of each validates."""
    dataset = KarateClubDataset()
    graph = dataset[0]
    training, validation = framework.tensor([0, 33]), framework.tensor([1, 32])
    rest = framework.tensor([node for node in range(graph.num_nodes()) if node not in (0, 1, 32, 33)])
    return Task(graph, framework.eye(34), graph.ndata["label"], dataset.num_classes, training, validation, rest)


def stored(features: Features, choice: str) -> Features:
    """Return the features as a sparse matrix when that is chosen, or, for "auto", fewer than 10% differ from 0."""
    if isinstance(features, SparseFeatures):
        return features
    density = framework.count_nonzero(features).item() / features.numel()
    if choice == "off" or (choice == "auto" and density >= 0.1):
        return features
    return SparseFeatures(scipy.sparse.csr_array(features.numpy()))


def with_self_loops(graph: dglite.DGLGraph) -> dglite.DGLGraph:
    """Return the structure with exactly one edge from each node to itself."""
    src, dst = graph.edges()
    other, nodes = src != dst, graph.nodes()
    return dglite.graph(
        (framework.cat([src[other], nodes]), framework.cat([dst[other], nodes])), num_nodes=graph.num_nodes()
    )


# -- training ----------------------------------------------------------------------------------------------------------
class Result(NamedTuple):
    """What one run gave."""

    validation_accuracy: float
    test_accuracy: float
    seconds_per_epoch: float


def accuracy(logits: Tensor, labels: Tensor, nodes: Tensor) -> float:
    """Return the fraction of ``nodes`` whose largest logit is their label's."""
    return (logits[nodes].argmax(1) == labels[nodes]).float().mean().item()


def train(model: Model, graph: dglite.DGLGraph, task: Task, epochs: int, progress: tqdm) -> Result:
    """Train, and test the parameters that did best in validation (of equals, those with the lower loss)."""
    optimizer = framework.optim.Adam(model.parameters(), lr=model.learning_rate, weight_decay=model.weight_decay)
    best, checkpoint, times = (-1.0, 0.0), copy.deepcopy(model.state_dict()), []
    for _ in range(epochs):
        start = time.perf_counter()
        model.train()
        loss = F.cross_entropy(model(graph, task.features)[task.training], task.labels[task.training])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)

        model.eval()
        with framework.no_grad():
            logits = model(graph, task.features)
        validation = accuracy(logits, task.labels, task.validation)
        validation_loss = F.cross_entropy(logits[task.validation], task.labels[task.validation]).item()
        if (validation, -validation_loss) > best:
            best, checkpoint = (validation, -validation_loss), copy.deepcopy(model.state_dict())
        progress.set_postfix(loss=f"{loss.item():.3f}", validation=f"{validation:.3f}", refresh=False)
        progress.update()
    model.load_state_dict(checkpoint)
    with framework.no_grad():
        test = accuracy(model(graph, task.features), task.labels, task.test)
    return Result(best[0], test, statistics.median(times))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=MODELS, default="gcn", help="architecture; default: %(default)s")
    parser.add_argument("--dataset", choices=["karate", *PAPERS], default="cora", help="data set; default: %(default)s")
    parser.add_argument("--raw-dir", help="folder with the data set's files; default: DGLITE_DATA_DIR, else downloaded")
    parser.add_argument(
        "--sparse-features",
        choices=["auto", "on", "off"],
        default="auto",
        help="auto: on where density is below 10%%; default: %(default)s",
    )
    parser.add_argument("--device", default="cpu", help="cuda, for example; default: %(default)s")
    parser.add_argument("--epochs", type=int, help="default: as the model's paper has it")
    parser.add_argument("--seed", type=int, default=0, help="of the first run; default: %(default)s")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="train N times, with seeds in a row; default: %(default)s"
    )
    parser.add_argument("--expect", type=float, metavar="ACCURACY", help="fail when the mean test accuracy is below")
    return parser.parse_args()


def main() -> None:
    """Train once per seed and print what came out."""
    arguments = parse_arguments()
    task, kind = load(arguments.dataset, arguments.raw_dir), MODELS[arguments.model]
    task = task._replace(features=stored(task.features, arguments.sparse_features))
    graph = with_self_loops(task.graph) if kind.self_loops else task.graph
    if arguments.device != "cpu":
        graph, task = graph.to(arguments.device), task.to(arguments.device)
    epochs, results = arguments.epochs or kind.epochs, []
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        framework.manual_seed(seed)
        model = kind(task.features.shape[1], task.num_classes)
        if arguments.device != "cpu":
            model = model.to(arguments.device)
        with tqdm(
            total=epochs, desc=f"{arguments.model} on {arguments.dataset}, seed {seed}", unit="epoch", disable=None
        ) as progress:
            result = train(model, graph, task, epochs, progress)
        print(
            f"seed {seed}: validation accuracy {result.validation_accuracy:.3f}, test accuracy "
            f"{result.test_accuracy:.3f}, {1000 * result.seconds_per_epoch:.1f} ms per epoch"
        )
        results.append(result.test_accuracy)
    mean = statistics.mean(results)
    if len(results) > 1:
        print(f"{arguments.model} on {arguments.dataset}: test accuracy {mean:.3f}, mean of {len(results)} seeds")
    if arguments.expect is not None and mean < arguments.expect:
        sys.exit(f"expected a test accuracy of at least {arguments.expect}, got {mean:.3f}")


if __name__ == "__main__":
    main()
