"""Values of kernels while their LLVM assembly is written, and intrinsics: functions that write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from .types import I8, I32, NUMBERS, Float, NumberType, Type, Vec, boolean


class Value(NamedTuple):
    """A value and its type, by which intrinsics are chosen."""

    type: Type
    ir: ir.Value


Writer = Callable[..., Any]


class Intrinsic:
    """A function in kernel source: ``write(builder, *values)`` writes its instructions where it is called."""

    def __init__(self, write: Callable[..., Value]) -> None:
        self.write, self.__doc__ = write, write.__doc__

    def __call__(self, *args: Any) -> Any:
        raise TypeError("this function can be called in kernel source only")


def intrinsic(result: Type, *parameters: Type) -> Callable[[Writer], Intrinsic]:
    """Return what makes an intrinsic of ``write(builder, *args)``, whose arguments LLVM has as these types."""

    def decorate(write: Writer) -> Intrinsic:
        def of_values(builder: ir.IRBuilder, *args: Value) -> Value:
            written = write(builder, *(converted(builder, *pair) for pair in zip(args, parameters, strict=True)))
            return Value(result, ir.Constant(I8, 0) if written is None else written)

        of_values.__doc__ = write.__doc__
        return Intrinsic(of_values)

    return decorate


def call_external(
    builder: ir.IRBuilder, name: str, result: ir.Type, args: Sequence[ir.Value], flags: Sequence[str] = ()
) -> ir.Value:
    """Call a function of LLVM or of the process by its name."""
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, [x.type for x in args]), name)
    return builder.call(function, args, fastmath=flags)


def call_address(builder: ir.IRBuilder, result: ir.Type, address: ir.Value, args: Sequence[ir.Value]) -> ir.Value:
    """Call the function at an address."""
    kind = ir.FunctionType(result, [x.type for x in args])
    return builder.call(builder.inttoptr(address, kind.as_pointer()), args)


# -- from one type to another ------------------------------------------------------------------------------------------
def cast(builder: ir.IRBuilder, value: Value, target: Type) -> ir.Value:
    """Convert a number."""
    kind, number = value
    if kind == target:
        return number
    if target == boolean:
        differs = builder.fcmp_unordered if isinstance(kind, Float) else builder.icmp_signed
        return differs("!=", number, ir.Constant(number.type, 0))
    assert isinstance(kind, NumberType) and isinstance(target, NumberType), f"{kind} cannot become {target}"
    if isinstance(kind, Float):
        if isinstance(target, Float):
            return (builder.fpext if target.bits > kind.bits else builder.fptrunc)(number, target.llvm)
        return builder.fptosi(number, target.llvm)
    if isinstance(target, Float):
        if isinstance(number, ir.Constant):
            return ir.Constant(target.llvm, float(number.constant))
        return (builder.uitofp if kind == boolean else builder.sitofp)(number, target.llvm)
    if kind == boolean:
        return builder.zext(number, target.llvm)
    return (builder.sext if target.bits > kind.bits else builder.trunc)(number, target.llvm)


def converted(builder: ir.IRBuilder, value: Value, kind: Type) -> ir.Value:
    """Return a value as LLVM has one of this type, a number in all lanes of a vector."""
    if value.ir.type == kind.llvm:
        return value.ir
    if isinstance(kind, Vec):
        return spread_scalar(builder, cast(builder, value, NUMBERS[kind.dtype]), kind.lanes)
    return cast(builder, value, kind)


def spread_scalar(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """Repeat a scalar over the lanes of a vector."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, value, I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))


def multiply_add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Return a * b + c, rounded once where the CPU has an instruction for that.

    Left to LLVM (by the flag ``contract``), it would depend on the code around which products are rounded.
    """
    kind = a.type
    suffix = f"v{kind.count}{kind.element.intrinsic_name}" if isinstance(kind, ir.VectorType) else kind.intrinsic_name
    return call_external(builder, f"llvm.fmuladd.{suffix}", kind, (a, b, c))
