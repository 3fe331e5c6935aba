"""Base classes of samplers, and features that are gathered with a sample."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..arguments import explain_constructors
from ..column import TensorOrDict
from ..errors import DGLError
from ..frame import NID
from ..graph import DGLGraph
from ..graph.storage import require_graph
from .features import FeatureStore, take_rows

Names = Sequence[str] | Mapping[Any, Any] | None
"""Feature names of the only type, or by type; or stores by name, where features are not those of the graph."""


def set_node_lazy_features(g: DGLGraph, feature_names: Names) -> None:
    """Gather features of a subgraph's nodes now, in the thread that samples, not when they are first read.

    Raises DGLError: the nodes of a type have no such feature, or there are several types and no dictionary.

    Parameters
    ----------
    feature_names
        names for a graph of one node type, or a dictionary of them by type; in place of a list of names, a dictionary
        of a :class:`FeatureStore` by name.
    """
    _gather(g.nodes, g.ntypes, feature_names, "node")


def set_edge_lazy_features(g: DGLGraph, feature_names: Names) -> None:
    """Gather features of a subgraph's or block's edges; see :func:`set_node_lazy_features`."""
    _gather(g.edges, g.canonical_etypes, feature_names, "edge")


def set_src_lazy_features(g: DGLGraph, feature_names: Names) -> None:
    """Gather features of a block's source nodes; see :func:`set_node_lazy_features`."""
    _gather(g.srcnodes, g.srctypes, feature_names, "source node")


def set_dst_lazy_features(g: DGLGraph, feature_names: Names) -> None:
    """Gather features of a block's destination nodes; see :func:`set_node_lazy_features`."""
    _gather(g.dstnodes, g.dsttypes, feature_names, "destination node")


class _Recording(threading.local):
    requests: list[tuple[Any, Any]] | None = None


_recording = _Recording()


@contextmanager
def recorded_requests() -> Iterator[list[tuple[Any, Any]]]:
    """Let samplers that this thread runs gather nothing; yield a list of what they would: stores and ids of rows."""
    before, _recording.requests = _recording.requests, []
    try:
        yield _recording.requests
    finally:
        _recording.requests = before


def _gather(view: Any, types: Sequence[Any], names: Names, argument: str) -> None:
    for type_, type_names in names_by_type(types, names, argument).items():
        columns = view[type_].data
        for name in type_names:
            store = type_names[name] if isinstance(type_names, Mapping) else None
            if _recording.requests is not None:
                _recording.requests.append((store, columns.get(NID, ())))
            elif store is not None:
                columns[name] = _stored(store, name, columns, f"{argument}s of type {type_!r}")
            elif name in columns:
                columns.gathered(name, take_rows)
            else:
                raise DGLError(
                    f"feature {name!r} cannot be prefetched: the {argument}s of type {type_!r} have "
                    f"{sorted(columns) or 'no features'}"
                )


def names_by_type(types: Sequence[Any], names: Names, argument: str) -> Mapping[Any, Any]:
    """Return names, or stores by name, by type."""
    if not names:
        return {}
    if isinstance(names, str):
        raise DGLError(f"features to prefetch must be a list of names, got {names!r}; write [{names!r}]")
    if isinstance(names, Mapping) and not all(isinstance(value, FeatureStore) for value in names.values()):
        return names
    if len(types) != 1:
        raise DGLError(
            f"the graph has {argument}s of types {list(types)}; give the features to prefetch, {list(names)}, "
            f"as a dictionary by type"
        )
    return {types[0]: names}


def _stored(store: FeatureStore, name: str, columns: Any, argument: str) -> Any:
    if not isinstance(store, FeatureStore):
        raise DGLError(f"feature {name!r} is to be prefetched from a {type(store).__name__}, which has no rows(ids)")
    if NID not in columns:
        raise DGLError(f"feature {name!r} cannot be prefetched from a store: the {argument} have no ids")
    return store.rows(columns[NID])


class Sampler:
    """Base of all samplers: override :meth:`sample`.

    A loader calls ``sample(g, indices)`` from its threads, several at a time: draw from ``dglite.random.generator()``
    and keep no state in ``self``, and batches are the same for any number of threads.
    """

    formats: tuple[str, ...] = ("csr", "csc")
    """Sparse formats that :meth:`sample` reads, which are made before threads need them."""
    output_device: Any = None
    """The device of the samples; None for the graph's device."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        explain_constructors(cls, strict=__package__)

    def sample(self, g: DGLGraph, indices: Any) -> Any:
        """Return the batch for some indices, which have the form that the loader was given."""
        raise NotImplementedError(f"{type(self).__name__} must define sample(g, indices)")

    def check(self, g: DGLGraph, indices: Any) -> None:
        """Raise an error where the loader's indices, or the sampler's arguments, do not fit the graph."""


class BlockSampler(Sampler):
    """Base of samplers that make a list of blocks: override :meth:`sample_blocks`.

    Parameters
    ----------
    prefetch_node_feats
        features of the source nodes of the first block that are gathered with the sample; names, or by node type.
        ``{"x": store}`` takes feature ``x`` from a :class:`FeatureStore`, not from the graph.
    prefetch_labels
        the same for the destination nodes of the last block.
    prefetch_edge_feats
        the same for the edges of every block; names, or by edge type.
    output_device
        device of the blocks; the graph's by default.
    """

    def __init__(
        self,
        prefetch_node_feats: Names = None,
        prefetch_labels: Names = None,
        prefetch_edge_feats: Names = None,
        output_device: Any = None,
    ) -> None:
        super().__init__()
        self.prefetch_node_feats = prefetch_node_feats or []
        self.prefetch_labels = prefetch_labels or []
        self.prefetch_edge_feats = prefetch_edge_feats or []
        self.output_device = output_device

    def sample_blocks(
        self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None
    ) -> tuple[TensorOrDict, TensorOrDict, list[DGLGraph]]:
        """Return the input nodes, the output nodes and the blocks, first layer first, that seed nodes need.

        Nodes are ids in ``g``: a tensor, or a dictionary by type.
        """
        hint = (
            "; from it, call sample_frontier for each layer, and to_block" if hasattr(self, "sample_frontier") else ""
        )
        raise NotImplementedError(f"{type(self).__name__} must define sample_blocks(g, seed_nodes, exclude_eids){hint}")

    def assign_lazy_features(
        self, result: tuple[Any, Any, list[DGLGraph]]
    ) -> tuple[TensorOrDict, TensorOrDict, list[DGLGraph]]:
        """Gather the features to prefetch."""
        input_nodes, output_nodes, blocks = result
        set_src_lazy_features(blocks[0], self.prefetch_node_feats)
        set_dst_lazy_features(blocks[-1], self.prefetch_labels)
        for block in blocks:
            set_edge_lazy_features(block, self.prefetch_edge_feats)
        return input_nodes, output_nodes, blocks

    def sample(
        self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None
    ) -> tuple[TensorOrDict, TensorOrDict, list[DGLGraph]]:
        """Return :meth:`sample_blocks` of the seed nodes, with the features to prefetch gathered."""
        require_graph(g)
        return self.assign_lazy_features(self.sample_blocks(g, seed_nodes, exclude_eids=exclude_eids))

    def check(self, g: DGLGraph, indices: Any) -> None:
        """Raise :class:`DGLError` where a seed is no node of the graph."""
        if type(self).sample is BlockSampler.sample:
            check_nodes(g, indices)


class SubgraphSampler(Sampler):
    """Base of samplers that make a subgraph: override :meth:`sample`.

    Parameters
    ----------
    prefetch_ndata, prefetch_edata
        features of the subgraph's nodes and edges that :meth:`finish` gathers; names, or by type.
    output_device
        device of the subgraph; the graph's by default.
    """

    def __init__(self, prefetch_ndata: Names = None, prefetch_edata: Names = None, output_device: Any = None) -> None:
        super().__init__()
        self.prefetch_ndata, self.prefetch_edata = prefetch_ndata or [], prefetch_edata or []
        self.output_device = output_device

    def finish(self, subgraph: DGLGraph) -> DGLGraph:
        """Gather the features to prefetch of a subgraph and return it."""
        set_node_lazy_features(subgraph, self.prefetch_ndata)
        set_edge_lazy_features(subgraph, self.prefetch_edata)
        return subgraph


def listed_fanouts(fanouts: Any, each: str) -> list[Any]:
    """Return fan-outs as a list; ``each`` is what there is one for.

    Raises ``DGLError``: they are no list, or there are none.
    """
    if isinstance(fanouts, Mapping | str) or not isinstance(fanouts, Iterable):
        raise DGLError(f"fanouts must be a list of one fan-out for each {each}, such as [10, 10]; got {fanouts!r:.60}")
    listed = list(fanouts)
    if not listed:
        raise DGLError(f"fanouts is empty; give one fan-out for each {each}, such as [10, 10]")
    return listed


def check_nodes(g: DGLGraph, nodes: Any) -> None:
    """Raise :class:`DGLError` unless ``nodes``, ids or ids by type, are nodes of the graph."""
    if isinstance(nodes, Mapping):
        for ntype, ids in nodes.items():
            g.node_ids(ids, ntype)
        return
    if len(g.ntypes) != 1:
        raise DGLError(f"seed nodes have no type, but the graph has {g.ntypes}; give a dictionary by node type")
    g.node_ids(nodes)


def check_edges(g: DGLGraph, edges: Any) -> None:
    """Raise :class:`DGLError` unless ``edges``, ids or ids by type, are edges of the graph."""
    if isinstance(edges, Mapping):
        for etype, ids in edges.items():
            g.edge_ids_of(ids, etype)
        return
    if len(g.canonical_etypes) != 1:
        raise DGLError(
            f"seed edges have no type, but the graph has {g.canonical_etypes}; give a dictionary by edge type"
        )
    g.edge_ids_of(edges)
