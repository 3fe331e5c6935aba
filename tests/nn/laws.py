"""What holds for every layer, told once: a :class:`Case` says how a layer is made, called, and written per edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

import dglite
from dglite import DGLGraph
from tests.nn import dense

ISOTROPIC = "graph lonely edgeless empty".split()
"""Graphs whose nodes are sources and destinations alike."""
ALL_GRAPHS = [*ISOTROPIC, "block", "bipartite"]


@dataclass(frozen=True)
class Case:
    """A layer as the laws want to know it.

    ``make()`` constructs it, float32; ``inputs(g)`` are the arguments of its call after the graph (None for a layer
    that reads no graph), float64 tensors that require a gradient where they have one; ``plain(layer, g, *inputs)`` is
    its formula written with plain torch, edge by edge or with dense matrices, from the paper. ``state`` are the names
    and shapes of a DGL 2.1 state_dict of the layer constructed so. ``smooth``: whether a second derivative exists.
    ``refused`` lists (changed inputs, text of the error).
    """

    name: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[DGLGraph], tuple[Any, ...]]
    plain: Callable[..., Any]
    state: Mapping[str, tuple[int, ...]]
    graphs: tuple[str, ...] = tuple(ALL_GRAPHS)
    smooth: bool = True
    compiles: bool = True
    refused: tuple[tuple[Callable[[DGLGraph], tuple[Any, ...]], str], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def layer(self) -> torch.nn.Module:
        """Return the layer in float64, the same each time, its parameters away from 0."""
        torch.manual_seed(0)
        layer = self.make().double()
        for parameter in layer.parameters():
            if (parameter == 0).all():
                torch.nn.init.normal_(parameter)
        return layer.eval()


def run(layer: Any, g: DGLGraph | None, inputs: tuple[Any, ...]) -> Any:
    """Call a layer with the graph, if it reads one, and its inputs."""
    return layer(*inputs) if g is None else layer(g, *inputs)


def graph_of(name: str) -> DGLGraph | None:
    """Return one of the small graphs by name; None is for layers that read no graph."""
    if name == "none":
        return None
    if name == "edgeless":
        return dglite.graph(([], []), num_nodes=3)
    if name == "complete":
        pairs = [(u, v) for u in range(4) for v in range(4) if u != v]
        return dglite.graph(tuple(map(list, zip(*pairs, strict=True))))
    if name == "empty":
        return dglite.graph(([], []), num_nodes=0)
    if name == "batch":
        return dglite.batch([dense.graph(), graph_of("empty"), graph_of("edgeless")])
    result = {"graph": dense.graph, "lonely": dense.lonely_graph, "block": dense.block, "bipartite": dense.bipartite}
    return result[name]()


def ends(g: DGLGraph) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sources and destinations of all edges, int64."""
    src, dst = g.edges()
    return src.long(), dst.long()


def sides(g: DGLGraph, feat: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (source, destination) features, as DGL reads one tensor on a graph, a block or a bipartite graph."""
    if isinstance(feat, tuple):
        return feat
    return feat, feat[: g.num_dst_nodes()] if g.is_block else feat


def add_up(g: DGLGraph, messages: torch.Tensor) -> torch.Tensor:
    """Return the sums of messages (num_edges, ...) by destination."""
    result = torch.zeros(g.num_dst_nodes(), *messages.shape[1:], dtype=messages.dtype)
    return result.index_add(0, ends(g)[1], messages)


def by_node(g: DGLGraph, messages: torch.Tensor, reduce: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return ``reduce`` (degree, ...) -> (...) of each destination's messages in edge order, 0 without messages."""
    dst = ends(g)[1]
    rows = [messages[dst == v] for v in range(g.num_dst_nodes())]
    like = torch.zeros(messages.shape[1:], dtype=messages.dtype)
    reduced = [reduce(row) if len(row) else like for row in rows]
    return torch.stack(reduced) if reduced else messages.new_zeros(0, *messages.shape[1:])


def feat(size: int = 4, seed: int = 0, pair: bool = True) -> Callable[[DGLGraph], Any]:
    """Return what makes node features of a graph: a pair where it has two sets of nodes that are no block's."""

    def make(g: DGLGraph) -> Any:
        source = dense.double(g.num_src_nodes(), size, seed=seed)
        if pair and not g.is_homogeneous and not g.is_block:
            return source, dense.double(g.num_dst_nodes(), size, seed=seed + 1)
        return source

    return make


def efeat(size: int, seed: int = 7) -> Callable[[DGLGraph], torch.Tensor]:
    """Return what makes edge features of a graph."""
    return lambda g: dense.double(g.num_edges(), size, seed=seed)


def inputs(*makers: Callable[[DGLGraph], Any]) -> Callable[[DGLGraph], tuple[Any, ...]]:
    """Return what calls each of ``makers`` with the graph."""
    return lambda g: tuple(make(g) for make in makers)
