"""Transforms as modules that compose: structure and encodings. Each takes a graph and returns a new one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..arguments import explain_constructors
from ..backend import active
from ..errors import DGLError
from ..frame import Frame
from ..graph import DGLGraph
from ..graph.scope import copies
from ..graph.storage import make_graph, require_graph
from ..structure import Adjacency, Metagraph
from . import edges, products, simple, spectral
from .parts import require_homogeneous


class BaseTransform(ABC):
    """Base class of transforms: objects called with a graph, which return a new graph and leave their input unchanged.

    Derive from it and write ``__call__``.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        explain_constructors(cls, strict=__package__)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse a graph in place of an option, as in ``AddSelfLoop(g)``."""
        if args and isinstance(args[0], DGLGraph):
            name = cls.__name__
            raise TypeError(f"{name} is constructed with its options and then called: {name}()(g)")
        return super().__new__(cls)

    @abstractmethod
    def __call__(self, g: DGLGraph) -> DGLGraph:
        """Return the transformed graph."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ChangingTransform(BaseTransform):
    """Base of transforms that change a copy of the graph."""

    def __call__(self, g: DGLGraph) -> DGLGraph:
        require_graph(g)
        result = g.clone()
        self.change(result)
        return result

    @abstractmethod
    def change(self, result: DGLGraph) -> None:
        """Change the copy."""


class Compose(BaseTransform):
    """Applies several transforms, the first in the list first."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        if callable(transforms):
            raise DGLError(f"Compose takes a list of transforms, got {transforms!r:.60}; write Compose([transform])")
        self.transforms = list(transforms)
        for transform in self.transforms:
            if isinstance(transform, type) or not callable(transform):
                raise DGLError(f"{transform!r:.60} is no transform; pass an object such as dglite.AddSelfLoop()")

    def __call__(self, g: DGLGraph) -> DGLGraph:
        for transform in self.transforms:
            g = transform(g)
        return g

    def __repr__(self) -> str:
        inner = ",\n".join(f"  {transform}" for transform in self.transforms)
        return f"Compose([\n{inner}\n])"


class AddSelfLoop(BaseTransform):
    """Adds a self-loop at every node, for edge types between nodes of one type.

    Self-loops that there are go first, unless ``allow_duplicate``. With ``new_etypes`` each node type also gets an edge
    type ``"self"`` of its own, which holds nothing but self-loops. ``edge_feat_names`` and ``fill_data`` are those of
    :func:`dglite.add_self_loop`; edge types that lack a named feature pass over it.
    """

    def __init__(
        self,
        allow_duplicate: bool = False,
        new_etypes: bool = False,
        edge_feat_names: Sequence[str] | None = None,
        fill_data: Any = 1.0,
    ) -> None:
        self.allow_duplicate, self.new_etypes = allow_duplicate, new_etypes
        self.edge_feat_names, self.fill_data = edge_feat_names, fill_data

    def __call__(self, g: DGLGraph) -> DGLGraph:
        require_graph(g)
        for index, etype in enumerate(g.canonical_etypes):
            if not _is_square(g, index) or etype[1] == "self":
                continue
            if not self.allow_duplicate:
                g = edges.remove_self_loop(g, etype)
            names = self.edge_feat_names
            if names is not None:
                names = [name for name in names if name in g.edge_frame_at(index)]
            g = edges.add_self_loop(g, names, self.fill_data, etype)
        if not self.new_etypes:
            return g
        added = {}
        for ntype in g.ntypes:
            if (ntype, "self", ntype) not in g.canonical_etypes:
                count = g.num_nodes(ntype)
                nodes = np.arange(count)
                added[ntype, "self", ntype] = Adjacency.from_coo(count, count, nodes, nodes, g.numpy_idtype), None
        return with_relations(g, added)


class RemoveSelfLoop(BaseTransform):
    """Removes self-loops, for edge types between nodes of one type."""

    def __call__(self, g: DGLGraph) -> DGLGraph:
        require_graph(g)
        for index, etype in enumerate(g.canonical_etypes):
            if _is_square(g, index):
                g = edges.remove_self_loop(g, etype)
        return g


class AddReverse(BaseTransform):
    """Adds the reverse of each edge: to the same edge type between nodes of one type, else as a type ``rev_<name>``.

    With ``sym_new_etype`` all reverse edges get a new type. With ``copy_edata`` they have the features of their edges;
    else those that join an edge type get the initializer's values, and those of a new type have none.
    """

    def __init__(self, copy_edata: bool = False, sym_new_etype: bool = False) -> None:
        self.copy_edata, self.sym_new_etype = copy_edata, sym_new_etype

    def __call__(self, g: DGLGraph) -> DGLGraph:
        require_graph(g)
        added: dict[tuple[str, str, str], tuple[Adjacency, Frame | None]] = {}
        result = g
        for index, (src_type, name, dst_type) in enumerate(g.canonical_etypes):
            frame, adjacency = g.edge_frame_at(index), g.adjacencies[index]
            if _is_square(g, index) and not self.sym_new_etype:
                src, dst = adjacency.endpoints()
                data = dict(frame.items()) if self.copy_edata else None
                result = edges.add_edges(result, dst, src, data, (src_type, name, dst_type))
            else:
                turned = adjacency.reverse(), frame.copy() if self.copy_edata else None
                added[dst_type, f"rev_{name}", src_type] = turned
        return with_relations(result, added) if added else result


class ToSimple(BaseTransform):
    """Merges parallel edges. Arguments are those of :func:`dglite.to_simple`; features are kept."""

    def __init__(self, return_counts: str | None = "count", aggregator: str = "arbitrary") -> None:
        self.return_counts, self.aggregator = return_counts, aggregator

    def __call__(self, g: DGLGraph) -> DGLGraph:
        result: DGLGraph = simple.to_simple(g, self.return_counts, copy_edata=True, aggregator=self.aggregator)
        return result


class LineGraph(BaseTransform):
    """Makes the line graph. See :func:`dglite.line_graph`; edge features become node features."""

    def __init__(self, backtracking: bool = True) -> None:
        self.backtracking = backtracking

    def __call__(self, g: DGLGraph) -> DGLGraph:
        return products.line_graph(g, self.backtracking, shared=True)


class KHopGraph(BaseTransform):
    """Makes an edge for each path of ``k`` edges. See :func:`dglite.khop_graph`."""

    def __init__(self, k: int) -> None:
        self.k = k

    def __call__(self, g: DGLGraph) -> DGLGraph:
        return products.khop_graph(g, self.k)


class AddMetaPaths(BaseTransform):
    """Adds an edge type for each metapath, which joins what the path joins. Wang et al., HAN (2019).

    ``metapaths`` maps the name of a new edge type to a list of edge types; without ``keep_orig_edges`` the edge types
    of the graph go.
    """

    def __init__(self, metapaths: Mapping[str, Sequence[Any]], keep_orig_edges: bool = True) -> None:
        self.metapaths, self.keep_orig_edges = metapaths, keep_orig_edges

    def __call__(self, g: DGLGraph) -> DGLGraph:
        added: dict[tuple[str, str, str], tuple[Adjacency, Frame | None]] = {}
        for name, path in self.metapaths.items():
            reached = products.metapath_reachable_graph(g, path)
            src_type, _, dst_type = reached.canonical_etypes[0]
            added[src_type, name, dst_type] = reached.adjacencies[0], None
        return with_relations(g, added, self.keep_orig_edges)


class ToLevi(BaseTransform):
    """Makes each edge a node between its ends: node types ``node`` and ``edge``, edge types ``n2e`` and ``e2n``.

    Node i and edge i keep their numbers and features.
    """

    def __call__(self, g: DGLGraph) -> DGLGraph:
        adjacency = require_homogeneous(g, "ToLevi")
        src, dst = adjacency.endpoints()
        names, counts = ["edge", "node"], [adjacency.num_edges, adjacency.num_src]
        numbers = np.arange(adjacency.num_edges)
        relations = [("edge", "e2n", "node"), ("node", "n2e", "edge")]
        adjacencies = (
            Adjacency.from_coo(counts[0], counts[1], numbers, dst, g.numpy_idtype, validate=False),
            Adjacency.from_coo(counts[1], counts[0], src, numbers, g.numpy_idtype, validate=False),
        )
        result = make_graph(Metagraph(names, relations), adjacencies, counts, like=g)
        result.node_frame_at(0).update(g.edge_frame_at(0))
        result.node_frame_at(1).update(g.node_frame_at(0))
        return result


# -- positional encodings ----------------------------------------------------------------------------------------
class RandomWalkPE(ChangingTransform):
    """Writes :func:`dglite.random_walk_pe` to the node feature ``feat_name``."""

    def __init__(self, k: int, feat_name: str = "PE", eweight_name: str | None = None) -> None:
        self.k, self.feat_name, self.eweight_name = k, feat_name, eweight_name

    def change(self, result: DGLGraph) -> None:
        result.ndata[self.feat_name] = spectral.random_walk_pe(result, self.k, self.eweight_name)


class LapPE(ChangingTransform):
    """Writes :func:`dglite.lap_pe` to the node feature ``feat_name``.

    With ``eigval_name`` that node feature gets the eigenvalues, the same for every node.
    """

    def __init__(self, k: int, feat_name: str = "PE", eigval_name: str | None = None, padding: bool = False) -> None:
        self.k, self.feat_name, self.eigval_name, self.padding = k, feat_name, eigval_name, padding

    def change(self, result: DGLGraph) -> None:
        vectors, values = spectral.lap_pe(result, self.k, self.padding, return_eigval=True)
        result.ndata[self.feat_name] = vectors
        if self.eigval_name is not None:
            result.ndata[self.eigval_name] = active.take(
                active.reshape(values, (1, self.k)), np.zeros(result.num_nodes(), np.int64)
            )


LaplacianPE = LapPE
"""An older name of :class:`LapPE`."""


class SVDPE(ChangingTransform):
    """Writes :func:`dglite.svd_pe` to the node feature ``feat_name``."""

    def __init__(self, k: int, feat_name: str = "svd_pe", padding: bool = False, random_flip: bool = True) -> None:
        self.k, self.feat_name, self.padding, self.random_flip = k, feat_name, padding, random_flip

    def change(self, result: DGLGraph) -> None:
        result.ndata[self.feat_name] = spectral.svd_pe(result, self.k, self.padding, self.random_flip)


# -- parts -------------------------------------------------------------------------------------------------------
def _is_square(g: DGLGraph, index: int) -> bool:
    src, dst = g.type_graph.ends[index]
    return src == dst


def with_relations(
    g: DGLGraph, added: Mapping[tuple[str, str, str], tuple[Adjacency, Frame | None]], keep: bool = True
) -> DGLGraph:
    """Return the graph with more edge types, sorted by name; without ``keep``, with them alone.

    Raises ``DGLError``: an edge type exists already, or the graph is a block.
    """
    if g.is_block:
        raise DGLError("a block takes no more edge types; use dglite.block_to_graph(block) first")
    existing = g.canonical_etypes if keep else []
    clash = [etype for etype in added if etype in existing]
    if clash:
        raise DGLError(f"edge type {clash[0]} exists already; rename one of the two")
    relations = {
        etype: (adjacency, frame)
        for etype, adjacency, frame in zip(g.canonical_etypes, g.adjacencies, copies(g.edge_frames), strict=True)
        if keep
    }
    relations.update(added)
    etypes = sorted(relations)
    result = make_graph(
        Metagraph(g.ntypes, etypes), tuple(relations[etype][0] for etype in etypes), g.node_counts, like=g
    )
    result.node_frames, result.edge_frames = copies(g.node_frames), [relations[etype][1] for etype in etypes]
    return result
