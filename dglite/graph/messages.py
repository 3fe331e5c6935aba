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
    Plan,
    Refused,
    Relation,
    RelationUpdate,
    Sent,
    UserFunction,
    applier_of,
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
    registered one. ``inplace`` is classic and changes nothing: features are written out of place.

    Columns are tensors of any shape and dtype with a row per node or edge; those that built-ins compute with are of
    float32, float64, float16 or bfloat16, all of one dtype, and their feature axes broadcast. A node that no message
    reaches gets 0 from a built-in reducer and from a user's function the initializer's value, which is 0 unless
    ``set_n_initializer`` says otherwise. On a graph without edges
    built-ins write zeros, or columns of 0 rows; a user's reduce function, which no message reaches, is not called and
    makes no new column.

    Where a verb raises, features and waiting messages are as before. All raise ``KeyError`` for a column that the graph
    does not have and ``DGLError`` for a node, edge or type that does not exist, for a function that is left out and
    not registered, for dtypes or shapes that do not fit, and for a user's function that returns no such dict.
    """

    # -- on nodes and edges alone -------------------------------------------------------------------------------
    def apply_nodes(
        self,
        func: Callable[[NodeBatch], Any] | None = None,
        v: Any = ALL,
        ntype: str | None = None,
        inplace: bool = False,
    ) -> None:
        """Write the columns that ``func`` computes from nodes ``v``.

        Parameters
        ----------
        func
            A function of a ``NodeBatch`` that returns a dict of columns (num_nodes_in_v, *feat), of any dtype.
        v
            Node ids, a boolean mask (num_nodes,), or all nodes by default. Rows of other nodes keep what they hold, the
            initializer's value in a new column. For an empty selection ``func`` is not called.
        ntype
            The node type; only needed where there are several.
        inplace
            Classic; changes nothing.

        Raises
        ------
        DGLError
            A node or type does not exist, no function is given or registered, or ``func`` returns something else.

        Examples
        --------
        >>> import torch, dglite
        >>> g = dglite.graph(([0, 1], [1, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 2., 4.])
        >>> g.apply_nodes(lambda nodes: {'h': nodes.data['h'] * 10}, v=[0, 2])
        >>> g.ndata['h']
        tensor([10.,  2., 40.])
        """
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

        Parameters
        ----------
        func
            A built-in (``fn.u_dot_v('h', 'h', 'score')``), a list of them, or a function that returns a dict of columns
            (num_edges_in_batch, *feat).
        edges
            Edge ids, a pair of node ids (u, v), a boolean mask (num_edges,), or all edges by default. Rows of other
            edges keep what they hold, the initializer's value in a new column. For an empty selection nothing is
            written.
        etype
            The edge type. Without it, on a graph of several, a built-in runs on every type that has the columns.
        inplace
            Classic; changes nothing.

        Raises
        ------
        DGLError
            An edge or type does not exist, no function is given or registered, shapes or dtypes do not fit, or a user's
            function returns something else.
        KeyError
            A column that a built-in reads does not exist.

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
        have shape (num_nodes, degree, *feat), the edges of a node in the order of their ids. Nodes of degree 0 are in
        no batch, and without any edge ``func`` is not called.

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

        Raises
        ------
        DGLError
            ``group_by`` is something else, an edge or type does not exist, or ``func`` returns something else.

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

        Parameters
        ----------
        edges
            Edge ids, a pair of node ids (u, v), a boolean mask (num_edges,), or all edges by default. For an empty
            selection nothing is left.
        message_func
            A built-in, a list of them, or a function of an ``EdgeBatch`` that returns a dict of messages
            (num_edges_in_batch, *feat).
        etype
            The edge type; only needed where there are several.

        Raises
        ------
        DGLError
            An edge or type does not exist, no function is given or registered, or a user's function returns something
            else.
        KeyError
            A column that a built-in reads does not exist.

        Examples
        --------
        >>> import torch, dglite, dglite.function as fn
        >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 2., 4.])
        >>> g.send(message_func=fn.copy_u('h', 'm'))
        >>> g.recv(reduce_func=fn.sum('m', 'total'))
        >>> g.ndata['total']
        tensor([0., 1., 6.])
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

        Parameters
        ----------
        v
            Node ids, a boolean mask (num_nodes,), or all nodes by default. Rows of other nodes keep what they hold.
        reduce_func
            A built-in, a list of them, or a function of a ``NodeBatch`` whose ``mailbox['m']`` is (num_nodes, degree,
            *feat), nodes of one degree at a time; it returns a dict of columns (num_nodes, *feat).
        apply_node_func
            A function of a ``NodeBatch`` of ``v`` that returns a dict of columns (num_nodes_in_v, *feat), or None.
        etype
            The edge type; only needed where there are several.

        Raises
        ------
        DGLError
            A node or type does not exist, no reduce function is given or registered, it reads a message that was not
            sent, or a user's function returns something else. The messages wait on.

        Examples
        --------
        >>> import torch, dglite, dglite.function as fn
        >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 2., 4.])
        >>> g.send([0, 2], fn.copy_u('h', 'm'))
        >>> g.recv(2, lambda nodes: {'most': nodes.mailbox['m'].amax(1)})
        >>> g.ndata['most']
        tensor([0., 0., 4.])
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
                    message,
                    reducer_of(reduce_func, 1, active, message, refused),
                    applier_of(apply_node_func, 2, active),
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
        """Send along ``edges`` and reduce at once the nodes that they reach; messages that wait are left alone.

        Parameters
        ----------
        edges
            Edge ids, a pair of node ids (u, v), or a boolean mask (num_edges,). For an empty selection nothing is
            written.
        message_func, reduce_func, apply_node_func
            As :meth:`send` and :meth:`recv` take them.
        etype
            The edge type; only needed where there are several.
        inplace
            Classic; changes nothing.

        Raises
        ------
        DGLError
            An edge or type does not exist, a function is missing or returns something else, the reduce function reads a
            message that the message function does not make, or shapes or dtypes do not fit.
        KeyError
            A column that a built-in reads does not exist.

        Examples
        --------
        >>> import torch, dglite, dglite.function as fn
        >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 2., 4.])
        >>> g.send_and_recv([0, 1], fn.copy_u('h', 'm'), fn.sum('m', 'total'))
        >>> g.ndata['total']
        tensor([0., 1., 2.])
        """
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

        Parameters
        ----------
        v
            Node ids or a boolean mask (num_nodes,). Rows of other nodes keep what they hold; without any node nothing
            is written.
        message_func, reduce_func, apply_node_func
            As :meth:`send` and :meth:`recv` take them.
        etype
            The edge type; only needed where there are several.
        inplace
            Classic; changes nothing.

        Raises
        ------
        DGLError
            A node or type does not exist, a function is missing or returns something else, the reduce function reads a
            message that the message function does not make, or shapes or dtypes do not fit.
        KeyError
            A column that a built-in reads does not exist.

        Examples
        --------
        >>> import torch, dglite, dglite.function as fn
        >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 2., 4.])
        >>> g.pull([0, 2], fn.copy_u('h', 'm'), fn.mean('m', 'h'))
        >>> g.ndata['h']
        tensor([0., 2., 3.])
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
        """Send along the out-edges of ``u`` and reduce the nodes that they reach.

        A node that ``u`` does not reach keeps what it holds. Messages of other nodes take no part.

        Parameters
        ----------
        u
            Node ids or a boolean mask (num_nodes,). Without any out-edge nothing is written.
        message_func, reduce_func, apply_node_func
            As :meth:`send` and :meth:`recv` take them.
        etype
            The edge type; only needed where there are several.
        inplace
            Classic; changes nothing.

        Raises
        ------
        DGLError
            A node or type does not exist, a function is missing or returns something else, the reduce function reads a
            message that the message function does not make, or shapes or dtypes do not fit.
        KeyError
            A column that a built-in reads does not exist.

        Examples
        --------
        >>> import torch, dglite, dglite.function as fn
        >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 2., 4.])
        >>> g.push(1, fn.copy_u('h', 'm'), fn.sum('m', 'h'))
        >>> g.ndata['h']
        tensor([1., 2., 2.])
        """
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

        Parameters
        ----------
        message_func
            A built-in, a list of them, or a function of an ``EdgeBatch`` that returns a dict of messages (num_edges,
            *feat).
        reduce_func
            A built-in, a list of them, or a function of a ``NodeBatch`` whose ``mailbox['m']`` is (num_nodes, degree,
            *feat), nodes of one degree at a time; it returns a dict of columns (num_nodes, *feat).
        apply_node_func
            A function of a ``NodeBatch`` of all destination nodes that returns a dict of columns (num_dst, *feat), or
            None.
        etype
            The edge type; only needed where there are several and a function is a user's.

        Raises
        ------
        DGLError
            A function is missing or returns something else, the reduce function reads a message that the message
            function does not make, shapes or dtypes do not fit, the type does not exist, or it is left out where it is
            needed.
        KeyError
            A column that a built-in reads does not exist.

        Examples
        --------
        >>> import torch, dglite, dglite.function as fn
        >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 2., 4.])
        >>> g.update_all(fn.copy_u('h', 'm'), fn.mean('m', 'h_mean'))
        >>> g.ndata['h_mean']
        tensor([0., 1., 3.])
        >>> g.update_all(lambda edges: {'m': edges.src['h'] - edges.dst['h']}, fn.max('m', 'drop'))
        >>> g.ndata['drop']
        tensor([ 0., -1.,  0.])
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

        A maximum of maxima passes over edge types that bring a node no message, and so does a minimum of minima; a node
        that no edge type brings a message gets 0. ``apply_node_func`` sees the merged columns; its result is written
        beside them.

        Parameters
        ----------
        etype_dict
            (message, reduce[, apply]) for each edge type, as :meth:`update_all` takes them. None at all writes nothing.
        cross_reducer
            ``"sum"``, ``"min"``, ``"max"``, ``"mean"``, ``"stack"`` (along axis 1, by edge type id: (num_nodes,
            num_types, *feat)), or a function from the list of the edge types' columns (num_nodes, *feat) to one.
        apply_node_func
            A function of a ``NodeBatch`` that returns a dict of columns (num_nodes, *feat), or None.

        Raises
        ------
        DGLError
            A type does not exist, a tuple is no such tuple, ``cross_reducer`` is something else, or as in
            :meth:`update_all`.
        KeyError
            A column that a built-in reads does not exist.

        Examples
        --------
        >>> import torch, dglite, dglite.function as fn
        >>> g = dglite.heterograph({('user', 'follows', 'user'): ([0], [1]), ('game', 'of', 'user'): ([0, 0], [0, 1])})
        >>> g.nodes['user'].data['h'] = torch.tensor([1., 2.])
        >>> g.nodes['game'].data['h'] = torch.tensor([10.])
        >>> pair = (fn.copy_u('h', 'm'), fn.sum('m', 'total'))
        >>> g.multi_update_all({'follows': pair, 'of': pair}, 'sum')
        >>> g.nodes['user'].data['total']
        tensor([10., 11.])
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
                RelationUpdate(
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
        """``pull`` each frontier of nodes in turn.

        A frontier reads what the ones before it have written. A node without in-edges is reduced to 0, as in
        :meth:`pull`.

        Parameters
        ----------
        nodes_generator
            Frontiers: each node ids or a boolean mask (num_nodes,). An empty one writes nothing.
        message_func, reduce_func, apply_node_func
            As :meth:`send` and :meth:`recv` take them.
        etype
            The edge type; only needed where there are several.

        Raises
        ------
        DGLError, KeyError
            As :meth:`pull`; what earlier frontiers have written stays.

        Examples
        --------
        >>> import torch, dglite, dglite.function as fn
        >>> g = dglite.graph(([0, 1], [1, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 0., 0.])
        >>> g.prop_nodes([[1], [2]], fn.copy_u('h', 'm'), fn.sum('m', 'h'))
        >>> g.ndata['h']
        tensor([1., 1., 1.])
        """
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
        """``send_and_recv`` along each frontier of edges in turn.

        A frontier reads what the ones before it have written. Nodes that it does not reach keep what they hold.

        Parameters
        ----------
        edges_generator
            Frontiers: each edge ids, a pair of node ids (u, v), or a boolean mask (num_edges,). An empty one writes
            nothing.
        message_func, reduce_func, apply_node_func
            As :meth:`send` and :meth:`recv` take them.
        etype
            The edge type; only needed where there are several.

        Raises
        ------
        DGLError, KeyError
            As :meth:`send_and_recv`; what earlier frontiers have written stays.

        Examples
        --------
        >>> import torch, dglite, dglite.function as fn
        >>> g = dglite.graph(([0, 1], [1, 2]))
        >>> g.ndata['h'] = torch.tensor([1., 0., 0.])
        >>> g.prop_edges([[1], [0]], fn.copy_u('h', 'm'), fn.sum('m', 'h'))
        >>> g.ndata['h']
        tensor([1., 1., 0.])
        """
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
        applied = None if apply is None else applier_of(apply, 2, relation)
        execute(update_plan((message,), (reduce,), applied), (relation,), functions)
        return
    messages, applied = messages_of(message, 0, relation), applier_of(apply, 2, relation)

    def plan(refused: Refused) -> Plan:
        return update_plan(messages, reducer_of(reduce, 1, relation, messages, refused), applied)

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
