"""Graphs and models of which the right explanation is known."""

from __future__ import annotations

import torch
from torch import nn

import dglite
from dglite import DGLGraph

TRIANGLE = [8, 9, 10]


def tree_with_triangle() -> DGLGraph:
    """Return a tree of 8 nodes with a triangle attached, every edge with its reverse."""
    ends = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (3, 7), (8, 0), (8, 9), (9, 10), (10, 8)]
    return dglite.add_reverse_edges(dglite.graph(ends))


def marks(g: DGLGraph) -> torch.Tensor:
    """Return features (num_nodes, 4) of which the third marks the nodes of the triangle."""
    x = torch.full((g.num_nodes(), 4), 0.5)
    x[:, 2] = 0.0
    x[TRIANGLE, 2] = 1.0
    return x


def in_triangle(g: DGLGraph) -> torch.Tensor:
    """Return which edges are the triangle's."""
    src, dst = g.edges()
    return torch.isin(src, torch.tensor(TRIANGLE)) & torch.isin(dst, torch.tensor(TRIANGLE))


class Weightless(nn.Module):
    """A model that takes weights of edges, and ignores them; of typed graphs, too."""

    def __init__(self, of_nodes: bool, typed: bool) -> None:
        super().__init__()
        self.of_nodes, self.typed = of_nodes, typed
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, graph, feat, embed=False, **weights):
        logits = {ntype: x * self.scale for ntype, x in (feat if self.typed else {"_N": feat}).items()}
        if embed or self.of_nodes:
            return logits if self.typed else logits["_N"]
        return sum(x.sum(0, keepdim=True) for x in logits.values())


class MarkedPairs(nn.Module):
    """Predicts class 1 by the number of edges whose ends are both marked by feature 2: of a graph, or at each node."""

    def __init__(self, of_nodes: bool = False, bias: float = 3.0) -> None:
        super().__init__()
        self.of_nodes = of_nodes
        self.scale = nn.Parameter(torch.ones(1))
        self.bias = bias
        self.calls = 0

    def forward(
        self,
        graph: DGLGraph,
        feat: torch.Tensor,
        eweight: torch.Tensor | None = None,
        embed: bool = False,
        edge_weight: torch.Tensor | None = None,
    ) -> torch.Tensor:
        self.calls += 1
        if embed:
            return feat
        weight = edge_weight if eweight is None else eweight
        with graph.local_scope():
            graph.ndata["x"] = feat[:, 2:3] * self.scale
            graph.apply_edges(dglite.function.u_mul_v("x", "x", "m"))
            if weight is not None:
                graph.edata["m"] = graph.edata["m"] * weight.unsqueeze(1)
            if self.of_nodes:
                graph.update_all(dglite.function.copy_e("m", "m"), dglite.function.sum("m", "n"))
                count = graph.ndata["n"]
            else:
                count = dglite.readout_edges(graph, "m")
        return torch.cat([torch.zeros_like(count), 2 * count - self.bias], 1)


RELATIONS = [("user", "plays", "game"), ("game", "played by", "user"), ("user", "likes", "user")]


def users_and_games() -> DGLGraph:
    """Return a graph in which user 4 and game 3 are linked to each other only, except for one edge to the rest."""
    plays = [(0, 0), (1, 0), (1, 1), (2, 1), (3, 2), (2, 2), (4, 3), (3, 3)]
    back = [(game, user) for user, game in plays]
    return dglite.heterograph(dict(zip(RELATIONS, [plays, back, [(0, 1), (1, 0)]], strict=True)))


def typed_marks(g: DGLGraph) -> dict[str, torch.Tensor]:
    """Return features (num_nodes, 4) of which the third marks user 4 and game 3."""
    x = {ntype: torch.full((g.num_nodes(ntype), 4), 0.5) for ntype in g.ntypes}
    for ntype, node in (("user", 4), ("game", 3)):
        x[ntype][:, 2] = 0.0
        x[ntype][node, 2] = 1.0
    return x


class TypedMarkedPairs(nn.Module):
    """MarkedPairs of a heterogeneous graph."""

    def __init__(self, of_nodes: bool = False, bias: float = 1.0) -> None:
        super().__init__()
        self.of_nodes, self.bias = of_nodes, bias
        self.scale = nn.Parameter(torch.ones(1))

    def forward(
        self,
        graph: DGLGraph,
        feat: dict[str, torch.Tensor],
        eweight: dict[tuple[str, str, str], torch.Tensor] | None = None,
        embed: bool = False,
        edge_weight: dict[tuple[str, str, str], torch.Tensor] | None = None,
    ) -> torch.Tensor | dict[str, torch.Tensor]:
        if embed:
            return feat
        weight = edge_weight if eweight is None else eweight
        count: dict[str, torch.Tensor] = {}
        total = 0
        with graph.local_scope():
            graph.ndata["x"] = {ntype: x[:, 2:3] * self.scale for ntype, x in feat.items()}
            for etype in graph.canonical_etypes:
                graph.apply_edges(dglite.function.u_mul_v("x", "x", "m"), etype=etype)
                data = graph.edges[etype].data
                if weight is not None:
                    data["m"] = data["m"] * weight[etype].unsqueeze(1)
                graph.update_all(dglite.function.copy_e("m", "m"), dglite.function.sum("m", "n"), etype=etype)
                count[etype[2]] = count.get(etype[2], 0) + graph.nodes[etype[2]].data["n"]
                total = total + dglite.readout_edges(graph, "m", etype=etype)
        if not self.of_nodes:
            return torch.cat([torch.zeros_like(total), 2 * total - self.bias], 1)
        return {ntype: torch.cat([torch.zeros_like(n), 2 * n - self.bias], 1) for ntype, n in count.items()}
