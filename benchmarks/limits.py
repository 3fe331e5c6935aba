"""How near the machine's limit each kernel is: what it must move and compute, at the rates that this machine reaches.

python benchmarks/limits.py                       two minutes
OMP_NUM_THREADS=1 python benchmarks/limits.py     by processor time, for a machine that others use meanwhile
python benchmarks/limits.py --quick

The limit of a call is the time of three probes of a few lines each, on as many threads. One reads the rows of features
that the call reads, in its order, with the best of three distances of prefetching, and adds them up; one reads what
else must be read; one writes the result. Where operations take longer at the peak of fused multiply-adds (or
exponentials), they are the limit. The gradient of a maximum, which scatters single numbers, is not here. The least of
some calls counts, of probes and kernels: others use this machine, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import erdos_renyi, parser, power_law, save, table

import dglite
from dglite import ops
from dglite.kernels import compiled
from dglite.kernels.cpu.compile.jit import compile_kernel
from dglite.kernels.cpu.run.launch import launch

LANES, HEADS = 16, 4
AHEAD = (0, 8, 32)
"""Rows between asking for a row and reading it."""
LEVELS = {"L2": 1 << 18, "L3": 1 << 22, "memory": 1 << 28}
"""Bytes for each thread of what fits in a cache, and does not."""
HEAD = '''"""A probe of the machine: {what}."""
from dglite.kernels.cpu.lanes import simd

word, prefetch, exp, index = simd.word, simd.prefetch_l2, simd.exp, simd.index_loader("int32")
load, store, splat = simd.loader("float32", 16), simd.storer("float32", 16), simd.splat("float32", 16)
store_past_caches = simd.storer("float32", 16, nontemporal=True)
load_part = simd.part_loader("float32", 16, 0.0)


def kernel(args, task, num_tasks):
    data, count, out, indices = word(args, 0), word(args, 1), word(args, 2), word(args, 3)
    repeats = word(args, 4)
    begin, end = count * max(task, 0) // num_tasks, count * (task + 1) // num_tasks
'''


# -- probes ------------------------------------------------------------------------------------------------------------
def gather_source(row: int, ahead: int) -> str:
    """Return a probe that adds up rows of ``row`` bytes at ``indices``."""
    vectors = range(-(-row // 64))
    lines = [f"    t{i} = splat(0.0)" for i in vectors] + ["    for i in range(begin, end):"]
    lines += [f"        a = data + {row} * index(indices, i)"]
    if ahead:
        lines += [f"        p = data + {row} * index(indices, min(i + {ahead}, end - 1))"]
        lines += [f"        prefetch(p + {64 * i})" for i in vectors]
    for i in vectors:
        left = (row - 64 * i) // 4
        value = f"load(a + {64 * i})" if left >= LANES else f"load_part(a + {64 * i}, {left})"
        lines.append(f"        t{i} = t{i} + {value}")
    lines.append(f"    store(out + 64 * max(task, 0), {' + '.join(f't{i}' for i in vectors)})")
    return "\n".join([HEAD.format(what="rows at random"), *lines, ""])


def stream_source(copies: bool, writes: bool, past_caches: bool) -> str:
    """Return a probe that reads, writes or copies ``count`` blocks of 256 bytes, ``repeats`` times."""
    store = "store_past_caches" if past_caches else "store"
    lines = [*(f"    t{i} = splat(0.0)" for i in range(4)), "    for r in range(repeats):"]
    lines += ["        for i in range(begin, end):"]
    for i in range(4):
        at = f"256 * i + {64 * i}"
        if copies:
            lines.append(f"            {store}(out + {at}, load(data + {at}))")
        elif writes:
            lines.append(f"            {store}(out + {at}, t{i})")
        else:
            lines.append(f"            t{i} = t{i} + load(data + {at})")
    if not copies and not writes:
        lines.append("    store(out + 64 * max(task, 0), t0 + t1 + t2 + t3)")
    return "\n".join([HEAD.format(what="memory in order"), *lines, ""])


def arithmetic_source(exponential: bool) -> str:
    """Return a probe of multiply-adds, 12 under way, or of exponentials, ``count`` times 12 vectors."""
    names = [f"t{i}" for i in range(12)]
    lines = ["    a = load(data)", *(f"    {t} = load(data)" for t in names), "    for i in range(begin, end):"]
    lines += [f"        {t} = {f'exp({t})' if exponential else f'{t} * a + a'}" for t in names]
    lines.append(f"    store(out + 64 * max(task, 0), {' + '.join(names)})")
    return "\n".join([HEAD.format(what="arithmetic"), *lines, ""])


def least(run: Callable[[], Any]) -> float:
    """Return the least seconds of up to nine calls, in a fifth of a second or three calls, after two that warm up.

    One thread alone is timed by its processor time.
    """
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter

    def timed(run: Callable[[], Any]) -> float:
        start = clock()
        run()
        return clock() - start

    first = timed(run), timed(run)
    return min(timed(run) for _ in range(min(max(int(0.2 / first[1]), 3), 9)))


class Machine:
    """Rates of this machine with as many threads as torch uses; each is measured when it is first asked for."""

    def __init__(self) -> None:
        """Take buffers for the probes."""
        self.threads = torch.get_num_threads()
        self.sink = torch.zeros(1 << 16)
        self._rates: dict[tuple[Any, ...], float] = {}
        self._kept: list[torch.Tensor] = []

    def seconds(self, source: str, data: torch.Tensor, count: int, out: torch.Tensor, *words: int) -> float:
        """Return the seconds of a probe."""
        address = compile_kernel("probe", source)
        args = [data.data_ptr(), count, out.data_ptr(), *words, *[0] * (2 - len(words))]
        tasks = self.threads

        def run() -> None:
            launch(address, args, tasks, self.threads)

        return least(run)

    def gather(self, indices: torch.Tensor, num_rows: int, row: int) -> float:
        """Return the seconds in which rows of ``row`` bytes of a table are read in the order of ``indices``, int32."""
        key = indices.data_ptr(), len(indices), num_rows, row
        if key not in self._rates:
            data = torch.zeros(num_rows * row // 4 + LANES)
            words = len(indices), self.sink, indices.data_ptr()
            self._rates[key] = min(self.seconds(gather_source(row, ahead), data, *words) for ahead in AHEAD)
            self._kept.append(indices)  # whose address is a key
        return self._rates[key]

    def stream(self, kind: str, level: str) -> float:
        """Return bytes a second that are read, written or copied (counted once) in order, of what fits in ``level``."""
        if (kind, level) not in self._rates:
            size = LEVELS[level] * (self.threads if level != "memory" else 1)
            data, out = torch.zeros(size // 4), torch.zeros(size // 4) if kind != "read" else self.sink
            repeats = max((1 << 26) // size, 1)
            source = stream_source(kind == "copy", kind == "write", level == "memory")
            taken = self.seconds(source, data, size // 256, out, 0, repeats)
            self._rates[kind, level] = size * repeats / taken
        return self._rates[kind, level]

    def operations(self, exponential: bool = False) -> float:
        """Return multiply-adds (each two operations) or exponentials of float32 a second."""
        if ("operations", exponential) not in self._rates:
            count, data = 1 << 20, torch.full((LANES,), 1e-3)
            taken = self.seconds(arithmetic_source(exponential), data, count, self.sink)
            self._rates["operations", exponential] = (1 if exponential else 2) * count * 12 * LANES / taken
        return self._rates["operations", exponential]

    def rates(self) -> list[dict[str, Any]]:
        """Return the rates by level: GB a second."""
        generator, records = np.random.default_rng(0), []
        for level, size in LEVELS.items():
            record: dict[str, Any] = {"level": level}
            for kind in ("read", "write", "copy"):
                record[kind] = self.stream(kind, level) / 1e9
            for row in (64, 256, 512):
                rows = size * (self.threads if level == "L3" else 1) // row
                indices = torch.from_numpy(generator.integers(rows, size=1 << 20, dtype=np.int32))
                record[f"rows of {row}"] = row * len(indices) / self.gather(indices, rows, row) / 1e9
            records.append(record)
        return records


# -- cases -------------------------------------------------------------------------------------------------------------
class Case:
    """A call, and what it must move and compute.

    ``rows`` is (indices, number of rows of the table, bytes of a row) of what is read at random, or None; ``read`` and
    ``written`` are bytes in order, ``operations`` and ``exponentials`` are numbers.
    """

    def __init__(
        self,
        call: Callable[[], Any],
        rows: tuple[torch.Tensor, int, int] | None = None,
        read: int = 0,
        written: int = 0,
        operations: int = 0,
        exponentials: int = 0,
    ) -> None:
        """Take the numbers."""
        self.call, self.rows, self.read, self.written = call, rows, read, written
        self.operations, self.exponentials = operations, exponentials

    def limit(self, machine: Machine) -> dict[str, Any]:
        """Return the seconds of the limit, and what it is made of."""
        random = 0 if self.rows is None else self.rows[1] * self.rows[2]
        level = "memory" if random + self.read + self.written > 24 << 20 else "L3"
        moved = self.read / machine.stream("read", level) + self.written / machine.stream("write", level)
        if self.rows is not None:
            moved += machine.gather(*self.rows)
        computed = self.operations / machine.operations() + self.exponentials / machine.operations(True)
        fetched = 0 if self.rows is None else len(self.rows[0]) * self.rows[2]
        return {
            "limit": max(moved, computed),
            "by": "memory" if moved >= computed else "operations",
            "bytes": fetched + self.read + self.written,
            "operations": self.operations + self.exponentials,
        }


def cases_of_graph(src: np.ndarray, dst: np.ndarray, nodes: int, width: int) -> dict[str, Case]:
    """Return the calls on a graph with node features of ``width`` numbers."""
    g, edges = dglite.graph((torch.from_numpy(src), torch.from_numpy(dst)), num_nodes=nodes), len(src)
    g.create_formats_()
    (_, sources, edge_ids), (_, destinations, _) = g.adj_tensors("csc"), g.adj_tensors("csr")
    sources, destinations, edge_ids = sources.int(), destinations.int(), edge_ids.int()
    x, scalar, heads = torch.rand(nodes, width), torch.rand(edges, 1), torch.rand(edges, HEADS, 1)
    wide, leaf = x.view(nodes, HEADS, -1), x.clone().requires_grad_()
    scores = torch.rand(edges, HEADS)
    summed, gradient = ops.copy_u_sum(g, leaf), torch.ones_like(x)
    row, index, out = 4 * width, 4 * (edges + nodes), 4 * nodes * width
    rows, back = (sources, nodes, row), (destinations, nodes, row)
    adds = edges * width
    cases = {
        "copy_u sum": Case(lambda: ops.copy_u_sum(g, x), rows, 4 * nodes, out, adds),
        "copy_u sum, gradient": Case(
            lambda: torch.autograd.grad(summed, leaf, gradient, retain_graph=True), back, 4 * nodes, out, adds
        ),
        "copy_u mean": Case(lambda: ops.copy_u_mean(g, x), rows, 4 * nodes, out, adds),
        "copy_u max": Case(lambda: ops.copy_u_max(g, x), rows, 4 * nodes, out, adds),
        "u_mul_e sum": Case(lambda: ops.u_mul_e_sum(g, x, scalar), rows, 4 * (nodes + edges), out, 2 * adds),
        "u_mul_e sum, heads": Case(
            lambda: ops.u_mul_e_sum(g, wide, heads), rows, 4 * (nodes + HEADS * edges), out, 2 * adds
        ),
        "u_dot_v": Case(lambda: ops.u_dot_v(g, x, x), rows, out + index, 4 * edges, 2 * adds),
    }
    if 4 * adds < 1 << 29:
        cases["u_add_v"] = Case(lambda: ops.u_add_v(g, x, x), rows, out + index, 4 * adds, adds)
    if width == 64:
        size = 4 * HEADS * edges
        cases["edge_softmax, 4 heads"] = Case(
            lambda: ops.edge_softmax(g, scores),
            (edge_ids, edges, 4 * HEADS),  # scores lie in the order of edges, not of destinations
            index,
            size,
            3 * HEADS * edges,
            HEADS * edges,
        )
        layer = dglite.nn.GATConv(width, width // HEADS, HEADS, allow_zero_in_degree=True)
        product = 2 * nodes * width * width
        cases["GATConv, forward"] = Case(
            torch.no_grad()(lambda: layer(g, x)), rows, 2 * out, 2 * out, 2 * adds + product, HEADS * edges
        )
    return cases


def cases_of_rows(rows: int) -> dict[str, Case]:
    """Return segment reductions and dense products of ``rows`` rows."""
    cases, lengths = {}, torch.full((rows // 8,), 8)
    for width in (16, 64):
        x = torch.rand(rows, width)
        size = 4 * x.numel()
        for reduce in ("sum", "max"):
            cases[f"segment {reduce}, width {width}"] = Case(
                lambda x=x, reduce=reduce: ops.segment_reduce(lengths, x, reduce), None, size, size // 8, x.numel()
            )
    for inner, outer in ((32, 32), (100, 47), (256, 256)):
        x, weight, out = torch.rand(rows, inner), torch.rand(inner, outer), torch.empty(rows, outer)
        cases[f"product {inner} x {outer}"] = Case(
            product_call(x, weight, out), None, 4 * x.numel(), 4 * out.numel(), 2 * rows * inner * outer
        )
    return cases


def product_call(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
    """Return a call of our kernel of a product, wherever torch's would be taken."""
    kernels, threads, shape = compiled("rows.products"), torch.get_num_threads(), (len(x), *weight.shape)
    read = [(tensor.data_ptr(), 4 * tensor.shape[1]) for tensor in (x, weight)]
    places = [*read, (0, 0), (out.data_ptr(), 4 * out.shape[1])]

    def call() -> None:
        kernels.product("float32", shape, places, False, threads)
        assert len(x) == len(out) and len(weight)  # the call keeps the memory that the kernel uses

    return call


# -- measuring ---------------------------------------------------------------------------------------------------------
def measure(machine: Machine, graph: str, width: int, cases: dict[str, Case]) -> list[dict[str, Any]]:
    """Return a record for each case: seconds, the limit, bytes and operations."""
    records = []
    for name, case in cases.items():
        seconds = least(case.call)
        records.append({"case": name, "graph": graph, "width": width, "seconds": seconds, **case.limit(machine)})
        print(f"{name:28} {graph:22} {width:4} {records[-1]['limit'] / seconds:5.0%}", flush=True)
    return records


def limits_table(records: list[dict[str, Any]]) -> str:
    """Return one row per case: its time, what it moves and computes, and the share of the limit that it reaches."""
    rows = [
        [
            r["case"],
            r["graph"],
            str(r["width"] or ""),
            f"{1e3 * r['seconds']:.2f}",
            f"{r['bytes'] / r['seconds'] / 1e9:.0f}",
            f"{r['operations'] / r['seconds'] / 1e9:.0f}",
            r["by"],
            f"{r['limit'] / r['seconds']:.0%}",
        ]
        for r in records
    ]
    heads = ["kernel", "graph", "width", "dglite, ms", "GB/s", "G operations/s", "limited by", "of the limit"]
    return table(heads, rows)


def rates_table(rates: list[dict[str, Any]], peak: float, exponentials: float) -> str:
    """Return the machine's rates, GB a second, by level."""
    names = [name for name in rates[0] if name != "level"]
    body = table(["GB/s", *names], [[r["level"], *(f"{r[name]:.0f}" for name in names)] for r in rates])
    return f"{body}\n\nPeak: {peak / 1e9:.0f} GFLOP/s in float32, {exponentials / 1e9:.1f}G exponentials a second."


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    graphs = {
        "Erdos-Renyi 20k/1M": (erdos_renyi, 20_000, 1_000_000),
        "Erdos-Renyi 200k/2M": (erdos_renyi, 200_000, 2_000_000),
        "power law 100k/5M": (power_law, 100_000, 5_000_000),
    }
    if quick:
        graphs = {"Erdos-Renyi 2k/50k": (erdos_renyi, 2_000, 50_000)}
    machine, records = Machine(), []
    rates, peak, exponentials = machine.rates(), machine.operations(), machine.operations(True)
    print(rates_table(rates, peak, exponentials))
    records += measure(machine, "", 0, cases_of_rows(2_000 if quick else 262_144))
    for name, (make, nodes, edges) in graphs.items():
        src, dst = make(nodes, edges)
        for width in (16, 64, 128):
            records += measure(machine, name, width, cases_of_graph(src, dst, nodes, width))
            if not quick:
                save("limits", {"rates": rates, "peak": peak, "exponentials": exponentials, "records": records})
    print(limits_table(records))


if __name__ == "__main__":
    main()
