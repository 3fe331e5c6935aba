"""Tables of vectors and normalisation, with torch's parameter names and initial values."""

from __future__ import annotations

from typing import Any, final

from ....errors import DGLError
from ...autograd import Tensor, as_array
from ...library import library
from ...operations import functions
from . import init
from .module import Module, Parameter

__all__ = ["Embedding", "LayerNorm"]


@final
class Embedding(Module):
    r"""Rows of a table by number: integers (\*) -> (\*, embedding_dim). Row ``padding_idx`` is 0 and not trained."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise DGLError(f"Embedding: padding_idx={padding_idx} is no row of {num_embeddings}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = Parameter(library.xp.empty((num_embeddings, embedding_dim), "float32"))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table from a normal distribution, mean 0, deviation 1."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    def forward(self, x: Any) -> Tensor:
        """Return the rows."""
        ids = as_array(x)
        found: Any = self.weight[ids]  # type: ignore[index]
        if self.padding_idx is None:
            return found
        padding = (ids == self.padding_idx)[..., None]
        return functions["where"](padding, found.detach(), found)

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


@final
class LayerNorm(Module):
    r"""Mean 0 and variance 1 along the last axis, scaled and shifted: (\*, size) -> (\*, size). Ba et al., 2016."""

    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, normalized_shape: int, eps: float = 1e-5, elementwise_affine: bool = True) -> None:
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = (normalized_shape,), eps, elementwise_affine
        for name in ("weight", "bias"):
            table = Parameter(library.xp.empty(normalized_shape, "float32")) if elementwise_affine else None
            self.register_parameter(name, table)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to 1 and the shift to 0."""
        if self.weight is not None and self.bias is not None:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def forward(self, x: Any) -> Any:
        """Return the normalised rows."""
        centred = x - x.mean(-1, keepdim=True)
        result = centred / ((centred * centred).mean(-1, keepdim=True) + self.eps).sqrt()
        return result if self.weight is None else result * self.weight + self.bias

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
