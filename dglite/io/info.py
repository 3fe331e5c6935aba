"""``save_info`` and ``load_info``: other information about a data set, as JSON and arrays, never as a pickle."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from .container import Container, first_bytes, local_path, write_container
from .dgl_pickle import load_pickled

_KIND = "info"
_PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""The first bytes of pickles, by protocol."""
_PLAIN = (str, bool, float, type(None))
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


@explained
def save_info(path: Any, info: Mapping[str, Any]) -> None:
    """Write a dictionary to a file: numbers, strings, bytes, tensors, arrays, and lists, tuples, sets, dicts of them.

    Raises DGLError: a value is of another type: the message says where. Or the file cannot be written.
    """
    arrays: dict[str, Any] = {}
    write_container(path, _KIND, {"info": _described(info, "info", arrays)}, arrays)


@explained
def load_info(path: Any) -> Any:
    """Return the dictionary that :func:`save_info` wrote, dglite's or DGL's, whose files are pickles.

    Tensors come on the CPU; nothing in the file is executed: see :func:`.load_pickled` for what a pickle may hold.

    Raises DGLError: there is no such file, it is damaged, or neither of the two wrote it.
    """
    if first_bytes(local_path(path)).startswith(_PICKLE):
        return load_pickled(path)
    file = Container(local_path(path), _KIND)
    try:
        return _restored(file.header.get("info"), file, set())
    except (RecursionError, TypeError, ValueError) as error:
        raise file.damaged(f"its content is not understood ({error})") from error


def _described(value: Any, where: str, arrays: dict[str, Any]) -> Any:
    """Return ``value`` as JSON. What JSON has not is a list: a type name, then the content."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is np.str_:
        return str(value)
    if kind is int:
        return value if abs(value) < 2**63 else ["int", str(value)]
    if kind.__name__ in _SEQUENCES and kind is _SEQUENCES[kind.__name__]:
        return [kind.__name__, [_described(x, f"{where}[{i}]", arrays) for i, x in enumerate(value)]]
    if isinstance(value, Mapping):
        pairs = [[_described(k, f"a key of {where}", arrays), _described(v, f"{where}[{k!r}]", arrays)]
                 for k, v in value.items()]  # fmt: skip
        return ["dict", pairs]
    if kind is complex:
        return ["complex", value.real, value.imag]
    if kind in (bytes, bytearray):
        return ["bytes", _stored(np.frombuffer(value, np.uint8), arrays)]
    if active.is_tensor(value):
        return ["tensor", _stored(value, arrays)]
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        return ["strings", _stored(_codes(value), arrays)]
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
        array = np.asarray(value)
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        return ["array" if isinstance(value, np.ndarray) else "scalar", _stored(native, arrays)]
    raise DGLError(
        f"{where} is a {kind.__name__}, which cannot be saved; expected numbers, strings, bytes, tensors, arrays, "
        "or lists, tuples, sets and dicts of these"
    )


def _codes(strings: np.ndarray) -> np.ndarray:
    """Return an array of strings as numbers of characters, (*shape, longest); 0 follows the last of a string."""
    whole = np.ascontiguousarray(strings, strings.dtype.newbyteorder("="))
    return whole.view(np.int32).reshape(*strings.shape, strings.dtype.itemsize // 4)


def _stored(values: Tensor | np.ndarray, arrays: dict[str, Any]) -> str:
    name = str(len(arrays))
    arrays[name] = values
    return name


def _restored(value: Any, file: Container, used: set[str]) -> Any:
    """Return the value of parsed JSON. An array may be ``used`` once: a short text could ask for it a million times."""
    if not isinstance(value, list):
        if isinstance(value, dict):
            raise file.damaged("its content holds a bare JSON object")
        return value
    kind, content = value[:2]
    if kind == "dict":
        return {_restored(key, file, used): _restored(x, file, used) for key, x in content}
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_restored(x, file, used) for x in content)
    if kind == "int" and isinstance(content, str):
        return int(content)
    if kind == "complex":
        return complex(*map(float, value[1:]))
    if kind not in ("tensor", "array", "scalar", "bytes", "strings"):
        raise file.damaged(f"its content holds an unknown {kind!r:.40}")
    if content in used:
        raise file.damaged(f"its content holds array {content!r:.40} twice")
    used.add(content)
    tensor = file.tensor(str(content))
    if kind == "tensor":
        return tensor
    array = active.to_numpy(tensor)
    if kind == "bytes":
        return array.tobytes()
    if kind == "strings":
        return _strings(array)
    return array if kind == "array" else array[()]


def _strings(codes: np.ndarray) -> np.ndarray:
    """Return the strings of :func:`_codes`; raise ``ValueError`` for numbers that are not character codes."""
    if (
        codes.dtype != np.int32
        or not codes.ndim
        or (codes.size and not 0 <= codes.min() <= codes.max() <= sys.maxunicode)
    ):
        raise ValueError(f"strings are not made of characters, but {codes.dtype} of shape {codes.shape}")
    if not codes.shape[-1]:
        return np.zeros(codes.shape[:-1], "U1")
    return np.ascontiguousarray(codes).view(f"U{codes.shape[-1]}")[..., 0]
