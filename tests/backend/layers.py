"""Layers that need nothing of torch alone, and what each is called with: a table for :mod:`tests.backend.product`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import dglite
from dglite import nn
from dglite.backend import framework

Call = tuple[Callable[[], Any], tuple[Any, ...]]
"""What makes a layer, and its arguments: arrays become tensors, those of floats with a gradient."""

F = framework.nn.functional
GRAPH = dglite.graph(([0, 1, 2, 3, 3, 0, 2, 2], [1, 2, 0, 0, 3, 1, 2, 1]), num_nodes=4)
EDGELESS = dglite.graph(([], []), num_nodes=4)
ENDS = ([0, 1, 4, 2, 2], [0, 0, 2, 1, 2])
BIPARTITE = dglite.heterograph({("user", "buys", "item"): ENDS}, {"user": 5, "item": 3})
BLOCK = dglite.create_block(ENDS, num_src_nodes=5, num_dst_nodes=3)
COMPLETE = dglite.graph(tuple(zip(*[(u, v) for u in range(4) for v in range(4) if u != v], strict=True)))
"""The root of a moment has no gradient at 0, as moments of a single message are."""
BATCH = dglite.batch([GRAPH, dglite.graph(([], []), num_nodes=0), dglite.graph(([], []), num_nodes=3)])
HETERO = dglite.heterograph({("u", "a", "v"): ([0, 1, 1], [0, 0, 1]), ("v", "b", "u"): ([0, 0, 1], [1, 1, 0])})


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    """Return float64 numbers of mean 0."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def positive(*shape: int) -> np.ndarray:
    """Return float64 numbers between 0.5 and 1.5."""
    return np.random.default_rng(shape).random(shape) + 0.5


def mlp(*sizes: int) -> Any:
    """Return linear layers with tanh between them."""
    results: list[Any] = []
    for before, after in pairwise(sizes):
        results += [framework.nn.Linear(before, after), framework.nn.Tanh()]
    return framework.nn.Sequential(*results[:-1])


def numbers(*values: float) -> Any:
    return framework.tensor(list(values))


def _without_edges(x: Any) -> Any:
    """Return an argument for GRAPH without its edges: what has a row for each of the 8 has none."""
    return x[:0] if isinstance(x, np.ndarray) and len(x) == 8 else x


X, Y, E, W = rows(4, 4), rows(4, 4, seed=3), rows(8, 2), positive(8)
ETYPES, NTYPES = np.array([2, 0, 2, 1, 0, 2, 2, 0]), np.arange(4) % 2
ADJACENCY = (rows(4, 4, seed=5) > -0.3).astype(np.float64)
MOST, ALL = ["mean", "sum", "max", "min", "std", "var"], ["identity", "amplification", "attenuation"]
POINTS = rows(7, 4)

ON_GRAPH: dict[str, Call] = {
    "AGNNConv": (lambda: nn.AGNNConv(0.5), (X,)),
    "APPNPConv": (lambda: nn.APPNPConv(3, 0.2), (X,)),
    "APPNPConv weighted": (lambda: nn.APPNPConv(3, 0.2), (X, W)),
    "AtomicConv": (
        lambda: nn.AtomicConv(numbers(2.0, 3.0), numbers(0.5, 1.0), numbers(1.0, 2.0)),
        (rows(4, 2), positive(8, 1)),
    ),
    "AtomicConv of types": (
        lambda: nn.AtomicConv(numbers(2.0), numbers(0.5), numbers(1.0), numbers(1.0, 3.0, 5.0)),
        (np.array([[1.0], [3.0], [1.0], [2.0]]), positive(8, 1)),
    ),
    "CFConv": (lambda: nn.CFConv(4, 2, 3, 5), (X, E)),
    "ChebConv": (lambda: nn.ChebConv(4, 3, 4), (X,)),
    "ChebConv lambda_max": (lambda: nn.ChebConv(4, 3, 3, F.relu, False), (X, [1.5])),
    "DGNConv": (
        lambda: nn.DGNConv(4, 4, ["dir1-av", "dir2-dx", "sum"], ["identity", "amplification"], 1.5),
        (X, None, rows(4, 2)),
    ),
    "DotGatConv": (lambda: nn.DotGatConv(4, 3, 2), (X,)),
    "EdgeConv": (lambda: nn.EdgeConv(4, 3), (X,)),
    "EdgeConv batch_norm": (lambda: nn.EdgeConv(4, 3, True), (X,)),
    "EdgeGATConv": (lambda: nn.EdgeGATConv(4, 2, 3, 2), (X, E)),
    "EGATConv": (lambda: nn.EGATConv(4, 2, 3, 2, 2), (X, E, W, True)),
    "EGNNConv": (lambda: nn.EGNNConv(4, 5, 3, 2), (X, rows(4, 3), E)),
    "GatedGCNConv": (lambda: nn.GatedGCNConv(4, 2, 3), (X, E)),
    "GatedGCNConv residual": (lambda: nn.GatedGCNConv(3, 3, 3, batch_norm=False), (rows(4, 3), rows(8, 3))),
    "GatedGraphConv": (lambda: nn.GatedGraphConv(4, 5, 2, 3), (X, ETYPES)),
    "GatedGraphConv one type": (lambda: nn.GatedGraphConv(5, 5, 2, 1), (rows(4, 5),)),
    "GATConv": (lambda: nn.GATConv(4, 3, 2, residual=True), (X,)),
    "GATv2Conv": (lambda: nn.GATv2Conv(4, 3, 2, residual=True), (X,)),
    "GCN2Conv": (lambda: nn.GCN2Conv(4, 2, 0.3, 0.5), (X, Y)),
    "GCN2Conv weighted": (lambda: nn.GCN2Conv(4, 2, 0.3, 0.5, project_initial_features=False), (X, Y, W)),
    "GINConv": (lambda: nn.GINConv(mlp(4, 5, 3), "sum", 0.5, True), (X,)),
    "GINConv max": (lambda: nn.GINConv(mlp(4, 5, 3), "max"), (X,)),
    "GINEConv": (lambda: nn.GINEConv(mlp(4, 3), 0.5, True), (X, rows(8, 4))),
    "GMMConv": (lambda: nn.GMMConv(4, 5, 2, 3, "sum", True), (X, E)),
    "GMMConv mean": (lambda: nn.GMMConv(4, 5, 2, 3, "mean"), (X, E)),
    "GMMConv max": (lambda: nn.GMMConv(4, 5, 2, 3, "max"), (X, E)),
    "GraphConv": (lambda: nn.GraphConv(4, 3), (X,)),
    "HGTConv": (lambda: nn.HGTConv(4, 3, 2, 2, 3, dropout=0.0), (X, NTYPES, ETYPES)),
    "HGTConv norm": (lambda: nn.HGTConv(6, 3, 2, 2, 3, 0.0, use_norm=True), (rows(4, 6), NTYPES, ETYPES)),
    "LabelPropagation": (lambda: nn.LabelPropagation(2, 0.5, normalize=True, reset=True), (np.arange(4), [0, 2])),
    "NNConv sum": (lambda: nn.NNConv(4, 5, mlp(2, 3, 20), "sum", True), (X, E)),
    "NNConv mean": (lambda: nn.NNConv(4, 5, mlp(2, 3, 20), "mean"), (X, E)),
    "NNConv max": (lambda: nn.NNConv(4, 5, mlp(2, 3, 20), "max"), (X, E)),
    "PNAConv": (lambda: nn.PNAConv(4, 4, MOST, ALL, 1.5), (X,)),
    "RelGraphConv": (lambda: nn.RelGraphConv(4, 6, 3), (X, ETYPES)),
    "RelGraphConv basis": (
        lambda: nn.RelGraphConv(4, 6, 3, "basis", 2, layer_norm=True, activation=F.relu),
        (X, ETYPES, positive(8, 1)),
    ),
    "RelGraphConv bdd": (lambda: nn.RelGraphConv(4, 6, 3, "bdd", 2), (X, ETYPES, positive(8, 1))),
    "SAGEConv": (lambda: nn.SAGEConv(4, 3, "mean"), (X,)),
    "Sequential": (lambda: nn.Sequential(nn.GraphConv(4, 4), nn.GraphConv(4, 3)), (X,)),
    "SGConv": (lambda: nn.SGConv(4, 3, 2), (X,)),
    "SGConv norm": (lambda: nn.SGConv(4, 3, 2, norm=F.tanh), (X,)),
    "TAGConv": (lambda: nn.TAGConv(4, 3, 2), (X,)),
    "TAGConv wider": (lambda: nn.TAGConv(2, 3, 2, activation=F.tanh), (rows(4, 2),)),
    "TWIRLSConv": (lambda: nn.TWIRLSConv(4, 3, 5, 3), (X,)),
    "TWIRLSConv deep": (lambda: nn.TWIRLSConv(4, 3, 5, 3, 2, 2, "layer", attention=True, lam=0.8), (X,)),
    "TWIRLSConv batch": (lambda: nn.TWIRLSConv(4, 3, 5, 3, 2, 2, "batch"), (X,)),
    "TWIRLSUnfoldingAndAttention": (
        lambda: nn.TWIRLSUnfoldingAndAttention(4, 0.3, 0.7, 3, init_att=True, use_eta=True),
        (X,),
    ),
    "TWIRLSUnfoldingAndAttention without preconditioning": (
        lambda: nn.TWIRLSUnfoldingAndAttention(4, 0, 1, 3, 2, T=3.0, p=0.5, precond=False),
        (X,),
    ),
}
ON_EDGELESS: dict[str, Call] = {
    f"{name} without edges": (ON_GRAPH[name][0], tuple(_without_edges(x) for x in ON_GRAPH[name][1]))
    for name in (
        "APPNPConv weighted",
        "CFConv",
        "EGNNConv",
        "GatedGCNConv",
        "GatedGraphConv",
        "GINConv max",
        "HGTConv",
        "NNConv max",
        "PNAConv",
        "RelGraphConv",
        "TWIRLSUnfoldingAndAttention",
    )
}
SIDES = (rows(5, 4), rows(3, 4, seed=1))
ON_PAIR: dict[str, Call] = {
    "CFConv pair": (lambda: nn.CFConv(4, 2, 3, 5), (SIDES, E[:5])),
    "EdgeConv pair": (lambda: nn.EdgeConv(4, 3), (SIDES,)),
    "EdgeGATConv pair": (lambda: nn.EdgeGATConv((4, 4), 2, 3, 2, residual=False), (SIDES, E[:5])),
    "EGATConv pair": (lambda: nn.EGATConv(4, 2, 3, 2, 2), (SIDES, E[:5])),
    "GINConv pair": (lambda: nn.GINConv(mlp(4, 5, 3), "mean"), (SIDES,)),
    "NNConv pair": (lambda: nn.NNConv(4, 5, mlp(2, 3, 20), "mean", True), (SIDES, E[:5])),
}
ON_BLOCK: dict[str, Call] = {
    "HGTConv block": (lambda: nn.HGTConv(4, 3, 2, 2, 3, 0.0), (SIDES[0], np.arange(5) % 2, ETYPES[:5])),
    "RelGraphConv block": (lambda: nn.RelGraphConv(4, 6, 3), (SIDES[0], ETYPES[:5])),
    "GATv2Conv block": (lambda: nn.GATv2Conv(4, 3, 2), (SIDES[0],)),
}
ON_COMPLETE: dict[str, Call] = {
    "PNAConv towers": (
        lambda: nn.PNAConv(4, 6, ["moment3", "moment4", "moment5", "mean"], ["attenuation"], 1.5, 0.0, 2, 3),
        (X, rows(12, 3)),
    ),
}
ON_BATCH: dict[str, Call] = {
    "SumPooling": (nn.SumPooling, (POINTS,)),
    "AvgPooling": (nn.AvgPooling, (POINTS,)),
    "MaxPooling": (nn.MaxPooling, (POINTS,)),
    "SortPooling": (lambda: nn.SortPooling(3), (POINTS,)),
    "WeightAndSum": (lambda: nn.WeightAndSum(4), (POINTS,)),
    "GlobalAttentionPooling": (lambda: nn.GlobalAttentionPooling(mlp(4, 1), mlp(4, 3)), (POINTS, True)),
    "Set2Set": (lambda: nn.Set2Set(4, 3, 2), (POINTS,)),
    "PNAConv of a batch": (lambda: nn.PNAConv(4, 4, ["sum"], ["identity"], 1.5), (POINTS,)),
    "ChebConv of a batch": (lambda: nn.ChebConv(4, 3, 3, None), (POINTS, [1.5, 2.0, 1.0])),
}
ON_HETERO: dict[str, Call] = {
    "HeteroGraphConv": (
        lambda: nn.HeteroGraphConv({"a": nn.SAGEConv(4, 3, "mean"), "b": nn.GINConv(mlp(4, 3))}, "sum"),
        ({"u": rows(2, 4), "v": rows(2, 4, seed=1)},),
    ),
    "HeteroGraphConv stack": (
        lambda: nn.HeteroGraphConv({"a": nn.SAGEConv(4, 3, "mean"), "b": nn.SAGEConv(4, 3, "gcn")}, "stack"),
        ({"u": rows(2, 4), "v": rows(2, 4, seed=1)},),
    ),
}
PAIR, RELATIONS = (rows(5, 4), rows(5, 4, seed=1)), np.array([0, 2, 2, 1, 0])
WITHOUT_GRAPH: dict[str, Call] = {
    "DegreeEncoder": (lambda: nn.DegreeEncoder(3, 4), (np.array([[[0, 5]], [[3, 1]]]),)),
    "DenseChebConv": (lambda: nn.DenseChebConv(4, 3, 3), (ADJACENCY, X)),
    "DenseChebConv lambda_max": (lambda: nn.DenseChebConv(4, 3, 3), (ADJACENCY, X, 1.5)),
    "DenseGraphConv": (lambda: nn.DenseGraphConv(4, 3), (ADJACENCY, X)),
    "DenseSAGEConv": (lambda: nn.DenseSAGEConv(4, 3), (ADJACENCY, X)),
    "HeteroLinear": (
        lambda: nn.HeteroLinear({"u": 4, "v": 2}, 3),
        ({"u": rows(2, 4), "v": rows(3, 2)},),
    ),
    "HeteroEmbedding": (
        lambda: nn.HeteroEmbedding({"u": 4, "v": 2}, 3),
        ({"u": np.array([3, 0, 3]), "v": np.array([1])},),
    ),
    "SpatialEncoder": (lambda: nn.SpatialEncoder(2, 3), (np.array([[[0, 1], [3, -1]]]),)),
    "TypedLinear": (lambda: nn.TypedLinear(4, 6, 3), (rows(5, 4), RELATIONS)),
    "TypedLinear sorted": (lambda: nn.TypedLinear(4, 6, 3), (rows(5, 4), np.sort(RELATIONS), True)),
    "TypedLinear basis": (lambda: nn.TypedLinear(4, 6, 3, "basis", 2), (rows(5, 4), RELATIONS)),
    "TypedLinear bdd": (lambda: nn.TypedLinear(4, 6, 3, "bdd", 2), (rows(5, 4), RELATIONS)),
    "TransE": (lambda: nn.TransE(3, 4), (*PAIR, RELATIONS)),
    "TransR": (lambda: nn.TransR(3, 2, 4, 2), (*PAIR, RELATIONS)),
    **{
        f"EdgePredictor {op}": (lambda op=op: nn.EdgePredictor(op, 4, 3, True), PAIR)
        for op in ("dot", "cos", "ele", "cat")
    },
    "JumpingKnowledge cat": (nn.JumpingKnowledge, (list(PAIR),)),
    "JumpingKnowledge max": (lambda: nn.JumpingKnowledge("max"), (list(PAIR),)),
    "JumpingKnowledge lstm": (lambda: nn.JumpingKnowledge("lstm", 4, 2), (list(PAIR),)),
    "WeightBasis": (lambda: nn.WeightBasis((2, 3), 2, 4), ()),
}
CASES = {
    name: (graph, *call)
    for graph, calls in (
        (GRAPH, ON_GRAPH),
        (EDGELESS, ON_EDGELESS),
        (BIPARTITE, ON_PAIR),
        (BLOCK, ON_BLOCK),
        (COMPLETE, ON_COMPLETE),
        (BATCH, ON_BATCH),
        (HETERO, ON_HETERO),
        (None, WITHOUT_GRAPH),
    )
    for name, call in calls.items()
}
"""The graph, or None for a layer that reads none, what makes the layer, and its arguments, by name."""

NEEDS_TORCH: dict[str, Callable[[], Any]] = {
    "BiasedMHA": lambda: nn.BiasedMHA(4, 2),
    "DeepWalk": lambda: nn.DeepWalk(GRAPH, 4),
    "DyGFormer": lambda: nn.DyGFormer(0, 2, 2, 2, 2, 4),
    "EGTLayer": lambda: nn.EGTLayer(4, 4, 2, 2),
    "GNNExplainer": lambda: nn.GNNExplainer(nn.GraphConv(2, 2), 1),
    "GraphMixer": lambda: nn.GraphMixer(0, 2, 2, 2, 2, 4),
    "GraphormerLayer": lambda: nn.GraphormerLayer(4, 4, 2),
    "HeteroGNNExplainer": lambda: nn.HeteroGNNExplainer(nn.GraphConv(2, 2), 1),
    "HeteroPGExplainer": lambda: nn.HeteroPGExplainer(nn.GraphConv(2, 2), 2),
    "HeteroSubgraphX": lambda: nn.HeteroSubgraphX(nn.GraphConv(2, 2), 1),
    "GroupRevRes": lambda: nn.GroupRevRes(nn.GraphConv(2, 2)),
    "LapPosEncoder": lambda: nn.LapPosEncoder("Transformer", 1, 2, 4),
    "MetaPath2Vec": lambda: nn.MetaPath2Vec(HETERO, ["a", "b"], 1, 4),
    "NodeEmbedding": lambda: nn.NodeEmbedding(3, 4, "needs torch"),
    "PGExplainer": lambda: nn.PGExplainer(nn.GraphConv(2, 2), 2),
    "PathEncoder": lambda: nn.PathEncoder(2, 4),
    "SetTransformerDecoder": lambda: nn.SetTransformerDecoder(4, 2, 2, 4, 1, 2),
    "SetTransformerEncoder": lambda: nn.SetTransformerEncoder(4, 2, 2, 4),
    "SpatialEncoder3d": lambda: nn.SpatialEncoder3d(2),
    "TGATConv": lambda: nn.TGATConv(2, 0, 2, 2),
    "TGNMemory": lambda: nn.TGNMemory(3, 2, 2, 2),
    "TimeEncoding": lambda: nn.TimeEncoding(2),
    "SubgraphX": lambda: nn.SubgraphX(nn.GraphConv(2, 2), 1),
}
"""What refuses to be made under the other backends."""

ELSEWHERE = {"EdgeWeightNorm", "FeatureDropout", "KNNGraph", "RadiusGraph", "SegmentedKNNGraph", "SparseLinear"}
"""Layers of which the product has cases of their own."""
