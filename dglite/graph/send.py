"""``send`` and ``recv``: sent messages are stored per edge until they are received and reduced."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..scheduler import (
    Inbox,
    MessageSignature,
    Sent,
    UserFunction,
    applier_of,
    compiled,
    execute,
    lower_message,
    lower_nodes,
    message_signature,
    messages_of,
    reduce_signature,
    reducer_of,
    run,
    update_plan,
)
from ..structure.distinct import distinct
from ..structure.ids import ALL, is_all
from .apply import ApplyMixin, relation_of
from .base import GraphBase
from .registry import function_or_registered, reducers, state

_APPLY = UserFunction(2)
"""Functions of a message-passing method over one relation are (message, reduce, apply)."""


class SendMixin(ApplyMixin):
    """``send`` and ``recv`` of ``DGLGraph``; see :class:`~dglite.graph.messages.MessageMixin`."""

    def send(self, edges: Any = ALL, message_func: Any = None, etype: Any = None) -> None:
        """Store a message on each of ``edges``; it replaces an earlier one.

        A built-in message is lazy: it keeps the columns that it reads and is computed when, and only if, it must be. A
        user's function is called now; where it can be recorded over all edges, what it does is lazy, too.

        Raises DGLError: an edge or type does not exist, no function is given or registered, or a user's function
        returns something else; KeyError: a column that a built-in reads does not exist.

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
        message_func = function_or_registered(self, message_func, "message", index)
        signature: MessageSignature = message_signature(message_func, 0)
        edge_ids = None if is_all(edges) else self.edge_ids_of(edges, etype)
        if edge_ids is not None and not len(edge_ids):
            return
        relation = relation_of(self, index)
        if edge_ids is None:
            signature = messages_of(message_func, 0, relation)
        if isinstance(signature, UserFunction):
            active = relation if edge_ids is None else relation.only(edge_ids)
            table = execute(compiled(lower_message, signature), (active,), (message_func,))
            sent = Sent.computed(table, edge_ids)
        elif relation.captured and signature is not None:
            plans = (compiled(lower_message, message) for message in signature)
            table = {name: x for plan in plans for name, x in execute(plan, (relation,)).items()}
            sent = Sent.computed(table, edge_ids)
        else:
            assert signature is not None
            sent = Sent.described(signature, relation, edge_ids, copies=signature[0] is not message_func)
        inboxes = state(self, "_inboxes")
        if index not in inboxes or inboxes[index].adjacency is not relation.adjacency:
            inboxes[index] = Inbox(relation.adjacency)
        inboxes[index].leave(sent)

    def recv(self, v: Any = ALL, reduce_func: Any = None, apply_node_func: Any = None, etype: Any = None) -> None:
        """Reduce the sent messages on the in-edges of ``v``, which are then removed, and apply to all of ``v``.

        A node for which no message waits gets 0 from a built-in reducer, the initializer's value from a user's. Where
        no message waits for any of ``v``, nothing is reduced and only ``apply_node_func`` runs.

        Raises DGLError: a node or type does not exist, no reduce function is given or registered, it reads a message
        that was not sent, or a user's function returns something else. The messages wait on.

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
        relation = relation_of(self, index)
        nodes = None if is_all(v) else receivers(self, v, index)
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


def receivers(graph: GraphBase, nodes: Any, index: int) -> np.ndarray:
    return distinct(graph.node_ids_at(nodes, graph.dst_type_id(index)))
