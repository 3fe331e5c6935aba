"""Message passing on a graph: a verb resolves names and ids, then hands relations and functions to the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..backend import Tensor
from ..backend import active as backend
from ..errors import DGLError
from ..expr import Side
from ..function import MessageFunction, ReduceFunction
from ..opspec import Reducer
from ..scheduler import (
    Inbox,
    MessageSignature,
    Part,
    Plan,
    Refused,
    Relation,
    Sent,
    UserFunction,
    compiled,
    cross_signature,
    execute,
    lower_edges,
    lower_group,
    lower_message,
    lower_multi,
    lower_nodes,
    message_signature,
    messages_of,
    node_batch,
    reduce_signature,
    reducer_of,
    run,
    update_plan,
)
from ..structure.ids import ALL, is_all
from ..udf import EdgeBatch, NodeBatch, checked, function_name
from .base import GraphBase
from .registry import RegistryMixin, chosen, reducers, state

__all__ = ["MessageMixin"]

_APPLY = UserFunction(2)
"""Functions of a verb over one relation are (message, reduce, apply)."""


class MessageMixin(RegistryMixin):
    """The message passing verbs of ``DGLGraph``.

    A message function is a built-in (``fn.copy_u('h', 'm')``), a list of built-ins, or a function of an ``EdgeBatch``;
    a reduce function is a built-in, a list of built-ins, or a function of a ``NodeBatch``; an apply function takes a
    ``NodeBatch``, which shows the reduced columns over the graph's own. User functions return a dict of columns, which
    are written; with an apply function, what it returns is written, and it alone. A function left out is the
    registered one. Where a verb raises, features and waiting messages are as before. ``inplace`` is classic and changes
    nothing: features are written out of place.
    """

    # -- on nodes and edges alone -------------------------------------------------------------------------------
    def apply_nodes(
        self,
        func: Callable[[NodeBatch], Any] | None = None,
        v: Any = ALL,
        ntype: str | None = None,
        inplace: bool = False,
    ) -> None:
        """Write the columns that ``func`` computes from nodes ``v``."""
        func = chosen(self, func, "apply node", self._metagraph.node_set(ntype))
        rows, batch = _nodes(self, func, v, ntype)
        if rows is not None and not len(rows):
            return
        table = checked(func(batch), (len(batch),), "nodes", self._device, func)
        frame = self.node_frame(ntype)
        if rows is not None:
            frame.set_rows(rows, table)
        else:
            frame.update(table)

    def apply_edges(self, func: Any = None, edges: Any = ALL, etype: Any = None, inplace: bool = False) -> None:
        """Write columns computed on ``edges`` by ``func``: a built-in message, or a function of an ``EdgeBatch``.

        Without ``etype`` on a graph of several edge types, a built-in runs on every type that has the columns.
        """
        if etype is None and len(self.adjacencies) > 1 and isinstance(func, MessageFunction) and is_all(edges):
            for index in _able(self, func):
                self.apply_edges(func, etype=index)
            return
        index = self.etype_id(etype)
        func = chosen(self, func, "apply edge", index)
        relation = _active(self, index, edges)
        if relation is not None:
            execute(compiled(lower_edges, messages_of(func, 0, relation)), (relation,), (func,))

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
        have shape (num_nodes, degree, *feat), the edges of a node in the order of their ids.
        """
        if group_by not in ("src", "dst"):
            raise DGLError(f"group_by={group_by!r} is not understood; expected 'src' or 'dst'")
        relation = _active(self, self.etype_id(etype), edges)
        if relation is not None:
            side = Side.U if group_by == "src" else Side.V
            execute(compiled(lower_group, UserFunction(0), side), (relation,), (func,))

    def filter_nodes(
        self, predicate: Callable[[NodeBatch], Tensor], nodes: Any = ALL, ntype: str | None = None
    ) -> Tensor:
        """Return the ids of those ``nodes`` for which ``predicate``, booleans or numbers (num_nodes,), is not 0."""
        _, batch = _nodes(self, predicate, nodes, ntype)
        return _where(predicate, batch, batch.nodes())

    def filter_edges(self, predicate: Callable[[EdgeBatch], Tensor], edges: Any = ALL, etype: Any = None) -> Tensor:
        """Return the ids of those ``edges`` for which ``predicate``, booleans or numbers (num_edges,), is not 0."""
        relation = _relation(self, self.etype_id(etype))
        if not is_all(edges):
            relation = relation.only(self.edge_ids_of(edges, etype))
        batch = relation.edge_batch(predicate)
        return _where(predicate, batch, batch.edges()[2])

    # -- send and receive ---------------------------------------------------------------------------------------
    def send(self, edges: Any = ALL, message_func: Any = None, etype: Any = None) -> None:
        """Leave a message on each of ``edges``, in place of one that waits there.

        A built-in message is lazy: it keeps the columns that it reads and is computed when, and only if, it must be. A
        user's function is called now; where it can be recorded over all edges, what it does is lazy, too.
        """
        index = self.etype_id(etype)
        message_func = chosen(self, message_func, "message", index)
        signature: MessageSignature = message_signature(message_func, 0)
        edge_ids = None if is_all(edges) else self.edge_ids_of(edges, etype)
        if edge_ids is not None and not len(edge_ids):
            return
        relation = _relation(self, index)
        if edge_ids is None:
            signature = messages_of(message_func, 0, relation)
        if isinstance(signature, UserFunction):
            active = relation if edge_ids is None else relation.only(edge_ids)
            table = execute(compiled(lower_message, signature), (active,), (message_func,))
            sent = Sent.computed(table, edge_ids)
        elif relation.captured and signature is not None:
            table = {k: x for one in signature for k, x in execute(compiled(lower_message, one), (relation,)).items()}
            sent = Sent.computed(table, edge_ids)
        else:
            assert signature is not None
            sent = Sent.described(signature, relation, edge_ids, copies=signature[0] is not message_func)
        inboxes = state(self, "_inboxes")
        if index not in inboxes or inboxes[index].adjacency is not relation.adjacency:
            inboxes[index] = Inbox(relation.adjacency)
        inboxes[index].leave(sent)

    def recv(self, v: Any = ALL, reduce_func: Any = None, apply_node_func: Any = None, etype: Any = None) -> None:
        """Reduce the messages that wait on the in-edges of ``v``, which are consumed, then apply to all of ``v``.

        A node for which no message waits gets 0 from a built-in reducer, the initializer's value from a user's. Where
        no message waits for any of ``v``, nothing is reduced and only ``apply_node_func`` runs.
        """
        index = self.etype_id(etype)
        reduce_func, apply_node_func = reducers(self, index, reduce_func, apply_node_func)
        reduce_signature(reduce_func, 1)
        relation = _relation(self, index)
        nodes = None if is_all(v) else _receivers(self, v, index)
        inbox = state(self, "_inboxes").get(index) or Inbox(relation.adjacency)
        active, message = inbox.incoming(relation, nodes)
        apply = None if apply_node_func is None else _APPLY
        functions = (None, reduce_func, apply_node_func)
        if active.adjacency.num_edges:
            run(
                lambda refused: update_plan(
                    message, reducer_of(reduce_func, 1, active, message, refused), apply is not None
                ),
                (active,),
                functions,
            )
        elif apply is not None and active.adjacency.num_dst:
            execute(compiled(lower_nodes, apply), (active,), functions)
        else:
            return
        inbox.consume(active)

    def send_and_recv(
        self,
        edges: Any,
        message_func: Any = None,
        reduce_func: Any = None,
        apply_node_func: Any = None,
        etype: Any = None,
        inplace: bool = False,
    ) -> None:
        """Send along ``edges`` and reduce at once the nodes that they reach; messages that wait are left alone."""
        index = self.etype_id(etype)
        _update(self, index, _active(self, index, edges), message_func, reduce_func, apply_node_func)

    def pull(
        self,
        v: Any,
        message_func: Any = None,
        reduce_func: Any = None,
        apply_node_func: Any = None,
        etype: Any = None,
        inplace: bool = False,
    ) -> None:
        """Send along the in-edges of ``v`` and reduce at ``v``; a node without in-edges is reduced to 0.

        With a user's reduce function such a node gets the initializer's value instead.
        """
        index = self.etype_id(etype)
        nodes = _receivers(self, v, index)
        relation = _relation(self, index).into(nodes) if len(nodes) else None
        _update(self, index, relation, message_func, reduce_func, apply_node_func)

    def push(
        self,
        u: Any,
        message_func: Any = None,
        reduce_func: Any = None,
        apply_node_func: Any = None,
        etype: Any = None,
        inplace: bool = False,
    ) -> None:
        """Send along the out-edges of ``u`` and reduce the nodes that they reach."""
        index = self.etype_id(etype)
        sources = np.unique(self._set_ids(u, self.src_type_id(index)))
        edges = self.adjacencies[index].out_edges(sources)[2]
        self.send_and_recv(edges, message_func, reduce_func, apply_node_func, index)

    def update_all(
        self, message_func: Any = None, reduce_func: Any = None, apply_node_func: Any = None, etype: Any = None
    ) -> None:
        """Send along all edges and reduce at all nodes, writing whole columns.

        A node without in-edges gets 0 from a built-in reducer, the initializer's value from a user's. On a graph of
        several edge types without ``etype``, built-ins run on every type that has the columns, merged by the reducer.
        """
        if etype is None and len(self._metagraph.canonical_etypes) > 1:
            _update_every_type(self, message_func, reduce_func, apply_node_func)
            return
        index = self.etype_id(etype)
        _update(self, index, _relation(self, index), message_func, reduce_func, apply_node_func)

    def multi_update_all(
        self, etype_dict: Mapping[Any, Sequence[Any]], cross_reducer: Any, apply_node_func: Any = None
    ) -> None:
        """Run ``update_all`` per edge type and merge the results per node type and column.

        ``etype_dict`` gives (message, reduce[, apply]) for each edge type. ``cross_reducer`` is ``"sum"``, ``"min"``,
        ``"max"``, ``"mean"``, ``"stack"`` (along axis 1, by edge type id), or a function from the list of the edge
        types' columns to one. A maximum of maxima passes over edge types that bring a node no message, and so does a
        minimum of minima. ``apply_node_func`` then sees the merged columns; its result is written beside them.
        """
        given = [(self.etype_id(etype), functions) for etype, functions in etype_dict.items()]
        given.sort(key=lambda pair: pair[0])
        functions: list[Any] = []
        for index, triple in given:
            if not isinstance(triple, list | tuple) or not 2 <= len(triple) <= 3:
                etype = self._metagraph.canonical_etypes[index]
                raise DGLError(f"edge type {etype} has {triple!r}; expected (message, reduce[, apply])")
            functions += (*triple, None)[:3]
        cross = cross_signature(cross_reducer, len(functions))
        apply_all = None if apply_node_func is None else UserFunction(len(functions) + 1)
        relations = [_relation(self, index) for index, _ in given]
        messages = [messages_of(functions[3 * i], 3 * i, relation) for i, relation in enumerate(relations)]

        def plan(refused: Refused) -> Plan:
            parts = [
                Part(
                    messages[i],
                    reducer_of(functions[3 * i + 1], 3 * i + 1, relation, messages[i], refused),
                    None if functions[3 * i + 2] is None else UserFunction(3 * i + 2),
                    self.dst_type_id(index),
                )
                for i, (relation, (index, _)) in enumerate(zip(relations, given, strict=True))
            ]
            return compiled(lower_multi, tuple(parts), cross, apply_all)

        if relations:
            run(plan, relations, [*functions, cross_reducer, apply_node_func])

    # -- frontier after frontier --------------------------------------------------------------------------------
    def prop_nodes(
        self,
        nodes_generator: Iterable[Any],
        message_func: Any = None,
        reduce_func: Any = None,
        apply_node_func: Any = None,
        etype: Any = None,
    ) -> None:
        """``pull`` each frontier of nodes in turn."""
        for frontier in nodes_generator:
            self.pull(frontier, message_func, reduce_func, apply_node_func, etype)

    def prop_edges(
        self,
        edges_generator: Iterable[Any],
        message_func: Any = None,
        reduce_func: Any = None,
        apply_node_func: Any = None,
        etype: Any = None,
    ) -> None:
        """``send_and_recv`` along each frontier of edges in turn."""
        for frontier in edges_generator:
            self.send_and_recv(frontier, message_func, reduce_func, apply_node_func, etype)


# -- from names and ids to relations -----------------------------------------------------------------------------
def _relation(graph: GraphBase, index: int) -> Relation:
    """Return all edges of edge type ``index`` with the frames around them."""
    metagraph = graph._metagraph
    src, dst = metagraph.ends[index]
    nodes = graph._node_frame(dst)
    return Relation(
        graph.adjacencies[index],
        nodes if src == dst else graph._node_frame(src),
        graph._edge_frame(index),
        nodes,
        nodes,
        metagraph.canonical_etypes[index],
        graph._device,
    )


def _active(graph: GraphBase, index: int, edges: Any) -> Relation | None:
    """Return the relation of ``edges`` alone; None where an empty selection leaves nothing to do."""
    relation = _relation(graph, index)
    if is_all(edges):
        return relation
    edge_ids = graph.edge_ids_of(edges, index)
    return relation.only(edge_ids) if len(edge_ids) else None


def _receivers(graph: GraphBase, nodes: Any, index: int) -> np.ndarray:
    return np.unique(graph._set_ids(nodes, graph.dst_type_id(index)))


def _nodes(graph: GraphBase, function: Any, nodes: Any, ntype: str | None) -> tuple[np.ndarray | None, NodeBatch]:
    """Return the rows of the selected nodes (None for all) and the batch of them for ``function``."""
    frame = graph.node_frame(ntype)
    rows = None if is_all(nodes) else graph.node_ids(nodes, ntype)
    size = frame.num_rows if rows is None else len(rows)
    name = graph._metagraph.ntypes[graph._metagraph.node_set(ntype)]
    batch = node_batch(function, frame, rows, size, name, lambda ids: graph._ids_tensor(np.array(ids)), {})
    return rows, batch


def _where(predicate: Callable[[Any], Tensor], batch: NodeBatch | EdgeBatch, ids: Tensor) -> Tensor:
    """Return the ids for which the predicate is true."""
    mask = predicate(batch)
    chosen = backend.to_numpy(mask) if backend.is_tensor(mask) else np.asarray(mask)
    if chosen.shape != (len(batch),) or chosen.dtype.kind not in "biuf":
        raise DGLError(
            f"predicate {function_name(predicate)} returned {chosen.dtype} of shape {chosen.shape}; "
            f"expected booleans or numbers of shape ({len(batch)},)"
        )
    return backend.take(ids, np.flatnonzero(chosen))


# -- over one relation and over all ----------------------------------------------------------------------------
def _update(graph: GraphBase, index: int, relation: Relation | None, message: Any, reduce: Any, apply: Any) -> None:
    """Send, reduce and apply over a relation, and write the nodes that receive."""
    if message is None:
        message = chosen(graph, None, "message", index)
    reduce, apply = reducers(graph, index, reduce, apply)
    if relation is None:
        message_signature(message, 0), reduce_signature(reduce, 1)
        return
    functions = (message, reduce, apply)
    if type(message) is MessageFunction and type(reduce) is ReduceFunction:  # nothing to record, nothing to try twice
        execute(update_plan((message,), (reduce,), apply is not None), (relation,), functions)
        return
    messages = messages_of(message, 0, relation)

    def plan(refused: Refused) -> Plan:
        return update_plan(messages, reducer_of(reduce, 1, relation, messages, refused), apply is not None)

    run(plan, (relation,), functions)


def _update_every_type(graph: MessageMixin, message: Any, reduce: Any, apply: Any) -> None:
    """Run one built-in pair over all edge types that have its columns; merge per node type by the reducer itself."""
    etypes = graph._metagraph.canonical_etypes
    builtin = isinstance(message, MessageFunction) and isinstance(reduce, ReduceFunction)
    if not builtin or reduce.reducer not in (Reducer.SUM, Reducer.MAX, Reducer.MIN):
        raise DGLError(
            f"update_all without etype on a graph of {len(etypes)} edge types takes a built-in message and fn.sum, "
            f"fn.max or fn.min; pass etype, one of {etypes}, or use multi_update_all"
        )
    graph.multi_update_all(dict.fromkeys(_able(graph, message), (message, reduce)), reduce.name, apply)


def _able(graph: GraphBase, message: MessageFunction) -> list[int]:
    """Return the edge types that have the columns which a built-in message reads; there is at least one."""
    etypes = graph._metagraph.canonical_etypes
    able = [
        index
        for index in range(len(etypes))
        if all(_relation(graph, index).has_column(side, str(name)) for side, name in message.fields)
    ]
    if not able:
        raise KeyError(f"no edge type has the columns that {message} reads; edge types: {etypes}")
    return able
