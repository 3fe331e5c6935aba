"""Message passing frontier after frontier: ``prop_nodes`` and ``prop_edges``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..arguments import explained
from .messages import MessageMixin


class PropagationMixin(MessageMixin):
    """``prop_nodes`` and ``prop_edges`` of ``DGLGraph``; see :class:`~dglite.graph.messages.MessageMixin`."""

    @explained
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

        Raises DGLError, KeyError as :meth:`pull`; what earlier frontiers have written stays.

        Parameters
        ----------
        nodes_generator
            Frontiers: each node ids or a boolean mask (num_nodes,). An empty one writes nothing.
        message_func, reduce_func, apply_node_func
            As :meth:`send` and :meth:`recv` take them.
        etype
            The edge type; only needed where there are several.

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

    @explained
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

        Raises DGLError, KeyError as :meth:`send_and_recv`; what earlier frontiers have written stays.

        Parameters
        ----------
        edges_generator
            Frontiers: each edge ids, a pair of node ids (u, v), or a boolean mask (num_edges,). An empty one writes
            nothing.
        message_func, reduce_func, apply_node_func
            As :meth:`send` and :meth:`recv` take them.
        etype
            The edge type; only needed where there are several.

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
