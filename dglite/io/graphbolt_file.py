"""GraphBolt's files of a graph, ``fused_csc_sampling_graph.pt``: read without GraphBolt, written so that it reads them.

GraphBolt pickles an object of a C++ class of torch's, whose state is tensors by name, by group. A file that is written
here calls GraphBolt's function ``fused_csc_sampling_graph`` with the same tensors instead.
"""

from __future__ import annotations

import pickle
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ..errors import DGLError
from .atomic import replacing
from .dgl_pickle import load_pickled
from .dgl_states import FusedGraphState, State

_TENSORS = ("node_type_offset", "type_per_edge")
_GROUPS = ("node_type_to_id", "edge_type_to_id", "node_attributes", "edge_attributes")
_FIELDS = ("csc_indptr", "indices", *_TENSORS, *_GROUPS)
_MODULE = "dgl.graphbolt.impl.fused_csc_sampling_graph"


def load_fused_graph(path: Any) -> dict[str, Any]:
    """Return the arguments of ``fused_csc_sampling_graph`` that make the graph in a file of GraphBolt's or of ours.

    Tensors ``csc_indptr`` and ``indices``; ``node_type_offset`` and ``type_per_edge``, numbers of types by name,
    attributes of nodes and edges by name, or None.

    Raises DGLError: there is no such file, it is damaged, or it holds something else.
    """
    loaded = load_pickled(path)
    content = getattr(loaded, "content", None)
    if not isinstance(loaded, FusedGraphState) or content is None:
        raise DGLError(f"{path} holds {type(loaded).__name__}; expected a FusedCSCSamplingGraph of GraphBolt")
    try:
        fields = dict(zip(_FIELDS, content, strict=False)) if isinstance(content, tuple) else _of_state(content)
        fields = {name: fields.get(name) for name in _FIELDS}
        for name in _GROUPS[:2]:
            if fields[name] is not None:
                fields[name] = {key: int(x) for key, x in fields[name].items()}
        if fields["csc_indptr"] is None or fields["indices"] is None:
            raise KeyError("indptr, indices")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DGLError(f"{path} is damaged, or of another version of GraphBolt: {error!r:.200}") from error
    return fields


def _of_state(content: Mapping[str, Any]) -> dict[str, Any]:
    graph = content["_c_csc_graph"]
    assert isinstance(graph, State)
    groups, _ = graph.content  # and the name of the C++ class
    tensors = groups["independent_tensors"]
    fields = {"csc_indptr": tensors["indptr"], "indices": tensors["indices"]}
    return fields | {name: tensors.get(name) for name in _TENSORS} | {name: groups.get(name) for name in _GROUPS}


def save_fused_graph(path: Any, fields: Mapping[str, Any]) -> None:
    """Write the graph that :func:`load_fused_graph` returns, in the form of ``torch.save``.

    A program with GraphBolt reads it by ``torch.load(path, weights_only=False)``.
    """
    import torch  # a file of torch's

    module: Any = types.SimpleNamespace(Pickler=_Pickler, __name__="graphbolt_file")
    with replacing(Path(path)) as file:
        torch.save(_Call(tuple(fields.get(name) for name in _FIELDS)), file, pickle_module=module, pickle_protocol=2)


def _fused_csc_sampling_graph(*arguments: Any) -> None:
    """Stand for GraphBolt's function."""


class _Call:
    """Pickled as a call of GraphBolt's function."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _fused_csc_sampling_graph, self.arguments


class _Pickler(pickle._Pickler):
    """Writes GraphBolt's function by its name, which need not be there; it is the pickler written in Python."""

    def _save_function(self, function: Any) -> None:
        if function is not _fused_csc_sampling_graph:
            self.save_global(function)  # type: ignore[attr-defined]
            return
        self.write(pickle.GLOBAL + f"{_MODULE}\nfused_csc_sampling_graph\n".encode())  # type: ignore[attr-defined]
        self.memoize(function)  # type: ignore[attr-defined]

    dispatch: ClassVar[dict[type, Any]] = {**pickle._Pickler.dispatch, types.FunctionType: _save_function}
