"""Message passing frontier by frontier: ``prop_nodes``, ``prop_edges`` and their orders.

A function that is ``"default"`` or None is the one that the graph has registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .arguments import explained
from .errors import DGLError
from .graph import DGLGraph
from .graph.storage import require_graph
from .scheduler import Explanation
from .scheduler import explain as explain_call
from .tables import html_card
from .traversal import bfs_nodes_generator, dfs_labeled_edges_generator, topological_nodes_generator
from .udf import function_name

__all__ = ["explain", "prop_edges", "prop_edges_dfs", "prop_nodes", "prop_nodes_bfs", "prop_nodes_topo"]

engines: list[Callable[[DGLGraph, Any, Any, Any], str | None]] = []
"""What may do a topological propagation as a whole. Each is given graph, message, reduce and apply function and returns
None where it has done it, else why not; ``dglite`` adds vertex programs where the backend is torch."""

explainers: list[Callable[..., Any]] = []
"""What explains anything else than a call of a graph: takes the arguments of :func:`explain`, and returns None for what
it does not know. ``dglite`` adds vertex programs and lazy tensors where the backend is torch."""


@dataclass(frozen=True)
class Propagation:
    """What :func:`explain` found about a propagation; ``str()`` of it is a text.

    ``is_program`` tells whether it runs as one vertex program, whose stages ``program`` explains; if not, ``reason``
    says why, and ``frontier`` explains what each of the ``num_frontiers`` runs.
    """

    title: str
    num_frontiers: int
    reason: str | None
    frontier: Explanation | None
    program: Any = None

    @property
    def is_program(self) -> bool:
        """Whether all frontiers are one vertex program."""
        return self.reason is None

    def __str__(self) -> str:
        if self.is_program:
            return f"{self.title}\n  runs as one vertex program\n\n{self.program}"
        text = f"{self.title}\n  runs frontier by frontier, as no vertex program: {self.reason}"
        return text if self.frontier is None else f"{text}\n\neach of {self.num_frontiers} frontiers\n{self.frontier}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        summary = "runs as one vertex program"
        if not self.is_program:
            summary = f"runs frontier by frontier, {self.num_frontiers} of them, as no vertex program: {self.reason}"
        details = self.frontier if self.program is None else self.program
        return html_card(self.title, [summary], "" if details is None else details._repr_html_())


@explained
def explain(g: Any, *args: Any, **options: Any) -> Any:
    """Explain what a call runs, before it runs: plans, kernels, bytes, and why something is not a kernel.

    - ``explain(g, message, reduce=None, apply=None, etype=None)``: a call of ``g.update_all``, or of ``g.apply_edges``
      without ``reduce``.
    - ``explain(g, message, reduce, apply, order="topo")``: a call of ``prop_nodes_topo``: whether it runs as one vertex
      program (see ``docs/dynamic.md``), which stages that has, or why it is message passing.
    - ``explain(program, graph, *inputs, kinds=None)``: a call of a vertex function or of ``dynamic.ByKind``: stages of
      each class of vertices, and what each level of the forward sweep moves and multiplies. With gradients enabled the
      backward direction, too.
    - ``explain(losses, strategy="agenda")``: the batches in which lazy tensors would be computed.

    Nothing is written. No kernel is run, except that a propagation is tried on a copy of the graph. Users' functions
    that may be recorded are called, on columns without values where that is enough to see what they do. A degree count
    and the CSC are made if the graph has none yet.

    Raises DGLError, KeyError: what the call itself would raise for its arguments and the columns that built-ins read;
    an unknown order; a propagation over a graph with a cycle.

    Parameters
    ----------
    g
        The graph, with the columns that the functions read; or a vertex function, or lazy tensors.
    args, options
        What the call takes: functions and edge type, or graph and inputs. ``order`` is ``"topo"`` for a topological
        propagation, None for all edges at once.

    Returns
    -------
    What prints as a table; a :class:`Propagation` where there is an order.
    """
    if not isinstance(g, DGLGraph):
        for explainer in explainers:
            explanation = explainer(g, *args, **options)
            if explanation is not None:
                return explanation
        require_graph(g)
    return _explain_call(g, *args, **options)


def _explain_call(
    g: DGLGraph, message: Any = None, reduce: Any = None, apply: Any = None, etype: Any = None, order: str | None = None
) -> Explanation | Propagation:
    if order is None:
        return explain_call(g, message, reduce, apply, etype)
    if order != "topo" or etype is not None:
        raise DGLError(
            f"explain got order={order!r}, etype={etype!r}; expected order='topo' or None, and no etype with it"
        )
    num_frontiers = len(list(topological_nodes_generator(g)))
    names = [function_name(f) if callable(f) else str(f) for f in (message, reduce, apply) if f is not None]
    title = (
        f"prop_nodes_topo({', '.join(names)}): {g.num_nodes()} nodes, {g.num_edges()} edges, {num_frontiers} frontiers"
    )
    reasons = [engine(g.local_var(), message, reduce, apply) for engine in engines]
    if None in reasons:
        program = next((explainer(g, message, reduce, apply) for explainer in explainers), None)
        return Propagation(title, num_frontiers, None, None, program)
    reason = "; ".join(filter(None, reasons)) or "it takes PyTorch's tensors"
    return Propagation(title, num_frontiers, reason, explain_call(g, message, reduce, apply))


@explained
def prop_nodes(
    graph: DGLGraph,
    nodes_generator: Iterable[Any],
    message_func: Any = "default",
    reduce_func: Any = "default",
    apply_node_func: Any = "default",
) -> None:
    """Let each frontier of nodes in turn ``pull``. ``"default"`` means the registered function.

    Raises DGLError, KeyError as ``pull``; what earlier frontiers have written stays.

    Parameters
    ----------
    graph
        A graph of one edge type. Its columns are written.
    nodes_generator
        Frontiers: each node ids or a boolean mask (num_nodes,). An empty one writes nothing.
    message_func, reduce_func, apply_node_func
        As :meth:`dglite.DGLGraph.pull` takes them; nodes without in-edges are reduced to 0 there.

    Examples
    --------
    >>> import torch, dglite, dglite.function as fn
    >>> g = dglite.graph(([0, 1], [1, 2]))
    >>> g.ndata['h'] = torch.tensor([1., 0., 0.])
    >>> dglite.prop_nodes(g, [[1], [2]], fn.copy_u('h', 'm'), fn.sum('m', 'h'), None)
    >>> g.ndata['h']
    tensor([1., 1., 1.])
    """
    require_graph(graph)
    graph.prop_nodes(nodes_generator, *map(_unless_default, (message_func, reduce_func, apply_node_func)))


@explained
def prop_edges(
    graph: DGLGraph,
    edges_generator: Iterable[Any],
    message_func: Any = "default",
    reduce_func: Any = "default",
    apply_node_func: Any = "default",
) -> None:
    """``send_and_recv`` along each frontier of edges in turn. ``"default"`` means the registered function.

    Raises DGLError, KeyError as ``send_and_recv``; what earlier frontiers have written stays.

    Parameters
    ----------
    graph
        A graph of one edge type. Its columns are written.
    edges_generator
        Frontiers: each edge ids, a pair of node ids (u, v), or a boolean mask (num_edges,). An empty one writes
        nothing.
    message_func, reduce_func, apply_node_func
        As :meth:`dglite.DGLGraph.send_and_recv` takes them; nodes that a frontier does not reach keep what they hold.

    Examples
    --------
    >>> import torch, dglite, dglite.function as fn
    >>> g = dglite.graph(([0, 1], [1, 2]))
    >>> g.ndata['h'] = torch.tensor([1., 0., 0.])
    >>> dglite.prop_edges(g, [[1], [0]], fn.copy_u('h', 'm'), fn.sum('m', 'h'), None)
    >>> g.ndata['h']
    tensor([1., 1., 0.])
    """
    require_graph(graph)
    graph.prop_edges(edges_generator, *map(_unless_default, (message_func, reduce_func, apply_node_func)))


@explained
def prop_nodes_bfs(
    graph: DGLGraph,
    source: Any,
    message_func: Any = "default",
    reduce_func: Any = "default",
    reverse: bool = False,
    apply_node_func: Any = None,
) -> None:
    """Let nodes ``pull`` in the order of :func:`dglite.bfs_nodes_generator`, the sources first.

    With ``reverse`` frontiers follow in-edges; messages go along edges all the same.
    """
    prop_nodes(graph, bfs_nodes_generator(graph, source, _checked(reverse)), message_func, reduce_func, apply_node_func)


@explained
def prop_nodes_topo(
    graph: DGLGraph,
    message_func: Any = "default",
    reduce_func: Any = "default",
    reverse: bool = False,
    apply_node_func: Any = None,
) -> None:
    """Let nodes ``pull`` in the order of :func:`dglite.topological_nodes_generator`.

    With ``reverse`` frontiers follow in-edges; messages go along edges all the same. Functions that can be a vertex
    program (see ``docs/dynamic.md``) run as one, to the same effect.
    """
    if not _checked(reverse) and any(
        engine(graph, message_func, reduce_func, apply_node_func) is None for engine in engines
    ):
        return
    prop_nodes(graph, topological_nodes_generator(graph, _checked(reverse)), message_func, reduce_func, apply_node_func)


@explained
def prop_edges_dfs(
    graph: DGLGraph,
    source: Any,
    message_func: Any = "default",
    reduce_func: Any = "default",
    reverse: bool = False,
    has_reverse_edge: bool = False,
    has_nontree_edge: bool = False,
    apply_node_func: Any = None,
) -> None:
    """``send_and_recv`` along edges in the order of :func:`dglite.dfs_labeled_edges_generator`."""
    reverse = _checked(reverse)
    frontiers = dfs_labeled_edges_generator(graph, source, reverse, has_reverse_edge, has_nontree_edge, False)
    prop_edges(graph, frontiers, message_func, reduce_func, apply_node_func)


def _checked(reverse: Any) -> bool:
    """Return ``reverse``; a function in its place would be taken for True."""
    if callable(reverse):
        raise DGLError(f"reverse={reverse!r} is a function; expected True or False. Pass it as apply_node_func=")
    return bool(reverse)


def _unless_default(function_or_default: Any) -> Any:
    return None if isinstance(function_or_default, str) and function_or_default == "default" else function_or_default
