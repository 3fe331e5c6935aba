"""First values of parameters: Glorot's distributions, for parameters without elements too."""

from __future__ import annotations

from ...backend import Tensor
from ..base import nn


def zeros_(parameter: Tensor | None) -> None:
    """Set a parameter, such as a bias, to 0; nothing for None."""
    if parameter is not None:
        nn.init.zeros_(parameter)


def xavier_uniform_(parameter: Tensor, gain: float = 1.0) -> None:
    """Draw from Glorot's uniform distribution; nothing for a size of 0, where torch divides by the sum of the sizes."""
    if 0 not in parameter.shape:
        nn.init.xavier_uniform_(parameter, gain)


def xavier_normal_(parameter: Tensor, gain: float = 1.0) -> None:
    """Draw from Glorot's normal distribution; nothing for a size of 0."""
    if 0 not in parameter.shape:
        nn.init.xavier_normal_(parameter, gain)
