"""Partitioning: METIS through ``pymetis`` assigns nodes, and each part gets a halo of neighbours."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import Tensor
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..graph.storage import make_graph
from ..progress import progress
from ..structure import Adjacency
from ..structure.distinct import in_order_of_appearance
from ..structure.ids import array_of, count_of, integer_array
from ..structure.metagraph import HOMOGENEOUS
from .parts import require_homogeneous, without_parallel

_MOST_EMPTY = 1 << 16
"""Parts that may be made although there are fewer nodes."""
_MODES, _OBJECTIVES = ("k-way", "recursive"), ("cut", "vol")


@explained
def metis_partition_assignment(
    g: DGLGraph,
    k: int,
    balance_ntypes: Tensor | None = None,
    balance_edges: bool = False,
    mode: str = "k-way",
    objtype: str = "cut",
) -> Tensor:
    """Return the part, 0 .. ``k`` - 1, of every node, such that few edges are cut and parts are of like size.

    Edges are taken both ways and once. Needs the package ``pymetis``.

    Raises DGLError: ``pymetis`` is not installed, the graph has several types, or an argument is not understood.

    Parameters
    ----------
    balance_ntypes
        a type number for each node; parts get like numbers of each type.
    balance_edges
        parts get like numbers of in-edges. METIS is given one weight per node: with this or ``balance_ntypes`` it is
        the sum of the balanced quantities, each scaled to the same total, so each is balanced less strictly.
    mode
        ``"k-way"`` or ``"recursive"`` bisection.
    objtype
        ``"cut"`` for few cut edges, ``"vol"`` for little communication, which needs mode ``"k-way"``.
    """
    adjacency = require_homogeneous(g, "metis_partition_assignment")
    if mode not in _MODES or objtype not in _OBJECTIVES or (objtype == "vol" and mode == "recursive"):
        raise DGLError(
            f"mode={mode!r} with objtype={objtype!r} is not understood; expected a mode of {_MODES} and an objective "
            f"of {_OBJECTIVES}, 'vol' with 'k-way' only"
        )
    k = count_of(k, "k", 1, max(adjacency.num_src, 1), remark=", the number of nodes")
    metis = _pymetis()
    src, dst = adjacency.endpoints()
    proper = src != dst
    both = np.concatenate([src[proper], dst[proper]]), np.concatenate([dst[proper], src[proper]])
    nodes = adjacency.num_src
    merged = without_parallel(Adjacency.from_coo(nodes, nodes, *both, validate=False, copy=False))[0].csr()
    weights = _weights(adjacency, balance_ntypes, balance_edges)
    options = metis.Options(seed=0)
    if objtype == "vol":
        options.objtype = metis.ObjType.VOL
    _, parts = metis.part_graph(
        k,
        metis.CSRAdjacency(merged.indptr.astype(np.int64), merged.indices.astype(np.int64)),
        vweights=weights,
        recursive=mode == "recursive",
        options=options,
    )
    return g.ids_tensor(np.asarray(parts, np.int64))


def _pymetis() -> Any:
    try:
        return importlib.import_module("pymetis")
    except ImportError as error:
        raise DGLError(
            "METIS partitioning needs the package pymetis, which is not installed; pip install 'dglite[metis]', or "
            "give partition_graph_with_halo a partition of your own"
        ) from error


def _weights(adjacency: Adjacency, balance_ntypes: Tensor | None, balance_edges: bool) -> np.ndarray | None:
    """Return an integer weight of each node, None where all are alike."""
    num_nodes, shares = adjacency.num_src, []
    if balance_ntypes is not None:
        types = array_of(balance_ntypes, "balance_ntypes")
        if types.shape != (num_nodes,) or types.dtype.kind not in "iub":
            raise DGLError(f"balance_ntypes must be an integer for each of the {num_nodes} nodes, got {types.shape}")
        _, inverse, counts = np.unique(types, return_inverse=True, return_counts=True)
        shares.append(1 / counts[inverse])
    if balance_edges:
        shares.append(adjacency.in_degrees() / max(adjacency.num_edges, 1))
    if not shares or not num_nodes:
        return None
    total = np.sum([np.full(num_nodes, 1 / num_nodes), *shares], axis=0)
    return np.maximum(np.rint(total / total.min()).astype(np.int64), 1)


@explained
def metis_partition(
    g: DGLGraph,
    k: int,
    extra_cached_hops: int = 0,
    reshuffle: bool = False,
    balance_ntypes: Tensor | None = None,
    balance_edges: bool = False,
    mode: str = "k-way",
) -> dict[int, DGLGraph]:
    """Cut a graph into ``k`` parts by METIS and return them with their halos.

    See :func:`metis_partition_assignment` and :func:`partition_graph_with_halo`.
    """
    parts = metis_partition_assignment(g, k, balance_ntypes, balance_edges, mode)
    return partition_graph_with_halo(g, parts, extra_cached_hops, reshuffle)[0]


@explained
def partition_graph_with_halo(
    g: DGLGraph, node_part: Any, extra_cached_hops: int, reshuffle: bool = False
) -> tuple[dict[int, DGLGraph], Tensor | None, Tensor | None]:
    """Cut a graph into parts, each with the nodes around it.

    A part has its own (*inner*) nodes and the edges between them. With ``extra_cached_hops`` of 1 or more it also has
    the other edges at its nodes, and for each further hop the in-edges of the nodes found last; nodes of other parts
    that come in so are its halo.

    Raises DGLError: the graph has several types, there is not one part for each node, or the number of hops is
    negative.

    Parameters
    ----------
    node_part
        the part, from 0 up, of each node.
    reshuffle
        number nodes part after part, and edges by the part, then the id of their destination, before cutting.

    Returns
    -------
    (dict, Tensor or None, Tensor or None)
        The parts by number, inner nodes first. Node features: ``dglite.NID``, the id in the graph (the new one after
        reshuffling), ``inner_node`` and ``part_id``; edge features ``dglite.EID`` and ``inner_edge``, 1 for an edge
        into an inner node; after reshuffling ``orig_id``, the id in ``g``, on both. Features of ``g`` do not come
        along. Then the old id of each new node and of each new edge, or None without reshuffling.
    """
    adjacency = require_homogeneous(g, "partition_graph_with_halo")
    parts = integer_array(node_part, "parts")
    if parts.shape != (adjacency.num_src,) or parts.dtype.kind == "b" or (len(parts) and parts.min() < 0):
        raise DGLError(
            f"got parts {parts.dtype} of shape {parts.shape}; expected a number from 0 up for each of the "
            f"{adjacency.num_src} nodes"
        )
    if len(parts) and parts.max() >= max(len(parts), _MOST_EMPTY):
        raise DGLError(f"part {parts.max()} is given, but there are only {len(parts)} nodes; number parts from 0 up")
    hops = count_of(extra_cached_hops, "extra_cached_hops")
    old_nodes = old_edges = None
    if reshuffle:
        adjacency, parts, old_nodes, old_edges = _reshuffled(adjacency, parts)
    whole = make_graph(HOMOGENEOUS, (adjacency.as_idtype(g.numpy_idtype),), [adjacency.num_src], g.device)
    by_part = {
        part: _part(whole, parts, part, hops, old_nodes, old_edges)
        for part in progress(range(int(parts.max(initial=-1)) + 1), "parts and their halos", "part")
    }
    if old_nodes is None or old_edges is None:
        return by_part, None, None
    return by_part, g.ids_tensor(old_nodes), g.ids_tensor(old_edges)


def _reshuffled(adjacency: Adjacency, parts: np.ndarray) -> tuple[Adjacency, np.ndarray, np.ndarray, np.ndarray]:
    """Return the relation with new ids, the parts of its nodes, and the old id of each node and edge."""
    old_nodes = np.argsort(parts, kind="stable")
    new_ids = np.empty(len(parts), np.int64)
    new_ids[old_nodes] = np.arange(len(parts))
    src, dst = (new_ids[end] for end in adjacency.endpoints())
    old_edges = np.argsort(dst, kind="stable")
    count = adjacency.num_src
    shuffled = Adjacency.from_coo(count, count, src[old_edges], dst[old_edges], adjacency.idtype, validate=False)
    return shuffled, parts[old_nodes], old_nodes, old_edges


def _part(
    whole: DGLGraph, parts: np.ndarray, part: int, hops: int, old_nodes: np.ndarray | None, old_edges: np.ndarray | None
) -> DGLGraph:
    adjacency = whole.adjacencies[0]
    inner = (parts == part).nonzero()[0]
    src, dst = adjacency.endpoints()
    edges = adjacency.in_edges(inner)[2]
    if hops == 0:
        edges = edges[parts[src[edges]] == part]
    else:
        outward = adjacency.out_edges(inner)[2]
        edges = np.concatenate([edges, outward[parts[dst[outward]] != part]])
    nodes = in_order_of_appearance(np.concatenate([inner, src[edges], dst[edges]]))
    frontier = nodes[len(inner) :]
    for _ in range(hops - 1):
        if not len(frontier):
            break
        edges = in_order_of_appearance(np.concatenate([edges, adjacency.in_edges(frontier)[2]]))
        num_inner, nodes = len(nodes), in_order_of_appearance(np.concatenate([nodes, src[edges]]))
        frontier = nodes[num_inner:]
    result = _over(whole, nodes, edges)
    result.ndata["inner_node"] = result.as_tensor((parts[nodes] == part).astype(np.int32))
    result.ndata["part_id"] = result.ids_tensor(parts[nodes])
    result.edata["inner_edge"] = result.as_tensor((parts[dst[edges]] == part).astype(np.int8))
    if old_nodes is not None and old_edges is not None:
        result.ndata["orig_id"] = result.ids_tensor(old_nodes[nodes])
        result.edata["orig_id"] = result.ids_tensor(old_edges[edges])
    return result


def _over(whole: DGLGraph, nodes: np.ndarray, edges: np.ndarray) -> DGLGraph:
    """Return the given edges over the given nodes, renumbered in order, with their ids."""
    new_ids = np.empty(whole.node_counts[0], np.int64)
    new_ids[nodes] = np.arange(len(nodes))
    src, dst = (new_ids[end[edges]] for end in whole.adjacencies[0].endpoints())
    relation = Adjacency.from_coo(len(nodes), len(nodes), src, dst, whole.numpy_idtype, validate=False)
    part = make_graph(HOMOGENEOUS, (relation,), [len(nodes)], like=whole)
    part.ndata[NID], part.edata[EID] = part.ids_tensor(nodes.copy()), part.ids_tensor(edges.copy())
    return part
