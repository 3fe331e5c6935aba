"""Descriptions of operators: what is refused, and which regions are read off them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch

from dglite.errors import DGLError
from dglite.tofu.interval import strategies
from dglite.tofu.operator import DescribedOperator, OperatorCall, SplitRule
from dglite.tofu.strategy import RowSpan, Strategy
from dglite.tofu.tdl import ElementWise, Max, Min, Opaque, Place, Prod, Sum, describe, over
from dglite.tofu.verify import combine_parts, verify

PLAIN = RowSpan()


def by_index(function: Callable[..., Any], inputs: Any, outputs: Any, **options: Any) -> dict[str, Strategy]:
    return {s.index: s for s in strategies(describe(function), inputs, outputs, **options)}


def conv1d(data: Any, filters: Any) -> Any:
    return lambda b, co, x: Sum(lambda ci, dx: data[b, ci, x + dx] * filters[ci, co, dx])


def test_a_convolution_is_split_with_its_halo() -> None:
    result = by_index(conv1d, [(4, 3, 10), (3, 5, 3)], [(4, 5, 8)])
    assert list(result) == ["b", "co", "x", "ci", "dx"]
    assert result["x"].inputs == ((None, None, RowSpan(after=2)), (None, None, None))
    assert result["x"].outputs == ((None, None, PLAIN),) and result["x"].combine == ("concat",)
    assert result["ci"].inputs == ((None, PLAIN, None), (PLAIN, None, None))
    assert result["ci"].outputs == ((None, None, None),) and result["ci"].combine == ("sum",)
    assert result["dx"].inputs[0] == (None, None, RowSpan(after=7)) and result["dx"].extent == 3


def test_all_reads_of_a_tensor_count() -> None:
    result = by_index(lambda x: lambda i: x[i - 1] + 2 * x[i + 3], [(9,)], [(9,)])
    assert result["i"].inputs == ((RowSpan(before=-1, after=3),),)
    assert by_index(lambda x: lambda i: x[i] + x[2 * i], [(9,)], [(5,)])["i"].inputs == ((None,),)


WHERE: list[Callable[[Any, Any], Any]] = [
    lambda i, k: i,
    lambda i, k: i + k,
    lambda i, k: 2 * i - k + 5,
    lambda i, k: 20 - i,
    lambda i, k: 3 * k + i * 4,
    lambda i, k: i // 2,
    lambda i, k: (i + 5) // 3 + 2,
    lambda i, k: 30 - 2 * i - 3 * k,
]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("split", ["i", "k"])
def test_a_region_is_from_the_first_row_that_is_read_to_the_last(where: Callable[..., Any], split: str) -> None:
    def function(x: Any) -> Any:
        return lambda i: Sum(lambda k: x[where(i, k)])

    extents = {"i": 7, "k": 4}
    span = by_index(function, [(100,)], [(7,)], extents=extents)[split].inputs[0][0]
    last = (6, 0) if split == "i" else (0, 3)
    assert (span is not None) == (where(*last) != where(0, 0))
    for lo, hi in itertools.combinations(range(extents[split] + 1), 2):
        ranges = {name: range(size) for name, size in extents.items()} | {split: range(lo, hi)}
        rows = [where(i, k) for i in ranges["i"] for k in ranges["k"]]
        assert span is None or span.rows(lo, hi, 100) == (min(rows), max(rows) + 1)


def test_fractions_stand_for_the_whole_numbers_among_their_values() -> None:
    span = by_index(lambda x: lambda i: Sum(lambda k: x[(i + 1 - k) / 2]), [(4,)], [(8,)], extents={"k": 3})["i"]
    assert span.inputs[0][0] == RowSpan((Fraction(1, 2), 0), (0, Fraction(1, 2)), Fraction(-1, 2), Fraction(1, 2))


def test_slices_may_have_affine_ends() -> None:
    result = by_index(lambda x: lambda h: Place(x[4 * h : 4 * h + 4, :], h, slice(None)), [(8, 3)], [(2, 3)])
    assert result["h"].inputs == ((RowSpan((4, 0), (0, 4)), None),) and result["h"].extent == 2


def test_outputs_may_stand_elsewhere() -> None:
    result = by_index(lambda x: lambda h: Place(Opaque("view")(x[h, :]), slice(3 * h, 3 * h + 3)), [(4, 3)], [(12,)])
    assert result["h"].outputs == ((RowSpan((3, 0), (0, 3)),),)


def test_outputs_are_combined_each_in_its_way() -> None:
    result = by_index(
        lambda g, x, w: (
            lambda n, i: Sum(lambda o: g[n, o] * w[o, i]),
            lambda o, i: Sum(lambda n: g[n, o] * x[n, i]),
            over([], lambda: 0),
        ),
        [(4, 2), (4, 3), (2, 3)],
        [(4, 3), (2, 3), ()],
    )
    assert result["n"].combine == ("concat", "sum", "concat")
    assert result["o"].combine == ("sum", "concat", "concat")
    assert result["i"].combine == ("concat", "concat", "concat")
    assert result["n"].outputs == ((PLAIN, None), (None, None), ())


REDUCED: list[tuple[Callable[..., Any], str | None]] = [
    (lambda x, y: Sum(lambda k: x[k]), "sum"),
    (lambda x, y: 2 * Sum(lambda k: x[k]) / 3, "sum"),
    (lambda x, y: y[0] * Sum(lambda k: x[k]), "sum"),
    (lambda x, y: -Sum(lambda k: x[k]), "sum"),
    (lambda x, y: Sum(lambda k: x[k]) - Sum(lambda k: y[k]), "sum"),
    (lambda x, y: Sum(lambda j: y[j] * Sum(lambda k: x[k])), "sum"),
    (lambda x, y: Max(lambda k: x[k]), "max"),
    (lambda x, y: 3 * Max(lambda k: x[k]) + y[0], "max"),
    (lambda x, y: Min(lambda j: Min(lambda k: x[k] + y[j])), "min"),
    (lambda x, y: Prod(lambda k: x[k]), "prod"),
    (lambda x, y: y[0] + Sum(lambda k: x[k]), None),
    (lambda x, y: Sum(lambda j: y[j] + Sum(lambda k: x[k])), None),
    (lambda x, y: Max(lambda j: y[j] * Sum(lambda k: x[k])), None),
    (lambda x, y: y[0] - Max(lambda k: x[k]), None),
    (lambda x, y: -2 * Max(lambda k: x[k]), None),
    (lambda x, y: 2 * Prod(lambda k: x[k]), None),
    (lambda x, y: 1 / Sum(lambda k: x[k]), None),
    (lambda x, y: Sum(lambda k: x[k]) * Sum(lambda k: y[k]), None),
    (lambda x, y: Sum(lambda k: x[k]) + Max(lambda k: y[k]), None),
    (lambda x, y: ElementWise("sqrt")(Sum(lambda k: x[k])), None),
]


@pytest.mark.parametrize(("body", "combine"), REDUCED)
def test_a_reduction_is_split_where_it_distributes(body: Callable[..., Any], combine: str | None) -> None:
    result = by_index(lambda x, y: lambda: body(x, y), [(6,), (6,)], [()])
    assert (result["k"].combine if "k" in result else None) == (None if combine is None else (combine,))


def test_terms_beside_a_sum_are_added_by_who_says_so() -> None:
    result = by_index(lambda x, y: lambda i: y[i] + Sum(lambda k: x[k, i]), [(6, 2), (2,)], [(2,)], additive=True)
    assert result["k"].combine == ("sum",) and result["k"].inputs == ((PLAIN, None), (None,))


def test_what_chooses_from_an_opaque_result_is_not_split() -> None:
    result = by_index(lambda m: lambda b, i, j: Opaque("inverse")(m[b, :, :])[i, j], [(4, 3, 3)], [(4, 3, 3)])
    assert list(result) == ["b"]


BAD: list[tuple[Callable[..., Any], str]] = [
    (lambda x: lambda i, j: x[i * j], "product of two indices"),
    (lambda x: lambda i, j: x[i / j], "quotient of two indices"),
    (lambda x: lambda i: x[i // 2 + i], "divided by //"),
    (lambda x: lambda i: x[i] + x[i, 0], "indexed with 2 indices here and with 1 elsewhere"),
    (lambda x: lambda i: x[i] * unknown[i], "unknown"),  # type: ignore[name-defined]  # noqa: F821
    (lambda x: lambda i: Sum(lambda i: x[i]), "bound twice"),
    (lambda x: lambda i: x[i] if i else 0, "no value to decide by"),
    (lambda x: lambda i: x[i] if x[i] else 0, "no values to decide by"),
    (lambda x: lambda i: x[i::2], "step 2"),
    (lambda x: lambda i: x[i:], "has one end"),
    (lambda x: lambda i: x[x[i]], "Opaque"),
    (lambda x: lambda i: x, "Index the tensor x"),
    (lambda x: lambda i: max(x[i], 0), "not a description"),
    (lambda x: lambda *i: x[i], "over"),
    (lambda x: x[0], "lambda i, j"),
]


@pytest.mark.parametrize(("function", "message"), BAD)
def test_a_bad_description_is_refused_at_once(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        describe(function)


@pytest.mark.parametrize(
    ("function", "inputs", "outputs", "message"),
    [
        (lambda x: lambda i: x[i], [(4, 5)], [(4,)], "x is described with 1 dimensions"),
        (lambda x: lambda i: x[i], [(4,)], [(4, 5)], "output 0 is described with 1 indices"),
        (lambda x: lambda i: x[i], [(4,), (4,)], [(4,)], "1 inputs and 1 outputs"),
        (lambda x: lambda i: x[i], [(3,)], [(4,)], "i takes 4 values, a dimension that it reads has 3"),
        (lambda x: (lambda i: x[i], lambda i: x[i]), [(5,)], [(4,), (3,)], "4 values in one output and 3 in another"),
        (lambda x: lambda i: Sum(lambda k: x[i + k]), [(5,)], [(4,)], "the extent of index k is unknown"),
    ],
)
def test_shapes_have_to_fit_the_description(function: Any, inputs: Any, outputs: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        by_index(function, inputs, outputs)


def test_a_wrong_description_is_caught() -> None:
    x, w = torch.randn(2, 3, 9), torch.randn(4, 3, 3)
    target, args = torch.ops.aten.convolution.default, (x, w, None, [1], [0], [1], False, [0], 1)

    def operator(function: Callable[..., Any], **extents: int) -> DescribedOperator:
        arguments = dict(zip((a.name for a in target._schema.arguments), args, strict=True))
        call = OperatorCall(target, arguments, ("input", "weight"), (x.shape, w.shape), ((2, 4, 7),))
        return DescribedOperator(call, SplitRule(describe(function), extents=extents, keep=["dx"]))

    def right(data: Any, filters: Any) -> Any:
        return lambda b, co, x: Sum(lambda ci, dx: data[b, ci, x + dx] * filters[co, ci, dx])

    def no_halo(data: Any, filters: Any) -> Any:
        return lambda b, co, x: Sum(lambda ci, dx: data[b, ci, x] * filters[co, ci, dx])

    def maximum(data: Any, filters: Any) -> Any:
        return lambda b, co, x: Max(lambda ci, dx: data[b, ci, x + dx] * filters[co, ci, dx])

    assert len(verify(target, args, operator=operator(right), tolerance=1e-5)) == 4
    with pytest.raises(DGLError, match="split by x"):
        verify(target, args, operator=operator(no_halo), tolerance=1e-5)
    with pytest.raises(DGLError, match="split by ci "):
        verify(target, args, operator=operator(maximum), tolerance=1e-5)


def test_parts_that_leave_out_rows_or_differ_are_caught() -> None:
    halves = [torch.ones(2), torch.ones(2)]
    assert combine_parts(halves, [(0, 2), (2, 4)], "concat", (PLAIN,), (4,)).tolist() == [1] * 4
    with pytest.raises(DGLError, match="leave out rows"):
        combine_parts(halves, [(0, 2), (2, 4)], "concat", (PLAIN,), (5,))
    with pytest.raises(DGLError, match="its region"):
        combine_parts(halves, [(0, 1), (1, 4)], "concat", (PLAIN,), (4,))
    with pytest.raises(DGLError, match="different"):
        combine_parts([torch.ones(2), torch.zeros(2)], [(0, 2), (2, 4)], "concat", (None,), (2,))
