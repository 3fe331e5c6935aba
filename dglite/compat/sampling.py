"""``dgl.sampling.pinsage``: the counting of visits that DGL's users build their own samplers on."""

from __future__ import annotations

import numpy as np

from ..backend import Tensor, active
from ..structure.ids import integer_array


def _select_pinsage_neighbors(src: Tensor, dst: Tensor, num_samples_per_node: int, k: int) -> tuple[Tensor, ...]:
    """Return the ``k`` nodes visited most from each destination, the destination, and how often, all (num_pairs,).

    ``src`` are visited nodes, -1 for none, ``num_samples_per_node`` of each destination, which stands as often in
    ``dst``. Of nodes that are visited equally often, those of smaller ids come first.
    """
    visited, ends = integer_array(src, "src"), integer_array(dst, "dst")
    group = np.arange(len(visited)) // num_samples_per_node
    pairs, counts = np.unique(np.stack([group, visited], 1)[visited >= 0], axis=0, return_counts=True)
    order = np.lexsort((pairs[:, 1], -counts, pairs[:, 0]))
    pairs, counts = pairs[order], counts[order]
    first = np.searchsorted(pairs[:, 0], pairs[:, 0])
    is_top = np.arange(len(pairs)) - first < k
    top = pairs[is_top]
    columns = top[:, 1], ends[top[:, 0] * num_samples_per_node], counts[is_top]
    return tuple(active.from_numpy(np.ascontiguousarray(x, np.int64), active.device(src)) for x in columns)
