"""Explain why a graph convolutional network puts a paper into its field: by which citations and by which words.

    python examples/explain.py
    python examples/explain.py --node 1500 --top 10 --picture reasons.png

A two-layer GCN is trained on Cora, of which a few papers are labelled. GNNExplainer then weights the citations and the
words near one paper so that few of them give the same prediction. The prediction is computed again with the heaviest
citations only, and without them. Papers are downloaded unless --raw-dir or DGLITE_DATA_DIR names a folder that has the
files.
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
    for _ in tqdm(range(epochs), desc="Train", unit="epoch"):
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
    figure.savefig(path, dpi=100)


def main() -> None:
    """Train, explain one prediction, and test the explanation."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--node", type=int, default=10, help="the paper")
    parser.add_argument("--top", type=int, default=5, help="how many citations and words to show")
    parser.add_argument("--epochs", type=int, default=200, help="of the model")
    parser.add_argument("--steps", type=int, default=300, help="of the explainer")
    parser.add_argument("--raw-dir", help="folder with the data set's files; default: DGLITE_DATA_DIR, else downloaded")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", metavar="FILE", help="draw the citations near the paper, with matplotlib")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    graph = dglite.add_self_loop(CoraGraphDataset(raw_dir=arguments.raw_dir, verbose=False)[0])
    model = train(graph, arguments.epochs)
    # Without a weight on the entropy: that keeps citations that change nothing where they were drawn, at 0 or at 1.
    explainer = GNNExplainer(model, NUM_HOPS, lr=0.05, num_epochs=arguments.steps, alpha1=0.02, alpha2=0.0)
    new_id, near, feat_mask, edge_mask = explainer.explain_node(arguments.node, graph, graph.ndata["feat"])

    paper, feat = int(new_id), near.ndata["feat"]
    with torch.no_grad():
        predicted = int(model(near, feat)[paper].argmax())
    print(
        f"paper {arguments.node} is put into field {predicted} (its label: {int(near.ndata['label'][paper])}) from "
        f"{near.num_nodes()} papers and {near.num_edges()} citations within {NUM_HOPS} steps"
    )
    heaviest = edge_mask.topk(min(arguments.top, len(edge_mask))).indices
    print("\nmost important citations (a paper cites itself, too)")
    old, label = near.ndata[dglite.NID], near.ndata["label"]
    for edge in heaviest.tolist():
        src, dst = (int(ids[edge]) for ids in near.edges())
        print(f"{edge_mask[edge]:8.3f}  {old[src]:4} (field {label[src]}) -> {old[dst]:4} (field {label[dst]})")
    print("\nmost important words")
    for word in feat_mask.topk(arguments.top).indices.tolist():
        print(f"{feat_mask[word]:8.3f}  word {word:4}, in {int((feat[:, word] > 0).sum())} of these papers")

    if arguments.picture:
        draw(near, paper, edge_mask, arguments.picture)
    chosen = torch.zeros_like(edge_mask)
    chosen[heaviest] = 1.0
    print()
    for what, weight in (
        ("all citations", torch.ones_like(chosen)),
        ("these only", chosen),
        ("all others", 1 - chosen),
    ):
        with torch.no_grad():
            chance = model(near, feat, eweight=weight)[paper].softmax(-1)[predicted]
        print(f"probability of field {predicted} from {what}: {chance:.3f}")


if __name__ == "__main__":
    main()
