"""Linear maps by type."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor, active, framework
from .. import functional
from ..base import Layer, nn


@final
class TypedLinear(Layer):
    r"""Multiply each row by the matrix of its type, after Schlichtkrull et al., "Modeling relational data with graph
    convolutional networks", 2018.

    .. math:: y_i = x_i W_{t_i}

    Rows are put in order of their types once, so that each type is one product of matrices.

    Parameters
    ----------
    in_size, out_size
        Sizes of input and output.
    num_types
        How many types there are.
    regularizer
        None for a matrix of its own for each type, ``W`` (num_types, in_size, out_size). ``"basis"``: types combine
        :math:`B` matrices, :math:`W_t = \sum_b a_{tb} V_b`, with ``W`` (num_bases, in_size, out_size) and ``coeff``
        (num_types, num_bases). ``"bdd"``: matrices have :math:`B` blocks on the diagonal, ``W`` (num_types,
        in_size * out_size / num_bases).
    num_bases
        :math:`B`, which ``"bdd"`` needs to divide both sizes.

    Raises ``ValueError`` for an unknown regularizer and for ``num_bases`` that is missing or does not divide.

    Shapes
    ------
    x (rows, in_size), x_type (rows,) integers -> (rows, out_size)
    """

    def __init__(
        self, in_size: int, out_size: int, num_types: int, regularizer: str | None = None, num_bases: int | None = None
    ) -> None:
        super().__init__()
        if regularizer not in (None, "basis", "bdd"):
            raise ValueError(f'regularizer={regularizer!r} is not known; expected "basis", "bdd" or None')
        if regularizer is not None and num_bases is None:
            raise ValueError(f'regularizer="{regularizer}" needs num_bases, how many bases or blocks there are')
        self.in_size, self.out_size, self.num_types = in_size, out_size, num_types
        self.regularizer, self.num_bases = regularizer, num_bases
        if num_bases is None or regularizer is None:
            self.W = nn.Parameter(framework.empty(num_types, in_size, out_size))
        elif regularizer == "basis":
            self.W = nn.Parameter(framework.empty(num_bases, in_size, out_size))
            self.coeff = nn.Parameter(framework.empty(num_types, num_bases))
        else:
            if in_size % num_bases or out_size % num_bases:
                raise ValueError(
                    f'regularizer="bdd" cuts rows into num_bases={num_bases} blocks, which must divide '
                    f"in_size={in_size} and out_size={out_size}"
                )
            self.submat_in, self.submat_out = in_size // num_bases, out_size // num_bases
            self.W = nn.Parameter(framework.empty(num_types, num_bases * self.submat_in * self.submat_out))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Draw matrices from :math:`-1/\sqrt{n}` to :math:`1/\sqrt{n}` for n inputs, coefficients from Glorot's."""
        bound = max(self.submat_in if self.regularizer == "bdd" else self.in_size, 1) ** -0.5
        nn.init.uniform_(self.W, -bound, bound)
        if self.regularizer == "basis":
            functional.xavier_uniform_(self.coeff, gain=nn.init.calculate_gain("relu"))

    def get_weight(self) -> Tensor:
        """Return the types' matrices, (num_types, in_size, out_size); with ``"bdd"`` the parameter as it is."""
        if self.regularizer != "basis":
            return self.W
        flat = self.coeff @ self.W.reshape(len(self.W), self.in_size * self.out_size)
        return flat.reshape(self.num_types, self.in_size, self.out_size)

    def by_block(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows and the types' matrices.

        With ``"bdd"`` both are cut into blocks, (rows, B, in / B) and (num_types, B, in / B, out / B).
        """
        if self.regularizer != "bdd" or self.num_bases is None:
            return x, self.get_weight()
        blocks = self.W.reshape(self.num_types, self.num_bases, self.submat_in, self.submat_out)
        return x.reshape(x.shape[0], self.num_bases, self.submat_in), blocks

    def forward(self, x: Tensor, x_type: Any, sorted_by_type: bool = False) -> Tensor:
        """Return the products.

        Whether rows are sorted by type is seen; ``sorted_by_type`` need not say it. Raises ``DGLError`` for rows of
        another width, and for types that are no numbers from 0 to ``num_types - 1``, one for each row.
        """
        functional.require_width(self, "x", x, self.in_size)
        count = x_type.shape[0] if active.is_tensor(x_type) else len(x_type)
        functional.require_rows(self, "x", x, count, "types")
        rows, matrices = self.by_block(x)
        return functional.typed_linear(rows, x_type, matrices).reshape(x.shape[0], self.out_size)

    def __repr__(self) -> str:
        text = f"TypedLinear(in_size={self.in_size}, out_size={self.out_size}, num_types={self.num_types}"
        if self.regularizer is not None:
            text += f", regularizer={self.regularizer}, num_bases={self.num_bases}"
        return text + ")"
