"""``dgl.utils``: checks of arguments, and pairs of features for bipartite graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ...errors import DGLError
from ...graph import DGLGraph
from .. import backend as F
from ..containers import is_listlike
from ..ndarray import Context

__all__ = [
    "check_all_same_device",
    "check_all_same_idtype",
    "check_all_same_schema",
    "check_all_same_schema_for_keys",
    "check_device",
    "check_eq_shape",
    "check_valid_idtype",
    "context_of",
    "dtype_of",
    "expand_as_pair",
    "gather_pinned_tensor_rows",
    "get_num_threads",
    "is_sorted_srcdst",
    "parse_edges_arg_to_eid",
    "prepare_tensor",
    "prepare_tensor_dict",
    "prepare_tensor_or_dict",
    "scatter_pinned_tensor_rows",
    "set_num_threads",
    "to_device",
    "to_dgl_context",
    "to_nbits_int",
]

Tensor = torch.Tensor


# -- features of both ends ---------------------------------------------------------------------------------------------
def expand_as_pair(input_: Any, g: DGLGraph | None = None) -> tuple[Any, Any]:
    """Return features of sources and of destinations from a tensor, a dict of tensors by type, or a pair of either.

    A pair stays. One input serves both sides; where ``g`` is a block, whose destinations are the first of its sources,
    the second one has the rows of these.
    """
    if isinstance(input_, tuple):
        return input_  # type: ignore[return-value]
    if g is None or not g.is_block:
        return input_, input_
    if isinstance(input_, Mapping):
        return input_, {ntype: x[: g.num_dst_nodes(ntype)] for ntype, x in input_.items()}
    return input_, input_[: g.num_dst_nodes()]


def check_eq_shape(input_: Any) -> None:
    """Raise ``DGLError`` unless sources and destinations have features of one shape."""
    src, dst = expand_as_pair(input_)
    if src.shape[1:] != dst.shape[1:]:
        raise DGLError(
            f"source features are {tuple(src.shape[1:])}, destination features {tuple(dst.shape[1:])}; "
            "they must have one shape"
        )


# -- ids ---------------------------------------------------------------------------------------------------------------
def prepare_tensor(g: DGLGraph, data: Any, name: str) -> Tensor:
    """Return ids, a number, list or tensor, as a vector of the graph's id dtype on its device.

    Raises DGLError: a tensor has another dtype or device, or the ids are not integers or not one-dimensional.
    """
    if F.is_tensor(data):
        if data.dtype != g.idtype:
            raise DGLError(f"{name!r} has dtype {data.dtype}; the graph's ids are {g.idtype}")
        if data.device != g.device:
            raise DGLError(f"{name!r} is on {data.device}; the graph is on {g.device}")
        ids = data
    else:
        ids = F.tensor(data)
        if ids.numel() and ids.dtype not in (torch.int32, torch.int64):
            raise DGLError(f"{name!r} must be integers, got {ids.dtype}")
        ids = ids.to(g.device, g.idtype)
    if ids.dim() > 1:
        raise DGLError(f"{name!r} must be one-dimensional, got shape {tuple(ids.shape)}")
    return ids.reshape(-1)


def prepare_tensor_dict(g: DGLGraph, data: Mapping[str, Any], name: str) -> dict[str, Tensor]:
    """Return :func:`prepare_tensor` of each value."""
    return {key: prepare_tensor(g, ids, f'{name}["{key}"]') for key, ids in data.items()}


def prepare_tensor_or_dict(g: DGLGraph, data: Any, name: str) -> Any:
    """Return :func:`prepare_tensor` of a value, or of each value of a mapping."""
    return prepare_tensor_dict(g, data, name) if isinstance(data, Mapping) else prepare_tensor(g, data, name)


def parse_edges_arg_to_eid(g: DGLGraph, edges: Any, etid: int, argname: str = "edges") -> Tensor:
    """Return edge ids, given as such or as a pair (u, v) of node ids, of edge type number ``etid``."""
    if not isinstance(edges, tuple):
        return prepare_tensor(g, edges, argname)
    u, v = (prepare_tensor(g, ends, f"{argname}[{i}]") for i, ends in enumerate(edges))
    eids: Tensor = g.edge_ids(u, v, etype=g.canonical_etypes[etid])
    return eids


def is_sorted_srcdst(
    src: Tensor, dst: Tensor, num_src: int | None = None, num_dst: int | None = None
) -> tuple[bool, bool]:
    """Return whether edges are ordered by source, and whether, beyond that, those of a source are by destination."""
    by_src, by_dst = (np.diff(F.asnumpy(ends)) for ends in (src, dst))
    sorted_by_src = bool((by_src >= 0).all())
    return sorted_by_src, sorted_by_src and bool(((by_src > 0) | (by_dst >= 0)).all())


def to_nbits_int(tensor: Tensor, nbits: int) -> Tensor:
    """Return integers as int32 or int64; raise ``DGLError`` for another number of bits."""
    if nbits not in (32, 64):
        raise DGLError(f"integers of {nbits} bits are not for ids; expected 32 or 64")
    return tensor.to(torch.int32 if nbits == 32 else torch.int64)


def check_valid_idtype(idtype: Any) -> None:
    """Raise ``DGLError`` unless ``idtype`` is int32, int64 or None."""
    if idtype not in (None, torch.int32, torch.int64):
        raise DGLError(f"idtype must be int32 or int64, got {idtype}")


# -- several graphs ----------------------------------------------------------------------------------------------------
def check_all_same_idtype(glist: Sequence[DGLGraph], name: str) -> None:
    """Raise ``DGLError`` unless all graphs have ids of one dtype."""
    _require_same([g.idtype for g in glist], name, "id dtype")


def check_all_same_device(glist: Sequence[DGLGraph], name: str) -> None:
    """Raise ``DGLError`` unless all graphs are on one device."""
    _require_same([g.device for g in glist], name, "device")


def check_all_same_schema(schemas: Sequence[Any], name: str) -> None:
    """Raise ``DGLError`` unless all schemas, of the features called ``name``, are the same."""
    _require_same(schemas, name, "schema")


def check_all_same_schema_for_keys(schemas: Sequence[Mapping[str, Any]], keys: Any, name: str) -> None:
    """Raise ``DGLError`` unless all schemas have features ``keys`` and give them the same dtypes and shapes."""
    for i, schema in enumerate(schemas):
        missing = sorted(set(keys) - set(schema))
        if missing:
            raise DGLError(f"{name}[{i}] has no features {missing}; there are {sorted(schema) or 'none'}")
    _require_same([{key: schema[key] for key in keys} for schema in schemas], name, "schema")


def _require_same(values: Sequence[Any], name: str, quantity: str) -> None:
    for i, other in enumerate(values):
        if other != values[0]:
            raise DGLError(f"{name}[{i}] has {quantity} {other}, {name}[0] has {values[0]}; they must be the same")


# -- devices and threads -----------------------------------------------------------------------------------------------
def check_device(data: Any, device: Any) -> bool:
    """Whether a tensor, or every tensor of a dict, is on a device."""
    return all(x.device == device for x in (data.values() if isinstance(data, Mapping) else [data]))


def to_device(data: Any, device: Any) -> Any:
    """Return a tensor, or every tensor of a dict, on a device."""
    return {key: x.to(device) for key, x in data.items()} if isinstance(data, Mapping) else data.to(device)


def to_dgl_context(ctx: Any) -> Context:
    """Return the ``dgl.ndarray`` context of a device."""
    return Context(F.device_type(ctx), F.device_id(ctx))


def context_of(data: Any) -> torch.device:
    """Return the device of a tensor, or of the first tensor of a list or dict."""
    return _first(data).device


def dtype_of(data: Any) -> torch.dtype:
    """Return the dtype of a tensor, or of the first tensor of a list or dict."""
    return _first(data).dtype


def _first(data: Any) -> Tensor:
    if isinstance(data, Mapping):
        data = data.values()
    elif not is_listlike(data):
        data = [data]
    first: Tensor = next(iter(data))
    return first


def gather_pinned_tensor_rows(tensor: Tensor, rows: Tensor) -> Tensor:
    """Return rows of a tensor on the device of ``rows``; they are gathered where the tensor lives."""
    return tensor.index_select(0, rows.to(tensor.device).long()).to(rows.device)


def scatter_pinned_tensor_rows(dest: Tensor, rows: Tensor, source: Tensor) -> None:
    """Write ``source`` into rows of ``dest`` itself, wherever they live."""
    dest[rows.to(dest.device).long()] = source.to(dest.device)


def set_num_threads(num_threads: int) -> None:
    """Set how many threads tensors and graph kernels use: they share one pool."""
    torch.set_num_threads(num_threads)


def get_num_threads() -> int:
    """Return how many threads tensors and graph kernels use."""
    return torch.get_num_threads()
