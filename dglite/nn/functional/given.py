"""Checks of layers' arguments: sizes and features, brought to one form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...backend import Tensor, active, framework, require_one_library
from ...errors import DGLError
from ...formulas import FORMULAS
from ...graph import DGLGraph
from ...graph.storage import require_graph
from ...ops import biases
from ...structure.adjacency import Adjacency
from ...structure.ids import count_of
from ..base import Layer, nn
from ..sparsefeatures import Features, SparseFeatures, as_features


def is_plain(module: Any, kind: Any = None) -> bool:
    """Whether a layer may read a module's parameters in place of calling it: a ``kind``, ``nn.Linear`` unless given.

    Not where the class is a subclass, or where hooks wait for the call: to see what comes and goes, or, as those of
    ``torch.nn.utils.weight_norm`` do, to compute the weight.
    """
    if type(module) is not (nn.Linear if kind is None else kind):
        return False
    if active.name != "torch":
        return True
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return not any(hooks)


def compute_weights(module: Any, *inputs: Any) -> None:
    """Let hooks compute the weights of a module whose parameters are read in place of calling it on ``inputs``.

    ``torch.nn.utils.prune``, ``weight_norm`` and ``spectral_norm`` replace a parameter by a tensor, which a hook
    computes from other parameters before each call. Hooks of a module that has its parameters are not called.
    """
    if active.name != "torch":
        return
    if callable(getattr(type(module), "weight", None)):
        raise DGLError(
            f"got a {type(module).__module__}.{type(module).__name__} in a layer that computes with its weight, which "
            "this class does not hold as a tensor: leave the layer's own linear maps as they are, quantize others"
        )
    if not module._forward_pre_hooks:
        return
    if active.needs_operator([x for x in module._parameters.values() if x is not None]) and not active.compiling():
        _refuse_sharded(module)
    if any(isinstance(value, framework.Tensor) for value in vars(module).values()):
        for key, hook in module._forward_pre_hooks.items():
            arguments: tuple[Any, ...] = (inputs, {}) if key in module._forward_pre_hooks_with_kwargs else (inputs,)
            hook(module, *arguments)


def _refuse_sharded(module: Any) -> None:
    """Raise ``DGLError`` if FSDP has sharded the parameters of a module that a layer does not call."""
    if any(type(x).__name__ == "DTensor" for x in module._parameters.values()):
        raise DGLError(
            f"FSDP gathers the sharded parameters of this {type(module).__name__} where it is called, but its layer "
            "reads them without calling it: shard the layer as a whole, fully_shard(layer), and not what is inside"
        )


def is_relu(activation: Any) -> bool:
    """Whether an activation is ReLU and nothing else, so that a kernel may do it."""
    return activation is nn.functional.relu or activation is framework.relu or is_plain(activation, nn.ReLU)


_OPTIONS = {
    "ELU": ("alpha",),
    "GELU": ("approximate",),
    "LeakyReLU": ("negative_slope",),
    "ReLU": (),
    "SELU": (),
    "SiLU": (),
    "Sigmoid": (),
    "Softplus": ("beta", "threshold"),
    "Tanh": (),
}
"""Modules of torch that are formulas, with the names of their options."""
_FORMULA_NAMES = {"LeakyReLU": "leaky_relu"}


def formula_of(activation: Any) -> tuple[str, tuple[tuple[str, Any], ...]] | None:
    """Return the name and the options of an activation in the table of formulas, None where it is not one of torch's.

    That is a function without further arguments, such as ``torch.tanh`` or ``F.elu``, or a module without hooks.
    """
    kind = type(activation).__name__
    if kind in _OPTIONS and is_plain(activation, getattr(nn, kind, None)):
        name = _FORMULA_NAMES.get(kind, kind.lower())
        call = name, tuple((option, getattr(activation, option)) for option in _OPTIONS[kind])
    else:
        name = getattr(activation, "__name__", "")
        if not any(getattr(module, name, None) is activation for module in (nn.functional, framework)):
            return None
        call = name, ()
    formula = FORMULAS.get(name)
    takes_one = formula is not None and formula.required == 1 and formula.bind(("input",), call[1]) is not None
    return call if takes_one else None


def activated(x: Tensor, bias: Tensor | None, activation: Any) -> Tensor:
    """Return ``activation(x + bias)``, (rows, \\*feat), in one pass where both are known and ``x`` is large.

    ``bias`` (\\*feat) and ``activation`` may be None.
    """
    formula = None if activation is None else formula_of(activation)
    if (bias is not None or formula is not None) and biases.has_kernel(x, bias):
        x, bias = biases.biased(x, bias, formula), None
        activation = activation if formula is None else None
    x = x if bias is None else x + bias
    if isinstance(activation, type):
        raise DGLError(f"activation is the class {activation.__name__}; pass a function, {activation.__name__}()")
    try:
        return x if activation is None else activation(x)
    except TypeError:
        if callable(activation):
            raise
        raise DGLError(f"activation must be a function such as torch.relu, got {activation!r:.60}") from None


def require_module(layer: Any, argument: str, module: Any, example: str) -> None:
    """Raise ``TypeError`` unless ``module`` can be called, and for a class of modules."""
    if isinstance(module, type):
        raise TypeError(
            f"{type(layer).__name__}: {argument} is the class {module.__name__}; expected a module, such as {example}"
        )
    if not callable(module):
        name = type(layer).__name__
        raise TypeError(f"{name}: {argument} must be a module such as {example}, got {module!r:.60}")


def require_norm(layer: Any, norm: Any) -> None:
    """Raise ``TypeError`` unless ``norm``, which some layers apply to their results, can be called, or is None."""
    if norm is not None:
        require_module(layer, "norm", norm, "torch.nn.BatchNorm1d(out_feats), or None")


def require_sizes(layer: Any, /, least: int = 0, **sizes: Any) -> None:
    """Raise ``DGLError`` unless each size, or both of a pair, is an integer from ``least`` up."""
    for name, size in sizes.items():
        if isinstance(size, tuple) and len(size) != 2:
            raise DGLError(
                f"{type(layer).__name__}: {name} must be an integer, or a pair (source, destination), got {size!r:.60}"
            )
        for each in pair_of_sizes(size):
            count_of(each, f"{type(layer).__name__}: {name}", least)


def require_multiple(layer: Any, name: str, size: int, **divisor: int) -> None:
    """Raise ``DGLError`` unless a size is a multiple of the number of its parts, given by its name."""
    ((parts, count),) = divisor.items()
    if size % count:
        raise DGLError(f"{type(layer).__name__}: {name}={size} is no multiple of {parts}={count}")


def pair_of_sizes(sizes: int | tuple[int, int]) -> tuple[int, int]:
    """Return (source, destination) feature sizes; one size stands for both."""
    return (sizes[0], sizes[1]) if isinstance(sizes, tuple) else (sizes, sizes)


def pair_of_features(
    layer: Any,
    argument: str,
    graph: DGLGraph,
    adjacency: Adjacency,
    feat: Any,
    both: bool = True,
    widths: tuple[int, int] | None = None,
) -> tuple[Any, Any]:
    """Return (source, destination) features, dense or sparse, with the right numbers of rows.

    One matrix stands for both; on a block its first rows are those of the destination nodes. Raises ``DGLError``,
    naming the layer and its argument, where rows and nodes differ in number, for rows of other sizes than ``widths``,
    and for a tuple that is no pair. Without ``both``, for a layer that does not read them, the destination's rows are
    not counted.
    """
    if isinstance(feat, tuple):
        source, destination = as_features(source_of(layer, argument, feat)), as_features(feat[1])
        require_rows(layer, argument, source, adjacency.num_src, "source nodes")
    else:
        source = feat = as_features(feat)
        require_rows(layer, argument, source, adjacency.num_src, "source nodes")
        destination = first_rows(feat, adjacency.num_dst) if graph.is_block else feat
    if both:
        require_rows(layer, argument, destination, adjacency.num_dst, "destination nodes")
    for x, width in zip((source, destination), widths or (), strict=False):
        require_width(layer, argument, x, width)
    return source, destination


def source_of(layer: Any, argument: str, feat: Any) -> Any:
    """Return the source's of a pair of features, or the one that stands for both; ``DGLError`` for other tuples."""
    if not isinstance(feat, tuple):
        return feat
    if len(feat) != 2:
        raise DGLError(
            f"{type(layer).__name__}: {argument} is a tuple of {len(feat)}; expected a tensor, or a pair (source, "
            "destination)"
        )
    return feat[0]


def require_dense(x: Features, reader: str) -> None:
    """Raise ``DGLError`` when ``x`` is sparse, naming what reads it."""
    if isinstance(x, SparseFeatures):
        raise DGLError(
            f"{reader} reads whole rows of features and cannot take a sparse matrix of shape {x.shape}; make it dense "
            "(matrix.toarray(), tensor.to_dense()) or project it first with dglite.nn.SparseLinear"
        )


def require_rows(layer: Any, argument: str, x: Any, expected: int, owner: str, width: int | None = None) -> None:
    """Raise ``DGLError`` unless ``x`` has one row for each of the ``expected`` nodes or edges, naming the argument.

    With ``width``, unless it also has rows of that size and the layer's dtype: see :func:`require_width`.
    """
    if x is None:
        raise DGLError(
            f"{type(layer).__name__}: {argument} is missing; expected a row for each of the {expected} {owner}"
        )
    if getattr(x, "ndim", None) is None or not hasattr(x, "dtype"):
        pair = ", or a tuple (source, destination) where the layer takes a pair" if "nodes" in owner else ""
        raise DGLError(
            f"{type(layer).__name__}: {argument} is of type {type(x).__name__}; expected a tensor with a row for each "
            f"of the {expected} {owner}{pair}"
        )
    if x.ndim == 0 or x.shape[0] != expected:
        hint = "; on a graph with two sets of nodes pass a pair (source, destination)" if "nodes" in owner else ""
        raise DGLError(
            f"{type(layer).__name__}: {argument} of shape {tuple(x.shape)} was given for {expected} {owner}; "
            f"expected a row each{hint}"
        )
    if width is not None:
        require_width(layer, argument, x, width)


def require_edge_weight(layer: Any, weight: Any, num_edges: int) -> None:
    """Raise ``DGLError`` unless ``weight`` has a number, or a row of them, for each edge."""
    require_rows(layer, "edge_weight", weight, num_edges, "edges")
    if weight.ndim > 2:
        raise DGLError(
            f"{type(layer).__name__}: edge_weight of shape {tuple(weight.shape)} was given; expected one number "
            f"for each edge, ({num_edges},) or ({num_edges}, 1)"
        )


def first_rows(x: Tensor, count: int) -> Tensor:
    """Return the first ``count`` rows; ``x`` itself, not a view with a gradient to copy, when that is all."""
    if active.compiling():  # a program is not for one of the two
        return x.narrow(0, 0, count)
    return x if x.shape[0] == count else x[:count]


def require_width(layer: Any, argument: str, x: Features, width: int) -> None:
    """Raise ``DGLError`` unless the last axis of ``x`` is ``width`` long and its dtype is the layer's, naming both."""
    if x.dtype is not _FLOAT32:
        _require_dtype(layer, argument, x)
    if x.ndim < 2 or x.shape[-1] != width:
        raise DGLError(
            f"{type(layer).__name__}: {argument} has shape {tuple(x.shape)}; expected (rows, ..., {width}), the size "
            "that the layer was constructed with"
        )


_FLOAT32 = active.empty((0,), "float32", active.cpu()).dtype


def _require_dtype(layer: Any, argument: str, x: Features) -> None:
    """Raise ``DGLError`` unless ``x`` has the dtype of the layer's parameters, or autocast converts both."""
    parameter = next(iter(layer.parameters()), None)
    if active.guest is not None and parameter is not None:
        require_one_library((x, parameter))
    if parameter is None or x.dtype == parameter.dtype or active.autocast_dtype() is not None:
        return
    dtype, expected = active.dtype(x), active.dtype(parameter)
    if "int" in dtype or dtype == "bool":
        other = "; ids are made features by an Embedding"
    else:
        other = f", or the layer, layer.to({active.name}.{dtype})" if active.name == "torch" else ""
    cast = f"{argument}.to(torch.{expected})" if active.name == "torch" else f"{argument}.astype({expected!r})"
    raise DGLError(
        f"{type(layer).__name__}: {argument} has dtype {dtype}, the parameters have {expected}; convert the features, "
        f"{cast}{other}"
    )


def require_dense_batch(layer: Any, argument: str, x: Tensor, width: int) -> None:
    """Raise ``DGLError`` unless ``x`` is (batch_size, N, width), naming the layer and its argument."""
    if x.ndim != 3 or x.shape[2] != width:
        raise DGLError(
            f"{type(layer).__name__}: {argument} has shape {tuple(x.shape)}; expected (batch_size, N, {width})"
        )
    if x.dtype is not _FLOAT32:
        _require_dtype(layer, argument, x)


def require_pairs(layer: Any, argument: str, x: Tensor, shape: Sequence[int]) -> None:
    """Raise ``DGLError`` unless ``x`` has the shape, naming the layer and its argument."""
    if tuple(x.shape) != tuple(shape):
        raise DGLError(
            f"{type(layer).__name__}: {argument} has shape {tuple(x.shape)}; expected {tuple(shape)}, as the first "
            "argument says"
        )


def as_module(function: Any, default: Callable[[], nn.Module]) -> nn.Module:
    """Return a module, or a function as one, or ``default()`` for None."""
    if function is None:
        return default()
    return function if isinstance(function, nn.Module) else _FunctionModule(function)


class _FunctionModule(Layer):
    """A function that stands among modules."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def require_one_size(layer: Any, argument: str, graph: DGLGraph, feat: Any, width: int | None = None) -> Tensor:
    """Return the features of a layer that walks along edges again and again, so that sources are destinations.

    Raises ``DGLError`` for a pair of features, a graph with two sets of nodes, wrong numbers of rows, and rows of
    another size than ``width``, if that is not None.
    """
    require_graph(graph)
    if isinstance(feat, tuple) or graph.is_block or graph.num_src_nodes() != graph.num_dst_nodes():
        raise DGLError(
            f"{type(layer).__name__} passes messages several times, so it needs a graph of which all nodes are both "
            f"sources and destinations and one tensor of features; got {graph.num_src_nodes()} sources, "
            f"{graph.num_dst_nodes()} destinations and a {type(feat).__name__}"
        )
    require_rows(layer, argument, feat, graph.num_src_nodes(), "nodes", width)
    return feat


def by_head(x: Tensor, num_heads: int) -> Tensor:
    """Return (..., num_heads * d) as (..., num_heads, d)."""
    return x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)


def set_number(layer: nn.Module, name: str, value: float, learned: bool) -> None:
    """Give a layer a number of shape (1,) that is a parameter if it is learned, else a buffer: in the state anyway."""
    number = framework.tensor([float(value)])
    if learned:
        layer.register_parameter(name, nn.Parameter(number))
    else:
        layer.register_buffer(name, number)


def require_matrix(layer: Any, adj: Tensor, feat: Tensor) -> Tensor:
    """Return a dense adjacency matrix in the dtype of the features.

    Raises ``DGLError`` unless it has two axes and a column for each row of ``feat``.
    """
    if not active.is_tensor(adj) or adj.ndim != 2 or adj.shape[1] != feat.shape[0]:
        shape = tuple(adj.shape) if active.is_tensor(adj) else type(adj).__name__
        raise DGLError(
            f"{type(layer).__name__}: adj is {shape}; expected a dense matrix (num_dst, num_src) with {feat.shape[0]} "
            "columns, one for each row of feat"
        )
    return active.astype(adj, active.dtype(feat))
