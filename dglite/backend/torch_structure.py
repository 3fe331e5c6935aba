"""The tensors that programs of torch hold of a structure, and the way back from them to it.

A program that torch has compiled or exported calls an operator with the two ends of every edge. Sorting and checking
them again at each call would take longer than most kernels, so what was made of them is noted with their memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

from .torch_breaks import left_to_python

_MOST = 8
"""Structures noted with one storage: a program may read the same edges between different numbers of nodes."""
_NAME = "_dglite_structures"


@dataclass(slots=True)
class _Noted:
    """What was made of two tensors.

    ``structure`` returns it, or None once it is gone. ``versions`` count what had been written to the tensors;
    inference tensors have none, so ``values`` are compared. ``other`` is the second tensor's memory, None if it is the
    first's: while it is referred to, no other memory has its name.
    """

    structure: Callable[[], Any]
    versions: tuple[int, int] | None
    values: tuple[torch.Tensor, torch.Tensor] | None
    other: StorageWeakRef | None

    def holds(self, src: torch.Tensor, dst: torch.Tensor) -> bool:
        if self.values is None:
            return self.versions == _versions(src, dst)
        return all(torch.equal(x, y) for x, y in zip(self.values, (src, dst), strict=True))


@left_to_python
def make_tensors(src: Any, dst: Any, owner: Any, num_src: int, num_dst: int) -> tuple[Any, Any]:
    """Return two arrays as tensors in their memory, or two tensors, which lead back to ``owner`` while it lives."""
    with outside_of_programs():
        src, dst = (torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in (src, dst))
        _note(src, dst, (num_src, num_dst), weakref.ref(owner))
    return src, dst


@left_to_python
def structure_of(src: torch.Tensor, dst: torch.Tensor, counts: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Return the structure that these tensors are of; ``make`` makes it where none is noted with their memory.

    ``counts`` are numbers of nodes, or whatever else the structure depends on.
    """
    noted = _noted(src, dst, counts)
    if noted is None:
        turned = _noted(dst, src, counts[::-1])
        if turned is not None:
            return turned.reverse()
        noted = make()
        _note(src, dst, counts, lambda: noted)
    return noted


def _key(src: torch.Tensor, dst: torch.Tensor, counts: tuple[Any, ...]) -> tuple[Any, ...]:
    first = src.dtype, src.storage_offset(), src.shape, src.stride()
    if src is dst:
        return first, counts
    return first, dst.dtype, dst.storage_offset(), dst.shape, dst.stride(), dst.untyped_storage()._cdata, counts


def _noted(src: torch.Tensor, dst: torch.Tensor, counts: tuple[Any, ...]) -> Any:
    noted: _Noted | None = getattr(src.untyped_storage(), _NAME, {}).get(_key(src, dst, counts))
    return noted.structure() if noted is not None and noted.holds(src, dst) else None


def _note(src: torch.Tensor, dst: torch.Tensor, counts: tuple[Any, ...], structure: Callable[[], Any]) -> None:
    storage, other = src.untyped_storage(), dst.untyped_storage()
    table = getattr(storage, _NAME, None)
    if table is None or len(table) >= _MOST:
        table = {}
        setattr(storage, _NAME, table)
    versions = _versions(src, dst)
    values = (src.clone(), dst.clone()) if versions is None else None
    # Older versions of torch never free a storage that refers to itself.
    ref = None if other._cdata == storage._cdata else StorageWeakRef(other)
    table[_key(src, dst, counts)] = _Noted(structure, versions, values, ref)


def _versions(src: torch.Tensor, dst: torch.Tensor) -> tuple[int, int] | None:
    return None if src.is_inference() or dst.is_inference() else (src._version, dst._version)


@contextmanager
def outside_of_programs() -> Iterator[None]:
    """Let tensors be made that have values whatever torch is tracing or transforming now."""
    tracing, set_tracing = torch._C._get_tracing_state(), torch._C._set_tracing_state  # type: ignore[attr-defined]
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        if torch._C._functorch.peek_interpreter_stack() is not None:
            stack.enter_context(temporarily_clear_interpreter_stack())
        stack.enter_context(_disable_current_modes())
        set_tracing(None)
        try:
            yield
        finally:
            set_tracing(tracing)
