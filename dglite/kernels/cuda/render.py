"""Expression to CUDA C++: pure functions from a specification to a program.

The kernels themselves are templates, in ``source``. What is rendered is the *message* that they
are instantiated with: which operands are read, where and how wide, and the expression, from the one operator table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...expr import Call, Constant, Expr, Operand, Side, operands_of, write_out_powers
from ...opspec import Reducer
from ..layout import Pattern
from ..render.common import is_fused
from .run.program import CPP_TYPES, CudaProgram, make_program

PARTS = ("common", "rows", "sparse")
ROWS = """const index* __restrict__ indptr, const index* __restrict__ indices, const index* __restrict__ edge_ids,
    long long num_rows, const index* __restrict__ chunk_rows, const index* __restrict__ chunk_firsts,
    long long num_chunks, long long limit"""
"""Parameters of every kernel over the rows of a structure: ``Structure.words``."""
_ROWS = "const Rows<index> rows{indptr, indices, edge_ids, num_rows, chunk_rows, chunk_firsts, num_chunks, limit};"
_NEAR = (Side.V, Side.G)
"""Sides whose operands are the same for all entries of a row."""
_ROW = {Side.U: "source", Side.E: "edge", Side.V: "row", Side.G: "0"}


@dataclass(frozen=True, kw_only=True)
class MessageSpec:
    """What a message is rendered for: the expressions, their types, how operands broadcast, and the shape of a team.

    A team has ``feature_lanes * entry_lanes`` lanes, at most a warp; each takes ``vectors`` vectors of ``vec`` values
    and has ``ahead`` entries under way at once. ``vec`` divides the run of every operand. A multiprocessor has room for
    the registers of ``blocks`` blocks.
    """

    exprs: tuple[Expr, ...]
    dtype: str
    index: str
    patterns: tuple[Pattern, ...]
    grouped: bool
    vec: int
    feature_lanes: int
    entry_lanes: int
    vectors: int
    ahead: int
    blocks: int = 1

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The distinct operands of all expressions, by slot."""
        return all_operands(self.exprs)


def all_operands(exprs: Sequence[Expr]) -> tuple[Operand, ...]:
    """Return the distinct operands of several expressions, by slot."""
    operands = {operand for expr in exprs for operand in operands_of(expr)}
    return tuple(sorted(operands, key=lambda operand: operand.slot))


def spmm_program(spec: MessageSpec, reducers: Sequence[Reducer], argmax: bool) -> CudaProgram:
    """Return the kernels ``rows``, over whole rows and chunks, and ``merge``, which puts chunks together.

    There is a reducer for each of the expressions; with ``argmax``, max and min store theirs.
    """
    title = ", ".join(f"{reducer.value} of {expr}" for expr, reducer in zip(spec.exprs, reducers, strict=True))
    body = f"""
// g-SpMM: {title} ({spec.dtype}, {spec.index} ids)
namespace dg {{ namespace NAME {{
{message_text(spec)}
{_reductions(reducers, argmax)}
using compute = compute_t<item>;
extern "C" __global__ void __launch_bounds__(BLOCK, {spec.blocks}) NAME_rows({ROWS},
    item* __restrict__ out, index* __restrict__ argmax, compute* __restrict__ partial,
    index* __restrict__ partial_argmax, long long width, {_parameters(spec)}) {{
    {_ROWS}
    spmm<Message, Reductions>({_message(spec)}, rows, out, argmax, partial, partial_argmax, width);
}}
extern "C" __global__ void __launch_bounds__(BLOCK) NAME_merge(const index* indptr, const index* long_rows,
    const index* long_chunks, long long num_long, item* out, index* argmax, const compute* partial,
    const index* partial_argmax, long long width, long long num_rows, long long num_chunks) {{
    spmm_merge<item, index, Reductions>(indptr, long_rows, long_chunks, num_long, out, argmax, partial,
                                        partial_argmax, width, num_rows, num_chunks);
}}
}} }}
"""
    return make_program("spmm", PARTS, body, ("rows", "merge"))


def _reductions(reducers: Sequence[Reducer], argmax: bool) -> str:
    """Return the struct ``Reductions``: how many there are, how each reduces, and how many before it have an argmax."""

    def pick(values: Sequence[object]) -> str:
        return "".join(f"part == {i} ? {value} : " for i, value in enumerate(values[:-1])) + str(values[-1])

    before = [sum(reducer.selects for reducer in reducers[:i]) for i in range(len(reducers))]
    return f"""struct Reductions {{
    static constexpr int COUNT = {len(reducers)};
    static constexpr bool ARGMAX = {"true" if argmax else "false"};
    __device__ static constexpr Reduction reduction(int part) {{ return {pick([entry.name for entry in reducers])}; }}
    __device__ static constexpr int before(int part) {{ return {pick(before)}; }}
}};"""


def sddmm_program(spec: MessageSpec, dot: bool) -> CudaProgram:
    """Return the kernel ``rows``, which writes a value, or with ``dot`` a sum for each group, at every edge."""
    call = (
        f"sddmm_dot<Message>({_message(spec)}, rows, out, inner, width / inner);"
        if dot
        else f"sddmm<Message>({_message(spec)}, rows, out, width);"
    )
    body = f"""
// g-SDDMM: {"sum of " if dot else ""}{spec.exprs[0]} ({spec.dtype}, {spec.index} ids)
namespace dg {{ namespace NAME {{
{message_text(spec)}
extern "C" __global__ void __launch_bounds__(BLOCK, {spec.blocks}) NAME_rows({ROWS},
    item* __restrict__ out, long long width, {_parameters(spec)}) {{
    {_ROWS}
    {call}
}}
}} }}
"""
    return make_program("sddmm", PARTS, body, ("rows",))


# -- the message -------------------------------------------------------------------------------------------------------
def message_text(spec: MessageSpec) -> str:
    """Return the struct ``Message`` and the types ``item`` and ``index``."""
    operands = spec.operands
    near = [operand for operand in operands if operand.side in _NEAR]
    far = [operand for operand in operands if operand.side not in _NEAR]
    reads = {side: str(any(operand.side is side for operand in operands)).lower() for side in (Side.U, Side.E)}
    lines = [
        f"using item = {CPP_TYPES[spec.dtype]};",
        f"using index = {CPP_TYPES[spec.index]};",
        "struct Message {",
        f"    using item = {CPP_TYPES[spec.dtype]};",
        f"    using index = {CPP_TYPES[spec.index]};",
        "    using compute = compute_t<item>;",
        f"    static constexpr int VEC = {spec.vec}, FEATURE_LANES = {spec.feature_lanes}, "
        f"ENTRY_LANES = {spec.entry_lanes},",
        f"                         VECTORS = {spec.vectors}, AHEAD = {spec.ahead}, PARTS = {len(spec.exprs)};",
        f"    static constexpr bool READS_SOURCE = {reads[Side.U]}, READS_EDGE = {reads[Side.E]}, "
        f"GROUPED = {str(spec.grouped).lower()};",
        "    long long inner, repeat;",
        *[f"    {declaration};" for operand in operands for declaration in _members(spec, operand)],
        "    struct Place {" + "".join(f" long long {operand!r};" for operand in operands) + " };",
        "    struct Near {" + "".join(_loaded_member(spec, operand) for operand in near) + " };",
        "    struct Far {" + "".join(_loaded_member(spec, operand) for operand in far) + " };",
        *_place(spec, operands),
        *_reader(spec, "Near near(long long row, const Place& place)", near),
        *_reader(spec, "Far far(long long source, long long edge, const Place& place)", far),
        *_value(spec, near, far),
        "};",
    ]
    return "\n".join(lines)


def _members(spec: MessageSpec, operand: Operand, restrict: str = "") -> list[str]:
    table = [f"const long long* {restrict}{operand!r}_table"] if spec.grouped else []
    return [f"const item* {restrict}{operand!r}", f"long long {operand!r}_stride", *table]


def _parameters(spec: MessageSpec) -> str:
    """Return the parameters for the members of the message, in their order."""
    names = ["long long inner", "long long repeat"]
    for operand in spec.operands:
        names += _members(spec, operand, "__restrict__ ")
    return ", ".join(names)


def _message(spec: MessageSpec) -> str:
    names = ["inner", "repeat"]
    for operand in spec.operands:
        names += [f"{operand!r}", f"{operand!r}_stride"] + ([f"{operand!r}_table"] if spec.grouped else [])
    return f"Message{{{', '.join(names)}}}"


def _width(spec: MessageSpec, operand: Operand) -> int:
    """Return how many of an operand's values one vector of the result takes."""
    return spec.vec if spec.patterns[operand.slot] is Pattern.FULL else 1


def _loaded_member(spec: MessageSpec, operand: Operand) -> str:
    return f" Pack<item, {_width(spec, operand)}> {operand!r};"


def _place(spec: MessageSpec, operands: tuple[Operand, ...]) -> list[str]:
    starts = []
    for operand in operands:
        pattern = spec.patterns[operand.slot]
        if spec.grouped:
            starts.append(f"{operand!r}_table[group]" + (" + k" if pattern is Pattern.FULL else ""))
        else:
            starts.append({Pattern.FULL: "column", Pattern.SCALAR: "0", Pattern.REPEAT: "column / repeat"}[pattern])
    placed = f"return Place{{{', '.join(starts)}}};"
    here, there = "return place_in(column / inner, column % inner);", "return place(group * inner + k);"
    return [
        f"    __device__ Place place(long long column) const {{ {here if spec.grouped else placed} }}",
        f"    __device__ Place place_in(long long group, long long k) const {{ {placed if spec.grouped else there} }}",
    ]


def _reader(spec: MessageSpec, signature: str, operands: list[Operand]) -> list[str]:
    kind = signature.split(" ", 1)[0]
    loads = [
        f"        found.{operand!r} = load_early<{_width(spec, operand)}>"
        f"({operand!r} + {_ROW[operand.side]} * {operand!r}_stride + place.{operand!r});"
        for operand in operands
    ]
    return [f"    __device__ {signature} const {{", f"        {kind} found;", *loads, "        return found;", "    }"]


def _value(spec: MessageSpec, near: list[Operand], far: list[Operand]) -> list[str]:
    reads = []
    for source, operands in (("near", near), ("far", far)):
        for operand in operands:
            i = "i" if spec.patterns[operand.slot] is Pattern.FULL else "0"
            reads.append(f"            const compute {operand!r} = widen({source}.{operand!r}.item[{i}]);")
    lines, results = expression_text(spec.exprs)
    return [
        "    __device__ void value(const Near& near, const Far& far, compute (&result)[PARTS][VEC]) const {",
        "        #pragma unroll",
        "        for (int i = 0; i < VEC; ++i) {",
        *reads,
        *[f"            {line}" for line in lines],
        *[f"            result[{part}][i] = {result};" for part, result in enumerate(results)],
        "        }",
        "    }",
    ]


def expression_text(expressions: Sequence[Expr]) -> tuple[list[str], list[str]]:
    """Return statements that name every operator's value once, and the names of the expressions' values."""
    names, lines = dict[Expr, str](), list[str]()

    def name(node: Expr) -> str:
        if isinstance(node, Constant):
            return _number(node.value)
        if isinstance(node, Operand):
            return repr(node)
        assert isinstance(node, Call)
        if node not in names:
            text = _fused(node, name) or node.op.source.format(*map(name, node.args))
            names[node] = f"t{len(names)}"
            lines.append(f"const auto {names[node]} = {text};")
        return names[node]

    return lines, [name(write_out_powers(expr)) for expr in expressions]


def _fused(node: Call, name: Callable[[Expr], str]) -> str:
    """Return a sum with a product as one operation, "" for other expressions.

    Left to the compiler it would depend on the code around which products are rounded, and kernels of one expression
    would differ in the last bit.
    """
    products = [is_fused(node, arg) for arg in node.args]
    if not any(products):
        return ""
    minus, at = "-" if node.op.name == "sub" else "", 1 if products[1] else 0
    (a, b), other = map(name, node.args[at].args), name(node.args[1 - at])  # type: ignore[attr-defined]
    return f"fma({minus}{a}, {b}, {other})" if at else f"fma({a}, {b}, {minus}{other})"


def _number(value: float) -> str:
    if math.isfinite(value):
        return f"compute({value!r})"
    return (
        "(limits<compute>::infinity() * compute(0))"
        if math.isnan(value)
        else (f"({'-' if value < 0 else ''}limits<compute>::infinity())")
    )
