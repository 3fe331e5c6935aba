"""Attention among all nodes of each graph of a batch, on dense batches of graphs of similar size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...backend import Tensor, active, framework
from ...errors import DGLError
from ...ops import core
from ...ops.operands import to_common_dtype
from ...structure.adjacency import Adjacency
from ...structure.distinct import distinct
from ..base import nn


class _DenseRows(NamedTuple):
    """Which rows stand in a dense batch, a graph's last row standing for what pads it."""

    shape: tuple[int, int]
    """Graphs, and the rows of the longest."""
    rows: core.RowIndex | None
    """The rows (graphs * longest,); None for all that there are, in order."""


class _Class(NamedTuple):
    """Graphs whose sizes are padded to common ones."""

    queries: _DenseRows
    keys: _DenseRows
    mask: np.ndarray | None
    """Which keys are a graph's own, (graphs, 1, 1, longest); None where all are."""
    query_places: core.RowIndex | None
    """Places of the rows that do not pad among the flattened queries; None where all are."""


class SetPairs(NamedTuple):
    """Which queries meet which keys: see :func:`set_pairs`."""

    classes: list[_Class]
    order: core.RowIndex | None
    """Where each query is among the results of all classes and the row of zeros behind them; None for in order."""


class SetSizes(NamedTuple):
    """How many queries and keys each graph has, (batch_size,) both: the plan in a program that torch compiles."""

    queries: Tensor
    keys: Tensor


def set_pairs(query_sizes: Any, key_sizes: Any) -> SetPairs | SetSizes:
    """Plan the attention of ``query_sizes[i]`` rows over ``key_sizes[i]`` rows for every graph i.

    Graphs whose sizes round up to the same powers of 2 are padded to the largest of them, so that less than 3 of 4
    scores are padding, however unlike the sizes are.
    """
    if active.compiling() or active.is_tensor(query_sizes):
        return SetSizes(framework.as_tensor(query_sizes), framework.as_tensor(key_sizes))
    return _planned(query_sizes, key_sizes)


def equal_sizes(sizes: Any, count: int) -> Any:
    """Return ``count`` rows for each graph, as an array or, in a program, a tensor, whichever ``sizes`` is."""
    if isinstance(sizes, np.ndarray):
        return np.full(len(sizes), int(count))  # which is a tensor while torch.jit traces
    return sizes * 0 + count


def _planned(query_sizes: np.ndarray, key_sizes: np.ndarray) -> SetPairs:
    starts = [np.cumsum(sizes) - sizes for sizes in (query_sizes, key_sizes)]
    num_queries = int(query_sizes.sum())
    is_pair = (query_sizes > 0) & (key_sizes > 0)
    rounded = [np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64) for sizes in (query_sizes, key_sizes)]
    kinds = np.where(is_pair, rounded[0] * 64 + rounded[1], -1)
    classes, query_rows = [], []
    for kind in distinct(kinds[is_pair]):
        members = np.flatnonzero(kinds == kind)
        queries, is_real = _padded(starts[0][members], query_sizes[members])
        keys, real = _padded(starts[1][members], key_sizes[members])
        mask = None if real.all() else real[:, None, None]
        both = _rows(queries, num_queries), _rows(keys, int(key_sizes.sum()))
        classes.append(_Class(*both, mask, None if is_real.all() else core.RowIndex(np.flatnonzero(is_real))))
        query_rows.append(queries[is_real])
    rows = np.concatenate(query_rows) if query_rows else np.zeros(0, np.int64)
    if len(rows) == num_queries and (np.diff(rows) == 1).all():
        return SetPairs(classes, None)
    order = np.full(num_queries, len(rows))
    order[rows] = np.arange(len(rows))
    return SetPairs(classes, core.RowIndex(order))


def _padded(starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (graphs, longest) and which of them do not pad."""
    places = np.arange(sizes.max())
    return starts[:, None] + np.minimum(places, sizes[:, None] - 1), places < sizes[:, None]


def _rows(rows: np.ndarray, num_rows: int) -> _DenseRows:
    in_order = rows.size == num_rows and rows[0, 0] == 0 and (np.diff(rows.ravel()) == 1).all()
    return _DenseRows(rows.shape, None if in_order else core.RowIndex(rows.ravel()))


def set_attention(
    pairs: SetPairs | SetSizes, queries: Tensor, keys: Tensor, values: Tensor, dropout: float = 0.0
) -> Tensor:
    r"""Return for every query the mean of its graph's values, weighted by the softmax of its products with the keys.

    Products are divided by :math:`\sqrt d`; ``dropout`` is of the weights. queries (num_queries, heads, d), keys and
    values (num_keys, heads, d) -> (num_queries, heads, d), 0 where a graph has no keys.
    """
    if isinstance(pairs, SetSizes):
        seed = framework.randint(2**62, (1,)) if dropout else framework.zeros(1, dtype=framework.int64)
        counts = queries.shape[0], keys.shape[0]
        return active.call(_SetAttention.name, (queries, keys, values, seed), tuple(pairs), counts, repr(dropout))
    results = [_of_class(size_class, queries, keys, values, dropout) for size_class in pairs.classes]
    return _in_order(results, pairs.order, values)


def _in_order(results: list[Tensor], order: core.RowIndex | None, like: Tensor) -> Tensor:
    """Return the rows of all results, and of zeros, as ``order`` says."""
    if order is None and results:
        return results[0] if len(results) == 1 else active.concat(results)
    nothing = like.new_zeros(1, *like.shape[1:])
    if order is None:
        return nothing[:0]
    return core.take_rows(active.concat([*(x.to(like.dtype) for x in results), nothing]), order)


def _of_class(size_class: _Class, queries: Tensor, keys: Tensor, values: Tensor, dropout: float) -> Tensor:
    q, k, v = _batches(size_class, queries, keys, values)
    mask = _mask(size_class, queries)
    return _rows_of(size_class, nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout))


def _batches(size_class: _Class, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _batch(queries, size_class.queries), _batch(keys, size_class.keys), _batch(values, size_class.keys)


def _mask(size_class: _Class, like: Tensor) -> Any:
    return None if size_class.mask is None else active.from_numpy(size_class.mask, active.device(like))


def _rows_of(size_class: _Class, result: Tensor) -> Tensor:
    """Return the queries' own rows of a dense result (graphs, heads, longest, d)."""
    rows = result.transpose(1, 2).flatten(0, 1)
    return rows if size_class.query_places is None else core.take_rows(rows, size_class.query_places)


def _batch(x: Tensor, dense: _DenseRows) -> Tensor:
    """Return the rows of x as (graphs, heads, longest, d)."""
    rows = x if dense.rows is None else core.take_rows(x, dense.rows)
    return rows.reshape(*dense.shape, *x.shape[1:]).transpose(1, 2)


# -- in compiled programs ----------------------------------------------------------------------------------------------
def _weights(size_class: _Class, q: Tensor, k: Tensor, dropout: float, chance: Any) -> tuple[Tensor, Tensor | float]:
    """Return the softmax of dense scores, and what dropout multiplies it by."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    mask = _mask(size_class, q)
    weights = framework.softmax(scores if mask is None else scores.masked_fill(~mask, -math.inf), -1)
    if not dropout:
        return weights, 1.0
    keep = framework.rand(weights.shape, generator=chance).to(q.device) >= dropout
    return weights, keep.to(q.dtype) / (1 - dropout) if dropout < 1 else framework.zeros_like(weights)


def _chance(seed: Tensor) -> Any:
    return framework.Generator().manual_seed(int(seed))


def _check_inputs(inputs: Sequence[Tensor]) -> None:
    """Raise :class:`DGLError` unless queries, keys, values and a seed fit each other; row counts may be symbols."""
    shapes = [tuple(x.shape) for x in inputs[:3]]
    if any(len(shape) != 3 or shape[1:] != shapes[0][1:] for shape in shapes) or shapes[1] != shapes[2]:
        raise DGLError(f"got queries, keys and values of shapes {shapes}; expected (rows, heads, size) of one size")
    for x in to_common_dtype(inputs[:3]):
        if not x.is_floating_point():
            raise DGLError(f"got queries, keys or values of dtype {active.dtype(x)}; expected floating ones")
    seed = inputs[3]
    if seed.numel() != 1 or seed.dtype is not framework.int64:
        raise DGLError(f"got a seed of {seed.numel()} numbers, {active.dtype(seed)}; expected one of int64")


def _check_sizes(sizes: Sequence[Tensor], counts: Sequence[int], inputs: Sequence[Tensor]) -> None:
    """Raise :class:`DGLError` unless the graphs have as many rows as there are queries, and keys."""
    for lengths, count, x in zip(sizes, counts, inputs, strict=False):
        integers = lengths.dtype in (framework.int32, framework.int64) and lengths.dim() == 1
        if not integers or bool((lengths < 0).any()) or not int(lengths.sum()) == count == x.shape[0]:
            raise DGLError(f"got graphs of sizes {lengths.tolist()}, {count} together, for {x.shape[0]} rows")


class _SetAttention:
    """:func:`set_attention` of tensors that hold the sizes: planned when the program runs.

    Inputs are queries, keys, values and the seed of dropout; their sizes are the structure.
    """

    name = "set_attention"
    aux: Tensor | None = None
    saved: Sequence[int] = (0, 1, 2, 3)
    shapes: Sequence[tuple[int, ...]] = ()
    device: Any = None
    batch_axis = 0
    alike = True

    def __init__(self, structure: Sequence[Any], dropout: float) -> None:
        self.sizes, self.counts, self.dropout = structure[:2], structure[2:], dropout

    def describe(self, *inputs: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        _check_inputs(inputs)
        return (tuple(inputs[0].shape), active.dtype(inputs[2])), None

    def with_relu(self) -> None:
        """Return None: it has no form with a ReLU behind it."""

    def check_values(self, *inputs: Tensor) -> None:
        _check_sizes(self.sizes, self.counts, inputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        queries, keys, values, seed = inputs
        pairs = _planned(*map(active.to_numpy, self.sizes))
        if not self.dropout:
            return set_attention(pairs, queries, keys, values).contiguous()
        chance, results = _chance(seed), []
        for size_class in pairs.classes:
            q, k, v = _batches(size_class, queries, keys, values)
            weights, multipliers = _weights(size_class, q, k, self.dropout, chance)
            results.append(_rows_of(size_class, (weights * multipliers) @ v))
        return _in_order(results, pairs.order, values).contiguous()

    def composed(self, *inputs: Tensor) -> Tensor:
        """Return the result of torch's own operations, which score all queries of a batch with all of its keys."""
        queries, keys, values, _ = inputs
        owners = [
            framework.repeat_interleave(active.to_device(sizes, queries.device, non_blocking=True), output_size=count)
            for sizes, count in zip(self.sizes, self.counts, strict=True)
        ]
        apart = owners[0][:, None] != owners[1]
        scores = framework.einsum("qhd,khd->hqk", queries, keys) / math.sqrt(queries.shape[-1])
        weights = framework.softmax(scores.masked_fill(apart, -math.inf), -1).masked_fill(apart, 0.0)
        weights = nn.functional.dropout(weights, self.dropout)
        return framework.einsum("hqk,khd->qhd", weights, values)  # type: ignore[no-any-return]

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        tensors: Any = inputs[:3]
        flat = active.call(_SetAttentionGradient.name, (*inputs[:4], grad), self.sizes, self.counts, repr(self.dropout))
        gradients = flat.split([x.numel() for x in tensors])
        return [part.reshape(x.shape) for part, x in zip(gradients, tensors, strict=True)] + [None]


class _SetAttentionGradient(_SetAttention):
    """The gradients of queries, keys and values, one after the other in one axis. The result's gradient comes last."""

    name, saved = "set_attention_gradient", ()

    def composed(self, *inputs: Tensor) -> Tensor:
        raise DGLError("a portable program has no gradient of attention inside sets: export the model, not a step")

    def describe(self, *inputs: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        _check_inputs(inputs)
        to_common_dtype((inputs[0], inputs[4]))
        if inputs[4].shape != inputs[0].shape:
            raise DGLError(f"got a gradient of shape {tuple(inputs[4].shape)}; expected {tuple(inputs[0].shape)}")
        return ((sum(x.numel() for x in inputs[:3]),), active.dtype(inputs[0])), None

    def forward(self, *inputs: Tensor) -> Tensor:
        *tensors, seed, grad = inputs
        pairs, chance = _planned(*map(active.to_numpy, self.sizes)), _chance(seed)
        grads = [framework.zeros_like(x) for x in tensors]
        for size_class in pairs.classes:
            q, k, v = _batches(size_class, *tensors)
            weights, multipliers = _weights(size_class, q, k, self.dropout, chance)
            of_queries = _batch(grad, size_class.queries)
            if size_class.query_places is not None:
                of_rows = framework.zeros(math.prod(size_class.queries.shape), dtype=grad.dtype, device=grad.device)
                of_rows[active.from_numpy(size_class.query_places.rows, active.device(grad))] = 1
                of_queries = of_queries * of_rows.reshape(size_class.queries.shape[0], 1, -1, 1)
            by_weight = of_queries @ v.transpose(2, 3) * multipliers
            by_score = weights * (by_weight - (weights * by_weight).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
            parts = by_score @ k, by_score.transpose(2, 3) @ q, (weights * multipliers).transpose(2, 3) @ of_queries
            rows_of = size_class.queries, size_class.keys, size_class.keys
            for into, part, rows in zip(grads, parts, rows_of, strict=True):
                _add(into, part, rows)
        return framework.cat([x.reshape(-1) for x in grads])

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        raise DGLError("attention inside sets has no second derivative")


def _add(into: Tensor, dense: Tensor, rows: _DenseRows) -> None:
    """Add a dense batch (graphs, heads, longest, d) to the rows that it was made of."""
    flat = dense.transpose(1, 2).flatten(0, 1)
    if rows.rows is None:
        into += flat
    else:
        into.index_add_(0, active.from_numpy(rows.rows.rows, active.device(into)), flat)


active.register(_SetAttention.name, lambda structure, recipe, *_: _SetAttention(structure, float(recipe)))
active.register(
    _SetAttentionGradient.name, lambda structure, recipe, *_: _SetAttentionGradient(structure, float(recipe))
)


# -- the same seeds for all graphs -------------------------------------------------------------------------------------
def seed_attention(sizes: np.ndarray, scores: Tensor, values: Tensor, dropout: float = 0.0) -> Tensor:
    """Return for every graph and seed the mean of the graph's values, weighted by the softmax of their scores.

    One kernel. All graphs have the same m seeds; ``sizes`` (batch_size,) are their numbers of rows. scores (num_rows,
    m, heads), values (num_rows, heads, d) -> (batch_size * m, heads, d), 0 for a graph without rows. ``dropout`` is of
    the weights.
    """
    num_rows, num_seeds, heads = map(int, scores.shape)  # tensors while torch.jit traces
    nothing = [scores.new_zeros(count, heads) for count in (num_rows, len(sizes) * num_seeds)]
    scoring = core.Attention(core.Score.ADDITIVE, slope=1.0, dropout=dropout, edges=True)
    return core.attention(_rows_to_seeds(sizes, num_seeds), scoring, values, (*nothing, scores.flatten(0, 1)))


def _rows_to_seeds(sizes: np.ndarray, num_seeds: int) -> Adjacency:
    """Return the relation of every row to the seeds of its graph; edge ``row * num_seeds + seed``."""
    graphs = np.repeat(np.arange(len(sizes)), sizes)
    seeds = graphs[:, None] * num_seeds + np.arange(num_seeds)
    indptr = np.arange(len(graphs) + 1) * num_seeds
    return Adjacency.from_csr(len(graphs), len(sizes) * num_seeds, indptr, seeds.ravel())
