"""Runs the kernels of g-SpMM and g-SDDMM on checked operands: no gradient is recorded here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..expr import Expr
from ..kernels.words import EDGE_IDS, NUM_ENTRIES
from ..structure.adjacency import Adjacency
from ..structure.derived import CacheKey, cache_key
from . import ordered
from .call_cache import Scaling, cache_kernel, run_cached
from .devices import HOST, device_of
from .operands import broadcast

_WITH_ARGMAX = "with argmax"
_LONGEST_ROW: CacheKey[int] = cache_key("longest row", "the largest in-degree")


def run_spmm(
    bind: str,
    adj: Adjacency,
    reduction: tuple[Any, ...],
    edges: bool,
    lead: tuple[int, ...],
    operands: Sequence[Tensor],
    argmax: Tensor | None,
) -> Tensor:
    """Run the kernel that the module of kernels has by the name ``bind`` for ``reduction``, on checked operands.

    ``edges`` tells whether it reads edges; the result is (*lead, num_dst, *feat).
    """
    argmax_address = 0 if argmax is None else active.address(argmax)
    operation = reduction if argmax is None else (*reduction, _WITH_ARGMAX)
    result = run_cached(adj, operation, operands, argmax_address)
    if result is not None:
        return result
    dense, shapes, addresses = _dense(operands)
    device = device_of(dense[0])
    structure, index = device.structure(adj, edges)
    dtype = active.dtype(dense[0])
    kernel = getattr(device.kernels("graph.sparse"), bind)(*reduction, dtype, index, shapes, argmax is not None)
    shape = (*lead, adj.num_dst, *kernel.layout.shape)
    out, scaling = active.new_empty(dense[0], shape), None
    if kernel.panels is not None and kernel.panels.multiplies_before(adj.num_src, adj.num_edges):
        kernel, slot, factor = kernel.of_scaled_sources
        scaling = Scaling(slot, factor, (adj.num_src, kernel.width))
        dense.append(scaling(dense, addresses))
    comes_again = kernel.weights >= 0 and structure[NUM_ENTRIES] >= ordered.LEAST
    if comes_again:
        weights = ordered.in_order(adj, structure, index, dense[kernel.weights], device)
        if weights is not None:
            structure = structure[:]
            structure[EDGE_IDS], addresses[kernel.weights] = 0, active.address(weights)
    kernel, room = _in_panels_or_ahead(kernel, adj, structure, device)
    if room:
        scratch = active.empty((room,), "uint8", active.device(out))
        memory = device.queue, argmax_address, active.address(scratch)
        kernel.in_panels(structure, adj.num_src, addresses, active.address(out), *memory)
    elif not comes_again and math.prod(shape):
        longest = _longest_row(adj) if device is HOST else 0
        run = kernel.bound_to(structure, lambda: device.queue, longest)
        run(addresses, active.address(out), argmax_address)
        cache_kernel(adj, operation, operands, run, shape, scaling)
    else:
        cuts = (kernel.cuts_rows(_longest_row(adj)),) if device is HOST else ()
        kernel(structure, addresses, active.address(out), device.queue, argmax_address, *cuts)
    return out


def _in_panels_or_ahead(kernel: Any, adj: Adjacency, structure: Sequence[int], device: Any) -> tuple[Any, int]:
    """Return the kernel, which prefetches sources that lie in no cache, and the bytes that panels need, or 0."""
    panels = kernel.panels
    if panels is None:
        return kernel, 0
    if adj.num_src > panels.most_sources:
        return kernel, panels.scratch(adj.num_src, structure, device.queue)
    if panels.of_edges and structure[EDGE_IDS]:
        return kernel, 0
    return kernel.prefetching(panels.prefetch(adj.num_src, panels.width)), 0


def run_sddmm(adj: Adjacency, expr: Expr, operands: Sequence[Tensor], dot: bool) -> Tensor:
    """Run the kernel of ``expr`` for every edge; with ``dot`` the last feature axis is summed."""
    result = run_cached(adj, (expr, dot), operands)
    if result is not None:
        return result
    dense, shapes, addresses = _dense(operands)
    first = dense[0]
    wide = broadcast(shapes) if dot else (1,)
    if wide[-1] == 0:
        return active.full((adj.num_edges, *wide[:-1], 1), 0.0, active.dtype(first), active.device(first))
    device = device_of(first)
    structure, index, stays = device.edges(adj, expr, shapes)
    kernel = device.kernels("graph.sparse").bind_sddmm(expr, active.dtype(first), index, shapes, dot)
    shape = kernel.layout.shape
    shape = (adj.num_edges, *shape[:-1], 1) if dot else (adj.num_edges, *shape)
    out = active.new_empty(first, shape)
    if math.prod(shape):
        run = kernel.bound_to(structure, lambda: device.queue)
        run(addresses, active.address(out))
        if stays:
            cache_kernel(adj, (expr, dot), operands, run, shape)
    return out


FORWARD, BACKWARD = ("edge softmax",), ("edge softmax, gradient",)
"""The operations of :func:`run_softmax`."""


def run_softmax(adj: Adjacency, operation: tuple[str], operands: Sequence[Tensor]) -> Tensor:
    """Return the edge softmax of logits, or the gradient before it of the softmax and the gradient behind it.

    All are (num_edges, *feat).
    """
    result = run_cached(adj, operation, operands)
    if result is not None:
        return result
    dense, _, addresses = _dense(operands)
    device, shape, dtype = device_of(dense[0]), active.shape(dense[0]), active.dtype(dense[0])
    structure, index = device.structure(adj)
    out, heads = active.new_empty(dense[0], shape), math.prod(shape[1:])
    if heads and shape[0]:
        bind = device.kernels("graph.softmax").bind_softmax
        run = bind(structure, index, dtype, heads, operation is BACKWARD, lambda: device.queue)
        run(addresses, active.address(out))
        cache_kernel(adj, operation, operands, run, shape)
    return out


def _longest_row(adj: Adjacency) -> int:
    """Return the largest number of in-edges of a node."""
    longest = adj.cache.get(_LONGEST_ROW)
    if longest is None:
        longest = adj.cache.setdefault(_LONGEST_ROW, int(np.diff(adj.csc().indptr).max(initial=0)))
    return longest


def _dense(operands: Sequence[Tensor]) -> tuple[list[Tensor], tuple[tuple[int, ...], ...], list[int]]:
    """Return the operands row after row, the shapes of their rows, and where they lie as long as they live."""
    dense, addresses = active.dense(operands)
    return dense, tuple([x.shape[1:] for x in dense]), addresses
