"""What ``minibatch.py`` trains: the same loaders and networks written with dglite, with DGL and, one of them, with PyG.

A task gives a loader, what reads a batch's features and labels, and a training step. dglite and DGL run the same code.
"""

from __future__ import annotations

import itertools
import pickle
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import OURS, power_law
from torch import nn

__all__ = ["TASKS", "Data", "Peer", "Sizes", "Task", "pyg_sage"]

NUM_CLASSES = 32
WIDTH = 128
FANOUTS = [15, 10, 5]


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    num_nodes: int
    num_edges: int
    batch_size: int
    batches: int
    mag_scale: float

    @property
    def num_seeds(self) -> int:
        """Seeds of all batches, the first of which is not timed."""
        return self.batch_size * (self.batches + 1)


class Data:
    """A power-law graph, features and labels, which all libraries share."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.src, self.dst = (torch.from_numpy(x) for x in power_law(sizes.num_nodes, sizes.num_edges))
        random = torch.Generator().manual_seed(0)
        self.x = torch.randn(sizes.num_nodes, WIDTH, generator=random)
        self.y = torch.randint(NUM_CLASSES, (sizes.num_nodes,), generator=random)
        count = min(sizes.num_seeds, sizes.num_nodes)
        self.seeds = torch.randperm(sizes.num_nodes, generator=random)[:count]
        self.edges = torch.randperm(sizes.num_edges, generator=random)[: sizes.num_seeds]


class Peer:
    """dglite or DGL, with the graph in the form that suits sampling: in-edges only."""

    def __init__(self, name: str, module: Any, dataloading: Any, layers: Any, data: Data) -> None:
        self.name, self.module, self.loading, self.nn, self.data = name, module, dataloading, layers, data
        self.fn = module.function
        self._graphs: dict[str, Any] = {}

    def graph(self, formats: str) -> Any:
        """Return the power-law graph with some formats and the features."""
        if formats not in self._graphs:
            g = self.module.graph((self.data.src, self.data.dst), num_nodes=self.data.sizes.num_nodes)
            g = g.formats(formats.split())
            g.create_formats_()
            g.ndata["x"], g.ndata["y"] = self.data.x, self.data.y
            self._graphs[formats] = g
        return self._graphs[formats]

    def loader(self, g: Any, indices: Any, sampler: Any, workers: int, batch_size: int = 0) -> Any:
        """Return a loader of shuffled batches."""
        batch_size = batch_size or self.data.sizes.batch_size
        return self.loading.DataLoader(
            g, indices, sampler, batch_size=batch_size, shuffle=True, drop_last=True, num_workers=workers
        )


@dataclass
class Task:
    """What is timed: ``loader(workers)`` gives batches, ``read`` their inputs, ``loss`` what is minimised."""

    loader: Callable[[int], Iterable[Any]]
    read: Callable[[Any], Any]
    loss: Callable[[Any], torch.Tensor]
    model: nn.Module

    def __post_init__(self) -> None:
        self._optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def step(self, batch: Any) -> None:
        """Train on a batch."""
        self._optimizer.zero_grad()
        self.loss(batch).backward()
        self._optimizer.step()


class Stack(nn.Module):
    """Layers with ReLU between them, on a block each or on one graph."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, graphs: list[Any], h: Any) -> Any:
        """Return the last layer's output."""
        for i, (layer, g) in enumerate(zip(self.layers, graphs, strict=True)):
            h = layer(g, h)
            h = {k: v.flatten(1) for k, v in h.items()} if isinstance(h, dict) else h.flatten(1)
            if i < len(self.layers) - 1:
                h = {k: F.relu(v) for k, v in h.items()} if isinstance(h, dict) else F.relu(h)
        return h


def sage(peer: Peer, widths: list[int]) -> Stack:
    """Return GraphSAGE."""
    torch.manual_seed(0)
    return Stack(peer.nn.SAGEConv(a, b, "mean") for a, b in itertools.pairwise(widths))


def _of_blocks(peer: Peer, sampler: Any, model: Stack) -> Task:
    g, seeds = peer.graph("csc"), peer.data.seeds

    def read(batch: Any) -> tuple[Any, Any]:
        return batch[2][0].srcdata["x"], batch[2][-1].dstdata["y"]

    def loss(batch: Any) -> torch.Tensor:
        x, y = read(batch)
        return F.cross_entropy(model(batch[2], x), y)

    return Task(lambda workers: peer.loader(g, seeds, sampler, workers), read, loss, model)


PREFETCHED = {"prefetch_node_feats": ["x"], "prefetch_labels": ["y"]}


def sage_task(peer: Peer) -> Task:
    """GraphSAGE by neighbour sampling."""
    sampler = peer.loading.NeighborSampler(FANOUTS, **PREFETCHED)
    return _of_blocks(peer, sampler, sage(peer, [WIDTH, WIDTH, WIDTH, NUM_CLASSES]))


def gat_task(peer: Peer) -> Task:
    """Graph attention, two layers of 4 heads."""
    torch.manual_seed(0)
    layers = [
        peer.nn.GATConv(WIDTH, 32, 4, allow_zero_in_degree=True),
        peer.nn.GATConv(WIDTH, NUM_CLASSES // 4, 4, allow_zero_in_degree=True),
    ]
    return _of_blocks(peer, peer.loading.NeighborSampler([10, 10], **PREFETCHED), Stack(layers))


def labor_task(peer: Peer) -> Task:
    """GraphSAGE by LABOR."""
    sampler = peer.loading.LaborSampler(FANOUTS, **PREFETCHED)
    return _of_blocks(peer, sampler, sage(peer, [WIDTH, WIDTH, WIDTH, NUM_CLASSES]))


def shadow_task(peer: Peer) -> Task:
    """GraphSAGE on ShaDow's subgraphs."""
    g, seeds = peer.graph("coo csr csc"), peer.data.seeds
    sampler = peer.loading.ShaDowKHopSampler([10, 5], prefetch_node_feats=["x", "y"])
    model = sage(peer, [WIDTH, WIDTH, NUM_CLASSES])

    def loss(batch: Any) -> torch.Tensor:
        _, seeds, subgraph = batch
        out = model([subgraph] * 2, subgraph.ndata["x"])
        return F.cross_entropy(out[: len(seeds)], subgraph.ndata["y"][: len(seeds)])

    def read(batch: Any) -> Any:
        return batch[2].ndata["x"], batch[2].ndata["y"]

    return Task(lambda workers: peer.loader(g, seeds, sampler, workers), read, loss, model)


PARTS, PARTS_PER_BATCH = 200, 10


def cluster_task(peer: Peer) -> Task:
    """GraphSAGE on unions of parts. The parts are random: METIS is not what is timed."""
    g, num_nodes = peer.graph("coo csr csc"), peer.data.sizes.num_nodes
    offsets = np.arange(PARTS + 1) * num_nodes // PARTS
    nodes = np.random.default_rng(0).permutation(num_nodes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "parts"
        with open(path, "wb") as file:
            if peer.name == OURS:
                np.savez(file, offsets=offsets, nodes=nodes)
            else:
                pickle.dump((torch.from_numpy(offsets), torch.from_numpy(nodes)), file)
        sampler = peer.loading.ClusterGCNSampler(g, PARTS, str(path), prefetch_ndata=["x", "y"])
    model, parts = sage(peer, [WIDTH, WIDTH, NUM_CLASSES]), torch.arange(PARTS)

    def loss(batch: Any) -> torch.Tensor:
        return F.cross_entropy(model([batch] * 2, batch.ndata["x"]), batch.ndata["y"])

    def read(batch: Any) -> Any:
        return batch.ndata["x"], batch.ndata["y"]

    return Task(lambda workers: peer.loader(g, parts, sampler, workers, PARTS_PER_BATCH), read, loss, model)


def link_task(peer: Peer) -> Task:
    """Link prediction: 5 negative pairs for each edge, the edges themselves left out of samples."""
    loading, g = peer.loading, peer.graph("coo csr csc")
    nodes = loading.NeighborSampler([10, 5], prefetch_node_feats=["x"])
    negative = loading.negative_sampler.Uniform(5)
    sampler = loading.as_edge_prediction_sampler(nodes, exclude="self", negative_sampler=negative)
    model = sage(peer, [WIDTH, WIDTH, WIDTH])

    def score(graph: Any, h: torch.Tensor) -> torch.Tensor:
        with graph.local_scope():
            graph.ndata["h"] = h
            graph.apply_edges(peer.fn.u_dot_v("h", "h", "score"))
            return graph.edata["score"][:, 0]

    def loss(batch: Any) -> torch.Tensor:
        _, positive, negative_graph, blocks = batch
        h = model(blocks, blocks[0].srcdata["x"])
        scores = torch.cat([score(positive, h), score(negative_graph, h)])
        labels = torch.zeros(len(scores))
        labels[: positive.num_edges()] = 1
        return F.binary_cross_entropy_with_logits(scores, labels)

    def read(batch: Any) -> Any:
        return batch[3][0].srcdata["x"]

    return Task(lambda workers: peer.loader(g, peer.data.edges, sampler, workers), read, loss, model)


MAG_NODES = {"paper": 736_389, "author": 1_134_649, "institution": 8_740, "field": 59_965}
MAG_EDGES = {
    ("author", "affiliated", "institution"): 1_043_998,
    ("author", "writes", "paper"): 7_145_660,
    ("paper", "cites", "paper"): 5_416_271,
    ("paper", "has", "field"): 7_505_078,
}
MAG_WIDTH = 64


def rgcn_task(peer: Peer) -> Task:
    """R-GCN on a graph of the shape of OGB-MAG, with the reverse of every relation."""
    g = _mag(peer)
    sampler = peer.loading.NeighborSampler(
        [10, 10], prefetch_node_feats={ntype: ["x"] for ntype in MAG_NODES}, prefetch_labels={"paper": ["y"]}
    )
    seeds = {"paper": torch.randperm(g.num_nodes("paper"))[: peer.data.sizes.num_seeds]}
    torch.manual_seed(0)
    layers = [
        peer.nn.HeteroGraphConv(
            {etype: peer.nn.GraphConv(MAG_WIDTH, width, "right", allow_zero_in_degree=True) for etype in g.etypes}
        )
        for width in (MAG_WIDTH, NUM_CLASSES)
    ]
    model = Stack(layers)

    def read(batch: Any) -> Any:
        first, last = batch[2][0], batch[2][-1]
        return {ntype: first.srcnodes[ntype].data["x"] for ntype in MAG_NODES}, last.dstnodes["paper"].data["y"]

    def loss(batch: Any) -> torch.Tensor:
        x, y = read(batch)
        return F.cross_entropy(model(batch[2], x)["paper"], y)

    return Task(lambda workers: peer.loader(g, seeds, sampler, workers), read, loss, model)


def _mag(peer: Peer) -> Any:
    scale, random = peer.data.sizes.mag_scale, torch.Generator().manual_seed(0)
    counts = {ntype: int(count * scale) for ntype, count in MAG_NODES.items()}
    edges = {}
    for (src, name, dst), count in MAG_EDGES.items():
        # Squares of uniform numbers: a few nodes of each type have most of the edges.
        ends = [(torch.rand(int(count * scale), generator=random) ** 2 * counts[n]).long() for n in (src, dst)]
        edges[src, name, dst] = ends[0], ends[1]
        edges[dst, f"{name}-reverse", src] = ends[1], ends[0]
    g = peer.module.heterograph(edges, counts).formats("csc")
    g.create_formats_()
    for ntype, count in counts.items():
        g.nodes[ntype].data["x"] = torch.randn(count, MAG_WIDTH, generator=random)
    g.nodes["paper"].data["y"] = torch.randint(NUM_CLASSES, (counts["paper"],), generator=random)
    return g


TASKS: dict[str, Callable[[Peer], Task]] = {
    "GraphSAGE": sage_task,
    "GAT": gat_task,
    "R-GCN": rgcn_task,
    "link prediction": link_task,
    "LABOR": labor_task,
    "ShaDow": shadow_task,
    "ClusterGCN": cluster_task,
}


def pyg_sage(geometric: Any, data: Data) -> Task:
    """GraphSAGE of PyTorch Geometric.

    With pyg-lib each layer works on the part of the sample that it needs; torch-sparse does not tell which that is.
    """
    from torch_geometric.loader import NeighborLoader
    from torch_geometric.utils import trim_to_layer

    graph = geometric.data.Data(x=data.x, y=data.y, edge_index=torch.stack([data.src, data.dst]))
    torch.manual_seed(0)
    widths = [WIDTH, WIDTH, WIDTH, NUM_CLASSES]
    model = nn.ModuleList(geometric.nn.SAGEConv(a, b) for a, b in itertools.pairwise(widths))
    shared = NeighborLoader(graph, FANOUTS[::-1], data.seeds, batch_size=data.sizes.batch_size)

    def loader(workers: int) -> Any:
        return NeighborLoader(
            graph,
            neighbor_sampler=shared.node_sampler,
            num_neighbors=FANOUTS[::-1],
            input_nodes=data.seeds,
            batch_size=data.sizes.batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=workers,
        )

    def loss(batch: Any) -> torch.Tensor:
        h, edges = batch.x, batch.edge_index
        for i, layer in enumerate(model):
            if "num_sampled_nodes" in batch:
                h, edges, _ = trim_to_layer(i, batch.num_sampled_nodes, batch.num_sampled_edges, h, edges)
            h = layer(h, edges)
            h = F.relu(h) if i < len(model) - 1 else h
        return F.cross_entropy(h[: batch.batch_size], batch.y[: batch.batch_size])

    return Task(loader, lambda batch: (batch.x, batch.y), loss, model)
