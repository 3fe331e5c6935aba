"""Embedding tables and normalisation layers, with torch's parameter names and initial values."""

from __future__ import annotations

from typing import Any, final

from ....errors import DGLError
from ...autograd import Tensor, as_array
from ...library import library
from ...operations import functions
from . import init
from .module import Module, Parameter


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
        rows: Any = self.weight[ids]  # type: ignore[index]
        if self.padding_idx is None:
            return rows
        padding = (ids == self.padding_idx)[..., None]
        return functions["where"](padding, rows.detach(), rows)

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


@final
class BatchNorm1d(Module):
    """Mean 0 and variance 1 of each feature over the batch, scaled and shifted. Ioffe and Szegedy, 2015.

    (rows, num_features) or (rows, num_features, length), unchanged in shape. Out of training, the running mean and
    variance take the place of the batch's; ``momentum`` is how far a batch moves them, None for the mean of all. A
    batch without rows moves nothing.
    """

    weight: Tensor | None
    bias: Tensor | None
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        xp = library.xp
        for name in ("weight", "bias"):
            self.register_parameter(name, Parameter(xp.empty(num_features, "float32")) if affine else None)
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, Tensor(xp.empty(num_features, "float32")) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", Tensor(xp.zeros((), "int64")) if track_running_stats else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the variance to 1, and forget the batches."""
        if self.track_running_stats:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Set the scale to 1, the shift to 0, and the running statistics as at first."""
        self.reset_running_stats()
        if self.weight is not None and self.bias is not None:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def forward(self, x: Any) -> Any:
        """Return the normalised rows; raises ``DGLError`` for another shape, ``ValueError`` for a single value."""
        if x.ndim not in (2, 3) or x.shape[1] != self.num_features:
            raise DGLError(
                f"BatchNorm1d: got shape {tuple(x.shape)}; expected (rows, {self.num_features}) or "
                f"(rows, {self.num_features}, length)"
            )
        if self.training or not self.track_running_stats:
            mean, variance = self._of_batch(x)
        else:
            mean, variance = self._wide(self.running_mean, x), self._wide(self.running_var, x)
        result = (x - mean) / (variance + self.eps).sqrt()
        return result if self.weight is None else result * self._wide(self.weight, x) + self._wide(self.bias, x)

    def _of_batch(self, x: Any) -> tuple[Any, Any]:
        """Return the batch's mean and variance, to which the running ones are moved while training."""
        axes, count = (0, 2)[: x.ndim - 1], x.numel() // max(self.num_features, 1)
        if count == 1:
            raise ValueError(f"BatchNorm1d: got shape {tuple(x.shape)}; expected more than one value of each feature")
        mean = x.sum(axes, keepdim=True) / max(count, 1)
        centred = x - mean
        variance = (centred * centred).sum(axes, keepdim=True) / max(count, 1)
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if count:
                self._move(mean.detach().reshape(-1), variance.detach().reshape(-1) * (count / (count - 1)))
        return mean, variance

    def _move(self, mean: Any, variance: Any) -> None:
        """Move the running statistics towards a batch's statistics."""
        share = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        for running, current in ((self.running_mean, mean), (self.running_var, variance)):
            running.copy_(running + share * (current - running))

    @staticmethod
    def _wide(x: Any, like: Any) -> Any:
        """Return what each feature has such that it meets (rows, features, ...)."""
        return x.reshape(-1, 1) if like.ndim == 3 else x

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )
