"""``dgl.mpops``: edge values of one relation, such as ``dgl.u_add_v(g, x, y, etype="follows")``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..backend import Tensor


def copy_u(g: Any, x_node: Tensor, etype: Any = None) -> Tensor:
    """Return the feature of every edge's source, (num_edges, *feat); ``etype`` is needed where there are several."""
    return ops.copy_u(g.adjacency(etype), x_node)


def copy_v(g: Any, x_node: Tensor, etype: Any = None) -> Tensor:
    """Return the feature of every edge's destination, (num_edges, *feat); ``etype`` as in :func:`copy_u`."""
    return ops.copy_v(g.adjacency(etype), x_node)


def _of_ends(name: str) -> Callable[..., Tensor]:
    operation = getattr(ops, name)

    def call(g: Any, x_node: Tensor, y_node: Tensor, etype: Any = None) -> Tensor:
        out: Tensor = operation(g.adjacency(etype), x_node, y_node)
        return out

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{operation.__doc__} ``etype`` is needed where there are several."
    return call


u_add_v = _of_ends("u_add_v")
u_sub_v = _of_ends("u_sub_v")
u_mul_v = _of_ends("u_mul_v")
u_div_v = _of_ends("u_div_v")
u_dot_v = _of_ends("u_dot_v")
