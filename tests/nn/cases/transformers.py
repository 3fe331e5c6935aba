"""Graph transformers on dense batches, written head by head and pair by pair."""

from __future__ import annotations

import math
from typing import Any

import torch

from dglite.nn import (
    BiasedMHA,
    DegreeEncoder,
    EGTLayer,
    GraphormerLayer,
    LapPosEncoder,
    PathEncoder,
    SpatialEncoder,
    SpatialEncoder3d,
)
from tests.nn import dense
from tests.nn.laws import Case

MASK = torch.tensor([[[0, 1, 0], [0, 0, 0], [1, 1, 1]], [[0, 0, 0], [1, 0, 1], [0, 1, 0]]], dtype=torch.bool)
"""Two graphs of three nodes; one node of the first must read none."""
SOME_MASK = MASK.clone()
SOME_MASK[0, 2, 0] = False


def given(*values: Any) -> Any:
    """Return what makes the inputs: tensors of these shapes, or values as they are."""
    results = [dense.double(*x, seed=i) if isinstance(x, tuple) else x for i, x in enumerate(values)]
    return lambda g: tuple(results)


def biased(layer: BiasedMHA, g: None, x: torch.Tensor, bias: Any = None, mask: Any = None) -> torch.Tensor:
    size, outputs = layer.head_dim, []
    for h in range(layer.num_heads):
        own = slice(h * size, (h + 1) * size)
        q, k, v = (project(x)[..., own] for project in (layer.q_proj, layer.k_proj, layer.v_proj))
        scores = torch.einsum("bid,bjd->bij", q, k) / size**0.5
        if bias is not None:
            scores = scores + bias[..., h] if layer.attn_bias_type == "add" else scores * bias[..., h]
        weights = scores.exp() if mask is None else scores.exp() * ~mask
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
        outputs.append(torch.einsum("bij,bjd->bid", weights, v))
    return layer.out_proj(torch.cat(outputs, -1))


def graphormer(layer: GraphormerLayer, g: None, x: torch.Tensor, *rest: Any) -> torch.Tensor:
    if layer.norm_first:
        x = x + biased(layer.attn, g, layer.attn_layer_norm(x), *rest)
        return x + layer.ffn(layer.ffn_layer_norm(x))
    x = layer.attn_layer_norm(x + biased(layer.attn, g, x, *rest))
    return layer.ffn_layer_norm(x + layer.ffn(x))


def egt(layer: EGTLayer, g: None, x: torch.Tensor, e: torch.Tensor, mask: Any = 0.0) -> Any:
    pairs, heads, size = layer.mha_ln_e(e), layer.num_heads, layer.dot_dim
    # The heads are the last axis of a projection: column (d, h).
    q, k, v = layer.qkv_proj(layer.mha_ln_h(x)).unflatten(-1, (3, size, heads)).unbind(2)
    edge, gate = layer.edge_input(pairs), layer.gate(pairs)
    results, scores = [], []
    for h in range(heads):
        s = torch.einsum("bid,bjd->bij", q[..., h], k[..., h]).clamp(-5, 5) + edge[..., h]
        open_ = torch.sigmoid(gate[..., h] + mask)
        read = torch.einsum("bij,bjd->bid", torch.softmax(s + mask, -1) * open_, v[..., h])
        scale = torch.log(1 + open_.sum(-1))
        real = torch.arange(x.shape[1]) >= layer.num_virtual_nodes
        results.append(read * torch.where(real, scale, torch.ones_like(scale))[..., None])
        scores.append(s)
    x = x + layer.node_output(torch.stack(results, -1).flatten(2))
    x = x + layer.node_ffn(x)
    if not layer.edge_update:
        return x
    e = e + layer.edge_output(torch.stack(scores, -1))
    return x, e + layer.edge_ffn(e)


def degrees(layer: DegreeEncoder, g: None, d: torch.Tensor) -> torch.Tensor:
    d = d.clamp(max=layer.max_degree)
    if layer.direction == "both":
        return layer.encoder1.weight[d[0]] + layer.encoder2.weight[d[1]]
    return layer.encoder.weight[d]


def deep_set(layer: LapPosEncoder, g: None, values: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    rows = []
    for value, vector in zip(values, vectors, strict=True):
        own = ~value.isnan()
        pairs = torch.stack([vector[own], value[own]], -1)
        rows.append(layer.pe_encoder(layer.linear(pairs)).sum(0))
    return layer.post_mlp(torch.stack(rows))


def path(layer: PathEncoder, g: None, dist: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    table = layer.embedding_table.weight.unflatten(0, (layer.max_len, layer.num_heads))
    total = sum(data[..., n, :] @ table[n].T for n in range(layer.max_len))
    return total / dist.clamp(1, layer.max_len)[..., None]


def spatial(layer: SpatialEncoder, g: None, dist: torch.Tensor) -> torch.Tensor:
    return layer.embedding_table.weight[dist.clamp(max=layer.max_dist) + 1]


def spatial3d(layer: SpatialEncoder3d, g: None, coord: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
    apart = ((coord[:, :, None] - coord[:, None]).square().sum(-1) + 1e-300).sqrt()
    first, second = kinds + 2, kinds + layer.max_node_type + 3
    gamma, beta = (t.weight[first, 0][:, :, None] + t.weight[second, 0][:, None] for t in (layer.gamma, layer.beta))
    normal = torch.distributions.Normal(layer.means, layer.stds.abs() + 0.01)
    densities = normal.log_prob((gamma * apart + beta)[..., None]).exp()
    hidden = layer.linear_layer_1(densities)
    return layer.linear_layer_2(hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2))))


def linear(names: str, out: int, size: int) -> dict[str, tuple[int, ...]]:
    state: dict[str, tuple[int, ...]] = {}
    for name in names.split():
        state |= {f"{name}.weight": (out, size), f"{name}.bias": (out,)}
    return state


def norm(names: str, size: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.{end}": (size,) for name in names.split() for end in ("weight", "bias")}


MHA = linear("q_proj k_proj v_proj out_proj", 4, 4)
GRAPHORMER = {f"attn.{name}": shape for name, shape in MHA.items()} | linear("ffn.0", 5, 4) | linear("ffn.3", 4, 5)
GRAPHORMER |= norm("attn_layer_norm ffn_layer_norm", 4)
EGT = norm("mha_ln_h node_ffn.0", 4) | norm("mha_ln_e", 3) | linear("edge_input gate", 2, 3) | linear("qkv_proj", 12, 4)
EGT |= linear("node_output node_ffn.1 node_ffn.3", 4, 4)
EGT_EDGES = EGT | linear("edge_output", 3, 2) | norm("edge_ffn.0", 3) | linear("edge_ffn.1 edge_ffn.3", 3, 3)

DEGREES = torch.tensor([[[1, 2, 9], [3, 1, 1]], [[2, 2, 1], [1, 9, 3]]])
DISTANCES = torch.tensor([[[0, 1, 7], [1, 0, 2], [3, 2, 0]]])
VALUES, VECTORS = (dense.double(3, 3, seed=i).detach() for i in range(2))
VALUES[1:, 2] = VECTORS[1:, 2] = math.nan
ADDED = torch.zeros(2, 3, 3, dtype=torch.float64).masked_fill(SOME_MASK, -math.inf)

wide = (given((2, 3, 5)), "shape .2, 3, 5.; expected .batch_size, N, 4")
few_biases = (given((2, 3, 4), (2, 3, 3, 1)), "attn_bias has shape .2, 3, 3, 1.; expected .2, 3, 3, 2")
wrong_mask = (given((2, 3, 4), None, MASK[:1]), "attn_mask has shape .1, 3, 3.; expected .2, 3, 3")


def case(name: str, make: Any, inputs: Any, plain: Any, state: Any, refused: Any = (), **how: Any) -> Case:
    return Case(name, make, inputs, plain, state, ("none",), **({"smooth": False, "refused": refused} | how))


CASES = [
    case("BiasedMHA", lambda: BiasedMHA(4, 2), given((2, 3, 4)), biased, MHA, (wide, few_biases, wrong_mask)),
    case("BiasedMHA masked", lambda: BiasedMHA(4, 2), given((2, 3, 4), None, MASK), biased, MHA),
    case("BiasedMHA added", lambda: BiasedMHA(4, 2), given((2, 3, 4), (2, 3, 3, 2), MASK), biased, MHA),
    case(
        "BiasedMHA multiplied",
        lambda: BiasedMHA(4, 2, False, "mul"),
        given((2, 3, 4), (2, 3, 3, 2), MASK.int()),
        lambda layer, g, x, bias, mask: biased(layer, g, x, bias, mask.bool()),
        {name: shape for name, shape in MHA.items() if "weight" in name},
        smooth=True,
    ),
    case(
        "GraphormerLayer",
        lambda: GraphormerLayer(4, 5, 2, activation=torch.nn.Tanh()),
        given((2, 3, 4), (2, 3, 3, 2), MASK),
        graphormer,
        GRAPHORMER,
        (wide, few_biases),
    ),
    case(
        "GraphormerLayer norm_first",
        lambda: GraphormerLayer(4, 5, 2, "mul", norm_first=True, activation=torch.tanh),
        given((2, 3, 4), (2, 3, 3, 2)),
        graphormer,
        GRAPHORMER,
    ),
    case(
        "EGTLayer",
        lambda: EGTLayer(4, 3, 2, 1),
        given((2, 3, 4), (2, 3, 3, 3)),
        egt,
        EGT_EDGES,
        (
            (given((2, 3, 5), (2, 3, 3, 3)), "nfeat has shape"),
            (given((2, 3, 4), (2, 3, 3, 2)), "efeat has shape"),
            (given((2, 3, 4), (2, 3, 3, 3), ADDED[:1]), "mask has shape"),
        ),
    ),
    case(
        "EGTLayer masked",
        lambda: EGTLayer(4, 3, 2, 0, edge_update=False, activation=torch.nn.Tanh()),
        given((2, 3, 4), (2, 3, 3, 3), ADDED),
        egt,
        EGT,
    ),
    case(
        "DegreeEncoder",
        lambda: DegreeEncoder(3, 2),
        given(DEGREES),
        degrees,
        {"encoder1.weight": (4, 2), "encoder2.weight": (4, 2)},
        ((given(DEGREES[0]), r"degrees has shape .2, 3.; expected .2, batch_size, N. for direction='both'"),),
    ),
    case(
        "DegreeEncoder in",
        lambda: DegreeEncoder(3, 2, "in"),
        given(DEGREES[0]),
        degrees,
        {"encoder.weight": (4, 2)},
        ((given(DEGREES), "expected .batch_size, N."),),
    ),
    case(
        "LapPosEncoder DeepSet",
        lambda: LapPosEncoder("DeepSet", 2, 3, 2, num_post_layer=2),
        given(VALUES, VECTORS),
        deep_set,
        linear("linear", 4, 2) | linear("pe_encoder.1", 2, 4) | linear("post_mlp.0", 4, 2) | linear("post_mlp.2", 2, 4),
        ((given((3, 3), (3, 4)), "eigvecs has shape .3, 4.; expected .N, 3."),),
    ),
    case(
        "PathEncoder",
        lambda: PathEncoder(2, 3, 2),
        given(DISTANCES - 1, (1, 3, 3, 2, 3)),
        path,
        {"embedding_table.weight": (4, 3)},
        ((given(DISTANCES, (1, 3, 3, 3, 3)), r"path_data has shape .*expected .1, 3, 3, 2, 3."),),
    ),
    case("SpatialEncoder", lambda: SpatialEncoder(2, 2), given(DISTANCES), spatial, {"embedding_table.weight": (4, 2)}),
    case(
        "SpatialEncoder3d",
        lambda: SpatialEncoder3d(3, 2, 4),
        given((2, 3, 3), torch.tensor([[0, 1, 3], [2, 2, 0]])),
        spatial3d,
        {"means": (3,), "stds": (3,), "gamma.weight": (11, 1), "beta.weight": (11, 1)}
        | linear("linear_layer_1", 3, 3)
        | linear("linear_layer_2", 2, 3),
        ((given((2, 3, 3), torch.zeros(2, 4).long()), "node_type has shape .2, 4.; expected .2, 3."),),
    ),
]
