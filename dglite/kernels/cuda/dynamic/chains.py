"""Kernels of a vertex program's stages and of lazy batches on a GPU, a launch each.

A stage is a chain of formulas over rows and of reductions, a lazy batch has steps.

What a kernel of a chain computes, and its words, are those of the CPU's kernels, see :mod:`...render.rows`. A block
takes some rows through the whole chain: a kernel reads, of what others of the chain write, its own rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ....expr import Expr, Operand, Side, operands_of
from ....opspec import OPERATORS
from ...render.rows import FIRST_PLACE, WORDS_PER_OPERAND, WORDS_PER_RESULT, ReduceWords, RowAccess, StepSpec
from ..render import expression_text
from ..run.program import BLOCK, CPP_TYPES, CudaProgram, blocks_for, make_program
from .persistent import FormulaStep


@dataclass(frozen=True)
class RowFormulas:
    """Formulas for each of a run of rows, see :func:`...render.rows.cell_source`."""

    formulas: tuple[Expr, ...]
    rows: tuple[RowAccess, ...]
    dtype: str
    width: int

    @property
    def num_words(self) -> int:
        """How many words it has."""
        return FIRST_PLACE + WORDS_PER_OPERAND * len(self.rows) + WORDS_PER_RESULT * len(self.formulas)

    def body(self) -> list[str]:
        """Return the statements for one element."""
        used = sorted({operand.slot for formula in self.formulas for operand in operands_of(formula)})
        loads = [f"const item {Operand(Side.E, i)!r} = {self._row(i)}[column];" for i in used]
        lines, values = expression_text(self.formulas)
        first = FIRST_PLACE + WORDS_PER_OPERAND * len(self.rows)
        stores = []
        for i, value in enumerate(values):
            at = first + WORDS_PER_RESULT * i
            stores.append(f"pointer<item>(w[{at}] + row * w[{at + 1}])[column] = {value};")
        return [*loads, *lines, *stores]

    def _row(self, i: int) -> str:
        at = FIRST_PLACE + WORDS_PER_OPERAND * i
        row = {
            RowAccess.SAME: f" + row * w[{at + 1}]",
            RowAccess.INDEXED: f" + pointer<const word>(w[{at + 2}])[row * w[{at + 3}]] * w[{at + 1}]",
            RowAccess.SHARED: "",
        }[self.rows[i]]
        return f"pointer<const item>(w[{at}]{row})"


@dataclass(frozen=True)
class RowReduction:
    """The ``"sum"``, ``"max"`` or ``"min"`` of the rows of each row's entries, 0 without; words: ``ReduceWords``."""

    rows: RowAccess
    dtype: str
    width: int
    reducer: str

    @property
    def num_words(self) -> int:
        """How many words it has."""
        return len(ReduceWords._fields)

    def body(self) -> list[str]:
        """Return the statements for one element."""
        place = {name: f"w[{i}]" for i, name in enumerate(ReduceWords._fields)}
        numbers = f"pointer<const word>({place['index']})[entry]"
        source = {
            RowAccess.SAME: f"{place['x']} + entry * {place['x_stride']}",
            RowAccess.INDEXED: f"{place['x']} + {numbers} * {place['x_stride']}",
            RowAccess.ADDRESSED: numbers,
        }[self.rows]
        operator = OPERATORS[{"sum": "add", "max": "maximum", "min": "minimum"}[self.reducer]]
        first = "entry == begin ? value : " if self.reducer != "sum" else ""
        return [
            f"const word* const bounds = pointer<const word>({place['bounds']});",
            "const word begin = bounds[row], end = bounds[row + 1];",
            "item total = 0;",
            "for (word entry = begin; entry < end; ++entry) {",
            f"    const word source = {source};",
            *(["    if (!source) continue;"] if self.rows is RowAccess.ADDRESSED else []),
            "    const item value = pointer<const item>(source)[column];",
            f"    total = {first}{operator.source.format('total', 'value')};",
            "}",
            f"pointer<item>({place['y']} + row * {place['y_stride']})[column] = total;",
        ]


@dataclass(frozen=True)
class Chain:
    """The program of a chain, its kernel ``run``, and how many rows a block takes."""

    program: CudaProgram
    rows: int

    def grid(self, count: int) -> tuple[int, int]:
        """Return the blocks for ``count`` rows."""
        return -(-count // self.rows), 1


_BODY = """
// A chain of {count} row kernels
namespace dg {{ namespace NAME {{
using word = long long;
template <class T> __device__ inline T* pointer(word address) {{ return reinterpret_cast<T*>(address); }}
extern "C" __global__ void __launch_bounds__(BLOCK) NAME_run(const word* __restrict__ words, word start, word stop) {{
    const word block_start = start + word(blockIdx.x) * {rows};
    const int count = int(stop - block_start < {rows} ? stop - block_start : {rows});
{stages}
}}
}} }}
"""
_STAGE = """    {{
        using item = {dtype};
        using compute = item;
        const word* const w = words + {first};
        for (int i = threadIdx.x; i < count * {width}; i += BLOCK) {{
            const word row = block_start + i / {width};
            const int column = i % {width};
{body}
        }}
    }}
"""


@cache
def chain_of(kernels: tuple[RowFormulas | RowReduction, ...]) -> Chain:
    """Return the chain of some kernels.

    Its words are those of a stage's chain: number of kernels, (kernel, address of its words) of each, then their words.
    Words of ``run``: the address of these, first row, last row.
    """
    first, stages = 1 + 2 * len(kernels), list[str]()
    for kernel in kernels:
        body = "\n".join(f"            {line}" for line in kernel.body())
        if kernel.width:
            stages.append(_STAGE.format(dtype=CPP_TYPES[kernel.dtype], first=first, width=kernel.width, body=body))
        first += kernel.num_words
    rows = max(1, BLOCK // max(1, *[kernel.width for kernel in kernels]))
    text = "    __syncthreads();\n".join(stages)
    body = _BODY.format(count=len(kernels), rows=rows, stages=text)
    return Chain(make_program("chain", ("common",), body, ("run",)), rows)


# -- steps of lazy batches ---------------------------------------------------------------------------------------------
_ROW_SUMS = """
// A warp for each row, whose result no other row has.
template <class Step> __device__ inline void sums_of_rows(const word* words) {
    using item = typename Step::item;
    const Step step(words);
    for (word row = warp_of_gpu(); row < words[1]; row += word(gridDim.x) * WARPS) {
        item* const result = step.result(row);
        item sum = 0;
        for (word column = lane_of_warp(); result && column < words[2]; column += WARP) sum += step.value(row, column);
        sum = sum_across<1, WARP>(sum);
        if (lane_of_warp() == 0 && result) *result = (Step::ADD ? *result : item(0)) + sum;
    }
}"""
_STEP_BODY = """
// A step of a lazy batch
namespace dg {{ namespace NAME {{
{declared}
extern "C" __global__ void __launch_bounds__(BLOCK) NAME_run(const word* words, word apart) {{
    const Share share(-1, apart != 0);
    {call};
}}
}} }}
"""
_MOST_BLOCKS = 1 << 15


@cache
def step_program(spec: StepSpec) -> CudaProgram:
    """Return the kernel ``run`` of a step: address of its words, and whether its results are different rows."""
    declared, call = FormulaStep(**vars(spec)).rendered("Step", (), ())
    sums = _ROW_SUMS if spec.total else ""
    call = f"if (apart) sums_of_rows<Step>(words); else {call}" if spec.total else call
    body = _STEP_BODY.format(declared=declared + sums, call=call)
    return make_program("step", ("common", "persistent"), body, ("run",))


def step_grid(spec: StepSpec, rows: int, width: int, apart: bool) -> tuple[int, int]:
    """Return the blocks for a step of ``rows`` rows."""
    threads = 32 * rows if spec.total else rows * width
    return min(blocks_for(threads if apart else 1 if spec.total else width), _MOST_BLOCKS), 1
