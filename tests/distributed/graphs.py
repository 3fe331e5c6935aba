"""Small graphs to cut."""

from __future__ import annotations

import torch

import dglite


def homogeneous(num_nodes: int = 20, num_edges: int = 90) -> dglite.DGLGraph:
    """Return a random graph with loops, several edges of a pair, features of nodes and edges, and isolated nodes."""
    draw = torch.Generator().manual_seed(1)
    g = dglite.graph(
        (
            torch.randint(num_nodes - 2, (num_edges,), generator=draw),
            torch.randint(num_nodes - 1, (num_edges,), generator=draw),
        ),
        num_nodes=num_nodes,
    )
    g.ndata["x"] = torch.rand(num_nodes, 4, generator=draw)
    g.ndata["half"] = torch.rand(num_nodes, 2, 3, generator=draw).half()
    g.ndata["y"] = torch.arange(num_nodes) % 3
    g.ndata["train"] = torch.arange(num_nodes) % 4 != 1
    g.edata["w"] = torch.rand(num_edges, generator=draw)
    return g


def hetero() -> dglite.DGLGraph:
    """Return a random graph of users and items."""
    draw = torch.Generator().manual_seed(2)

    def pairs(count: int, src: int, dst: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randint(src, (count,), generator=draw), torch.randint(dst, (count,), generator=draw)

    edges = {
        ("user", "follows", "user"): pairs(40, 13, 13),
        ("user", "buys", "item"): pairs(50, 13, 9),
        ("item", "bought-by", "user"): pairs(30, 9, 13),
    }
    g = dglite.heterograph(edges, {"user": 13, "item": 9})
    g.nodes["user"].data["x"] = torch.rand(13, 4, generator=draw)
    g.nodes["item"].data["x"] = torch.rand(9, 3, generator=draw)
    g.nodes["user"].data["y"] = torch.arange(13) % 3
    g.edges["buys"].data["w"] = torch.rand(50, generator=draw)
    return g
