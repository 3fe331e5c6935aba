"""Kernel source is a pure function of its specification."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from dglite.expr import Operand, Side
from dglite.function import message_function
from dglite.kernels.layout import broadcast_layout
from dglite.kernels.render.softmax import softmax_source
from dglite.kernels.render.sparse import sddmm_source, spmm_source
from dglite.kernels.spec import Prefetch, SddmmSpec, SpmmSpec, pieces_of, spec_of
from dglite.opspec import Reducer

U_MUL_E = message_function("u_mul_e", ("h", "w"), "m").expr


def spec(shapes, reducer=Reducer.SUM, **more):
    layout = broadcast_layout(shapes, 64)
    return SpmmSpec(expr=U_MUL_E, reducer=reducer, dtype="float32", index="int32", **spec_of(layout, 64), **more)


@pytest.mark.parametrize("rest", range(64))
def test_pieces_add_up_and_halve(rest):
    pieces = pieces_of(rest)
    assert sum(pieces) == rest
    assert list(pieces) == sorted(set(pieces), reverse=True)


def test_source_is_python_and_reads_as_the_formula():
    source = spmm_source(spec(((100,), (1,))))
    ast.parse(source)
    assert "g-SpMM: sum of (u0 * e1) (float32, int32 ids)" in source
    assert "total0 = total0 + (load64(" in source
    assert source == spmm_source(spec(((100,), (1,))))


def test_one_accumulator_per_piece_in_a_single_pass():
    source = spmm_source(spec(((36,), (1,))))
    assert source.count("for j in range(first, last)") == 1
    assert "splat32(0.0)" in source and "splat4(0.0)" in source


@pytest.mark.parametrize("reducer", [Reducer.MAX, Reducer.MIN])
def test_argmax_is_tracked_only_when_asked_for(reducer):
    assert "argmax" not in spmm_source(spec(((64,), (64,)), reducer)).replace("out, argmax):", "")
    assert "argmax0 = select(differs(" in spmm_source(spec(((64,), (64,)), reducer, argmax=True))


def test_indices_are_asked_for_ahead_where_rows_of_several_lines_are_near():
    for width, ahead, rolled in ((16, False, False), (32, True, True), (64, True, False)):
        source = spmm_source(replace(spec(((width,), (1,))), prefetch=Prefetch.NOTHING))
        assert ("prefetch(indices + j * INDEX" in source) == ahead
        assert ("range(first, last, 1)" in source) == rolled
    assert "prefetch(indices" not in spmm_source(spec(((64,), (1,))))


def test_rows_are_asked_for_in_the_second_cache_unless_they_are_near():
    """128 cache lines ahead: 32 edges of up to 4 lines of source and 1 of weight, 14 of 8 and 1."""
    for width, lines, edges in ((16, 1, 32), (32, 2, 32), (128, 8, 14)):
        layout = broadcast_layout(((width,), (1,)), 128)
        how = {"expr": U_MUL_E, "reducer": Reducer.SUM, "dtype": "float32", "index": "int32", **spec_of(layout, 128)}
        source = spmm_source(SpmmSpec(**how))
        assert "prefetch, differs, select = simd.word, simd.prefetch_l2," in source
        assert f"distance = min({edges}, num_entries - last)" in source
        assert source.count("prefetch(u0_ahead") == lines
        assert "prefetch(u0_ahead" not in spmm_source(SpmmSpec(**how, prefetch=Prefetch.NOTHING))


@pytest.mark.parametrize("dot", [False, True])
def test_sddmm_source_is_python(dot):
    layout = broadcast_layout(((4, 17), (4, 17)), 64, dot)
    source = sddmm_source(SddmmSpec(expr=U_MUL_E, dot=dot, dtype="float64", index="int64", **spec_of(layout, 64)))
    ast.parse(source)
    assert ("reduce_add(" in source.split("def kernel")[1]) == dot


@pytest.mark.parametrize("heads", [1, 3, 8, 21])
def test_softmax_source_is_python(heads):
    functions = [
        node.name
        for node in ast.parse(softmax_source("float32", "int32", heads, 8)).body
        if isinstance(node, ast.FunctionDef)
    ]
    assert functions == ["forward", "backward"]


def test_a_factor_of_the_row_is_multiplied_once():
    normalised = Operand(Side.U, 0) * Operand(Side.U, 1) * Operand(Side.V, 2)
    layout, layout4 = (broadcast_layout(((64,), *((1,),) * more), 64) for more in (2, 3))
    spec = SpmmSpec(expr=normalised, reducer=Reducer.SUM, dtype="float32", index="int32", **spec_of(layout, 64))
    loop, after = spmm_source(spec).split("for j in range(first, last):")[1].split("if first < last:")
    assert "v2" not in loop and "(total0 * load1(v2" in after
    weighted = SpmmSpec(
        expr=normalised * Operand(Side.E, 3),
        reducer=Reducer.SUM,
        dtype="float32",
        index="int32",
        **spec_of(layout4, 64),
    )
    loop, after = spmm_source(weighted).split("for j in range(first, last):")[1].split("if first < last:")
    assert "v2" not in loop and "load1(e3" in loop and "(total0 * load1(v2" in after
    largest = spmm_source(
        SpmmSpec(expr=normalised, reducer=Reducer.MAX, dtype="float32", index="int32", **spec_of(layout, 64))
    )
    assert "load1(v2" in largest.split("for j in range(first, last):")[1].split("if first == last:")[0]
