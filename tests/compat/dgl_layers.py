"""DGL's layers, small, and a call of each: ``python dgl_layers.py FILE [NAME ...]`` writes them by DGL 2.1 itself.

The file holds for each name the bytes of ``torch.save(layer)`` and what DGL's layer returns. ``CASES`` are run under
the alias by ``test_layer_pickles.py``, so that both sides make the same layers and calls.
"""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

Make = Callable[[Any, Any], tuple[Any, Callable[[Any], Any]]]
"""Of ``dgl.nn.pytorch`` and ``dgl``, returns a layer and a call of it."""

SRC, DST = [0, 1, 2, 3, 4, 0, 2, 2], [1, 2, 3, 4, 0, 2, 0, 2]


def graph(dgl: Any) -> Any:
    """Return five nodes with in-edges, a self-loop among them."""
    return dgl.graph((SRC, DST), num_nodes=5)


def several(dgl: Any) -> Any:
    """Return a graph of two relations."""
    edges = {("user", "follows", "user"): ([0, 1, 2], [1, 2, 0]), ("user", "plays", "game"): ([0, 1, 2], [0, 0, 1])}
    return dgl.heterograph(edges, num_nodes_dict={"user": 3, "game": 2})


def x(rows: int = 5, *feat: int) -> torch.Tensor:
    """Return features that are no multiples of each other."""
    feat = feat or (4,)
    size = rows * int(torch.tensor(feat).prod())
    return (torch.arange(size, dtype=torch.float32).reshape(rows, *feat) * 0.7).sin()


def on_nodes(*args: Any, name: str, **options: Any) -> Make:
    """Return a case of a layer that takes a graph and features of nodes."""
    return lambda N, dgl: (getattr(N, name)(*args, **options), lambda layer: layer(graph(dgl), x()))


def on_edges(*args: Any, name: str, width: int = 3, **options: Any) -> Make:
    """Return a case of a layer that takes features of nodes and of edges."""
    return lambda N, dgl: (getattr(N, name)(*args, **options), lambda layer: layer(graph(dgl), x(), x(8, width)))


def on_pairs(make: Callable[[Any], Any]) -> Make:
    """Return a case of a layer over two sets of nodes."""
    bipartite = lambda dgl: dgl.heterograph({("u", "e", "v"): ([0, 1, 2, 1], [0, 0, 1, 1])})  # noqa: E731
    return lambda N, dgl: (make(N), lambda layer: layer(bipartite(dgl), (x(3), x(2, 3))))


def plain(make: Callable[[Any], Any], *inputs: Any) -> Make:
    """Return a case of a module that takes no graph."""
    return lambda N, dgl: (make(N), lambda layer: layer(*inputs))


def batched(dgl: Any) -> Any:
    """Return a batch of two graphs."""
    return dgl.batch([dgl.graph(([0, 1], [1, 0])), dgl.graph(([0, 1, 2], [1, 2, 0]))])


def on_batch(make: Callable[[Any], Any]) -> Make:
    """Return a case of a layer that reads a batch out."""
    return lambda N, dgl: (make(N), lambda layer: layer(batched(dgl), x()))


def hetero_conv(aggregate: Any) -> Make:
    """Return a case of ``HeteroGraphConv``."""
    features = {"user": x(3), "game": x(2)}

    def make(N: Any, dgl: Any) -> tuple[Any, Callable[[Any], Any]]:
        layers = {"follows": N.GraphConv(4, 4), "plays": N.SAGEConv(4, 4, "mean")}
        return N.HeteroGraphConv(layers, aggregate), lambda layer: layer(several(dgl), features)

    return make


def deep_walk(fast_neg: bool) -> Make:
    """Return a case of ``DeepWalk``, whose loss is random."""
    check = lambda layer: [layer.node_embed.weight, layer(layer.sample([0, 1])).isfinite()]  # noqa: E731
    return lambda N, dgl: (N.DeepWalk(graph(dgl), 4, 6, 2, fast_neg=fast_neg), check)


def with_eigenvectors(dgl: Any) -> torch.Tensor:
    """Return what DGNConv takes of a graph."""
    return x(5, 2)


AGGREGATORS = ["mean", "max", "min", "sum", "std", "var", "moment4"]  # roots of odd moments lose digits near 0
TYPES = torch.tensor([0, 1, 0, 2, 1, 1, 0, 2])

CASES: dict[str, Make] = {
    "AGNNConv": on_nodes(name="AGNNConv"),
    "APPNPConv": on_nodes(3, 0.1, name="APPNPConv"),
    "AtomicConv": lambda N, dgl: (
        N.AtomicConv(torch.tensor([4.0, 5.0]), torch.tensor([1.0, 2.0]), torch.tensor([2.0, 3.0]), torch.tensor([6.0])),
        lambda layer: layer(graph(dgl), torch.tensor([[6.0], [8.0], [6.0], [6.0], [8.0]]), x(8, 1).abs()),
    ),
    "AtomicConv without features": lambda N, dgl: (
        N.AtomicConv(torch.tensor([4.0]), torch.tensor([1.0]), torch.tensor([2.0])),
        lambda layer: layer(graph(dgl), x(5, 1), x(8, 1).abs()),
    ),
    "CFConv": on_edges(4, 3, 5, 2, name="CFConv"),
    "ChebConv": on_nodes(4, 3, 2, name="ChebConv"),
    "DGNConv": lambda N, dgl: (
        N.DGNConv(4, 4, ["dir1-av", "dir1-dx", "sum"], ["identity", "amplification"], 2.5, num_towers=2),
        lambda layer: layer(graph(dgl), x(), eig_vec=with_eigenvectors(dgl)),
    ),
    "DenseChebConv": lambda N, dgl: (
        N.DenseChebConv(4, 3, 2),
        lambda layer: layer(torch.eye(5).roll(1, 0), x(), torch.tensor(2.0)),
    ),
    "DenseGraphConv": lambda N, dgl: (N.DenseGraphConv(4, 3), lambda layer: layer(torch.eye(5).roll(1, 0), x())),
    "DenseSAGEConv": lambda N, dgl: (N.DenseSAGEConv(4, 3), lambda layer: layer(torch.eye(5).roll(1, 0), x())),
    "DotGatConv": on_nodes(4, 3, 2, name="DotGatConv"),
    "DotGatConv of a pair": on_pairs(lambda N: N.DotGatConv((4, 3), 2, 2)),
    "EGATConv": lambda N, dgl: (
        N.EGATConv(4, 3, 4, 3, 2),
        lambda layer: layer(graph(dgl), x(), x(8, 3)),
    ),
    "EGNNConv": lambda N, dgl: (
        N.EGNNConv(4, 5, 4, 3),
        lambda layer: layer(graph(dgl), x(), x(5, 3), x(8, 3)),
    ),
    "EGNNConv without edges": lambda N, dgl: (N.EGNNConv(4, 5, 4), lambda layer: layer(graph(dgl), x(), x(5, 3))),
    "EdgeConv": on_nodes(4, 3, name="EdgeConv", batch_norm=True),
    "EdgeGATConv": on_edges(4, 3, 2, 2, name="EdgeGATConv", residual=True),
    "EdgeGATConv of a pair": lambda N, dgl: (
        N.EdgeGATConv((4, 4), 3, 2, 2),
        lambda layer: layer(graph(dgl), (x(), x()), x(8, 3)),
    ),
    "EdgeWeightNorm": lambda N, dgl: (
        N.EdgeWeightNorm("both"),
        lambda layer: layer(graph(dgl), x(8, 1)[:, 0].abs() + 1),
    ),
    "GATConv": on_nodes(4, 3, 2, name="GATConv", residual=True, activation=nn.ELU()),
    "GATConv of a pair": on_pairs(lambda N: N.GATConv((4, 3), 2, 2)),
    "GATv2Conv": on_nodes(4, 3, 2, name="GATv2Conv", residual=True),
    "GATv2Conv shared": on_nodes(4, 3, 2, name="GATv2Conv", share_weights=True),
    "GCN2Conv": lambda N, dgl: (N.GCN2Conv(4, 1), lambda layer: layer(graph(dgl), x(), x())),
    "GCN2Conv of two weights": lambda N, dgl: (
        N.GCN2Conv(4, 2, project_initial_features=False),
        lambda layer: layer(graph(dgl), x(), x()),
    ),
    "GINConv": lambda N, dgl: (N.GINConv(nn.Linear(4, 3), "max"), lambda layer: layer(graph(dgl), x())),
    "GINConv learned": lambda N, dgl: (N.GINConv(None, learn_eps=True), lambda layer: layer(graph(dgl), x())),
    "GINEConv": lambda N, dgl: (N.GINEConv(nn.Linear(4, 3)), lambda layer: layer(graph(dgl), x(), x(8, 4))),
    "GMMConv": on_edges(4, 3, 3, 2, name="GMMConv"),
    "GMMConv max": on_edges(4, 3, 3, 2, "max", True, name="GMMConv"),
    "GMMConv mean": on_edges(4, 4, 3, 2, "mean", True, name="GMMConv"),
    "GatedGCNConv": on_edges(4, 3, 3, name="GatedGCNConv"),
    "GatedGraphConv": lambda N, dgl: (N.GatedGraphConv(4, 4, 2, 3), lambda layer: layer(graph(dgl), x(), TYPES)),
    "GraphConv": on_nodes(4, 3, name="GraphConv", activation=torch.relu),
    "GroupRevRes": lambda N, dgl: (N.GroupRevRes(N.GraphConv(2, 2), 2), lambda layer: layer(graph(dgl), x())),
    "HGTConv": lambda N, dgl: (
        N.HGTConv(4, 2, 2, 2, 3),
        lambda layer: layer(graph(dgl), x(), torch.tensor([0, 1, 0, 1, 1]), TYPES),
    ),
    "NNConv": lambda N, dgl: (
        N.NNConv(4, 3, nn.Linear(3, 12), "mean"),
        lambda layer: layer(graph(dgl), x(), x(8, 3)),
    ),
    "NNConv max": lambda N, dgl: (
        N.NNConv(4, 4, nn.Linear(3, 16), "max", residual=True),
        lambda layer: layer(graph(dgl), x(), x(8, 3)),
    ),
    "PNAConv": lambda N, dgl: (
        N.PNAConv(4, 4, AGGREGATORS, ["identity", "amplification", "attenuation"], 2.5, num_towers=2, edge_feat_size=3),
        lambda layer: layer(graph(dgl), x(), x(8, 3)),
    ),
    "PNAConv of one tower": on_nodes(4, 3, ["mean"], ["identity"], 1.0, name="PNAConv", residual=False),
    "RelGraphConv": lambda N, dgl: (
        N.RelGraphConv(4, 3, 3, regularizer="basis", num_bases=2, layer_norm=True),
        lambda layer: layer(graph(dgl), x(), TYPES),
    ),
    "RelGraphConv bdd": lambda N, dgl: (
        N.RelGraphConv(4, 4, 3, "bdd", 2, self_loop=False),
        lambda layer: layer(graph(dgl), x(), TYPES),
    ),
    "RelGraphConv plain": lambda N, dgl: (N.RelGraphConv(4, 3, 3), lambda layer: layer(graph(dgl), x(), TYPES)),
    **{f"SAGEConv {kind}": on_nodes(4, 3, kind, name="SAGEConv") for kind in ("mean", "gcn", "pool", "lstm")},
    "SGConv": on_nodes(4, 3, 2, name="SGConv", cached=True),
    "TAGConv": on_nodes(4, 3, 2, name="TAGConv"),
    "TWIRLSConv": on_nodes(4, 3, 5, 2, 1, 1, name="TWIRLSConv"),
    "TWIRLSConv with attention": on_nodes(
        4, 3, 5, 2, 1, 1, name="TWIRLSConv", attention=True, tau=0.3, norm="batch", attn_bef=True
    ),
    "TWIRLSUnfoldingAndAttention": on_nodes(4, 1.0, 0.5, 3, name="TWIRLSUnfoldingAndAttention"),
    "TWIRLSUnfoldingAndAttention without": on_nodes(
        4, 1.0, 0.5, 3, False, False, 0.2, -1, 1, 0.9, 0, name="TWIRLSUnfoldingAndAttention"
    ),
    # -- pooling
    "SumPooling": on_batch(lambda N: N.SumPooling()),
    "AvgPooling": on_batch(lambda N: N.AvgPooling()),
    "MaxPooling": on_batch(lambda N: N.MaxPooling()),
    "SortPooling": on_batch(lambda N: N.SortPooling(2)),
    "WeightAndSum": on_batch(lambda N: N.WeightAndSum(4)),
    "GlobalAttentionPooling": on_batch(lambda N: N.GlobalAttentionPooling(nn.Linear(4, 1), nn.Linear(4, 3))),
    "Set2Set": on_batch(lambda N: N.Set2Set(4, 2, 2)),
    "SetTransformerEncoder": on_batch(lambda N: N.SetTransformerEncoder(4, 2, 2, 4, 2)),
    "SetTransformerEncoder induced": on_batch(lambda N: N.SetTransformerEncoder(4, 2, 2, 4, 2, "isab", 3, 0.1, 0.1)),
    "SetTransformerDecoder": on_batch(lambda N: N.SetTransformerDecoder(4, 2, 2, 4, 2, 3)),
    # -- several types
    **{f"HeteroGraphConv {how}": hetero_conv(how) for how in ("sum", "max", "min", "mean", "stack")},
    "HeteroLinear": plain(lambda N: N.HeteroLinear({"a": 4, "b": 3}, 2), {"a": x(2), "b": x(3, 3)}),
    "HeteroEmbedding": plain(lambda N: N.HeteroEmbedding({"a": 4, "b": 3}, 2), {"a": torch.tensor([0, 2])}),
    "TypedLinear": plain(lambda N: N.TypedLinear(4, 3, 3, "basis", 2), x(8), TYPES),
    "TypedLinear plain": plain(lambda N: N.TypedLinear(4, 3, 3), x(8), TYPES),
    "TypedLinear bdd": plain(lambda N: N.TypedLinear(4, 4, 3, "bdd", 2), x(8), TYPES),
    # -- transformers
    "BiasedMHA": plain(lambda N: N.BiasedMHA(4, 2), x(2, 3, 4), x(2, 3, 3, 2)),
    "DegreeEncoder": plain(lambda N: N.DegreeEncoder(3, 4), torch.tensor([[[1, 2], [3, 0]], [[0, 1], [2, 2]]]).mT),
    "EGTLayer": plain(lambda N: N.EGTLayer(4, 2, 2, 1), x(2, 3, 4), x(2, 3, 3, 2)),
    "EGTLayer last": plain(lambda N: N.EGTLayer(4, 2, 2, 1, edge_update=False), x(2, 3, 4), x(2, 3, 3, 2)),
    "GraphormerLayer": plain(lambda N: N.GraphormerLayer(4, 5, 2), x(2, 3, 4), x(2, 3, 3, 2)),
    "LapPosEncoder": plain(lambda N: N.LapPosEncoder("Transformer", 2, 4, 4, 2), x(5, 4), x(5, 4)),
    "LapPosEncoder DeepSet": plain(lambda N: N.LapPosEncoder("DeepSet", 2, 4, 4), x(5, 4), x(5, 4)),
    "PathEncoder": plain(lambda N: N.PathEncoder(2, 4, 2), torch.tensor([[[1, 2], [2, 0]]]), x(1, 2, 2, 2, 4)),
    "SpatialEncoder": plain(lambda N: N.SpatialEncoder(3, 2), torch.tensor([[[0, 1], [2, -1]]])),
    "SpatialEncoder3d": lambda N, dgl: (
        N.SpatialEncoder3d(4, 2, 3),
        lambda layer: layer(x(1, 3, 3), torch.tensor([[0, 1, 2]])),
    ),
    # -- links, embeddings, other modules
    "EdgePredictor": plain(lambda N: N.EdgePredictor("cos", 4, 2, True), x(3), x(3)),
    "EdgePredictor dot": plain(lambda N: N.EdgePredictor("dot"), x(3), x(3)),
    "TransE": plain(lambda N: N.TransE(3, 4), x(3), x(3), torch.tensor([0, 2, 1])),
    "TransR": plain(lambda N: N.TransR(3, 2, 4), x(3), x(3), torch.tensor([0, 2, 1])),
    "JumpingKnowledge": plain(lambda N: N.JumpingKnowledge("lstm", 4, 3), [x(), x(), x()]),
    "JumpingKnowledge cat": plain(lambda N: N.JumpingKnowledge("cat"), [x(), x()]),
    "LabelPropagation": lambda N, dgl: (
        N.LabelPropagation(3, 0.5),
        lambda layer: layer(graph(dgl), torch.tensor([0, 1, 2, 0, 1]), torch.tensor([True, True, True, False, False])),
    ),
    "Identity": plain(lambda N: N.utils.Identity(), x()),
    "Sequential": lambda N, dgl: (
        N.Sequential(N.GraphConv(4, 4), N.GATConv(4, 4, 1)),
        lambda layer: layer(graph(dgl), x()),
    ),
    "WeightBasis": plain(lambda N: N.WeightBasis((2, 3), 2, 4)),
    "KNNGraph": lambda N, dgl: (N.KNNGraph(2), lambda layer: layer(x()).edges()),
    "SegmentedKNNGraph": lambda N, dgl: (N.SegmentedKNNGraph(2), lambda layer: layer(x(), [2, 3]).edges()),
    "RadiusGraph": lambda N, dgl: (N.RadiusGraph(1.5), lambda layer: layer(x()).edges()),
    **{f"DeepWalk, {fast_neg=}": deep_walk(fast_neg) for fast_neg in (True, False)},
    "MetaPath2Vec": lambda N, dgl: (
        N.MetaPath2Vec(several_paths(dgl), ["plays", "played"], 2, 4),
        lambda layer: [layer.node_embed.weight, layer(*layer.sample([0, 1])).isfinite()],
    ),
    # -- explainers
    "GNNExplainer": lambda N, dgl: (N.GNNExplainer(nn.Linear(4, 4), 2), lambda layer: layer.num_hops),
    "HeteroGNNExplainer": lambda N, dgl: (N.HeteroGNNExplainer(nn.Linear(4, 4), 2), lambda layer: layer.num_hops),
    "SubgraphX": lambda N, dgl: (N.SubgraphX(nn.Linear(4, 4), 2), lambda layer: layer.num_hops),
    "HeteroSubgraphX": lambda N, dgl: (N.HeteroSubgraphX(nn.Linear(4, 4), 2), lambda layer: layer.num_hops),
    "PGExplainer": lambda N, dgl: (N.PGExplainer(nn.Linear(4, 4), 4), lambda layer: layer.num_features),
    "HeteroPGExplainer": lambda N, dgl: (N.HeteroPGExplainer(nn.Linear(4, 4), 4), lambda layer: layer.num_features),
}


def several_paths(dgl: Any) -> Any:
    """Return a graph on which a path leads back."""
    return dgl.heterograph({("u", "plays", "g"): ([0, 1, 2], [0, 0, 1]), ("g", "played", "u"): ([0, 0, 1], [0, 1, 2])})


def written(name: str, N: Any, dgl: Any) -> tuple[bytes, Any]:
    """Return the bytes of a layer and what it returns."""
    torch.manual_seed(0)
    layer, call = CASES[name](N, dgl)
    if isinstance(layer, nn.Module):
        layer.eval()
    file = io.BytesIO()
    torch.save(layer, file)
    with torch.no_grad():
        return file.getvalue(), call(layer)


def real_dgl() -> Any:
    """Return DGL itself, without its GraphBolt, whose library is of another torch."""
    sys.modules["dgl.graphbolt"] = NoGraphBolt("dgl.graphbolt")
    import dgl

    return dgl


class NoGraphBolt(types.ModuleType):
    """Stands for ``dgl.graphbolt``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def main(path: str, names: Sequence[str] = ()) -> None:
    """Write layers of DGL and what they return."""
    dgl = real_dgl()
    torch.save({name: written(name, dgl.nn.pytorch, dgl) for name in names or CASES}, path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
