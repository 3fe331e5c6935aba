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
from .edges import (
    by_each_head,
    difference,
    gated_mean,
    gaussians,
    greatest_difference,
    greatest_edge,
    last_linear,
    leaky_sum_of_three,
    mean_difference,
    reduce_edges,
    residual,
    squared_distance,
    sum_of_products,
    sum_of_three,
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
from .typed import EdgePairs, edge_pairs, edge_type_counts, typed_attention, typed_linear, typed_sum, typed_sum_of_bases

__all__ = [
    "EdgePairs",
    "as_features",
    "attention",
    "by_each_head",
    "by_head",
    "checked_edge_weight",
    "cosine_attention",
    "difference",
    "edge_pairs",
    "edge_softmax",
    "edge_type_counts",
    "first_rows",
    "gated_mean",
    "gaussians",
    "gcn_norms",
    "greatest_difference",
    "greatest_edge",
    "last_linear",
    "leaky_sum_of_three",
    "mean_difference",
    "mean_with_self",
    "normalise_edge_weight",
    "normalised_sum",
    "pair_of_features",
    "pair_of_sizes",
    "reduce_edges",
    "reduce_neighbours",
    "require_dense",
    "require_in_edges",
    "require_one_size",
    "require_rows",
    "require_width",
    "residual",
    "set_number",
    "squared_distance",
    "sum_of_products",
    "sum_of_relu",
    "sum_of_three",
    "typed_attention",
    "typed_linear",
    "typed_sum",
    "typed_sum_of_bases",
    "walk",
    "walk_weight",
]
