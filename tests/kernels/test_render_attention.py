"""Source of the attention kernels is a pure function of the specification."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from dglite.kernels.render.attention import attention_source
from dglite.kernels.render.columns import sweeps_of
from dglite.kernels.render.dropout import dropout_source
from dglite.kernels.render.tiles import WORDS, AttentionSpec, Phase, Score, runs_of
from dglite.kernels.words import FIRST_OPERAND

SHAPES = [(1, 1), (8, 8), (8, 32), (3, 5), (2, 100), (1, 256), (12, 2), (64, 1)]


def specified(score: Score, phase: Phase, heads: int, features: int, **flags: bool) -> AttentionSpec:
    return AttentionSpec(score, phase, "float32", "int32", heads, features, 64, 8, **flags)


@pytest.mark.parametrize("score", Score)
@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize(("heads", "features"), SHAPES)
def test_it_is_python_with_one_kernel(score, phase, heads, features):
    flags = {"dropout": True, "weighted": True, "weight_gradient": True, "training": True}
    source = attention_source(specified(score, phase, heads, features, **flags))
    functions = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    assert functions == ["kernel"]
    assert score.value in source and source == attention_source(specified(score, phase, heads, features, **flags))


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize(("heads", "features"), SHAPES)
@pytest.mark.parametrize("edge_features", [0, 1, 100])
def test_edges_are_read_where_they_have_a_part(phase, heads, features, edge_features):
    plain = attention_source(specified(Score.ADDITIVE, phase, heads, features, training=True))
    assert "edge_row" not in plain and "edge_feat" not in plain
    flags = {"edges": True, "training": True, "edge_gradient": edge_features > 0}
    spec = replace(specified(Score.ADDITIVE, phase, heads, features, **flags), edge_features=edge_features)
    source = attention_source(spec)
    assert [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)] == ["kernel"]
    assert "edge_row" in source and "sloped" not in source
    assert ("feat_row" in source) == (edge_features > 0 and phase is not Phase.SOURCE)


@pytest.mark.parametrize(("heads", "features"), SHAPES)
@pytest.mark.parametrize("lanes", [32, 64])
def test_columns_that_heads_share_are_those_within_the_head(heads, features, lanes):
    spec = specified(Score.ADDITIVE, Phase.FORWARD, heads, 1, edges=True)
    results = []
    for sweep in sweeps_of(replace(spec, edge_features=features).of_edges, lanes):
        for values in _loop_values(sweep.loops):
            head = eval(sweep.head, {}, values)
            for piece in sweep.pieces:
                offset = eval(piece.shared("row").removeprefix(f"load{piece.width}"), {"row": 0, "ITEM": 4}, values)
                results += [(head + piece.head, offset // 4 + i) for i in range(piece.width)]
    assert sorted(results) == [(head, column) for head in range(heads) for column in range(features)]


@pytest.mark.parametrize(("heads", "features"), SHAPES)
@pytest.mark.parametrize("lanes", [32, 64])
def test_sweeps_cover_every_column_once_with_its_own_head(heads, features, lanes):
    covered = []
    for sweep in sweeps_of(specified(Score.DOT, Phase.FORWARD, heads, features), lanes):
        for values in _loop_values(sweep.loops):
            for piece in sweep.pieces:
                start = eval(sweep.column, {}, values) + piece.column
                head = eval(sweep.head, {}, values) + piece.head
                assert piece.looped == bool(sweep.loops)
                columns = range(start, start + piece.width)
                covered += columns
                assert [head + (column - start) // (piece.repeat or piece.width) for column in columns] == [
                    column // features for column in columns
                ]
            assert sum(piece.width for piece in sweep.pieces) == sweep.span <= lanes
    assert sorted(covered) == list(range(heads * features))


def _loop_values(loops):
    """Return what the loop variables are on each turn."""
    turns = [{}]
    for loop in loops:
        name, values = loop.removeprefix("for ").removesuffix(":").split(" in ")
        turns = [{**turn, name: value} for turn in turns for value in eval(values)]
    return turns


@pytest.mark.parametrize("heads", [1, 3, 8, 21, 64])
def test_runs_cover_every_head_once(heads):
    runs = runs_of(specified(Score.DOT, Phase.FORWARD, heads, 4))
    assert [head for first, width in runs for head in range(first, first + width)] == list(range(heads))


def test_dropout_and_weights_cost_nothing_where_there_are_none():
    plain = attention_source(specified(Score.ADDITIVE, Phase.FORWARD, 8, 8)).split("def kernel")[1]
    assert " draw(" not in plain and "weight" not in plain and "sloped" not in plain
    full = attention_source(specified(Score.ADDITIVE, Phase.FORWARD, 8, 8, dropout=True, weighted=True, training=True))
    assert " draw(" in full and "load1(weight" in full and "sloped_row" in full


def test_arguments_have_places_of_their_own():
    assert sorted(WORDS.values()) == list(range(FIRST_OPERAND, FIRST_OPERAND + len(WORDS)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropout_source_is_python(dtype):
    assert "def kernel(args, task, num_tasks)" in ast.unparse(ast.parse(dropout_source(dtype)))
