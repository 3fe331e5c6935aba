"""Sampling by time on a GPU: the latest edges, and nodes at times, which are numbered as node * versions + version."""

from __future__ import annotations

from functools import cache

from ..graph.convert import running_sums, simple_program
from ..graph.structure import Structure
from ..run.program import CPP_TYPES, CudaProgram, Memory, Runner, blocks_for
from .sample import TIMES, Counters, DeviceTimes, DeviceWeights, Ids, Sampled, count_entries, listed_entries, read_sum


def split_nodes(runner: Runner, versioned: Ids, versions: int) -> Ids:
    """Return the nodes of nodes at times, int64."""
    nodes = runner.empty(8 * max(versioned.room, 1))
    words = [*versioned.words, versions, nodes.address]
    runner.launch(_program("int64"), "split", (blocks_for(versioned.room), 1), words)
    return Ids(nodes.address, versioned.room, versioned.count, "int64", nodes)


def join_nodes(runner: Runner, sampled: Sampled, count: int, versioned: Ids, versions: int) -> Memory:
    """Turn the far ends of a sample whose rows are numbered into nodes at their rows' times.

    ``count``: the address of the number of entries.
    """
    words = [sampled.far.address, sampled.near.address, sampled.room, count, versioned.address, versions]
    runner.launch(_program("int64"), "join", (blocks_for(sampled.room), 1), words)
    return sampled.far


def sample_latest(
    runner: Runner,
    structure: Structure,
    seeds: Ids,
    fanout: int,
    counters: Counters,
    excluded: DeviceWeights,
    times: DeviceTimes,
) -> Sampled:
    """Choose the latest ``fanout`` entries of each row, -1 for all, that are not later than its time.

    The rows of ``structure`` are ordered by time. Waits as :func:`~.sample.sample_neighbors` does.
    """
    degrees, firsts = count_entries(runner, structure, seeds, -1, False, counters), None
    room = seeds.room * fanout
    if fanout < 0:
        firsts = running_sums(runner, "int64", degrees.address, seeds.room)
        room = read_sum(runner, firsts, seeds.room)
    at = 0 if firsts is None else firsts.address
    counts, positions = runner.empty(8 * max(seeds.room, 1)), runner.empty(4 * max(room, 1))
    edge_ids = 0 if structure.edge_ids is None else structure.edge_ids.address
    words = [structure.indptr.address, edge_ids, *seeds.words[:2], degrees.address, fanout]
    words += [excluded.excluded, excluded.num_excluded, at, *times.words, positions.address, counts.address]
    runner.launch(_program(structure.index), "latest", (blocks_for(seeds.room), 1), words)
    words = [structure.indptr.address, *seeds.words[:2], fanout, at, positions.address]
    return listed_entries(runner, structure, seeds, counts, counters, "list", words, [], room)


@cache
def _program(index: str) -> CudaProgram:
    kernels = {
        "split": "split_nodes(const long long* versioned, long long room, const long long* count, long long versions, "
        "long long* nodes)",
        "join": "join_nodes(long long* far, const long long* rows, long long room, const long long* count, "
        "const long long* versioned, long long versions)",
        "latest": "latest_rows(const index* indptr, const index* edge_ids, const long long* seeds, long long room, "
        "const long long* degrees, long long fanout, const long long* excluded, long long num_excluded, "
        f"const long long* firsts, {TIMES}int* positions, long long* counts)",
    }
    types = f"using index = {CPP_TYPES[index]};\n"
    return simple_program("times", ("common", "sample", "weigh", "times"), types, kernels)
