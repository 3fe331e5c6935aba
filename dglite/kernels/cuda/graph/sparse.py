"""g-SpMM and g-SDDMM on a GPU: bind an expression to shapes once, then run it on addresses."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from functools import cache, reduce
from operator import or_

from ....expr import Expr
from ....opspec import Reducer
from ...layout import BroadcastLayout, Pattern, broadcast_layout
from ...spec import ITEM_BYTES, compute_dtype
from ..render import MessageSpec, all_operands, sddmm_program, spmm_program
from ..run.program import BLOCK, CudaProgram, Memory, Runner, packed
from .structure import Structure

Shapes = tuple[tuple[int, ...], ...]
Parts = tuple[tuple[Expr, Reducer], ...]
VECTOR_BYTES = 16
"""What one thread loads at once."""
MOST_VECTORS = 4
"""Vectors of accumulators that a lane holds; wider rows are cut, each cut a row of the grid."""
AHEAD, BLOCKS = 6, 4
"""Vectors that a lane has under way at once in rows of at least that many entries, and blocks that fit on a
multiprocessor."""
MOST_COMPARED = 4
"""Values of a vector of which ``AHEAD`` are under way where entries are compared."""
WARP = 32


def widest_vector(dtype: str, run: int, addresses: Sequence[int]) -> int:
    """Return the most values that one load takes from a run of ``run``, starting at any of the addresses."""
    vec = VECTOR_BYTES // ITEM_BYTES[dtype]
    while vec > 1 and (run % vec or any(address % (vec * ITEM_BYTES[dtype]) for address in addresses)):
        vec //= 2
    return vec


def team_of(vectors: int, mean: float) -> tuple[int, int, int]:
    """Return (feature lanes, entry lanes, vectors of a lane) for rows of ``vectors`` vectors and ``mean`` entries.

    Narrow rows leave lanes over: they share the entries where there are at least four for each.
    """
    features = min(WARP, power_of_two(vectors))
    entries = min(WARP // features, 1 << (max(int(mean) // 4, 1).bit_length() - 1))
    return features, entries, min(MOST_VECTORS, -(-vectors // features))


def power_of_two(least: int) -> int:
    """Return the smallest power of two that is no less."""
    return 1 << (least - 1).bit_length()


class _BoundProgram:
    """A kernel bound to an expression, dtypes and shapes. ``layout`` tells the shape of the result."""

    dot, blocks, num_selecting = False, 1, 0

    def __init__(self, exprs: tuple[Expr, ...], dtype: str, index: str, layout: BroadcastLayout) -> None:
        self.exprs, self.dtype, self.index, self.layout = exprs, dtype, index, layout
        self.operands = all_operands(exprs)
        self.grouped = layout.groups != 1
        used = [layout.patterns[operand.slot] for operand in self.operands]
        self.run = math.gcd(layout.inner, layout.repeat) if Pattern.REPEAT in used else layout.inner
        self.tables: dict[Runner, Memory] = {}
        self.aligned = [0] * (max((operand.slot for operand in self.operands), default=0) + 1)

    def specify(self, operands: Sequence[int], out: int, mean: float) -> MessageSpec:
        """Return the specification for operands and a result at these addresses, and rows of ``mean`` entries."""
        wide = [operands[i] for i, pattern in enumerate(self.layout.patterns) if pattern is Pattern.FULL]
        vec = widest_vector(self.dtype, self.run, wide if self.dot else [*wide, out])
        along = self.layout.inner if self.dot else self.layout.width
        features, entries, vectors = team_of(-(-along // vec), mean * (self.layout.groups if self.dot else 1))
        vectors = max(vectors // len(self.exprs), 1)  # reductions share the registers
        return MessageSpec(
            exprs=self.exprs,
            dtype=self.dtype,
            index=self.index,
            patterns=self.layout.patterns,
            grouped=self.grouped,
            vec=vec,
            feature_lanes=features,
            entry_lanes=entries,
            vectors=1 if self.dot else vectors,
            ahead=4 if self.dot else max(self._ahead(mean, vec) // vectors, 1),
            blocks=self.blocks if vectors == 1 else 1,
        )

    def _ahead(self, mean: float, vec: int) -> int:
        """Return how many vectors of ``vec`` values a lane has under way.

        Two of eight values where a maximum is taken: more of these took 79 registers in place of 62, so three blocks
        fitted on a multiprocessor in place of four, and a row's last turn compared more entries that it does not have.
        """
        return 2 if mean < AHEAD or (self.num_selecting and vec > MOST_COMPARED) else AHEAD

    def message_words(self, runner: Runner, before: Sequence[int]) -> tuple[array, list[tuple[int, int]]]:
        """Return the arguments ``before`` and those of the message, and the place of each operand's address.

        The message's are inner, repeat; address (here 0), stride and group table of every operand.
        """
        words, slots = [*before, self.layout.inner, self.layout.repeat or 1], []
        for operand in self.operands:
            slots.append((len(words), operand.slot))
            words += [0, self.layout.strides[operand.slot]]
            if self.grouped:
                if runner not in self.tables:
                    self.tables[runner] = runner.upload(self.layout.tables)
                words.append(self.tables[runner].address + 8 * self.layout.groups * operand.slot)
        return packed(words), slots

    def bound_to(self, structure: Structure, queue: Callable[[], Runner], longest: int = 0) -> Callable[..., None]:
        """Return a function of the addresses of operands, result and argmax that runs this on ``structure``.

        The kernel is that for the alignment of what torch allocates; for addresses inside of such memory another one is
        looked for.
        """
        runner = queue()
        bound = self._bound(structure, runner, self.aligned, 0)

        def run(operands: Sequence[int], out: int, argmax: int = 0) -> None:
            if reduce(or_, operands, out) % VECTOR_BYTES:
                self._bound(structure, runner, operands, out)(operands, out, argmax)
            else:
                bound(operands, out, argmax)

        return run

    def _bound(self, structure: Structure, runner: Runner, operands: Sequence[int], out: int) -> Callable[..., None]:
        """Return a function of addresses, aligned as these are, that starts the kernels on ``structure``."""
        raise NotImplementedError

    def grid(self, spec: MessageSpec, structure: Structure) -> tuple[int, int]:
        """Return the blocks for all teams and cuts of the row."""
        teams = BLOCK // (spec.feature_lanes * spec.entry_lanes)
        cuts = 1 if self.dot else -(-self.layout.width // (spec.vec * spec.feature_lanes * spec.vectors))
        return -(-structure.num_teams // teams), cuts


class CudaSpmmKernel(_BoundProgram):
    """Reduces the messages of every row; ``out`` is (num_rows, width), of several (reductions, num_rows, width)."""

    panels, weights = None, -1
    """Columns are taken together: a GPU's threads share one cache. Weights are read where they lie."""

    def __init__(self, parts: Parts, dtype: str, index: str, layout: BroadcastLayout, argmax: bool) -> None:
        super().__init__(tuple(expr for expr, _ in parts), dtype, index, layout)
        self.reducers, self.argmax = tuple(reducer for _, reducer in parts), argmax
        self.num_selecting = sum(reducer.selects for reducer in self.reducers)
        self.blocks = 1 if self.num_selecting or len(parts) > 1 else BLOCKS  # where no register is spilled for it

    def program(self, operands: Sequence[int], out: int, mean: float) -> tuple[MessageSpec, CudaProgram]:
        """Return the kernels for operands and a result at these addresses, and rows of ``mean`` entries."""
        spec = self.specify(operands, out, mean)
        return spec, _spmm_program(spec, self.reducers, self.argmax)

    def __call__(
        self, structure: Structure, operands: Sequence[int], out: int, runner: Runner, argmax: int = 0
    ) -> None:
        """Run. ``argmax`` (num_rows, width) receives the entry that each element came from, -1 in rows without entries.

        Of several reductions it is (number of max and min reductions, num_rows, width).
        """
        if self.layout.width and structure.num_rows:
            self._bound(structure, runner, operands, out)(operands, out, argmax)

    def _bound(self, structure: Structure, runner: Runner, operands: Sequence[int], out: int) -> Callable[..., None]:
        """Return a function of the addresses of operands, result and argmax: it puts chunks together, too."""
        spec, program = self.program(operands, out, structure.mean)
        width, elements = self.layout.width, structure.num_chunks * self.layout.width
        partial_bytes = elements * len(self.reducers) * ITEM_BYTES[compute_dtype(self.dtype)]
        argmax_bytes = elements * self.num_selecting * 8 if self.argmax else 0
        words, slots = self.message_words(runner, (*structure.words, 0, 0, 0, 0, width))
        first = len(structure.words)
        rows = runner.bind(program, "rows", self.grid(spec, structure), len(words))
        if elements:
            ends = structure.indptr.address, *structure.addresses[2:], structure.num_long
            long_words = packed((*ends, 0, 0, 0, 0, width, structure.num_rows, structure.num_chunks))
            merge = runner.bind(program, "merge", structure.merge_grid(width), len(long_words))

        def start(operands: Sequence[int], out: int, argmax: int = 0) -> None:
            arguments = words[:]
            for place, slot in slots:
                arguments[place] = operands[slot]
            arguments[first], arguments[first + 1] = out, argmax
            if not elements:
                rows(arguments)
                return
            partial = runner.empty(partial_bytes)
            partial_argmax = runner.empty(argmax_bytes) if argmax_bytes else None
            arguments[first + 2] = partial.address
            arguments[first + 3] = 0 if partial_argmax is None else partial_argmax.address
            rows(arguments)
            merged = long_words[:]
            merged[len(ends) : len(ends) + 4] = arguments[first : first + 4]
            merge(merged)

        return start


class CudaSddmmKernel(_BoundProgram):
    """Computes a value for every entry; ``out`` is (num_edges, width), or (num_edges, groups) for a dot product."""

    def __init__(self, expr: Expr, dtype: str, index: str, layout: BroadcastLayout, dot: bool) -> None:
        super().__init__((expr,), dtype, index, layout)
        self.dot = dot

    def program(self, operands: Sequence[int], out: int, mean: float) -> tuple[MessageSpec, CudaProgram]:
        """Return the kernel for operands and a result at these addresses, and rows of ``mean`` entries."""
        spec = self.specify(operands, out, mean)
        return spec, _sddmm_program(spec, self.dot)

    def __call__(self, structure: Structure, operands: Sequence[int], out: int, runner: Runner) -> None:
        """Run."""
        if self.layout.width and structure.num_entries:
            self._bound(structure, runner, operands, out)(operands, out)

    def _bound(self, structure: Structure, runner: Runner, operands: Sequence[int], out: int) -> Callable[..., None]:
        """Return a function of the addresses of operands and result."""
        spec, program = self.program(operands, out, structure.mean)
        words, slots = self.message_words(runner, (*structure.words, 0, self.layout.width))
        place_of_out = len(structure.words)
        rows = runner.bind(program, "rows", self.grid(spec, structure), len(words))

        def start(operands: Sequence[int], out: int, argmax: int = 0) -> None:
            arguments = words[:]
            for place, slot in slots:
                arguments[place] = operands[slot]
            arguments[place_of_out] = out
            rows(arguments)

        return start


@cache
def bind_spmm(
    expr: Expr, reducer: Reducer, dtype: str, index: str, shapes: Shapes, argmax: bool = False
) -> CudaSpmmKernel:
    """Return the kernel for operands with feature ``shapes``."""
    return bind_several(((expr, reducer),), dtype, index, shapes, argmax)


@cache
def bind_several(parts: Parts, dtype: str, index: str, shapes: Shapes, argmax: bool = False) -> CudaSpmmKernel:
    """Return the kernel that makes several reductions of operands with feature ``shapes`` in one pass."""
    return CudaSpmmKernel(parts, dtype, index, broadcast_layout(shapes, 1), argmax)


@cache
def bind_sddmm(expr: Expr, dtype: str, index: str, shapes: Shapes, dot: bool = False) -> CudaSddmmKernel:
    """Return the kernel for operands with feature ``shapes``."""
    return CudaSddmmKernel(expr, dtype, index, broadcast_layout(shapes, 1, dot), dot)


_spmm_program, _sddmm_program = cache(spmm_program), cache(sddmm_program)
