"""LABOR with weights, importances, excluded edges or mixed random numbers on a GPU: arrays in, arrays out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from ..graph.convert import ITEM, running_sums, simple_program
from ..graph.structure import Structure
from ..run.program import CPP_TYPES, CudaProgram, Memory, Runner, blocks_for
from .number import DeviceNumbering
from .sample import MOST_ROOM, Counters, DeviceWeights, Ids, Sampled, sample_neighbors


@dataclass(frozen=True)
class Variates:
    """What the random numbers of the far ends are made of: two keys, and the weight of each key's normal variate."""

    key: int
    second: int
    share: float
    other: float


@dataclass(frozen=True)
class Importances:
    """How many rounds optimise the importances, none for 0, and the relative fall of the expected number of vertices
    below which they end, which the host reads after each round; 0: make all rounds, and read nothing."""

    rounds: int
    converged: float


def sample_weighed(
    runner: Runner,
    structure: Structure,
    seeds: Ids,
    fanout: int,
    variates: Variates,
    importances: Importances,
    counters: Counters,
    weights: DeviceWeights,
) -> Sampled:
    """Choose entries of each row by LABOR, with the weights of their messages; -1 takes all whose weight is not 0.

    The choices are those of the CPU's kernels for the same keys. Waits for how many entries the rows have, and where
    these are very many for how many are taken.
    """
    program, rows = _program(structure.index, seeds.dtype), seeds.room
    inside = replace(counters, total=0, numbered=True)
    candidates = sample_neighbors(runner, structure, seeds, -1, False, 0, inside)
    count, offsets = candidates.room, candidates.offsets.address
    grid, far, near = (blocks_for(count), 1), candidates.far.address, candidates.near.address
    values = runner.empty(8 * max(count, 1))
    words = [candidates.edges.address, count, weights.values, weights.excluded, weights.num_excluded, values.address]
    runner.launch(program, "weigh", grid, [*words, counters.wrong])
    solver = _Solver(runner, program, candidates, seeds.dtype, rows, fanout, values)
    if importances.rounds:
        solver.optimise(importances)
    solver.solve()
    marks, results = runner.empty(4 * max(count, 1)), runner.empty(8 * max(count, 1))
    words = [far, near, count, *solver.words, solver.factors.address, variates.key, variates.second]
    more = [variates.share, variates.other, marks.address, results.address]
    runner.launch(program, "mark", grid, [*words, *more])
    before = running_sums(runner, "int32", marks.address, count)
    scales, firsts = runner.empty(8 * max(rows, 1)), runner.empty(8 * (rows + 1))
    words = [offsets, rows, before.address, results.address, scales.address, firsts.address]
    runner.launch(program, "scale", (blocks_for(rows + 1), 1), words)
    room = count if count <= MOST_ROOM else int(runner.download(before.address + 8 * count, 1, "int64")[0])
    sizes = ITEM[seeds.dtype], ITEM[seeds.dtype], ITEM[structure.index], 4
    out = [runner.empty(max(room, 1) * size) for size in sizes]
    words = [far, near, candidates.edges.address, count, before.address, results.address, scales.address]
    words += [0 if counters.numbered else seeds.address, *(x.address for x in out), counters.total]
    runner.launch(program, "list", (max(blocks_for(count), 1), 1), words)
    return Sampled(out[0], out[1], out[2], firsts, room, out[3])


class _Solver:
    """Finds each row's factor, c_s, and the importances of the vertices.

    Attributes
    ----------
    factors
        (rows,) float64.
    words
        what kernels read candidates' weights and importances from.
    """

    def __init__(
        self,
        runner: Runner,
        program: CudaProgram,
        candidates: Sampled,
        dtype: str,
        rows: int,
        fanout: int,
        weights: Memory,
    ) -> None:
        self._runner, self._program, self._candidates = runner, program, candidates
        self._dtype, self._rows, self._fanout = dtype, rows, fanout
        self.factors, self._memory = runner.empty(8 * max(rows, 1)), [weights]
        self.words = [weights.address, 0, 0]

    def solve(self) -> None:
        """Set the factors for the importances there are."""
        words = [self._candidates.offsets.address, self._rows, *self.words, self._fanout, self.factors.address]
        self._runner.launch(self._program, "solve", (blocks_for(self._rows), 1), words)

    def optimise(self, importances: Importances) -> None:
        """Raise each vertex's importance by its rows' largest factor, some rounds or until that changes little."""
        runner, candidates = self._runner, self._candidates
        count, size, before = candidates.room, runner.empty(8), float("inf")
        numbering = DeviceNumbering(runner, Ids(0, 0, 0, self._dtype), count)
        vertices = numbering.add(Ids(candidates.far.address, count, 0, self._dtype), size.address)
        by_vertex, largest = (runner.empty(8 * max(count, 1)) for _ in range(2))
        expected, grid = runner.empty(8), (blocks_for(count), 1)
        self._memory += [vertices, by_vertex]
        runner.launch(self._program, "begin", grid, [by_vertex.address, largest.address, count])
        self.words[1:] = by_vertex.address, vertices.address
        for _ in range(importances.rounds):
            self.solve()
            words = [candidates.near.address, vertices.address, count, self.factors.address, largest.address]
            runner.launch(self._program, "largest", grid, words)
            runner.launch(self._program, "raise", grid, [by_vertex.address, largest.address, size.address])
            if not importances.converged:
                continue
            runner.launch(self._program, "expect", (1, 1), [by_vertex.address, size.address, expected.address])
            now = float(runner.download(expected.address, 1, "float64")[0])
            if before - now <= importances.converged * now:
                break
            before = now


@cache
def _program(index: str, node: str) -> CudaProgram:
    types = f"using index = {CPP_TYPES[index]};\nusing node = {CPP_TYPES[node]};\n"
    important = "const double* weights, const double* by_vertex, const node* vertices, "
    kernels = {
        "weigh": "labor_weigh(const index* edges, long long count, const double* values, const long long* excluded, "
        "long long num_excluded, double* weights, long long* wrong)",
        "solve": f"labor_solve(const long long* offsets, long long rows, {important}long long fanout, double* factors)",
        "begin": "labor_begin(double* by_vertex, long long* largest, long long room)",
        "largest": "labor_largest(const node* rows, const node* vertices, long long count, const double* factors, "
        "long long* largest)",
        "raise": "labor_raise(double* by_vertex, long long* largest, const long long* count)",
        "expect": "labor_expect(const double* by_vertex, const long long* count, double* expected)",
        "mark": f"labor_mark(const node* far, const node* rows, long long count, {important}const double* factors, "
        "word64 key, word64 second, double share, double other, int* marks, double* results)",
        "scale": "labor_scale(const long long* offsets, long long rows, const long long* before, "
        "const double* results, double* scales, long long* taken)",
        "list": "labor_list(const node* from_far, const node* rows, const index* from_edges, long long count, "
        "const long long* before, const double* results, const double* scales, const node* seeds, node* far, "
        "node* near, index* edges, float* weights, long long* total)",
    }
    return simple_program("labor", ("common", "sample", "weigh", "labor"), types, kernels)
