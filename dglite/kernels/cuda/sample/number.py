"""Numbering of ids in the order of their first appearance on a GPU, as blocks need it. Nothing here waits."""

from __future__ import annotations

from functools import cache

from ..graph.convert import ITEM, running_sums, simple_program
from ..run.program import CPP_TYPES, CudaProgram, Memory, Runner, blocks_for
from .sample import Ids


class DeviceNumbering:
    """Numbers ids 0, 1, ...: first those that it begins with, in their order, then others as they come up.

    An id that it begins with several times has the last of its numbers.

    Attributes
    ----------
    listed
        the ids by their number, in ``memory``, which has room for ``room`` others.
    """

    def __init__(self, runner: Runner, first: Ids, room: int) -> None:
        self._runner, self._program, self._dtype = runner, _program(first.dtype), first.dtype
        self._size = 1 << (2 * max(first.room + room, 1) - 1).bit_length()
        self._keys, self._values = (runner.empty(8 * self._size) for _ in range(2))
        memory = runner.empty(max(first.room + room, 1) * ITEM[first.dtype])
        self.memory, self.listed = memory, Ids(memory.address, first.room, first.count, first.dtype, memory)
        words = [self._keys.address, self._values.address, self._size]
        runner.launch(self._program, "clear", (blocks_for(self._size), 1), words)
        runner.launch(self._program, "place", (blocks_for(first.room), 1), [*first.words, *words, memory.address])

    def find(self, ids: Ids, bound: int, missing: int) -> Memory:
        """Return the number of each id, all of which are below ``bound``; else the int64 at ``missing`` becomes 1."""
        numbers = self._runner.empty(max(ids.room, 1) * ITEM[self._dtype])
        words = [*ids.words, self._keys.address, self._values.address, self._size, bound, numbers.address, missing]
        self._runner.launch(self._program, "find", (blocks_for(ids.room), 1), words)
        return numbers

    def add(self, ids: Ids, total: int) -> Memory:
        """Return the number of each id; new ones get the next numbers. ``total``: where to write how many have one."""
        runner, program, grid = self._runner, self._program, (blocks_for(ids.room), 1)
        keys, values, listed = self._keys.address, self._values.address, self.listed
        slots, flags = (runner.empty(size * max(ids.room, 1)) for size in (8, 4))
        runner.launch(program, "enter", grid, [*ids.words, keys, values, self._size, slots.address])
        words = [values, slots.address, ids.room, ids.count, flags.address]
        runner.launch(program, "flag", grid, words)
        before = running_sums(runner, "int32", flags.address, ids.room)
        numbers = runner.empty(max(ids.room, 1) * ITEM[self._dtype])
        places = [values, slots.address, before.address, listed.room, listed.count]
        words = [*ids.words, *places, numbers.address, listed.address, total]
        runner.launch(program, "number", (blocks_for(max(ids.room, 1)), 1), words)
        self.listed = Ids(listed.address, listed.room + ids.room, total, self._dtype, self.memory)
        return numbers


@cache
def _program(node: str) -> CudaProgram:
    ids = "const node* ids, long long room, const long long* count, "
    kernels = {
        "clear": "clear_table(word64* keys, long long* values, long long size)",
        "place": f"place_ids({ids}word64* keys, long long* values, long long size, node* listed)",
        "enter": f"enter_ids({ids}word64* keys, long long* values, long long size, long long* slots)",
        "find": f"find_ids({ids}const word64* keys, const long long* values, long long size, long long bound, "
        "node* numbers, long long* missing)",
        "flag": "flag_firsts(const long long* values, const long long* slots, long long room, const long long* count, "
        "int* flags)",
        "number": f"number_ids({ids}long long* values, const long long* slots, const long long* before, "
        "long long listed_room, const long long* num_listed, node* numbers, node* listed, long long* total)",
    }
    return simple_program("number", ("common", "sample"), f"using node = {CPP_TYPES[node]};\n", kernels)
