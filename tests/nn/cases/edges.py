"""Layers whose messages are made of both ends of an edge and of its own features."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from dglite.nn import (
    AtomicConv,
    CFConv,
    EdgeConv,
    EdgeGATConv,
    EGATConv,
    EGNNConv,
    GatedGCNConv,
    GatedGraphConv,
    GMMConv,
    NNConv,
)
from tests.nn import dense
from tests.nn.laws import ISOTROPIC, Case, add_up, by_node, efeat, ends, feat, inputs, sides

ONE_SIZE = tuple(ISOTROPIC)
REDUCE = {"sum": lambda m: m.sum(0), "mean": lambda m: m.mean(0), "max": lambda m: m.max(0).values}


def etypes(g: Any) -> torch.Tensor:
    return torch.tensor([2, 0, 2, 1, 0, 2, 2, 0])[: g.num_edges()]


def weight(g: Any) -> torch.Tensor:
    return dense.positive(g.num_edges())


def edge(layer: EdgeConv, g: Any, x: Any) -> torch.Tensor:
    source, destination = sides(g, x)
    src, dst = ends(g)
    messages = layer.theta(destination[dst] - source[src]) + layer.phi(destination)[dst]
    return by_node(g, layer.bn(messages) if layer.batch_norm else messages, REDUCE["max"])


def nnconv(layer: NNConv, g: Any, x: Any, e: torch.Tensor) -> torch.Tensor:
    source, destination = sides(g, x)
    matrices = layer.edge_func(e).reshape(-1, layer._in_src_feats, layer._out_feats)
    messages = source[ends(g)[0]][:, :, None] * matrices
    result = by_node(g, messages, REDUCE[layer._aggre_type]).sum(1)
    if layer.res_fc is not None:
        result = result + layer.res_fc(destination)
    return result + layer.bias


def gmm(layer: GMMConv, g: Any, x: Any, p: torch.Tensor) -> torch.Tensor:
    source, destination = sides(g, x)
    apart = (p[:, None] - layer.mu) * layer.inv_sigma
    weights = torch.exp(-0.5 * (apart**2).sum(-1))
    projected = layer.fc(source).reshape(-1, layer._n_kernels, layer._out_feats)
    messages = projected[ends(g)[0]] * weights[:, :, None]
    result = by_node(g, messages, REDUCE[layer._aggre_type]).sum(1)
    if layer.res_fc is not None:
        result = result + layer.res_fc(destination)
    return result if layer.bias is None else result + layer.bias


def cfconv(layer: CFConv, g: Any, x: Any, e: torch.Tensor) -> torch.Tensor:
    source = x[0] if isinstance(x, tuple) else x

    def ssp(y: torch.Tensor) -> torch.Tensor:
        return F.softplus(y) - math.log(2)

    filters = ssp(layer.project_edge[2](ssp(layer.project_edge[0](e))))
    return ssp(layer.project_out[0](add_up(g, layer.project_node(source)[ends(g)[0]] * filters)))


def atomic(layer: AtomicConv, g: Any, x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    pooling = layer.radial_pooling
    columns = []
    for cut, mean, scale in zip(
        pooling.interaction_cutoffs, pooling.rbf_kernel_means, pooling.rbf_kernel_scaling, strict=True
    ):
        wave = 0.5 * (torch.cos(math.pi * r / cut) + 1) * (r <= cut)
        columns.append(torch.exp(-scale * (r - mean) ** 2) * wave)
    hidden = torch.cat(columns, 1)
    hot = x if layer.features_to_use is None else (x == layer.features_to_use).double()
    return add_up(g, (hot[ends(g)[0]][:, :, None] * hidden[:, None, :]).flatten(1))


def gated_gcn(layer: GatedGCNConv, g: Any, x: torch.Tensor, e: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    src, dst = ends(g)
    edges = layer.D(x)[src] + layer.E(x)[dst] + layer.C(e)
    gates = torch.sigmoid(edges)
    nodes = layer.A(x) + add_up(g, gates * layer.B(x)[src]) / (add_up(g, gates) + 1e-6)
    if layer.batch_norm:
        nodes, edges = layer.bn_node(nodes), layer.bn_edge(edges)
    nodes, edges = layer.activation(nodes), layer.activation(edges)
    return (x + nodes, e + edges) if layer.residual else (nodes, edges)


def gated_graph(layer: GatedGraphConv, g: Any, x: torch.Tensor, types: Any = None) -> torch.Tensor:
    src, _ = ends(g)
    types = torch.zeros(g.num_edges(), dtype=torch.int64) if types is None else types
    x = F.pad(x, (0, layer._out_feats - layer._in_feats))
    for _ in range(layer._n_steps):
        rows = [layer.linears[int(t)](x[u]) for u, t in zip(src, types, strict=True)]
        messages = torch.stack(rows) if rows else x.new_zeros(0, layer._out_feats)
        x = layer.gru(add_up(g, messages), x)
    return x


def egnn(
    layer: EGNNConv, g: Any, h: torch.Tensor, x: torch.Tensor, a: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    src, dst = ends(g)
    apart = x[src] - x[dst]
    squared = (apart**2).sum(1, keepdim=True)
    moves = (src != dst)[:, None]
    unit = apart / torch.where(moves, squared, 1.0).sqrt()
    messages = layer.edge_mlp(torch.cat([h[src], h[dst], squared, *([] if a is None else [a])], 1))
    pulled = by_node(g, torch.where(moves, layer.coord_mlp(messages) * unit, 0.0), REDUCE["mean"])
    return layer.node_mlp(torch.cat([h, add_up(g, messages)], 1)), x + pulled


def egat(layer: EGATConv, g: Any, x: Any, e: torch.Tensor, w: Any = None, attention: bool = False) -> tuple:
    source, destination = sides(g, x)
    src, dst = ends(g)
    heads = layer._num_heads
    edges = F.leaky_relu(layer.fc_ni(source)[src] + layer.fc_nj(destination)[dst] + layer.fc_fij(e) + layer.bias)
    edges = edges.reshape(g.num_edges(), heads, -1)
    weights = dense.softmax_by_destination(g, (edges * layer.attn).sum(-1, keepdim=True))
    if w is not None:
        weights = weights * w[:, None, None]
    nodes = add_up(g, weights * layer.fc_node_src(source).reshape(-1, heads, layer._out_node_feats)[src])
    return (nodes, edges, weights) if attention else (nodes, edges)


def edge_gat(layer: EdgeGATConv, g: Any, x: Any, e: torch.Tensor) -> torch.Tensor:
    source, destination = sides(g, x)
    src, dst = ends(g)
    shape = (-1, layer._num_heads, layer._out_feats)
    fc_src, fc_dst = (layer.fc_src, layer.fc_dst) if hasattr(layer, "fc_src") else (layer.fc, layer.fc)
    left, right, own = (f.reshape(shape) for f in (fc_src(source), fc_dst(destination), layer.fc_edge(e)))
    scores = (left * layer.attn_l).sum(-1)[src] + (right * layer.attn_r).sum(-1)[dst] + (own * layer.attn_edge).sum(-1)
    weights = dense.softmax_by_destination(g, F.leaky_relu(scores, 0.2)[..., None])
    result = add_up(g, weights * (left[src] + own))
    if layer.res_fc is not None:
        result = result + layer.res_fc(destination).reshape(shape)
    return result + layer.bias.reshape(shape[1:])


def linear(name: str, out_size: int, in_size: int, bias: bool = True) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out_size, in_size)} | ({f"{name}.bias": (out_size,)} if bias else {})


def batch_norm(name: str, size: int) -> dict[str, tuple[int, ...]]:
    kept = {f"{name}.{part}": (size,) for part in ("weight", "bias", "running_mean", "running_var")}
    return kept | {f"{name}.num_batches_tracked": ()}


EDGE = linear("theta", 3, 4) | linear("phi", 3, 4)
GMM = {"mu": (3, 2), "inv_sigma": (3, 2), "fc.weight": (15, 4), "bias": (5,)}
GATED_GCN = {name: shape for part in "ABDE" for name, shape in linear(part, 3, 4).items()} | linear("C", 3, 2)
GATED_GCN |= batch_norm("bn_node", 3) | batch_norm("bn_edge", 3)
GRU = {"gru.weight_ih": (15, 5), "gru.weight_hh": (15, 5), "gru.bias_ih": (15,), "gru.bias_hh": (15,)}
EGNN = (
    linear("edge_mlp.0", 5, 11) | linear("edge_mlp.2", 5, 5) | linear("node_mlp.0", 5, 9) | linear("node_mlp.2", 3, 5)
)
EGNN |= linear("coord_mlp.0", 5, 5) | linear("coord_mlp.2", 1, 5, bias=False)
EGAT = linear("fc_node_src", 6, 4, False) | linear("fc_ni", 4, 4, False) | linear("fc_nj", 4, 4, False)
EGAT |= linear("fc_fij", 4, 2, False) | {"attn": (1, 2, 2), "bias": (4,)}
EDGE_GAT = linear("fc", 6, 4, False) | linear("fc_edge", 6, 2, False) | linear("res_fc", 6, 4, False)
EDGE_GAT |= dict.fromkeys(("attn_l", "attn_r", "attn_edge"), (1, 2, 3)) | {"bias": (6,)}
CFCONV = linear("project_edge.0", 3, 2) | linear("project_edge.2", 3, 3)
CFCONV |= linear("project_node", 3, 4) | linear("project_out.0", 5, 3)
RADIAL = [f"radial_pooling.{name}" for name in ("interaction_cutoffs", "rbf_kernel_means", "rbf_kernel_scaling")]
few_edges = (lambda g: (dense.double(4, 4), dense.double(7, 2)), "7, 2. was given for 8 edges")
thick_edges = (inputs(feat(), efeat(3)), "has shape .8, 3.; expected")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 20))


NETWORK = linear("edge_func.0", 3, 2) | linear("edge_func.2", 20, 3) | {"bias": (5,), "res_fc.weight": (5, 4)}
CASES = [
    Case("EdgeConv", lambda: EdgeConv(4, 3, allow_zero_in_degree=True), inputs(feat()), edge, EDGE, smooth=False),
    Case(
        "EdgeConv batch_norm",
        lambda: EdgeConv(4, 3, True, True),
        inputs(feat()),
        edge,
        EDGE | batch_norm("bn", 3),
        ("graph", "lonely", "block", "bipartite"),
        smooth=False,
        refused=((inputs(feat(5)), "EdgeConv: feat has shape"),),
    ),
    *(
        Case(
            f"NNConv {kind}",
            lambda kind=kind: NNConv(4, 5, network(), kind, True),
            inputs(feat(), efeat(2)),
            nnconv,
            NETWORK,
            smooth=kind != "max",
            refused=(few_edges,),
        )
        for kind in REDUCE
    ),
    Case(
        "NNConv of a function",
        lambda: NNConv(4, 4, nn.Sequential(nn.Linear(2, 16), nn.Tanh()), "sum", True),
        inputs(feat(), efeat(2)),
        nnconv,
        linear("edge_func.0", 16, 2) | {"bias": (4,)},
        ("graph", "block"),
    ),
    Case(
        "NNConv of one tensor",
        lambda: NNConv(4, 5, network(), "sum"),
        inputs(feat(pair=False), efeat(2)),
        nnconv,
        {name: shape for name, shape in NETWORK.items() if name != "res_fc.weight"},
        ("block", "bipartite"),
        refused=((inputs(feat(5, pair=False), efeat(2)), "NNConv: feat has shape"),),
    ),
    Case(
        "GMMConv of one tensor",
        lambda: GMMConv(4, 5, 2, 3, allow_zero_in_degree=True),
        inputs(feat(pair=False), efeat(2)),
        gmm,
        GMM,
        ("block", "bipartite"),
        refused=((inputs(feat(5, pair=False), efeat(2)), "GMMConv: feat has shape"),),
    ),
    *(
        Case(
            f"GMMConv {kind}",
            lambda kind=kind: GMMConv(4, 5, 2, 3, kind, kind == "sum", allow_zero_in_degree=True),
            inputs(feat(), efeat(2)),
            gmm,
            GMM | ({"res_fc.weight": (5, 4)} if kind == "sum" else {}),
            smooth=kind != "max",
            refused=(few_edges, thick_edges),
        )
        for kind in REDUCE
    ),
    Case(
        "CFConv",
        lambda: CFConv(4, 2, 3, 5),
        inputs(feat(), efeat(2)),
        cfconv,
        CFCONV,
        refused=(few_edges, thick_edges),
    ),
    Case(
        "AtomicConv",
        lambda: AtomicConv(torch.tensor([2.0, 3.0]), torch.tensor([0.5, 1.0]), torch.tensor([1.0, 2.0])),
        inputs(feat(2), lambda g: dense.positive(g.num_edges(), 1)),
        atomic,
        dict.fromkeys(RADIAL, (2, 1, 1)),
        ONE_SIZE,
    ),
    Case(
        "AtomicConv of types",
        lambda: AtomicConv(
            torch.tensor([2.0]), torch.tensor([0.5]), torch.tensor([1.0]), torch.tensor([1.0, 3.0, 5.0])
        ),
        lambda g: (torch.tensor([[1.0], [3.0], [1.0], [2.0]], dtype=torch.float64), dense.positive(g.num_edges(), 1)),
        atomic,
        {"features_to_use": (3,)} | dict.fromkeys(RADIAL, (1, 1, 1)),
        ("graph",),
        refused=((lambda g: (dense.double(4, 1), dense.double(8, 2)), "distances has shape"),),
    ),
    Case(
        "GatedGCNConv",
        lambda: GatedGCNConv(4, 2, 3, activation=torch.tanh),
        inputs(feat(), efeat(2)),
        gated_gcn,
        GATED_GCN,
        ONE_SIZE,
        refused=(few_edges, thick_edges),
    ),
    Case(
        "GatedGCNConv residual",
        lambda: GatedGCNConv(3, 3, 3, batch_norm=False, activation=torch.tanh),
        inputs(feat(3), efeat(3)),
        gated_gcn,
        {name: shape[:1] + (3,) * (len(shape) - 1) for name, shape in GATED_GCN.items()},
        ("graph",),
    ),
    Case(
        "GatedGraphConv",
        lambda: GatedGraphConv(4, 5, 2, 3),
        inputs(feat(), etypes),
        gated_graph,
        GRU | {name: shape for i in range(3) for name, shape in linear(f"linears.{i}", 5, 5).items()},
        ONE_SIZE,
        refused=(
            (inputs(feat()), "3 types of edges: give etypes"),
            (inputs(feat(), lambda g: etypes(g) + 1), "edge types hold 3"),
        ),
    ),
    Case(
        "GatedGraphConv one type",
        lambda: GatedGraphConv(5, 5, 2, 1),
        inputs(feat(5)),
        gated_graph,
        GRU | linear("linears.0", 5, 5),
        ("graph", "lonely"),
    ),
    Case(
        "GatedGraphConv without bias",
        lambda: GatedGraphConv(5, 5, 2, 1, bias=False),
        inputs(feat(5)),
        gated_graph,
        {name: shape for name, shape in GRU.items() if "bias" not in name} | linear("linears.0", 5, 5),
        ("graph",),
        compiles=False,
    ),
    Case(
        "EGNNConv",
        lambda: EGNNConv(4, 5, 3, 2),
        inputs(feat(), feat(3, seed=4), efeat(2)),
        egnn,
        EGNN,
        ONE_SIZE,
        refused=((inputs(feat(), feat(3)), "edge_feat is missing; expected .num_edges, 2"),),
    ),
    Case(
        "EGNNConv without edge features",
        lambda: EGNNConv(4, 5, 3),
        inputs(feat(), feat(3, seed=4)),
        egnn,
        EGNN | {"edge_mlp.0.weight": (5, 9)},
        ("graph",),
    ),
    Case(
        "EGATConv",
        lambda: EGATConv(4, 2, 3, 2, 2),
        lambda g: (feat()(g), efeat(2)(g), weight(g), True),
        egat,
        EGAT,
        ("graph", "block"),
        smooth=False,
        refused=(thick_edges,),
    ),
    Case(
        "EdgeGATConv",
        lambda: EdgeGATConv(4, 2, 3, 2, allow_zero_in_degree=True),
        inputs(feat(), efeat(2)),
        edge_gat,
        EDGE_GAT,
        smooth=False,
        refused=(few_edges, thick_edges),
    ),
    Case(
        "EdgeGATConv pair",
        lambda: EdgeGATConv((4, 4), 2, 3, 2, residual=False),
        inputs(feat(), efeat(2)),
        edge_gat,
        {name: shape for name, shape in EDGE_GAT.items() if name not in ("fc.weight", "res_fc.weight")}
        | {"fc_src.weight": (6, 4), "fc_dst.weight": (6, 4)},
        ("bipartite",),
        smooth=False,
    ),
]
