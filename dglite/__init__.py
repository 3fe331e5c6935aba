"""Graph deep learning with DGL's programming model, in pure Python.

``import dglite as dgl`` is all that much DGL code needs. The names here are the public ones; the rest of the package
is reached through its modules: ``dglite.function``, ``dglite.ops``, ``dglite.nn``, ``dglite.data``,
``dglite.dataloading``, ``dglite.sampling``, ``dglite.transforms``, ``dglite.metrics``; and, imported when they are
first read, ``dglite.distributed``, ``dglite.dynamic``, ``dglite.tofu``, ``dglite.compat``, ``dglite.graphbolt``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import (
    backend,
    contrib,
    data,
    dataloading,
    function,
    geometry,
    hints,
    metrics,
    nn,
    ops,
    sampling,
    sparse,
    transforms,
)
from . import optim as optim  # not in __all__: a star import must not hide torch.optim
from .backend import empty_cache, memory_summary
from .batch import batch, merge, slice_batch, unbatch
from .classic import (
    BatchedDGLGraph,
    BatchedHeteroDGLGraph,
    DGLHeteroGraph,
    as_heterograph,
    as_immutable_graph,
    batch_hetero,
    bipartite,
    hetero_from_relations,
    to_bidirected_stale,
    to_hetero,
    to_homo,
    unbatch_hetero,
)
from .contrib.sampling import NodeFlow
from .convert import (
    bipartite_from_networkx,
    bipartite_from_scipy,
    create_block,
    from_networkx,
    from_scipy,
    graph,
    heterograph,
    to_networkx,
)
from .dataloading import inference
from .dataloading.estimate import estimate
from .errors import DGLError, DGLWarning
from .frame import EID, ETYPE, NID, NTYPE
from .generators import rand_bipartite, rand_graph, rand_power_law_graph
from .graph import DGLGraph, to_tensors
from .homophily import (
    adjusted_homophily,
    edge_homophily,
    edge_label_informativeness,
    linkx_homophily,
    node_homophily,
    node_label_informativeness,
)
from .io import from_pyg, hetero_from_shared_memory, load_graphs, save_graphs, to_pyg
from .propagate import (
    engines,
    explain,
    explainers,
    prop_edges,
    prop_edges_dfs,
    prop_nodes,
    prop_nodes_bfs,
    prop_nodes_topo,
)
from .random import seed
from .readout import (
    broadcast_edges,
    broadcast_nodes,
    max_edges,
    max_nodes,
    mean_edges,
    mean_nodes,
    readout_edges,
    readout_nodes,
    softmax_edges,
    softmax_nodes,
    sum_edges,
    sum_nodes,
    topk_edges,
    topk_nodes,
)
from .serving import dynamic_shapes, export
from .structure import ALL
from .subgraph import (
    edge_subgraph,
    edge_type_subgraph,
    in_subgraph,
    khop_in_subgraph,
    khop_out_subgraph,
    node_subgraph,
    node_type_subgraph,
    out_subgraph,
)
from .transforms import (
    GDC,
    PPR,
    SVDPE,
    AddEdge,
    AddMetaPaths,
    AddReverse,
    AddSelfLoop,
    BaseTransform,
    Compose,
    DropEdge,
    DropNode,
    FeatMask,
    GCNNorm,
    HeatKernel,
    KHopGraph,
    LaplacianPE,
    LapPE,
    LineGraph,
    NodeShuffle,
    RandomWalkPE,
    RemoveSelfLoop,
    RowFeatNormalizer,
    SIGNDiffusion,
    ToLevi,
    ToSimple,
    add_edges,
    add_nodes,
    add_reverse_edges,
    add_self_loop,
    adj_product_graph,
    adj_sum_graph,
    block_to_graph,
    compact_graphs,
    double_radius_node_labeling,
    khop_adj,
    khop_graph,
    knn_graph,
    lap_pe,
    laplacian_lambda_max,
    laplacian_pe,
    line_graph,
    metapath_reachable_graph,
    metis_partition,
    metis_partition_assignment,
    norm_by_dst,
    partition_graph_with_halo,
    radius_graph,
    random_walk_pe,
    remove_edges,
    remove_nodes,
    remove_self_loop,
    reorder_graph,
    reverse,
    segmented_knn_graph,
    shortest_dist,
    sort_csc_by_tag,
    sort_csr_by_tag,
    svd_pe,
    to_bfloat16,
    to_bidirected,
    to_block,
    to_double,
    to_float,
    to_half,
    to_heterogeneous,
    to_homogeneous,
    to_simple,
    to_simple_graph,
)
from .traversal import (
    bfs_edges_generator,
    bfs_nodes_generator,
    dfs_edges_generator,
    dfs_labeled_edges_generator,
    topological_nodes_generator,
)
from .udf import EdgeBatch, NodeBatch
from .unread import leave_to_python

if TYPE_CHECKING:
    from .convert.molecules import from_rdkit, from_smiles
    from .convert.pandas import from_pandas, to_pandas
    from .data.tables import from_tables
    from .nn import NodeEmbedding
    from .show.figure import plot
    from .show.models import summary
    from .show.profiling import profile
    from .transforms.splits import RandomLinkSplit, RandomNodeSplit

__version__ = "0.2.0"


def _as_vertex_program(*args: Any) -> str | None:
    """Run a topological propagation by ``dglite.dynamic``, which is loaded, with its compiler, when it is needed."""
    reason: str | None = import_module(".dynamic.propagation", __name__).propagate_as_program(*args)
    return reason


def _explain_dynamic(*args: Any, **options: Any) -> Any:
    """Explain vertex programs and lazy tensors, which there are only if ``dglite.dynamic`` is loaded."""
    if "dynamic" not in globals():  # set when the package is imported
        return None
    return import_module(".dynamic.explanation", __name__).explain_dynamic(*args, **options)


leave_to_python()
if backend.name == "torch":
    engines.append(_as_vertex_program)
    explainers.append(_explain_dynamic)

_MODULES = {name: f"{__name__}.{name}" for name in ("compat", "distributed", "dynamic", "tofu")}
_LATE = {"show.figure": "plot", "convert.pandas": "from_pandas to_pandas", "data.tables": "from_tables"}
_LATE |= {"convert.molecules": "from_rdkit from_smiles", "transforms.splits": "RandomLinkSplit RandomNodeSplit"}
_LATE |= {"show.profiling": "profile", "show.models": "summary", "nn": "NodeEmbedding"}
"""Functions that are imported when they are first used, by module."""
_MODULES |= {name: f"{__name__}.{module}:{name}" for module, names in _LATE.items() for name in names.split()}
_MODULES |= {"graphbolt": f"{__name__}.compat.graphbolt", "multiprocessing": "torch.multiprocessing"}


def _why_missing(name: str) -> str:
    why: str = import_module(".compat.missing", __name__).lacking(f"dgl.{name}").why
    return why


__getattr__ = hints.names_of(__name__, _MODULES, _why_missing)


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})


__all__ = [
    "ALL",
    "EID",
    "ETYPE",
    "GDC",
    "NID",
    "NTYPE",
    "PPR",
    "SVDPE",
    "AddEdge",
    "AddMetaPaths",
    "AddReverse",
    "AddSelfLoop",
    "BaseTransform",
    "BatchedDGLGraph",
    "BatchedHeteroDGLGraph",
    "Compose",
    "DGLError",
    "DGLGraph",
    "DGLHeteroGraph",
    "DGLWarning",
    "DropEdge",
    "DropNode",
    "EdgeBatch",
    "FeatMask",
    "GCNNorm",
    "HeatKernel",
    "KHopGraph",
    "LapPE",
    "LaplacianPE",
    "LineGraph",
    "NodeBatch",
    "NodeEmbedding",
    "NodeFlow",
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
    "adjusted_homophily",
    "as_heterograph",
    "as_immutable_graph",
    "backend",
    "batch",
    "batch_hetero",
    "bfs_edges_generator",
    "bfs_nodes_generator",
    "bipartite",
    "bipartite_from_networkx",
    "bipartite_from_scipy",
    "block_to_graph",
    "broadcast_edges",
    "broadcast_nodes",
    "compact_graphs",
    "contrib",
    "create_block",
    "data",
    "dataloading",
    "dfs_edges_generator",
    "dfs_labeled_edges_generator",
    "double_radius_node_labeling",
    "dynamic_shapes",
    "edge_homophily",
    "edge_label_informativeness",
    "edge_subgraph",
    "edge_type_subgraph",
    "empty_cache",
    "estimate",
    "explain",
    "export",
    "from_networkx",
    "from_pandas",
    "from_pyg",
    "from_rdkit",
    "from_scipy",
    "from_smiles",
    "from_tables",
    "function",
    "geometry",
    "graph",
    "hetero_from_relations",
    "hetero_from_shared_memory",
    "heterograph",
    "in_subgraph",
    "inference",
    "khop_adj",
    "khop_graph",
    "khop_in_subgraph",
    "khop_out_subgraph",
    "knn_graph",
    "lap_pe",
    "laplacian_lambda_max",
    "laplacian_pe",
    "line_graph",
    "linkx_homophily",
    "load_graphs",
    "max_edges",
    "max_nodes",
    "mean_edges",
    "mean_nodes",
    "memory_summary",
    "merge",
    "metapath_reachable_graph",
    "metis_partition",
    "metis_partition_assignment",
    "metrics",
    "nn",
    "node_homophily",
    "node_label_informativeness",
    "node_subgraph",
    "node_type_subgraph",
    "norm_by_dst",
    "ops",
    "out_subgraph",
    "partition_graph_with_halo",
    "plot",
    "profile",
    "prop_edges",
    "prop_edges_dfs",
    "prop_nodes",
    "prop_nodes_bfs",
    "prop_nodes_topo",
    "radius_graph",
    "rand_bipartite",
    "rand_graph",
    "rand_power_law_graph",
    "random_walk_pe",
    "readout_edges",
    "readout_nodes",
    "remove_edges",
    "remove_nodes",
    "remove_self_loop",
    "reorder_graph",
    "reverse",
    "sampling",
    "save_graphs",
    "seed",
    "segmented_knn_graph",
    "shortest_dist",
    "slice_batch",
    "softmax_edges",
    "softmax_nodes",
    "sort_csc_by_tag",
    "sort_csr_by_tag",
    "sparse",
    "sum_edges",
    "sum_nodes",
    "summary",
    "svd_pe",
    "to_bfloat16",
    "to_bidirected",
    "to_bidirected_stale",
    "to_block",
    "to_double",
    "to_float",
    "to_half",
    "to_hetero",
    "to_heterogeneous",
    "to_homo",
    "to_homogeneous",
    "to_networkx",
    "to_pandas",
    "to_pyg",
    "to_simple",
    "to_simple_graph",
    "to_tensors",
    "topk_edges",
    "topk_nodes",
    "topological_nodes_generator",
    "transforms",
    "unbatch",
    "unbatch_hetero",
]
