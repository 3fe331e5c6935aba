"""Keep the dimensions of stacked matrices separate in a captured graph.

Attention multiplies a matrix for each sample and head. Autograd merges both dimensions into one for ``bmm``, and a part
of the merged one is samples, never heads. Where a graph merges dimensions only to multiply, transpose and compute
element by element, and then separates them again, all of that is done with the dimensions apart.
"""

from __future__ import annotations

import math

import torch
from torch.fx import Graph, Node

from .nodes import VIEWS, Replaced, node_like, operands_of, pass_on

aten = torch.ops.aten
_VIEWS = (*VIEWS, aten.reshape.default)


def keep_stacks(graph: Graph) -> Replaced:
    """Rewrite a graph in place so that products of stacked matrices keep their leading dimensions apart.

    Parameters
    ----------
    graph : torch.fx.Graph
        Its nodes carry tensors, on ``meta`` or fake ones, in ``meta["val"]``.

    Returns
    -------
    dict of Node to Node or None
        For each node that is gone, the one with the same values, perhaps in more dimensions; None where nothing reads
        them, so that they are not computed any more.
    """
    apart: dict[Node, Node] = {}
    replaced: Replaced = {}
    for node in list(graph.nodes):
        shape = _shape(node)
        if node.op != "call_function" or shape is None:
            continue
        if node.target in _VIEWS and node.args[0] in apart:
            source = apart[node.args[0]]
            if _shape(source) == shape:
                node.replace_all_uses_with(source)
                replaced[node] = source
                continue
        if len(shape) == 3:
            with graph.inserting_before(node):
                separate = _separated(graph, node, shape, apart)
            if separate is not None:
                apart[node] = separate
    _remove(graph, apart, replaced)
    return pass_on(graph, replaced)


def _shape(node: Node) -> tuple[int, ...] | None:
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def _separated(graph: Graph, node: Node, shape: tuple[int, ...], apart: dict[Node, Node]) -> Node | None:
    """Return the node's values with the leading dimensions apart, None where they were never merged."""
    if node.target in _VIEWS:
        source = node.all_input_nodes[0]
        whole = source.meta["val"].shape
        merges = len(whole) > 3 and whole[-2:] == shape[1:] and math.prod(whole[:-2]) == shape[0]
        return source if merges else None
    sources = [n for n in node.all_input_nodes if _shape(n) != ()]
    if not sources or any(n not in apart for n in sources):
        return None
    batch = {tuple(apart[n].meta["val"].shape[:-2]) for n in sources}
    if len(batch) > 1:
        return None
    lead = batch.pop()
    whole = (*lead, *shape[1:])
    if _transposes(node):
        dims = [*range(len(lead)), len(lead) + 1, len(lead)]
        return node_like(graph, node, aten.permute.default, (apart[sources[0]], dims), whole)
    if node.target is aten.bmm.default:
        return node_like(graph, node, aten.matmul.default, [apart[n] for n in operands_of(node)], whole)
    pointwise = isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags
    if pointwise and all(_shape(n) == shape for n in sources):
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: apart.get(n, n))
        return node_like(graph, node, node.target, args, whole, kwargs)
    return None


def _transposes(node: Node) -> bool:
    """Whether a node turns the matrices of a stack."""
    return node.target is aten.permute.default and node.args[1] in ([0, 2, 1], [0, -1, -2])


def _remove(graph: Graph, apart: dict[Node, Node], replaced: Replaced) -> None:
    """Remove unused nodes; a merged tensor that is used becomes a view of the separate ones."""
    for node in reversed(list(replaced)):
        graph.erase_node(node)
    for node, separate in reversed(list(apart.items())):
        if node.users and node.target is aten.bmm.default:
            with graph.inserting_after(separate):
                view = graph.call_function(aten.view.default, (separate, list(node.meta["val"].shape)))
            view.meta = dict(node.meta)
            node.replace_all_uses_with(view)
        if not node.users:
            graph.erase_node(node)
            replaced[node] = separate
    unread: dict[Node, None] = {}
    for separate in reversed(list(dict.fromkeys(apart.values()))):
        if not separate.users and separate.op == "call_function":
            graph.erase_node(separate)
            unread[separate] = None
    replaced |= unread
    replaced |= {node: None for node, new in replaced.items() if new in unread}
