"""Learn an energy of molecules from where their atoms are: an equivariant network and a graph transformer.

    python examples/molecules.py --expect 0.2
    python examples/molecules.py --models egnn --picture energies.png

Molecules are made up: chains of charged atoms, bent at random; their energy is the sum over pairs of the product of
the charges over the distance. EGNN (Satorras et al., "E(n) equivariant graph neural networks", 2021) passes messages
between all atoms of a molecule, in batches of graphs. The transformer (layers of Graphormer, Ying et al., 2021, biased
by distances as by Shi et al., 2022) attends among the atoms of padded molecules. Both see distances only, so turning a
molecule changes nothing, which is checked. The baseline is a linear fit on the products of charges, without distances.
Mean absolute errors by the standard deviation of energies, seed 0: charges 0.303, EGNN 0.027, transformer 0.106.
"""

from __future__ import annotations

import argparse
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import dglite
from dglite.nn import EGNNConv, GraphormerLayer, SpatialEncoder3d

CHARGES = torch.tensor([-1.0, -0.5, 0.5, 1.0])
KINDS = len(CHARGES)


def molecule() -> tuple[dglite.DGLGraph, Tensor]:
    """Return a complete graph of 4 to 9 atoms with ``kind`` and ``x``, (num_atoms, 3), and its energy."""
    count = int(torch.randint(4, 10, ()))
    kind = torch.randint(KINDS, (count,))
    x = (F.normalize(torch.randn(count, 3) + torch.tensor([1.0, 0.0, 0.0])) * 1.2).cumsum(0)
    first, second = torch.triu_indices(count, count, 1)
    energy = (CHARGES[kind[first]] * CHARGES[kind[second]] / (x[first] - x[second]).norm(dim=1).clamp(min=0.7)).sum()
    graph = dglite.graph((torch.cat([first, second]), torch.cat([second, first])), num_nodes=count)
    graph.ndata["kind"], graph.ndata["x"] = kind, x
    return graph, energy


class EGNN(nn.Module):
    """Equivariant convolutions, and a sum over the atoms."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.kinds = nn.Embedding(KINDS, hidden)
        self.convs = nn.ModuleList(EGNNConv(hidden, hidden, hidden) for _ in range(2))
        self.last = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, graph: dglite.DGLGraph, x: Tensor) -> Tensor:
        """Return energies (num_graphs,) of molecules with atoms at ``x``."""
        h = self.kinds(graph.ndata["kind"])
        for conv in self.convs:
            update, x = conv(graph, h, x)
            h = h + update
        with graph.local_scope():
            graph.ndata["e"] = self.last(h)
            return dglite.sum_nodes(graph, "e").flatten()


class Transformer(nn.Module):
    """Layers of Graphormer over padded molecules, whose attention is biased by distances."""

    def __init__(self, hidden: int, heads: int = 8) -> None:
        super().__init__()
        self.kinds = nn.Embedding(KINDS, hidden)
        self.distances = SpatialEncoder3d(16, heads, max_node_type=KINDS)
        self.layers = nn.ModuleList(
            GraphormerLayer(hidden, hidden, heads, dropout=0, attn_dropout=0, norm_first=True) for _ in range(3)
        )
        self.last = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, graph: dglite.DGLGraph, x: Tensor) -> Tensor:
        """Return energies (num_graphs,) of molecules with atoms at ``x``."""
        sizes = graph.batch_num_nodes().tolist()
        kind, x = (nn.utils.rnn.pad_sequence(y.split(sizes), True) for y in (graph.ndata["kind"], x))
        there = torch.arange(x.shape[1]) < graph.batch_num_nodes()[:, None]
        h, bias = self.kinds(kind), self.distances(x, kind)
        for layer in self.layers:
            h = layer(h, bias, ~there[:, None].expand(-1, x.shape[1], -1))
        return (self.last(h).squeeze(2) * there).sum(1)


MODELS = {"egnn": EGNN, "transformer": Transformer}
Molecules = list[tuple[dglite.DGLGraph, Tensor]]


def batched(molecules: Molecules) -> tuple[dglite.DGLGraph, Tensor]:
    """Return molecules as one graph, and their energies."""
    graphs, energies = zip(*molecules, strict=True)
    return dglite.batch(graphs), torch.stack(energies)


def train(model: nn.Module, molecules: Molecules, epochs: int, name: str) -> None:
    """Train on batches of 64 molecules, with a rate that falls to 0."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in (progress := tqdm(range(epochs), unit="epoch", desc=name, disable=None)):
        for some in torch.randperm(len(molecules)).split(64):
            graph, energies = batched([molecules[i] for i in some.tolist()])
            loss = F.smooth_l1_loss(model(graph, graph.ndata["x"]), energies)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        falling.step()
        progress.set_postfix(loss=f"{loss.item():.4f}", refresh=False)


def pairs(graph: dglite.DGLGraph) -> Tensor:
    """Return for each molecule 1, and the sum over pairs of the product of the charges: (num_graphs, 2)."""
    graph.ndata["q"] = CHARGES[graph.ndata["kind"]]
    graph.ndata["q2"] = graph.ndata["q"].square()
    products = dglite.sum_nodes(graph, "q").square() - dglite.sum_nodes(graph, "q2")
    return torch.stack([torch.ones_like(products), products / 2], 1)


def draw(predicted: dict[str, Tensor], energies: Tensor, path: str) -> None:
    """Draw predicted energies over the right ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(predicted), 4), layout="constrained")
    grid = figure.subplots(1, len(predicted), squeeze=False, sharex=True, sharey=True)[0]
    for axes, (name, values) in zip(grid, predicted.items(), strict=True):
        axes.plot([energies.min(), energies.max()], [energies.min(), energies.max()], color="#b0b0b0", lw=1)
        axes.scatter(energies, values, s=5)
        axes.set(xlabel="energy", title=name, aspect="equal")
    grid[0].set_ylabel("predicted")
    figure.savefig(path)
    print(f"picture written to {path}")


def main() -> None:
    """Print the error of each model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--models", choices=MODELS, nargs="+", default=list(MODELS), help="architectures to train; default: all"
    )
    parser.add_argument(
        "--molecules",
        type=int,
        default=2000,
        help="molecules to train on; a quarter as many are tested; default: %(default)s",
    )
    parser.add_argument("--hidden", type=int, default=32, help="size of hidden layers; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training data; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: %(default)s")
    parser.add_argument("--picture", metavar="FILE", help="draw energies, with matplotlib")
    parser.add_argument("--expect", type=float, metavar="ERROR", help="fail when that of a network is above")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    molecules = [molecule() for _ in range(arguments.molecules * 5 // 4)]
    train_set, (test, energies) = molecules[: arguments.molecules], batched(molecules[arguments.molecules :])
    x, turn = test.ndata["x"], torch.linalg.qr(torch.randn(3, 3)).Q
    graph, targets = batched(train_set)
    predicted, errors = {"charges": pairs(test) @ torch.linalg.lstsq(pairs(graph), targets).solution}, {}
    for name in arguments.models:
        model = MODELS[name](arguments.hidden)
        train(model, train_set, arguments.epochs, name)
        with torch.no_grad():
            predicted[name], turned = model.eval()(test, x), model(test, x @ turn)
        if not torch.allclose(predicted[name], turned, atol=1e-3, rtol=1e-3):
            sys.exit("turned molecules have other energies")
    for name, values in predicted.items():
        errors[name] = ((values - energies).abs().mean() / energies.std()).item()
        print(f"{name}: mean absolute error {errors[name]:.3f} standard deviations")
    if arguments.picture:
        draw(predicted, energies, arguments.picture)
    worst = max(errors[name] for name in arguments.models)
    if arguments.expect is not None and worst > arguments.expect:
        sys.exit(f"expected a mean absolute error of at most {arguments.expect}, got {worst:.3f}")


if __name__ == "__main__":
    main()
