"""Methods of ``DGLGraph`` that are functions of higher layers, declared here for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from .base import GraphBase

if TYPE_CHECKING:
    from ..sparse import SparseMatrix
    from .storage import DGLGraph

_Function = Callable[..., Any]
_ReturnsGraph = Callable[..., "DGLGraph"]


class AttachedMixin(GraphBase):
    """``g.name(...)`` calls the function ``dglite.name(g, ...)``, which documents it."""

    to_networkx: ClassVar[_Function]
    subgraph: ClassVar[_ReturnsGraph]
    edge_subgraph: ClassVar[_ReturnsGraph]
    in_subgraph: ClassVar[_ReturnsGraph]
    out_subgraph: ClassVar[_ReturnsGraph]
    khop_in_subgraph: ClassVar[_Function]
    khop_out_subgraph: ClassVar[_Function]
    node_type_subgraph: ClassVar[_ReturnsGraph]
    edge_type_subgraph: ClassVar[_ReturnsGraph]
    adj: ClassVar[Callable[..., SparseMatrix]]
    sample_neighbors: ClassVar[_ReturnsGraph]
    sample_neighbors_fused: ClassVar[_ReturnsGraph]
    sample_neighbors_biased: ClassVar[_ReturnsGraph]
    sample_etype_neighbors: ClassVar[_ReturnsGraph]
    sample_labors: ClassVar[_ReturnsGraph]
    select_topk: ClassVar[_ReturnsGraph]
    global_uniform_negative_sampling: ClassVar[_Function]
    reorder_graph: ClassVar[_ReturnsGraph]
    line_graph: ClassVar[_ReturnsGraph]
    add_self_loop: ClassVar[_ReturnsGraph]
    remove_self_loop: ClassVar[_ReturnsGraph]
    to_simple: ClassVar[_ReturnsGraph]
    shared_memory: ClassVar[_ReturnsGraph]


def attach(owner: type[GraphBase] = AttachedMixin, /, **functions: _Function) -> None:
    """Make functions whose first argument is a graph its methods; ``owner`` is the class that declares them.

    A graph imports nothing from the layers above, so they hand their functions down when they are imported.
    """
    for name, function in functions.items():
        assert name in owner.__annotations__, f"declare {name} in {owner.__name__}"
        setattr(owner, name, function)
