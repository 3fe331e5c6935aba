"""Attention inside each graph of a batch, every node with every node, on dense batches of graphs of like sizes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...backend import Tensor, active
from ...ops import core
from ...structure.adjacency import Adjacency
from ..base import nn

__all__ = ["SetPairs", "seed_attention", "set_attention", "set_pairs"]


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
    own: core.RowIndex | None
    """Places of the rows that do not pad among the flattened queries; None where all are."""


class SetPairs(NamedTuple):
    """Which queries meet which keys: see :func:`set_pairs`."""

    classes: list[_Class]
    order: core.RowIndex | None
    """Where each query is among the results of all classes and the row of zeros behind them; None for in order."""


def set_pairs(query_sizes: np.ndarray, key_sizes: np.ndarray) -> SetPairs:
    """Plan the attention of ``query_sizes[i]`` rows over ``key_sizes[i]`` rows for every graph i.

    Graphs whose sizes round up to the same powers of 2 are padded to the largest of them, so that less than 3 of 4
    scores are padding, however unlike the sizes are.
    """
    starts = [np.cumsum(sizes) - sizes for sizes in (query_sizes, key_sizes)]
    num_queries = int(query_sizes.sum())
    met = (query_sizes > 0) & (key_sizes > 0)
    rounded = [np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64) for sizes in (query_sizes, key_sizes)]
    kinds = np.where(met, rounded[0] * 64 + rounded[1], -1)
    classes, found = [], []
    for kind in np.unique(kinds[met]):
        members = np.flatnonzero(kinds == kind)
        queries, own = _padded(starts[0][members], query_sizes[members])
        keys, real = _padded(starts[1][members], key_sizes[members])
        mask = None if real.all() else real[:, None, None]
        both = _rows(queries, num_queries), _rows(keys, int(key_sizes.sum()))
        classes.append(_Class(*both, mask, None if own.all() else core.RowIndex(np.flatnonzero(own))))
        found.append(queries[own])
    rows = np.concatenate(found) if found else np.zeros(0, np.int64)
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


def set_attention(pairs: SetPairs, queries: Tensor, keys: Tensor, values: Tensor, dropout: float = 0.0) -> Tensor:
    r"""Return for every query the mean of its graph's values, weighted by the softmax of its products with the keys.

    Products are divided by :math:`\sqrt d`; ``dropout`` is of the weights. queries (num_queries, heads, d), keys and
    values (num_keys, heads, d) -> (num_queries, heads, d), 0 where a graph has no keys.
    """
    results = [_of_class(one, queries, keys, values, dropout) for one in pairs.classes]
    if pairs.order is None and results:
        return results[0] if len(results) == 1 else active.concat(results)
    nothing = active.full((1, *queries.shape[1:]), 0, active.dtype(values), active.device(queries))
    if pairs.order is None:
        return nothing[:0]
    return core.take_rows(active.concat([*(x.to(values.dtype) for x in results), nothing]), pairs.order)


def _of_class(one: _Class, queries: Tensor, keys: Tensor, values: Tensor, dropout: float) -> Tensor:
    q, k, v = (_batch(x, rows) for x, rows in ((queries, one.queries), (keys, one.keys), (values, one.keys)))
    mask: Any = None if one.mask is None else active.from_numpy(one.mask, active.device(queries))
    result = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    result = result.transpose(1, 2).reshape(math.prod(one.queries.shape), *queries.shape[1:])
    return result if one.own is None else core.take_rows(result, one.own)


def _batch(x: Tensor, of: _DenseRows) -> Tensor:
    """Return the rows of x as (graphs, heads, longest, d)."""
    taken = x if of.rows is None else core.take_rows(x, of.rows)
    return taken.reshape(*of.shape, *x.shape[1:]).transpose(1, 2)


def seed_attention(sizes: np.ndarray, scores: Tensor, values: Tensor, dropout: float = 0.0) -> Tensor:
    """Return for every graph and seed the mean of the graph's values, weighted by the softmax of their scores.

    One kernel. All graphs have the same m seeds; ``sizes`` (batch_size,) are their numbers of rows. scores (num_rows,
    m, heads), values (num_rows, heads, d) -> (batch_size * m, heads, d), 0 for a graph without rows. ``dropout`` is of
    the weights.
    """
    num_rows, num_seeds, heads = scores.shape
    nothing = [scores.new_zeros(count, heads) for count in (num_rows, len(sizes) * num_seeds)]
    how = core.Attention(core.Score.ADDITIVE, slope=1.0, dropout=dropout, edges=True)
    return core.attention(_rows_to_seeds(sizes, num_seeds), how, values, (*nothing, scores.flatten(0, 1)))


def _rows_to_seeds(sizes: np.ndarray, num_seeds: int) -> Adjacency:
    """Return the relation of every row to the seeds of its graph; edge ``row * num_seeds + seed``."""
    graphs = np.repeat(np.arange(len(sizes)), sizes)
    seeds = graphs[:, None] * num_seeds + np.arange(num_seeds)
    indptr = np.arange(len(graphs) + 1) * num_seeds
    return Adjacency.from_csr(len(graphs), len(sizes) * num_seeds, indptr, seeds.ravel())
