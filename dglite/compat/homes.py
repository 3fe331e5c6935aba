"""Which modules of dglite hold the names of each module of DGL; the first that has a name is used."""

from __future__ import annotations

_ROOT, _PACKAGE = "dgl", "dglite"
_OURS = "dglite.compat.distributed"
_DISTRIBUTED = " ".join(
    [_OURS, *(f"{_OURS}.{name}" for name in "rpc services loaders context kvstore graph constants partition".split())]
)

_HOMES = {
    "dgl": "dglite.compat.top dglite.compat.mpops dglite",
    "dgl._ffi": "dglite.compat.base",
    "dgl._ffi.base": "dglite.compat.base",
    "dgl._ffi.object": "dglite.compat.pickled",
    "dgl._sparse_ops": "dglite.compat.sparse_ops",
    "dgl.backend": "dglite.compat.backend",
    "dgl.base": "dglite.compat.base",
    "dgl.batch": "dglite.batch dglite.classic",
    "dgl.batched_graph": "dglite",
    "dgl.batched_heterograph": "dglite.classic dglite.compat.pickled",
    "dgl.convert": "dglite.convert dglite.transforms dglite.classic",
    "dgl.core": "dglite.compat.core",
    "dgl.data": "dglite.compat.data dglite.data",
    "dgl.data.citation_graph": "dglite.data.citation dglite.data.cora_binary dglite.compat.data",
    "dgl.data.citegrh": "dglite.data.citation dglite.data.cora_binary dglite.compat.data",
    "dgl.data.dgl_dataset": "dglite.data.dataset dglite.compat.data",
    "dgl.data.gnn_benckmark": "dglite.data dglite.compat.data",
    "dgl.data.graph_serialize": "dglite.io",
    "dgl.data.heterograph_serialize": "dglite.io",
    "dgl.data.knowledge_graph": "dglite.data dglite.compat.data",
    "dgl.data.tensor_serialize": "dglite.compat.data dglite.io",
    "dgl.data.utils": "dglite.compat.data dglite.data.utils",
    "dgl.dataloading": "dglite.compat.dataloading dglite.dataloading",
    "dgl.dataloading.dist_dataloader": f"dglite.compat.dataloading dglite.dataloading {_DISTRIBUTED}",
    "dgl.dataloading.neighbor_sampler": "dglite.compat.dataloading dglite.dataloading",
    "dgl.distributed": f"{_DISTRIBUTED} dglite.distributed",
    "dgl.distributed.dist_dataloader": f"{_DISTRIBUTED} dglite.distributed dglite.dataloading",
    "dgl.distributed.kvstore": "dglite.compat.distributed.kvstore",
    "dgl.distributed.nn": _DISTRIBUTED,
    "dgl.distributed.optim": "dglite.distributed.optim",
    "dgl.distributed.role": "dglite.compat.distributed.role",
    "dgl.distributed.rpc": "dglite.compat.distributed.rpc",
    "dgl.frame": "dglite.compat.frame dglite.compat.pickled",
    "dgl.global_config": "dglite.compat.top",
    "dgl.graph_index": "dglite.compat.pickled",
    "dgl.graphbolt": "dglite.compat.graphbolt",
    "dgl.graphbolt.datapipes": "dglite.compat.graphbolt",
    "dgl.graphbolt.impl": "dglite.compat.graphbolt",
    "dgl.graphbolt.internal": "dglite.compat.graphbolt.internal dglite.compat.graphbolt",
    "dgl.heterograph": "dglite.compat.pickled",
    "dgl.heterograph_index": "dglite.compat.pickled",
    "dgl.init": "dglite.compat.frame",
    "dgl.label_informativeness": "dglite.homophily",
    "dgl.logging": "dglite.compat.top",
    "dgl.merge": "dglite.batch",
    "dgl.mpops": "dglite.compat.mpops",
    "dgl.multiprocessing": "dglite.compat.processes torch.multiprocessing",
    "dgl.multiprocessing.pytorch": "dglite.compat.processes torch.multiprocessing",
    "dgl.ndarray": "dglite.compat.ndarray dglite.compat.pickled",
    "dgl.nn": "dglite.nn dglite.nn.pytorch",
    "dgl.nn.pytorch.glob": "dglite.nn.pytorch dglite.nn.glob.setattention dglite.compat.layers",
    "dgl.nn.pytorch.hetero": "dglite.nn.pytorch dglite.compat.nn dglite.compat.layers",
    "dgl.nn.pytorch.network_emb": "dglite.nn.pytorch dglite.compat.layers",
    "dgl.nn.pytorch.utils": "dglite.nn.pytorch dglite.compat.nn",
    "dgl.nn.utils": "dglite.nn.pytorch dglite.compat.nn",
    "dgl.ops": "dglite.compat.ops dglite.ops",
    "dgl.partition": "dglite.compat.partition dglite.transforms",
    "dgl.random": "dglite.compat.random",
    "dgl.sampling.pinsage": "dglite.sampling dglite.compat.sampling",
    "dgl.subgraph": "dglite.subgraph dglite.compat.pickled",
    "dgl.transform": "dglite.transforms dglite.subgraph dglite.classic",
    "dgl.utils": "dglite.compat.utils",
    "dgl.view": "dglite.compat.view",
}
"""Modules of DGL that have another place here, or more than one. All others have the same name."""

_INNER = {
    "dgl.backend": "backend pytorch",
    "dgl.backend.pytorch": "sparse tensor",
    "dgl.contrib.sampling": "randomwalk sampler",
    "dgl.data": "actor adapter bitcoinotc cluster csv_dataset fakenews flickr fraud gdelt geom_gcn gindt gnn_benchmark "
    "heterophilous_graphs icews18 karate lrgb minigc movielens pattern ppi qm7b qm9 qm9_edge rdf reddit sbm superpixel "
    "synthetic tree tu wikics yelp zinc",
    "dgl.dataloading": "base capped_neighbor_sampler cluster_gcn dataloader dist_dataloader graphsaint labor_sampler "
    "neighbor_sampler shadow spot_target pytorch",
    "dgl.distributed": "constants dist_context dist_dataloader dist_graph dist_tensor graph_partition_book "
    "graph_services partition",
    "dgl.distributed.nn": "pytorch sparse_emb",
    "dgl.distributed.nn.pytorch": "sparse_emb",
    "dgl.distributed.optim": "pytorch sparse_optim",
    "dgl.distributed.optim.pytorch": "sparse_optim utils",
    "dgl.function": "base message reducer",
    "dgl.geometry": "edge_coarsening fps",
    "dgl.graphbolt": "base dataloader dataset external_utils feature_fetcher feature_store internal_utils item_sampler "
    "itemset minibatch minibatch_transformer negative_sampler sampled_subgraph sampling_graph subgraph_sampler",
    "dgl.graphbolt.datapipes": "utils visualization",
    "dgl.graphbolt.impl": "basic_feature_store cpu_cached_feature cpu_feature_cache fused_csc_sampling_graph "
    "gpu_cached_feature gpu_feature_cache gpu_graph_cache in_subgraph_sampler legacy_dataset neighbor_sampler "
    "ondisk_dataset ondisk_metadata sampled_subgraph_impl temporal_neighbor_sampler torch_based_feature_store "
    "uniform_negative_sampler",
    "dgl.graphbolt.internal": "item_sampler_utils sample_utils utils",
    "dgl.mpops": "edgewise fused nodewise",
    "dgl.nn": "conv explain factory glob gt hetero linear link network_emb softmax sparse_emb",
    "dgl.nn.pytorch": "conv explain factory glob gt hetero linear link network_emb softmax sparse_emb",
    "dgl.nn.pytorch.explain": "gnnexplainer pgexplainer subgraphx",
    "dgl.ops": "edge_softmax gather_mm sddmm segment spmm",
    "dgl.optim": "pytorch",
    "dgl.optim.pytorch": "sparse_optim",
    "dgl.sampling": "labor negative neighbor node2vec_randomwalk pinsage randomwalks",
    "dgl.sparse": "broadcast elementwise_op elementwise_op_sp matmul reduction sddmm softmax sparse_matrix unary_op",
    "dgl.transforms": "functional module to_block",
    "dgl.utils": "checks data exception filter internal pin_memory shared_mem",
}
"""Packages of DGL whose inner modules have the names that the package has."""


def homes(module: str) -> tuple[str, ...]:
    """Return the names of the modules that a module of DGL reads from; they need not exist."""
    modules = _HOMES.get(module)
    if modules is not None:
        return tuple(modules.split())
    package, _, name = module.rpartition(".")
    if name in _INNER.get(package, "").split():
        return homes(package)
    if package in ("dgl.nn.pytorch.conv", "dgl.nn.pytorch.gt", "dgl.nn.pytorch.link"):
        inner = f"dglite.nn.{package.rpartition('.')[2]}"
        return (f"{inner}.{name}", inner, "dglite.compat.nn", "dglite.compat.layers")
    return (_PACKAGE + module.removeprefix(_ROOT),)


def public_name(name: str) -> str:
    """Return a dotted name of DGL without the inner module that its last part lies in, where it lies in one."""
    module, _, last = name.rpartition(".")
    package, _, inner = module.rpartition(".")
    return f"{package}.{last}" if inner in _INNER.get(package, "").split() else name
