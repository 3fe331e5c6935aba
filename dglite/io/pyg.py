"""Exchange with PyTorch Geometric: ``Data`` and ``HeteroData``. That package is imported when it is used."""

from __future__ import annotations

from typing import Any

from ..arguments import explained
from ..backend import Tensor, active
from ..convert import graph, heterograph
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import require_graph

_EDGES = ("edge_index", "adj", "adj_t")


@explained
def from_pyg(data: Any) -> DGLGraph:
    """Return the graph of a ``Data`` or ``HeteroData`` object; tensors are shared.

    Attributes with a row per node or edge, by PyTorch Geometric's own judgement, become features of the same name;
    those of the graph as a whole are left out. Edge i is column i of ``edge_index``; a sparse ``adj_t`` gives its
    entries row after row, and their values as ``edge_weight``.

    Raises DGLError: the object is of another class, or ids are out of range.
    """
    from torch_geometric.data import Data, HeteroData  # optional, 2 s

    if isinstance(data, HeteroData):
        return _from_hetero(data)
    if not isinstance(data, Data):
        raise DGLError(f"expected torch_geometric's Data or HeteroData, got {type(data).__name__}")
    src, dst, weight = _edges_of(data)
    g = graph((src, dst), num_nodes=data.num_nodes or 0)
    for name in data.node_attrs():
        g.ndata[name] = data[name]
    for name in data.edge_attrs():
        if name not in _EDGES:
            g.edata[name] = data[name]
    if weight is not None:
        g.edata["edge_weight"] = weight
    return g


def _from_hetero(data: Any) -> DGLGraph:
    stores = dict(data.edge_items())
    edges = {etype: _edges_of(store) for etype, store in stores.items()}
    counts = {ntype: data[ntype].num_nodes or 0 for ntype in data.node_types}
    g = heterograph({etype: (src, dst) for etype, (src, dst, _) in edges.items()}, counts)
    for ntype in data.node_types:
        for name in data[ntype].node_attrs():
            g.nodes[ntype].data[name] = data[ntype][name]
    for etype, store in stores.items():
        for name in store.edge_attrs():
            if name not in _EDGES:
                g.edges[etype].data[name] = store[name]
        if (weight := edges[etype][2]) is not None:
            g.edges[etype].data["edge_weight"] = weight
    return g


def _edges_of(store: Any) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return source, destination and weight (or None) of each edge."""
    from torch_geometric.typing import SparseTensor  # optional, as above

    if store.get("edge_index") is not None:
        ends = store["edge_index"]
        if not active.is_tensor(ends) or len(active.shape(ends)) != 2 or active.shape(ends)[0] != 2:
            description = f"shape {tuple(active.shape(ends))}" if active.is_tensor(ends) else type(ends).__name__
            raise DGLError(f"edge_index must be a tensor (2, num_edges), got {description}")
        return ends[0], ends[1], None
    for name, transposed in (("adj_t", True), ("adj", False)):
        matrix = store.get(name)
        if matrix is None:
            continue
        if active.is_tensor(matrix):
            matrix = matrix.to_sparse_coo().coalesce()
            (row, col), values = matrix.indices(), matrix.values()
        elif isinstance(matrix, SparseTensor):
            row, col, values = matrix.coo()
        else:
            raise DGLError(f"{name} must be a sparse matrix, got {type(matrix).__name__}")
        return (col, row, values) if transposed else (row, col, values)
    return active.asarray([], "int64"), active.asarray([], "int64"), None


@explained
def to_pyg(g: DGLGraph) -> Any:
    """Return the graph as ``Data``, or as ``HeteroData`` when it has several types; tensors are shared.

    Features become attributes of the same name, edges ``edge_index``, int64. A feature of the nodes and one of the
    edges may not have the same name in ``Data``.

    Raises DGLError: the graph is a block, or two features would become one attribute.
    """
    require_graph(g)
    from torch_geometric.data import Data, HeteroData  # optional, 2 s

    if g.is_block:
        raise DGLError("a block has no counterpart in PyTorch Geometric; make a graph of it by block_to_graph first")
    if g.is_homogeneous:
        shared = sorted(set(g.ndata) & set(g.edata) | {"edge_index", "num_nodes"} & {*g.ndata, *g.edata})
        if shared:
            raise DGLError(f"features {shared} would be one attribute of Data twice; rename them")
        result = Data(edge_index=_edge_index(g, None), num_nodes=g.num_nodes())
        for name, value in [*g.ndata.items(), *g.edata.items()]:
            result[name] = value
        return result
    result = HeteroData()
    for ntype in g.ntypes:
        result[ntype].num_nodes = g.num_nodes(ntype)
        for name, value in g.nodes[ntype].data.items():
            result[ntype][name] = value
    for etype in g.canonical_etypes:
        result[etype].edge_index = _edge_index(g, etype)
        for name, value in g.edges[etype].data.items():
            result[etype][name] = value
    return result


def _edge_index(g: DGLGraph, etype: Any) -> Tensor:
    return active.astype(active.stack(g.edges(etype=etype)), "int64")
