"""Transforms from graphs to graphs: functions, and modules that compose."""

from .. import hints
from .augment import AddEdge, DropEdge, DropNode, FeatMask, NodeShuffle, RowFeatNormalizer
from .block import to_block
from .diffusion import GDC, PPR, GCNNorm, HeatKernel, SIGNDiffusion
from .distances import double_radius_node_labeling, shortest_dist
from .edges import (
    add_edges,
    add_nodes,
    add_reverse_edges,
    add_self_loop,
    remove_edges,
    remove_nodes,
    remove_self_loop,
    reverse,
    to_bidirected,
)
from .module import (
    SVDPE,
    AddMetaPaths,
    AddReverse,
    AddSelfLoop,
    BaseTransform,
    Compose,
    KHopGraph,
    LaplacianPE,
    LapPE,
    LineGraph,
    RandomWalkPE,
    RemoveSelfLoop,
    ToLevi,
    ToSimple,
)
from .neighbours import knn_graph, radius_graph, segmented_knn_graph
from .partition import metis_partition, metis_partition_assignment, partition_graph_with_halo
from .precision import to_bfloat16, to_double, to_float, to_half
from .products import adj_product_graph, adj_sum_graph, khop_adj, khop_graph, line_graph, metapath_reachable_graph
from .reorder import reorder_graph
from .simple import compact_graphs, to_simple, to_simple_graph
from .spectral import lap_pe, laplacian_lambda_max, laplacian_pe, random_walk_pe, svd_pe
from .splits import LinkSplit, RandomLinkSplit, RandomNodeSplit
from .tags import norm_by_dst, sort_csc_by_tag, sort_csr_by_tag
from .types import block_to_graph, to_heterogeneous, to_homogeneous

__all__ = [
    "GDC",
    "PPR",
    "SVDPE",
    "AddEdge",
    "AddMetaPaths",
    "AddReverse",
    "AddSelfLoop",
    "BaseTransform",
    "Compose",
    "DropEdge",
    "DropNode",
    "FeatMask",
    "GCNNorm",
    "HeatKernel",
    "KHopGraph",
    "LapPE",
    "LaplacianPE",
    "LineGraph",
    "LinkSplit",
    "NodeShuffle",
    "RandomLinkSplit",
    "RandomNodeSplit",
    "RandomWalkPE",
    "RemoveSelfLoop",
    "RowFeatNormalizer",
    "SIGNDiffusion",
    "ToLevi",
    "ToSimple",
    "add_edges",
    "add_nodes",
    "add_reverse_edges",
    "add_self_loop",
    "adj_product_graph",
    "adj_sum_graph",
    "block_to_graph",
    "compact_graphs",
    "double_radius_node_labeling",
    "khop_adj",
    "khop_graph",
    "knn_graph",
    "lap_pe",
    "laplacian_lambda_max",
    "laplacian_pe",
    "line_graph",
    "metapath_reachable_graph",
    "metis_partition",
    "metis_partition_assignment",
    "norm_by_dst",
    "partition_graph_with_halo",
    "radius_graph",
    "random_walk_pe",
    "remove_edges",
    "remove_nodes",
    "remove_self_loop",
    "reorder_graph",
    "reverse",
    "segmented_knn_graph",
    "shortest_dist",
    "sort_csc_by_tag",
    "sort_csr_by_tag",
    "svd_pe",
    "to_bfloat16",
    "to_bidirected",
    "to_block",
    "to_double",
    "to_float",
    "to_half",
    "to_heterogeneous",
    "to_homogeneous",
    "to_simple",
    "to_simple_graph",
]

__getattr__ = hints.names_of(__name__)
