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
from ..kernels.spec import compute_dtype
from ..structure.adjacency import Adjacency
from ..structure.arrays import place_of
from ..structure.derived import CacheKey, cache_key, variant
from .devices import device_of
from .products import product, weight_gradient

_ALL_ROWS_USED: CacheKey[bool] = cache_key("all rows used", "whether every destination has an in-edge")
_IDLE: CacheKey[np.ndarray] = cache_key("idle sources", "sources without out-edges, by the number looked at")
_OPERANDS = {
    Score.ADDITIVE: ("x", "left", "right"),
    Score.GATV2: ("x", "right", "attn"),
    Score.DOT: ("x", "right"),
}
_STRIDES = {name: f"{name}_stride" for name in "x left right x_grad left_grad right_grad".split()}
"""What the kernels are told of rows that need not lie one behind the other."""
_SIDES = ("left", "right", "left_grad", "right_grad")
"""What lies side by side, left before right, where scores are projected."""


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
    ) -> None:
        self.adj, self.options, self.training = adj, options, training
        self.composed, self.wants_step_gradients = composed, wants_step_gradients
        self.saved: tuple[int, ...] = ()
        self.buffers: dict[str, Tensor] = {}
        self.writes_every_row = False

    def forward(self, *inputs: Tensor) -> Tensor:
        adj, x = self.adj, inputs[0]
        self.writes_every_row = device_of(x).kernels("graph.attention").WRITES_EVERY_ROW
        _, heads, features = active.shape(x)
        named, wide = self.options.named(inputs), (adj.num_dst, heads, features)
        shapes: dict[str, tuple[int, ...]] = {"out": wide}
        if self.options.edge_features:
            shapes["out"] = (math.prod(wide) + math.prod(wide[:2]) * active.shape(named["edge_feat"])[1],)
        if self.training:
            shapes["log_sum"] = wide[:2]
            if self.options.score is Score.ADDITIVE and not self.options.edges:
                shapes |= {"sloped_out": wide, "sloped_sum": wide[:2]}
        self.buffers = self._projections(named) if self.options.projected else {}
        self.buffers |= {name: self._rows(adj, shape, x) for name, shape in shapes.items()}
        parts = self._parts(("out", "edge_out"), self.buffers["out"], x)
        self._run(Phase.FORWARD, adj, inputs, {**self.buffers, **parts}, training=self.training)
        out = self.buffers["out"]
        if active.dtype(out) == active.dtype(x):
            # The result comes back through the backend: kept here it would keep itself alive.
            del self.buffers["out"]
            self.saved = (*range(len(inputs)), RESULT)
            return out
        self.saved = tuple(range(len(inputs)))
        return active.astype(out, active.dtype(x))

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
        adj, options, named = self.adj, self.options, self.options.named(operands)
        operands_with_grad = {name for name, needed in zip(named, needs, strict=True) if needed}
        x, heads = operands[0], active.shape(operands[0])[1]
        state = active.empty((adj.num_dst, 3, heads), compute_dtype(active.dtype(x)), active.device(x))
        shared = {**self.buffers, "state": state}
        shared |= self._parts(("out", "edge_out"), self.buffers.get("out", inputs[RESULT]), x)
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
        return [
            active.astype(results[f"{name}_grad"], active.dtype(x)) if name in operands_with_grad else None
            for name in named
        ]

    def _parts(self, names: tuple[str, str], whole: Tensor, x: Tensor) -> dict[str, Tensor]:
        """Return by ``names`` what a result, or its gradient, has of nodes and of edges."""
        if not self.options.edge_features:
            return {names[0]: whole}
        of_nodes = self.adj.num_dst * math.prod(active.shape(x)[1:])
        parts = active.split(whole, [of_nodes, active.shape(whole)[0] - of_nodes])
        return dict(zip(names, parts, strict=True))

    def _projections(self, named: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the scores of both sides, (num_src, heads) and (num_dst, heads), in one product of matrices.

        Products with a matrix that is mostly 0 read x once; multiplying and adding up by head writes a tensor as large
        as x for each side, and takes eight times as long for heads of 32.
        """
        x = named["x"]
        rows, heads, features = active.shape(x)
        diagonal = _identity(heads, x)[:, None, :]
        columns = [
            active.reshape(active.reshape(named[name], (heads, features, 1)) * diagonal, (heads * features, heads))
            for name in ("attn", "attn_right")
        ]
        scores = product(active.reshape(x, (rows, heads * features)), active.concat(columns, 1))
        return {"left": scores[:, :heads], "right": scores[: self.adj.num_dst, heads:]}

    def _side_gradients(self, x: Tensor, right: Tensor) -> dict[str, Tensor]:
        """Return buffers for the gradient of ``right``; of both sides, ``sides_grad``, if the scores are projected."""
        if not self.options.projected:
            return {"right_grad": self._rows(self.adj, active.shape(right), x)}
        rows, heads, _ = active.shape(x)
        shape, dtype, device = (rows, 2 * heads), compute_dtype(active.dtype(x)), active.device(x)
        whole = rows == self.adj.num_dst and self._writes_all(self.adj) and self._writes_all(self.adj.reverse())
        both = active.empty(shape, dtype, device) if whole else active.full(shape, 0.0, dtype, device)
        return {"sides_grad": both, "left_grad": both[:, :heads], "right_grad": both[: self.adj.num_dst, heads:]}

    def _through_projections(self, named: dict[str, Tensor], results: dict[str, Tensor]) -> None:
        """Add the gradients of the vectors, and of x for sources without an out-edge, which no kernel has written."""
        both, right = results.pop("sides_grad"), results["right_grad"]
        num_dst, (rows, heads, features) = self.adj.num_dst, active.shape(named["x"])
        x = active.reshape(active.astype(named["x"], active.dtype(both)), (rows, heads * features))
        # The product has a block for each pair of heads; a head's own lie on the diagonal.
        blocks = active.reshape(active.swap_last(weight_gradient(x, both)), (2, heads * heads, features))
        results["attn_grad"], results["attn_right_grad"] = (active.contiguous(side[:: heads + 1]) for side in blocks)
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
        if not self.writes_every_row and _ALL_ROWS_USED not in rows.cache:
            rows.cache[_ALL_ROWS_USED] = bool(rows.in_degrees().all())
        return self.writes_every_row or rows.cache[_ALL_ROWS_USED]

    def _rows(self, rows: Adjacency, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return memory for a result of each row, zero-filled if some are not written."""
        dtype, device = compute_dtype(active.dtype(like)), active.device(like)
        return active.empty(shape, dtype, device) if self._writes_all(rows) else active.full(shape, 0.0, dtype, device)

    def _run(
        self, phase: Phase, rows: Adjacency, inputs: Sequence[Tensor], others: dict[str, Tensor], **flags: bool
    ) -> None:
        """Run a phase over ``rows`` on the inputs and ``others``, all by the names of the kernels' arguments."""
        options, device = self.options, device_of(inputs[0])
        compiled = device.kernels("graph.attention")
        named = {name: active.contiguous(tensor) for name, tensor in options.named(inputs).items()}
        structure, index = device.structure(rows, edges=options.dropout > 0 or options.edges or "weight" in named)
        _, heads, features = active.shape(inputs[0])
        flags |= {"dropout": options.dropout > 0, "weighted": "weight" in named, "edges": options.edges}
        of_edge = active.shape(named["edge_feat"])[1] if options.edge_features else 0
        spec = compiled.attention_spec(
            options.score, phase, active.dtype(inputs[0]), index, heads, features, of_edge, **flags
        )
        paired = _SIDES if options.projected else ()
        arguments: dict[str, int | float] = {"slope": float(options.slope), "score_scale": float(options.scale)}
        for name, tensor in {**named, **others}.items():
            arguments[name] = active.address(tensor)
            if name in _STRIDES:
                arguments[_STRIDES[name]] = math.prod(active.shape(tensor)[1:]) * (2 if name in paired else 1)
        if options.seed is not None:
            arguments |= compiled.dropout_words(options.dropout, options.seed)
        compiled.run_attention(spec, structure, {**arguments, "num_right": self.adj.num_dst}, device.queue)


def _identity(size: int, like: Tensor) -> Tensor:
    device = active.device(like)
    return _identity_on(size, active.dtype(like), device, place_of(device))


@lru_cache(maxsize=64)
def _identity_on(size: int, dtype: str, device: Any, place: Any) -> Tensor:
    return active.astype(active.from_numpy(np.eye(size), device), dtype)
