"""Neighbour sampling and the renumbering of ``to_block`` on a GPU: arrays in, arrays out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..graph.convert import ITEM, running_sums, simple_program
from ..graph.structure import Structure
from ..run.program import CPP_TYPES, CudaProgram, Memory, Runner, blocks_for

__all__ = ["Numbered", "Sampled", "number_ids", "sample_neighbors"]


@dataclass
class Sampled:
    """Chosen entries: far ends, rows and edge ids, ``count`` of each; row i's begin at ``offsets[i]``, int64."""

    far: Memory
    near: Memory
    edges: Memory
    offsets: Memory
    count: int


@dataclass
class Numbered:
    """The number of each id, and the ids by their number: ``count`` distinct ones."""

    numbers: Memory
    distinct: Memory
    count: int


def sample_neighbors(
    runner: Runner, structure: Structure, seeds: int, num_seeds: int, fanout: int, replace: bool, key: int
) -> Sampled:
    """Choose up to ``fanout`` entries of each of the rows ``seeds`` with equal probability; -1 takes all.

    The choices are those of the CPU's kernel for the same key. Waits for the number of entries chosen.
    """
    index, program = structure.index, _program(structure.index)
    grid = blocks_for(num_seeds), 1
    counts = runner.empty(8 * max(num_seeds, 1))
    words = [structure.indptr.address, seeds, num_seeds, fanout, int(replace)]
    runner.launch(program, "counts", grid, [*words, counts.address])
    offsets = running_sums(runner, "int64", counts.address, num_seeds)
    total = int(runner.download(offsets.address + 8 * num_seeds, 1, "int64")[0])
    far, near, edges = (runner.empty(max(total, 1) * ITEM[index]) for _ in range(3))
    scratch = runner.empty(max(4 * 4 * fanout * num_seeds, 1))
    edge_ids = 0 if structure.edge_ids is None else structure.edge_ids.address
    arrays = [structure.indptr.address, structure.indices.address, edge_ids, seeds, num_seeds, fanout, int(replace)]
    results = [offsets.address, counts.address, scratch.address, far.address, near.address, edges.address]
    runner.launch(program, "rows", grid, [*arrays, key, *results])
    return Sampled(far, near, edges, offsets, total)


def number_ids(runner: Runner, index: str, ids: int, count: int) -> Numbered:
    """Number ids 0, 1, ... in the order of their first appearance. Waits for how many there are."""
    program, grid = _program(index), (blocks_for(count), 1)
    size = 1 << (2 * max(count, 1) - 1).bit_length()
    keys, firsts, slots = (runner.empty(8 * max(length, 1)) for length in (size, size, count))
    flags = runner.empty(4 * max(count, 1))
    runner.launch(program, "clear", (blocks_for(size), 1), [keys.address, firsts.address, size])
    runner.launch(program, "enter", grid, [ids, count, keys.address, firsts.address, size, slots.address])
    runner.launch(program, "flag", grid, [firsts.address, slots.address, count, flags.address])
    before = running_sums(runner, "int32", flags.address, count)
    total = int(runner.download(before.address + 8 * count, 1, "int64")[0])
    numbers, distinct = (runner.empty(max(length, 1) * ITEM[index]) for length in (count, total))
    words = [ids, firsts.address, slots.address, before.address, count, numbers.address, distinct.address]
    runner.launch(program, "number", grid, words)
    return Numbered(numbers, distinct, total)


@cache
def _program(index: str) -> CudaProgram:
    kernels = {
        "counts": (
            "const index* indptr, const index* seeds, long long num_seeds, long long fanout, long long replace, "
            "long long* counts",
            "sample_counts(indptr, seeds, num_seeds, fanout, replace, counts)",
        ),
        "rows": (
            "const index* indptr, const index* indices, const index* edge_ids, const index* seeds, "
            "long long num_seeds, long long fanout, long long replace, word64 key, const long long* offsets, "
            "const long long* counts, int* scratch, index* far, index* near, index* edges",
            "sample_rows(indptr, indices, edge_ids, seeds, num_seeds, fanout, replace, key, offsets, counts, scratch, "
            "far, near, edges)",
        ),
        "clear": ("word64* keys, long long* firsts, long long size", "clear_table(keys, firsts, size)"),
        "enter": (
            "const index* ids, long long count, word64* keys, long long* firsts, long long size, long long* slots",
            "enter_ids(ids, count, keys, firsts, size, slots)",
        ),
        "flag": (
            "const long long* firsts, const long long* slots, long long count, int* flags",
            "flag_firsts(firsts, slots, count, flags)",
        ),
        "number": (
            "const index* ids, const long long* firsts, const long long* slots, const long long* before, "
            "long long count, index* numbers, index* distinct",
            "number_ids(ids, firsts, slots, before, count, numbers, distinct)",
        ),
    }
    return simple_program("sample", ("common", "sample"), f"using index = {CPP_TYPES[index]};\n", kernels)
