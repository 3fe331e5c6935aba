"""COO to CSR or CSC on a GPU, prefix sums, and stable sorting by bounded keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from ..run.program import BLOCK, CPP_TYPES, CudaProgram, Memory, Runner, blocks_for, make_program

TILE, DIGIT_BITS = 8 * BLOCK, 8
ITEM = {"int32": 4, "int64": 8}


@dataclass
class DeviceRows:
    """Rows of entries on a device."""

    indptr: Memory
    indices: Memory
    edge_ids: Memory


def compress(runner: Runner, index: str, rows: int, cols: int, num_rows: int, num_edges: int) -> DeviceRows:
    """Sort the edges at addresses ``rows`` and ``cols`` by row, stably: entries inside a row keep edge-id order."""
    item, program = ITEM[index], _program(index)
    sorted_rows, edge_ids = sort_by_key(runner, index, rows, num_edges, num_rows)
    indptr, indices = runner.empty((num_rows + 1) * item), runner.empty(max(num_edges, 1) * item)
    words = [sorted_rows.address, indptr.address, num_edges, num_rows]
    runner.launch(program, "starts", (blocks_for(num_rows + 1), 1), words)
    words = [cols, edge_ids.address, indices.address, num_edges]
    runner.launch(program, "pick", (blocks_for(num_edges), 1), words)
    return DeviceRows(indptr, indices, edge_ids)


def cut_rows(
    runner: Runner, index: str, indptr: int, num_rows: int, limit: int, num_long: int, num_chunks: int
) -> Memory:
    """List the chunks of rows longer than ``limit``, for which there is room: rows of chunks that there are not are -1.

    Returns the row and the first entry of each chunk, the long rows, and the first chunk of each and their end.
    """
    item, program, grid = ITEM[index], _program(index), (blocks_for(num_rows), 1)
    is_long, chunks = (runner.empty(4 * num_rows) for _ in range(2))
    runner.launch(program, "chunks", grid, [indptr, num_rows, limit, is_long.address, chunks.address])
    before = [running_sums(runner, "int32", flags.address, num_rows) for flags in (is_long, chunks)]
    cuts = runner.empty(item * (2 * num_chunks + 2 * num_long + 1))
    firsts, rows = cuts.address + item * num_chunks, cuts.address + 2 * item * num_chunks
    room = [cuts.address, firsts, num_chunks, rows, rows + item * num_long, num_long]
    grid = blocks_for(max(num_rows, num_chunks, num_long + 1)), 1
    runner.launch(program, "cut", grid, [indptr, num_rows, limit, *(x.address for x in before), *room])
    return cuts


def sort_by_key(runner: Runner, index: str, keys: int, count: int, bound: int) -> tuple[Memory, Memory]:
    """Return the keys at address ``keys``, which are from 0 up to ``bound``, in stable order, and where each was."""
    size, blocks, program = max(count, 1) * ITEM[index], -(-count // TILE), _program(index)
    passes = max(-(-max(bound - 1, 1).bit_length() // DIGIT_BITS), 1)
    buffers = [(runner.empty(size), runner.empty(size)) for _ in range(min(passes, 2))]
    counts, totals = runner.empty(8 * max(blocks, 1) << DIGIT_BITS), runner.empty(8 << DIGIT_BITS)
    source, values = keys, 0
    for step in range(passes):
        to_keys, to_values = buffers[step % 2]
        shift = step * DIGIT_BITS
        runner.launch(program, "count", (blocks, 1), [source, counts.address, count, shift])
        runner.launch(program, "scan", (min(blocks, 1) << DIGIT_BITS, 1), [counts.address, totals.address, blocks])
        words = [source, values, to_keys.address, to_values.address, counts.address, totals.address, count, shift]
        runner.launch(program, "deal", (blocks, 1), words)
        source, values = to_keys.address, to_values.address
    return buffers[(passes - 1) % 2]


def running_sums(runner: Runner, dtype: str, values: int, count: int) -> Memory:
    """Return the sum of all values before each and, at the end, of all: ``count + 1`` numbers, int64."""
    sums, program = runner.empty(8 * (count + 1)), _scan_program(dtype)
    blocks = max(-(-count // TILE), 1)
    totals = runner.empty(8 * blocks)
    runner.launch(program, "tiles", (blocks, 1), [values, sums.address, totals.address, count])
    if blocks > 1:
        starts = running_sums(runner, "int64", totals.address, blocks)
        runner.launch(program, "add", (blocks, 1), [sums.address, starts.address, count])
        totals, last = starts, blocks
    else:
        last = 0
    runner.launch(program, "end", (1, 1), [sums.address + 8 * count, totals.address + 8 * last])
    return sums


@cache
def _program(index: str) -> CudaProgram:
    kernels = {
        "count": "count_digits(const index* rows, long long* counts, long long count, int(long long shift))",
        "scan": "scan_digit(long long* counts, long long* totals, long long blocks)",
        "deal": "deal(const index* rows, const index* values, index* rows_out, index* values_out, "
        "const long long* starts, const long long* totals, long long count, int(long long shift))",
        "starts": "row_starts(const index* rows, index* indptr, long long count, long long num_rows)",
        "chunks": "count_chunks(const index* indptr, long long num_rows, long long limit, int* is_long, int* chunks)",
        "cut": "cut_rows(const index* indptr, long long num_rows, long long limit, const long long* long_before, "
        "const long long* chunks_before, index* chunk_rows, index* chunk_firsts, long long chunk_room, "
        "index* long_rows, index* long_chunks, long long long_room)",
        "pick": "pick(const index* from, const index* places, index* out, long long count)",
    }
    return simple_program("convert", ("common", "scan", "convert"), f"using index = {CPP_TYPES[index]};\n", kernels)


@cache
def _scan_program(dtype: str) -> CudaProgram:
    kernels = {
        "tiles": "scan_tiles(const value* in, long long* out, long long* totals, long long count)",
        "add": "scan_add(long long* out, const long long* starts, long long count)",
        "end": "if (threadIdx.x == 0) *(long long* out) = *(const long long* total)",
    }
    return simple_program("scan", ("common", "scan"), f"using value = {CPP_TYPES[dtype]};\n", kernels)


_PARAMETER = re.compile(r"(?:const )?(?:(?:unsigned )?long long|\w+)\*? (\w+)")


def simple_program(kind: str, parts: tuple[str, ...], types: str, kernels: dict[str, str]) -> CudaProgram:
    """Return the program of kernels of one statement each, in which every parameter has its type before its name."""
    text = "\nnamespace dg { namespace NAME {\n" + types
    for name, statement in kernels.items():
        parameters, call = ", ".join(x[0] for x in _PARAMETER.finditer(statement)), _PARAMETER.sub(r"\1", statement)
        text += f'extern "C" __global__ void __launch_bounds__(BLOCK) NAME_{name}({parameters}) {{ {call}; }}\n'
    return make_program(kind, parts, text + "} }\n", tuple(kernels))
