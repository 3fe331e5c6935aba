"""Guess which papers cite each other: GraphSAGE trained on mini-batches of edges against made-up ones.

    python examples/link_prediction.py --expect 0.88

A tenth of the citations of Cora is hidden, in both directions. What is left is trained on: batches of edges, for each a
made-up edge from the same paper, and the blocks that both need. The edges of a batch, and the reverse of each, are left
out of its blocks, or the model would see what it is asked for. The score of a pair is the product of its two
representations; the hidden citations are ranked against pairs drawn at random. ROC AUC of seeds 0 to 2:
0.915, 0.927, 0.919.

Papers are downloaded unless --raw-dir or DGLITE_DATA_DIR names a folder that has the files.
"""

from __future__ import annotations

import argparse
import sys

from tqdm import tqdm

import dglite
from dglite import metrics
from dglite.backend import framework
from dglite.data import CoraGraphDataset
from dglite.dataloading import DataLoader, NeighborSampler, as_edge_prediction_sampler, negative_sampler
from dglite.nn import EdgePredictor, SAGEConv

nn = framework.nn
F = framework.nn.functional
Tensor = framework.Tensor
Pairs = tuple[Tensor, Tensor]


class Encoder(nn.Module):
    """Two layers that average the neighbours."""

    def __init__(self, in_feats: int, hidden: int) -> None:
        super().__init__()
        self.first = SAGEConv(in_feats, hidden, "mean", feat_drop=0.5, activation=F.relu)
        self.second = SAGEConv(hidden, hidden, "mean")

    def forward(self, blocks: list[dglite.DGLGraph], x: Tensor) -> Tensor:
        """Return representations of the last block's destination nodes, (num_dst, hidden)."""
        return self.second(blocks[1], self.first(blocks[0], x))


def split(graph: dglite.DGLGraph, hidden_part: float) -> tuple[dglite.DGLGraph, Pairs]:
    """Return the graph without some citations, edge i + half being the reverse of edge i; and those citations."""
    src, dst = graph.edges()
    once = framework.nonzero(src < dst).flatten()
    once = once[framework.randperm(len(once))]
    src, dst = src[once], dst[once]
    count = int(hidden_part * len(once))
    left = framework.cat([src[count:], dst[count:]]), framework.cat([dst[count:], src[count:]])
    remaining = dglite.graph(left, num_nodes=graph.num_nodes())
    remaining.ndata["feat"] = graph.ndata["feat"]
    return remaining, (src[:count], dst[:count])


def train(graph: dglite.DGLGraph, hidden: int, epochs: int, batch_size: int) -> tuple[Encoder, nn.Module]:
    """Return an encoder and a predictor that were trained on the graph's edges."""
    encoder, predictor = Encoder(graph.ndata["feat"].shape[1], hidden), EdgePredictor("dot")
    optimizer = framework.optim.Adam(encoder.parameters(), lr=0.005)
    half = graph.num_edges() // 2
    sampler = as_edge_prediction_sampler(
        NeighborSampler([10, 10], prefetch_node_feats=["feat"]),
        exclude="reverse_id",
        reverse_eids=framework.cat([framework.arange(half, 2 * half), framework.arange(half)]),
        negative_sampler=negative_sampler.PerSourceUniform(1),
    )
    loader = DataLoader(graph, framework.arange(half), sampler, batch_size=batch_size, shuffle=True, num_workers=1)
    for _ in (progress := tqdm(range(epochs), unit="epoch", disable=None)):
        total = 0.0
        for _, positive, negative, blocks in loader:
            h = encoder(blocks, blocks[0].srcdata["feat"])
            scores = [predictor(h[u], h[v]).flatten() for u, v in (positive.edges(), negative.edges())]
            right = framework.cat([framework.ones_like(scores[0]), framework.zeros_like(scores[1])])
            loss = F.binary_cross_entropy_with_logits(framework.cat(scores), right)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        progress.set_postfix(loss=f"{total / len(loader):.3f}", refresh=False)
    return encoder, predictor


def main() -> None:
    """Hide citations, train on the others, rank the hidden ones."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--raw-dir", help="folder with Cora's files; default: DGLITE_DATA_DIR, else downloaded")
    parser.add_argument("--hidden", type=int, default=64, help="size of hidden layers; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training data; default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=512, help="edges of a training step; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: %(default)s")
    parser.add_argument("--expect", type=float, metavar="AUC", help="fail when the ROC AUC is below")
    arguments = parser.parse_args()

    framework.manual_seed(arguments.seed)
    dglite.seed(arguments.seed)
    graph, hidden_pairs = split(CoraGraphDataset(raw_dir=arguments.raw_dir)[0], 0.1)
    encoder, predictor = train(graph, arguments.hidden, arguments.epochs, arguments.batch_size)
    h = dglite.inference(encoder, graph, graph.ndata["feat"], batch_size=1024, num_layers=2, progress=False)
    random_pairs = [framework.randint(0, graph.num_nodes(), (10 * len(hidden_pairs[0]),)) for _ in range(2)]
    positive, negative = (predictor(h[u], h[v]).flatten() for u, v in (hidden_pairs, random_pairs))
    auc = metrics.roc_auc(positive, negative)
    print(f"ROC AUC {auc:.3f}, hits@100 {metrics.hits_at_k(positive, negative, 100):.3f}")
    if arguments.expect is not None and auc < arguments.expect:
        sys.exit(f"expected a ROC AUC of at least {arguments.expect}, got {auc:.3f}")


if __name__ == "__main__":
    main()
