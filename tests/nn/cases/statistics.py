"""Layers of several statistics of the neighbours, and layers unfolded from a descent."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from dglite.nn import DGNConv, PNAConv, TWIRLSConv, TWIRLSUnfoldingAndAttention
from tests.nn import dense
from tests.nn.laws import ISOTROPIC, Case, add_up, by_node, efeat, ends, feat, inputs

ONE_SIZE = tuple(ISOTROPIC)
MOST = ["mean", "sum", "max", "min", "std", "var"]
ALL = ["identity", "amplification", "attenuation"]


def statistic(name: str, messages: torch.Tensor) -> torch.Tensor:
    """Return a statistic of (degree, feat) messages."""
    if name in ("mean", "sum"):
        return getattr(messages, name)(0)
    if name in ("max", "min"):
        return getattr(messages, name)(0).values
    mean = messages.mean(0)
    if name in ("var", "std"):
        var = torch.relu((messages**2).mean(0) - mean**2)
        return var if name == "var" else (var + 1e-30).sqrt()
    order = int(name[-1])
    moment = ((messages - mean) ** order).mean(0)
    return torch.sign(moment) * (moment.abs() + 1e-30) ** (1 / order)


def direction(name: str, g: Any, messages: torch.Tensor, own: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    src, dst = ends(g)
    field = (vectors[src] - vectors[dst])[:, int(name[3]) - 1 : int(name[3])]
    weight = field / (add_up(g, field.abs()) + 1e-30)[dst]
    if name.endswith("av"):
        return add_up(g, messages * weight.abs())
    return (add_up(g, messages * weight) - add_up(g, weight) * own).abs()


def towers(layer: Any, g: Any, x: torch.Tensor, e: torch.Tensor | None = None, vectors: Any = None) -> torch.Tensor:
    src, dst = ends(g)
    outputs = []
    degrees = g.in_degrees().double().clamp(min=1)
    for t, tower in enumerate(layer.towers):
        own = x[:, t * tower.in_size : (t + 1) * tower.in_size]
        messages = tower.M(torch.cat([own[src], own[dst], *([] if e is None else [e])], 1))
        results = [
            direction(name, g, messages, own, vectors)
            if name.startswith("dir")
            else by_node(g, messages, lambda m, name=name: statistic(name, m))
            for name in tower.aggregators
        ]
        met = torch.cat(results, 1)
        factor = {"identity": 1.0, "amplification": torch.log(degrees + 1)[:, None] / tower.delta}
        factor["attenuation"] = tower.delta / torch.log(degrees + 1)[:, None]
        result = tower.U(torch.cat([own, *(met * factor[name] for name in tower.scalers)], 1))
        outputs.append(tower.batchnorm(result / max(g.num_nodes(), 1) ** 0.5))
    result = F.leaky_relu(layer.mixing_layer[0](torch.cat(outputs, 1)))
    return result + x if layer.residual else result


def unfolding(layer: TWIRLSUnfoldingAndAttention, g: Any, x: torch.Tensor) -> torch.Tensor:
    src, dst = ends(g)
    weight, y = torch.ones(g.num_edges(), dtype=torch.float64), x

    def attend(y: torch.Tensor) -> torch.Tensor:
        scaled = y if layer.etas is None else y * layer.etas
        penalty = torch.relu(((scaled[src] - scaled[dst]) ** 2).sum(1)) + 1e-7
        penalty = (penalty ** (1 - layer.p / 2)).clamp(min=layer.tau)
        kept = 1 / penalty if layer.T <= 0 else torch.where(penalty > layer.T, 0.0, 1 / penalty)
        return kept + 1e-9

    if layer.init_att:
        weight = attend(y)
    for k in range(layer.prop_step):
        degrees = add_up(g, weight)
        alpha, lam = layer.alp, layer.lam
        scale = lam * degrees + (1 - lam) if layer.precond else degrees
        scale = torch.where(scale > 0, scale, 1.0)[:, None]
        step = alpha * lam * scale**-0.5 * add_up(g, weight[:, None] * (y * scale**-0.5)[src])
        if layer.precond:
            y = (1 - alpha) * y + step + alpha * x / scale
        else:
            y = (1 - alpha * lam - alpha) * y + step + alpha * x
        if k == layer.attn_aft - 1:
            weight = attend(y)
    return y


def twirls(layer: TWIRLSConv, g: Any, x: torch.Tensor) -> torch.Tensor:
    looped = g.remove_self_loop().add_self_loop() if g.num_nodes() else g

    def perceptron(part: Any, x: torch.Tensor) -> torch.Tensor:
        norms = iter(part.norms if part.normalises else [lambda x: x] * 9)
        for i, linear in enumerate(part.layers):
            if i or part.init_activate:
                x = torch.relu(next(norms)(x))
            x = linear(x)
        return x

    return perceptron(layer.mlp_aft, unfolding(layer.unfolding, looped, perceptron(layer.mlp_bef, x)))


def tower(i: int, size: int, out: int, columns: int, edge: int = 0) -> dict[str, tuple[int, ...]]:
    name = f"towers.{i}"
    shapes = {f"{name}.M.weight": (size, 2 * size + edge), f"{name}.M.bias": (size,)}
    shapes |= {f"{name}.U.weight": (out, columns), f"{name}.U.bias": (out,)}
    parts = ("weight", "bias", "running_mean", "running_var")
    return shapes | {f"{name}.batchnorm.{p}": (out,) for p in parts} | {f"{name}.batchnorm.num_batches_tracked": ()}


def mixing(size: int) -> dict[str, tuple[int, ...]]:
    return {"mixing_layer.0.weight": (size, size), "mixing_layer.0.bias": (size,)}


def vectors(g: Any) -> torch.Tensor:
    return dense.double(g.num_nodes(), 3, seed=9)


def perceptrons(*sizes: tuple[str, int, int]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name, out, size in sizes:
        shapes |= {f"{name}.weight": (out, size), f"{name}.bias": (out,)}
    return shapes


CASES = [
    Case(
        "PNAConv",
        lambda: PNAConv(4, 4, MOST, ALL, 1.5),
        inputs(feat()),
        towers,
        tower(0, 4, 4, 19 * 4) | mixing(4),
        ONE_SIZE,
        smooth=False,
        refused=((inputs(feat(5)), "PNAConv: node_feat has shape .4, 5.; expected"),),
    ),
    Case(
        "PNAConv towers",
        lambda: PNAConv(4, 6, ["moment3", "moment4", "moment5", "mean"], ["attenuation"], 1.5, 0.1, 2, 3),
        inputs(feat(), efeat(3)),
        towers,
        tower(0, 2, 3, 10, 3) | tower(1, 2, 3, 10, 3) | mixing(6),
        ("complete",),
        smooth=False,
        refused=(
            (inputs(feat()), "edge_feat is missing; expected .num_edges, 3"),
            (inputs(feat(), efeat(2)), "edge_feat has shape .12, 2.; expected"),
        ),
    ),
    Case(
        "DGNConv",
        lambda: DGNConv(4, 4, ["dir1-av", "dir2-dx", "sum"], ["identity", "amplification"], 1.5),
        lambda g: (feat()(g), None, vectors(g)),
        towers,
        tower(0, 4, 4, 7 * 4) | mixing(4),
        ONE_SIZE,
        smooth=False,
        refused=(
            (inputs(feat()), "eig_vec is missing; its aggregators read .num_nodes, 2"),
            (lambda g: (feat()(g), None, dense.double(4, 1)), "eig_vec has shape .4, 1."),
        ),
    ),
    Case(
        "TWIRLSUnfoldingAndAttention",
        lambda: TWIRLSUnfoldingAndAttention(4, 0.3, 0.7, 3, init_att=True, use_eta=True),
        inputs(feat()),
        unfolding,
        {"etas": (4,)},
        ONE_SIZE,
        smooth=False,
    ),
    Case(
        "TWIRLSUnfoldingAndAttention without preconditioning",
        lambda: TWIRLSUnfoldingAndAttention(4, 0, 1, 3, 2, T=3.0, p=0.5, precond=False),
        inputs(feat()),
        unfolding,
        {},
        ("graph", "lonely"),
        smooth=False,
    ),
    Case(
        "TWIRLSConv",
        lambda: TWIRLSConv(4, 3, 5, 3),
        inputs(feat()),
        twirls,
        perceptrons(("mlp_bef.layers.0", 5, 4), ("mlp_aft.layers.0", 3, 5)),
        ONE_SIZE,
        smooth=False,
        refused=((inputs(feat(5)), "TWIRLSConv: feat has shape"),),
    ),
    Case(
        "TWIRLSConv deep",
        lambda: TWIRLSConv(4, 3, 5, 3, 2, 2, "layer", attention=True, lam=0.8),
        inputs(feat()),
        twirls,
        perceptrons(("mlp_bef.layers.0", 5, 4), ("mlp_bef.layers.1", 5, 5), ("mlp_aft.layers.0", 5, 5))
        | perceptrons(("mlp_aft.layers.1", 3, 5))
        | {f"{name}.{part}": (5,) for part in ("weight", "bias") for name in ("mlp_bef.norms.0", "mlp_aft.norms.0")}
        | {f"mlp_aft.norms.1.{part}": (5,) for part in ("weight", "bias")},
        ("graph",),
        smooth=False,
    ),
]
