"""Train GraphSAGE by mini-batches with Lightning, whose trainer takes dglite's loaders.

    pip install "dglite[lightning]"
    python examples/lightning_sage.py --expect 0.8

The graph is synthetic: most edges join nodes of one class, and features say little about it. The trainer counts epochs,
validates, and moves batches to its device. Prints the accuracy on nodes that were not trained on.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import lightning
import torch
import torch.nn.functional as F

import dglite
from dglite.dataloading import DataLoader, NeighborSampler
from dglite.nn import SAGEConv


def planted(num_nodes: int = 2000, degree: int = 8) -> dglite.DGLGraph:
    """Return a graph of two classes; one edge in ten joins nodes of different ones."""
    label, count = torch.arange(num_nodes) % 2, num_nodes * degree
    src = torch.randint(num_nodes, (count,))
    step = 2 * torch.randint(num_nodes // 2, (count,)) + (torch.rand(count) < 0.1)
    g = dglite.graph((src, (src + step) % num_nodes), num_nodes=num_nodes)
    g.ndata["label"], g.ndata["feat"] = label, torch.randn(num_nodes, 8) + 0.4 * (2 * label[:, None] - 1)
    return g


class GraphSAGE(lightning.LightningModule):
    """Two layers; a step is a batch of the loader: ids of its inputs and outputs, and a block for each layer."""

    def __init__(self, in_feats: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(in_feats, hidden, "mean"), SAGEConv(hidden, num_classes, "mean")])

    def forward(self, blocks: list[dglite.DGLGraph]) -> torch.Tensor:
        """Return the logits of the last block's destinations."""
        first, second = self.layers
        return second(blocks[1], F.relu(first(blocks[0], blocks[0].srcdata["feat"])))

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        """Return the loss."""
        _, seeds, blocks = batch
        loss = F.cross_entropy(self(blocks), blocks[-1].dstdata["label"])
        self.log("loss", loss, batch_size=len(seeds))
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        """Log the accuracy."""
        _, seeds, blocks = batch
        right = self(blocks).argmax(1) == blocks[-1].dstdata["label"]
        self.log("accuracy", right.float().mean(), batch_size=len(seeds))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    """Train, and print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=2000, help="of the generated graph; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the training data; default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=128, help="nodes of a training step; default: %(default)s")
    parser.add_argument("--expect", type=float, default=0.0, help="fail if the accuracy is lower")
    options = parser.parse_args()
    lightning.seed_everything(0)
    g = planted(options.nodes)
    sampler = NeighborSampler([10, 10], prefetch_node_feats=["feat"], prefetch_labels=["label"])
    train, rest = torch.randperm(options.nodes).split([options.nodes // 4, options.nodes - options.nodes // 4])
    training = DataLoader(g, train, sampler, batch_size=options.batch_size, shuffle=True, num_workers=1)
    validation = DataLoader(g, rest, sampler, batch_size=options.batch_size, num_workers=1)
    trainer = lightning.Trainer(
        max_epochs=options.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=sys.stdout.isatty(),
    )
    trainer.fit(GraphSAGE(8, 16, 2), training, validation)
    accuracy = float(trainer.callback_metrics["accuracy"])
    print(f"test accuracy {accuracy:.3f}")
    if accuracy < options.expect:
        sys.exit(f"expected at least {options.expect}")


if __name__ == "__main__":
    main()
