"""``apply_nodes``, ``apply_edges`` and ``group_apply_edges``, and how all methods find relations from ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import Tensor
from ..backend import active as backend
from ..errors import DGLError
from ..expr import Side
from ..function import MessageFunction
from ..scheduler import Relation, UserFunction, compiled, execute, lower_edges, lower_group, messages_of, node_batch
from ..structure.ids import ALL, is_all
from ..udf import EdgeBatch, NodeBatch, call_with_batch, checked, function_name
from .base import GraphBase
from .registry import RegistryMixin, function_or_registered


class ApplyMixin(RegistryMixin):
    """The methods of ``DGLGraph`` that use no messages; see :class:`~dglite.graph.messages.MessageMixin`."""

    def apply_nodes(
        self,
        func: Callable[[NodeBatch], Any] | None = None,
        v: Any = ALL,
        ntype: str | None = None,
        inplace: bool = False,
    ) -> None:
        """Write the columns that ``func`` computes from nodes ``v``.

        Raises DGLError: a node or type does not exist, no function is given or registered, or ``func`` returns
        something else.

        Parameters
        ----------
        func
            A function of a ``NodeBatch`` that returns a dict of columns (num_nodes_in_v, *feat), of any dtype.
        v
            Node ids, a boolean mask (num_nodes,), or all nodes by default. Rows of other nodes keep what they hold, the
            initializer's value in a new column.
        ntype
            The node type; only needed where there are several.
        inplace
            Classic; changes nothing.

        Examples
        --------
        >>> import torch, dglite
        >>> g = dglite.graph(([0, 1], [1, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 2., 4.])
        >>> g.apply_nodes(lambda nodes: {'h': nodes.data['h'] * 10}, v=[0, 2])
        >>> g.ndata['h']
        tensor([10.,  2., 40.])
        """
        func = function_or_registered(self, func, "apply node", self.type_graph.node_set(ntype))
        rows, batch = _nodes(self, func, v, ntype)
        table = checked(call_with_batch(func, batch, "nodes"), (len(batch),), "nodes", self._device, func)
        frame = self.node_frame(ntype)
        if rows is not None:
            frame.set_rows(rows, table)
        else:
            frame.change({**batch.data.changes, **table})

    def apply_edges(self, func: Any = None, edges: Any = ALL, etype: Any = None, inplace: bool = False) -> None:
        """Write columns computed on ``edges`` by ``func``: a built-in message, or a function of an ``EdgeBatch``.

        Raises DGLError: an edge or type does not exist, no function is given or registered, shapes or dtypes do not
        fit, or a user's function returns something else; KeyError: a column that a built-in reads does not exist.

        Parameters
        ----------
        func
            A built-in (``fn.u_dot_v('h', 'h', 'score')``), a list of them, or a function that returns a dict of columns
            (num_edges_in_batch, *feat).
        edges
            Edge ids, a pair of node ids (u, v), a boolean mask (num_edges,), or all edges by default. Rows of other
            edges keep what they hold, the initializer's value in a new column.
        etype
            The edge type. Without it, on a graph of several, a built-in runs on every type that has the columns.
        inplace
            Classic; changes nothing.

        Examples
        --------
        >>> import torch, dglite, dglite.function as fn
        >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 2., 4.])
        >>> g.apply_edges(fn.v_sub_u('h', 'h', 'rise'))
        >>> g.edata['rise']
        tensor([1., 2., 0.])
        """
        if etype is None and len(self.adjacencies) > 1 and isinstance(func, MessageFunction) and is_all(edges):
            for index in etypes_with_columns(self, func):
                self.apply_edges(func, etype=index)
            return
        index = self.etype_id(etype)
        func = function_or_registered(self, func, "apply edge", index)
        relation = relation_of(self, index)
        if not is_all(edges):
            relation = relation.among(self.edge_ids_of(edges, index))
        execute(compiled(lower_edges, messages_of(func, 0, relation, reduced=False)), (relation,), (func,))

    @explained
    def group_apply_edges(
        self,
        group_by: str,
        func: Callable[[EdgeBatch], Any],
        edges: Any = ALL,
        etype: Any = None,
        inplace: bool = False,
    ) -> None:
        """Write the columns that ``func`` computes on edges grouped by their ``"src"`` or ``"dst"`` node.

        ``func`` is called once for all nodes of one degree: ``edges.src['h']``, ``edges.data['w']`` and what it returns
        have shape (num_nodes, degree, *feat), the edges of a node in the order of their ids. Nodes of degree 0 are in
        no batch, and without any edge ``func`` is not called.

        Raises DGLError: ``group_by`` is something else, an edge or type does not exist, or ``func`` returns something
        else.

        Parameters
        ----------
        group_by
            ``"src"`` or ``"dst"``: the end that edges of one group share.
        func
            A function of an ``EdgeBatch`` that returns a dict of columns (num_nodes, degree, *feat), of any dtype.
        edges
            Edge ids, a pair of node ids (u, v), a boolean mask (num_edges,), or all edges by default. Only they are
            grouped and written.
        etype
            The edge type; only needed where there are several.
        inplace
            Classic; changes nothing.

        Examples
        --------
        >>> import torch, dglite
        >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
        >>> g.edata['w'] = torch.tensor([5., 1., 3.])
        >>> g.group_apply_edges('dst', lambda edges: {'share': edges.data['w'] / edges.data['w'].sum(1, keepdim=True)})
        >>> g.edata['share']
        tensor([1.0000, 0.2500, 0.7500])
        """
        if group_by not in ("src", "dst"):
            raise DGLError(f"group_by={group_by!r} is not understood; expected 'src' or 'dst'")
        relation = active_relation(self, self.etype_id(etype), edges)
        if relation is not None:
            side = Side.U if group_by == "src" else Side.V
            execute(compiled(lower_group, UserFunction(0), side), (relation,), (func,))

    @explained
    def filter_nodes(
        self, predicate: Callable[[NodeBatch], Tensor], nodes: Any = ALL, ntype: str | None = None
    ) -> Tensor:
        """Return the ids of those ``nodes`` for which ``predicate``, booleans or numbers (num_nodes,), is not 0."""
        _, batch = _nodes(self, predicate, nodes, ntype)
        return _where(predicate, batch, batch.nodes())

    @explained
    def filter_edges(self, predicate: Callable[[EdgeBatch], Tensor], edges: Any = ALL, etype: Any = None) -> Tensor:
        """Return the ids of those ``edges`` for which ``predicate``, booleans or numbers (num_edges,), is not 0."""
        relation = relation_of(self, self.etype_id(etype))
        if not is_all(edges):
            relation = relation.among(self.edge_ids_of(edges, etype))
        batch = relation.edge_batch(predicate)
        return _where(predicate, batch, batch.edges()[2])


def relation_of(graph: GraphBase, index: int) -> Relation:
    """Return all edges of edge type ``index`` with the frames around them."""
    metagraph = graph.type_graph
    src, dst = metagraph.ends[index]
    nodes = graph.node_frame_at(dst)
    return Relation(
        graph.adjacencies[index],
        nodes if src == dst else graph.node_frame_at(src),
        graph.edge_frame_at(index),
        nodes,
        nodes,
        metagraph.canonical_etypes[index],
        graph._device,
        graph,
    )


def active_relation(graph: GraphBase, index: int, edges: Any) -> Relation | None:
    """Return the relation of ``edges`` alone; None where an empty selection leaves nothing to do."""
    relation = relation_of(graph, index)
    if is_all(edges):
        return relation
    edge_ids = graph.edge_ids_of(edges, index)
    return relation.only(edge_ids) if len(edge_ids) else None


def etypes_with_columns(graph: GraphBase, message: MessageFunction) -> list[int]:
    """Return the edge types that have the columns which a built-in message reads; there is at least one."""
    etypes = graph.type_graph.canonical_etypes
    able = [
        index
        for index in range(len(etypes))
        if all(relation_of(graph, index).has_column(side, str(name)) for side, name in message.fields)
    ]
    if not able:
        raise KeyError(f"no edge type has the columns that {message} reads; edge types: {etypes}")
    return able


def _nodes(graph: GraphBase, function: Any, nodes: Any, ntype: str | None) -> tuple[np.ndarray | None, NodeBatch]:
    """Return the rows of the selected nodes (None for all) and the batch of them for ``function``."""
    frame = graph.node_frame(ntype)
    rows = None if is_all(nodes) else graph.node_ids(nodes, ntype)
    size = frame.num_rows if rows is None else len(rows)
    name = graph.type_graph.ntypes[graph.type_graph.node_set(ntype)]

    def ids_tensor(ids: np.ndarray) -> Tensor:
        return graph.ids_tensor(np.array(ids))

    return rows, node_batch(function, frame, rows, size, name, ids_tensor, {}, lambda: graph)


def _where(predicate: Callable[[Any], Tensor], batch: NodeBatch | EdgeBatch, ids: Tensor) -> Tensor:
    """Return the ids for which the predicate is true."""
    if not callable(predicate):
        raise DGLError(
            f"the predicate must be a function of a batch that returns booleans, such as lambda nodes: "
            f"nodes.data['h'] > 0, got {predicate!r:.60}"
        )
    mask = predicate(batch)
    values = backend.to_numpy(mask) if backend.is_tensor(mask) else np.asarray(mask)
    if values.shape != (len(batch),) or values.dtype.kind not in "biuf":
        raise DGLError(
            f"predicate {function_name(predicate)} returned {values.dtype} of shape {values.shape}; "
            f"expected booleans or numbers of shape ({len(batch)},)"
        )
    return backend.take(ids, np.flatnonzero(values))
