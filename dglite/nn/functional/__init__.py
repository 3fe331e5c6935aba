"""The formulas of the layers, each written once, as functions of an adjacency and tensors.

Layers hold parameters and check what users give them; what is computed stands here. ``*feat`` is any feature shape.
"""

from ... import hints
from ...backend import framework
from ...ops import edge_softmax
from ...ops.core import require_in_edges
from ...ops.losses import cross_entropy
from ...ops.operands import adjacency_of
from ..sparsefeatures import as_features
from .attention import attention, attention_by_scores, attention_with_edges, cosine_attention
from .convolution import (
    checked_edge_weight,
    gcn_norms,
    in_degrees,
    loops_replaced,
    mean_with_self,
    normalise_edge_weight,
    normalised_sum,
    product,
    product_goes_first,
    projected,
    reduce_neighbours,
    scaled_sum,
    sum_of_projected,
    sum_of_relu,
    walk,
    walk_weight,
)
from .edges import (
    both_ends,
    by_each_head,
    difference,
    dots_by_head,
    filtered_sum,
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
    activated,
    as_module,
    by_head,
    compute_weights,
    first_rows,
    is_plain,
    is_relu,
    pair_of_features,
    pair_of_sizes,
    require_dense,
    require_dense_batch,
    require_edge_weight,
    require_matrix,
    require_module,
    require_multiple,
    require_norm,
    require_one_size,
    require_pairs,
    require_rows,
    require_sizes,
    require_width,
    set_number,
    source_of,
)
from .initial import xavier_normal_, xavier_uniform_, zeros_
from .readout import attended_by_graph, batch_sizes, graph_members, graph_softmax, pooled, top_rows
from .recurrent import gated_step, recurrent
from .setattention import SetPairs, SetSizes, equal_sizes, seed_attention, set_attention, set_pairs
from .statistics import AGGREGATORS, DIRECTIONS, SCALERS, degree_scaler, directional, statistics
from .typed import edge_type_counts, typed_attention, typed_linear, typed_sum, typed_sum_of_bases

__getattr__ = hints.names_of(
    __name__,
    reasons=lambda name: f"it is torch.nn.functional.{name}" if hasattr(framework.nn.functional, name) else "",
)
