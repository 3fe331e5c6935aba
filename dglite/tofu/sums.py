"""Matrix products that are summed become one operator, so that they are reduced once.

A tensor that several layers read, as the input of queries, keys and values is, has a gradient that is the sum of
several products. Each is a partial result on every worker where the products' inner index is split. As one operator,
the workers add theirs up first and reduce once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from .nodes import VIEWS, Replaced, node_like, pass_on

aten = torch.ops.aten

MOST = 3
"""Products that are merged, at most: the operands of all of them are kept until the last is known."""


# With a schema, since torch 2.4 reads none from annotations that are text.
@torch.library.custom_op("dglite::sum_mm", mutates_args=(), schema="(Tensor[] a, Tensor[] b) -> Tensor")
def sum_mm(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the sum of the products ``a[i] @ b[i]``."""
    total = a[0] @ b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total.addmm_(x, y)
    return total


@sum_mm.register_fake
def _(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> torch.Tensor:
    return a[0].new_empty(a[0].shape[0], b[0].shape[1])


def merge_products(graph: Graph) -> Replaced:
    """Rewrite a graph in place so that a sum of two or three products of matrices is one operator.

    Returns for each node that is gone the one with the same values, or None.
    """
    replaced: Replaced = {}
    for node in list(graph.nodes):
        if _is_sum(node) and not any(_is_sum(user) and len(node.users) == 1 for user in node.users):
            merged = _merged(graph, node)
            if merged is not None:
                replaced |= merged
    return pass_on(graph, replaced)


def _is_sum(node: Node) -> bool:
    tensors = node.all_input_nodes
    return (
        node.target is aten.add.Tensor
        and len(tensors) == len(node.args) == 2
        and not node.kwargs
        and all(_kind(n) == _kind(node) for n in tensors)
    )


def _kind(node: Node) -> tuple[Any, Any]:
    return node.meta["val"].shape, node.meta["val"].dtype


def _merged(graph: Graph, root: Node) -> Replaced | None:
    terms, inner = _terms(root)
    products = [(term, product) for term in terms if (product := _product(term)) is not None]
    shapes = {_kind(product) for _, product in products}
    if not 2 <= len(products) <= MOST or len(shapes) > 1:
        return None
    first = products[0][1]
    with graph.inserting_before(root):
        left, right = ([product.args[side] for _, product in products] for side in (0, 1))
        shape, whole = first.meta["val"].shape, root.meta["val"].shape
        total = node_like(graph, root, torch.ops.dglite.sum_mm.default, (left, right), shape)
        if products[0][0] is not first:
            total = node_like(graph, root, aten.view.default, (total, list(whole)), whole)
        merged = {term for term, _ in products}
        for other in terms:
            if other not in merged:
                total = node_like(graph, root, aten.add.Tensor, (other, total), whole)
    root.replace_all_uses_with(total)
    replaced: Replaced = {root: total}
    for node in [root, *inner, *(n for pair in products for n in dict.fromkeys(pair))]:
        graph.erase_node(node)
        replaced.setdefault(node, None)
    return replaced


def _terms(root: Node) -> tuple[list[Node], list[Node]]:
    """Return what a sum adds up, and the sums in it, outer ones first."""
    terms: list[Node] = []
    inner: list[Node] = []
    stack = list(root.all_input_nodes[::-1])
    while stack:
        node = stack.pop()
        if _is_sum(node) and len(node.users) == 1:
            inner.append(node)
            stack += node.all_input_nodes[::-1]
        else:
            terms.append(node)
    return terms, inner


def _product(term: Node) -> Node | None:
    """Return the product of matrices that a term is, or is a view of, if nothing else reads it."""
    source: Any = term.args[0] if term.target in VIEWS else term
    read_once = len(term.users) == len(source.users) == 1
    return source if read_once and source.target is aten.mm.default else None
