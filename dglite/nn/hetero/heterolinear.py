"""A linear layer for each type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from ...backend import Tensor
from ...errors import DGLError
from ..base import Layer, nn


@final
class HeteroLinear(Layer):
    """A linear layer of its own for each type of nodes or edges.

    ``in_size`` maps types, strings or tuples of strings, to the size of their rows; ``out_size`` is that of all
    results. ``bias``: whether there is one. Parameters are ``linears.<type>.weight`` and so on.
    """

    def __init__(self, in_size: Mapping[Any, int], out_size: int, bias: bool = True) -> None:
        super().__init__()
        if not isinstance(in_size, Mapping):
            raise DGLError(
                f"HeteroLinear takes a dictionary from type to size, such as {{'user': 8}}, got {in_size!r:.60}"
            )
        self.linears = nn.ModuleDict()
        for key, size in in_size.items():
            self.linears[str(key)] = nn.Linear(size, out_size, bias=bias)

    def forward(self, feat: Mapping[Any, Tensor]) -> dict[Any, Tensor]:
        """Return the results by type, (rows, out_size); raises ``DGLError`` for a type that has no layer."""
        for key in feat:
            if str(key) not in self.linears:
                raise DGLError(f"HeteroLinear has no layer for {key!r}; it has {', '.join(self.linears) or 'none'}")
        return {key: self.linears[str(key)](x) for key, x in feat.items()}
