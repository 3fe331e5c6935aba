"""Neighbour sampling on a GPU: arrays in, arrays out. Nothing here waits unless it says so.

How many rows and entries there are is often known on the device alone: arrays have room for the most possible, and the
numbers stay there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from ..graph.convert import ITEM, running_sums, simple_program
from ..graph.structure import Structure
from ..run.program import CPP_TYPES, CudaProgram, Memory, Runner, blocks_for

__all__ = ["Ids", "Sampled", "sample_neighbors"]

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
class Sampled:
    """Chosen entries: far ends, rows and edge ids; row i's begin at ``offsets[i]``, int64.

    ``room`` is the most there can be; their number is ``offsets[number of rows]``.
    """

    far: Memory
    near: Memory
    edges: Memory
    offsets: Memory
    room: int


def sample_neighbors(
    runner: Runner,
    structure: Structure,
    seeds: Ids,
    fanout: int,
    replace: bool,
    key: int,
    missing: int,
    total: int = 0,
    numbered: bool = False,
) -> Sampled:
    """Choose up to ``fanout`` entries of each of the rows ``seeds`` with equal probability; -1 takes all.

    The choices are those of the CPU's kernel for the same key. Waits for their number where ``fanout`` is -1, or where
    there could be very many.

    Parameters
    ----------
    missing
        address of an int64 that becomes 1 if a seed is no row.
    total
        where the number of entries is to be written, int64; 0 for nowhere.
    numbered
        let ``near`` have the positions of the rows in ``seeds``, not the seeds.
    """
    index, program = structure.index, _program(structure.index, seeds.dtype)
    grid, replaces = (blocks_for(seeds.room), 1), int(replace)
    counts = runner.empty(8 * max(seeds.room, 1))
    words = [structure.indptr.address, structure.num_rows, *seeds.words, fanout, replaces, counts.address, missing]
    runner.launch(program, "counts", grid, words)
    offsets = running_sums(runner, "int64", counts.address, seeds.room)
    room = seeds.room * fanout
    if fanout < 0 or room > MOST_ROOM:
        room = int(runner.download(offsets.address + 8 * seeds.room, 1, "int64")[0])
    far, near, edges = (runner.empty(max(room, 1) * ITEM[dtype]) for dtype in (seeds.dtype, seeds.dtype, index))
    scratch = runner.empty(max(4 * 4 * fanout * seeds.room, 1))
    edge_ids = 0 if structure.edge_ids is None else structure.edge_ids.address
    arrays = [structure.indptr.address, structure.indices.address, edge_ids, seeds.address, seeds.room]
    results = [offsets.address, scratch.address, far.address, near.address, edges.address, total]
    runner.launch(program, "rows", grid, [*arrays, fanout, replaces, key, int(numbered), *results])
    return Sampled(far, near, edges, offsets, room)


@cache
def _program(index: str, node: str) -> CudaProgram:
    types = f"using index = {CPP_TYPES[index]};\nusing node = {CPP_TYPES[node]};\n"
    kernels = {
        "counts": (
            "const index* indptr, long long num_rows, const node* seeds, long long room, const long long* num_seeds, "
            "long long fanout, long long replace, long long* counts, long long* missing",
            "sample_counts(indptr, num_rows, seeds, room, num_seeds, fanout, replace, counts, missing)",
        ),
        "rows": (
            "const index* indptr, const index* indices, const index* edge_ids, const node* seeds, long long room, "
            "long long fanout, long long replace, word64 key, long long numbered, const long long* offsets, "
            "int* scratch, node* far, node* near, index* edges, long long* total",
            "sample_rows(indptr, indices, edge_ids, seeds, room, fanout, replace, key, numbered, offsets, scratch, "
            "far, near, edges, total)",
        ),
    }
    return simple_program("sample", ("common", "sample"), types, kernels)
