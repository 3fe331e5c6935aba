"""The formulas of the layers, each written once, as functions of an adjacency and tensors.

Layers hold parameters and check what users give them; what is computed stands here. ``*feat`` is any feature shape.
"""

from ...ops import edge_softmax
from ...ops.core import require_in_edges
from ..sparsefeatures import as_features
from .attention import attention, cosine_attention
from .convolution import (
    checked_edge_weight,
    gcn_norms,
    mean_with_self,
    normalise_edge_weight,
    normalised_sum,
    reduce_neighbours,
    sum_of_relu,
    walk,
    walk_weight,
)
from .given import (
    by_head,
    first_rows,
    pair_of_features,
    pair_of_sizes,
    require_dense,
    require_one_size,
    require_rows,
    require_width,
    set_number,
)
from .typed import EdgePairs, edge_pairs, typed_attention, typed_linear, typed_sum, typed_sum_of_bases

__all__ = [
    "EdgePairs",
    "as_features",
    "attention",
    "by_head",
    "checked_edge_weight",
    "cosine_attention",
    "edge_pairs",
    "edge_softmax",
    "first_rows",
    "gcn_norms",
    "mean_with_self",
    "normalise_edge_weight",
    "normalised_sum",
    "pair_of_features",
    "pair_of_sizes",
    "reduce_neighbours",
    "require_dense",
    "require_in_edges",
    "require_one_size",
    "require_rows",
    "require_width",
    "set_number",
    "sum_of_relu",
    "typed_attention",
    "typed_linear",
    "typed_sum",
    "typed_sum_of_bases",
    "walk",
    "walk_weight",
]
