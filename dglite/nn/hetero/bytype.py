"""Linear layers and embeddings by type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from ...backend import Tensor
from ...errors import DGLError
from .. import functional
from ..base import Layer, nn

_TAKEN = frozenset(dir(nn.ModuleDict()))


def module_name(key: Any) -> str:
    """Return the name under which a dictionary of modules holds that of a type: the type's, if it takes that.

    It does not take the names of its own attributes, such as ``items`` or ``type``, nor dots, nor nothing.
    """
    name = str(key)
    if name and "." not in name and name not in _TAKEN:
        return name
    return "type:" + name.replace("%", "%25").replace(".", "%2E")


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
            self.linears[module_name(key)] = nn.Linear(size, out_size, bias=bias)

    def forward(self, feat: Mapping[Any, Tensor]) -> dict[Any, Tensor]:
        """Return the results by type, (rows, out_size); raises ``DGLError`` for a type that has no layer."""
        for key in feat:
            if module_name(key) not in self.linears:
                raise DGLError(f"HeteroLinear has no layer for {key!r}; it has {', '.join(self.linears) or 'none'}")
        return {key: self.linears[module_name(key)](x) for key, x in feat.items()}


@final
class HeteroEmbedding(Layer):
    """A table of embeddings of its own for each type of nodes or edges.

    ``num_embeddings`` maps types, strings or tuples of strings, to numbers of rows; ``embedding_dim`` is the size of
    each. Parameters are ``embeds.<type>.weight``.
    """

    def __init__(self, num_embeddings: Mapping[Any, int], embedding_dim: int) -> None:
        super().__init__()
        self.embeds: Any = nn.ModuleDict()
        self.raw_keys = {module_name(key): key for key in num_embeddings}
        for key, rows in num_embeddings.items():
            self.embeds[module_name(key)] = nn.Embedding(rows, embedding_dim)

    @property
    def weight(self) -> dict[Any, Tensor]:
        """The whole tables by type, (rows, embedding_dim)."""
        return {self.raw_keys[name]: table.weight for name, table in self.embeds.items()}

    def reset_parameters(self) -> None:
        """Draw all tables from Glorot's uniform distribution."""
        for weight in self.weight.values():
            functional.xavier_uniform_(weight)

    def forward(self, input_ids: Mapping[Any, Tensor]) -> dict[Any, Tensor]:
        """Return rows by type, (ids, embedding_dim); raises ``DGLError`` for a type that has no table."""
        for key in input_ids:
            if module_name(key) not in self.embeds:
                raise DGLError(f"HeteroEmbedding has no table for {key!r}; it has {', '.join(self.embeds) or 'none'}")
        return {key: self.embeds[module_name(key)](ids) for key, ids in input_ids.items()}
