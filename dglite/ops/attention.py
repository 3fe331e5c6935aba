"""Attention as one kernel: scores, softmax, dropout and weighted sum of an edge's source, with nothing kept per edge.

Forward keeps the result and the logarithm of each node's sum of exponentials; backward makes weights and dropout again
from them. Where a second derivative may be asked for, and where a graph or a shape is beyond the kernels, the same is
composed of g-SDDMM, edge softmax and g-SpMM.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import kernels
from ..backend import RESULT, Tensor, active
from ..errors import DGLError
from ..expr import Expr, Operand, Side
from ..kernels.render import compute_dtype
from ..kernels.render_tiles import Phase, Score
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from .operands import check_tensor, structure_of
from .softmax import edge_softmax
from .sparse import sddmm, spmm

__all__ = ["Attention", "Score", "attention", "attention_weights"]

OPERANDS = {
    Score.ADDITIVE: ("x", "left", "right"),
    Score.GATED: ("x", "right", "attn"),
    Score.DOT: ("x", "right"),
}
"""The tensors of an attention by their names in the kernels; ``weight`` comes last where there are edge weights."""
MOST_HEADS = 64
"""A kernel's text grows with the number of heads; beyond this it is composed."""

_ADD: Expr = Operand(Side.U, 0) + Operand(Side.V, 1)
_MUL: Expr = Operand(Side.U, 0) * Operand(Side.V, 1)
_WEIGHTED: Expr = Operand(Side.U, 0) * Operand(Side.E, 1)


@dataclass(frozen=True)
class Attention:
    """What an attention computes, apart from its tensors.

    ``slope`` is that of the leaky ReLU, ``scale`` multiplies the scores of ``Score.DOT``. With ``dropout``, weight (e,
    h) is dropped with that probability and otherwise divided by what is left of 1; word h % 4 of Philox4x32-10 with the
    key ``seed`` and the counter (e, h // 4) decides. Without a seed one is drawn from the backend's generator.
    """

    score: Score
    slope: float = 0.2
    scale: float = 1.0
    dropout: float = 0.0
    seed: int | None = None

    def seeded(self) -> Attention:
        """Return this with a seed where one is needed."""
        if not 0 <= self.dropout <= 1:
            raise DGLError(f"got dropout={self.dropout}; expected a probability, 0 to 1")
        return replace(self, seed=active.draw_seed()) if self.dropout and self.seed is None else self


def attention(
    adj: Adjacency, how: Attention, x: Tensor, operands: Sequence[Tensor], edge_weight: Tensor | None = None
) -> Tensor:
    """Return for every node the weighted sum of its in-edges' sources.

    Parameters
    ----------
    x
        ``(num_src, *heads, d)``.
    operands
        Of the score. Additive: ``(num_src, *heads)`` and ``(num_dst, *heads)``, perhaps with a last axis of length 1.
        Gated: ``(num_dst, *heads, d)`` and a vector for each head, ``(*heads, d)``. Dot: ``(num_dst, *heads, d)``.
    edge_weight
        ``(num_edges,)``, multiplies the weights after the softmax and dropout.

    Returns
    -------
    Tensor
        ``(num_dst, *heads, d)``, 0 for a node without in-edges. Differentiable twice in all tensors.

    Raises
    ------
    DGLError
        Rows, heads or dtypes do not fit the structure or each other; a dropout that is no probability.
    """
    how = how.seeded()
    inputs = _checked(adj, how, x, operands, edge_weight)
    _, *heads, features = active.shape(x)
    flat = _flat(how, inputs, math.prod(heads), features)
    if not 0 < math.prod(heads) <= MOST_HEADS or not features or not adj.num_edges:
        result = _composed(adj, how, flat)
    else:
        needs = any(active.requires_grad(tensor) for tensor in flat)
        operation = _Fused(adj, how, needs)
        result = active.apply(operation, *flat)
    return active.reshape(result, (adj.num_dst, *heads, features))


def attention_weights(
    adj: Adjacency, how: Attention, x: Tensor, operands: Sequence[Tensor], edge_weight: Tensor | None = None
) -> Tensor:
    """Return the weights that :func:`attention` applies, after dropout and edge weights, (num_edges, *heads, 1).

    ``how`` needs a seed of its own for both to draw the same dropout.
    """
    how = how.seeded()
    inputs = _checked(adj, how, x, operands, edge_weight)
    _, *heads, features = active.shape(x)
    weights = _weights(adj, how, _flat(how, inputs, math.prod(heads), features))
    return active.reshape(weights, (adj.num_edges, *heads, 1))


# -- what is given -----------------------------------------------------------------------------------------------------
def _checked(
    adj: Adjacency, how: Attention, x: Tensor, operands: Sequence[Tensor], edge_weight: Tensor | None
) -> list[Tensor]:
    """Return x, the operands and the edge weights, after a look at their shapes and dtypes."""
    check_tensor(x, adj.num_src, "source node")
    _, *heads, features = active.shape(x)
    if not heads:
        raise DGLError(f"got features of shape {tuple(active.shape(x))}; expected (num_src, *heads, d)")
    if how.score is Score.ADDITIVE:
        owners, feat = ((adj.num_src, "source node"), (adj.num_dst, "destination node")), tuple(heads)
    else:
        owners, feat = ((adj.num_dst, "destination node"),), (*heads, features)
    for operand, owner in zip(operands, owners, strict=False):
        check_tensor(operand, *owner)
        own = tuple(active.shape(operand)[1:])
        if own != feat and not (how.score is Score.ADDITIVE and own == (*feat, 1)):
            raise DGLError(f"got {own} for each {owner[1]} with {tuple(heads)} heads of {features}; expected {feat}")
    if how.score is Score.GATED and tuple(active.shape(operands[1])) != (*heads, features):
        raise DGLError(f"got attn of shape {tuple(active.shape(operands[1]))}; expected {(*heads, features)}")
    tensors = [x, *operands]
    if edge_weight is not None:
        check_tensor(edge_weight, adj.num_edges, "edge")
        if math.prod(active.shape(edge_weight)[1:]) != 1:
            raise DGLError(
                f"got edge weights of shape {tuple(active.shape(edge_weight))}; expected one number per edge"
            )
        tensors.append(edge_weight)
    dtypes = {active.dtype(tensor) for tensor in tensors}
    if len(dtypes) > 1:
        raise DGLError(f"operands have dtypes {' and '.join(sorted(dtypes))}; convert them to one dtype")
    return tensors


def _flat(how: Attention, inputs: Sequence[Tensor], heads: int, features: int) -> list[Tensor]:
    """Return the inputs with one axis of heads: (rows, heads[, d]), attn (heads, d), edge weights (num_edges,)."""
    wide = (heads, features)
    side = (heads,) if how.score is Score.ADDITIVE else wide
    feat = {"x": wide, "left": side, "right": side, "weight": ()}
    return [
        active.reshape(tensor, wide if name == "attn" else (active.shape(tensor)[0], *feat[name]))
        for name, tensor in _named(how, inputs).items()
    ]


def _named(how: Attention, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    return dict(zip((*OPERANDS[how.score], "weight"), inputs, strict=False))


# -- composed ----------------------------------------------------------------------------------------------------------
def _weights(adj: Adjacency, how: Attention, inputs: Sequence[Tensor]) -> Tensor:
    """Return the weights as applied, (num_edges, heads, 1), with differentiable operations."""
    given = _named(how, inputs)
    x, right = given["x"], given["right"]
    if how.score is Score.DOT:
        scores = sddmm(adj, _MUL, (x, right), dot=True) * how.scale
    elif how.score is Score.GATED:
        scores = active.sum(_leaky_relu(sddmm(adj, _ADD, (x, right)), how.slope) * given["attn"], -1, keepdims=True)
    else:
        left, right = (active.reshape(side, (*active.shape(side), 1)) for side in (given["left"], right))
        scores = _leaky_relu(sddmm(adj, _ADD, (left, right)), how.slope)
    weights = edge_softmax(adj, scores)
    if how.dropout:
        weights = weights * _multipliers(adj, how, x)
    if "weight" in given:
        weights = weights * active.reshape(given["weight"], (adj.num_edges, 1, 1))
    return weights


def _composed(adj: Adjacency, how: Attention, inputs: Sequence[Tensor]) -> Tensor:
    return spmm(adj, _WEIGHTED, Reducer.SUM, (inputs[0], _weights(adj, how, inputs)))


def _leaky_relu(x: Tensor, slope: float) -> Tensor:
    return x * (active.astype(x > 0, active.dtype(x)) * (1 - slope) + slope)


def _multipliers(adj: Adjacency, how: Attention, like: Tensor) -> Tensor:
    """Return the dropout multipliers, (num_edges, heads, 1)."""
    assert how.seed is not None
    dtype, heads = active.dtype(like), active.shape(like)[1]
    out = active.empty((adj.num_edges, heads, 1), compute_dtype(dtype), active.device(like))
    compiled = kernels.compiled("attention")
    compiled.dropout_multipliers(
        dtype, adj.num_edges, heads, how.dropout, how.seed, active.address(out), active.num_threads()
    )
    return active.astype(out, dtype)


# -- fused -------------------------------------------------------------------------------------------------------------
class _Fused:
    """One recorded attention. Its inputs are the tensors of ``OPERANDS``, then edge weights where there are any."""

    def __init__(self, adj: Adjacency, how: Attention, training: bool) -> None:
        self.adj, self.how, self.training = adj, how, training
        self.saved: tuple[int, ...] = ()
        self.kept: dict[str, Tensor] = {}

    def forward(self, *inputs: Tensor) -> Tensor:
        adj, x = self.adj, inputs[0]
        _, heads, features = active.shape(x)
        wide = (adj.num_dst, heads, features)
        shapes = {"out": wide}
        if self.training:
            shapes["log_sum"] = wide[:2]
            if self.how.score is Score.ADDITIVE:
                shapes |= {"sloped_out": wide, "sloped_sum": wide[:2]}
        results = {name: _rows(adj, shape, x) for name, shape in shapes.items()}
        self._run(Phase.FORWARD, adj, inputs, results, training=self.training)
        out = results.pop("out")
        self.kept = results
        if active.dtype(out) == active.dtype(x):
            # The result comes back through the backend: kept here it would keep itself alive.
            self.saved = (*range(len(inputs)), RESULT)
            return out
        self.saved = tuple(range(len(inputs)))
        self.kept["out"] = out
        return active.astype(out, active.dtype(x))

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        given = list(inputs[:-1])
        if active.requires_grad(grad) or any(active.requires_grad(tensor) for tensor in given):
            return active.gradients(lambda *tensors: _composed(self.adj, self.how, tensors), given, grad, needs)
        adj, named = self.adj, _named(self.how, given)
        wanted = {name for name, needed in zip(named, needs, strict=True) if needed}
        x, heads = given[0], active.shape(given[0])[1]
        state = active.empty((adj.num_dst, 3, heads), compute_dtype(active.dtype(x)), active.device(x))
        shared = {"out": inputs[RESULT], **self.kept, "grad": active.contiguous(grad), "state": state}
        results = {"right_grad": _rows(adj, active.shape(named["right"]), x)}
        if self.how.score is Score.GATED:
            results["attn_grad"] = _rows(adj, active.shape(named["right"]), x)
        self._run(Phase.DESTINATION, adj, given, {**shared, **results})
        if wanted - {"right", "attn"}:
            behind = adj.reverse()
            results |= {
                f"{name}_grad": _rows(behind, active.shape(named[name]), x) for name in ("x", "left") if name in named
            }
            if "weight" in wanted:
                results["weight_grad"] = active.empty((adj.num_edges,), active.dtype(state), active.device(x))
            self._run(Phase.SOURCE, behind, given, {**shared, **results}, weight_gradient="weight" in wanted)
        if "attn" in wanted:
            results["attn_grad"] = active.sum(results["attn_grad"], 0)
        return [active.astype(results[f"{name}_grad"], active.dtype(x)) if name in wanted else None for name in named]

    def _run(
        self, phase: Phase, rows: Adjacency, inputs: Sequence[Tensor], others: dict[str, Tensor], **flags: bool
    ) -> None:
        """Run a phase over ``rows`` on the inputs and ``others``, all by the names of the kernels' arguments."""
        how, compiled = self.how, kernels.compiled("attention")
        named = {name: active.contiguous(tensor) for name, tensor in _named(how, inputs).items()}
        structure, index = structure_of(rows)
        _, heads, features = active.shape(inputs[0])
        flags |= {"dropout": how.dropout > 0, "weighted": "weight" in named}
        spec = compiled.specify(how.score, phase, active.dtype(inputs[0]), index, heads, features, **flags)
        arguments: dict[str, int | float] = {"slope": float(how.slope), "score_scale": float(how.scale)}
        for name, tensor in {**named, **others}.items():
            arguments[name] = active.address(tensor)
            arguments[f"{name}_stride"] = math.prod(active.shape(tensor)[1:])
        if how.seed is not None:
            arguments |= compiled.dropout_words(how.dropout, how.seed)
        compiled.attend(spec, structure, arguments, active.num_threads())


def _rows(adj: Adjacency, shape: Sequence[int], like: Tensor) -> Tensor:
    """Return memory for what a kernel computes for each destination; 0 where it comes by none."""
    dtype, device = compute_dtype(active.dtype(like)), active.device(like)
    if "no row is empty" not in adj.cache:
        adj.cache["no row is empty"] = bool(adj.in_degrees().all())
    return (
        active.empty(shape, dtype, device) if adj.cache["no row is empty"] else active.full(shape, 0.0, dtype, device)
    )
