"""Affine functions of indices, and of the bounds of their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..errors import DGLError
from .strategy import Number


@dataclass(frozen=True)
class Affine:
    """``sum of coefficient * index + constant``; where ``floored``, rounded down.

    With coefficients that are fractions and no rounding, it stands for the whole numbers among its values only.
    """

    terms: tuple[tuple[str, Number], ...]
    constant: Number = 0
    floored: bool = False

    @classmethod
    def variable(cls, name: str) -> Affine:
        """Return the index ``name``."""
        return cls(((name, 1),))

    @classmethod
    def as_affine(cls, value: Any) -> Affine:
        """Return ``value``, a number or an affine function, as an affine function."""
        if isinstance(value, Affine):
            return value
        if isinstance(value, int | Fraction) and not isinstance(value, bool):
            return cls((), value)
        raise DGLError(f"expected an index, or an affine expression of indices such as 2 * i + 1, got {value!r}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The indices in it."""
        return tuple(name for name, _ in self.terms)

    @property
    def denominator(self) -> int:
        """The number that all its values are whole multiples of one over."""
        return math.lcm(self.constant.denominator, *(coefficient.denominator for _, coefficient in self.terms))

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int | Fraction | Affine):
            return NotImplemented
        other = Affine.as_affine(other)
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            terms[name] = terms.get(name, 0) + coefficient
        if (self.floored and other.terms) or (other.floored and self.terms):
            raise DGLError("an index that was divided by // can be added to a constant only.")
        nonzero = tuple(sorted((name, c) for name, c in terms.items() if c))
        return Affine(nonzero, self.constant + other.constant, self.floored or other.floored)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Affine) and not other.terms:
            other = other.constant
        if isinstance(other, Affine):
            raise DGLError(
                f"a product of two indices, ({self}) * ({other}), is not affine. Multiply indices by constants only; "
                "sizes of dimensions are constants where the description is made for given shapes."
            )
        if not isinstance(other, int | Fraction):
            return NotImplemented
        if self.floored:
            raise DGLError("an index that was divided by // can be added to a constant only.")
        terms = tuple((name, c * other) for name, c in self.terms if other)
        return Affine(terms, self.constant * other)

    __rmul__ = __mul__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + other * -1 if isinstance(other, int | Fraction | Affine) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other if isinstance(other, int | Fraction) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Affine):
            raise DGLError(f"a quotient of two indices, ({self}) / ({other}), is not affine.")
        return self * Fraction(1, other) if isinstance(other, int) else NotImplemented

    def __floordiv__(self, other: Any) -> Any:
        divided = self / other
        return divided if divided is NotImplemented else Affine(divided.terms, divided.constant, True)

    def __bool__(self) -> bool:
        raise DGLError("an index has no value to decide by: a description is traced once, with symbols.")

    def __str__(self) -> str:
        terms = [name if c == 1 else f"{c} * {name}" for name, c in self.terms]
        return " + ".join(terms + ([str(self.constant)] if self.constant or not terms else []))
