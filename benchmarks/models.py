"""A step of training, forward, backward and optimizer, of whole networks: dglite, DGL 2.1, PyTorch Geometric.

    python benchmarks/models.py            about ten minutes on two cores
    python benchmarks/models.py --quick    a small graph, few epochs

On an Erdos-Renyi graph of 32,768 nodes and 859k edges (the setting of M. Wang's dissertation, 2020, Figures 4.5 to 4.7)
and on Cora, where each library is also trained to the end. The libraries take turns in one process, of a quarter of a
second each after some steps that are not timed. Cora is read from DGLITE_DATA_DIR, or downloaded; "sparse features"
hands dglite the 1.3% of them that are not 0.
"""

from __future__ import annotations

import copy
import gc
import math
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from common import OURS, erdos_renyi, interleave, parser, save, table
from libraries import DGL, GAT, GCN, PYG, SAGE, Network, library, train_step

import dglite
from dglite.data import CoraGraphDataset

SPARSE = f"{OURS}, sparse features"
PEERS = (DGL, PYG)
SECONDS_PER_TURN = 0.25


class Case(NamedTuple):
    """A network of two layers: GAT has ``heads`` heads of width ``hidden`` in the first and one in the second."""

    kind: str
    hidden: int
    heads: int = 1

    @property
    def name(self) -> str:
        """What the tables call it."""
        return f"{self.kind}, {f'{self.heads} heads x ' if self.heads > 1 else 'hidden '}{self.hidden}"


SYNTHETIC = (Case(GCN, 32), Case(GCN, 256), Case(GAT, 8, 8), Case(GAT, 32, 8))
DROPOUT = {GCN: 0.5, GAT: 0.6, SAGE: 0.5}
LEARNING_RATE = {GCN: 0.01, GAT: 0.005, SAGE: 0.01}
CORA = (Case(GCN, 16), Case(GAT, 8, 8), Case(SAGE, 16))


class Task(NamedTuple):
    """A graph as tensors, with what is learned on it."""

    src: torch.Tensor
    dst: torch.Tensor
    num_nodes: int
    features: torch.Tensor
    labels: torch.Tensor
    training: torch.Tensor | None = None
    validation: torch.Tensor | None = None
    test: torch.Tensor | None = None


# -- what the libraries are given --------------------------------------------------------------------------------------
def synthetic_task(num_nodes: int, num_edges: int, width: int, num_classes: int) -> Task:
    """Return a random graph with random features and labels."""
    torch.manual_seed(0)
    src, dst = (torch.from_numpy(end) for end in erdos_renyi(num_nodes, num_edges))
    return Task(src, dst, num_nodes, torch.randn(num_nodes, width), torch.randint(num_classes, (num_nodes,)))


def cora_task(self_loops: bool) -> Task:
    """Return Cora, with a self-loop at every node where the model wants it."""
    graph = CoraGraphDataset(verbose=False)[0]
    src, dst = graph.edges()
    if self_loops:
        other, nodes = src != dst, graph.nodes()
        src, dst = torch.cat([src[other], nodes]), torch.cat([dst[other], nodes])
    parts = [torch.nonzero(graph.ndata[f"{part}_mask"]).flatten() for part in ("train", "val", "test")]
    return Task(src, dst, graph.num_nodes(), graph.ndata["feat"], graph.ndata["label"], *parts)


class Contender:
    """A library with a network of its own: training steps, and training to the end."""

    def __init__(self, name: str, case: Case, sizes: list[int], task: Task, dropout: float, seed: int) -> None:
        result = library(OURS if name == SPARSE else name)
        assert result is not None
        torch.manual_seed(seed)
        self.graph = result.graph(task.src, task.dst, task.num_nodes)
        self.network = Network(result, case.kind, sizes, case.heads, dropout).to(task.features.device)
        self.x: Any = scipy.sparse.csr_matrix(task.features.numpy()) if name == SPARSE else task.features
        self.task = task
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=LEARNING_RATE[case.kind], weight_decay=5e-4 if dropout else 0.0
        )

    def step(self) -> torch.Tensor:
        """Do one step of training."""
        return train_step(self.network, self.optimizer, self.graph, self.x, self.task.labels, self.task.training)

    def test_accuracy(self, epochs: int) -> float:
        """Train, and test the parameters that did best in validation (of equals, those with the lower loss)."""
        task, best, checkpoint = self.task, (-1.0, 0.0), copy.deepcopy(self.network.state_dict())
        for _ in range(epochs):
            self.step()
            logits = self.evaluate()
            loss = torch.nn.functional.cross_entropy(logits[task.validation], task.labels[task.validation]).item()
            result = (accuracy(logits, task.labels, task.validation), -loss)
            if result > best:
                best, checkpoint = result, copy.deepcopy(self.network.state_dict())
        self.network.load_state_dict(checkpoint)
        return accuracy(self.evaluate(), task.labels, task.test)

    def evaluate(self) -> torch.Tensor:
        """Return the logits of all nodes."""
        self.network.eval()
        with torch.no_grad():
            return self.network(self.graph, self.x)


def accuracy(logits: torch.Tensor, labels: torch.Tensor, nodes: torch.Tensor | None) -> float:
    """Return the fraction of ``nodes`` whose largest logit is their label's."""
    return (logits[nodes].argmax(1) == labels[nodes]).double().mean().item()


def contenders(sparse: bool) -> list[str]:
    """Return the names of the libraries that are installed; ours twice where it takes sparse features."""
    names = [OURS]
    if sparse and hasattr(dglite.nn, "SparseLinear"):
        names.append(SPARSE)
    return names + [name for name in PEERS if library(name) is not None]


# -- measuring ---------------------------------------------------------------------------------------------------------
def synthetic_records(quick: bool) -> list[dict[str, Any]]:
    """Time a step of every case on the random graph."""
    num_nodes, num_edges = (2_000, 50_000) if quick else (32_768, 859_000)
    records = []
    for case in SYNTHETIC:
        sizes = [case.hidden * case.heads, case.hidden, case.hidden]
        task = synthetic_task(num_nodes, num_edges, sizes[0], case.hidden)
        runners: dict[str, Callable[[], Any]] = {
            name: Contender(name, case, sizes, task, 0.0, seed=0).step for name in contenders(False)
        }
        seconds = interleave(runners, budget=2 if quick else 20, most=30, slow_from=math.inf, turn=SECONDS_PER_TURN)
        records.append({"case": case.name, "num_nodes": num_nodes, "num_edges": num_edges, "seconds": seconds})
        print("\n".join(steps_table(records[-1:]).split("\n")[2:]), flush=True)
        del runners
        gc.collect()
    return records


def cora_records(quick: bool) -> list[dict[str, Any]]:
    """Time an epoch of every case on Cora, and train every library to the end, with three seeds."""
    epochs, seeds = (5, 1) if quick else (200, 3)
    records = []
    for case in CORA:
        task = cora_task(self_loops=case.kind != SAGE)
        sizes = [task.features.shape[1], case.hidden, int(task.labels.max()) + 1]

        def contender(
            name: str, seed: int, case: Case = case, sizes: list[int] = sizes, task: Task = task
        ) -> Contender:
            return Contender(name, case, sizes, task, DROPOUT[case.kind], seed)

        names = contenders(True)
        seconds = interleave(
            {name: contender(name, 0).step for name in names}, budget=10, most=200, turn=SECONDS_PER_TURN
        )
        results = {name: [contender(name, seed).test_accuracy(epochs) for seed in range(seeds)] for name in names}
        means = {name: statistics.fmean(values) for name, values in results.items()}
        records.append({"case": case.name, "seconds": seconds, "accuracy": means})
        print("\n".join(epochs_table(records[-1:]).split("\n")[2:]), flush=True)
    return records


# -- showing -----------------------------------------------------------------------------------------------------------
def steps_table(records: list[dict[str, Any]]) -> str:
    """Return one row per case: our milliseconds, and each peer's and how many times ours that is."""
    peers = [name for name in PEERS if name in records[0]["seconds"]]
    rows = [
        [r["case"], f"{1e3 * r['seconds'][OURS]:.1f}"]
        + [
            cell
            for p in peers
            for cell in (f"{1e3 * r['seconds'][p]:.1f}", f"{r['seconds'][p] / r['seconds'][OURS]:.2f}")
        ]
        for r in records
    ]
    return table(["training step", f"{OURS}, ms", *(c for p in peers for c in (f"{p}, ms", f"{p}, x"))], rows)


def epochs_table(records: list[dict[str, Any]]) -> str:
    """Return one row per case and library: milliseconds, how many times ours that is, and the test accuracy."""
    rows = [
        [r["case"], name, f"{1e3 * seconds:.2f}", f"{seconds / r['seconds'][OURS]:.2f}", f"{r['accuracy'][name]:.4f}"]
        for r in records
        for name, seconds in r["seconds"].items()
    ]
    return table(["epoch on Cora", "library", "ms", f"of {OURS}'s", "test accuracy"], rows)


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    np.random.seed(0)
    synthetic, cora = synthetic_records(quick), cora_records(quick)
    print(f"\n{steps_table(synthetic)}\n\n{epochs_table(cora)}")
    if not quick:
        save("models", {"synthetic": synthetic, "cora": cora})


if __name__ == "__main__":
    main()
