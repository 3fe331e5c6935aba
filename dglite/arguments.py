"""Errors of calls whose arguments do not fit: which argument, what it is called here, how the function is called.

A function of users is decorated with :func:`explained`, a class with :func:`explain_constructors`: they add what to do
to the ``TypeError`` that Python raises, and nothing to a call that fits. Where a call failed by an error that is not
about its arguments, and an argument is not what its annotation says, the error becomes one that names the argument.
"""

from __future__ import annotations

import difflib
import dis
import functools
import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from .errors import DGLError

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
AnyClass = TypeVar("AnyClass", bound=type)

_OF_LAYERS = {
    "add_self_loops": "dglite.add_self_loop(g) adds them to the graph, once",
    "aggr": "aggregator_type",
    "channels": "in_feats and out_feats",
    "concat": "heads stay an axis of the result: .flatten(1) concatenates them, .mean(1) averages them",
    "dropout": "feat_drop and attn_drop",
    "edge_attr": "dglite.nn.EdgeGATConv, EGATConv, GINEConv and NNConv take features of edges",
    "edge_index": "a graph comes first, conv(g, x)",
    "edge_dim": "dglite.nn.EdgeGATConv and EGATConv attend to features of edges",
    "heads": "num_heads",
    "hidden_channels": "hidden_feats",
    "in_channels": "in_feats",
    "in_features": "in_feats",
    "nn": "apply_func or edge_func",
    "normalize": "norm",
    "num_bases": "regularizer='basis' and num_bases",
    "num_relations": "num_rels",
    "out_channels": "out_feats",
    "out_features": "out_feats",
    "train_eps": "learn_eps",
    "x": "the graph comes first, then the features, conv(g, x)",
}
"""By an argument of PyG's layers: what it is called in the layers of ``dglite.nn``."""

_WORD = re.compile(r"(raw_dir|\w+$).*")
"""Counterparts that begin with a name which the function itself must take: ``raw_dir``, and those of one word."""
_FEW = 6
"""Arguments that are listed beside a counterpart."""
_CALLED = {"NodeView.__call__": "g.nodes", "EdgeView.__call__": "g.edges"}

_GRAPH_KNOWS = "the graph knows its batch, dglite.batch(graphs)"
_OF_FUNCTIONS = {
    "add_self_loops": "dglite.add_self_loop(g) adds them, once",
    "attr_name": "feat_name",
    "attrs": "node_feat_names and edge_feat_names, lists of names",
    "batch": _GRAPH_KNOWS,
    "batch_size": "batch_size of the loader",
    "cat": "concatenate what the transform adds: torch.cat([g.ndata['x'], g.ndata['PE']], 1)",
    "colour": "color",
    "data": "features are in g.ndata and g.edata; loaders take graph",
    "depth": "one fan-out for each hop, such as [10, 10]",
    "directed": "edges are directed; dglite.to_bidirected(g) adds the reversed ones",
    "dst": "target in tables, v in graphs",
    "edge_attr": "features are set by name once there is a graph: g.edata['w'] = edge_attr",
    "edge_index": "the first argument, a pair: (edge_index[0], edge_index[1])",
    "edge_weight": "g.edata['w'] = weights sets them once there is a graph",
    "figsize": "ax=plt.subplots(figsize=(6, 6))[1]",
    "fill_value": "fill_data",
    "filename": "data_path",
    "figure": "ax",
    "flow": "edge_dir of samplers; dglite.reverse(g) turns all edges",
    "follow_batch": _GRAPH_KNOWS,
    "exclude_keys": "del g.ndata['h'] drops a feature",
    "input_nodes": "indices, the second argument",
    "edge_label_index": "indices, the second argument: ids of edges, with as_edge_prediction_sampler",
    "labels_fontsize": "ax, and matplotlib's own functions",
    "loop": "exclude_self=True leaves self-loops out",
    "neg_sampling_ratio": "negative_sampler=dglite.dataloading.negative_sampler.Uniform(1)",
    "neg_sampling": "negative_sampler=dglite.dataloading.negative_sampler.Uniform(1)",
    "nodelist": "dglite.node_subgraph(g, ids), then what you would do with all",
    "neg_sampler": "negative_sampler",
    "node_color": "color, the name of a feature or one value for each node",
    "edge_color": "edge_weights, the name of a feature or one value for each edge",
    "font_size": "ax, and matplotlib's own functions",
    "graphs": "dataset, the first argument of loaders",
    "num_hops": "k",
    "num_layers": "one fan-out for each layer, such as [10, 10]",
    "num_neg": "k",
    "num_neg_samples": "num_samples",
    "num_neighbors": "fanouts of samplers, as NeighborSampler([10, 10]); fanout of sample_neighbors",
    "num_nodes": "num_nodes of dglite.graph, num_nodes_dict of dglite.heterograph, num of add_nodes",
    "num_parts": "k",
    "path": "filename of graphs, data_path of CSV files",
    "pos": "layout, coordinates for each node or the name of a layout",
    "pre_filter": "choose among the graphs: [g for g in dataset if ...]",
    "pre_transform": "transform, applied each time a graph is read",
    "prob": "p of transforms; prob of samplers names a feature of the edges",
    "ratio": "p",
    "reduce": "aggregator of dglite.to_simple and ToSimple, which merge edges",
    "relabel": "relabel_nodes",
    "replacement": "replace",
    "root": "raw_dir, the folder of downloaded files",
    "size": "shape",
    "split": "masks are features: g.ndata['train_mask']",
    "src": "source in tables, u in graphs",
    "subgraph_type": "blocks are directed; dglite.node_subgraph keeps all edges between nodes",
    "use_edge_attr": "features of the files are in g.ndata and g.edata",
    "use_node_attr": "features of the files are in g.ndata and g.edata",
    "values": "val",
    "walk_length": "k of transforms, length of random_walk, walk_length of node2vec_random_walk",
    "with_labels": "labels=True writes ids, labels='name' a feature",
    "x": "features are set by name once there is a graph: g.ndata['x'] = x",
    "y": "labels are set by name once there is a graph: g.ndata['label'] = y",
}
"""By an argument of PyG, NetworkX, pandas or matplotlib: what functions, samplers and data sets have for it."""


def unexpected(name: str, argument: str, names: Iterable[str], of_layer: bool = False) -> TypeError:
    """Return the error for an argument that a function, called ``name`` and with arguments ``names``, does not take."""
    accepted = [each for each in names if not each.startswith("_")]
    counterpart = (_OF_LAYERS if of_layer else _OF_FUNCTIONS).get(argument, "")
    named = _WORD.match(counterpart)
    if named is not None and named[1] not in accepted:
        counterpart = ""
    similar = [each for each in difflib.get_close_matches(argument, accepted, 1) if each != counterpart]
    hints = [f"in dglite: {counterpart}"] if counterpart else []
    if similar:
        hints.append(f"did you mean {similar[0]!r}?")
    elif not counterpart or len(accepted) <= _FEW:
        hints.append(f"it takes {', '.join(accepted) or 'no arguments'}")
    return TypeError(f"{name}() got an unexpected keyword argument {argument!r}; {'; '.join(hints)}")


def require_bound(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], of_layer: bool = False
) -> None:
    """Raise ``TypeError`` if a function cannot be called with these arguments, with those that it takes."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as mismatch:
        parameters = signature.parameters.values()
        names = [each.name for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
        open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters)
        counterparts = _OF_LAYERS if of_layer else _OF_FUNCTIONS
        for each in kwargs:
            if each not in names and (not open_ended or each in counterparts):
                raise unexpected(name, each, names, of_layer) from None
        expected = ", ".join(str(each.replace(annotation=each.empty)) for each in parameters)
        raise TypeError(f"{name}: {mismatch}; it is called as {name}({expected})") from None


_FOLDER = os.path.dirname(__file__)
_RAISE = dis.opmap["RAISE_VARARGS"]
UNPLANNED = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RuntimeError)
"""What Python, NumPy and torch raise where an argument is of another type than a function works with."""


def _is_iterable(value: Any) -> bool:
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def _are_names(value: Any) -> bool:
    return isinstance(value, Mapping) or (_is_iterable(value) and all(isinstance(name, str) for name in value))


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and getattr(getattr(value, "dtype", None), "kind", "f") in "biufc"


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1))


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and math.prod(getattr(value, "shape", ())) == 1


def _is_integer(value: Any) -> bool:
    return hasattr(type(value), "__index__") and getattr(value, "ndim", 0) == 0


def _is_named(name: str) -> Callable[[Any], bool]:
    return lambda value: any(cls.__name__ == name for cls in type(value).__mro__)


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", _is_flag),
    "int": ("an integer", _is_integer),
    "float": ("a number", _is_number),
    "str": ("a string", lambda value: isinstance(value, str)),
    "DGLGraph": ("a graph", _is_named("DGLGraph")),
    "Matrix": ("a sparse matrix of dglite.sparse", _is_named("MatrixBase")),
    "MatrixBase": ("a sparse matrix of dglite.sparse", _is_named("MatrixBase")),
    "Tensor": ("a tensor", _is_tensor),
    "tuple": ("a tuple", lambda value: isinstance(value, tuple | list)),
    "Names": ("a list of names, a dictionary of such lists by type", lambda value: value is None or _are_names(value)),
    "Sequence[str]": ("a list of names", lambda value: not isinstance(value, Mapping) and _are_names(value)),
    "Sequence": ("a list", _is_iterable),
    "Iterable": ("a list", _is_iterable),
    "Mapping": ("a dictionary", lambda value: isinstance(value, Mapping)),
    "Callable": ("a function", callable),
}
"""By annotation, whole or up to its bracket: what it means in words, and whether a value is one."""


def _alternatives(annotation: str) -> list[str]:
    """Return the types of a union, ``Sequence[int | None] | None`` for instance is two."""
    parts, depth = [""], 0
    for character in annotation:
        depth += (character == "[") - (character == "]")
        if character == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _misfit(annotation: Any, value: Any) -> str:
    """Return what an annotation asks for in words, if ``value`` is known to be something else; else nothing."""
    expected = []
    for part in _alternatives(annotation) if isinstance(annotation, str) else ["Any"]:
        kind = _KINDS.get(part) or _KINDS.get(part.partition("[")[0])
        if kind is None:
            return ""
        words, fits = kind
        with suppress(Exception):
            if fits(value):
                return ""
        if words not in expected:
            expected.append(words)
    return " or ".join(expected)


def _is_no_size(annotation: Any, value: Any) -> bool:
    """Whether an integer is no size of a tensor."""
    if not str(annotation).startswith("int") or not _is_integer(value):
        return False
    return isinstance(value, bool) or not 0 <= value <= 1 << 48


def misfitting(
    name: str, signature: inspect.Signature, args: Any, kwargs: Any, error: Exception | None, are_sizes: bool = False
) -> DGLError | None:
    """Return an error that names an argument which is not what its annotation says, None if all are.

    With ``are_sizes`` integers are sizes of tensors, so neither negative nor above 2**48. None, too, if dglite raised
    the ``error`` with which the call failed on purpose.
    """
    if error is not None and _is_raised_here(error):
        return None
    with suppress(TypeError):
        for argument, value in signature.bind(*args, **kwargs).arguments.items():
            annotation = signature.parameters[argument].annotation
            expected = _misfit(annotation, value)
            if not expected and are_sizes and _is_no_size(annotation, value):
                expected = "an integer from 0 to 2**48, a size"
            if expected:
                return DGLError(f"{name}: {argument} must be {expected}, got {_shown(value)}")
    return None


def _is_raised_here(error: Exception) -> bool:
    """Whether a ``raise`` in dglite's code raised an error, rather than Python, NumPy or torch that it called."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return True
    code = traceback.tb_frame.f_code
    return code.co_filename.startswith(_FOLDER) and code.co_code[traceback.tb_lasti] == _RAISE


def _shown(value: Any) -> str:
    with suppress(Exception):
        return f"{value!r:.60}"
    return type(value).__name__


def explained(function: AnyFunction) -> AnyFunction:
    """Decorate a function or a method: where its arguments do not fit, the error says what it takes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except UNPLANNED as error:
            if _never_began(error):
                _require_bound(function, args, kwargs)
            better = misfitting(*_called(function, args), kwargs, error)
            if better is not None:
                raise better from error
            raise

    named: Any = call
    named.__code__ = named.__code__.replace(co_name=function.__name__)  # one of its own, that tracebacks name
    return named  # type: ignore[no-any-return]


def _never_began(error: Exception) -> bool:
    """Whether an error is Python's about a call whose arguments do not fit, which no line of the function raised."""
    return type(error) is TypeError and error.__traceback__ is not None and error.__traceback__.tb_next is None


def _called(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, inspect.Signature, tuple[Any, ...]]:
    """Return how users call a function or a method, its signature without ``self``, and the arguments of that."""
    parameters, name = list(inspect.signature(function).parameters.values()), function.__name__
    if parameters[0].name == "self":
        parameters, args = parameters[1:], args[1:]
        name = _CALLED.get(function.__qualname__, f"g.{name}")
    return name, inspect.Signature(parameters), args


def _require_bound(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    name, signature, args = _called(function, args)
    require_bound(name, signature, args, kwargs)


def explain_constructors(cls: AnyClass, of_layer: bool = False, strict: str | None = None) -> AnyClass:
    """Do the same for the constructor that a class defines: decorate it, or call this in ``__init_subclass__``.

    Every argument must be what its annotation says for classes of the package ``strict``, which use them only later;
    not for those that users derive from them.
    """
    init: Any = vars(cls).get("__init__")
    if init is None:
        return cls

    def misfit_of(name: str, args: Any, kwargs: Any, error: Exception | None) -> DGLError | None:
        _self, *others = inspect.signature(init).parameters.values()
        if error is not None and _never_began(error):
            require_bound(name, inspect.Signature(others), args, kwargs, of_layer)
        return misfitting(name, inspect.Signature(others), args, kwargs, error, of_layer)

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except UNPLANNED as error:
            better = misfit_of(type(self).__name__, args, kwargs, error)
            if better is not None:
                raise better from error
            raise
        is_strict = strict is not None and type(self).__module__.startswith(f"{strict}.")
        if is_strict and (misfit := misfit_of(type(self).__name__, args, kwargs, None)):
            raise misfit

    cls.__init__ = __init__  # type: ignore[misc]
    return cls
