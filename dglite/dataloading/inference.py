"""Exact inference on graphs too large for a layer at once: layer by layer, each in batches of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, final

from ..backend import Tensor, active, framework
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..progress import progress
from ..sampling import sample_neighbors_fused
from .base import Sampler
from .dataloader import DataLoader
from .transfer import moved


def inference(
    model: Any,
    g: DGLGraph,
    feats: Any = None,
    batch_size: int = 1024,
    num_layers: int | None = None,
    num_workers: int = 0,
    progress: bool = True,
    **arguments: Any,
) -> Any:
    """Return a model's output for all nodes of a graph, layer by layer in batches of nodes.

    The model's own ``forward`` runs, with the whole graph. A module in it that is called with a graph, and does not
    pass it on to modules of its own, is a layer: it is called with blocks of all in-edges of ``batch_size`` nodes, and
    its results are put together before ``forward`` goes on. Whatever is between layers - activations, normalisation,
    residual sums, dropout, which does nothing here - sees all nodes. So the result is ``model(g, feats)`` up to
    rounding, while messages and blocks need memory for one batch only.

    Raises TypeError: ``model`` is no module, or ``g`` no graph; DGLError: a layer returns something else than a row for
    each of its nodes.

    Parameters
    ----------
    model
        a module. Its layers take ``layer(graph, feat, ...)``: features of the source nodes, a pair of those of sources
        and destinations, or dictionaries of them by node type; layers that take something else, sparse features for
        example, run on the whole graph. They work on blocks and return a tensor of the destination nodes, or a
        dictionary by node type. Further tensors with a row for each edge, alone or in
        dictionaries by edge type, are cut to the batch; others are passed on. Layers of :mod:`dglite.nn`,
        ``HeteroGraphConv`` included, are of that kind.
    g
        the graph, of one or several types. Features that layers read from it are cut to the batch, too.
    feats
        second argument of the model: features (num_nodes, *feat), or a dictionary of them by node type. None: the model
        takes the graph alone.
    batch_size
        nodes for which a layer is computed at a time.
    num_layers
        for a model that takes a list of blocks: how many. By default it takes a graph.
    num_workers
        threads that make blocks and gather features ahead.
    progress
        show a bar for each layer, by tqdm.
    arguments
        further arguments of the model, by name.

    Returns
    -------
    What the model returns, without gradients.

    Notes
    -----
    Layers are evaluated in evaluation mode; modules are in the mode of before afterwards. ``out_degrees`` of the blocks
    are those of the graph, so that a layer that normalises by them, such as ``GraphConv(norm="both")``, is exact, where
    training on sampled blocks counts the sampled edges. Of a compiled model, give the module that was compiled.

    Graph and features may be on another device than the model's parameters: they stay there, batches are copied to the
    model, and every layer's result comes back to where the features are. Modules between layers that have parameters
    get all nodes at once on the model's device; parameters that a ``forward`` reads itself are not where the features
    are, and layers that run on the whole graph need all on one device.

    Examples
    --------
    >>> import dglite, torch
    >>> conv = dglite.nn.GraphConv(2, 1)
    >>> g = dglite.graph(([0, 1, 2], [1, 2, 0]))
    >>> x = torch.rand(3, 2)
    >>> torch.allclose(inference(conv, g, x, batch_size=2, progress=False), conv(g, x))
    True
    """
    if not active.is_layer(model):
        raise TypeError(f"expected a module, got {type(model).__name__}")
    if not isinstance(g, DGLGraph):
        raise TypeError(f"expected a graph, got {type(g).__name__}")
    modules = list(active.layers_in(model))
    modes = [module.training for module in modules]
    graphs = g if num_layers is None else [g] * num_layers
    options = _Options(batch_size, num_workers, progress, *_devices(model, g, feats))
    model.eval()
    try:
        with framework.no_grad(), _in_batches(model, options):
            return model(graphs, **arguments) if feats is None else model(graphs, feats, **arguments)
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


@final
class _Options:
    """Options of running layers, and whether one is running: its submodules are then not batched.

    ``device`` is the model's and ``home`` the features' device, both None if all is on one device.
    """

    __slots__ = ("batch_size", "device", "home", "inside", "num_workers", "progress")

    def __init__(self, batch_size: int, num_workers: int, progress: bool, device: Any, home: Any) -> None:
        self.batch_size, self.num_workers, self.progress, self.inside = batch_size, num_workers, progress, False
        self.device, self.home = device, home


def _devices(model: Any, g: DGLGraph, feats: Any) -> tuple[Any, Any]:
    """Return the devices of the model and of the features; None and None where these and the graph's are one."""
    values = feats.values() if isinstance(feats, Mapping) else [feats]
    home = next((active.device(x) for x in values if active.is_tensor(x)), g.device)
    device = _device_of(model)
    return (None, None) if device is None or device == home == g.device else (device, home)


def _device_of(module: Any) -> Any:
    """Return the device of a module's first parameter or buffer; None where it has none."""
    return next((active.device(x) for x in chain(module.parameters(), module.buffers())), None)


class _NotALayer(Exception):
    """The module delegates to a submodule: it is a container, not a layer."""


@contextmanager
def _in_batches(model: Any, options: _Options) -> Iterator[None]:
    """Let the modules of a model run in batches while those that are called with a graph are."""
    before = {}
    for path, module in model.named_modules():
        before[module] = module.__dict__.get("forward")
        module.__dict__["forward"] = _wrapped(module, path or type(module).__name__, options)
    try:
        yield
    finally:
        for module, forward in before.items():
            if forward is None:
                del module.__dict__["forward"]
            else:
                module.__dict__["forward"] = forward


def _wrapped(module: Any, path: str, options: _Options) -> Any:
    forward, moves = module.forward, options.device is not None and _device_of(module) is not None

    def run(*args: Any, **kwargs: Any) -> Any:
        graph = args[0] if args else None
        if not isinstance(graph, DGLGraph):
            if moves and not options.inside and not any(map(_has_graph, (*args, *kwargs.values()))):
                return _run_elsewhere(forward, args, kwargs, options)
            return forward(*args, **kwargs)
        if options.inside:
            raise _NotALayer
        inputs = (*args[1:], *kwargs.values())
        if graph.is_block or not inputs or not _fits(graph, inputs[0]) or not any(map(graph.num_nodes, graph.dsttypes)):
            return forward(*args, **kwargs)
        try:
            return _run_layer(forward, graph, args[1:], kwargs, path, options)
        except _NotALayer:
            return forward(*args, **kwargs)

    return run


def _has_graph(x: Any) -> bool:
    return isinstance(x, DGLGraph) or (isinstance(x, list | tuple) and any(map(_has_graph, x)))


def _run_elsewhere(forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: _Options) -> Any:
    """Return the output of a module between layers for the features of all nodes, which are on another device."""
    options.inside = True
    try:
        return moved(forward(*moved(args, options.device), **moved(kwargs, options.device)), options.home)
    except _NotALayer:  # it knows the graph, and the layers are in it
        options.inside = False
        return forward(*args, **kwargs)
    finally:
        options.inside = False


def _run_layer(
    forward: Any, g: DGLGraph, args: tuple[Any, ...], kwargs: dict[str, Any], path: str, options: _Options
) -> Any:
    """Return a layer's result for all nodes that it gives one for."""
    nodes = {ntype: range(g.num_nodes(ntype)) for ntype in g.dsttypes}
    names = [None] * len(args) + list(kwargs)
    batches, results = _Batches([*args, *kwargs.values()]), _Results(g, path, options.home)
    loader = DataLoader(
        g, nodes, batches, options.device, batch_size=options.batch_size, num_workers=options.num_workers
    )
    with progress(None, path, "node", sum(map(len, nodes.values())), hide=not options.progress) as bar:
        for seeds, block, values in loader:
            options.inside = True
            try:
                output = forward(
                    block,
                    *(x for x, name in zip(values, names, strict=True) if name is None),
                    **{name: x for x, name in zip(values, names, strict=True) if name is not None},
                )
            finally:
                options.inside = False
            results.write(output, seeds, block)
            bar.update(sum(map(len, seeds.values())))
    return results.whole()


@final
class _Results:
    """A layer's results, put together from those of batches, whose nodes follow each other."""

    def __init__(self, g: DGLGraph, path: str, home: Any) -> None:
        self._g, self._path, self._home, self._alone = g, path, home, False
        self._rows: dict[str, Tensor] = {}
        self._written: dict[str, int] = {}

    def write(self, output: Any, seeds: Mapping[str, Any], block: DGLGraph) -> None:
        self._alone = not isinstance(output, Mapping)
        for ntype, rows in ({self._g.dsttypes[0]: output} if self._alone else output).items():
            count = block.num_dst_nodes(ntype)
            if not active.is_tensor(rows) or rows.shape[:1] != (count,):
                description = f"shape {tuple(rows.shape)}" if active.is_tensor(rows) else type(rows).__name__
                raise DGLError(
                    f"layer {self._path} returned {description} for {count} nodes of type {ntype!r}; expected a tensor "
                    "with a row for each, or a dictionary of such by node type"
                )
            if ntype not in self._rows:
                shape = (self._g.num_nodes(ntype), *rows.shape[1:])
                self._rows[ntype] = active.empty(shape, active.dtype(rows), self._home or active.device(rows))
            if count:
                first = int(seeds[ntype][0])
                self._rows[ntype][first : first + count] = rows
                self._written[ntype] = self._written.get(ntype, 0) + count

    def whole(self) -> Any:
        for ntype in self._rows:
            count, expected = self._written.get(ntype, 0), self._g.num_nodes(ntype)
            if count != expected:
                raise DGLError(
                    f"layer {self._path} returned rows for {count} of {expected} nodes of type {ntype!r}: it leaves a "
                    "type out when no edge of a batch enters it; let it return rows for nodes without edges, too"
                )
        return self._rows[self._g.dsttypes[0]] if self._alone else self._rows


def _fits(g: DGLGraph, feat: Any) -> bool:
    """Whether features are those of source nodes, or of sources and destinations: dense, with a row for each."""
    sides = feat if isinstance(feat, tuple) else (feat,)
    return len(sides) <= 2 and all(map(partial(_of_types, g), sides, (g.srctypes, g.dsttypes)))


def _of_types(g: DGLGraph, feat: Any, types: list[str]) -> bool:
    if not isinstance(feat, Mapping):
        feat = {types[0]: feat} if len(types) == 1 else {"": feat}
    return all(
        ntype in types and active.is_tensor(x) and not active.is_sparse(x) and x.shape[:1] == (g.num_nodes(ntype),)
        for ntype, x in feat.items()
    )


@final
class _Batches(Sampler):
    """Gives nodes, the block of all their in-edges, and a layer's arguments cut to it: first of all the features."""

    formats = ("csc",)

    def __init__(self, arguments: list[Any]) -> None:
        self._arguments = arguments

    def sample(self, g: DGLGraph, seeds: Any) -> tuple[Any, DGLGraph, list[Any]]:
        block = sample_neighbors_fused(g, seeds, -1)
        src = {ntype: block.srcnodes[ntype].data[NID] for ntype in g.srctypes}
        dst = {ntype: block.dstnodes[ntype].data[NID] for ntype in g.dsttypes}
        for part, whole, (ntype, _, _) in zip(block.adjacencies, g.adjacencies, g.canonical_etypes, strict=True):
            # Layers that normalise by them would otherwise depend on what else is in the batch.
            part.set_out_degrees(whole.out_degrees()[active.to_numpy(src[ntype])])
        feat, *others = self._arguments
        if isinstance(feat, tuple):
            cut: Any = tuple(_rows(x, ids) for x, ids in zip(feat, (src, dst), strict=True))
        else:
            cut = _rows(feat, src)
        relation = 0 if len(g.canonical_etypes) == 1 else None
        return seeds, block, [cut, *(_edge_rows(x, g, block, relation) for x in others)]


def _rows(x: Any, ids: Mapping[str, Tensor]) -> Any:
    if isinstance(x, Mapping):
        return {ntype: _rows_of(values, ids[ntype]) for ntype, values in x.items() if ntype in ids}
    return _rows_of(x, next(iter(ids.values())))


def _rows_of(x: Tensor, ids: Tensor) -> Tensor:
    """Return rows of features, which may be on another device than the graph."""
    return active.take(x, active.to_device(ids, active.device(x)))


def _edge_rows(x: Any, g: DGLGraph, block: DGLGraph, relation: int | None) -> Any:
    """Return an argument with its edge tensors of known relations cut to the edges of a block."""
    if isinstance(x, Mapping):
        relations = {name: g.etype_id(name) for name in x if name in g.etypes or name in g.canonical_etypes}
        return {name: _edge_rows(value, g, block, relations.get(name, relation)) for name, value in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(_edge_rows(value, g, block, relation) for value in x)
    if relation is None or not active.is_tensor(x) or x.shape[:1] != (g.adjacencies[relation].num_edges,):
        return x
    return _rows_of(x, block.edge_frame_at(relation)[EID])
