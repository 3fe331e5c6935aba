"""Tensors with values that a captured step reads beside its inputs, as class weights of a loss are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..errors import DGLError
from .decompositions import tensors_in


class SourceTensors:
    """Tensors that were there before a step was captured, with the versions that the step has read.

    Attributes
    ----------
    versions : list of (Tensor, int)
    """

    def __init__(self) -> None:
        self.versions: list[tuple[torch.Tensor, int]] = []
        self._noted: set[int] = set()
        self._results: dict[int, torch.Tensor] = {}

    def note(self, tensor: torch.Tensor) -> None:
        """Note that the step contains the values of a tensor."""
        if id(tensor) not in self._noted and id(tensor) not in self._results and not tensor.is_inference():
            self._noted.add(id(tensor))
            self.versions.append((tensor, tensor._version))

    def compute(self, func: Any, args: Any, kwargs: Any, where: str) -> Any:
        """Run an operator whose operands all have values; its results are constants of the step."""
        if func._schema.is_mutable and isinstance(args[0], torch.Tensor) and id(args[0]) not in self._results:
            raise DGLError(
                f"the forward pass writes into a tensor{where} that is neither a parameter nor a buffer, by {func}: a"
                " partitioned step would not; let the module have it by register_buffer"
            )
        for x in tree_leaves((args, kwargs)):
            if isinstance(x, torch.Tensor):
                self.note(x)
        out = func(*args, **kwargs)
        # results change with their operands only; they are kept so that no id is used again
        self._results.update((id(x), x) for x in tensors_in(out))
        return out


def tensors_changed(versions: Sequence[tuple[torch.Tensor, int]]) -> bool:
    """Return whether tensors were written since their versions were noted."""
    return any(x._version != version for x, version in versions)
