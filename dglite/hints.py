"""Hints in errors: what dglite calls the names, attributes and arguments that users of PyG, NetworkX and DGL reach for.

A package answers names that it lacks by ``__getattr__ = hints.names_of(__name__)``. The message gives the counterpart
from the tables below, else the public name that is spelled most alike.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

_LAYERS = str(Path(__file__).with_name("nn"))
"""Where the code of dglite's layers is."""
_EDGE_INDEX = "g = dglite.graph((edge_index[0], edge_index[1]), num_nodes=len(x))"
_BATCHED = "the graph knows its batch, dglite.batch(graphs), so no vector `batch` is passed"

_NAMES = {
    # graphs, files and tables
    "DiGraph": "dglite.graph((u, v)), whose edges are directed",
    "Graph": "dglite.graph((u, v)); dglite.to_bidirected(g) adds the reversed edges",
    "disjoint_union": "dglite.batch(graphs)",
    "from_adj": "dglite.from_scipy(matrix); of a dense matrix dglite.graph(tuple(matrix.nonzero().T))",
    "from_dense": "dglite.graph(tuple(matrix.nonzero().T))",
    "from_edges": "dglite.graph((u, v))",
    "from_csv": "dglite.from_tables('edges.csv', 'nodes.csv'), or dglite.from_pandas(pandas.read_csv('edges.csv'))",
    "from_edgelist": "dglite.graph((u, v)) of ids, dglite.from_pandas of a table",
    "from_parquet": "dglite.from_tables('edges.parquet', 'nodes.parquet'), or dglite.from_pandas of a table",
    "from_pandas_edgelist": "dglite.from_pandas(edges, nodes, source='u', target='v')",
    "mol_to_bigraph": "dglite.from_rdkit(molecule) and dglite.from_smiles('CCO')",
    "read_csv": "dglite.from_tables('edges.csv', 'nodes.csv'), or dglite.from_pandas(pandas.read_csv('edges.csv'))",
    "read_parquet": "dglite.from_tables('edges.parquet', 'nodes.parquet'), or dglite.from_pandas of a table",
    "smiles_to_bigraph": "dglite.from_smiles('CCO')",
    # torch's
    "Dropout": "torch.nn.Dropout",
    "Module": "torch.nn.Module",
    "Parameter": "torch.nn.Parameter",
    "ReLU": "torch.nn.ReLU",
    "relu": "torch.relu",
    "accuracy": "(logits.argmax(1) == labels).float().mean()",
    # optimizers and losses
    "Adam": "torch.optim.Adam(model.parameters()); SparseAdam is for dglite.nn.NodeEmbedding",
    "AdamW": "torch.optim.AdamW(model.parameters())",
    "SGD": "torch.optim.SGD(model.parameters(), lr=0.1)",
    # layers
    "ARMAConv": "dglite.nn.TAGConv and dglite.nn.ChebConv are its nearest",
    "AttentionalAggregation": "dglite.nn.GlobalAttentionPooling(gate_nn)(g, x)",
    "BatchNorm": "torch.nn.BatchNorm1d",
    "CGConv": "write it with update_all, or use dglite.nn.CFConv",
    "DynamicEdgeConv": "dglite.nn.KNNGraph(k) makes the graph, dglite.nn.EdgeConv is the layer",
    "GraphSage": "a stack of dglite.nn.SAGEConv; dglite.nn.Sequential passes the graph along",
    "MPNN": "dglite.nn.NNConv, or update_all with a message of your own",
    "SAGPool": "dglite.topk_nodes selects the nodes, dglite.node_subgraph keeps them",
    "SchNet": "a stack of dglite.nn.CFConv",
    "std": "sqrt(mean(x * x) - mean(x) ** 2), of two reducers fn.mean",
    "Cora": "dglite.data.CoraGraphDataset",
    "MUTAG": "dglite.data.TUDataset('MUTAG')",
    "MoleculeNet": "dglite.from_smiles(table['smiles'])",
    "RandomSampler": "shuffle=True of the loader",
    "collate": "dglite.batch(graphs); dglite.dataloading.GraphDataLoader does it",
    "GAE": "an encoder of dglite.nn with dglite.nn.EdgePredictor('dot')",
    "GATConvV2": "dglite.nn.GATv2Conv",
    "GCN2": "dglite.nn.GCN2Conv",
    "GCNConv": "dglite.nn.GraphConv(in_feats, out_feats), called as conv(g, x) on a graph with self-loops",
    "GCNIIConv": "dglite.nn.GCN2Conv",
    "GraphNorm": "torch.nn.BatchNorm1d or torch.nn.LayerNorm",
    "GraphSAGE": "a stack of dglite.nn.SAGEConv; dglite.nn.Sequential passes the graph along",
    "GCN": "a stack of dglite.nn.GraphConv; dglite.nn.Sequential passes the graph along",
    "GAT": "a stack of dglite.nn.GATConv; dglite.nn.Sequential passes the graph along",
    "GIN": "a stack of dglite.nn.GINConv; dglite.nn.Sequential passes the graph along",
    "GlobalAttention": "dglite.nn.GlobalAttentionPooling(gate_nn)(g, x)",
    "HANConv": "dglite.nn.GATConv on each dglite.metapath_reachable_graph",
    "HeteroConv": "dglite.nn.HeteroGraphConv({etype: layer})(g, {ntype: x})",
    "HeteroDictLinear": "dglite.nn.HeteroLinear",
    "InnerProductDecoder": "dglite.nn.EdgePredictor('dot')",
    "LayerNorm": "torch.nn.LayerNorm",
    "Linear": "torch.nn.Linear",
    "MessagePassing": "g.update_all(message, reduce), with dglite.function or functions of your own",
    "MLP": "torch.nn.Sequential of torch.nn.Linear",
    "Node2Vec": "dglite.sampling.node2vec_random_walk draws its walks; dglite.nn.DeepWalk trains on uniform ones",
    "RGCNConv": "dglite.nn.RelGraphConv(in_feat, out_feat, num_rels)(g, x, etypes)",
    "FastRGCNConv": "dglite.nn.RelGraphConv(in_feat, out_feat, num_rels)(g, x, etypes)",
    "RGATConv": "dglite.nn.HeteroGraphConv of dglite.nn.GATConv",
    "SAGPooling": "dglite.topk_nodes selects the nodes, dglite.node_subgraph keeps them",
    "TopKPooling": "dglite.topk_nodes selects the nodes, dglite.node_subgraph keeps them",
    "SortAggregation": "dglite.nn.SortPooling(k)(g, x)",
    "SumAggregation": "dglite.nn.SumPooling()(g, x)",
    "MeanAggregation": "dglite.nn.AvgPooling()(g, x)",
    "MaxAggregation": "dglite.nn.MaxPooling()(g, x)",
    "TransformerConv": "dglite.nn.DotGatConv, or dglite.nn.BiasedMHA for attention between all nodes of a graph",
    "VGAE": "an encoder of dglite.nn with dglite.nn.EdgePredictor('dot')",
    "global_add_pool": f"dglite.nn.SumPooling()(g, x) or dglite.sum_nodes(g, 'h'); {_BATCHED}",
    "global_max_pool": f"dglite.nn.MaxPooling()(g, x) or dglite.max_nodes(g, 'h'); {_BATCHED}",
    "global_mean_pool": f"dglite.nn.AvgPooling()(g, x) or dglite.mean_nodes(g, 'h'); {_BATCHED}",
    "to_hetero": "dglite.nn.HeteroGraphConv({etype: layer})",
    # graphs and data sets
    "Amazon": "dglite.data.AmazonCoBuyComputerDataset or dglite.data.AmazonCoBuyPhotoDataset",
    "Batch": "dglite.batch(graphs); dglite.unbatch(g) takes it apart",
    "CitationFull": "dglite.data.CoraFullDataset",
    "Data": f"{_EDGE_INDEX}, then g.ndata['x'] = x; dglite.from_pyg(data) converts a Data object",
    "Dataset": "dglite.data.DGLDataset",
    "Embedding": "torch.nn.Embedding; dglite.NodeEmbedding with dglite.optim updates only the rows that are read",
    "Entities": "dglite.data.AIFBDataset, MUTAGDataset, BGSDataset or AMDataset",
    "FB15k_237": "dglite.data.FB15k237Dataset",
    "Flickr": "dglite.data.FlickrDataset",
    "HeterophilousGraphDataset": "dglite.data.RomanEmpireDataset, AmazonRatingsDataset, MinesweeperDataset and others",
    "HeteroData": "dglite.heterograph({(srctype, etype, dsttype): (u, v)}); dglite.from_pyg converts one",
    "InMemoryDataset": "dglite.data.DGLDataset",
    "KarateClub": "dglite.data.KarateClubDataset()[0]",
    "LRGBDataset": "dglite.data.PeptidesFunctionalDataset or dglite.data.PeptidesStructuralDataset",
    "MovieLens": "dglite.data.MovieLensDataset",
    "PPI": "dglite.data.PPIDataset",
    "Planetoid": "dglite.data.CoraGraphDataset()[0], CiteseerGraphDataset()[0] or PubmedGraphDataset()[0]",
    "QM9": "dglite.data.QM9EdgeDataset or dglite.data.QM9Dataset",
    "Reddit": "dglite.data.RedditDataset()[0]",
    "WebKB": "dglite.data.CornellDataset, TexasDataset or WisconsinDataset",
    "WikipediaNetwork": "dglite.data.ChameleonDataset or dglite.data.SquirrelDataset",
    "WikiCS": "dglite.data.WikiCSDataset",
    "WordNet18": "dglite.data.WN18Dataset",
    "Yelp": "dglite.data.YelpDataset",
    "ZINC": "dglite.data.ZINCDataset",
    # loaders
    "ClusterData": "dglite.dataloading.ClusterGCNSampler(g, k)",
    "ClusterLoader": "dglite.dataloading.DataLoader(g, torch.arange(k), dglite.dataloading.ClusterGCNSampler(g, k))",
    "GraphSAINTNodeSampler": "dglite.dataloading.SAINTSampler(mode='node', budget=...)",
    "GraphSAINTEdgeSampler": "dglite.dataloading.SAINTSampler(mode='edge', budget=...)",
    "GraphSAINTRandomWalkSampler": "dglite.dataloading.SAINTSampler(mode='walk', budget=...)",
    "HGTLoader": "dglite.dataloading.NeighborSampler with a dictionary of fan-outs by edge type",
    "ImbalancedSampler": "torch.utils.data.WeightedRandomSampler",
    "LinkNeighborLoader": "dglite.dataloading.as_edge_prediction_sampler(sampler, negative_sampler=...)",
    "NeighborLoader": "dglite.dataloading.DataLoader(g, ids, NeighborSampler(fanouts), batch_size=...)",
    # transforms and utilities
    "AddLaplacianEigenvectorPE": "dglite.LapPE(k, feat_name='PE')",
    "AddRandomWalkPE": "dglite.RandomWalkPE(k, feat_name='PE')",
    "AddSelfLoops": "dglite.AddSelfLoop()",
    "LaplacianEigenvectorPE": "dglite.LapPE(k, feat_name='PE')",
    "NormalizeFeatures": "dglite.RowFeatNormalizer()",
    "SIGN": "dglite.SIGNDiffusion(k)",
    "ToSparseTensor": "g.adj() is the sparse matrix of a graph",
    "ToUndirected": "dglite.AddReverse(), or dglite.to_bidirected(g)",
    "add_self_loops": "dglite.add_self_loop(g)",
    "avg": "the average is dglite.function.mean('m', 'h')",
    "degree": "g.in_degrees() and g.out_degrees()",
    "dense_to_sparse": "dglite.from_scipy, or dglite.graph(adjacency.nonzero(as_tuple=True))",
    "k_hop_subgraph": "dglite.khop_in_subgraph(g, nodes, k)",
    "negative_sampling": "dglite.sampling.global_uniform_negative_sampling(g, num_samples)",
    "remove_self_loops": "dglite.remove_self_loop(g)",
    "scatter": "dglite.ops.segment_reduce for sorted rows, g.update_all along edges",
    "softmax": "dglite.ops.edge_softmax(g, scores)",
    "to_dense_adj": "g.adj().to_dense()",
    "to_undirected": "dglite.to_bidirected(g)",
}
"""By the name of PyG: what dglite has for it."""

_ATTRIBUTES = {
    "adj_t": "g.adj()",
    "add_edges_from": "g.add_edges(u, v)",
    "add_nodes_from": "g.add_nodes(num)",
    "batch": "g.batch_num_nodes() has the sizes of a batch's graphs",
    "coalesce": "dglite.to_simple(g)",
    "copy": "g.clone(); g.local_var() for a copy whose features only are its own",
    "cuda": "g = g.to('cuda')",
    "contains_self_loops": "dglite.remove_self_loop(g) removes them, dglite.add_self_loop(g) adds them",
    "degree": "g.in_degrees() and g.out_degrees()",
    "draw": "dglite.plot(g)",
    "double": "features are converted one by one: g.ndata['h'] = g.ndata['h'].double()",
    "edge_attr": "g.edata holds the features of edges by name, as in g.edata['w'] = weights",
    "edge_index": "torch.stack(g.edges()) is the edge_index of PyG, dglite.graph((u, v)) makes a graph of one",
    "edge_types": "g.canonical_etypes",
    "edge_weight": "g.edata holds the features of edges by name, as in g.edata['w'] = weights",
    "float": "features are converted one by one: g.ndata['h'] = g.ndata['h'].float()",
    "half": "features are converted one by one: g.ndata['h'] = g.ndata['h'].half()",
    "has_edge": "g.has_edges_between(u, v)",
    "has_isolated_nodes": "(g.in_degrees() + g.out_degrees() == 0).any()",
    "has_self_loops": "g.has_edges_between(g.nodes(), g.nodes()).any()",
    "is_connected": "networkx.is_weakly_connected(dglite.to_networkx(g))",
    "is_undirected": "dglite keeps directed edges; dglite.to_bidirected(g) adds the reversed ones",
    "is_directed": "dglite keeps directed edges; dglite.to_bidirected(g) adds the reversed ones",
    "neighbors": "g.successors(v) and g.predecessors(v)",
    "node_types": "g.ntypes",
    "num_classes": "the data set has it: dataset.num_classes",
    "num_edge_features": "g.edata['w'].shape[1]",
    "num_features": "g.ndata['x'].shape[1]",
    "num_node_features": "g.ndata['x'].shape[1]",
    "order": "g.num_nodes()",
    "plot": "dglite.plot(g)",
    "pos": "g.ndata holds the features of nodes by name, as in g.ndata['pos'] = positions",
    "ptr": "g.batch_num_nodes() has the sizes of a batch's graphs",
    "save": "dglite.save_graphs('graphs.bin', [g])",
    "shape": "g.num_nodes() and g.num_edges()",
    "size": "g.num_nodes() and g.num_edges()",
    "test_mask": "g.ndata['test_mask']",
    "to_pandas": "dglite.to_pandas(g)",
    "to_undirected": "dglite.to_bidirected(g)",
    "train_mask": "g.ndata['train_mask']",
    "val_mask": "g.ndata['val_mask']",
    "x": "g.ndata holds the features of nodes by name, as in g.ndata['x'] = features",
    "y": "g.ndata holds labels, too, as in g.ndata['label'] = labels",
}
"""By an attribute of PyG's Data or NetworkX's graphs: what a DGLGraph has for it."""

DATA_NAMES = ("x", "y", "pos", "edge_index", "edge_attr", "edge_weight", "train_mask", "val_mask", "test_mask")
"""Tensors of PyG's Data, of those above."""

FEATURE_NAMES = (
    *DATA_NAMES,
    *"attr e edge_type emb embed embedding f feat feats feature features h id ids label labels mask name norm".split(),
    *"node_type rel_type score t target time timestamp type w weight weights z".split(),
)
"""Features that users assign as attributes of ``g.ndata``."""

_PACKAGES = [f"dglite.{name}" for name in "nn dataloading data transforms sampling ops function optim".split()]
"""Where a name is looked for that another package of dglite lacks."""

_CONVERTED = {
    "networkx": "convert it first: dglite.from_networkx(graph)",
    "torch_geometric": "convert it first: dglite.from_pyg(data)",
    "scipy": "convert it first: dglite.from_scipy(matrix)",
    "dgl": "it is of another package; by python -m dglite.compat script.py, dgl is dglite",
    "pandas": "convert it first: dglite.from_pandas(edges, nodes)",
    "polars": "convert it first: dglite.from_pandas(edges, nodes)",
    "pyarrow": "convert it first: dglite.from_pandas(edges, nodes)",
}
"""By the package of what was passed as a graph: how it becomes one."""


def names_of(package: str, modules: Mapping[str, str] = {}, reasons: Callable[[str], str] | None = None) -> Any:
    """Return the ``__getattr__`` of a package, whose error says what a missing name is called here.

    ``modules`` are imported when their name is first read, as are those of functions, ``"module:function"``;
    ``reasons`` says why a name of DGL is missing, or "".
    ``from package import name`` would replace an AttributeError by one of its own, so there it is an ImportError.
    """

    def __getattr__(name: str) -> Any:
        if name in modules:
            module, _, attribute = modules[name].partition(":")
            imported = import_module(module)
            return getattr(imported, attribute) if attribute else imported
        if name.startswith("_"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        reason = reasons(name) if reasons is not None and name not in _NAMES else ""
        owner = f"module {package!r}"
        if reason:
            error = AttributeError(f"{owner} has no attribute {name!r}: {reason}")
        else:
            error = attribute_error(owner, name, (*getattr(sys.modules[package], "__all__", ()), *modules), _NAMES)
        if sys._getframe(1).f_code.co_name == "_handle_fromlist" and find_spec(f"{package}.{name}") is None:
            raise ImportError(str(error), name=package)
        raise error

    return __getattr__


def attribute_error(owner: str, name: str, names: Iterable[str], table: dict[str, str] = _ATTRIBUTES) -> AttributeError:
    """Return the error for a name that ``owner``, which has ``names``, lacks, with a counterpart or a similar name."""
    message = f"{owner} has no attribute {name!r}"
    if name in table:
        return AttributeError(f"{message}; in dglite: {table[name]}")
    if table is _NAMES and (
        elsewhere := [package for package in _PACKAGES if name in getattr(sys.modules.get(package), "__all__", ())]
    ):
        return AttributeError(f"{message}; it is {elsewhere[0]}.{name}")
    if table is _ATTRIBUTES and name in getattr(sys.modules.get("dglite"), "__all__", ()):
        return AttributeError(f"{message}; it is a function, dglite.{name}")
    similar = difflib.get_close_matches(name, [each for each in names if not each.startswith("_")], 1)
    return AttributeError(f"{message}; did you mean {similar[0]!r}?" if similar else message)


def not_a_feature(name: str) -> str:
    """Return the warning for a tensor that is assigned to ``g.name``, one of ``DATA_NAMES``."""
    return (
        f"g.{name} is an attribute that no function of dglite reads, batches or saves; in dglite: {_ATTRIBUTES[name]}"
    )


def attributes_of(hint: str, instead: Mapping[str, str] = {}) -> Any:
    """Return the ``__getattr__`` of a class, whose error ends with ``hint``; ``{name}`` in it is the missing name.

    Some names have a hint of their own, ``instead``. Of a mapping the error lists the keys.
    """

    def __getattr__(self: Any, name: str) -> Any:
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property that failed raises its own error again
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name.startswith("_"):
            raise AttributeError(message)
        there = f"; there are {[*self] or 'none'}" if isinstance(self, Mapping) else ""
        raise AttributeError(f"{message}; {instead.get(name) or hint.format(name=name)}{there}")

    return __getattr__


def not_called(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Raise for features that are called: ``edges.src('h')``."""
    name = args[0] if args and isinstance(args[0], str) else "h"
    raise TypeError(f"features are read by name, [{name!r}], and are not called")


def no_assignment(hint: str) -> Any:
    """Return the ``__setitem__``, ``__delitem__`` or ``__setattr__`` of a view that users cannot write to so."""

    def refuse(self: Any, key: Any, value: Any = None) -> None:
        kind = type(self).__name__
        target = f"{kind}.{key}" if key in getattr(self, "_fields", ()) else f"{kind}[{key!r:.30}]"
        raise TypeError(f"{target} cannot be set or deleted; {hint}")

    return refuse


def refuse_assignments(cls: type, names: Iterable[str], hint: str) -> None:
    """Give properties of a class a setter that raises an error which ends with ``hint``; reading costs what it did."""
    for name in names:
        setattr(cls, name, getattr(cls, name).setter(_refuses(name, hint)))


def _refuses(name: str, hint: str) -> Callable[[Any, Any], None]:
    def refuse(self: Any, value: Any) -> None:
        raise AttributeError(f"{name!r} of a {type(self).__name__} cannot be set; {hint}")

    return refuse


class NotAnAttribute:
    """A name of a feature that users assign to as an attribute, ``g.ndata.x = t``, in a class without a ``__dict__``.

    A ``__setattr__`` would be paid for by each attribute of each new frame.
    """

    def __init__(self, name: str, hint: str) -> None:
        self._name, self._hint = name, hint

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}")

    def __set__(self, instance: Any, value: Any) -> None:
        hint = self._hint.format(name=self._name)
        raise AttributeError(f"features are set by name and not as attributes; write {hint}")

    def __delete__(self, instance: Any) -> None:
        raise AttributeError(f"features are dropped by name: del g.ndata[{self._name!r}]")


def refuse_features(cls: type, hint: str) -> None:
    """Have a class refuse common names of features as attributes; ``{name}`` in ``hint`` is the name."""
    for name in FEATURE_NAMES:
        if name not in vars(cls):
            setattr(cls, name, NotAnAttribute(name, hint))
    cls.__dir__ = lambda self: [name for name in object.__dir__(self) if name not in FEATURE_NAMES]  # type: ignore


SYMBOLIC_TRACE = (
    "torch.fx.symbolic_trace passes stand-ins for graphs and features, of which dglite computes nothing: export the "
    "model, dglite.export(model, g, x), trace it by torch.fx.experimental.proxy_tensor.make_fx, or give a "
    "torch.fx.Tracer an is_leaf_module that is true of dglite's layers"
)


def is_stand_in(value: Any) -> bool:
    """Whether a value is what ``torch.fx.symbolic_trace`` passes in the place of an argument."""
    return type(value).__module__ == "torch.fx.proxy"


def not_a_graph(value: Any) -> str:
    """Return the message for ``value`` where a graph is expected: what came, and how a graph is made of it."""
    if is_stand_in(value):
        return SYMBOLIC_TRACE
    layer, arguments = _calling_layer()
    kind = type(value)
    shape = getattr(value, "shape", None)
    package = kind.__module__.partition(".")[0]
    text = kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"
    text += f" of shape {tuple(shape)}" if isinstance(shape, tuple) else ""
    message = f"{layer or 'this function'} takes a graph as its first argument, got {text}"
    swapped = [name for name, other in arguments.items() if type(other).__name__ == "DGLGraph"]
    if swapped:
        return f"{message}, and a graph for {swapped[0]!r}: pass the graph first"
    hint = _CONVERTED.get(package, "make one by dglite.graph((u, v))")
    first = value[0] if isinstance(value, list | tuple) and value else None
    if first is not None and type(first).__name__ == "DGLGraph":
        blocks = f"each layer takes a block of its own, as in {layer or 'layer'}(blocks[0], x)"
        hint = blocks if first.is_block else "dglite.batch(graphs) makes one graph of several"
    elif hasattr(value, "forward"):
        hint = "a model is called on one, and dglite.summary(model, g, x) lists its layers and kernels"
    if shape is not None and package not in _CONVERTED:
        call = f"then {layer}(g, x)" if layer else "then pass g"
        hint = f"dglite takes a graph object where PyG takes edge_index: {_EDGE_INDEX}, {call}"
    return f"{message}; {hint}"


def _calling_layer() -> tuple[str, dict[str, Any]]:
    """Return the name of the layer whose ``forward`` runs, and its arguments by name; "" and {} outside of one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        # Variables of a frame that torch's compiler runs must not be read: torch 2.4 ends the process on Python 3.11.
        if code.co_name == "forward" and code.co_filename.startswith(_LAYERS) and code.co_varnames[0] == "self":
            names = code.co_varnames[1 : code.co_argcount]
            return type(frame.f_locals["self"]).__name__, {name: frame.f_locals.get(name) for name in names}
        frame = frame.f_back
    return "", {}
