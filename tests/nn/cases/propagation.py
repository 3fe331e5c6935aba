"""Layers that add up neighbours, once or several times."""

from __future__ import annotations

import math
from typing import Any

import torch

from dglite.nn import AGNNConv, APPNPConv, ChebConv, GCN2Conv, GINConv, GINEConv, SGConv, TAGConv
from tests.nn import dense
from tests.nn.laws import ISOTROPIC, Case, add_up, by_node, efeat, ends, feat, inputs, sides


def weight(g: Any) -> torch.Tensor:
    return dense.positive(g.num_edges())


def normalised(g: Any, w: torch.Tensor | None = None, by_source: str = "in") -> torch.Tensor:
    """Return the dense matrix of a step, (nodes, nodes)."""
    if w is not None:
        raw = dense.matrix(g, w)
        return raw / (raw.sum(1, keepdim=True) * raw.sum(0, keepdim=True)).clamp(min=1e-300).sqrt()
    after = g.in_degrees().double().clamp(min=1) ** -0.5
    before = after if by_source == "in" else g.out_degrees().double().clamp(min=1) ** -0.5
    return after[:, None] * dense.matrix(g) * before


def gin(kind: str) -> Any:
    def plain(layer: GINConv, g: Any, x: Any, w: torch.Tensor | None = None) -> torch.Tensor:
        source, destination = sides(g, x)
        messages = source[ends(g)[0]] * (1 if w is None else w[:, None])
        reduce = {"sum": lambda m: m.sum(0), "mean": lambda m: m.mean(0), "max": lambda m: m.max(0).values}[kind]
        return layer.apply_func((1 + layer.eps) * destination + by_node(g, messages, reduce))

    return plain


def gine(layer: GINEConv, g: Any, x: Any, e: torch.Tensor) -> torch.Tensor:
    source, destination = sides(g, x)
    return (1 + layer.eps) * destination + add_up(g, torch.relu(source[ends(g)[0]] + e))


def sg(layer: SGConv, g: Any, x: torch.Tensor, w: torch.Tensor | None = None) -> torch.Tensor:
    step = normalised(g, w)
    for _ in range(layer._k):
        x = step @ x
    return layer.fc(x if layer.norm is None else layer.norm(x))


def tag(layer: TAGConv, g: Any, x: torch.Tensor, w: torch.Tensor | None = None) -> torch.Tensor:
    step, steps = normalised(g, w), [x]
    for _ in range(layer._k):
        steps.append(step @ steps[-1])
    result = layer.lin(torch.cat(steps, -1))
    return result if layer._activation is None else layer._activation(result)


def appnp(layer: APPNPConv, g: Any, x: torch.Tensor, w: torch.Tensor | None = None) -> torch.Tensor:
    step, h = normalised(g, w, "out"), x
    for _ in range(layer._k):
        h = (1 - layer._alpha) * (step @ h) + layer._alpha * x
    return h


def cheb(largest: float) -> Any:
    def plain(layer: ChebConv, g: Any, x: torch.Tensor, *_: Any) -> torch.Tensor:
        eye = torch.eye(g.num_nodes(), dtype=torch.float64)
        scaled = 2 / largest * (eye - normalised(g)) - eye
        terms = [x, scaled @ x]
        while len(terms) < layer._k:
            terms.append(2 * scaled @ terms[-1] - terms[-2])
        return torch.relu(layer.linear(torch.cat(terms[: layer._k], 1)))

    return plain


def agnn(layer: AGNNConv, g: Any, x: Any) -> torch.Tensor:
    source, destination = sides(g, x)
    src, dst = ends(g)
    cosines = torch.cosine_similarity(source[src], destination[dst], dim=-1)[..., None]
    return add_up(g, dense.softmax_by_destination(g, layer.beta * cosines) * source[src])


def gcn2(layer: GCN2Conv, g: Any, x: torch.Tensor, x0: torch.Tensor, w: torch.Tensor | None = None) -> torch.Tensor:
    near, first = (1 - layer.alpha) * (normalised(g, w) @ x), layer.alpha * x0
    own = layer.weight1 if layer.weight2 is None else layer.weight2
    beta = math.log(layer_lambda(layer) + 1)
    result = (1 - beta) * (near + first) + beta * (near @ layer.weight1 + first @ own)
    return result if layer.bias is None else result + layer.bias


def layer_lambda(layer: GCN2Conv) -> float:
    return 0.5 / 2  # every case below has lambda 0.5 at layer 2


SG = {"fc.weight": (3, 4), "fc.bias": (3,)}
TAG = {"lin.weight": (3, 12), "lin.bias": (3,)}
GCN2 = {"weight1": (4, 4), "bias": (4,)}
ONE_SIZE, ONE = tuple(ISOTROPIC), ("graph",)
wide = (inputs(feat(5)), "feat has shape .4, 5.; expected")


def mlp() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())


GIN = {"apply_func.0.weight": (3, 4), "apply_func.0.bias": (3,), "eps": (1,)}
few_rows = (lambda g: (dense.double(3, 4),), "3, 4. was given for 4")
CASES = [
    *(
        Case(
            f"GINConv {kind}",
            lambda kind=kind: GINConv(mlp(), kind, 0.5, True),
            inputs(feat()),
            gin(kind),
            GIN,
            smooth=kind != "max",
            refused=(few_rows,),
        )
        for kind in ("sum", "max", "mean")
    ),
    Case("GINConv weighted", lambda: GINConv(mlp(), init_eps=0.5), inputs(feat(), weight), gin("sum"), GIN),
    Case(
        "GINEConv",
        lambda: GINEConv(None, 0.5, True),
        inputs(feat(), efeat(4)),
        gine,
        {"eps": (1,)},
        smooth=False,
        refused=((lambda g: (dense.double(4, 4), dense.double(7, 4)), "7, 4. was given for 8 edges"),),
    ),
    Case(
        "SGConv",
        lambda: SGConv(4, 3, 2, allow_zero_in_degree=True),
        inputs(feat()),
        sg,
        SG,
        ONE_SIZE,
        refused=(wide, few_rows, (lambda g: ((dense.double(4, 4),) * 2,), "several times")),
    ),
    Case(
        "SGConv norm",
        lambda: SGConv(4, 3, 2, norm=torch.tanh, allow_zero_in_degree=True),
        inputs(feat()),
        sg,
        SG,
        ONE_SIZE,
    ),
    Case(
        "SGConv of one width",
        lambda: SGConv(4, 4, 2, allow_zero_in_degree=True),
        inputs(feat()),
        sg,
        {"fc.weight": (4, 4), "fc.bias": (4,)},
        ONE_SIZE,
    ),
    Case("SGConv weighted", lambda: SGConv(4, 3, 2), inputs(feat(), weight), sg, SG, ONE),
    Case("TAGConv", lambda: TAGConv(4, 3, 2), inputs(feat()), tag, TAG, ONE_SIZE, refused=(wide,)),
    Case(
        "TAGConv wider",
        lambda: TAGConv(2, 3, 2, activation=torch.tanh),
        inputs(feat(2)),
        tag,
        {"lin.weight": (3, 6), "lin.bias": (3,)},
        ONE_SIZE,
    ),
    Case("TAGConv weighted", lambda: TAGConv(4, 3, 2), inputs(feat(), weight), tag, TAG, ONE),
    Case("APPNPConv", lambda: APPNPConv(3, 0.2, 0.5), inputs(feat()), appnp, {}, ONE_SIZE),
    Case("APPNPConv weighted", lambda: APPNPConv(3, 0.2), inputs(feat(), weight), appnp, {}, ONE),
    Case(
        "ChebConv",
        lambda: ChebConv(4, 3, 4),
        inputs(feat()),
        cheb(2),
        {"linear.weight": (3, 16), "linear.bias": (3,)},
        ONE_SIZE,
        smooth=False,
        refused=(wide, (lambda g: (dense.double(4, 4), [1.0, 2.0]), "a number for each of the 1 batched graphs")),
    ),
    Case(
        "ChebConv lambda_max",
        lambda: ChebConv(4, 3, 3, torch.relu, False),
        lambda g: (feat()(g), [1.5]),
        cheb(1.5),
        {"linear.weight": (3, 12)},
        ONE,
        smooth=False,
    ),
    Case("AGNNConv", lambda: AGNNConv(0.5, allow_zero_in_degree=True), inputs(feat()), agnn, {"beta": (1,)}),
    Case("AGNNConv near 0", lambda: AGNNConv(1e-4), inputs(feat()), agnn, {"beta": (1,)}, ONE, compiles=False),
    Case(
        "GCN2Conv",
        lambda: GCN2Conv(4, 2, 0.3, 0.5, allow_zero_in_degree=True),
        inputs(feat(), feat(seed=3)),
        gcn2,
        GCN2,
        ONE_SIZE,
        refused=((inputs(feat(), feat(3)), "feat_0 has shape"),),
    ),
    Case(
        "GCN2Conv weighted",
        lambda: GCN2Conv(4, 2, 0.3, 0.5, project_initial_features=False),
        inputs(feat(), feat(seed=3), weight),
        gcn2,
        {"weight1": (4, 4), "weight2": (4, 4), "bias": (4,)},
        ONE,
    ),
]
