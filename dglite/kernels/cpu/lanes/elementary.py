"""Elementary functions of vectors and scalars, which the operator table's expressions call.

Each is a chain of vector instructions, inlined where it is used. Errors are of the order of one unit in the last place;
infinities and NaN come out as the C library gives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from llvmlite import ir

from .target import has_avx512
from .types import BYTES, I32, I64, Mask, Vec, constant, float32, shape_of, value_type
from .values import Intrinsic, Value, call_external, converted, multiply_add

_AS_ROUNDED = 4
"""Tells an instruction of AVX-512 to round as the others do."""


class _Lanes:
    """Writes instructions on values of one kind: float32 or float64, and a number of lanes."""

    def __init__(self, builder: ir.IRBuilder, dtype: str, lanes: int) -> None:
        self.builder, self.dtype, self.lanes = builder, dtype, lanes
        self.single = dtype == "float32"
        self.element, self.bits = (ir.FloatType(), I32) if self.single else (ir.DoubleType(), I64)
        self.mantissa, self.bias = (23, 127) if self.single else (52, 1023)
        self.kind, self.whole = shape_of(self.element, lanes), shape_of(self.bits, lanes)

    def number(self, value: float) -> ir.Constant:
        return constant(self.element, value, self.lanes)

    def integer(self, value: int) -> ir.Constant:
        return constant(self.bits, value, self.lanes)

    def times_plus(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return multiply_add(self.builder, a, b, c)

    def polynomial(self, x: ir.Value, coefficients: list[float]) -> ir.Value:
        """Evaluate from the highest power down; ``coefficients`` start with it."""
        result: ir.Value = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.times_plus(result, x, self.number(coefficient))
        return result

    def native(self, name: str, *args: ir.Value, flags: tuple[str, ...] = ()) -> ir.Value:
        suffix = f"{f'v{self.lanes}' if self.lanes > 1 else ''}f{8 * BYTES[self.dtype]}"
        return call_external(self.builder, f"llvm.{name}.{suffix}", self.kind, args, flags)

    def where(self, relation: str, a: ir.Value, b: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        """Return ``yes`` where ``a relation b`` holds (never for NaN), else ``no``."""
        return self.builder.select(self.builder.fcmp_ordered(relation, a, b), yes, no)

    def larger(self, a: ir.Value, b: ir.Value, name: str = "maximum") -> ir.Value:
        """Return the larger (or smaller) of both, NaN if one is NaN.

        A CPU's own instruction keeps ``b`` where one is NaN, so only ``a`` is tested. In a loop ``b`` is the
        largest so far: next to nothing has to wait for it. AVX-512 leaves ``a`` where a mask says so, in the
        same instruction; LLVM sees that in comparisons, but in no ``maximum``.
        """
        if not has_avx512():
            return self.native(name, a, b, flags=("nsz",))
        result = self.where(">" if name == "maximum" else "<", a, b, a, b)
        return self.builder.select(self.builder.fcmp_ordered("ord", a, a), result, a)

    # -- functions ----------------------------------------------------------------------------------------------
    def exp(self, x: ir.Value) -> ir.Value:
        """Return e^x.

        x = n ln 2 + r with |r| <= ln 2 / 2, where the Taylor series to the 7th (float32) or 13th (float64) power leaves
        a remainder below half a unit. AVX-512 has an instruction that multiplies by 2^n. Elsewhere that is done in two
        halves, so that subnormal results are right. Where the result is 0, as that of minus infinity is, nothing is
        multiplied then: products that underflow take ten times as long.
        """
        builder = self.builder
        low, high, degree, ln2_high = (-104.0, 89.0, 7, 0.693359375) if self.single else (-746.0, 710.0, 13, _LN2_HIGH)
        in_one = self.lanes * BYTES[self.dtype] == 64 and has_avx512()
        vanishes = builder.fcmp_ordered("<", x, self.number(low))
        x = builder.select(vanishes, self.number(low if in_one else 0.0), x)
        x = self.where(">", x, self.number(high), self.number(high), x)
        n = self.native("rint", builder.fmul(x, self.number(1 / math.log(2))))
        r = self.times_plus(n, self.number(-ln2_high), x)
        r = self.times_plus(n, self.number(-float(Decimal(2).ln() - Decimal(ln2_high))), r)
        result = self.polynomial(r, [1 / math.factorial(power) for power in reversed(range(degree + 1))])
        if in_one:
            return self.scaled(result, n)
        exponent = builder.fptosi(n, self.whole)
        half = builder.ashr(exponent, self.integer(1))
        for part in (half, builder.sub(exponent, half)):
            scale = builder.shl(builder.add(part, self.integer(self.bias)), self.integer(self.mantissa))
            result = builder.fmul(result, builder.bitcast(scale, self.kind))
        return builder.select(vanishes, self.number(0.0), result)

    def scaled(self, x: ir.Value, n: ir.Value) -> ir.Value:
        """Return x 2^n, rounded once, for whole numbers n in a vector register of AVX-512."""
        name, mask = ("ps", ir.IntType(16)) if self.single else ("pd", ir.IntType(8))
        args = [x, n, x, mask(-1), I32(_AS_ROUNDED)]
        return call_external(self.builder, f"llvm.x86.avx512.mask.scalef.{name}.512", self.kind, args)

    def expm1(self, x: ir.Value) -> ir.Value:
        """Return e^x - 1; below 1/2, where that cancels, by the Taylor series to the 9th or 16th power."""
        powers = reversed(range(1, 10 if self.single else 17))
        size = self.native("fabs", x)
        inner = self.where("<", size, self.number(0.5), x, self.number(0.0))
        small = self.builder.fmul(inner, self.polynomial(inner, [1 / math.factorial(power) for power in powers]))
        large = self.builder.fsub(self.exp(x), self.number(1.0))
        return self.where("<", size, self.number(0.5), small, large)

    def log(self, x: ir.Value) -> ir.Value:
        """Return ln x = n ln 2 + ln m, m from sqrt(1/2) to sqrt(2), by the series of 2 artanh((m - 1) / (m + 1))."""
        builder = self.builder
        tiny, lift = (2.0**-126, 24) if self.single else (2.0**-1022, 54)
        subnormal = builder.fcmp_ordered("<", x, self.number(tiny))
        word = builder.bitcast(builder.select(subnormal, builder.fmul(x, self.number(2.0**lift)), x), self.whole)
        # Adding the distance from sqrt(1/2) to 1 before taking the exponent centres m around 1.
        root = 0x3F3504F3 if self.single else 0x3FE6A09E667F3BCD
        bits_of_one = self.bias << self.mantissa
        shifted = builder.add(word, self.integer(bits_of_one - root))
        n = builder.sub(builder.ashr(shifted, self.integer(self.mantissa)), self.integer(self.bias))
        n = builder.sub(n, builder.select(subnormal, self.integer(lift), self.integer(0)))
        fraction = builder.add(builder.and_(shifted, self.integer((1 << self.mantissa) - 1)), self.integer(root))
        m = builder.bitcast(fraction, self.kind)
        s = builder.fdiv(builder.fsub(m, self.number(1.0)), builder.fadd(m, self.number(1.0)))
        square = builder.fmul(s, s)
        series = self.polynomial(square, [2 / (2 * k + 1) for k in reversed(range(1, 6 if self.single else 12))])
        exponent = builder.sitofp(n, self.kind)
        ln2_high = 0.693359375 if self.single else _LN2_HIGH
        ln2_low = self.number(float(Decimal(2).ln() - Decimal(ln2_high)))
        small = self.times_plus(exponent, ln2_low, builder.fmul(s, builder.fmul(square, series)))
        result = self.times_plus(exponent, self.number(ln2_high), builder.fadd(builder.fadd(s, s), small))
        result = self.where("<", x, self.number(math.inf), result, x)  # infinity and NaN stay
        result = self.where("==", x, self.number(0.0), self.number(-math.inf), result)
        return self.where("<", x, self.number(0.0), self.number(math.nan), result)

    def sigmoid(self, x: ir.Value) -> ir.Value:
        """Return 1 / (1 + e^-x)."""
        return self.builder.fdiv(self.number(1.0), self.builder.fadd(self.number(1.0), self.exp(self.builder.fneg(x))))

    def tanh(self, x: ir.Value) -> ir.Value:
        """Return (1 - e) / (1 + e) with e = e^(-2|x|); below 1/2, where that cancels, the Pade approximant [7/6]."""
        builder = self.builder
        size, square = self.native("fabs", x), builder.fmul(x, x)
        small = builder.fdiv(
            builder.fmul(x, self.polynomial(square, [1.0, 378.0, 17325.0, 135135.0])),
            self.polynomial(square, [28.0, 3150.0, 62370.0, 135135.0]),
        )
        e = self.exp(builder.fmul(size, self.number(-2.0)))
        large = builder.fdiv(builder.fsub(self.number(1.0), e), builder.fadd(self.number(1.0), e))
        large = self.where("<", x, self.number(0.0), builder.fneg(large), large)
        return self.where("<", size, self.number(0.5), small, large)

    def softplus(self, x: ir.Value) -> ir.Value:
        """Return ln(1 + e^x) = max(x, 0) + ln(1 + t), t = e^-|x|, with what 1 + t loses to rounding put back."""
        builder = self.builder
        t = self.exp(builder.fneg(self.native("fabs", x)))
        u = builder.fadd(self.number(1.0), t)
        lost = builder.fdiv(builder.fsub(t, builder.fsub(u, self.number(1.0))), u)
        rest = builder.fadd(self.log(u), lost)
        return builder.fadd(self.where(">", x, self.number(0.0), x, self.number(0.0)), rest)

    def erf(self, x: ir.Value) -> ir.Value:
        """Return the error function: below 1 by its Taylor series, above by 1 - e^(-x^2) p((|x| - 2) / (|x| + 2)).

        The polynomial p is the Chebyshev interpolant of erfc(x) e^(x^2) from 1 to where the error function is 1, 4 in
        float32 and 6 in float64.
        """
        builder = self.builder
        size, terms, last = self.native("fabs", x), *((11, 4.0) if self.single else (19, 6.0))
        square = builder.fmul(x, x)
        series = [(-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in reversed(range(terms))]
        small = builder.fmul(builder.fmul(x, self.number(2 / math.sqrt(math.pi))), self.polynomial(square, series))
        bounded = self.where(">", size, self.number(last), self.number(last), size)
        place = builder.fdiv(builder.fsub(bounded, self.number(2.0)), builder.fadd(bounded, self.number(2.0)))
        scaled = self.polynomial(place, _ERFCX_32 if self.single else _ERFCX_64)
        rest = builder.fmul(self.exp(builder.fneg(builder.fmul(bounded, bounded))), scaled)
        large = builder.fsub(self.number(1.0), rest)
        large = self.where("<", x, self.number(0.0), builder.fneg(large), large)
        return self.where(">", size, self.number(1.0), large, small)

    def power(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """Return e^(y ln |x|); below 0 it is negative for odd y, and for finite x NaN where y is no whole number."""
        builder = self.builder
        unit, half = self.number(1.0), builder.fmul(y, self.number(0.5))
        size = self.exp(builder.fmul(y, self.log(self.native("fabs", x))))
        signed = self.where("==", self.native("rint", half), half, size, builder.fneg(size))
        unsigned = self.where("==", x, self.number(-math.inf), size, self.number(math.nan))
        below = self.where("==", self.native("rint", y), y, signed, unsigned)
        result = self.where("<", x, self.number(0.0), below, size)
        return self.where("==", y, self.number(0.0), unit, self.where("==", x, unit, unit, result))

    def sign(self, x: ir.Value) -> ir.Value:
        """Return -1, 0 or 1; 0 for NaN."""
        negative = self.where("<", x, self.number(0.0), self.number(-1.0), self.number(0.0))
        return self.where(">", x, self.number(0.0), self.number(1.0), negative)


_LN2_HIGH = 0.693145751953125
_ERFCX_32 = [-0.0008379754387023135, 0.006811140131085635, 0.0037323717589395444, -0.07896830612793473]
_ERFCX_32 += [0.2416582015255602, -0.4271859897684867, 0.25539567631050575]
_ERFCX_64 = [3.917059299925389e-06, 1.8201431959750093e-06, -1.4067532694582058e-05, -2.7647305443610056e-05]
_ERFCX_64 += [2.754312818566672e-05, 0.00017436697232946864, 4.355420245270588e-05, -0.0009819773208131022]
_ERFCX_64 += [-0.0008471431980760424, 0.006997461747753573, 0.0037328924034922403, -0.07897858101585255]
_ERFCX_64 += [0.24165819424246987, -0.4271858474139579, 0.25539567631050575]


def _kind_of(*args: Value) -> tuple[str, int]:
    """Return the dtype and lanes in which a function of these arguments is computed."""
    for kind, _ in args:
        if isinstance(kind, Vec | Mask):
            return kind.dtype, kind.lanes
    return ("float32" if all(kind == float32 for kind, _ in args) else "float64"), 1


def _function(compute: Callable[..., ir.Value], doc: str) -> Intrinsic:
    """Return an intrinsic that applies ``compute(lanes, *args)``, numbers among the arguments spread over the lanes."""

    def function(builder: ir.IRBuilder, *args: Value) -> Value:
        dtype, lanes = _kind_of(*args)
        result = value_type(dtype, lanes)
        return Value(result, compute(_Lanes(builder, dtype, lanes), *(converted(builder, x, result) for x in args)))

    function.__doc__ = doc
    return Intrinsic(function)


exp = _function(_Lanes.exp, "e to the power of x.")
expm1 = _function(_Lanes.expm1, "e to the power of x, less 1.")
log = _function(_Lanes.log, "Natural logarithm; -infinity at 0, NaN below.")
sqrt = _function(lambda lanes, x: lanes.native("sqrt", x), "Square root; NaN below 0.")
abs = _function(lambda lanes, x: lanes.native("fabs", x), "Absolute value.")
sign = _function(_Lanes.sign, "-1, 0 or 1.")
tanh = _function(_Lanes.tanh, "Hyperbolic tangent.")
sigmoid = _function(_Lanes.sigmoid, "1 / (1 + exp(-x)).")
softplus = _function(_Lanes.softplus, "ln(1 + exp(x)).")
erf = _function(_Lanes.erf, "The error function.")
power = _function(_Lanes.power, "x to the power of y; NaN for finite x below 0 where y is no whole number.")
maximum = _function(lambda lanes, x, y: lanes.larger(x, y), "The larger of both, NaN if one is NaN.")
minimum = _function(lambda lanes, x, y: lanes.larger(x, y, "minimum"), "The smaller of both, NaN if one is NaN.")


@Intrinsic
def where(builder: ir.IRBuilder, condition: Value, yes: Value, no: Value) -> Value:
    """Lanes of ``yes`` where the condition holds, of ``no`` elsewhere; any of the three may be a plain number."""
    vectors = [x for x in (condition, yes, no) if isinstance(x.type, Vec | Mask)]
    result = value_type(*_kind_of(*(vectors or (yes, no))))
    return Value(result, builder.select(condition.ir, *(converted(builder, x, result) for x in (yes, no))))
