"""From kernel source to LLVM: the subset of Python of generated kernels, in one pass over its syntax tree.

Kernels are integers, floats, vectors, loops, branches and calls of intrinsics (those of ``simd.py`` and the modules
that it imports), and the type of each value is known when it is made.

The language: functions of integers, and of floats where an annotation says ``float``; those whose names begin with an
underscore serve functions below them, and may return a number (``-> int``, ``-> float``, ``-> bool``); names, also
several at once (``a, b = x, y``) and ``+=``; integer and float numbers, ``+ - * / // % & | << >>``, comparisons, ``and
or not``, ``a if c else b``, ``min max float int``;
``if``, ``while``, ``for`` over a ``range``, ``break``, ``continue``, ``return``. A sum or difference of floats with a
product in it, ``a + b * c``, is one operation, rounded once where the CPU can. That steps are positive, divisors not
zero, and indices inside and not negative is up to the source. A name may change its type. Where branches or rounds of a
loop meet, numbers take the wider of their types, and a name with different meanings is undefined. Anything else is
refused with ``TypeError``.

Functions that take arrays are written for the types that they are called with (see :mod:`.entry`): a parameter that is
annotated otherwise than as a number has the type of its argument: an array of one dimension (``x[i]``, ``x[i] = y``,
``x[i:j]``, ``len(x)``), a named tuple of some, or None. Every integer is an int64 when it is read. A function that
Python calls may allocate memory, ``np.empty(n, np.int64)``, which is freed when the same line runs again or the
function returns.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any

from llvmlite import ir

from ..lanes.types import I64, Type, boolean, float64, int64, none
from ..lanes.values import Value, cast
from .translate_arrays import ArrayExpressions
from .translate_values import Callee, Names, Template, is_number, refuse, wider

Wide = dict[tuple[str, ast.stmt, str], Type]
"""Types of numbers before loops whose rounds make them wider, by function, loop and name."""
Finish = Callable[[ir.Module, Template], None]
Ends = list[tuple[ir.Block, Names]]
"""Blocks from which control goes on to one place, with what names mean at the end of each."""


def translate(source: str, prefix: str, triple: str, layout: str, finish: Finish | None = None) -> str:
    """Return LLVM assembly with a function ``prefix + name`` for each function of ``source``.

    What stands outside of functions is run first: imports, and names of constants and intrinsics. ``finish``, where
    there is one, writes the only function that is called from outside, into the module; it is given the last one.
    """
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    meanings: dict[str, Any] = {"min": min, "max": max, "float": float, "int": int, "len": len}
    rest: list[ast.stmt] = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
    exec(compile(ast.Module(rest, []), prefix, "exec"), meanings)
    wide: Wide = {}
    while True:
        module = ir.Module(prefix)
        module.triple, module.data_layout = triple, layout
        try:
            for node in functions:
                parameters = [_kind(argument.annotation) for argument in node.args.args]
                serves = finish is not None or node.name.startswith("_")
                template = Template(
                    parameters, partial(_Function, module, prefix + node.name, node, meanings, wide, serves)
                )
                meanings[node.name] = template.callee(parameters) if finish is None else template
            if finish is not None:
                finish(module, template)
            return str(module)
        except _WiderError as error:
            wide[error.args[:3]] = error.args[3]


class _WiderError(Exception):
    """A loop variable needs a wider type than it enters with: function, loop, name, type. All is translated again."""


class _Function(ArrayExpressions):
    """The translation of one function, for arguments of these types. If it ``serves`` others it may return a number.
    With ``asks`` it may allocate memory; its last argument then points to a word that it sets to 1 if that fails."""

    def __init__(
        self,
        module: ir.Module,
        name: str,
        node: ast.FunctionDef,
        meanings: dict[str, Any],
        wide: Wide,
        serves: bool,
        kinds: Sequence[Type],
        asks: bool = False,
    ) -> None:
        result = _kind(node.returns) if serves and node.returns is not None else none
        if result is None:
            refuse(node, "returns something else than a number")
        returns = ir.VoidType() if result == none else result.llvm
        parameters = [kind.llvm for kind in kinds] + [I64.as_pointer()] * asks
        function = ir.Function(module, ir.FunctionType(returns, parameters), module.get_unique_name(name))
        function.attributes.add("nounwind")
        if serves:
            function.linkage = "internal"
        names = {part.arg: Value(kind, x) for part, kind, x in zip(node.args.args, kinds, function.args, strict=False)}
        super().__init__(ir.IRBuilder(function.append_basic_block()), names, meanings)
        self.function, self.wide, self.callee = function, wide, Callee(function, kinds, result)
        self.rounds: list[Ends] = []
        """For each enclosing loop, the blocks that jump to its next iteration."""
        self.breaks: list[Ends] = []
        """For each enclosing loop, the blocks that leave it."""
        self.rooms: list[ir.Value] = []
        if asks:
            self.leave, self.failed = ir.Block(function, "leave"), function.args[-1]
            self.result = None if result == none else self.builder.alloca(returns)
        self.statements(node.body)
        if not self.done and result != none:
            refuse(node, "does not return a number on every way")
        if not self.done:
            self.give_back(None)
        if asks:
            self.end()

    def give_back(self, value: ir.Value | None) -> None:
        """Return a number, or nothing."""
        builder = self.builder
        if self.leave is not None:
            if value is not None:
                builder.store(value, self.result)
            builder.branch(self.leave)
        elif value is None:
            builder.ret_void()
        else:
            builder.ret(value)

    def end(self) -> None:
        """Write the block in which a function that asks for memory ends."""
        assert self.leave is not None
        builder = self.builder
        self.function.blocks.append(self.leave)
        builder.position_at_end(self.leave)
        for room in self.rooms:
            self.free(room)
        if self.result is None:
            builder.ret_void()
        else:
            builder.ret(builder.load(self.result))

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
                refuse(node, "is no statement of kernels")
            statement(node)

    def do_Expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def do_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if len(node.targets) == 1 and not isinstance(target, ast.Tuple):
            self.assign(target, self.value(node.value))
            return
        if len(node.targets) > 1 or not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
            refuse(node, "assigns to something else than names")
        values = [self.value(part) for part in node.value.elts]
        for part, value in zip(target.elts, values, strict=True):
            self.assign(part, value)

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Subscript):
            self.store(target, value)
        elif isinstance(target, ast.Name):
            self.names[target.id] = value
        else:
            refuse(target, "is assigned to")

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        self.assign(node.target, self.binary(node, node.op, self.value(node.target), self.value(node.value)))

    def do_Return(self, node: ast.Return) -> None:
        if (node.value is None) != (self.callee.result == none):
            refuse(node, f"returns something else than {self.callee.result}")
        self.give_back(None if node.value is None else self.number(node.value, self.callee.result))

    def do_Continue(self, node: ast.Continue) -> None:
        self.go_to(self.rounds[-1])

    def do_Break(self, node: ast.Break) -> None:
        self.go_to(self.breaks[-1])

    def go_to(self, place: Ends) -> None:
        """Let control go from here to where the ends of a list meet."""
        place.append((self.builder.block, self.names))
        # Where the block ends is written when all ways to that place are known.
        self.builder.position_at_end(self.function.append_basic_block())
        self.builder.unreachable()

    def do_If(self, node: ast.If) -> None:
        condition = self.truth(self.value(node.test))
        if isinstance(condition, ir.Constant):  # of types: what is not run need not be meaningful
            self.statements(node.body if condition.constant else node.orelse)
            return
        ends = self.branches(condition, node.body, node.orelse)
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
        names: Names = {}
        merged: dict[str, tuple[Type, list[ir.Value]]] = {}
        for name, value in ends[0][1].items():
            values = [meanings[name] for _, meanings in ends if name in meanings]
            if len(values) < len(ends):
                continue
            kinds = {other.type for other in values}
            if all(other.ir is value.ir for other in values):
                names[name] = value
            elif len(kinds) == 1 or all(map(is_number, kinds)):
                kind = reduce(wider, kinds)
                merged[name] = kind, [self.cast_at(end, x, kind) for (end, _), x in zip(ends, values, strict=True)]
        for end, _ in ends:
            self.builder.position_at_end(end)
            self.builder.branch(block)
        self.builder.position_at_end(block)
        for name, (kind, values) in merged.items():
            phi = self.builder.phi(values[0].type)
            for (end, _), value in zip(ends, values, strict=True):
                phi.add_incoming(value, end)
            names[name] = Value(kind, phi)
        return names

    def cast_at(self, end: ir.Block, value: Value, kind: Type) -> ir.Value:
        """Convert a number at the end of a block."""
        self.builder.position_at_end(end)
        return cast(self.builder, value, kind)

    # -- loops ---------------------------------------------------------------------------------------------------------
    def do_While(self, node: ast.While) -> None:
        self.loop(node, lambda: self.truth(self.value(node.test)), lambda: None, [], True)

    def do_For(self, node: ast.For) -> None:
        call, name = node.iter, node.target
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "range" or not isinstance(name, ast.Name):
            refuse(node, "is a loop over something else than a range")
        bounds = [self.number(argument, int64) for argument in call.args]
        start, stop = bounds[:2] if len(bounds) > 1 else (I64(0), bounds[0])
        step = bounds[2] if len(bounds) == 3 else I64(1)
        if isinstance(step, ir.Constant) and step.constant <= 0:
            refuse(node, "is a loop whose step is not positive")
        hidden, builder = f"next {name.id}", self.builder
        self.names[hidden] = Value(int64, start)

        def goes_on() -> ir.Value:
            return builder.icmp_signed("<", self.names[hidden].ir, stop)

        def begin() -> None:
            self.names[name.id] = at = self.names[hidden]
            self.names[hidden] = Value(int64, builder.add(at.ir, step, flags=("nsw",)))

        constant = all(isinstance(bound, ir.Constant) for bound in (start, stop))
        self.loop(node, goes_on, begin, [hidden], constant or len(bounds) < 3)
        self.names.pop(hidden, None)

    def loop(
        self,
        node: ast.For | ast.While,
        goes_on: Callable[[], ir.Value],
        begin: Callable[[], None],
        more: list[str],
        unroll: bool,
    ) -> None:
        """Write rounds that start with ``begin`` as long as ``goes_on``; ``more`` names change in them too.

        Loops whose source gives the step are marked not to be unrolled: there are few blocks of columns, and rounds
        that wait for memory gain nothing by unrolling, but need a second loop for the remainder.
        """
        changing = _assigned(node).union(more)
        here = self.function.name
        for name in [name for name in self.names if (here, node, name) in self.wide]:
            kind = self.wide[here, node, name]
            self.names[name] = Value(kind, self.cast_at(self.builder.block, self.names[name], kind))
        builder, before = self.builder, self.builder.block
        header, body, leave = (self.function.append_basic_block() for _ in range(3))
        builder.branch(header)
        builder.position_at_end(header)
        phis: dict[str, ir.Instruction] = {}
        for name in [name for name in self.names if name in changing]:
            kind, value = self.names[name]
            phis[name] = builder.phi(value.type)
            phis[name].add_incoming(value, before)
            self.names[name] = Value(kind, phis[name])
        inside = dict(self.names)
        builder.cbranch(goes_on(), body, leave)
        builder.position_at_end(body)
        self.names = dict(inside)
        self.rounds.append([])
        self.breaks.append([])
        begin()
        self.statements(node.body)
        ends = self.rounds.pop() + ([] if self.done else [(builder.block, self.names)])
        if ends:
            self.again(node, self.join(ends, self.function.append_basic_block()), inside, phis)
            branch = builder.branch(header)
            if not unroll:
                branch.set_metadata("llvm.loop", _no_unrolling(self.function.module))
        builder.position_at_end(leave)
        self.names = inside
        if breaks := self.breaks.pop():
            self.names = self.join([(leave, inside), *breaks], self.function.append_basic_block())

    def again(self, node: ast.stmt, meanings: Names, inside: Names, phis: dict[str, ir.Instruction]) -> None:
        """Hand the next round what names mean at the end of one."""
        for name, phi in phis.items():
            kind, value = inside[name].type, meanings.get(name)
            if value is None or (value.type != kind and not (is_number(kind) and is_number(value.type))):
                came = "unknown" if value is None else value.type
                refuse(node, f"is a loop before which {name} is {kind}, and {came} after a round")
            if wider(kind, value.type) != kind:
                raise _WiderError(self.function.name, node, name, wider(kind, value.type))
            phi.add_incoming(cast(self.builder, value, kind), self.builder.block)

    # -- expressions that branch ---------------------------------------------------------------------------------------
    def of_BoolOp(self, node: ast.BoolOp) -> Value:
        first, *rest = node.values
        for other in rest:
            stop = ast.Constant(isinstance(node.op, ast.Or))
            first = ast.IfExp(first, stop, other) if isinstance(node.op, ast.Or) else ast.IfExp(first, other, stop)
        return self.of_IfExp(first)  # type: ignore[arg-type]

    def of_IfExp(self, node: ast.IfExp) -> Value:
        target: list[ast.expr] = [ast.Name("a value", ast.Store())]
        self.do_If(ast.If(node.test, [ast.Assign(target, node.body)], [ast.Assign(target, node.orelse)]))
        return self.names.pop("a value")


_KINDS = {"int": int64, "bool": boolean, "float": float64, "None": none}


def _kind(annotation: ast.expr | None) -> Type | None:
    """Return the type of a number that an annotation says, int64 by default; None for something else."""
    return _KINDS.get("int" if annotation is None else ast.unparse(annotation))


def _assigned(node: ast.stmt) -> set[str]:
    """Return the names that a statement assigns to."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _no_unrolling(module: ir.Module) -> Any:
    """Return the metadata node of a loop, which is distinct and refers to itself first."""
    wish = module.add_metadata(["llvm.loop.unroll.disable"])
    node = module.add_metadata([wish, I64(len(module.metadata))])
    node.operands = (node, wish)
    return node
