"""Random walks on a GPU: arrays in, arrays out. Nothing here waits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..graph.convert import simple_program
from ..graph.structure import Structure
from ..run.program import CPP_TYPES, CudaProgram, Runner, blocks_for


@dataclass(frozen=True)
class Walks:
    """Walks in progress: addresses of their nodes (count, length + 1) and edges (count, length) or 0, of ``dtype``;
    of the float64 probabilities to stop before each step, or 0; and of an int64 that becomes 1 + the id of an edge
    whose weight cannot be used."""

    count: int
    length: int
    key: int
    dtype: str
    traces: int
    edges: int
    stops: int
    wrong: int


def walk(runner: Runner, structure: Structure, walks: Walks, begin: int, end: int, weights: int) -> None:
    """Make steps ``begin`` to ``end - 1`` of walks, all along one relation; ``weights``: float64 by edge id, or 0.

    The steps are those of the CPU's kernel for the same key.
    """
    edge_ids = 0 if structure.edge_ids is None else structure.edge_ids.address
    words = [structure.indptr.address, structure.indices.address, edge_ids, weights, walks.stops, begin, end]
    words += [walks.length, walks.key, walks.count, walks.traces, walks.edges, walks.wrong]
    runner.launch(_program(structure.index, walks.dtype), "walk", (blocks_for(walks.count), 1), words)


@cache
def _program(index: str, node: str) -> CudaProgram:
    kernels = {
        "walk": "walk(const index* indptr, const index* indices, const index* edge_ids, const double* weights, "
        "const double* stops, long long begin, long long end, long long length, word64 key, long long count, "
        "node* traces, node* edges, long long* wrong)"
    }
    types = f"using index = {CPP_TYPES[index]};\nusing node = {CPP_TYPES[node]};\n"
    return simple_program("walk", ("common", "sample", "weigh", "walk"), types, kernels)
