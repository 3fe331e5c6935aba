"""Reads pickles that hold graphs of DGL, as ``pickle.dump`` and ``torch.save`` write them; no code in them is run.

An ordinary unpickler calls whatever a file names. This one knows DGL's classes (:mod:`.dgl_states`), tensors, arrays
and plain containers, and refuses every other name.
"""

from __future__ import annotations

import collections
import io
import pickle
import struct
import types
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import DGLError
from ..graph import DGLGraph
from . import dgl_states as states
from .container import local_path

_ZIP, _TORCH = b"PK\x03\x04", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""The first bytes of files of ``torch.save``, since 2020 and before."""


class _NotAdmitted(pickle.UnpicklingError):
    """The pickle holds what is not read: its message is a noun."""


class _Unread(NamedTuple):
    """A graph whose state has been read but not understood: the tensors in it may be filled later."""

    graph: DGLGraph
    state: Any
    is_block: bool


def _graph_class(unread: list[_Unread], is_block: bool) -> type[DGLGraph]:
    """Return a substitute of DGL's graph class for one file: its states are added to ``unread``."""

    class Graph(DGLGraph):
        def __setstate__(self, state: Any) -> None:
            unread.append(_Unread(self, state, is_block))

    return Graph


def _initializer(*_: object) -> None:
    """Stand in for what DGL fills features with: it is not kept."""


def _getattr(owner: Any, name: str) -> Any:
    """Stand in for ``getattr``, by which DGL names one method."""
    if owner is not states.SchemeState or name != "_reconstruct_scheme":
        raise _NotAdmitted(f"the attribute {name!r:.40} of {owner!r:.40}")
    return states.SchemeState._reconstruct_scheme


def _bytes(content: Any = b"", encoding: str | None = None) -> bytes:
    """Stand in for ``bytes`` and ``bytearray``: of content, not of a size."""
    if isinstance(content, str) and encoding == "latin-1":
        return content.encode("latin-1")
    if not isinstance(content, bytes):
        raise _NotAdmitted(f"bytes of {type(content).__name__}")
    return content


def _encode(text: str, encoding: str) -> bytes:
    """Stand in for ``_codecs.encode``, by which the older protocols write bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise _NotAdmitted(f"bytes encoded as {encoding!r:.40}")
    return text.encode("latin1")


def _storage(content: bytes) -> Any:
    """Stand in for ``torch.storage._load_from_bytes``, with torch's reader of weights only."""
    import torch  # only tensors need it

    return torch.load(io.BytesIO(content), weights_only=True)


_GRAPHS = {
    "dgl.heterograph": "DGLGraph DGLHeteroGraph DGLBlock",
    "dgl.graph": "DGLGraph",
    "dgl.batched_graph": "BatchedDGLGraph",
    "dgl.batched_heterograph": "BatchedDGLHeteroGraph",
    "dgl._deprecate.graph": "DGLGraph",
}
_STATES = {
    "dgl.heterograph_index": "HeteroGraphIndex HeteroPickleStates",
    "dgl.graph_index": "GraphIndex",
    "dgl.ndarray": "SparseMatrix",
    "dgl.frame": "Frame Column FrameRef Scheme",
    "dgl._deprecate.frame": "Frame Column FrameRef Scheme",
    "dgl.graphbolt.impl.fused_csc_sampling_graph": "FusedCSCSamplingGraph",
    "torch": "ScriptObject",
    "dgl.utils": "Index",
    "dgl.utils.internal": "Index",
    "dgl.utils.data": "Index",
}
_OF_CLASS: dict[str, type] = {
    "FrameRef": states.FrameRefState,
    "FusedCSCSamplingGraph": states.FusedGraphState,
    "Index": states.IndexState,
    "Scheme": states.SchemeState,
}
"""Classes of DGL whose states are read in ways of their own; others are a :class:`~.dgl_states.State`."""
_INITIALIZERS = "zero_initializer base_initializer"
_BUILTINS = "set frozenset slice complex range list dict tuple int float bool str"


def _admitted() -> dict[tuple[str, str], Any]:
    """Return the objects for names in a file, by module and name."""
    names: dict[tuple[str, str], Any] = {
        ("dgl._ffi.object", "_new_object"): states.new_object,
        ("builtins", "getattr"): _getattr,
        ("__builtin__", "getattr"): _getattr,
        ("collections", "OrderedDict"): collections.OrderedDict,
        ("collections", "defaultdict"): collections.defaultdict,
        ("_codecs", "encode"): _encode,
        ("__builtin__", "xrange"): range,
        ("torch.storage", "_load_from_bytes"): _storage,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }
    for module in ("builtins", "__builtin__"):
        names |= {(module, name): __builtins__[name] for name in _BUILTINS.split()}  # type: ignore[index]
        names |= {(module, name): _bytes for name in ("bytes", "bytearray")}
    for module, classes in _STATES.items():
        names |= {(module, name): _OF_CLASS.get(name, states.State) for name in classes.split()}
    names |= {("dgl.init", name): _initializer for name in _INITIALIZERS.split()}
    for name in ("_reconstruct", "scalar"):
        function = getattr(np._core.multiarray, name)  # type: ignore[attr-defined]
        names |= {(f"numpy.{core}.multiarray", name): function for core in ("core", "_core")}
    of_graphbolt = "dgl.graphbolt.impl.fused_csc_sampling_graph", "fused_csc_sampling_graph"
    names[of_graphbolt] = states.FusedGraphState.of_arguments
    names["numpy._core.numeric", "_frombuffer"] = np._core.numeric._frombuffer  # type: ignore[attr-defined]
    return names


_ADMITTED = _admitted()
_OF_TORCH = {
    "torch._utils": "_rebuild_tensor_v2 _rebuild_tensor _rebuild_parameter",
    "torch": "Size device Tensor",
    "torch.nn.parameter": "Parameter",
}


def _load_bytearray(unpickler: Any) -> None:
    """Read the opcode ``BYTEARRAY8``; Python's own reader allocates what the file says before it has seen the bytes."""
    (size,) = struct.unpack("<Q", unpickler.read(8))
    unpickler.append(bytearray(unpickler.read(size)))


def _load_build(unpickler: Any) -> None:
    """Run the opcode ``BUILD`` on objects alone: a class or a function would be changed for the whole process."""
    target = unpickler.stack[-2]
    if callable(target):
        raise _NotAdmitted(f"a change of {target!r:.60}")
    pickle._Unpickler.dispatch[pickle.BUILD[0]](unpickler)


def _refuse_range(arguments: Any) -> None:
    """Raise for a call on a range: 30 bytes of a file would become a list of any length."""
    if any(isinstance(argument, range) for argument in arguments):
        raise _NotAdmitted("a container of the numbers of a range")


def _load_reduce(unpickler: Any) -> None:
    """Run the opcode ``REDUCE``, a call."""
    _refuse_range(unpickler.stack[-1])
    pickle._Unpickler.dispatch[pickle.REDUCE[0]](unpickler)


def _load_newobj(unpickler: Any) -> None:
    """Run the opcode ``NEWOBJ``, a call of ``__new__``."""
    _refuse_range(unpickler.stack[-1])
    pickle._Unpickler.dispatch[pickle.NEWOBJ[0]](unpickler)


def _load_newobj_ex(unpickler: Any) -> None:
    """Run the opcode ``NEWOBJ_EX``, the same with names of arguments."""
    _refuse_range(unpickler.stack[-2])
    pickle._Unpickler.dispatch[pickle.NEWOBJ_EX[0]](unpickler)


class _Unpickler(pickle._Unpickler):
    """Reads one file; its graphs are those of ``unread`` until their states are understood.

    It is the unpickler that is written in Python: the other takes the memory that a file asks for.
    """

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.BYTEARRAY8[0]: _load_bytearray,
        pickle.BUILD[0]: _load_build,
        pickle.REDUCE[0]: _load_reduce,
        pickle.NEWOBJ[0]: _load_newobj,
        pickle.NEWOBJ_EX[0]: _load_newobj_ex,
    }

    def __init__(self, file: Any, unread: list[_Unread], **options: Any) -> None:
        super().__init__(file, **options)
        self._classes = {is_block: _graph_class(unread, is_block) for is_block in (False, True)}

    def _instantiate(self, klass: Any, args: Any) -> None:
        _refuse_range(args)
        super()._instantiate(klass, args)  # type: ignore[misc]

    def get_extension(self, code: int) -> None:
        """Refuse the opcodes ``EXT1`` to ``EXT4``: the process caches any object that was loaded by its code."""
        raise _NotAdmitted(f"extension code {code}, a name of the process that wrote it")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ADMITTED:
            return _ADMITTED[module, name]
        if name in _GRAPHS.get(module, "").split():
            return self._classes[name == "DGLBlock"]
        if module == "torch" or name in _OF_TORCH.get(module, "").split():
            value = _of_torch(module, name)
            if value is not None:
                return value
        raise _NotAdmitted(f"{module}.{name}, which is neither of DGL's nor a number, tensor or container")


def _of_torch(module: str, name: str) -> Any:
    """Return a function that makes tensors, a dtype or a class of storages; None for other names."""
    import torch  # only tensors need it

    if name in _OF_TORCH[module].split():
        owner = {"torch._utils": torch._utils, "torch": torch, "torch.nn.parameter": torch.nn.parameter}[module]
        return getattr(owner, name)
    value = getattr(torch, name, None)
    is_storage = isinstance(value, type) and issubclass(value, torch.TypedStorage | torch.UntypedStorage)
    return value if isinstance(value, torch.dtype) or is_storage else None


def load_pickled(path: Any) -> Any:
    """Return the object in a pickle of DGL 0.4 to 2.x: graphs, alone or in lists, tuples and dicts.

    It reads files of ``pickle.dump(g, file)`` and ``torch.save(g, path)``, in which DGL's graphs become graphs of
    dglite: homogeneous and heterogeneous ones, batches and blocks, with their features. Beside them may be tensors,
    arrays, numbers, text and containers of Python. Nothing else is admitted, so a file that came from elsewhere
    runs no code.

    Raises DGLError: there is no such file, it is damaged, it holds something else (the error names it), or a graph of
    it contradicts itself or is of an unknown version of DGL.

    Examples
    --------
    >>> import os, pickle, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "labels.pkl")
    >>> with open(path, "wb") as file:
    ...     pickle.dump([("first", 0), ("second", 1)], file)
    >>> load_pickled(path)
    [('first', 0), ('second', 1)]
    """
    path = local_path(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DGLError(f"{path} cannot be read: {error}") from error
    try:
        unread: list[_Unread] = []
        if content.startswith((_ZIP, _TORCH)):
            loaded = _torch_load(content, unread)
        else:
            loaded = _Unpickler(io.BytesIO(content), unread, encoding="latin1").load()
        for graph, state, is_block in unread:
            graph.__dict__.update(vars(states.graph_of(state, is_block, path)))
            graph.__class__ = DGLGraph
        return loaded
    except DGLError as error:
        if str(path) in str(error):
            raise
        raise DGLError(f"{path} is not read: {error}") from error
    except _NotAdmitted as error:
        raise DGLError(
            f"{path} is not read: it holds {error}. Expected a pickle of graphs of DGL, tensors, arrays, numbers, text "
            "and containers of these; if you trust the file, read anything else by pickle.load or torch.load where "
            '"import dgl" is dglite'
        ) from error
    except Exception as error:  # a damaged pickle raises nearly anything: IndexError, TypeError, MemoryError ...
        raise DGLError(
            f"{path} is not read: it is damaged, or neither a pickle nor torch's ({type(error).__name__}: {error})"
        ) from error


def _torch_load(content: bytes, unread: list[_Unread]) -> Any:
    import torch  # a file of torch's

    class Unpickler(_Unpickler):  # which torch derives its own from
        def __init__(self, file: Any, **options: Any) -> None:
            super().__init__(file, unread, **options)

    def load(file: Any, **options: Any) -> Any:
        return Unpickler(file, **options).load()

    module: Any = types.SimpleNamespace(Unpickler=Unpickler, load=load, __name__="dgl_pickle")
    return torch.load(io.BytesIO(content), map_location="cpu", pickle_module=module, weights_only=False)
