"""The kernel of a model's persistent processors: its matrices in registers, and a case for each operation.

Cases are what kernels are on the CPU, for which see :mod:`...render.rows`, :mod:`...render.rowwise` and
:mod:`...render.matrix`; their words are the same. The formulas of a case are those that the CPU's kernel is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ....expr import Expr, Operand, Side, operands_of
from ...render.rows import FIRST_PLACE, WORDS_PER_PLACE, StepSpec
from ...render.rowwise import IGNORED
from ...spec import ITEM_BYTES
from ..render import expression_text
from ..run.program import BLOCK, CPP_TYPES, CudaProgram, make_program

WAIT, CHECK, FIRST_CASE = 0, 1, 2
"""Operations: to wait for all blocks, to end the sweeps, and from there on the cases of a program."""
STATUS_WORDS, ERROR, LOSS, UNUSED, ELAPSED = 8, 1, 2, 3, 4
"""Words of the status: signals, a reported error, the loss (a double), memory for what nothing reads, clock ticks."""
SCRATCH_BYTES = 1 << 23
"""Memory for what blocks find of one product before it is added up."""
REGISTERS = 128
"""Registers (of 4 bytes) of each thread that hold rows of matrices; of 255, the others are to compute with."""
_WARPS, _SHARED_BYTES = BLOCK // 32, 32768


# -- cases -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Matrix:
    """A matrix that products are made with."""

    height: int
    width: int
    dtype: str

    def registers(self, rows: int) -> int:
        """Return how many registers of a thread ``rows`` rows take."""
        return rows * -(-self.width // 32) * ITEM_BYTES[self.dtype] // 4


Slots = Sequence[tuple[int, bool]]
Rendered = tuple[str, str]
"""What a case declares, and the call that it makes."""


@dataclass(frozen=True)
class FormulaStep(StepSpec):
    """Element-wise formulas; ``late`` is what an update is made of."""

    late: bool = False

    def rendered(self, name: str, matrices: Sequence[Matrix], slots: Slots) -> Rendered:
        """Return the declaration of a struct ``name``, and the call."""
        results, operands = len(self.formulas), len(self.spread)
        rows = [*(f"y{i}" for i in range(results)), *(f"x{i}" for i in range(operands))]
        places = [f"{row}(words + {FIRST_PLACE + WORDS_PER_PLACE * i})" for i, row in enumerate(rows)]
        used = {operand.slot: repr(operand) for formula in self.formulas for operand in operands_of(formula)}
        loads = [
            f"const item {used[i]} = x{i}.row(row)[{0 if self.spread[i] else 'column'}];"
            for i in range(operands)
            if i in used
        ]
        lines, values = expression_text(self.formulas)
        computed = [*loads, *lines]
        member = f"item value(word row, word column) const {{ {' '.join([*computed, f'return {values[0]};'])} }}"
        if not self.total:
            absent = " && ".join(f"!z{i}" for i in range(results))
            member = " ".join(
                [
                    "void element(word row, word column) const {",
                    *(f"item* const z{i} = y{i}.row(row);" for i in range(results)),
                    f"if ({absent}) return;",
                    *computed,
                    *(
                        f"if (z{i}) z{i}[column] += {value};" if self.add else f"z{i}[column] = {value};"
                        for i, value in enumerate(values)
                    ),
                    "}",
                ]
            )
        text = f"""struct {name} {{
    using item = {CPP_TYPES[self.dtype]};
    using compute = item;
    static constexpr bool ADD = {str(self.add).lower()};
    const Place<item> {", ".join(rows)};
    __device__ explicit {name}(const word* words) : {", ".join(places)} {{}}
    __device__ item* result(word row) const {{ return y0.row(row); }}
    __device__ {member}
}};"""
        return text, f"{'column_sums' if self.total else 'elements'}<{name}>(words, share)"


@dataclass(frozen=True)
class Rowwise:
    """Softmax or a loss over rows, or its gradient."""

    form: str
    gradient: bool
    dtype: str
    late: bool = False

    def rendered(self, name: str, matrices: Sequence[Matrix], slots: Slots) -> Rendered:
        """Return the call."""
        gradient, dtype = str(self.gradient).lower(), CPP_TYPES[self.dtype]
        return "", f"rowwise<Form::{self.form}, {gradient}, {IGNORED}, {dtype}>(words, share)"


@dataclass(frozen=True)
class Times:
    """A product with a matrix, by number: ``dots`` with its rows, or the ``sums`` of them."""

    form: str
    matrix: int
    late: bool = False

    def rendered(self, name: str, matrices: Sequence[Matrix], slots: Slots) -> Rendered:
        """Return the call."""
        if not slots[self.matrix][0]:
            return "", f"{self.form}<{CPP_TYPES[matrices[self.matrix].dtype]}>(words, share)"
        more = ", barrier, scratch, scratch_bytes" if self.form == "sums" else ""
        return "", f"held{self.matrix}.{self.form}(words, share{more})"


@dataclass(frozen=True)
class Summed:
    """Products of rows, ``outer``, or sums of rows, ``totals``, and how they change a parameter.

    ``formulas`` are (what is written, formula): 0 is the parameter, 1 the sum, then ``states`` tensors, then numbers.
    """

    form: str
    formulas: tuple[tuple[int, Expr], ...]
    states: int
    dtype: str
    late: bool = True

    def rendered(self, name: str, matrices: Sequence[Matrix], slots: Slots) -> Rendered:
        """Return the declaration of a struct ``name``, and the call."""
        used = sorted({operand.slot for _, formula in self.formulas for operand in operands_of(formula)} | {0})
        first_number = 2 + self.states
        tensors, numbers = [i for i in range(first_number) if i != 1], [i for i in used if i >= first_number]
        words = {0: 6, **{slot: 9 + slot for slot in range(2, first_number)}}
        members = [f"item* m{i};" for i in tensors] + [f"item e{i};" for i in numbers]
        reads = [f"m{i}(pointer<item>(words[{words[i]}]))" for i in tensors]
        reads += [f"e{i}(pointer<const item>(words[10])[{i - first_number}])" for i in numbers]
        changes = []
        for target, formula in self.formulas:
            lines, (value,) = expression_text((formula,))
            changes.append("{ " + " ".join([*lines, f"e{target} = {value};"]) + " }")
        written = [f"m{i}[at] = e{i};" for i in dict.fromkeys(target for target, _ in self.formulas)]
        text = f"""struct {name} {{
    using item = {CPP_TYPES[self.dtype]};
    using compute = item;
    {" ".join(members)}
    word stride;
    __device__ explicit {name}(const word* words) : {", ".join(reads)}, stride(words[7] / word(sizeof(item))) {{}}
    __device__ void apply(word row, word column, const item e1) const {{
        const word at = row * stride + column;
        {" ".join(f"item e{i} = m{i}[at];" for i in tensors)}
        {" ".join(changes)}
        {" ".join(written)}
    }}
}};"""
        high = 1 if self.form == "totals" else 4
        return text, f"Outer<{name}, {high}, 4, {str(self.form == 'totals').lower()}>(words).run(share)"


@dataclass(frozen=True)
class WrittenCase:
    """A function of ``persistent.cuh``: ``clear`` sets memory to 0, ``losses`` sums up losses and starts their
    gradients."""

    function: str
    late: bool = False

    def rendered(self, name: str, matrices: Sequence[Matrix], slots: Slots) -> Rendered:
        """Return the call."""
        return "", f"{self.function}(words, share)"


def _descent() -> tuple[tuple[int, Expr], ...]:
    parameter, gradient, keep, scale = (Operand(Side.E, slot) for slot in range(4))
    return ((0, keep.call("eq", 0.0).call("where", scale * gradient, keep * parameter + scale * gradient)),)


KEPT = _descent()
"""A sum, scaled, is added to what is kept of a tensor; where it keeps 0, what is there does not count."""
CLEAR, LOSSES = WrittenCase("clear"), WrittenCase("losses")
Case = FormulaStep | Rowwise | Times | Summed | WrittenCase


# -- the program -------------------------------------------------------------------------------------------------------
def slots_of(matrices: Sequence[Matrix], rows: int, blocks: int) -> tuple[tuple[int, bool], ...]:
    """Return how many groups of ``rows`` rows of each matrix a warp holds, and whether these are the whole matrix.

    Matrices are given registers as long as there are any, as far as they are narrow enough to be added up in shared
    memory.
    """
    left, slots = REGISTERS, []
    for matrix in matrices:
        groups = -(-matrix.height // rows)
        needed = -(-groups // (blocks * _WARPS))
        fits = _WARPS * -(-matrix.width // 32) * 32 * ITEM_BYTES[matrix.dtype] <= _SHARED_BYTES
        size = matrix.registers(rows)
        in_registers = min(needed, left // size) if fits else 0
        slots.append((in_registers, in_registers == needed))
        left -= in_registers * size
    return tuple(slots)


_BODY = """
// Persistent processors: {title}
namespace dg {{ namespace NAME {{
{declared}
__device__ inline bool is_mine(const word* at) {{ return at[2] < 0 || at[2] == blockIdx.x; }}

extern "C" __global__ void __launch_bounds__(BLOCK, 1) NAME_run(const word* script, word count, word* status,
    const word* matrices, word scratch, word scratch_bytes) {{
    const word begin = clock64();
    Barrier barrier(status);
{held}
    word i = 0;
{sweep}
    // The weights leave the registers, and sums of gradients take their place.
    const bool failed = status[ERROR] != 0;
{late}
    if (blockIdx.x == 0 && threadIdx.x == 0) status[ELAPSED] = clock64() - begin;
}}
}} }}
"""
_LOOP = """    for (; {condition}; ++i) {{
        const word* const at = script + INSTRUCTION_WORDS * i;
        if (at[0] == {wait}) barrier.wait();
        if (at[0] < {first} || !is_mine(at)) continue;
        const word* const words = pointer<const word>(at[1]);
        const Share share(at[2], at[3] != 0);
        switch (at[0]) {{
{cases}
        }}
        __syncthreads();
    }}"""


def _loop(condition: str, calls: Sequence[tuple[int, str, bool]], late: bool) -> str:
    """Return the loop over instructions whose cases (number, call, whether they are late) are late, or not."""
    cases = "\n".join(
        f"            case {number}: {call}; break;" for number, call, of_late in calls if of_late is late
    )
    return _LOOP.format(condition=condition, wait=WAIT, first=FIRST_CASE, cases=cases)


@cache
def persistent_program(
    cases: tuple[Case, ...], matrices: tuple[Matrix, ...], rows: int, slots: tuple[tuple[int, bool], ...]
) -> CudaProgram:
    """Return the kernel ``run``. Operation ``FIRST_CASE + i`` is ``cases[i]``; ``rows`` are those of a group.

    Words of the kernel: script, number of instructions, status, table of (address, row stride) of the matrices, scratch
    memory and its size.
    """
    texts = [case.rendered(f"Case{i}", matrices, slots) for i, case in enumerate(cases)]
    calls = [(FIRST_CASE + i, call, case.late) for i, ((_, call), case) in enumerate(zip(texts, cases, strict=True))]
    register_lines = "\n".join(
        f"    const Held<{CPP_TYPES[matrix.dtype]}, {matrix.height}, {matrix.width}, {rows}, {register_lines}, "
        f"{str(whole).lower()}> held{i}(matrices + {2 * i});"
        for i, (matrix, (register_lines, whole)) in enumerate(zip(matrices, slots, strict=True))
        if register_lines
    )
    body = _BODY.format(
        title=f"{len(cases)} cases, {len(matrices)} matrices, {rows} rows at a time",
        declared="\n".join(text for text, _ in texts if text),
        held=register_lines,
        sweep=_loop(f"i < count && script[INSTRUCTION_WORDS * i] != {CHECK}", calls, late=False),
        late=_loop("i < count && !failed", calls, late=True),
    )
    return make_program("persistent", ("common", "persistent", "persistent_matrix"), body, ("run",))
