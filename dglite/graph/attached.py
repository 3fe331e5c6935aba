"""Methods of ``DGLGraph`` that are functions of higher layers, declared here for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .base import GraphBase

_Function = Callable[..., Any]


class AttachedMixin(GraphBase):
    """``g.name(...)`` calls the function ``dglite.name(g, ...)``, which documents it."""

    to_networkx: ClassVar[_Function]
    subgraph: ClassVar[_Function]
    edge_subgraph: ClassVar[_Function]
    in_subgraph: ClassVar[_Function]
    out_subgraph: ClassVar[_Function]
    khop_in_subgraph: ClassVar[_Function]
    khop_out_subgraph: ClassVar[_Function]
    node_type_subgraph: ClassVar[_Function]
    edge_type_subgraph: ClassVar[_Function]
    adj: ClassVar[_Function]
    sample_neighbors: ClassVar[_Function]
    sample_neighbors_fused: ClassVar[_Function]
    sample_neighbors_biased: ClassVar[_Function]
    sample_etype_neighbors: ClassVar[_Function]
    sample_labors: ClassVar[_Function]
    select_topk: ClassVar[_Function]
    global_uniform_negative_sampling: ClassVar[_Function]
    reorder_graph: ClassVar[_Function]
    line_graph: ClassVar[_Function]
    add_self_loop: ClassVar[_Function]
    remove_self_loop: ClassVar[_Function]
    to_simple: ClassVar[_Function]
    shared_memory: ClassVar[_Function]


def attach(owner: type[GraphBase] = AttachedMixin, /, **functions: _Function) -> None:
    """Make functions whose first argument is a graph its methods; ``owner`` is the class that declares them.

    A graph imports nothing from the layers above, so they hand their functions down when they are imported.
    """
    for name, function in functions.items():
        assert name in owner.__annotations__, f"declare {name} in {owner.__name__}"
        setattr(owner, name, function)
