"""Attention as one kernel: scores, softmax, dropout and weighted sum, with nothing stored per edge.

Forward keeps the result and the logarithm of each node's sum of exponentials; backward makes weights and dropout again
from them. Where a second derivative may be asked for, where a graph or a shape is beyond the kernels, and in programs
that torch compiles with gradients or dropout, the same is composed of g-SDDMM, edge softmax and g-SpMM.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Expr, Operand, Side
from ..kernels.render.tiles import Score
from ..kernels.spec import compute_dtype
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from . import fallback
from .call_cache import lookup, store
from .devices import device_of
from .fused_attention import Attention, AttentionPlan, FusedAttention
from .operands import check_tensor, to_common_dtype
from .softmax import edge_softmax
from .sparse import sddmm_unchecked, spmm_unchecked
from .traced import GraphOp, is_read, is_traced, registered, traced

MOST_HEADS = 64
"""A kernel's text grows with the number of heads; beyond this it is composed."""
MOST_ON_GPU = 1024
"""Features of a head that the lanes of a warp hold in registers."""


class Steps(Protocol):
    """An attention that was written step by step."""

    def composed(self, adj: Adjacency, options: Attention, inputs: Sequence[Tensor]) -> Tensor:
        """Return what :func:`composed` does, by way of the steps' tensors."""

    def wants_step_gradients(self) -> bool:
        """Whether anything asks for the gradient of one of them."""


_ADD: Expr = Operand(Side.U, 0) + Operand(Side.V, 1)
_MUL: Expr = Operand(Side.U, 0) * Operand(Side.V, 1)
_THREE: Expr = _ADD + Operand(Side.E, 2)
_WEIGHTED: Expr = Operand(Side.U, 0) * Operand(Side.E, 1)
_WEIGHTED_EDGE: Expr = Operand(Side.E, 0) * Operand(Side.E, 1)


def attention(
    adj: Adjacency,
    options: Attention,
    x: Tensor,
    operands: Sequence[Tensor],
    edge_weight: Tensor | None = None,
    steps: Steps | None = None,
) -> Tensor:
    """Return for every node the weighted sum of its in-edges' sources.

    Raises DGLError: rows, heads or dtypes do not fit the structure or each other; a dropout that is no probability.

    Parameters
    ----------
    x
        ``(num_src, *heads, d)``.
    operands
        Of the score. Additive: ``(num_src, *heads)`` and ``(num_dst, *heads)``, perhaps with a last axis of length 1;
        projected: ``(*heads, d)`` twice, whose products with x are these two, the first sources being destinations.
        Gated: ``(num_dst, *heads, d)`` and a vector for each head, ``(*heads, d)``. Dot: ``(num_dst, *heads, d)``.
        Of ``options.edges``: the edges' terms follow, ``(num_edges, *heads)``, perhaps with a last axis of length 1.
    edge_weight
        ``(num_edges,)``, multiplies the weights after the softmax and dropout.
    steps
        the steps that the attention was written as; their gradients may be asked for, too.

    Returns
    -------
    Tensor
        ``(num_dst, *heads, d)``, 0 for a node without in-edges. Differentiable twice in all tensors.
    """
    result = _attended(adj, options, x, operands, edge_weight, steps)
    return active.reshape(result, (adj.num_dst, *active.shape(x)[1:]))


def attention_with_edges(
    adj: Adjacency, options: Attention, x: Tensor, operands: Sequence[Tensor], edge_weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return :func:`attention`, and the sum of the in-edges' own features with the same weights.

    ``options`` has ``edges`` and ``edge_features``; the features, ``(num_edges, f)``, are the last of ``operands``. The
    second result is ``(num_dst, *heads, f)``, 0 for a node without in-edges. Both come of one pass over the edges, in
    which no message exists.
    """
    whole = _attended(adj, options, x, operands, edge_weight)
    _, *heads, features = active.shape(x)
    width = active.shape(operands[-1])[1]
    count = adj.num_dst * math.prod(heads)
    nodes, edges = active.split(whole, [count * features, count * width])
    rows = adj.num_dst, *heads
    return active.reshape(nodes, (*rows, features)), active.reshape(edges, (*rows, width))


def _attended(
    adj: Adjacency,
    options: Attention,
    x: Tensor,
    operands: Sequence[Tensor],
    edge_weight: Tensor | None,
    steps: Steps | None = None,
) -> Tensor:
    """Return the attention with one axis of heads, in one kernel where there is one; see :class:`FusedAttention`."""
    tensors = (x, *operands) if edge_weight is None else (x, *operands, edge_weight)
    compose, wants_gradients = (composed, None) if steps is None else (steps.composed, steps.wants_step_gradients)
    plain = None if is_read(adj) else active.plain(tensors)
    plan = None if plain is None else lookup(adj, ("attention", options.kind, plain[0]))
    if plan is not None:
        options = options.seeded()
        needs = active.requires_grad(*tensors)
        return active.apply(FusedAttention(adj, options, needs, compose, wants_gradients, plan), *tensors)
    inputs = _checked(adj, options, x, operands, edge_weight)
    _, *heads, features = active.shape(x)
    flat = _flat(options, inputs, math.prod(heads), features)
    if is_traced(adj, flat):
        # What a transform takes apart, and what has a gradient or dropout, is made of the operations it is composed of.
        if not active.compiling() or options.dropout or active.requires_grad(*flat):
            return composed(adj, options, flat)
        return traced(AttentionOp.name, adj, _recipe(options), (*flat, _number(options, flat[0])))
    options = options.seeded()
    if not _has_kernel(adj, options, flat[0]):
        return compose(adj, options, flat)
    plan = AttentionPlan(device_of(flat[0]))
    if plain is not None and all(x is y for x, y in zip(tensors, flat, strict=True)):
        plan.is_dense = True
        store(adj, ("attention", options.kind, plain[0]), plan)
    needs = active.requires_grad(*flat)
    return active.apply(FusedAttention(adj, options, needs, compose, wants_gradients, plan), *flat)


def _has_kernel(adj: Adjacency, options: Attention, x: Tensor) -> bool:
    """Whether a kernel computes the attention of x, (num_src, heads, d)."""
    _, heads, features = active.shape(x)
    beyond = not 0 < heads <= MOST_HEADS
    if not active.on_cpu(x):
        beyond = beyond or features > MOST_ON_GPU or options.edges
    return not (beyond or not features or not adj.num_edges or fallback.lacks_kernels(x))


def attention_weights(
    adj: Adjacency, options: Attention, x: Tensor, operands: Sequence[Tensor], edge_weight: Tensor | None = None
) -> Tensor:
    """Return the weights that :func:`attention` applies, after dropout and edge weights, (num_edges, *heads, 1).

    Set a seed in ``options`` for both to draw the same dropout.
    """
    options = options if is_traced(adj, (x, *operands)) else options.seeded()
    inputs = _checked(adj, options, x, operands, edge_weight)
    _, *heads, features = active.shape(x)
    weights = _weights(adj, options, _flat(options, inputs, math.prod(heads), features))
    return active.reshape(weights, (adj.num_edges, *heads, 1))


# -- what is given -----------------------------------------------------------------------------------------------------
def _checked(
    adj: Adjacency, options: Attention, x: Tensor, operands: Sequence[Tensor], edge_weight: Tensor | None
) -> list[Tensor]:
    """Return x, the operands and the edge weights, after a look at their shapes and dtypes."""
    check_tensor(x, adj.num_src, "source node")
    if len(active.shape(x)) < 3:
        raise DGLError(f"got features of shape {tuple(active.shape(x))}; expected (num_src, *heads, d)")
    _, *heads, features = active.shape(x)
    sides = {
        "left": (adj.num_src, "source node", tuple(heads)),
        "right": (adj.num_dst, "destination node", (*heads, features) if options.score.of_features else tuple(heads)),
        "edge": (adj.num_edges, "edge", tuple(heads)),
    }
    for name, operand in options.named([x, *operands]).items():
        if name in sides:
            num_rows, owner, feat = sides[name]
            check_tensor(operand, num_rows, owner)
            shape = tuple(active.shape(operand)[1:])
            if shape != feat and (options.score.of_features or shape != (*feat, 1)):
                raise DGLError(
                    f"got {shape} for each {owner}, with {tuple(heads)} heads of {features}; expected {feat}"
                )
        elif name == "edge_feat":
            check_tensor(operand, adj.num_edges, "edge")
            if len(active.shape(operand)) != 2 or not active.shape(operand)[1]:
                raise DGLError(f"got edge features of shape {tuple(active.shape(operand))}; expected (num_edges, f)")
        elif name != "x" and tuple(active.shape(operand)) != (*heads, features):
            raise DGLError(f"got {name} of shape {tuple(active.shape(operand))}; expected {(*heads, features)}")
    if options.projected and adj.num_dst > adj.num_src:
        raise DGLError(f"{adj.num_dst} destinations are not among {adj.num_src} sources; give their scores apart")
    tensors = [x, *operands]
    if edge_weight is not None:
        check_tensor(edge_weight, adj.num_edges, "edge")
        if math.prod(active.shape(edge_weight)[1:]) != 1:
            raise DGLError(
                f"got edge weights of shape {tuple(active.shape(edge_weight))}; expected one number per edge"
            )
        tensors.append(edge_weight)
    return list(to_common_dtype(tensors))


def _flat(options: Attention, inputs: Sequence[Tensor], heads: int, features: int) -> list[Tensor]:
    """Return the inputs with one axis of heads: (rows, heads[, d]), attn (heads, d), edge weights (num_edges,)."""
    wide = (heads, features)
    side = wide if options.score.of_features else (heads,)
    feat = {"x": wide, "left": side, "right": side, "edge": (heads,), "weight": ()}
    return [
        tensor
        if name == "edge_feat"
        else active.reshape(tensor, (active.shape(tensor)[0], *feat[name]) if name in feat else wide)
        for name, tensor in options.named(inputs).items()
    ]


# -- composed ----------------------------------------------------------------------------------------------------------
def _weights(adj: Adjacency, options: Attention, inputs: Sequence[Tensor]) -> Tensor:
    """Return the weights as applied, (num_edges, heads, 1), with differentiable operations."""
    named = options.named(inputs)
    x = named["x"]
    if options.score is Score.DOT:
        scores = sddmm_unchecked(adj, _MUL, (x, named["right"]), dot=True) * options.scale
    elif options.score is Score.GATV2:
        both = leaky_relu(sddmm_unchecked(adj, _ADD, (x, named["right"])), options.slope)
        scores = active.sum(both * named["attn"], -1, keepdims=True)
    else:
        if options.projected:
            left, right = (active.sum(x * named[name], -1) for name in ("attn", "attn_right"))
            terms = [left, right[: adj.num_dst]]
        else:
            terms = [named["left"], named["right"]]
        terms += [named["edge"]] if options.edges else []
        wide = [active.reshape(term, (*active.shape(term), 1)) for term in terms]
        scores = leaky_relu(sddmm_unchecked(adj, _THREE if options.edges else _ADD, wide), options.slope)
    weights = normalised(adj, options, scores)
    if "weight" in named:
        weights = weights * active.reshape(named["weight"], (adj.num_edges, 1, 1))
    return weights


def normalised(adj: Adjacency, options: Attention, scores: Tensor) -> Tensor:
    """Return the softmax of scores, (num_edges, heads, 1), after dropout."""
    weights = edge_softmax(adj, scores)
    if options.dropout and is_traced(adj, (scores,)):
        return active.dropout(weights, options.dropout)
    return apply_dropout(adj, options, weights) if options.dropout else weights


def apply_dropout(adj: Adjacency, options: Attention, weights: Tensor) -> Tensor:
    """Return weights, (num_edges, heads, 1), after dropout by the seed."""
    return weights * _multipliers(adj, options, weights)


def composed(adj: Adjacency, options: Attention, inputs: Sequence[Tensor]) -> Tensor:
    """Return the attention of inputs with one axis of heads, made of differentiable operations."""
    weights = _weights(adj, options, inputs)
    result = spmm_unchecked(adj, _WEIGHTED, Reducer.SUM, (inputs[0], weights))
    if not options.edge_features:
        return result
    feat = options.named(inputs)["edge_feat"]
    edges = spmm_unchecked(adj, _WEIGHTED_EDGE, Reducer.SUM, (feat[:, None, :], weights))
    return active.concat([active.reshape(part, (-1,)) for part in (result, edges)])


# -- in programs -------------------------------------------------------------------------------------------------------
_FLAGS = ("projected", "edges", "edge_features")


def _recipe(options: Attention) -> str:
    return options.score.name + "".join([f" {flag}" for flag in _FLAGS if getattr(options, flag)])


@lru_cache(maxsize=64)
def _attention_of(recipe: str) -> Attention:
    score, *flags = recipe.split()
    return Attention(Score[score], **dict.fromkeys(flags, True))


def _number(options: Attention, x: Tensor) -> Tensor:
    """Return slope or scale as a tensor (): to torch's compilers a module's number is a variable, which is no text."""
    number = options.scale if options.score is Score.DOT else options.slope
    return active.full((), number, compute_dtype(active.dtype(x)), active.cpu())


@registered
class AttentionOp(GraphOp):
    """Attention in a program that was recorded without gradients: one kernel. A gradient is that of the composition.

    The slope or scale is its last input.
    """

    name = "attention"
    batch_axis = 0

    def __init__(self, adj: Adjacency, options: Attention, needs: tuple[bool, ...]) -> None:
        self.adj, self.options, self.saved = adj, options, range(len(needs))

    @classmethod
    def parse(cls, adj: Adjacency, recipe: str, needs: tuple[bool, ...]) -> AttentionOp:
        return cls(adj, _attention_of(recipe), needs)

    def recipe(self) -> str:
        return _recipe(self.options)

    def describe(self, *inputs: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        number = inputs[-1]
        if tuple(active.shape(number)) != () or active.dtype(number) not in ("float32", "float64"):
            raise DGLError(f"got a slope or scale of {active.dtype(number)}; expected a number, float32 or float64")
        named = self.options.named(inputs[:-1])
        weight = named.pop("weight", None)
        x, *operands = named.values()
        _checked(self.adj, self.options, x, operands, weight)
        _, heads, features = active.shape(x)
        shape: tuple[int, ...] = self.adj.num_dst, heads, features
        if self.options.edge_features:
            shape = (self.adj.num_dst * heads * (features + active.shape(named["edge_feat"])[1]),)
        return (shape, active.dtype(x)), None

    def forward(self, *inputs: Tensor) -> Tensor:
        *tensors, number = inputs
        named = self.options.named(tensors)
        weight = named.pop("weight", None)
        x, *operands = named.values()
        return _attended(self.adj, self._with(float(number)), x, operands, weight)

    def composed(self, *inputs: Tensor) -> Tensor:
        *tensors, number = inputs
        return composed(
            self.adj, self._with(active.to_device(number, active.device(tensors[0]), non_blocking=True)), tensors
        )

    def _with(self, number: Any) -> Attention:
        return (
            replace(self.options, scale=number)
            if self.options.score is Score.DOT
            else replace(self.options, slope=number)
        )

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return active.gradients(self.composed, inputs[:-1], grad, needs)


def leaky_relu(x: Tensor, slope: float) -> Tensor:
    """Return x where it is positive, ``slope * x`` elsewhere; differentiable twice."""
    return x * (active.astype(x > 0, active.dtype(x)) * (1 - slope) + slope)


def _multipliers(adj: Adjacency, options: Attention, like: Tensor) -> Tensor:
    """Return the dropout multipliers, (num_edges, heads, 1)."""
    assert options.seed is not None
    dtype, heads = active.dtype(like), active.shape(like)[1]
    where = active.cpu() if fallback.lacks_kernels(like) else active.device(like)
    out = active.empty((adj.num_edges, heads, 1), compute_dtype(dtype), where)
    device = device_of(out)
    device.kernels("graph.attention").dropout_multipliers(
        dtype, adj.num_edges, heads, options.dropout, options.seed, active.address(out), device.queue
    )
    return active.astype(active.to_device(out, active.device(like), non_blocking=True), dtype)
