"""dglite's operators as plans hold them: a graph is a number of this process.

A program of torch holds the ends of every edge as tensors, which could be cut like other tensors. A part of a graph is
another graph, though, so while a step is recorded each operator is replaced by one that names its graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import torch

from ..errors import DGLError
from ..structure.adjacency import Adjacency
from ..structure.traced import relation_of
from .decompositions import fake_kernel

_LIBRARY = torch.library.Library("dglite_tofu", "DEF")
_GRAPHS: WeakValueDictionary[int, Adjacency] = WeakValueDictionary()


def by_number(func: Any, args: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """Return an operator of dglite and its arguments as plans hold them; others as they are."""
    if getattr(func, "namespace", None) != "dglite" or "num_src" not in [x.name for x in func._schema.arguments]:
        return func, args
    inputs, *structure, recipe = args
    return operator(func._schema.name.removeprefix("dglite::")), (inputs, words_of(relation_of(*structure)), recipe)


def words_of(adj: Adjacency) -> list[int]:
    """Return how plans name a graph: its number, and the counts of sources, destinations and edges."""
    _GRAPHS[adj.number] = adj
    return [adj.number, adj.num_src, adj.num_dst, adj.num_edges]


def adjacency_of(structure: Sequence[int]) -> Adjacency:
    """Return the graph that a plan names.

    Raises ``DGLError``: it is gone, with the module or the graph that it belonged to.
    """
    adj = _GRAPHS.get(structure[0])
    if adj is None:
        raise DGLError("a plan names a graph that no longer exists; keep the graph as long as the plan")
    return adj


@cache
def operator(name: str) -> Any:
    """Return the operator of plans that does what dglite's of the same name does."""

    def compute(inputs: list[torch.Tensor], structure: Sequence[int], recipe: str) -> Any:
        adj = adjacency_of(structure)
        return getattr(torch.ops.dglite, name).default(inputs, *adj.tensors, adj.num_src, adj.num_dst, recipe)

    def describe(inputs: list[torch.Tensor], structure: Sequence[int], recipe: str) -> Any:
        adj, kernel = adjacency_of(structure), fake_kernel(f"dglite::{name}")
        return kernel(inputs, *adj.tensors, adj.num_src, adj.num_dst, recipe)

    _LIBRARY.define(f"{name}(Tensor[] inputs, int[] structure, str recipe) -> (Tensor, Tensor)")
    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"dglite_tofu::{name}", describe, lib=_LIBRARY)
    return getattr(torch.ops.dglite_tofu, name).default
