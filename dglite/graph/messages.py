"""Message passing: methods resolve names and ids, and pass relations and functions to the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import DGLError
from ..function import MessageFunction, ReduceFunction
from ..opspec import Reducer
from ..scheduler import (
    Plan,
    Refused,
    Relation,
    RelationUpdate,
    UserFunction,
    applier_of,
    compiled,
    cross_signature,
    execute,
    lower_multi,
    message_signature,
    messages_of,
    reduce_signature,
    reducer_of,
    run,
    update_plan,
)
from ..structure.distinct import distinct
from .apply import active_relation, etypes_with_columns, relation_of
from .base import GraphBase
from .registry import function_or_registered, reducers
from .send import SendMixin, receivers


class MessageMixin(SendMixin):
    """The message-passing methods of ``DGLGraph``.

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

    If a method raises, features and sent messages are unchanged. All raise ``KeyError`` for a column that the graph
    does not have and ``DGLError`` for a node, edge or type that does not exist, for a function that is left out and
    not registered, for dtypes or shapes that do not fit, and for a user's function that returns no such dict.
    """

    def send_and_recv(
        self,
        edges: Any,
        message_func: Any = None,
        reduce_func: Any = None,
        apply_node_func: Any = None,
        etype: Any = None,
        inplace: bool = False,
    ) -> None:
        """Send along ``edges`` and reduce at once the nodes that they reach; messages of ``send`` are not touched.

        Raises DGLError, KeyError as :meth:`update_all`; or an edge does not exist.

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
        _update(self, index, active_relation(self, index, edges), message_func, reduce_func, apply_node_func)

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

        Raises DGLError, KeyError as :meth:`update_all`; or a node does not exist.

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
        nodes = receivers(self, v, index)
        relation = relation_of(self, index).into(nodes) if len(nodes) else None
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

        Raises DGLError, KeyError as :meth:`update_all`; or a node does not exist.

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
        sources = distinct(self.node_ids_at(u, self.src_type_id(index)))
        edges = self.adjacencies[index].out_edges(sources)[2]
        self.send_and_recv(edges, message_func, reduce_func, apply_node_func, index)

    def update_all(
        self, message_func: Any = None, reduce_func: Any = None, apply_node_func: Any = None, etype: Any = None
    ) -> None:
        """Send along all edges and reduce at all nodes, writing whole columns.

        A node without in-edges gets 0 from a built-in reducer, the initializer's value from a user's. On a graph of
        several edge types without ``etype``, built-ins run on every type that has the columns, merged by the reducer.

        Raises DGLError: a function is missing or returns something else, the reduce function reads a message that the
        message function does not make, shapes or dtypes do not fit, the type does not exist, or it is left out where it
        is needed; KeyError: a column that a built-in reads does not exist.

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
        if etype is None and len(self.type_graph.canonical_etypes) > 1:
            _update_every_type(self, message_func, reduce_func, apply_node_func)
            return
        index = self.etype_id(etype)
        _update(self, index, relation_of(self, index), message_func, reduce_func, apply_node_func)

    def multi_update_all(
        self, etype_dict: Mapping[Any, Sequence[Any]], cross_reducer: Any, apply_node_func: Any = None
    ) -> None:
        """Run ``update_all`` per edge type and merge the results per node type and column.

        A max of max reductions ignores edge types without messages for a node, and so does a min of min reductions; a
        node without messages of any edge type gets 0. ``apply_node_func`` gets the merged columns; its result is
        written in addition to them.

        Raises DGLError: a type does not exist, a tuple is no such tuple, ``cross_reducer`` is something else, or as in
        :meth:`update_all`; KeyError: a column that a built-in reads does not exist.

        Parameters
        ----------
        etype_dict
            (message, reduce[, apply]) for each edge type, as :meth:`update_all` takes them. None at all writes nothing.
        cross_reducer
            ``"sum"``, ``"min"``, ``"max"``, ``"mean"``, ``"stack"`` (along axis 1, by edge type id: (num_nodes,
            num_types, *feat)), or a function from the list of the edge types' columns (num_nodes, *feat) to one.
        apply_node_func
            A function of a ``NodeBatch`` that returns a dict of columns (num_nodes, *feat), or None.

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
        if not isinstance(etype_dict, Mapping):
            raise DGLError(
                f"multi_update_all takes a dictionary from edge type to (message, reduce), got "
                f"{type(etype_dict).__name__}; the edge types are {self.canonical_etypes}"
            )
        updates = [(self.etype_id(etype), functions) for etype, functions in etype_dict.items()]
        updates.sort(key=lambda pair: pair[0])
        functions: list[Any] = []
        for index, triple in updates:
            if not isinstance(triple, list | tuple) or not 2 <= len(triple) <= 3:
                etype = self.type_graph.canonical_etypes[index]
                raise DGLError(
                    f"edge type {etype} has {triple!s:.60}; expected a tuple (message, reduce[, apply]), such as "
                    "(fn.copy_u('h', 'm'), fn.sum('m', 'h'))"
                )
            functions += (*triple, None)[:3]
        cross = cross_signature(cross_reducer, len(functions))
        apply_all = None if apply_node_func is None else UserFunction(len(functions) + 1)
        relations = [relation_of(self, index) for index, _ in updates]
        messages = [messages_of(functions[3 * i], 3 * i, relation) for i, relation in enumerate(relations)]

        def plan(refused: Refused) -> Plan:
            parts = [
                RelationUpdate(
                    messages[i],
                    reducer_of(functions[3 * i + 1], 3 * i + 1, relation, messages[i], refused),
                    None if functions[3 * i + 2] is None else UserFunction(3 * i + 2),
                    self.dst_type_id(index),
                )
                for i, (relation, (index, _)) in enumerate(zip(relations, updates, strict=True))
            ]
            return compiled(lower_multi, tuple(parts), cross, apply_all)

        if relations:
            run(plan, relations, [*functions, cross_reducer, apply_node_func])


# -- over one relation and over all ----------------------------------------------------------------------------
def _update(graph: GraphBase, index: int, relation: Relation | None, message: Any, reduce: Any, apply: Any) -> None:
    """Send, reduce and apply over a relation, and write the nodes that receive."""
    if message is None:
        message = function_or_registered(graph, None, "message", index)
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
    etypes = graph.type_graph.canonical_etypes
    builtin = isinstance(message, MessageFunction) and isinstance(reduce, ReduceFunction)
    if not builtin or reduce.reducer not in (Reducer.SUM, Reducer.MAX, Reducer.MIN):
        raise DGLError(
            f"update_all without etype on a graph of {len(etypes)} edge types takes a built-in message and fn.sum, "
            f"fn.max or fn.min; pass etype, one of {etypes}, or use multi_update_all"
        )
    graph.multi_update_all(dict.fromkeys(etypes_with_columns(graph, message), (message, reduce)), reduce.name, apply)
