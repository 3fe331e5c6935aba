"""From expressions in kernel source to LLVM: numbers, names, operators and calls. See :mod:`.translate`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple, NoReturn

from llvmlite import ir

from ..lanes import types
from ..lanes.types import I1, I8, I64, NUMBERS, Float, Integer, Mask, Type, Vec
from ..lanes.values import Intrinsic, Value, cast, converted, multiply_add


class Callee(NamedTuple):
    """A function of the same source."""

    function: ir.Function
    parameters: Sequence[Type]
    result: Type


class Template:
    """A function of the same source, written once for each combination of types of its arguments.

    Parameters
    ----------
    parameters
        types of its parameters, None for one that has the type of its argument.
    write
        writes the function for argument types; the result has the attribute ``callee``.
    """

    def __init__(self, parameters: list[Type | None], write: Callable[..., Any]) -> None:
        self.parameters, self._write = parameters, write
        self._written: dict[tuple[Type | None, ...], Callee] = {}

    def callee(self, kinds: Sequence[Type | None], *options: bool) -> Callee:
        """Return the function for arguments of these types, with options to ``write`` it."""
        types_of = tuple(fixed or kind for fixed, kind in zip(self.parameters, kinds, strict=True))
        if types_of not in self._written:
            self._written[types_of] = self._write(types_of, *options).callee
        return self._written[types_of]


Names = dict[str, Value]


_ORDER = [*NUMBERS]
"""Names of numbers' types from narrow to wide."""


def wider(left: Type, right: Type) -> Type:
    """Return the type of a number made from both; an integer and a float make a float64."""
    if left == right:
        return left
    if isinstance(left, Float) != isinstance(right, Float):
        return types.float64
    return max(left, right, key=lambda kind: _ORDER.index(kind.name))


def is_number(ty: Type) -> bool:
    return ty.name in NUMBERS


class Expressions:
    """The translation of expressions, at the position of ``builder``. ``names`` are the local variables there,
    ``meanings`` the names of the whole source."""

    def __init__(self, builder: ir.IRBuilder, names: Names, meanings: dict[str, Any]) -> None:
        self.builder, self.names, self.meanings = builder, names, meanings

    def value(self, node: ast.expr) -> Value:
        expression: Callable[[Any], Value] | None = getattr(self, f"of_{type(node).__name__}", None)
        if expression is None:
            refuse(node, "is no expression of kernels")
        return expression(node)

    def number(self, node: ast.expr, kind: Type) -> ir.Value:
        value = self.value(node)
        return cast(self.builder, value, kind)

    def truth(self, value: Value) -> ir.Value:
        if value.type == types.boolean:
            return value.ir
        return self.builder.icmp_signed("!=", value.ir, ir.Constant(value.ir.type, 0))

    def of_Constant(self, node: ast.Constant) -> Value:
        return constant(node, node.value)

    def of_Name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        if node.id not in self.meanings:
            refuse(node, "is unknown here")
        return constant(node, self.meanings[node.id])

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return Value(types.boolean, self.builder.not_(self.truth(value)))
        if not isinstance(node.op, ast.USub):
            refuse(node, "is no operation of kernels")
        if isinstance(value.type, Integer):
            return self.binary(node, ast.Sub(), constant(node, 0), value)
        return Value(value.type, self.builder.fneg(value.ir))

    def of_BinOp(self, node: ast.BinOp) -> Value:
        product = product_in(node)
        if product is None:
            return self.binary(node, node.op, self.value(node.left), self.value(node.right))
        other, a, b = node.left if product is node.right else node.right, product.left, product.right
        return self.fused(node, product is node.right, self.value(other), self.value(a), self.value(b))

    def fused(self, node: ast.BinOp, right: bool, other: Value, a: Value, b: Value) -> Value:
        """Write a sum or difference, one side of which (the ``right`` one or the left) is the product of a and b.

        Of floats it is one operation, wherever it stands and in however many lanes.
        """
        if all(isinstance(value.type, Integer) for value in (other, a, b)):
            product = self.binary(node, ast.Mult(), a, b)
            return self.binary(node, node.op, *((other, product) if right else (product, other)))
        builder, vecs = self.builder, [value.type for value in (other, a, b) if isinstance(value.type, Vec)]
        kind = vecs[0] if vecs else reduce(wider, (other.type, a.type, b.type))
        values = [converted(builder, value, kind) for value in (a, b, other)]
        if isinstance(node.op, ast.Sub):
            at = 0 if right else 2
            values[at] = builder.fneg(values[at])
        return Value(kind, multiply_add(builder, *values))

    def binary(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        builder = self.builder
        if type(op) not in _OPERATORS:
            refuse(node, "is no operation of kernels")
        function, integer, real = _OPERATORS[type(op)]
        if isinstance(left.type, Vec) or isinstance(right.type, Vec):
            vec = left.type if isinstance(left.type, Vec) else right.type
            if not real:
                refuse(node, f"is no operation of {vec}")
            return Value(vec, getattr(builder, real)(*(converted(builder, value, vec) for value in (left, right))))
        kind = wider(left.type, right.type)
        if function is operator.truediv and not isinstance(kind, Float):
            kind = types.float64
        elif kind == types.boolean and not isinstance(op, ast.BitAnd | ast.BitOr):
            kind = types.int64
        a, b = (cast(builder, value, kind) for value in (left, right))
        if isinstance(kind, Float):
            if not real:
                refuse(node, f"is no operation of {kind}")
            return Value(kind, getattr(builder, real)(a, b))
        if isinstance(a, ir.Constant) and isinstance(b, ir.Constant):
            return Value(kind, ir.Constant(a.type, function(a.constant, b.constant)))
        return Value(kind, integer(builder, a, b))

    def of_Compare(self, node: ast.Compare) -> Value:
        values = [self.value(part) for part in (node.left, *node.comparators)]
        if isinstance(node.ops[0], ast.Is) and values[1].type == types.none:
            return constant(node, values[0].type == types.none)
        if any(type(op) not in _RELATIONS for op in node.ops):
            refuse(node, "is no comparison of kernels")
        results = [
            self.compare(_RELATIONS[type(op)], left, right)
            for op, left, right in zip(node.ops, values, values[1:], strict=False)
        ]
        result = results[0]
        for other in results[1:]:
            result = Value(result.type, self.builder.and_(result.ir, other.ir))
        return result

    def compare(self, relation: str, left: Value, right: Value) -> Value:
        builder = self.builder
        vecs = [value.type for value in (left, right) if isinstance(value.type, Vec)]
        if vecs:
            a, b = (converted(builder, value, vecs[0]) for value in (left, right))
            kind: Type = Mask(vecs[0].dtype, vecs[0].lanes)
        else:
            common, kind = wider(left.type, right.type), types.boolean
            a, b = (cast(builder, value, common) for value in (left, right))
            if not isinstance(common, Float):
                return Value(kind, builder.icmp_signed(relation, a, b))
        return Value(kind, (builder.fcmp_unordered if relation == "!=" else builder.fcmp_ordered)(relation, a, b))

    def of_Call(self, node: ast.Call) -> Value:
        function = self.meanings.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if function is float:
            (argument,) = node.args
            if isinstance(argument, ast.Constant):
                return constant(node, float(ast.literal_eval(argument)))
            return Value(types.float64, self.number(argument, types.float64))
        args = [self.value(argument) for argument in node.args]
        if isinstance(function, Template):
            function = function.callee([value.type for value in args])
        if isinstance(function, Callee):
            values = [converted(self.builder, *pair) for pair in zip(args, function.parameters, strict=True)]
            return Value(function.result, self.builder.call(function.function, values))
        if function in (min, max):
            result = args[0]
            for other in args[1:]:
                is_better = self.compare("<" if function is min else ">", other, result)
                kind = wider(result.type, other.type)
                values = [cast(self.builder, value, kind) for value in (other, result)]
                result = Value(kind, self.builder.select(is_better.ir, *values))
            return result
        if not isinstance(function, Intrinsic):
            refuse(node, "calls something else than an intrinsic")
        return function.write(self.builder, *args)


def product_in(node: ast.BinOp) -> ast.BinOp | None:
    """Return the product that is one side of a sum or difference; the right one of two."""
    if isinstance(node.op, ast.Add | ast.Sub):
        for side in (node.right, node.left):
            if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult):
                return side
    return None


def constant(node: ast.AST, value: Any) -> Value:
    if isinstance(value, bool):
        return Value(types.boolean, ir.Constant(I1, int(value)))
    if isinstance(value, int):
        return Value(types.int64, I64(value))
    if isinstance(value, float):
        return Value(types.float64, ir.Constant(types.float64.llvm, value))
    if value is None:
        return Value(types.none, ir.Constant(I8, 0))
    refuse(node, f"is {value!r}, no number")


def refuse(node: ast.AST, why: str) -> NoReturn:
    raise TypeError(f"line {getattr(node, 'lineno', '?')} of a kernel, {ast.unparse(node).splitlines()[0]!r}, {why}")


# -- integers: quotients and remainders are those of Python, rounded down ----------------------------------------------
def _is_power(divisor: ir.Value) -> bool:
    return isinstance(divisor, ir.Constant) and divisor.constant > 0 and divisor.constant.bit_count() == 1


def _quotient(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    if _is_power(b):
        return builder.ashr(a, ir.Constant(a.type, b.constant.bit_length() - 1))
    return builder.sub(builder.sdiv(a, b), builder.zext(_rounded_up(builder, builder.srem(a, b), b), a.type))


def _remainder(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    if _is_power(b):
        return builder.and_(a, ir.Constant(a.type, b.constant - 1))
    rest = builder.srem(a, b)
    return builder.add(rest, builder.select(_rounded_up(builder, rest, b), b, ir.Constant(a.type, 0)))


def _rounded_up(builder: ir.IRBuilder, rest: ir.Value, b: ir.Value) -> ir.Value:
    zero = ir.Constant(rest.type, 0)
    other_sign = builder.icmp_signed("<", builder.xor(rest, b), zero)
    return builder.and_(builder.icmp_signed("!=", rest, zero), other_sign)


_OPERATORS: dict[type, tuple[Callable, Callable, str]] = {
    ast.Add: (operator.add, ir.IRBuilder.add, "fadd"),
    ast.Sub: (operator.sub, ir.IRBuilder.sub, "fsub"),
    ast.Mult: (operator.mul, ir.IRBuilder.mul, "fmul"),
    ast.Div: (operator.truediv, ir.IRBuilder.sdiv, "fdiv"),
    ast.FloorDiv: (operator.floordiv, _quotient, ""),
    ast.Mod: (operator.mod, _remainder, ""),
    ast.BitAnd: (operator.and_, ir.IRBuilder.and_, ""),
    ast.BitOr: (operator.or_, ir.IRBuilder.or_, ""),
    ast.LShift: (operator.lshift, ir.IRBuilder.shl, ""),
    ast.RShift: (operator.rshift, ir.IRBuilder.ashr, ""),
}
"""(on constants, on integers, the instruction on floats) of each operator."""
_RELATIONS = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!="}
