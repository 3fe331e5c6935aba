"""The driver of row kernels: which task computes which rows, and how the parts of long rows are merged.

Work is split by entries, not by rows, so a power-law graph balances: each task takes an equal run of entries, with the
rows that begin in it. Rows of many entries are cut into parts, each of which is of the task that it begins in. Where a
row is cut depends on its length alone (see :mod:`.parts`), and the results of its parts are merged in their order: so a
sum has the same bits for any number of tasks. A task merges the parts of rows that it began; the parts of a row that an
earlier task began lie in its slots of the carry until all tasks are done.

Words of ``args``: see :mod:`...words`. ``KERNEL`` is the kernel's address, ``CARRY`` the carry's where rows are cut,
``MODE`` as :func:`mode_word` returns it, ``PITCH`` the elements from a row of ``out`` to the next. A kernel of several
reductions writes (reductions, num_rows, width) to ``OUT`` and to ``ARGMAX``, for max and min reductions only. A kernel
with an epilogue is called once more for each row that was cut, when its parts are merged.

Words of the carry: see ``LEAST_ENTRIES`` and the following. Then each slot's results, those of all reductions side by
side, then each slot's argmax.
"""

from __future__ import annotations

from ....opspec import Reducer
from ...spec import ITEM_BYTES
from ...words import ARGMAX, CARRY, EDGE_LIST, GROUPS, INDPTR, INNER, KERNEL, MODE, NUM_ENTRIES, NUM_ROWS, OUT
from ..compile.written import Kernel
from ..lanes import simd
from ..lanes.atomic import call_at, put_word
from ..lanes.simd import index_loader, word

DTYPES = tuple(ITEM_BYTES)
ADD, MAXIMUM, MINIMUM = 0, 1, 2
MOST_PARTS = 16
LEAST_ENTRIES, MAX_PARTS, MAX_ENTRIES, NUM_SLOTS, TASK_ROWS, TASK_PARTS = range(6)
"""Words of the carry: the fewest entries of a part, and of a row that is cut; the most parts of a row, unless the most
entries of a part need more; the slots of a task, the last of which is for parts that are merged at once. Then two words
for each task: the row that it carries, and the number of its parts."""


def mode_word(dtype: str, index: str, *reducers: Reducer, epilogue: bool = False) -> int:
    """Return the word ``MODE``: the value dtype, whether ids are 64 bits wide, how many reductions there are (at most
    ``MOST_PARTS``), for each how carried rows are merged, and whether the kernel has an epilogue."""
    assert len(reducers) <= MOST_PARTS
    word = DTYPES.index(dtype) + 4 * (index == "int64") + 8 * len(reducers) + (epilogue << 8 + 2 * MOST_PARTS)
    for part, reducer in enumerate(reducers):
        word += {Reducer.MAX: MAXIMUM, Reducer.MIN: MINIMUM}.get(reducer, ADD) << 8 + 2 * part
    return word


_index32, _index64 = index_loader("int32"), index_loader("int64")
_load_singles, _store_singles = simd.loader("float32", 8), simd.storer("float32", 8)
_load0, _load1, _load2, _load3 = (simd.loader(dtype, 1) for dtype in DTYPES)
_store0, _store1, _store2, _store3 = (simd.storer(dtype, 1) for dtype in DTYPES)
_store_id32, _store_id64 = simd.storer("int32", 1), simd.storer("int64", 1)


@Kernel
def _index(wide: int, address: int, i: int) -> int:
    return _index64(address, i) if wide else _index32(address, i)


@Kernel
def _first_row_from(wide: int, indptr: int, num_rows: int, entry: int) -> int:
    """Return the first row whose entries start at ``entry`` or later."""
    low, high = 0, num_rows
    while low < high:
        middle = (low + high) // 2
        if _index(wide, indptr, middle) < entry:
            low = middle + 1
        else:
            high = middle
    return low


@Kernel
def _load(dtype: int, address: int) -> float:
    if dtype == 0:
        return float(_load0(address))
    if dtype == 1:
        return _load1(address)
    return float(_load2(address)) if dtype == 2 else float(_load3(address))


@Kernel
def _store(dtype: int, address: int, value: float) -> None:
    if dtype == 0:
        _store0(address, value)
    elif dtype == 1:
        _store1(address, value)
    elif dtype == 2:
        _store2(address, value)
    else:
        _store3(address, value)


@Kernel
def _merge_of(mode: int, part: int) -> int:
    return mode >> (8 + 2 * part) & 3


@Kernel
def _num_selecting(mode: int) -> int:
    count = 0
    for part in range(mode // 8 % 32):
        count += _merge_of(mode, part) != ADD
    return count


@Kernel
def _merge_row(mode: int, merge: int, width: int, item: int, ours: int, late: int, ids: int, late_ids: int) -> None:
    """Combine a later part's values of a row with ``ours``; ``ids`` is the address of our argmax, 0 without one."""
    dtype, wide = mode % 4, mode // 4 % 2
    begin = 0
    if merge == ADD and dtype == 0:
        begin = width // 8 * 8
        for k in range(0, begin, 8):
            _store_singles(ours + k * 4, _load_singles(ours + k * 4) + _load_singles(late + k * 4))
    for k in range(begin, width):
        early_value, late_value = _load(dtype, ours + k * item), _load(dtype, late + k * item)
        if merge == ADD:
            _store(dtype, ours + k * item, early_value + late_value)
            continue
        better = late_value > early_value if merge == MAXIMUM else late_value < early_value
        if better or (late_value != late_value and early_value == early_value):
            _store(dtype, ours + k * item, late_value)
            if ids != 0 and wide:
                _store_id64(ids + k * 8, _index64(late_ids, k))
            elif ids != 0:
                _store_id32(ids + k * 4, _index32(late_ids, k))


@Kernel
def _merge_part(args: int, width: int, item: int, row: int, late: int, late_ids: int) -> None:
    """Combine the results of a later part of a row with the results of the parts before it."""
    num_rows, out, argmax, mode = word(args, NUM_ROWS), word(args, OUT), word(args, ARGMAX), word(args, MODE)
    row_bytes, id_bytes = width * item, width * (8 if mode // 4 % 2 else 4)
    selecting = 0
    for part in range(mode // 8 % 32):
        merge = _merge_of(mode, part)
        ids = argmax + (selecting * num_rows + row) * id_bytes if argmax != 0 else 0
        ours = out + (part * num_rows + row) * row_bytes
        _merge_row(mode, merge, width, item, ours, late + part * row_bytes, ids, late_ids + selecting * id_bytes)
        selecting += merge != ADD


@Kernel
def _finish(args: int, width: int, item: int, row: int) -> None:
    """Apply the kernel's epilogue to a row that was cut: it is called without entries, ``first`` being -1."""
    if word(args, MODE) >> (8 + 2 * MOST_PARTS) & 1:
        call_at(word(args, KERNEL), args, row, row + 1, -1, -1, word(args, OUT) + row * width * item, 0)


@Kernel
def _slot(args: int, num_tasks: int, width: int, item: int, task: int, i: int) -> int:
    """Return the address of the results in a task's slot ``i``."""
    carry, row_bytes = word(args, CARRY), word(args, MODE) // 8 % 32 * width * item
    return carry + 8 * (TASK_ROWS + 2 * num_tasks) + (task * word(carry, NUM_SLOTS) + i) * row_bytes


@Kernel
def _slot_ids(args: int, num_tasks: int, width: int, item: int, task: int, i: int) -> int:
    """Return the address of the argmax in a task's slot ``i``, which lie behind the results of all slots."""
    carry, mode = word(args, CARRY), word(args, MODE)
    id_bytes = _num_selecting(mode) * width * (8 if mode // 4 % 2 else 4)
    behind = _slot(args, num_tasks, width, item, num_tasks, 0)
    return behind + (task * word(carry, NUM_SLOTS) + i) * id_bytes


@Kernel
def _merge(args: int, num_tasks: int, width: int, item: int) -> None:
    """Combine the parts of rows that later tasks have with those that earlier tasks have, in the order of the parts."""
    carry, last_row = word(args, CARRY), -1
    for task in range(1, num_tasks):
        row, count = word(carry, TASK_ROWS + 2 * task), word(carry, TASK_PARTS + 2 * task)
        if last_row >= 0 and count > 0 and row != last_row:
            _finish(args, width, item, last_row)
        for i in range(count):
            late = _slot(args, num_tasks, width, item, task, i)
            late_ids = _slot_ids(args, num_tasks, width, item, task, i)
            _merge_part(args, width, item, row, late, late_ids)
            last_row = row
    if last_row >= 0:
        _finish(args, width, item, last_row)


@Kernel
def _part_of(carry: int, count: int) -> int:
    """Return how many entries a part of a row of ``count`` entries has; the last one may have fewer."""
    most = word(carry, MAX_PARTS)
    return min(max((count + most - 1) // most, word(carry, LEAST_ENTRIES)), word(carry, MAX_ENTRIES))


@Kernel
def _next_long(wide: int, indptr: int, row: int, stop: int, least: int) -> int:
    """Return the first row from ``row`` on that has more than ``least`` entries, or ``stop``.

    Rows that have no more together are passed in one step: looking takes no longer for more rows, only for more
    entries.
    """
    step = 1
    while row < stop:
        after = min(row + step, stop)
        if _index(wide, indptr, after) - _index(wide, indptr, row) <= least:
            row, step = after, 2 * step
        elif after == row + 1:
            return row
        else:
            step = max(step // 4, 1)
    return stop


@Kernel
def _carried(args: int, task: int, num_tasks: int, width: int, item: int, row: int, begin: int, end: int) -> None:
    """Compute the parts from ``begin`` to ``end`` of a row that an earlier task began, each into a slot."""
    indptr, carry, wide = word(args, INDPTR), word(args, CARRY), word(args, MODE) // 4 % 2
    start, last, count = _index(wide, indptr, row), _index(wide, indptr, row + 1), 0
    if last - start > word(carry, LEAST_ENTRIES):
        part = _part_of(carry, last - start)
        first = start + (begin - start + part - 1) // part * part
        while first < min(end, last):
            late = _slot(args, num_tasks, width, item, task, count)
            late_ids = _slot_ids(args, num_tasks, width, item, task, count)
            call_at(word(args, KERNEL), args, row, row + 1, first, min(first + part, last), late, late_ids)
            first, count = first + part, count + 1
    put_word(carry, TASK_ROWS + 2 * task, row)
    put_word(carry, TASK_PARTS + 2 * task, count)


@Kernel
def _cut_row(args: int, task: int, num_tasks: int, width: int, item: int, row: int, end: int) -> None:
    """Compute the parts before ``end`` of a long row; the sum of each is added to those before it."""
    indptr, out, argmax, kernel = word(args, INDPTR), word(args, OUT), word(args, ARGMAX), word(args, KERNEL)
    carry, wide = word(args, CARRY), word(args, MODE) // 4 % 2
    first, last = _index(wide, indptr, row), _index(wide, indptr, row + 1)
    part = _part_of(carry, last - first)
    ids = argmax + row * width * (8 if wide else 4)
    call_at(kernel, args, row, row + 1, first, first + part, out + row * width * item, ids)
    late = _slot(args, num_tasks, width, item, task, word(carry, NUM_SLOTS) - 1)
    late_ids = _slot_ids(args, num_tasks, width, item, task, word(carry, NUM_SLOTS) - 1)
    first += part
    while first < min(end, last):
        call_at(kernel, args, row, row + 1, first, min(first + part, last), late, late_ids)
        _merge_part(args, width, item, row, late, late_ids)
        first += part
    if first >= last:
        _finish(args, width, item, row)


@Kernel
def _first_row(args: int, task: int, num_tasks: int) -> int:
    """Return the first row of a task, or the number of rows for the task behind the last one."""
    num_rows = word(args, NUM_ROWS)
    if task == 0 or task == num_tasks:
        return 0 if task == 0 else num_rows
    wide, entry = word(args, MODE) // 4 % 2, word(args, NUM_ENTRIES) * task // num_tasks
    return _first_row_from(wide, word(args, INDPTR), num_rows, entry)


@Kernel
def _item_bytes(mode: int) -> int:
    return 4 if mode % 4 == 0 else (8 if mode % 4 == 1 else 2)


@Kernel
def rows_driver(args: int, task: int, num_tasks: int) -> None:
    """Drive a kernel that writes one row of ``out`` per row, of several reductions one row of each; no row is cut."""
    if task < 0:
        return
    mode, width = word(args, MODE), word(args, INNER) * word(args, GROUPS)
    row, stop = _first_row(args, task, num_tasks), _first_row(args, task + 1, num_tasks)
    if row < stop:
        out = word(args, OUT) + row * width * _item_bytes(mode)
        argmax = word(args, ARGMAX) + row * width * (8 if mode // 4 % 2 else 4)
        call_at(word(args, KERNEL), args, row, stop, 0, word(args, NUM_ENTRIES), out, argmax)


@Kernel
def cut_rows_driver(args: int, task: int, num_tasks: int) -> None:
    """Drive a kernel as :func:`rows_driver` does, with long rows cut. It is ten times as long to compile."""
    indptr, num_entries, mode = word(args, INDPTR), word(args, NUM_ENTRIES), word(args, MODE)
    kernel, out, argmax, carry = word(args, KERNEL), word(args, OUT), word(args, ARGMAX), word(args, CARRY)
    width, item, wide = word(args, INNER) * word(args, GROUPS), _item_bytes(mode), mode // 4 % 2
    id_bytes = 8 if wide else 4
    if task < 0:
        _merge(args, num_tasks, width, item)
        return
    begin, end = num_entries * task // num_tasks, num_entries * (task + 1) // num_tasks
    row, stop = _first_row(args, task, num_tasks), _first_row(args, task + 1, num_tasks)
    if task > 0:
        put_word(carry, TASK_PARTS + 2 * task, 0)
        if begin < end and _index(wide, indptr, row) > begin:
            _carried(args, task, num_tasks, width, item, row - 1, begin, end)
    while row < stop:
        long = _next_long(wide, indptr, row, stop, word(carry, LEAST_ENTRIES))
        if row < long:
            ids = argmax + row * width * id_bytes
            call_at(kernel, args, row, long, 0, num_entries, out + row * width * item, ids)
        if long < stop:
            _cut_row(args, task, num_tasks, width, item, long, end)
        row = long + 1


@Kernel
def map_driver(args: int, task: int, num_tasks: int) -> None:
    """Drive a kernel that writes one row of ``out`` per entry, of sorted rows or, itself, of edges in their order."""
    indptr, num_rows, num_entries = word(args, INDPTR), word(args, NUM_ROWS), word(args, NUM_ENTRIES)
    kernel, wide = word(args, KERNEL), word(args, MODE) // 4 % 2
    begin, end = num_entries * task // num_tasks, num_entries * (task + 1) // num_tasks
    if task < 0 or begin == end:
        return
    if num_rows == EDGE_LIST:
        call_at(kernel, args, 0, begin, end, word(args, OUT), 0)
        return
    row = _first_row_from(wide, indptr, num_rows, begin)
    if _index(wide, indptr, row) > begin:
        row -= 1
    while row < num_rows and _index(wide, indptr, row) < end:
        first, last = max(_index(wide, indptr, row), begin), min(_index(wide, indptr, row + 1), end)
        if first < last:
            call_at(kernel, args, row, first, last, word(args, OUT), 0)
        row += 1


@Kernel
def whole_row_driver(args: int, task: int, num_tasks: int) -> None:
    """Drive a kernel that needs all entries of a row at once; rows are dealt out by their entries but never cut."""
    indptr, kernel, wide = word(args, INDPTR), word(args, KERNEL), word(args, MODE) // 4 % 2
    if task < 0:
        return
    row, stop = _first_row(args, task, num_tasks), _first_row(args, task + 1, num_tasks)
    while row < stop:
        first, last = _index(wide, indptr, row), _index(wide, indptr, row + 1)
        if first < last:
            call_at(kernel, args, row, first, last, word(args, OUT), 0)
        row += 1
