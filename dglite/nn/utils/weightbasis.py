"""Weight matrices that are combinations of shared bases."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import final

from ...backend import Tensor, framework
from ...errors import DGLWarning
from .. import functional
from ..base import Layer, nn


@final
class WeightBasis(Layer):
    r"""Parameters that are weighted sums of bases, of Schlichtkrull et al., "Modeling relational data with graph
    convolutional networks", 2018.

    .. math:: W_o = \sum_b a_{ob} V_b

    Parameters
    ----------
    shape
        Of each :math:`W_o` and :math:`V_b`.
    num_bases, num_outputs
        How many there are. A ``DGLWarning`` says so where there are no fewer bases than outputs, which saves nothing.

    Shapes
    ------
    -> (num_outputs, \*shape)
    """

    def __init__(self, shape: Sequence[int], num_bases: int, num_outputs: int) -> None:
        super().__init__()
        self.shape, self.num_bases, self.num_outputs = tuple(shape), num_bases, num_outputs
        if num_outputs <= num_bases:
            warnings.warn(
                f"WeightBasis: {num_bases} bases for {num_outputs} outputs; fewer bases than outputs save parameters",
                DGLWarning,
                stacklevel=2,
            )
        self.weight = nn.Parameter(framework.empty(num_bases, *self.shape))
        self.w_comp = nn.Parameter(framework.empty(num_outputs, num_bases))
        for parameter in (self.weight, self.w_comp):
            functional.xavier_uniform_(parameter, gain=nn.init.calculate_gain("relu"))

    def forward(self) -> Tensor:
        """Return the parameters."""
        flat = self.w_comp @ self.weight.reshape(self.num_bases, math.prod(self.shape))
        return flat.reshape(self.num_outputs, *self.shape)
