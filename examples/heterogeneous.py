"""Classify papers of a graph of papers, authors and venues, by R-GCN, HAN and a heterogeneous graph transformer.

    python examples/heterogeneous.py --expect 0.75
    python examples/heterogeneous.py --models hgt --picture fields.png

The graph is made up: authors mostly write in one field, venues mostly publish one, papers mostly cite their own. The
words of a paper say little of its field, so a network that reads words alone is the baseline. R-GCN (Schlichtkrull et
al., 2018) has a convolution for each relation and adds up what arrives. HAN (Wang et al., "Heterogeneous graph
attention network", 2019) joins papers by metapaths, those of one author or one venue, attends over each such graph, and
weights the graphs. HGT (Hu et al., "Heterogeneous graph transformer", 2020) attends over all nodes with matrices of
their types. Test accuracies, means of seeds 0 to 2: words alone 0.485, R-GCN 0.898, HAN 0.849, HGT 0.889.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import dglite
import dglite.function as fn
from dglite.nn import GATConv, GraphConv, HeteroGraphConv, HGTConv

FIELDS = 4
METAPATHS = (["written by", "writes"], ["published in", "publishes"], ["cites"])


def academic_graph(num_papers: int, width: int = 16) -> dglite.DGLGraph:
    """Return a graph with ``feat`` (num_papers, width), ``label`` and ``train_mask`` of papers."""
    num_authors, num_venues = num_papers // 2, 20
    field = torch.arange(num_papers) % FIELDS

    def links(num_others: int, each: int) -> tuple[Tensor, Tensor]:
        """Link each paper to others, four of five of which have its field."""
        paper = torch.arange(num_papers).repeat(each)
        of_field = torch.where(torch.rand(len(paper)) < 0.8, field[paper], torch.randint(FIELDS, paper.shape))
        return paper, FIELDS * torch.randint(num_others // FIELDS, paper.shape) + of_field

    paper, author = links(num_authors, 2)
    published, venue = links(num_venues, 1)
    graph = dglite.heterograph(
        {
            ("paper", "written by", "author"): (paper, author),
            ("author", "writes", "paper"): (author, paper),
            ("paper", "published in", "venue"): (published, venue),
            ("venue", "publishes", "paper"): (venue, published),
            ("paper", "cites", "paper"): links(num_papers, 2),
        },
        {"paper": num_papers, "author": num_authors, "venue": num_venues},
    )
    graph.nodes["paper"].data["feat"] = torch.randn(num_papers, width) + F.one_hot(field, width)
    for etype in ("written by", "published in"):  # authors and venues are described by the mean of their papers
        graph.update_all(fn.copy_u("feat", "m"), fn.mean("m", "feat"), etype=etype)
    graph.nodes["paper"].data["label"] = field
    graph.nodes["paper"].data["train_mask"] = torch.rand(num_papers) < 0.1
    return graph


class Words(nn.Module):
    """The baseline: a linear layer on a paper's own words."""

    def __init__(self, graph: dglite.DGLGraph, width: int, hidden: int) -> None:
        super().__init__()
        self.last = nn.Linear(width, FIELDS)

    def forward(self, graph: dglite.DGLGraph) -> Tensor:
        return self.last(graph.nodes["paper"].data["feat"])


class RGCN(nn.Module):
    """Two layers with a convolution for each relation, and papers' own words beside them."""

    def __init__(self, graph: dglite.DGLGraph, width: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = (
            HeteroGraphConv({etype: GraphConv(size, hidden, norm="right") for etype in graph.etypes})
            for size in (width, hidden)
        )
        self.self_loop, self.last = nn.Linear(width, hidden), nn.Linear(hidden, FIELDS)

    def forward(self, graph: dglite.DGLGraph) -> Tensor:
        h = {ntype: F.relu(x) for ntype, x in self.first(graph, graph.ndata["feat"]).items()}
        papers = self.self_loop(graph.nodes["paper"].data["feat"])
        return self.last(F.relu(self.second(graph, h)["paper"] + papers))


class HAN(nn.Module):
    """Attention over the neighbours along each metapath, and weights of the metapaths."""

    def __init__(self, graph: dglite.DGLGraph, width: int, hidden: int, heads: int = 4) -> None:
        super().__init__()
        along = (dglite.metapath_reachable_graph(graph, metapath) for metapath in METAPATHS)
        self.graphs = [dglite.add_self_loop(dglite.remove_self_loop(g)) for g in along]
        self.convs = nn.ModuleList(GATConv(width, hidden // heads, heads, feat_drop=0.2) for _ in METAPATHS)
        self.score = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1, bias=False))
        self.last = nn.Linear(hidden, FIELDS)

    def forward(self, graph: dglite.DGLGraph) -> Tensor:
        x = graph.nodes["paper"].data["feat"]
        h = torch.stack([F.elu(conv(g, x).flatten(1)) for conv, g in zip(self.convs, self.graphs, strict=True)], 1)
        weights = self.score(h).mean(0).softmax(0)
        return self.last((h * weights).sum(1))


class HGT(nn.Module):
    """Two layers of a graph transformer, which takes all nodes as one set with a type for each."""

    def __init__(self, graph: dglite.DGLGraph, width: int, hidden: int, heads: int = 4) -> None:
        super().__init__()
        types = len(graph.ntypes), len(graph.etypes)
        self.all = dglite.to_homogeneous(graph, ndata=["feat"])
        self.papers = self.all.ndata[dglite.NTYPE] == graph.get_ntype_id("paper")
        self.first, self.second = (HGTConv(size, hidden // heads, heads, *types) for size in (width, hidden))
        self.last = nn.Linear(hidden, FIELDS)

    def forward(self, graph: dglite.DGLGraph) -> Tensor:
        types = self.all.ndata[dglite.NTYPE], self.all.edata[dglite.ETYPE]
        h = F.gelu(self.first(self.all, self.all.ndata["feat"], *types))
        return self.last(self.second(self.all, h, *types)[self.papers])


MODELS = {"words": Words, "rgcn": RGCN, "han": HAN, "hgt": HGT}


def train(model: nn.Module, graph: dglite.DGLGraph, epochs: int, name: str) -> list[float]:
    """Train; return the test accuracy after each epoch."""
    label, training = (graph.nodes["paper"].data[key] for key in ("label", "train_mask"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    accuracies = []
    for _ in (progress := tqdm(range(epochs), unit="epoch", desc=name, disable=None)):
        loss = F.cross_entropy(model.train()(graph)[training], label[training])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            right = model.eval()(graph).argmax(1) == label
        accuracies.append(right[~training].float().mean().item())
        progress.set_postfix(loss=f"{loss.item():.3f}", accuracy=f"{accuracies[-1]:.3f}", refresh=False)
    return accuracies


def draw(curves: dict[str, list[float]], path: str) -> None:
    """Draw the test accuracy of each model over epochs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, accuracies in curves.items():
        axes.plot(accuracies, label=name)
    axes.set(xlabel="epoch", ylabel="test accuracy", title="Fields of papers")
    axes.legend(frameon=False)
    figure.savefig(path)
    print(f"picture written to {path}")


def main() -> None:
    """Print the accuracy of each model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--models", choices=MODELS, nargs="+", default=list(MODELS), help="architectures to train; default: all"
    )
    parser.add_argument("--papers", type=int, default=2000, help="of the generated graph; default: %(default)s")
    parser.add_argument("--hidden", type=int, default=32, help="size of hidden layers; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=60, help="passes over the training data; default: %(default)s")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="train N times, with seeds 0, 1, ...; default: %(default)s"
    )
    parser.add_argument("--picture", metavar="FILE", help="draw the learning curves, with matplotlib")
    parser.add_argument("--expect", type=float, metavar="ACCURACY", help="fail when that of any but words is below")
    arguments = parser.parse_args()

    curves, predictions = {}, {}
    for name in arguments.models:
        accuracies = []
        for seed in range(arguments.seeds):
            torch.manual_seed(seed)
            graph = academic_graph(arguments.papers)
            model = MODELS[name](graph, graph.nodes["paper"].data["feat"].shape[1], arguments.hidden)
            curves[name] = train(model, graph, arguments.epochs, name)
            accuracies.append(curves[name][-1])
        predictions[name] = statistics.mean(accuracies)
        print(f"{name}: test accuracy {predictions[name]:.3f}")
    if arguments.picture:
        draw(curves, arguments.picture)
    worst = min((a for name, a in predictions.items() if name != "words"), default=1.0)
    if arguments.expect is not None and worst < arguments.expect:
        sys.exit(f"expected a test accuracy of at least {arguments.expect}, got {worst:.3f}")


if __name__ == "__main__":
    main()
