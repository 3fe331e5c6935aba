"""``benchmarks/first_calls.py`` calls each public name, or it says here why not."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dglite
from dglite import data, dataloading, dynamic, function, geometry, metrics, nn, ops, optim, sampling, sparse
from dglite.graph.base import INTERNAL_NAMES

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NEVER_CALLED = {
    "is another name of something, or a part that what is called is made of": """
        LinkSplit RandomLinkSplit RandomNodeSplit
        BatchedDGLGraph BatchedHeteroDGLGraph DGLHeteroGraph EdgeBatch NodeBatch NodeFlow BaseTransform LapPE
        as_heterograph as_immutable_graph batch_hetero unbatch_hetero to_hetero to_homo to_simple_graph laplacian_pe
        to_bidirected_stale bipartite_from_networkx BlockSampler CapSampler CappedNeighborSampler Collator
        EdgeCollator GraphCollator NodeCollator EdgeDataLoader NodeDataLoader EdgePredictionSampler
        MultiLayerNeighborSampler Sampler SubgraphSampler sp_div_v sp_mul_v sp_sub_v
        TWIRLSUnfoldingAndAttention WeightBasis HeteroGNNExplainer""",
    "is no more than operators of Python on a matrix": "div neg power sub",
    "is an operation of the tensor library, or Python alone": """
        TimeEncoding TGNMemory GraphMixer DyGFormer EventSequence LatestNeighbors
        plot profile to_pandas dynamic_shapes to_tensors
        memory_summary empty_cache FeatureDropout SparseFeatures SparseLinear save_state_dict DenseChebConv
        DenseGraphConv DenseSAGEConv pairwise_squared_distance LapPosEncoder PathEncoder SpatialEncoder
        SpatialEncoder3d HeteroEmbedding HeteroLinear TransE TransR GroupRevRes EdgeWeightNorm SparseAdagrad SparseAdam
        SparseGradOptimizer find_exclude_eids hot_rows set_dst_lazy_features set_edge_lazy_features
        set_node_lazy_features set_src_lazy_features SpotTarget""",
    "needs files, processes, or a package that may be missing": """
        export load_program from_pandas from_tables from_rdkit from_smiles
        hetero_from_shared_memory from_pyg to_pyg metis_partition metis_partition_assignment ClusterGCNSampler
        DistDataLoader DistEdgeDataLoader DistNodeDataLoader MappedFeatures FeatureStore
        GraphFolder IGBFolder NodeIds Table convert_tables database_tables estimate_conversion relbench_tables""",
    "reads files that are downloaded": """
        GDELT ICEWS18 BitcoinOTC Coauthor CoraBinary CoraFull AmazonCoBuy LegacyPPIDataset
        check_sha1 download extract_archive get_download_dir load_labels load_tensors loadtxt save_tensors
        AsGraphPredDataset Subset add_node_property_split add_nodepred_split mask_nodes_by_property""",
    "states or reads a description of a graph or a message": """
        clear copy_from_parent copy_to_parent edge_attr_schemes
        edge_id is_homograph from_scipy_sparse_matrix get_e_repr
        get_edge_storage get_etype_id get_n_repr get_node_storage get_ntype_id
        get_ntype_id_from_dst get_ntype_id_from_src is_pinned map_to_subgraph_nid materialize_data metagraph
        node_attr_schemes num_dst_nodes num_src_nodes
        pin_memory_ pop_e_repr pop_n_repr readonly record_stream
        register_apply_edge_func register_apply_node_func register_message_func register_reduce_func
        set_batch_num_edges set_batch_num_nodes set_e_initializer set_e_repr set_n_initializer set_n_repr shared_memory
        to_canonical_etype unpin_memory_
        BinaryMessageFunction CopyMessageFunction MessageFunction ReduceFunction Reshaped copy_edge copy_src
        src_mul_edge message_expression message_function reduce_function""",
    "runs what it is given": "estimate",
    "gathers rows as the loaders with features do": "CachedFeatures ScheduledFeatures TensorFeatures",
    "trains for long before its first answer": "PGExplainer HeteroPGExplainer SubgraphX HeteroSubgraphX",
    "is for the dynamic networks, whose kernels are those of lazy tensors": """
        ByKind Children LastRun LazyTensor Partial Persistent VertexFunction cell last_run persistent""",
}
TABLE = r"(copy_[uev]|[uev]_(add|sub|mul|div|dot|pow)_[uev])(_(sum|mean|max|min|logsumexp))?"
"""Operators that are rendered from one table: some are called for all."""


def unlisted(module: ModuleType | type) -> list[str]:
    """Return the functions and classes of a module, or the methods of a class, that no call of the benchmark names."""
    texts = [(BENCHMARKS / name).read_text() for name in ("first_calls.py", "layers.py")]
    called = set(re.findall(r"\w+", " ".join(texts)))
    names = (
        module.__all__ if isinstance(module, ModuleType) else {n for n in dir(module) if n[0] != "_"} - INTERNAL_NAMES
    )
    return [name for name in names if name[0] != "_" and name not in called and callable(getattr(module, name, None))]


def is_excused(name: str, value: Any) -> bool:
    error = isinstance(value, type) and issubclass(value, Exception | Warning)
    dataset = name.endswith("Dataset")
    return (
        error
        or dataset
        or any(name in names.split() for names in NEVER_CALLED.values())
        or bool(re.fullmatch(TABLE, name))
    )


MODULES = [
    dglite,
    dglite.DGLGraph,
    data,
    function,
    sampling,
    dataloading,
    nn,
    ops,
    sparse,
    geometry,
    metrics,
    dynamic,
    optim,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_benchmark_calls_every_public_name(module):
    missing = [name for name in unlisted(module) if not is_excused(name, getattr(module, name))]
    assert not missing, f"name these in benchmarks/first_calls.py, or say here why not: {missing}"


def test_no_excuse_is_stale():
    left = {name for module in MODULES for name in unlisted(module)}
    stale = [name for names in NEVER_CALLED.values() for name in names.split() if name not in left]
    assert not stale, f"these are called, or are no public names: {stale}"
