"""Check strategies by running an operator as a whole and in parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from ..errors import DGLError
from .aten import operator_of
from .exchange import COMBINE, pick_of, read
from .layout import SliceAxis, slice_of_regions
from .operator import DescribedOperator, bind, flat_outputs
from .parts import part_runner
from .strategy import Combine, Region, Strategy


def cut(tensor: torch.Tensor, region: Region, lo: int, hi: int) -> torch.Tensor:
    """Return what ``region`` leaves of a tensor for the part ``[lo, hi)``, as a view where its rows are a range."""
    rows = slice_of_regions([(region, lo, hi)], tensor.shape, "the tensor")
    return read(tensor, pick_of(rows, tuple((0, n) for n in tensor.shape)))


def cut_arguments(arguments: Mapping[str, Any], strategy: Strategy, lo: int, hi: int) -> dict[str, Any]:
    """Return the arguments of a call with each tensor cut for the part ``[lo, hi)``."""
    regions = iter(strategy.inputs)

    def part_of(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return cut(value, next(regions), lo, hi).clone(memory_format=torch.contiguous_format)
        return [part_of(part) for part in value] if isinstance(value, list | tuple) else value

    return {name: part_of(value) for name, value in arguments.items()}


def combine_parts(
    parts: Sequence[torch.Tensor],
    bounds: Sequence[tuple[int, int]],
    combine: Combine,
    region: Region,
    shape: Sequence[int],
) -> torch.Tensor:
    """Return the whole output from those of the parts ``bounds``.

    Raises ``DGLError``: if a part has another shape than its region, if the parts leave rows out, or if outputs that
    every part makes as a whole differ.
    """
    if combine != "concat":
        result = parts[0]
        for part in parts[1:]:
            result = COMBINE[combine](result, part)
        return result
    if all(span is None for span in region):
        if any(not torch.equal(part, parts[0]) for part in parts[1:]):
            raise DGLError("parts that make the whole output each have made different ones.")
        return parts[0]
    result, covered = parts[0].new_empty(tuple(shape)), torch.zeros(tuple(shape), dtype=torch.int32)
    for part, (lo, hi) in zip(parts, bounds, strict=True):
        place = cut(result, region, lo, hi)
        if place.shape != part.shape:
            raise DGLError(f"the part [{lo}, {hi}) has the shape {tuple(part.shape)}, its region {tuple(place.shape)}.")
        place.copy_(part)
        cut(covered, region, lo, hi).add_(1)
    if not bool((covered == 1).all()):
        raise DGLError("the parts leave out rows of the output, or make some twice.")
    return result


def verify(
    target: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    operator: DescribedOperator | None = None,
    tolerance: float = 1e-8,
) -> tuple[Strategy, ...]:
    """Run each strategy of a call in two and three parts, even and uneven ones, and compare with the whole.

    Raises DGLError if the parts of a strategy do not make the whole: then the description is not that of the operator.

    Parameters
    ----------
    target, args, kwargs
        The call, on tensors with values, best of float64.
    operator : DescribedOperator, optional
        Its description, by default the library's.
    tolerance : float
        How far numbers may differ, relative to the largest of their output.

    Returns
    -------
    tuple of Strategy
        The strategies, all of which are right.
    """
    kwargs = kwargs or {}
    operator = operator or operator_of(target, args, kwargs)
    if operator is None:
        return ()
    copied_args, copied = tree_map_only(torch.Tensor, torch.clone, (tuple(args), dict(kwargs)))
    whole = flat_outputs(target(*copied_args, **copied))
    for strategy in operator.strategies:
        for bounds in _splits(strategy.extent):
            try:
                _compare(operator, bind(target, args, kwargs), strategy, bounds, whole, tolerance)
            except (DGLError, RuntimeError, IndexError, ValueError, TypeError) as error:
                raise DGLError(
                    f"{target}, split by {strategy.index} at {bounds}: {error}\n{strategy}\n"
                    "The description does not fit the operator; correct it, or keep this index from being split."
                ) from error
    return operator.strategies


def _splits(extent: int) -> Iterator[list[tuple[int, int]]]:
    """Yield ways to split ``extent`` rows: in halves, one row and the rest, the rest and one row, and in three."""
    cuts: set[tuple[int, ...]] = {(0, extent // 2, extent), (0, 1, extent), (0, extent - 1, extent)}
    if extent > 2:
        cuts.add((0, extent // 3, extent // 3 + 1, extent))
    for ends in sorted(cuts):
        yield [(lo, hi) for lo, hi in itertools.pairwise(ends) if lo < hi]


def _compare(
    operator: DescribedOperator,
    arguments: dict[str, Any],
    strategy: Strategy,
    bounds: list[tuple[int, int]],
    whole: list[Any],
    tolerance: float,
) -> None:
    parts = []
    for lo, hi in bounds:
        local = cut_arguments(arguments, strategy, lo, hi)
        parts.append(flat_outputs(part_runner(operator, [SliceAxis(strategy, lo, hi)])(local)))
    for number, expected in enumerate(whole):
        if expected is None:
            continue
        output = combine_parts(
            [part[number] for part in parts], bounds, strategy.combine[number], strategy.outputs[number], expected.shape
        )
        _check_equal(output, expected, number, operator.rule.random, tolerance)


def _check_equal(output: torch.Tensor, expected: torch.Tensor, number: int, random: bool, tolerance: float) -> None:
    same, tolerated = output.shape == expected.shape and output.dtype == expected.dtype, 0.0
    if expected.dtype.is_floating_point or expected.dtype.is_complex:
        finite = expected[torch.isfinite(expected)].abs()
        tolerated = tolerance * max(float(finite.max()) if finite.numel() else 1.0, 1.0)
    if not same or not (random or torch.allclose(output, expected, 0, tolerated, equal_nan=True)):
        raise DGLError(
            f"output {number} of the parts differs from that of the whole: {tuple(output.shape)} {output.dtype}, "
            f"expected {tuple(expected.shape)} {expected.dtype}, or in values"
        )
