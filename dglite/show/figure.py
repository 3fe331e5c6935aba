"""``dglite.plot``: a picture of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arguments import explained
from ..backend import active
from ..convert import to_networkx
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import require_graph
from .drawing import Ties, draw_edges, draw_labels, draw_nodes
from .layout import distance_layout, layered_layout, networkx_layout

MOST_EDGES_PER_NODE = 20


class NodeSet(NamedTuple):
    """Nodes of one type; in a block source and destination nodes of one type are two sets. ``first`` is the number of
    the first of them among all that are drawn."""

    ntype: str
    label: str
    first: int
    size: int
    features: Any


@explained
def plot(
    g: DGLGraph,
    color: Any = None,
    labels: Any = None,
    edge_weights: Any = None,
    layout: str | Mapping[int, Any] | Callable[[Any], Any] | Any = "auto",
    ax: Any = None,
    *,
    highlight: Any = None,
    node_size: Any = None,
    legend: bool | Sequence[str] | Mapping[Any, str] = True,
    cmap: str = "viridis",
    seed: int = 0,
    max_nodes: int = 5000,
) -> Any:
    """Draw a graph with matplotlib: nodes coloured by type or by a feature, arrows where edges go one way.

    A pair of edges in both directions is drawn as one line, parallel edges as one of the largest weight. In a
    heterogeneous graph edge types differ in the style of their lines. Text takes its colour from
    matplotlib's settings, so the picture is right on dark and on light backgrounds. The graphs of a batch, and parts
    that are not connected, are drawn beside each other. Nothing is drawn of a graph without nodes.

    Raises DGLError: the graph is too large, a feature does not exist, or values do not have a row for each node or
    edge; ImportError: matplotlib is not installed.

    Parameters
    ----------
    g
        A graph of one or of several types, a block or a batch, with at most ``max_nodes`` nodes.
    color
        The name of a node feature; or values for the nodes, shape (num_nodes,) or (num_nodes, 1), or for each a colour
        of matplotlib; or one colour. Integers, booleans and texts are classes with a legend, floats a scale with a
        colour bar. A dictionary by node type where there are several. By default each node type has its colour.
    labels
        True for the ids; the name of a node feature; a text or value for each node; a dictionary from node id to text,
        or by node type where there are several types.
    edge_weights
        The name of an edge feature, or numbers for the edges, shape (num_edges,) or (num_edges, 1), in a dictionary by
        edge type where there are several. Edges of larger weight are wider and darker.
    layout
        ``"auto"``: by the distances between nodes; a block or a bipartite graph of up to 60 nodes in two columns.
        ``"bipartite"``: two columns. Any layout of NetworkX by its name, ``"spring"``, ``"circular"`` or
        ``"kamada_kawai"`` for instance. Positions, shape (num_nodes, 2), in the order of the node types. Or a function
        that takes ``dglite.to_networkx`` of a homogeneous graph and returns a dictionary of positions.
    ax
        The matplotlib axes to draw on; a new figure by default.
    highlight
        Nodes to draw with a red ring: ids or a boolean mask; a dictionary by node type where there are several.
    node_size
        The area of a node in points squared, one or a value for each node; by default as the number of nodes allows.
    legend
        False for none; or names of the classes, in a list by class number or a dictionary by class.
    cmap
        matplotlib's name of the colour map of floats.
    seed
        Of the layouts that begin at random.
    max_nodes
        Larger graphs raise an error that says how to take a part.

    Returns
    -------
    The axes; ``ax.figure.savefig("graph.png")`` writes a file.

    Examples
    --------
    >>> import dglite
    >>> g = dglite.graph(([0, 1, 2], [1, 2, 0]))
    >>> ax = dglite.plot(g, labels=True)
    >>> len(ax.texts)
    3
    """
    require_graph(g)
    sets = _node_sets(g)
    total = sum(each.size for each in sets)
    _check_size(total, sum(x.num_edges for x in g.adjacencies), max_nodes)
    ties = _ties(g, sets, edge_weights)
    colors = _of_nodes(g, sets, color, "color")
    texts = _label_texts(g, sets, labels)
    rings = _highlighted(g, sets, highlight)
    sizes = _of_nodes(g, sets, node_size, "node_size") if _is_given(node_size) else node_size
    positions = _positions(g, sets, ties, layout, seed, total)
    axes = _axes(ax)
    try:
        area, fills = draw_nodes(axes, positions, sets, colors, color, sizes, rings, legend, cmap)
        draw_edges(axes, positions, ties, area, edge_weights is not None, legend is not False)
        draw_labels(axes, positions, texts, area, fills)
    except Exception:
        if ax is None:
            _pyplot().close(axes.figure)
        raise
    return axes


def _node_sets(g: DGLGraph) -> list[NodeSet]:
    names, first, sets = g.type_graph.ntypes, 0, []
    for i, (ntype, count) in enumerate(zip(names, g.node_counts, strict=True)):
        label = ntype
        if g.is_block:
            label = f"{'source' if i < len(g.srctypes) else 'destination'}{'' if ntype == '_N' else f' {ntype}'}"
        sets.append(NodeSet(ntype, label, first, count, g.node_frame_at(i)))
        first += count
    return sets


def _check_size(num_nodes: int, num_edges: int, most: int) -> None:
    if num_nodes <= most and num_edges <= most * MOST_EDGES_PER_NODE:
        return
    raise DGLError(
        f"a graph of {num_nodes:,} nodes and {num_edges:,} edges is too large to draw: plot takes up to {most:,} nodes "
        f"and {most * MOST_EDGES_PER_NODE:,} edges; draw a part, for instance "
        "dglite.plot(dglite.khop_in_subgraph(g, node, 2)[0]) or dglite.plot(dglite.node_subgraph(g, ids)), or raise "
        "max_nodes"
    )


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("dglite.plot needs matplotlib: pip install matplotlib", name="matplotlib") from error
    return pyplot


def _axes(ax: Any) -> Any:
    if ax is None:
        ax = _pyplot().subplots(figsize=(7.5, 5.5), layout="constrained")[1]
    if not hasattr(ax, "set_axis_off"):
        kind = type(ax).__name__
        raise TypeError(f"ax must be matplotlib's axes, got {kind}; figure, ax = plt.subplots() makes them")
    ax.set_axis_off()
    ax.set_aspect("equal", adjustable="box")
    return ax


# -- values that are drawn ---------------------------------------------------------------------------------------------
def _is_given(value: Any) -> bool:
    """Whether a value is of single nodes, instead of one for all."""
    return isinstance(value, str) or not (value is None or np.isscalar(value))


def _array(values: Any) -> np.ndarray:
    """Return values as an array on the host; a column (n, 1) as (n,)."""
    array = active.to_numpy(active.detach(values)) if active.is_tensor(values) else np.asarray(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _by_type(value: Any, names: Sequence[Any], argument: str, kind: str) -> dict[Any, Any]:
    """Return the values by type; those of the only type may come without a dictionary."""
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in names]
        if unknown:
            raise DGLError(f"{argument} has values for the {kind} type {unknown[0]!r}; there are {list(names)}")
        return dict(value)
    if len(names) > 1:
        raise DGLError(f"{argument} must be a dictionary by {kind} type, got {type(value).__name__}; there are {names}")
    return {names[0]: value}


def _of_nodes(g: DGLGraph, sets: list[NodeSet], value: Any, argument: str) -> dict[int, np.ndarray] | None:
    """Return the values of nodes by number of their set, or None if there is no value or one for all."""
    if value is None:
        return None
    if isinstance(value, str):
        named = {i: _array(each.features[value]) for i, each in enumerate(sets) if value in each.features}
        features = sorted({name for each in sets for name in each.features})
        if not named and argument == "color" and not _is_color(value):
            raise DGLError(f"color={value!r} is neither a node feature ({features or 'there are none'}) nor a colour")
        if not named and argument != "color":
            raise DGLError(
                f"{argument}={value!r} is no node feature; there are {features or 'none'}; labels=True writes ids"
            )
        columns = named
    else:
        names = list(dict.fromkeys(each.ntype for each in sets))
        by_type = _by_type(value, names, argument, "node")
        columns = {}
        for i, each in enumerate(sets):
            if each.ntype in by_type:
                of_type = by_type[each.ntype]
                if isinstance(of_type, str) and of_type in each.features:
                    of_type = each.features[of_type]
                columns[i] = np.full(each.size, of_type) if np.ndim(of_type) == 0 else _array(of_type)
    for i, values in columns.items():
        if values.shape != (sets[i].size,):
            raise DGLError(
                f"{argument} has shape {tuple(values.shape)}; expected {(sets[i].size,)}, a value for each of the "
                f"{sets[i].size} nodes{'' if len(sets) == 1 else f' of type {sets[i].ntype!r}'}"
            )
    return columns


def _is_color(value: str) -> bool:
    try:
        from matplotlib.colors import is_color_like
    except ImportError:
        return True  # the error that matplotlib is missing comes later
    return bool(is_color_like(value))


def _label_texts(g: DGLGraph, sets: list[NodeSet], labels: Any) -> dict[int, str]:
    """Return texts by the number of the node among all."""
    if labels is None or labels is False:
        return {}
    if labels is True:
        return {each.first + i: str(i) for each in sets for i in range(each.size)}
    if isinstance(labels, Mapping) and len({each.ntype for each in sets}) == 1 and sets[0].ntype not in labels:
        wrong = [node for node in labels if not 0 <= int(node) < sets[0].size]
        if wrong:
            raise DGLError(f"labels has a text for node {wrong[0]}; there are {sets[0].size} nodes")
        return {int(node): str(text) for node, text in labels.items()}
    texts = _of_nodes(g, sets, labels, "labels") or {}
    return {sets[i].first + j: _short(value) for i, values in texts.items() for j, value in enumerate(values.tolist())}


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _highlighted(g: DGLGraph, sets: list[NodeSet], highlight: Any) -> np.ndarray:
    mask = np.zeros(sum(each.size for each in sets), dtype=bool)
    if highlight is None:
        return mask
    names = list(dict.fromkeys(each.ntype for each in sets))
    for ntype, nodes in _by_type(highlight, names, "highlight", "node").items():
        ids = g.node_ids(nodes, ntype)
        for each in sets:
            if each.ntype == ntype:
                mask[each.first + ids[ids < each.size]] = True
    return mask


def _ties(g: DGLGraph, sets: list[NodeSet], weights: Any) -> list[Ties]:
    """Return for each edge type the lines and arrows to draw."""
    etypes = g.canonical_etypes
    by_type = {}
    if isinstance(weights, str):
        by_type = {etype: weights for etype in etypes if weights in g.edge_frame(etype)}
        if not by_type:
            names = sorted({name for etype in etypes for name in g.edge_frame(etype)})
            raise DGLError(f"edge_weights={weights!r} is no edge feature; there are {names or 'none'}")
    elif weights is not None:
        if isinstance(weights, Mapping):
            weights = {g.to_canonical_etype(etype): value for etype, value in weights.items()}
        by_type = _by_type(weights, etypes, "edge_weights", "edge")
    ties = []
    for etype, adjacency, (start, end) in zip(etypes, g.adjacencies, g.type_graph.ends, strict=True):
        src, dst = (np.asarray(ids).astype(np.int64) for ids in adjacency.endpoints())
        numbers: Any = by_type.get(etype)
        if isinstance(numbers, str):
            numbers = g.edge_frame(etype)[numbers]
        if numbers is not None:
            numbers = _array(numbers)
            if numbers.shape != (len(src),) or numbers.dtype.kind not in "iufb":
                raise DGLError(
                    f"edge_weights has shape {tuple(numbers.shape)} and {numbers.dtype}; expected a number for each of "
                    f"the {len(src)} edges, shape {(len(src),)}"
                )
            numbers = numbers.astype(np.float64)
        ties.append(Ties.merged(etype[1], src + sets[start].first, dst + sets[end].first, numbers))
    return ties


# -- where it is drawn -------------------------------------------------------------------------------------------------
def _positions(g: DGLGraph, sets: list[NodeSet], ties: list[Ties], layout: Any, seed: int, total: int) -> np.ndarray:
    two_sided = g.type_graph.is_unibipartite and bool(g.canonical_etypes)
    if isinstance(layout, str):
        if layout == "bipartite" or (layout == "auto" and two_sided and total <= 60 and g.batch_size == 1):
            if not two_sided:
                raise DGLError("layout='bipartite' needs a graph whose edges go from some node types to others")
            return layered_layout([each.size for each in sets], _columns(g))
        src = np.concatenate([each.src for each in ties] or [np.empty(0, np.int64)])
        dst = np.concatenate([each.dst for each in ties] or [np.empty(0, np.int64)])
        if layout == "auto":
            parts = None
            if g.batch_size > 1 and g.batch_node_counts is not None:
                parts = np.concatenate([np.repeat(np.arange(g.batch_size), sizes) for sizes in g.batch_node_counts])
            return distance_layout(total, src, dst, parts, seed)
        return networkx_layout(layout, total, src, dst, seed)
    if callable(layout):
        layout = layout(to_networkx(g))
    if isinstance(layout, Mapping):
        missing = [node for node in range(total) if node not in layout]
        if missing:
            raise DGLError(f"layout has no position for node {missing[0]}; expected one for each of {total} nodes")
        layout = [layout[node] for node in range(total)]
    positions = np.asarray(_array(layout), dtype=np.float64).reshape(-1, 2) if total else np.zeros((0, 2))
    if positions.shape != (total, 2):
        raise DGLError(f"layout has {len(positions)} positions; expected {total}, shape ({total}, 2)")
    return positions


def _columns(g: DGLGraph) -> list[int]:
    """Return 0 for sets of source nodes and 1 for those of destination nodes."""
    destinations = {end for _, end in g.type_graph.ends}
    if g.is_block:
        return [int(i >= len(g.srctypes)) for i in range(len(g.node_counts))]
    return [int(i in destinations) for i in range(len(g.node_counts))]
