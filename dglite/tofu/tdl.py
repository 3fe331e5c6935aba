"""The tensor description language: an operator as a Python function from the indices of its outputs to expressions.

    conv1d = describe(
        lambda data, filters: lambda b, co, x: Sum(lambda ci, dx: data[b, ci, x + dx] * filters[ci, co, dx])
    )

The outer function names the tensor inputs; what it returns, one function or a tuple of them, says what an element of
each output is. The functions are called once, with symbols. `interval` reads from the result which parts of the inputs
a part of the outputs needs. Indices are the same in all outputs where they have the same name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..errors import DGLError
from .affine import Affine
from .strategy import Combine


@dataclass(frozen=True)
class RowRange:
    """The indices ``[start, stop)`` of a dimension."""

    start: Affine
    stop: Affine


Where = tuple[Affine | RowRange | None, ...]
"""Where in a tensor: an index or a slice for each dimension, None for all of it."""


def _arithmetic(
    operator: str,
) -> tuple[Callable[[Expression, Any], Expression], Callable[[Expression, Any], Expression]]:
    """Return the methods of an operator, and of the same with the operands swapped."""
    return (
        lambda left, right: Binary(operator, left, _expression(right)),
        lambda right, left: Binary(operator, _expression(left), right),
    )


class Expression:
    """The value of an element of a tensor; the base of what a description consists of."""

    __add__, __radd__ = _arithmetic("+")
    __sub__, __rsub__ = _arithmetic("-")
    __mul__, __rmul__ = _arithmetic("*")
    __truediv__, __rtruediv__ = _arithmetic("/")

    def __neg__(self) -> Expression:
        return Binary("-", ConstantExpression(0), self)

    def __bool__(self) -> bool:
        raise DGLError(
            "a description has no values to decide by: it is traced once, with symbols. Write what depends on values "
            "as an Opaque function of the elements or slices that it reads."
        )

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that this one is made of."""
        return ()

    def walk(self) -> Iterator[Expression]:
        """Yield this expression and all inside it."""
        yield self
        for part in self.parts():
            yield from part.walk()


@dataclass(frozen=True, eq=False)
class ConstantExpression(Expression):
    """A number."""

    value: float


@dataclass(frozen=True, eq=False)
class IndexValue(Expression):
    """An index used as a number, as ``arange`` does."""

    index: Affine


@dataclass(frozen=True, eq=False)
class Element(Expression):
    """An element or a slice of a tensor input."""

    tensor: str
    where: Where


@dataclass(frozen=True, eq=False)
class Binary(Expression):
    """A sum, difference, product or quotient."""

    operator: str
    left: Expression
    right: Expression

    def parts(self) -> tuple[Expression, ...]:
        return self.left, self.right


@dataclass(frozen=True, eq=False)
class Function(Expression):
    """A function of elements or slices of which nothing is known but what it reads.

    ``where`` are the indices that choose from its result: to split them would take a part of the function.
    """

    name: str
    arguments: tuple[Expression, ...]
    where: Where = ()

    def parts(self) -> tuple[Expression, ...]:
        return self.arguments

    def __getitem__(self, key: Any) -> Function:
        return Function(self.name, self.arguments, _where(key, f"the result of {self.name}"))


@dataclass(frozen=True, eq=False)
class Reduction(Expression):
    """A reduction of ``body`` over the indices named."""

    combine: Combine
    names: tuple[str, ...]
    body: Expression

    def parts(self) -> tuple[Expression, ...]:
        return (self.body,)


@dataclass(frozen=True)
class IndexedFunction:
    """A function of the indices with these names."""

    names: tuple[str, ...]
    function: Callable[..., Any]


def over(names: Sequence[str], function: Callable[..., Any]) -> IndexedFunction:
    """Name the indices of a function that takes any number of them, ``lambda *i: x[i]``."""
    return IndexedFunction(tuple(names), function)


def _traced(function: Callable[..., Any] | IndexedFunction) -> tuple[tuple[str, ...], Any]:
    """Return the names of a function's indices and what it returns for them."""
    if not isinstance(function, IndexedFunction):
        function = IndexedFunction(_parameters(function), function)
    return function.names, function.function(*(Affine.variable(name) for name in function.names))


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    if not callable(function):
        raise DGLError(f"expected a function of indices, got {function!r}. Write lambda i, j: ...")
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise DGLError("how many indices does it take? Give names to *indices by over(names, function).")
    return tuple(p.name for p in parameters)


def _reducer(combine: Combine) -> Callable[[Callable[..., Any] | IndexedFunction], Expression]:
    def reduce(function: Callable[..., Any] | IndexedFunction) -> Expression:
        names, body = _traced(function)
        return Reduction(combine, names, _expression(body))

    reduce.__doc__ = f"Reduce by {combine} over the indices of ``function``."
    return reduce


Sum = _reducer("sum")
Max = _reducer("max")
Min = _reducer("min")
Prod = _reducer("prod")


def Opaque(name: str) -> Callable[..., Function]:
    """Return a function of elements or slices of which nothing is known: ``Opaque("inverse")(m[b, :, :])[i, j]``."""
    return lambda *arguments: Function(name, tuple(map(_expression, arguments)))


ElementWise = Opaque
"""An element-wise function, which is opaque in its elements: ``ElementWise("exp")(x[i])``."""


@dataclass(frozen=True)
class Placed:
    """An expression and where in the output it stands."""

    expression: Expression
    where: Where


def Place(expression: Any, *where: Any) -> Placed:
    """Say where in the output an expression stands, if not at the function's own indices: ``Place(x[i, :], 2 * i)``."""
    return Placed(_expression(expression), _where(where, "the output"))


class TensorSymbol:
    """A tensor input in a description, to be indexed."""

    def __init__(self, name: str, ranks: dict[str, int]):
        self._name, self._ranks = name, ranks

    def __getitem__(self, key: Any) -> Element:
        where = _where(key, self._name)
        rank = self._ranks.setdefault(self._name, len(where))
        if rank != len(where):
            raise DGLError(
                f"{self._name} is indexed with {len(where)} indices here and with {rank} elsewhere. Give each use an "
                "index or a slice for every dimension of the tensor."
            )
        return Element(self._name, where)


def _where(key: Any, name: str) -> Where:
    return tuple(_position(k, name) for k in (key if isinstance(key, tuple) else (key,)))


def _position(key: Any, name: str) -> Affine | RowRange | None:
    if isinstance(key, slice):
        if key.step is not None:
            raise DGLError(f"a slice of {name} has the step {key.step}; slices have none here. Index it by 2 * i.")
        if key == slice(None):
            return None
        if key.start is None or key.stop is None:
            raise DGLError(f"a slice of {name} has one end. Give both, {name}[2 * i : 2 * i + 2], or none, {name}[:].")
        return RowRange(Affine.as_affine(key.start), Affine.as_affine(key.stop))
    if isinstance(key, int | Fraction | Affine):
        return Affine.as_affine(key)
    raise DGLError(
        f"{name} is indexed by {key!r}; expected an index, an affine expression of indices (i, i + dx, 2 * i + 1) or a "
        "slice. An index that is read from a tensor makes the dimension opaque: Opaque('name')(x[:], index[i])."
    )


def _expression(value: Any) -> Expression:
    if isinstance(value, Expression):
        return value
    if isinstance(value, Affine):
        return IndexValue(value)
    if isinstance(value, int | float | Fraction) and not isinstance(value, bool):
        return ConstantExpression(float(value))
    hint = f"Index the tensor {value._name}." if isinstance(value, TensorSymbol) else "Wrap other functions in Opaque."
    raise DGLError(f"expected an element, a reduction or a number, got {value!r}. {hint}")


@dataclass(frozen=True, eq=False)
class Output:
    """One output: the names of its indices, its expression, and where the expression stands."""

    names: tuple[str, ...]
    expression: Expression
    where: Where


@dataclass(frozen=True, eq=False)
class OperatorDescription:
    """A traced description: the tensor inputs' names, how many indices each is used with, and the outputs."""

    tensors: tuple[str, ...]
    ranks: dict[str, int]
    outputs: tuple[Output, ...]


def describe(function: Callable[..., Any], tensors: Sequence[str] | None = None) -> OperatorDescription:
    """Trace the description of an operator.

    Raises DGLError if it is not a description: a product of two indices, a tensor used with two ranks, a name that is
    no index, an index that is used twice, an index or a shape that depends on values.

    Parameters
    ----------
    function : callable
        Takes the tensor inputs and returns a function from indices to an expression, or a tuple of such functions.
    tensors : sequence of str, optional
        Names for the tensors of a function that takes any number of them.
    """
    names = tuple(tensors) if tensors is not None else _parameters(function)
    ranks: dict[str, int] = {}
    try:
        result = function(*(TensorSymbol(name, ranks) for name in names))
        outputs = tuple(map(_output, result if isinstance(result, tuple) else (result,)))
    except NameError as error:
        raise DGLError(
            f"{error}. An index is a parameter of the output's function or of a reduction: Sum(lambda k: x[i, k])."
        ) from error
    except TypeError as error:
        raise DGLError(
            f"this is not a description: {error}. Expressions are elements, + - * /, reductions and Opaque functions."
        ) from error
    return OperatorDescription(names, ranks, outputs)


def _output(function: Callable[..., Any] | IndexedFunction) -> Output:
    names, value = _traced(function)
    placed = value if isinstance(value, Placed) else Placed(_expression(value), tuple(map(Affine.variable, names)))
    _check_scopes(placed.expression, frozenset(names))
    return Output(names, placed.expression, placed.where)


def _check_scopes(expression: Expression, bound: frozenset[str]) -> None:
    """Refuse indices that are bound twice, and those that come from elsewhere."""
    if isinstance(expression, Reduction):
        twice = bound & set(expression.names)
        if twice or len(set(expression.names)) < len(expression.names):
            raise DGLError(f"the index {min(twice or expression.names)} is bound twice; give each index its own name.")
        bound = bound | set(expression.names)
    strange = own_indices(expression) - bound
    if strange:
        raise DGLError(f"{min(strange)} is not an index of this output nor of a reduction around it.")
    for part in expression.parts():
        _check_scopes(part, bound)


def own_indices(expression: Expression) -> set[str]:
    """Return the names of the indices in this expression itself, not in those inside it."""
    if isinstance(expression, IndexValue):
        return set(expression.index.names)
    return indices_of(expression.where) if isinstance(expression, Element | Function) else set()


def indices_of(where: Where) -> set[str]:
    """Return the names of the indices in a position."""
    ends = [end for x in where for end in ((x.start, x.stop) if isinstance(x, RowRange) else (x,))]
    return {name for end in ends if end is not None for name in end.names}
