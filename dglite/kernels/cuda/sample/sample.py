"""Neighbour sampling on a GPU: arrays in, arrays out. Nothing here waits unless it says so.

How many rows and entries there are is often known on the device alone: arrays have room for the most possible, and the
numbers stay there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..graph.convert import ITEM, running_sums, simple_program
from ..graph.sparse import WARP
from ..graph.structure import Structure
from ..run.program import CPP_TYPES, CudaProgram, Memory, Runner, blocks_for

TIMES = (
    "const long long* times, const long long* levels, long long kinds, const long long* versioned, long long versions, "
)
"""Parameters of kernels that read times."""
MOST_ROOM = 1 << 22
"""Entries up to which there is room for as many as can be chosen; beyond, their number is read first."""


@dataclass(frozen=True)
class Ids:
    """Ids at an address, of ``dtype``: as many as the int64 at the address ``count`` says, or, if that is 0, ``room``,
    which is the most there can be. ``memory`` is kept as long as they are used."""

    address: int
    room: int
    count: int = 0
    dtype: str = "int64"
    memory: Any = None

    @property
    def words(self) -> tuple[int, int, int]:
        """The words of the address, the room and the count."""
        return self.address, self.room, self.count


@dataclass(frozen=True)
class Counters:
    """Addresses of int64 numbers that kernels write.

    Attributes
    ----------
    missing
        becomes 1 if a seed is no row.
    total
        becomes the number of entries chosen; 0: not wanted.
    wrong
        becomes 1 + the id of an edge whose weight cannot be used.
    numbered
        let ``near`` have the positions of the rows in the seeds, not the seeds.
    """

    missing: int
    total: int = 0
    wrong: int = 0
    numbered: bool = False


@dataclass(frozen=True)
class Sampled:
    """Chosen entries: far ends, rows and edge ids; row i's begin at ``offsets[i]``, int64.

    ``room`` is the most there can be; their number is ``offsets[number of rows]``. ``weights``: float32, what their
    messages are multiplied by; None: 1.
    """

    far: Memory
    near: Memory
    edges: Memory
    offsets: Memory
    room: int
    weights: Memory | None = None


@dataclass(frozen=True)
class DeviceWeights:
    """Addresses of float64 weights by edge id and what :func:`sum_weights` makes of them, 0 where all are 1; and of the
    ascending int64 ids of edges that are excluded, and how many."""

    values: int = 0
    sums: int = 0
    excluded: int = 0
    num_excluded: int = 0


@dataclass(frozen=True)
class DeviceTimes:
    """Addresses of int64 or float64 times by edge id and by version, ``kinds`` has bit 0 and bit 1 where they are
    float64; and of the rows as nodes at times, node * versions + version, int64."""

    values: int
    levels: int
    kinds: int
    versioned: int
    versions: int

    @property
    def words(self) -> tuple[int, ...]:
        """The words of all."""
        return self.values, self.levels, self.kinds, self.versioned, self.versions


NO_TIMES = DeviceTimes(0, 0, 0, 0, 1)


def sample_neighbors(
    runner: Runner, structure: Structure, seeds: Ids, fanout: int, replace: bool, key: int, counters: Counters
) -> Sampled:
    """Choose up to ``fanout`` entries of each of the rows ``seeds`` with equal probability; -1 takes all.

    The choices are those of the CPU's kernel for the same key. Waits for their number where ``fanout`` is -1, or where
    there could be very many.
    """
    counts = count_entries(runner, structure, seeds, fanout, replace, counters)
    if fanout < 0:
        words = [structure.indptr.address, *seeds.words[:2]]
        return listed_entries(runner, structure, seeds, counts, counters, "all", words, [], -1)
    scratch = runner.empty(max(4 * 4 * fanout * seeds.room, 1))
    words = [structure.indptr.address, *seeds.words[:2], fanout, int(replace), key]
    return listed_entries(
        runner, structure, seeds, counts, counters, "rows", words, [scratch.address], seeds.room * fanout
    )


def sample_by_weight(
    runner: Runner,
    structure: Structure,
    seeds: Ids,
    fanout: int,
    replace: bool,
    key: int,
    counters: Counters,
    weights: DeviceWeights,
    another: int | None = None,
    times: DeviceTimes = NO_TIMES,
) -> Sampled:
    """Choose up to ``fanout`` entries of each row in proportion to weights; -1 takes all whose weight is not 0.

    The choices are those of the CPU's kernels for the same key. With ``another`` key they are uniform, by
    :func:`sample_neighbors`, and uniform once more by that key in the rows of which an excluded edge was chosen. Edges
    that are later than their row's time have weight 0. Waits as :func:`sample_neighbors` does.
    """
    program, grid = _program(structure.index, seeds.dtype), (blocks_for(seeds.room), 1)
    degrees, firsts, room = count_entries(runner, structure, seeds, -1, False, counters), None, seeds.room * fanout
    if fanout < 0:
        firsts = running_sums(runner, "int64", degrees.address, seeds.room)
        room = read_sum(runner, firsts, seeds.room)
    at = 0 if firsts is None else firsts.address
    counts, positions = runner.empty(8 * max(seeds.room, 1)), runner.empty(4 * max(room, 1))
    edge_ids = 0 if structure.edge_ids is None else structure.edge_ids.address
    words = [structure.indptr.address, edge_ids, *seeds.words[:2], degrees.address, fanout, int(replace), key]
    excluded = [weights.excluded, weights.num_excluded, at]
    results = [positions.address, counts.address]
    if another is None:
        scratch = runner.empty(max(8 * fanout * seeds.room, 1))
        words += [weights.values, weights.sums, *excluded, *times.words, scratch.address, *results, counters.wrong]
        runner.launch(program, "weigh", grid, words)
    else:
        scratch = runner.empty(max(4 * 4 * fanout * seeds.room, 1))
        runner.launch(program, "allow", grid, [*words, another, *excluded, scratch.address, *results])
    words = [structure.indptr.address, *seeds.words[:2], fanout, at, positions.address]
    return listed_entries(runner, structure, seeds, counts, counters, "list", words, [], room)


def sample_alike(
    runner: Runner, structure: Structure, seeds: Ids, fanout: int, key: int, counters: Counters
) -> Sampled:
    """Choose about ``fanout`` entries of each row, one random number for each far end (LABOR); -1 takes all.

    The choices are those of the CPU's kernel for the same key. Waits for their number.
    """
    program, grid = _program(structure.index, seeds.dtype), (blocks_for(WARP * seeds.room), 1)
    degrees, counts = count_entries(runner, structure, seeds, -1, False, counters), runner.empty(8 * max(seeds.room, 1))
    words = [structure.indptr.address, structure.indices.address, *seeds.words[:2], degrees.address, fanout, key]
    runner.launch(program, "mark", grid, [*words, counts.address])
    return listed_entries(runner, structure, seeds, counts, counters, "take", words, [], -1)


def sum_weights(runner: Runner, structure: Structure, values: int) -> Memory:
    """Return the running sums of each row's weights, float64 by edge id at address ``values``, by entry."""
    sums, edge_ids = runner.empty(8 * max(structure.num_entries, 1)), structure.edge_ids
    words = [structure.indptr.address, 0 if edge_ids is None else edge_ids.address, structure.num_rows]
    program, grid = _program(structure.index, structure.index), (blocks_for(structure.num_rows), 1)
    runner.launch(program, "sum", grid, [*words, values, sums.address])
    return sums


def count_entries(
    runner: Runner, structure: Structure, seeds: Ids, fanout: int, replace: bool, counters: Counters
) -> Memory:
    """Return how many entries each row gives, 0 for what is no row."""
    program, counts = _program(structure.index, seeds.dtype), runner.empty(8 * max(seeds.room, 1))
    words = [structure.indptr.address, structure.num_rows, *seeds.words, fanout, int(replace)]
    runner.launch(program, "counts", (blocks_for(seeds.room), 1), [*words, counts.address, counters.missing])
    return counts


def read_sum(runner: Runner, sums: Memory, count: int) -> int:
    """Return the sum of ``count`` values, when it is there."""
    return int(runner.download(sums.address + 8 * count, 1, "int64")[0])


def listed_entries(
    runner: Runner,
    structure: Structure,
    seeds: Ids,
    counts: Memory,
    counters: Counters,
    kernel: str,
    words: Sequence[int],
    more: Sequence[int],
    room: int,
) -> Sampled:
    """Return the entries that ``kernel`` lists, ``counts`` of each row; ``room``: the most, or -1."""
    offsets, index = running_sums(runner, "int64", counts.address, seeds.room), structure.index
    if not 0 <= room <= MOST_ROOM:
        room = read_sum(runner, offsets, seeds.room)
    far, near, edges = (runner.empty(max(room, 1) * ITEM[dtype]) for dtype in (seeds.dtype, seeds.dtype, index))
    edge_ids = 0 if structure.edge_ids is None else structure.edge_ids.address
    out = [structure.indices.address, edge_ids, int(counters.numbered), far.address, near.address, edges.address]
    threads = {"all": room, "take": WARP * seeds.room}.get(kernel, seeds.room)
    more, grid = [room] if kernel == "all" else more, (max(blocks_for(threads), 1), 1)
    words = [*words, offsets.address, *more, *out, counters.total]
    runner.launch(_program(index, seeds.dtype), kernel, grid, words)
    return Sampled(far, near, edges, offsets, room)


_ROWS = "const index* indptr, const node* seeds, long long room, "
_WEIGHED = "const index* indptr, const index* edge_ids, const node* seeds, long long room, const long long* degrees, "
_DRAWS = "long long fanout, long long replace, word64 key, "
_EXCLUDED = "const long long* excluded, long long num_excluded, const long long* firsts, "
_MARKED = "const index* indptr, const index* indices, const node* seeds, long long room, const long long* degrees, "
_MARKED += "long long fanout, word64 key, "
_LISTED = (
    "Listed<index, node>{const index* to_indices, const index* to_edge_ids, long long numbered, node* far, node* near, "
    "index* edges}, long long* total)"
)
_KERNELS = {
    "counts": "sample_counts(const index* indptr, long long num_rows, const node* seeds, long long room, "
    "const long long* num_seeds, long long fanout, long long replace, long long* counts, long long* missing)",
    "rows": f"sample_rows({_ROWS}{_DRAWS}const long long* offsets, int* scratch, {_LISTED}",
    "all": f"list_all({_ROWS}const long long* offsets, long long entries, {_LISTED}",
    "list": f"list_rows({_ROWS}long long fanout, const long long* firsts, const int* positions, "
    f"const long long* offsets, {_LISTED}",
    "weigh": f"weigh_rows({_WEIGHED}{_DRAWS}const double* values, const double* sums, {_EXCLUDED}{TIMES}double* keys, "
    "int* positions, long long* counts, long long* wrong)",
    "allow": f"allow_rows({_WEIGHED}{_DRAWS}word64 another, {_EXCLUDED}int* scratch, int* positions, "
    "long long* counts)",
    "mark": f"labor_rows<index, node, false>({_MARKED}long long* counts, nullptr, {{}}, nullptr)",
    "take": f"labor_rows<index, node, true>({_MARKED}nullptr, const long long* offsets, {_LISTED}",
    "sum": "sum_rows(const index* indptr, const index* edge_ids, long long num_rows, const double* values, "
    "double* sums)",
}
"""By kernel, the call that it makes."""


@cache
def _program(index: str, node: str) -> CudaProgram:
    types = f"using index = {CPP_TYPES[index]};\nusing node = {CPP_TYPES[node]};\n"
    return simple_program("sample", ("common", "sample", "weigh"), types, _KERNELS)
