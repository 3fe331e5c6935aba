"""Error messages for names of DGL that dglite does not have: what to use instead, or why there is nothing."""

from __future__ import annotations

from typing import NamedTuple

from .homes import public_name


class Lacking(NamedTuple):
    """Why a name is not here."""

    planned: bool
    why: str


_NO_LIBRARY = "there is no C++ library behind dglite, so nothing of its interface"
_INTERNAL = "internal to DGL; dglite reads graph data in dglite.graph and dglite.heterograph"
_SHARED = "use torch.Tensor.share_memory_(), or pass the graph to forked processes"
_NEVER_WAS = "DGL 2 lists the name, but no backend of DGL has it"
_CUGRAPH = "RAPIDS cuGraph is not used"
_LAZY = "dglite's subgraphs and blocks gather features when they are read, without it"
_LOADER = "internal to DGL's loader; dglite.dataloading.DataLoader makes batches in threads of this process"
_SPARSE = "internal to DGL; use the operators, and the methods of dglite.sparse.SparseMatrix"
_FUNCTION = "internal to DGL; dglite.function.MessageFunction and ReduceFunction are what its functions return"

_OTHER_LIBRARY = "layers are for PyTorch; import dgl.nn.pytorch"
_STORE = "there are no servers of features; dglite.distributed has DistEmbedding and DistTensor"
_WALK = "use dgl.sampling.random_walk, which has the arguments metapath and restart_prob"
_CHEMISTRY = "DGL 0.5 moved it to the package dgllife"

_NOT_PLANNED = {
    "dgl._deprecate": "use dgl.DGLGraph",
    "dgl._ffi": _NO_LIBRARY,
    "dgl.backend.NodeEmbedding": _NEVER_WAS,
    "dgl.backend.binary_reduce": _NEVER_WAS,
    "dgl.backend.copy_reduce": _NEVER_WAS,
    "dgl.container": _NO_LIBRARY,
    "dgl.contrib.KVClient": _STORE,
    "dgl.contrib.KVServer": _STORE,
    "dgl.contrib.data": "dgl.data has the data sets of knowledge graphs",
    "dgl.contrib.graph_store": "torch.Tensor.share_memory_() shares features; forked processes share the graph",
    "dgl.contrib.read_ip_config": _STORE,
    "dgl.contrib.sampling.EdgeSampler": "use dgl.dataloading.as_edge_prediction_sampler, with a negative sampler",
    "dgl.contrib.sampling.LayerSampler": "use NeighborSampler, or dgl.dataloading.LaborSampler",
    "dgl.contrib.sampling.bipartite_single_sided_random_walk_with_restart": _WALK,
    "dgl.contrib.sampling.metapath_random_walk": _WALK,
    "dgl.contrib.sampling.random_walk_with_restart": _WALK,
    "dgl.contrib.unified_tensor": "features are tensors; g.pin_memory_() pins those of a graph",
    "dgl.data.chem": _CHEMISTRY,
    "dgl.data.AIFB": "use dgl.data.AIFBDataset",
    "dgl.data.AM": "use dgl.data.AMDataset",
    "dgl.data.BGS": "use dgl.data.BGSDataset",
    "dgl.data.MUTAG": "use dgl.data.MUTAGDataset",
    "dgl.graphbolt.GPUGraphCache": "in-edges are not cached: samples are drawn where the graph is",
    "dgl.kernel": "use the functions of dgl.ops",
    "dgl.model_zoo": _CHEMISTRY,
    "dgl.nn.mxnet": _OTHER_LIBRARY,
    "dgl.nn.tensorflow": _OTHER_LIBRARY,
    "dgl.backend.tensorflow": _OTHER_LIBRARY,
    "dgl.data.csv_dataset_base": "dgl.data.CSVDataset reads such files",
    "dgl.geometry.capi": "use the functions of dgl.geometry",
    "dgl.libdgl": _NO_LIBRARY,
    "dgl.optim.sparse_optim": "internal to DGL; dgl.optim has SparseAdam and SparseAdagrad",
    "dgl.nodeflow": "use dgl.contrib.sampling, which has NodeFlow",
    "dgl.runtime": _NO_LIBRARY,
    "dgl.core.data_dict_to_list": _INTERNAL,
    "dgl.cuda": "torch.cuda has what concerns devices",
    "dgl.data.graph_serialize.StorageMetaData": _NO_LIBRARY,
    "dgl.DGLGraph.to_cugraph": _CUGRAPH,
    "dgl.base.dgl_warning_format": "warnings are shown as Python shows them",
    "dgl.dataloading.CollateWrapper": _LOADER,
    "dgl.dataloading.DDPTensorizedDataset": _LOADER,
    "dgl.dataloading.TensorizedDataset": _LOADER,
    "dgl.dataloading.WorkerInitWrapper": _LOADER,
    "dgl.dataloading.create_tensorized_dataset": _LOADER,
    "dgl.dataloading.remove_parent_storage_columns": _LOADER,
    "dgl.dataloading.restore_parent_storage_columns": _LOADER,
    "dgl.distgnn": "dglite.distributed.FullGraph trains on a whole graph over several processes",
    "dgl.distributed": "belongs to DGL's servers; dglite.distributed has what scripts use, on collectives",
    "dgl.extract_ext_funcs": _NO_LIBRARY,
    "dgl.frame.LazyFeature": _LAZY,
    "dgl.frame.Frame.pin_memory_": "use torch.Tensor.pin_memory() of the columns",
    "dgl.frame.Frame.record_stream": "torch's allocator follows the streams of tensors",
    "dgl.frame.Frame.unpin_memory_": "a frame is never pinned",
    "dgl.from_cugraph": _CUGRAPH,
    "dgl.function.BuiltinFunction": _FUNCTION,
    "dgl.function.TargetCode": _FUNCTION,
    "dgl.get_global_func": _NO_LIBRARY,
    "dgl.LazyFeature": _LAZY,
    "dgl.list_global_func_names": _NO_LIBRARY,
    "dgl.ndarray.SparseFormat": _NO_LIBRARY,
    "dgl.ndarray.cast_to_signed": _NO_LIBRARY,
    "dgl.ndarray.empty": "use dgl.ndarray.array, or a tensor",
    "dgl.ndarray.empty_shared_mem": _SHARED,
    "dgl.ndarray.from_dlpack": "use torch.from_dlpack",
    "dgl.ndarray.numpyasarray": _NO_LIBRARY,
    "dgl.nn.pytorch.CuGraphGATConv": f"{_CUGRAPH}; use GATConv",
    "dgl.nn.pytorch.CuGraphRelGraphConv": f"{_CUGRAPH}; use RelGraphConv",
    "dgl.nn.pytorch.CuGraphSAGEConv": f"{_CUGRAPH}; use SAGEConv",
    "dgl.register_func": _NO_LIBRARY,
    "dgl.sampling.utils": _NO_LIBRARY,
    "dgl.sparse.is_scalar": _SPARSE,
    "dgl.sparse.load_dgl_sparse": _NO_LIBRARY,
    "dgl.sparse.sp_add": _SPARSE,
    "dgl.sparse.sp_div": _SPARSE,
    "dgl.sparse.sp_mul": _SPARSE,
    "dgl.sparse.sp_power": _SPARSE,
    "dgl.sparse.sp_sub": _SPARSE,
    "dgl.sparse.spsp_add": _SPARSE,
    "dgl.sparse.spsp_div": _SPARSE,
    "dgl.sparse.spsp_mul": _SPARSE,
    "dgl.storages": "features are tensors; a NumPy memory map becomes one by torch.from_numpy",
    "dgl.to_cugraph": _CUGRAPH,
    "dgl.TypeCode": _NO_LIBRARY,
    "dgl.utils.ExceptionWrapper": _INTERNAL,
    "dgl.utils.KeyErrorMessage": _INTERNAL,
    "dgl.utils.SparseAdjTuple": _INTERNAL,
    "dgl.utils.elist2tensor": _INTERNAL,
    "dgl.utils.extract_node_subframes_for_block": _INTERNAL,
    "dgl.utils.get_numa_nodes_cores": "threads are placed by the operating system; see numactl",
    "dgl.utils.graphdata2tensors": _INTERNAL,
    "dgl.utils.infer_num_nodes": _INTERNAL,
    "dgl.utils.networkx2tensor": _INTERNAL,
    "dgl.utils.networkxbipartite2tensors": _INTERNAL,
    "dgl.utils.pin_memory_inplace": "use torch.Tensor.pin_memory(), which returns a pinned copy",
    "dgl.utils.scipy2tensor": _INTERNAL,
}

_NOT_YET = {
    "dgl.data": "pass the files' content to dglite.graph; dglite.data.DGLDataset is the base of data sets of your own",
    "dgl.nn": "write it with dglite.function and update_all; a fused kernel runs it",
}


def lacking(name: str) -> Lacking:
    """Return why a dotted name of DGL is missing: the reason of the name, or of the nearest module that has one."""
    name = public_name(name)
    while name:
        if name in _NOT_PLANNED:
            return Lacking(False, _NOT_PLANNED[name])
        if name in _NOT_YET:
            return Lacking(True, _NOT_YET[name])
        name = name.rpartition(".")[0]
    return Lacking(True, "")


def explanation(name: str) -> str:
    """Return a sentence for an error about a dotted name of DGL."""
    why = lacking(name).why
    return f"dglite has no {name}" + (f": {why}" if why else "; docs/dgl_names.md lists what it has")
