"""Explain why a graph convolutional network puts a paper into its field: by which citations and by which words.

    python examples/explain.py
    python examples/explain.py --node 1500 --top 10 --picture reasons.png

A two-layer GCN is trained on Cora, of which a few papers are labelled. GNNExplainer then weights the citations and the
words near one paper so that few of them give the same prediction. The explanation is the citations of weight above 0.5,
however many these are. To see how faithful it is, the prediction is computed again with those only, without them, and
with as many citations drawn at random: a good explanation keeps the probability, and nothing else does.

Papers are downloaded unless --raw-dir or DGLITE_DATA_DIR names a folder that has the files.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

import dglite
from dglite.data import CoraGraphDataset
from dglite.nn import GNNExplainer, GraphConv

NUM_HOPS = 2


class GCN(nn.Module):
    """Two graph convolutions; ``eweight`` multiplies the messages of both, as GNNExplainer asks for."""

    def __init__(self, in_feats: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.first = GraphConv(in_feats, hidden, activation=F.relu)
        self.second = GraphConv(hidden, num_classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, graph: dglite.DGLGraph, feat: torch.Tensor, eweight: torch.Tensor | None = None) -> torch.Tensor:
        x = self.first(graph, self.dropout(feat), edge_weight=eweight)
        return self.second(graph, self.dropout(x), edge_weight=eweight)


def train(graph: dglite.DGLGraph, epochs: int) -> GCN:
    """Return a model trained on the papers that are labelled."""
    feat, label, labelled = (graph.ndata[name] for name in ("feat", "label", "train_mask"))
    model = GCN(feat.shape[1], 16, int(label.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in tqdm(range(epochs), desc="Train", unit="epoch", disable=None):
        loss = F.cross_entropy(model(graph, feat)[labelled], label[labelled])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def draw(near: dglite.DGLGraph, paper: int, weights: torch.Tensor, path: str) -> None:
    """Draw the papers near one, coloured by field, with citations (num_edges,) as wide as their weights."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    src, dst = near.edges()
    cited = near.local_var()
    cited.edata["weight"] = weights
    cited.remove_edges(torch.nonzero(src == dst).flatten())
    dglite.plot(cited, color="label", edge_weights="weight", highlight=[paper], ax=figure.subplots())
    figure.savefig(path)
    print(f"picture written to {path}")


@torch.no_grad()
def probability(
    model: GCN, graph: dglite.DGLGraph, near: dglite.DGLGraph, paper: int, field: int, mask: torch.Tensor
) -> float:
    """Return the probability of a paper's field if, of the citations near it, only those ``mask`` carry messages.

    The graph is the whole one: at the border of the subgraph ``near``, papers have fewer citations, which changes how
    GraphConv scales their messages.
    """
    weight = torch.ones(graph.num_edges())
    weight[near.edata[dglite.EID]] = mask.float()
    return float(model(graph, graph.ndata["feat"], eweight=weight)[paper].softmax(-1)[field])


def main() -> None:
    """Train, explain one prediction, and test the explanation."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--node", type=int, default=10, help="the paper to explain; default: %(default)s")
    parser.add_argument("--top", type=int, default=5, help="how many citations and words to list; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=200, help="epochs of the model's training; default: %(default)s")
    parser.add_argument("--steps", type=int, default=300, help="steps of the explainer; default: %(default)s")
    parser.add_argument("--raw-dir", help="folder with the data set's files; default: DGLITE_DATA_DIR, else downloaded")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: %(default)s")
    parser.add_argument("--picture", metavar="FILE", help="draw the citations near the paper, with matplotlib")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    graph = dglite.add_self_loop(CoraGraphDataset(raw_dir=arguments.raw_dir, verbose=False)[0])
    model = train(graph, arguments.epochs)
    # Without a weight on the entropy: that keeps citations that change nothing where they were drawn, at 0 or at 1.
    explainer = GNNExplainer(model, NUM_HOPS, lr=0.05, num_epochs=arguments.steps, alpha1=0.02, alpha2=0.0)
    _, near, feat_mask, edge_mask = explainer.explain_node(arguments.node, graph, graph.ndata["feat"])

    with torch.no_grad():
        field = int(model(graph, graph.ndata["feat"])[arguments.node].argmax())
    print(
        f"paper {arguments.node} is put into field {field} (its label: {int(graph.ndata['label'][arguments.node])}) "
        f"from {near.num_nodes()} papers and {near.num_edges()} citations within {NUM_HOPS} steps"
    )
    explanation = edge_mask > 0.5
    count = int(explanation.sum())
    print(f"explanation: {count} of these citations; a paper cites itself, too")
    old, label = near.ndata[dglite.NID], near.ndata["label"]
    for edge in edge_mask.topk(min(arguments.top, count)).indices.tolist():
        src, dst = (int(ids[edge]) for ids in near.edges())
        print(f"  {edge_mask[edge]:.3f}  paper {old[src]} (field {label[src]}) -> {old[dst]} (field {label[dst]})")
    print("most important words")
    for word in feat_mask.topk(arguments.top).indices.tolist():
        papers = int((near.ndata["feat"][:, word] > 0).sum())
        print(f"  {feat_mask[word]:.3f}  word {word}, in {papers} of these papers")

    random = torch.zeros_like(explanation)
    random[torch.randperm(len(random))[:count]] = True
    print(f"probability of field {field}")
    for name, mask in {
        "all citations": torch.ones_like(explanation),
        "the explanation only": explanation,
        "all others only": ~explanation,
        "as many at random": random,
    }.items():
        print(f"  {name}: {probability(model, graph, near, arguments.node, field, mask):.3f}")
    if arguments.picture:
        draw(near, old.tolist().index(arguments.node), edge_mask, arguments.picture)


if __name__ == "__main__":
    main()
