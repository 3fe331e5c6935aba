"""Programs of every kind of kernel, between them every option and dtype: what the compilers are tried on."""

from __future__ import annotations

from dglite.expr import Operand, Side
from dglite.kernels.cuda.dynamic import chains, persistent
from dglite.kernels.cuda.graph import argmax, attention, convert
from dglite.kernels.cuda.graph.attention import Team
from dglite.kernels.cuda.graph.softmax import HELD, softmax_program
from dglite.kernels.cuda.graph.sparse import bind_sddmm, bind_several, bind_spmm
from dglite.kernels.cuda.run.program import CudaProgram
from dglite.kernels.cuda.sample import labor, number, sample, times, walk
from dglite.kernels.render.rows import RowAccess, StepSpec
from dglite.kernels.render.tiles import Phase, Score
from dglite.opspec import Reducer
from tests.kernels.sparse_cases import expression

__all__ = ["processors", "programs", "wide_sum"]


def wide_sum() -> CudaProgram:
    """Return the g-SpMM of float32 rows of 64 with a weight per edge."""
    return bind_spmm(expression("u_mul_e"), Reducer.SUM, "float32", "int32", ((64,), (1,))).program([0, 0], 0, 20.0)[1]


def processors() -> CudaProgram:
    """Return persistent processors of a model with two matrices, of one of which not all rows fit, with every case."""
    dtype = "float32"
    x, y = (Operand(Side.E, slot) for slot in range(2))
    matrices = persistent.Matrix(600, 96, dtype), persistent.Matrix(5, 64, "float64")
    cases = (
        persistent.FormulaStep((x.call("tanh") * y, x), (False, True), True, False, dtype),
        persistent.FormulaStep((x * y,), (False, False), True, True, dtype),
        *(
            persistent.Rowwise(form, gradient, dtype)
            for form in ("cross_entropy", "softmax")
            for gradient in (False, True)
        ),
        *(persistent.Times(form, matrix) for matrix in range(2) for form in ("dots", "sums")),
        *(persistent.Summed(form, persistent.KEPT, 0, dtype) for form in ("outer", "totals")),
        *(persistent.CLEAR, persistent.LOSSES),
    )
    return persistent.persistent_program(cases, matrices, 2, persistent.slots_of(matrices, 2, 2))


def dynamic_programs() -> list[CudaProgram]:
    """Return a chain of a vertex program, with every access and reduction, and steps of lazy batches."""
    x, y, z = (Operand(Side.E, slot) for slot in range(3))
    gates = (x.call("sigmoid") * y.call("tanh") + z, x.call("eq", y).call("where", x, z))
    reductions = [
        chains.RowReduction(rows, "float64", 3, reducer)
        for rows, reducer in ((RowAccess.SAME, "max"), (RowAccess.INDEXED, "min"), (RowAccess.ADDRESSED, "sum"))
    ]
    formulas = chains.RowFormulas(gates, (RowAccess.SAME, RowAccess.INDEXED, RowAccess.SHARED), "float32", 300)
    steps = (
        StepSpec((x.call("tanh") * y, x), (False, True), True, False, "float32"),
        StepSpec((x * y,), (False, False), True, True, "float64"),
    )
    return [chains.chain_of((*reductions, formulas)).program, *map(chains.step_program, steps)]


def programs() -> list[CudaProgram]:
    """Return the programs."""
    product = expression("u_mul_e")
    heads, outer = ((8, 8), (8, 1)), ((3, 1), (1, 4))
    attention_spec = attention.attention_spec
    results = [
        attention.projection_program("bfloat16", 8, 4),
        wide_sum(),
        bind_spmm(product, Reducer.MAX, "bfloat16", "int64", heads, True).program([0, 0], 0, 20.0)[1],
        bind_spmm(product, Reducer.MEAN, "float16", "int32", outer).program([0, 0], 0, 20.0)[1],
        bind_several(
            ((product, Reducer.MEAN), (product * product, Reducer.SUM), (expression("copy_u"), Reducer.MAX)),
            "float32",
            "int32",
            ((64,), (1,)),
            True,
        ).program([0, 0], 0, 20.0)[1],
        bind_sddmm(expression("u_div_v"), "float64", "int64", outer).program([0, 0], 0, 20.0)[1],
        bind_sddmm(product, "float32", "int32", ((8, 32), (8, 32)), True).program([0, 0], 0, 20.0)[1],
        softmax_program("float16", "int32", 2, 4, 2, *HELD),
        convert._program("int32"),
        convert._scan_program("int32"),
        sample._program("int64", "int32"),
        labor._program("int64", "int32"),
        times._program("int32"),
        number._program("int64"),
        walk._program("int32", "int64"),
        argmax._program("bfloat16", "int32"),
        attention._dropout_program("float32"),
        processors(),
        *dynamic_programs(),
    ]
    all_flags = {"dropout": True, "weighted": True}
    for spec, team in [
        (
            attention_spec(Score.ADDITIVE, Phase.FORWARD, "float32", "int32", 8, 32, training=True, **all_flags),
            Team(4, 8, 4, 1, 1, 4),
        ),
        (attention_spec(Score.ADDITIVE, Phase.DESTINATION, "float16", "int32", 8, 32), Team(8, 4, 8, 1, 1, 2)),
        (
            attention_spec(
                *(Score.ADDITIVE, Phase.SOURCE, "bfloat16", "int64", 8, 32),
                weight_gradient=True,
                projected=True,
                **all_flags,
            ),
            Team(8, 4, 8, 1, 1, 2),
        ),
        (
            attention_spec(Score.GATV2, Phase.FORWARD, "float64", "int32", 2, 160, training=True, **all_flags),
            Team(2, 32, 1, 1, 3, 2),
        ),
        (
            attention_spec(Score.GATV2, Phase.DESTINATION, "float32", "int32", 8, 32, **all_flags),
            Team(4, 8, 4, 1, 1, 2),
        ),
        (
            attention_spec(Score.DOT, Phase.SOURCE, "float32", "int32", 1, 7, weight_gradient=True, **all_flags),
            Team(1, 8, 1, 4, 1, 2),
        ),
    ]:
        results.append(attention.attention_program(spec, team))
    return results
