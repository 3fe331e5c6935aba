"""From kernel source to LLVM: the part of Python that rendered kernels are written in, in one pass over its syntax.

Kernels are integers, floats, vectors, loops, branches and calls of intrinsics (those of ``simd.py`` and its kin), and
the type of each value is known when it is met. Numba, which compiles any Python, takes four times as long for them.

The language: functions of integers without a result; names, also several at once (``a, b = x, y``) and ``+=``; integer
and float numbers, ``+ - * / // % & | << >>``, comparisons, ``and or not``, ``a if c else b``, ``min max float``;
``if``, ``while``, ``for`` over a ``range``, ``continue``, ``return``. That steps are positive and divisors not zero is
up to the source. A name may change its type, except from one round of a loop to the next; where branches meet, numbers take
the wider of their types, and a name that has no one meaning is unknown.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from llvmlite import ir
from numba import types

from .elementary import RELATIONS
from .lanes import Mask
from .vec import ARITHMETIC, FLAGS, I8, I64, LANES, Vec, as_vec

__all__ = ["translate"]

I1 = ir.IntType(1)


class Value(NamedTuple):
    """A value and its Numba type, by which intrinsics are chosen."""

    type: types.Type
    ir: ir.Value


Names = dict[str, Value]
Ends = list[tuple[ir.Block, Names]]
"""Blocks from which control goes on to one place, with what names mean at the end of each."""

_RANKS = (types.boolean, types.int32, types.int64, types.float32, types.float64)


def translate(source: str, prefix: str, triple: str, layout: str) -> str:
    """Return LLVM assembly with a function ``prefix + name`` for each function of ``source``.

    What stands outside of functions is run first: imports, and names of constants and intrinsics.
    """
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    meanings: dict[str, Any] = {"min": min, "max": max, "float": float}
    rest: list[ast.stmt] = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
    exec(compile(ast.Module(rest, []), prefix, "exec"), meanings)
    module = ir.Module(prefix)
    module.triple, module.data_layout = triple, layout
    for node in functions:
        _Function(module, prefix + node.name, node, meanings)
    return str(module)


class _Context:
    """What intrinsics use of Numba's target."""

    @staticmethod
    def cast(builder: ir.IRBuilder, value: ir.Value, given: types.Type, wanted: types.Type) -> ir.Value:
        """Convert a number."""
        if given == wanted:
            return value
        llvm = LANES[str(wanted)] if wanted != types.boolean else I1
        if isinstance(given, types.Float):
            if isinstance(wanted, types.Float):
                return (builder.fpext if wanted.bitwidth > given.bitwidth else builder.fptrunc)(value, llvm)
            return builder.fptosi(value, llvm)
        unsigned = given == types.boolean
        if isinstance(wanted, types.Float):
            if isinstance(value, ir.Constant):
                return ir.Constant(llvm, float(value.constant))
            return (builder.uitofp if unsigned else builder.sitofp)(value, llvm)
        if unsigned:
            return builder.zext(value, llvm)
        return (builder.sext if wanted.bitwidth > given.bitwidth else builder.trunc)(value, llvm)

    @staticmethod
    def get_dummy_value() -> ir.Value:
        """Return what stands for nothing."""
        return ir.Constant(I8, 0)


_context = _Context()


def _wider(left: types.Type, right: types.Type) -> types.Type:
    """Return the type of a number made from both; an integer and a float make a float64."""
    if left == right:
        return left
    if isinstance(left, types.Float) != isinstance(right, types.Float):
        return types.float64
    return max(left, right, key=_RANKS.index)


def _is_number(ty: types.Type) -> bool:
    return ty in _RANKS


class _Function:
    """The translation of one function. ``names`` tells what each name means at the place that is being written."""

    def __init__(self, module: ir.Module, name: str, node: ast.FunctionDef, meanings: dict[str, Any]) -> None:
        parameters = [argument.arg for argument in node.args.args]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(parameters)), name)
        function.attributes.add("nounwind")
        self.function, self.meanings = function, meanings
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.names: Names = {name: Value(types.int64, arg) for name, arg in zip(parameters, function.args, strict=True)}
        self.rounds: list[Ends] = []
        self.statements(node.body)
        if not self.done:
            self.builder.ret_void()

    @property
    def done(self) -> bool:
        """Whether control does not reach the place that is being written."""
        return bool(self.builder.block.is_terminated)

    # -- statements ----------------------------------------------------------------------------------------------------
    def statements(self, nodes: Iterable[ast.stmt]) -> None:
        for node in nodes:
            if self.done:
                return
            statement: Callable[[Any], None] | None = getattr(self, f"do_{type(node).__name__}", None)
            if statement is None:
                _refuse(node, "is no statement of kernels")
            statement(node)

    def do_Expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def do_Assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if isinstance(target, ast.Name):
            self.names[target.id] = self.value(node.value)
            return
        if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
            _refuse(node, "assigns to something else than names")
        values = [self.value(part) for part in node.value.elts]
        for name, value in zip(target.elts, values, strict=True):
            self.names[name.id] = value  # type: ignore[attr-defined]

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        assert isinstance(node.target, ast.Name)
        self.names[node.target.id] = self.binary(node, node.op, self.names[node.target.id], self.value(node.value))

    def do_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            _refuse(node, "returns something")
        self.builder.ret_void()

    def do_Continue(self, node: ast.Continue) -> None:
        self.rounds[-1].append((self.builder.block, self.names))
        # Where the block ends is written when all ways to the next round are known.
        self.builder.position_at_end(self.function.append_basic_block())
        self.builder.unreachable()

    def do_If(self, node: ast.If) -> None:
        ends = self.branches(self.truth(self.value(node.test)), node.body, node.orelse)
        if ends:
            self.names = self.join(ends, self.function.append_basic_block())

    def branches(self, condition: ir.Value, body: list[ast.stmt], otherwise: list[ast.stmt]) -> Ends:
        """Write two branches; return their ends."""
        blocks = [self.function.append_basic_block() for _ in range(2)]
        self.builder.cbranch(condition, *blocks)
        before, ends = self.names, []
        for block, nodes in zip(blocks, (body, otherwise), strict=True):
            self.builder.position_at_end(block)
            self.names = dict(before)
            self.statements(nodes)
            if not self.done:
                ends.append((self.builder.block, self.names))
        return ends

    def join(self, ends: Ends, block: ir.Block) -> Names:
        """Let control go from ``ends`` to ``block``, and write there; return what names mean in it."""
        first = ends[0][1]
        names: Names = {}
        merged: list[tuple[str, types.Type, list[ir.Value]]] = []
        for name, value in first.items():
            values = [found[name] for _, found in ends if name in found]
            if len(values) < len(ends):
                continue
            if all(other.ir is value.ir for other in values):
                names[name] = value
                continue
            kinds = {other.type for other in values}
            if len(kinds) == 1 or all(map(_is_number, kinds)):
                kind = value.type
                for other in kinds:
                    kind = _wider(kind, other) if other != kind else kind
                casts = [self.cast_at(end, other, kind) for (end, _), other in zip(ends, values, strict=True)]
                merged.append((name, kind, casts))
        for end, _ in ends:
            self.builder.position_at_end(end)
            self.builder.branch(block)
        self.builder.position_at_end(block)
        for name, kind, casts in merged:
            phi = self.builder.phi(casts[0].type)
            for (end, _), cast in zip(ends, casts, strict=True):
                phi.add_incoming(cast, end)
            names[name] = Value(kind, phi)
        return names

    def cast_at(self, end: ir.Block, value: Value, kind: types.Type) -> ir.Value:
        if value.type == kind:
            return value.ir
        self.builder.position_at_end(end)
        return _context.cast(self.builder, value.ir, value.type, kind)

    # -- loops ---------------------------------------------------------------------------------------------------------
    def do_While(self, node: ast.While) -> None:
        self.loop(node, lambda: self.truth(self.value(node.test)), lambda: None, [], True)

    def do_For(self, node: ast.For) -> None:
        call, name = node.iter, node.target
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "range" or not isinstance(name, ast.Name):
            _refuse(node, "is a loop over something else than a range")
        bounds = [self.number(argument, types.int64) for argument in call.args]
        start, stop = bounds[:2] if len(bounds) > 1 else (I64(0), bounds[0])
        step = bounds[2] if len(bounds) == 3 else I64(1)
        if isinstance(step, ir.Constant) and step.constant <= 0:
            _refuse(node, "is a loop whose step is not positive")
        hidden, builder = f"next {name.id}", self.builder
        self.names[hidden] = Value(types.int64, start)

        def goes_on() -> ir.Value:
            return builder.icmp_signed("<", self.names[hidden].ir, stop)

        def begin() -> None:
            self.names[name.id] = at = self.names[hidden]
            self.names[hidden] = Value(types.int64, builder.add(at.ir, step, flags=("nsw",)))

        constant = all(isinstance(bound, ir.Constant) for bound in (start, stop))
        self.loop(node, goes_on, begin, [hidden], constant or (isinstance(step, ir.Constant) and step.constant == 1))
        del self.names[hidden]

    def loop(
        self,
        node: ast.For | ast.While,
        goes_on: Callable[[], ir.Value],
        begin: Callable[[], None],
        more: list[str],
        unroll: bool,
    ) -> None:
        """Write rounds that start with ``begin`` as long as ``goes_on``; ``more`` names change in them too.

        Where rounds are blocks of columns, LLVM is told not to write several of them out: they are long enough, and a
        row has few.
        """
        builder, before = self.builder, builder_block = self.builder, self.builder.block
        assigned = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        header, body, after = (self.function.append_basic_block() for _ in range(3))
        builder.branch(header)
        builder.position_at_end(header)
        outside = {name: value for name, value in self.names.items() if name not in assigned and name not in more}
        carried = {name: value for name, value in self.names.items() if name not in outside}
        phis = {name: builder.phi(value.ir.type) for name, value in carried.items()}
        for name, phi in phis.items():
            phi.add_incoming(carried[name].ir, builder_block)
            self.names[name] = Value(carried[name].type, phi)
        inside = dict(self.names)
        builder.cbranch(goes_on(), body, after)
        builder.position_at_end(body)
        self.names = dict(inside)
        self.rounds.append([])
        begin()
        self.statements(node.body)
        ends = self.rounds.pop() + ([] if self.done else [(builder.block, self.names)])
        if ends:
            self.again(node, self.join(ends, self.function.append_basic_block()), inside, phis)
            branch = builder.branch(header)
            if not unroll:
                branch.set_metadata("llvm.loop", _no_unrolling(self.function.module))
        builder.position_at_end(after)
        self.names = inside

    def again(self, node: ast.stmt, found: Names, inside: Names, phis: dict[str, ir.Instruction]) -> None:
        """Hand the next round what names mean at the end of one."""
        for name, phi in phis.items():
            kind, value = inside[name].type, found.get(name)
            if value is None or (value.type != kind and (not _is_number(kind) or _wider(value.type, kind) != kind)):
                came = "unknown" if value is None else value.type
                _refuse(node, f"is a loop before which {name} is {kind}, and {came} after a round")
            phi.add_incoming(_context.cast(self.builder, value.ir, value.type, kind), self.builder.block)

    # -- expressions ---------------------------------------------------------------------------------------------------
    def value(self, node: ast.expr) -> Value:
        expression: Callable[[Any], Value] | None = getattr(self, f"of_{type(node).__name__}", None)
        if expression is None:
            _refuse(node, "is no expression of kernels")
        return expression(node)

    def number(self, node: ast.expr, kind: types.Type) -> ir.Value:
        value = self.value(node)
        return _context.cast(self.builder, value.ir, value.type, kind)

    def truth(self, value: Value) -> ir.Value:
        if value.type == types.boolean:
            return value.ir
        return self.builder.icmp_signed("!=", value.ir, ir.Constant(value.ir.type, 0))

    def of_Constant(self, node: ast.Constant) -> Value:
        return _constant(node, node.value)

    def of_Name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        if node.id not in self.meanings:
            _refuse(node, "is unknown here")
        return _constant(node, self.meanings[node.id])

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return Value(types.boolean, self.builder.not_(self.truth(value)))
        if not isinstance(node.op, ast.USub):
            _refuse(node, "is no operation of kernels")
        if isinstance(value.type, types.Integer):
            return self.binary(node, ast.Sub(), _constant(node, 0), value)
        return Value(value.type, self.builder.fneg(value.ir))

    def of_BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(node, node.op, self.value(node.left), self.value(node.right))

    def binary(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        builder = self.builder
        function, integer, real = _OPERATORS[type(op)]
        if isinstance(left.type, Vec) or isinstance(right.type, Vec):
            vec = left.type if isinstance(left.type, Vec) else right.type
            values = [as_vec(_context, builder, value.ir, value.type, vec) for value in (left, right)]
            return Value(vec, getattr(builder, ARITHMETIC[function])(*values, flags=FLAGS))
        kind = _wider(left.type, right.type)
        if function is operator.truediv and not isinstance(kind, types.Float):
            kind = types.float64
        a, b = (_context.cast(builder, value.ir, value.type, kind) for value in (left, right))
        if isinstance(kind, types.Float):
            if not real:
                _refuse(node, f"is no operation of {kind}")
            return Value(kind, getattr(builder, real)(a, b))
        if isinstance(a, ir.Constant) and isinstance(b, ir.Constant):
            return Value(kind, ir.Constant(a.type, function(a.constant, b.constant)))
        return Value(kind, integer(builder, a, b))

    def of_Compare(self, node: ast.Compare) -> Value:
        values = [self.value(part) for part in (node.left, *node.comparators)]
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
        if isinstance(left.type, Vec) or isinstance(right.type, Vec):
            vec = left.type if isinstance(left.type, Vec) else right.type
            a, b = (as_vec(_context, builder, value.ir, value.type, vec) for value in (left, right))
            kind: types.Type = Mask(vec.dtype, vec.lanes)
        else:
            wider, kind = _wider(left.type, right.type), types.boolean
            a, b = (_context.cast(builder, value.ir, value.type, wider) for value in (left, right))
            if not isinstance(wider, types.Float):
                return Value(kind, builder.icmp_signed(relation, a, b))
        return Value(kind, (builder.fcmp_unordered if relation == "!=" else builder.fcmp_ordered)(relation, a, b))

    def of_BoolOp(self, node: ast.BoolOp) -> Value:
        first, *rest = node.values
        for other in rest:
            stop = ast.Constant(isinstance(node.op, ast.Or))
            first = ast.IfExp(first, stop, other) if isinstance(node.op, ast.Or) else ast.IfExp(first, other, stop)
        return self.of_IfExp(first)  # type: ignore[arg-type]

    def of_IfExp(self, node: ast.IfExp) -> Value:
        target = [ast.Name("a value", ast.Store())]
        self.do_If(ast.If(node.test, [ast.Assign(target, node.body)], [ast.Assign(target, node.orelse)]))
        return self.names.pop("a value")

    def of_Call(self, node: ast.Call) -> Value:
        function = self.meanings.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if function is float:
            (argument,) = node.args
            return _constant(node, float(ast.literal_eval(argument)))
        args = [self.value(argument) for argument in node.args]
        if function in (min, max):
            result = args[0]
            for other in args[1:]:
                chosen = self.compare("<" if function is min else ">", other, result)
                kind = _wider(result.type, other.type)
                values = [_context.cast(self.builder, value.ir, value.type, kind) for value in (other, result)]
                result = Value(kind, self.builder.select(chosen.ir, *values))
            return result
        definition = getattr(function, "_defn", None)
        if definition is None:
            _refuse(node, "calls something else than an intrinsic")
        signature, codegen = definition(None, *(value.type for value in args))
        values = [
            _context.cast(self.builder, value.ir, value.type, wanted) if _is_number(wanted) else value.ir
            for value, wanted in zip(args, signature.args, strict=True)
        ]
        return Value(signature.return_type, codegen(_context, self.builder, signature, values))


def _constant(node: ast.AST, value: Any) -> Value:
    if isinstance(value, bool):
        return Value(types.boolean, ir.Constant(I1, int(value)))
    if isinstance(value, int):
        return Value(types.int64, I64(value))
    if isinstance(value, float):
        return Value(types.float64, ir.Constant(LANES["float64"], value))
    _refuse(node, f"is {value!r}, no number")


def _no_unrolling(module: ir.Module) -> Any:
    """Return what marks a loop, a node of its own that begins with itself."""
    wish = module.add_metadata(["llvm.loop.unroll.disable"])
    node = module.add_metadata([wish, I64(len(module.metadata))])
    node.operands = (node, wish)
    return node


def _refuse(node: ast.AST, why: str) -> NoReturn:
    raise TypeError(f"line {getattr(node, 'lineno', '?')} of a kernel, {ast.unparse(node).splitlines()[0]!r}, {why}")


# -- integers: quotients and remainders are those of Python, rounded down ------------------------------------------------
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
_RELATIONS = {
    ast.Gt: RELATIONS[operator.gt],
    ast.GtE: RELATIONS[operator.ge],
    ast.Lt: RELATIONS[operator.lt],
    ast.LtE: RELATIONS[operator.le],
    ast.Eq: RELATIONS[operator.eq],
    ast.NotEq: RELATIONS[operator.ne],
}
