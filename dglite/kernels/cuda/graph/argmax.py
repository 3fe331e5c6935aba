"""Gather and scatter with a row index for every element, for the gradients of max and min, on a GPU."""

from __future__ import annotations

from functools import cache

from ..run.program import CPP_TYPES, CudaProgram, Runner, blocks_for
from .convert import simple_program, sort_by_key


def gather(
    dtype: str,
    index: str,
    shape: tuple[int, int],
    argmax: int,
    lookup: int,
    x: int,
    out: int,
    runner: Runner,
    fill: int = 0,
) -> None:
    """Set ``out[i, k]`` to ``x[row of argmax[i, k], k]``, to ``fill`` where that is -1."""
    count, width = shape[0] * shape[1], shape[1]
    words = [argmax, lookup, x, out, count, width, float(fill)]
    runner.launch(_program(dtype, index), "gather", (blocks_for(count), 1), words)


def scatter(
    dtype: str,
    index: str,
    shape: tuple[int, int],
    argmax: int,
    lookup: int,
    x: int,
    out: int,
    runner: Runner,
    num_rows: int,
) -> None:
    """Add ``x[i, k]`` to ``out[row of argmax[i, k], k]``, (num_rows, width), except where that is -1."""
    (count, width), program = (shape[0] * shape[1], shape[1]), _program(dtype, index)
    if not count:
        return
    none, places = num_rows * width, runner.empty(8 * count)
    grid = blocks_for(count), 1
    runner.launch(program, "places", grid, [argmax, lookup, places.address, count, width, none])
    places, elements = sort_by_key(runner, "int64", places.address, count, none + 1)
    runner.launch(program, "add", grid, [places.address, elements.address, x, out, count, none])


@cache
def _program(dtype: str, index: str) -> CudaProgram:
    argmax = "const index* argmax, const index* lookup"
    kernels = {
        "gather": f"gather_argmax({argmax}, const item* from, item* out, long long count, long long width, "
        "double fill)",
        "places": f"argmax_places({argmax}, long long* places, long long count, long long width, long long none)",
        "add": "add_runs(const long long* places, const long long* elements, const item* from, item* out, "
        "long long count, long long none)",
    }
    types = f"using item = {CPP_TYPES[dtype]};\nusing index = {CPP_TYPES[index]};\n"
    return simple_program("argmax", ("common", "argmax"), types, kernels)
