"""``dgl.partition``: what it has beside the functions of ``dglite.transforms``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import active
from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure.ids import integer_array


def reorder_nodes(g: DGLGraph, new_node_ids: Any) -> DGLGraph:
    """Return the graph whose node ``new_node_ids[i]`` is node i of ``g``, without its features; edges keep their order.

    ``ndata["orig_id"]`` are the ids that the nodes have in ``g``. Raises ``DGLError`` unless the ids, (num_nodes,), are
    a permutation.
    """
    ids = integer_array(new_node_ids, "new_node_ids").astype(np.int64)
    if ids.shape != (g.num_nodes(),) or not np.array_equal(np.sort(ids), np.arange(len(ids))):
        raise DGLError(
            f"new_node_ids are no permutation of the {g.num_nodes()} nodes; expected each id once, from 0 on"
        )
    src, dst = (active.to_numpy(ends) for ends in g.edges(order="eid"))
    reordered = graph((ids[src], ids[dst]), num_nodes=len(ids), idtype=g.idtype, device=g.device)
    reordered.ndata["orig_id"] = active.from_numpy(np.argsort(ids), g.device)
    return reordered
