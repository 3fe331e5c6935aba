"""Networks on blocks, which any number of ranks trains alike."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from dglite.nn import GATConv, GraphConv, HeteroGraphConv, SAGEConv

CLASSES = 3


class GraphSAGE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = SAGEConv(4, 8, "mean", activation=torch.tanh), SAGEConv(8, CLASSES, "mean")

    def forward(self, blocks: Any) -> torch.Tensor:
        return self.second(blocks[1], self.first(blocks[0], blocks[0].srcdata["x"].double()))


class GAT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = GATConv(4, 4, 2, activation=torch.tanh, allow_zero_in_degree=True)
        self.second = GATConv(8, CLASSES, 2, allow_zero_in_degree=True)

    def forward(self, blocks: Any) -> torch.Tensor:
        h = self.first(blocks[0], blocks[0].srcdata["x"].double()).flatten(1)
        return self.second(blocks[1], h).mean(1)


class RGCN(nn.Module):
    """A sum over relations (Schlichtkrull et al., 2018) on users and items whose features are projected first."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.ModuleDict({"user": nn.Linear(4, 5), "item": nn.Linear(3, 5)})
        self.first, self.second = self._relations(5, 8), self._relations(8, CLASSES)
        self.loop = nn.Linear(8, CLASSES)

    @staticmethod
    def _relations(width: int, out: int) -> HeteroGraphConv:
        names = "follows", "buys", "bought-by"
        layers = {name: GraphConv(width, out, norm="right", allow_zero_in_degree=True) for name in names}
        return HeteroGraphConv(layers, aggregate="sum")

    def forward(self, blocks: Any) -> torch.Tensor:
        x = blocks[0].srcdata["x"]
        h = self.first(blocks[0], {ntype: self.inputs[ntype](own.double()) for ntype, own in x.items()})
        h = {ntype: own.tanh() for ntype, own in h.items()}
        return self.second(blocks[1], h)["user"] + self.loop(h["user"][: blocks[1].num_dst_nodes("user")])


NETWORKS: dict[str, type[nn.Module]] = {"GraphSAGE": GraphSAGE, "GAT": GAT, "RGCN": RGCN}
