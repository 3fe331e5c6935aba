"""The fused attention kernels as one autograd function, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..backend import RESULT, Tensor, active
from ..errors import DGLError
from ..kernels.render.tiles import Phase, Score
from ..kernels.spec import ITEM_BYTES, compute_dtype
from ..structure.adjacency import Adjacency
from ..structure.arrays import place_of
from ..structure.derived import CacheKey, cache_key, variant
from .devices import KernelDevice, device_of
from .products import product, weight_gradient

_ALL_ROWS_USED: CacheKey[bool] = cache_key("all rows used", "whether every destination has an in-edge")
_IDLE: CacheKey[np.ndarray] = cache_key("idle sources", "sources without out-edges, by the number looked at")
_OPERANDS = {
    Score.ADDITIVE: ("x", "left", "right"),
    Score.GATV2: ("x", "right", "attn"),
    Score.DOT: ("x", "right"),
}
_STRIDES = {name: f"{name}_stride" for name in "x left right x_grad left_grad right_grad".split()}
"""The kernels' argument with the bytes from row to row, for each operand whose rows need not be contiguous."""
_SIDES = ("left", "right", "left_grad", "right_grad")
"""Operands that are one array (rows, 2 * heads), left before right, if scores are projected."""


@dataclass(frozen=True)
class Attention:
    """What an attention computes, apart from its tensors.

    ``slope`` is the leaky ReLU's, ``scale`` multiplies the scores of ``Score.DOT``. ``projected`` additive scores
    are given by a vector for each side, whose product with x is the score. With ``dropout``, weight (e,
    h) is dropped with that probability and otherwise divided by what is left of 1; word h % 4 of Philox4x32-10 with the
    key ``seed`` and the counter (e, h // 4) decides. Without a seed one is drawn from the backend's generator.
    ``edges``: a term of the edge is added in additive scores. ``edge_features``: features of the edge, the same for all
    heads, are weighted and added up, too; these sums are the end of the result.
    """

    score: Score
    slope: float = 0.2
    scale: float = 1.0
    dropout: float = 0.0
    seed: int | None = None
    projected: bool = False
    edges: bool = False
    edge_features: bool = False

    @property
    def kind(self) -> tuple[Any, ...]:
        """All but the seed: calls that are equal in this run the same kernels."""
        numbers = float(self.slope), float(self.scale), self.dropout
        return (self.score, *numbers, self.projected, self.edges, self.edge_features)

    def seeded(self) -> Attention:
        """Return this with a seed where one is needed."""
        if not 0 <= self.dropout <= 1:
            raise DGLError(f"got dropout={self.dropout}; expected a probability, 0 to 1")
        return replace(self, seed=active.draw_seed()) if self.dropout and self.seed is None else self

    @property
    def operands(self) -> tuple[str, ...]:
        """The tensors by their names in the kernels; ``weight`` follows where there are edge weights."""
        nodes = ("x", "attn", "attn_right") if self.projected else _OPERANDS[self.score]
        return (*nodes, *["edge"] * self.edges, *["edge_feat"] * self.edge_features)

    def named(self, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return dict(zip((*self.operands, "weight"), inputs, strict=False))


class AttentionPlan:
    """What attentions on tensors of equal shapes have in common: the device, and phases bound to it.

    ``is_dense``: the inputs lie row after row.
    """

    __slots__ = ("device", "is_dense", "phases", "project", "reserved", "writes_every_row")

    def __init__(self, device: KernelDevice, is_dense: bool = False) -> None:
        self.device, self.is_dense, self.phases = device, is_dense, dict[Any, Any]()
        self.reserved: tuple[int, dict[str, int]] | None = None
        self.writes_every_row: bool = device.kernels("graph.attention").WRITES_EVERY_ROW
        self.project: Any = None


class FusedAttention:
    """The autograd function of attention. Its inputs are the tensors of ``options.operands``, then edge weights if any.

    The result has the shape (num_dst, heads, d). With ``options.edge_features`` the weighted sums of edges' features,
    (num_dst, heads, f), follow it in one flat tensor, since an autograd function has one result here.

    ``composed`` does the same with differentiable operations: its gradient is taken where a second derivative is
    wanted, and where ``wants_step_gradients()`` says that the gradients of its steps are asked for.
    """

    def __init__(
        self,
        adj: Adjacency,
        options: Attention,
        training: bool,
        composed: Callable[..., Tensor],
        wants_step_gradients: Callable[[], bool] | None = None,
        plan: AttentionPlan | None = None,
    ) -> None:
        self.plan = plan
        self.adj, self.options, self.training = adj, options, training
        self.composed, self.wants_step_gradients = composed, wants_step_gradients
        self.saved: tuple[int, ...] = ()
        self.buffers: dict[str, Any] = {}
        self.memory: Tensor | None = None
        self.scores: Tensor | None = None

    def forward(self, *inputs: Tensor) -> Tensor:
        adj, x, options = self.adj, inputs[0], self.options
        self.plan = self.plan or AttentionPlan(device_of(x))
        _, heads, features = active.shape(x)
        named, wide = options.named(inputs), (adj.num_dst, heads, features)
        shape: tuple[int, ...] = wide
        if options.edge_features:
            shape = (math.prod(wide) + math.prod(wide[:2]) * active.shape(named["edge_feat"])[1],)
        self.buffers = self._projections(named, self.plan) if options.projected else {}
        if self.training:
            if self.plan.reserved is None:
                self.plan.reserved = self._reserved(wide, ITEM_BYTES[compute_dtype(active.dtype(x))])
            count, offsets = self.plan.reserved
            self.memory = self._rows(adj, (count,), x)
            first = active.address(self.memory)
            for name, offset in offsets.items():
                self.buffers[name] = first + offset
        out = self.buffers["out"] = self._rows(adj, shape, x)
        parts = self._parts(("out", "edge_out"), out, x)
        self._run(Phase.FORWARD, adj, inputs, {**self.buffers, **parts}, training=self.training)
        if active.dtype(out) == active.dtype(x):
            # The result comes back through the backend: kept here it would keep itself alive.
            del self.buffers["out"]
            self.saved = (*range(len(inputs)), RESULT)
            return out
        self.saved = tuple(range(len(inputs)))
        return active.astype(out, active.dtype(x))

    def _reserved(self, wide: tuple[int, int, int], item: int) -> tuple[int, dict[str, int]]:
        """Return the size of one tensor for what gradients read besides, and where each part of it begins, in bytes."""
        sizes, offsets, count = {"log_sum": wide[0] * wide[1]}, dict[str, int](), 0
        if self.options.score is Score.ADDITIVE and not self.options.edges:
            sizes |= {"sloped_out": math.prod(wide), "sloped_sum": wide[0] * wide[1]}
        for name, size in sizes.items():
            offsets[name], count = count * item, count + -(-size // 8) * 8  # every part begins at a widest vector
        return count, offsets

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        operands = list(inputs[:-1])
        if (
            active.requires_grad(grad, *operands)
            or active.needs_operator((grad,))
            or (self.wants_step_gradients is not None and self.wants_step_gradients())
        ):
            return active.gradients(
                lambda *tensors: self.composed(self.adj, self.options, tensors), operands, grad, needs
            )
        named = self.options.named(operands)
        operands_with_grad = {name for name, needed in zip(named, needs, strict=True) if needed}
        results = self._gradients(operands, named, operands_with_grad, inputs[RESULT], grad)
        dtype = active.dtype(operands[0])
        return [active.astype(results[f"{name}_grad"], dtype) if name in operands_with_grad else None for name in named]

    def _gradients(
        self,
        operands: list[Tensor],
        named: dict[str, Tensor],
        operands_with_grad: set[str],
        result: Tensor,
        grad: Tensor,
    ) -> dict[str, Tensor]:
        """Return the gradients that the kernels write, by the operand's name and ``_grad``."""
        adj, options = self.adj, self.options
        x, heads = operands[0], active.shape(operands[0])[1]
        state = active.empty((adj.num_dst, 3, heads), compute_dtype(active.dtype(x)), active.device(x))
        shared = {**self.buffers, "state": state}
        shared |= self._parts(("out", "edge_out"), self.buffers.get("out", result), x)
        shared |= self._parts(("grad", "edge_out_grad"), active.contiguous(grad), x)
        sides = {**named, **self.buffers}
        results = self._side_gradients(x, sides["right"])
        if options.score is Score.GATV2:
            results["attn_grad"] = self._rows(adj, active.shape(sides["right"]), x)
        # What edges have gets its gradient at destinations where scores have a term of the edge, else at sources.
        at_edges = {"edge"} & named.keys() | {"edge_feat", "weight"} & operands_with_grad
        of_edges = {
            f"{name}_grad": active.empty(active.shape(named[name]), active.dtype(state), active.device(x))
            for name in at_edges
        }
        flags = {"weight_gradient": "weight" in operands_with_grad}
        first, second = (
            ({**flags, "edge_gradient": "edge_feat" in operands_with_grad}, {}) if options.edges else ({}, flags)
        )
        results |= of_edges if options.edges else {}
        self._run(Phase.DESTINATION, adj, operands, {**shared, **results}, **first)
        if operands_with_grad - {"right", "attn"} - (at_edges if options.edges else set()) or options.projected:
            behind, results = adj.reverse(), {**results, **of_edges}
            for name in ("x", "left"):
                if name in sides and f"{name}_grad" not in results:
                    results[f"{name}_grad"] = self._rows(behind, active.shape(sides[name]), x)
            self._run(Phase.SOURCE, behind, operands, {**shared, **results}, projected=options.projected, **second)
        if options.projected:
            self._through_projections(named, results)
        elif "attn" in operands_with_grad:
            results["attn_grad"] = active.sum(results["attn_grad"], 0)
        return results

    def _parts(self, names: tuple[str, str], whole: Tensor, x: Tensor) -> dict[str, Tensor]:
        """Return by ``names`` what a result, or its gradient, has of nodes and of edges."""
        if not self.options.edge_features:
            return {names[0]: whole}
        of_nodes = self.adj.num_dst * math.prod(active.shape(x)[1:])
        parts = active.split(whole, [of_nodes, active.shape(whole)[0] - of_nodes])
        return dict(zip(names, parts, strict=True))

    def _projections(self, named: dict[str, Tensor], plan: AttentionPlan) -> dict[str, Any]:
        """Return the scores of both sides, (num_src, heads) and (num_dst, heads), of x and the vectors.

        On the CPU by a product with a matrix that is mostly 0, which reads x once; multiplying and adding up by head
        writes a tensor as large as x for each side, and takes eight times as long for heads of 32.
        """
        x = named["x"]
        shape = rows, heads, features = active.shape(x)
        kernels = plan.device.kernels("graph.attention")
        if kernels.PROJECTS:
            if plan.project is None:
                plan.project = kernels.bind_projection(active.dtype(x), shape, lambda: plan.device.queue)
            scores = active.new_empty(x, (rows, 2 * heads))
            dense, addresses = active.dense((x, named["attn"], named["attn_right"]))
            plan.project((*addresses, active.address(scores)))
            del dense  # the kernel has read it
        else:
            diagonal = _identity(heads, x)[:, None, :]
            columns = [
                active.reshape(active.reshape(named[name], (heads, features, 1)) * diagonal, (heads * features, heads))
                for name in ("attn", "attn_right")
            ]
            scores = product(active.reshape(x, (rows, heads * features)), active.concat(columns, 1))
        self.scores = scores
        return self._sides(scores, heads)

    def _sides(self, both: Tensor, heads: int) -> dict[str, Any]:
        """Return what sources and destinations have of (num_src, 2 * heads): the addresses, where these suffice."""
        if self.plan is not None and self.plan.writes_every_row:
            first = active.address(both)
            return {"left": first, "right": first + heads * ITEM_BYTES[active.dtype(both)]}
        return {"left": both[:, :heads], "right": both[: self.adj.num_dst, heads:]}

    def _side_gradients(self, x: Tensor, right: Tensor) -> dict[str, Tensor]:
        """Return buffers for the gradient of ``right``; of both sides, ``sides_grad``, if the scores are projected."""
        if not self.options.projected:
            return {"right_grad": self._rows(self.adj, active.shape(right), x)}
        rows, heads, _ = active.shape(x)
        shape, dtype, device = (rows, 2 * heads), compute_dtype(active.dtype(x)), active.device(x)
        whole = rows == self.adj.num_dst and self._writes_all(self.adj) and self._writes_all(self.adj.reverse())
        both = active.empty(shape, dtype, device) if whole else active.full(shape, 0.0, dtype, device)
        return {"sides_grad": both, **{f"{name}_grad": part for name, part in self._sides(both, heads).items()}}

    def _through_projections(self, named: dict[str, Tensor], results: dict[str, Tensor]) -> None:
        """Add the gradients of the vectors, and of x for sources without an out-edge, which no kernel has written."""
        both, right = results.pop("sides_grad"), results["right_grad"]
        num_dst, (rows, heads, features) = self.adj.num_dst, active.shape(named["x"])
        x = active.reshape(active.astype(named["x"], active.dtype(both)), (rows, heads * features))
        # The product has a block for each pair of heads; a head's own lie on the diagonal.
        # On the CPU by the kernel for few columns; elsewhere so that no copy is needed to turn it.
        blocks = active.swap_last(weight_gradient(x, both)) if active.on_cpu(x) else weight_gradient(both, x)
        blocks = active.reshape(blocks, (2, heads * heads, features))
        diagonal = active.contiguous(blocks[:, :: heads + 1])
        results["attn_grad"], results["attn_right_grad"] = diagonal[0], diagonal[1]
        if not self._writes_all(self.adj.reverse()):
            vector = active.astype(named["attn_right"], active.dtype(both))
            idle = self._idle_sources(num_dst)
            passed = active.take(right, idle)[:, :, None] * vector
            results["x_grad"] = active.put(results["x_grad"], idle, passed)

    def _idle_sources(self, num_dst: int) -> np.ndarray:
        """Return the ids of those of the first ``num_dst`` sources that have no out-edge, kept with the structure."""
        key = variant(_IDLE, num_dst)
        idle = self.adj.cache.get(key)
        if idle is None:
            idle = self.adj.cache[key] = np.flatnonzero(self.adj.out_degrees()[:num_dst] == 0)
        return idle

    def _writes_all(self, rows: Adjacency) -> bool:
        """Whether the kernels write a result for each of the rows: the CPU's do where each has an entry."""
        if self.plan is not None and self.plan.writes_every_row:
            return True
        if _ALL_ROWS_USED not in rows.cache:
            rows.cache[_ALL_ROWS_USED] = bool(rows.in_degrees().all())
        return bool(rows.cache[_ALL_ROWS_USED])

    def _rows(self, rows: Adjacency, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return memory for a result of each row, zero-filled if some are not written."""
        dtype, device = compute_dtype(active.dtype(like)), active.device(like)
        return active.empty(shape, dtype, device) if self._writes_all(rows) else active.full(shape, 0.0, dtype, device)

    def _run(
        self, phase: Phase, rows: Adjacency, inputs: Sequence[Tensor], others: dict[str, Tensor], **flags: bool
    ) -> None:
        """Run a phase over ``rows`` on the inputs and ``others``, tensors or addresses by the kernels' names for them.

        A kernel that ran on tensors of these shapes is not chosen again.
        """
        plan, options = self.plan, self.options
        assert plan is not None
        tensors = options.named(inputs if plan.is_dense else [active.contiguous(x) for x in inputs]) | others
        tensors.pop("sides_grad", None)
        key = (phase, *flags.items(), *tensors)
        bound = plan.phases.get(key)
        if bound is None:
            bound = plan.phases[key] = self._bound(plan.device, phase, rows, inputs[0], tensors, flags)
        addresses = [y if type(y) is int else active.address(y) for y in tensors.values()]
        plan.device.kernels("graph.attention").run_attention(bound, addresses, options.seed or 0)

    def _bound(
        self,
        device: KernelDevice,
        phase: Phase,
        rows: Adjacency,
        x: Tensor,
        tensors: dict[str, Any],
        flags: dict[str, bool],
    ) -> Any:
        """Return what runs a phase on the addresses of tensors like these."""
        options, (_, heads, features) = self.options, active.shape(x)
        of_edge = active.shape(tensors["edge_feat"])[1] if options.edge_features else 0
        compiled, weighted = device.kernels("graph.attention"), "weight" in tensors
        flags = {**flags, "dropout": options.dropout > 0, "weighted": weighted, "edges": options.edges}
        structure, index = device.structure(rows, edges=options.dropout > 0 or options.edges or weighted)
        shape = index, heads, features, of_edge
        spec = compiled.attention_spec(options.score, phase, active.dtype(x), *shape, **flags)
        numbers: dict[str, int | float] = {"slope": float(options.slope), "score_scale": float(options.scale)}
        for name, stride in _STRIDES.items():
            if name in tensors:
                if options.projected and name in _SIDES:
                    numbers[stride] = 2 * heads
                else:
                    numbers[stride] = math.prod(active.shape(tensors[name])[1:])
        if options.seed is not None:
            numbers |= compiled.dropout_words(options.dropout, 0)  # the seed comes with each call
        numbers["num_right"] = self.adj.num_dst
        return compiled.bind_attention(spec, structure, tuple(tensors), numbers, lambda: device.queue)


def _identity(size: int, like: Tensor) -> Tensor:
    device = active.device(like)
    return _identity_on(size, active.dtype(like), device, place_of(device))


@lru_cache(maxsize=64)
def _identity_on(size: int, dtype: str, device: Any, place: Any) -> Tensor:
    return active.astype(active.from_numpy(np.eye(size), device), dtype)
