"""Threads that share graphs, interrupts of long calls, and forks: in processes of their own.

A crash is a failed test with the stacks of all threads. ``python -c "from tests.test_threads import soak; soak(120)"``
runs one part by itself.
"""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import os
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dglite
from dglite import backend, dynamic, io, locks, ops, sampling
from dglite import function as fn
from dglite import nn as gnn
from dglite.column import LazyColumn
from dglite.dynamic.batching.recording.signatures import shared, shared_signature
from dglite.graph import DGLGraph
from dglite.kernels.cpu.graph import convert
from dglite.kernels.cpu.run import launch
from dglite.structure import adjacency
from tests import forked
from tests.interrupts import interrupted
from tests.patience import PATIENCE

THREADS = 8
SOAK = 120 if os.environ.get("DGLITE_TEST_FULL") else 5
"""Seconds."""
NODES, EDGES = 300, 3000

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_process(code: str) -> str:
    """Run code with this module's names in a process of its own; return what it printed. It fails as the code does."""
    run = forked.run(forked.code, f"from tests.test_threads import *\n{code}")
    assert run.returncode == 0, f"exit status {run.returncode}\n{run.stdout}\n{run.stderr}"
    return run.stdout


def side_by_side(works: list[Callable[[], Any]]) -> list[Any]:
    """Call all functions at once, each in a thread; return what they return, or raise the first error."""
    gate, results, errors = threading.Barrier(len(works)), [None] * len(works), list[str]()

    def run(i: int) -> None:
        try:
            gate.wait()
            results[i] = works[i]()
        except BaseException:  # shown by the test
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise AssertionError(f"{len(errors)} errors, the first:\n{errors[0]}")
    return results


# -- graphs ------------------------------------------------------------------------------------------------------------
def endpoints(num_nodes: int = NODES, num_edges: int = EDGES) -> tuple[np.ndarray, np.ndarray]:
    src, dst = np.random.default_rng(0).integers(0, num_nodes, (2, num_edges))
    return src, dst


def fresh(num_nodes: int = NODES, num_edges: int = EDGES) -> DGLGraph:
    return dglite.graph(endpoints(num_nodes, num_edges), num_nodes=num_nodes)


@pytest.mark.parametrize("formats", [("coo", "csr", "csc"), ("coo",)], ids=["all formats", "coo"])
def test_a_structure_is_made_once(formats: tuple[str, ...]) -> None:
    """Each thread made one and entered it; it freed the one before, which the kernel of another thread was reading."""
    in_process(f"share_fresh_graphs({formats})")


def share_fresh_graphs(formats: tuple[str, ...]) -> None:
    sys.setswitchinterval(1e-5)
    torch.set_num_threads(1)
    num_nodes, num_edges = 2000, 60_000
    src, dst = endpoints(num_nodes, num_edges)
    x = torch.arange(num_nodes * 8.0).reshape(num_nodes, 8) % 17
    want = torch.zeros(num_nodes, 8).index_add_(0, torch.from_numpy(dst), x[torch.from_numpy(src)])
    for _ in range(40):
        g = fresh(num_nodes, num_edges).formats(list(formats))
        for actual in side_by_side([lambda g=g: [ops.copy_u_sum(g, x) for _ in range(3)]] * THREADS):
            assert all(torch.equal(y, want) for y in actual)


@pytest.fixture
def often() -> Iterator[None]:
    """Let threads take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_get_the_same_formats_reverse_and_frames(often: None) -> None:
    for _ in range(50):
        g = fresh(50, 600)
        a = g.adjacency()
        works = [a.csc, a.csr, lambda a=a: a.reverse().csr(), a.endpoints, a.reverse, g.node_frame, g.edge_frame]
        result = side_by_side(works * 3)
        for i in range(len(works)):
            assert len({id(x) for x in result[i :: len(works)]}) == 1
        assert result[0] is result[2] is a.csc()
        assert set(a.formats) == {"coo", "csr", "csc"} == set(a.reverse().formats)


def test_scopes_of_threads_are_their_own(often: None) -> None:
    """They were one: a model that several threads called with one graph mixed its features."""
    g = fresh(20, 60)
    g.ndata["x"] = torch.ones(20, 2)
    dense = torch.zeros(20, 20).index_put_(g.edges()[::-1], torch.ones(60), accumulate=True)

    def forward(number: int) -> None:
        x = torch.full((20, 2), float(number))
        for _ in range(100):
            with g.local_scope():
                g.ndata["x"] = x
                with g.local_scope():
                    g.ndata["h"] = 2 * g.ndata["x"]
                    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
                    assert torch.equal(g.ndata["h"], 2 * dense @ x)
                    assert torch.equal(g.clone().ndata["h"], pickle.loads(pickle.dumps(g)).ndata["h"])
                assert list(g.ndata) == ["x"]
                g.add_edges([0] * number, [0] * number)
                assert g.num_edges() == 60 + number
                assert torch.equal(g.ndata["x"], x)
            assert torch.equal(g.ndata["x"], torch.ones(20, 2))
            assert g.num_edges() == 60

    side_by_side([lambda number=number: forward(number) for number in range(1, THREADS + 1)])
    assert not {"_scope", "_states"} & set(vars(g))
    assert "_states" not in vars(g.clone())


def test_a_scope_that_another_thread_interrupts_goes_on() -> None:
    g = fresh(4, 6)
    with g.local_scope():
        g.ndata["h"] = torch.ones(4)
        (names,) = side_by_side([lambda: list(g.ndata)])
        assert names == ["h"]  # a thread without a scope sees the only one
        with g.local_scope():
            g.ndata["k"] = torch.ones(4)
            (names,) = side_by_side([lambda: in_scope(g)])
            assert names == []
            assert list(g.ndata) == ["h", "k"]
        assert list(g.ndata) == ["h"]
    assert list(g.ndata) == []


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_scopes_of_compiled_functions_are_a_threads_own(backend: str) -> None:
    """Compiled by itself, a scope's entry wrote to the graph without a lock."""

    def send(x: torch.Tensor) -> torch.Tensor:
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(fn.copy_u("h", "m"), fn.sum("m", "o"))
            return g.ndata["o"]

    torch._dynamo.reset()
    g, x = fresh(6, 20), torch.rand(6, 2)
    expected, compiled = send(x), torch.compile(send, backend=backend)
    entered, done = threading.Event(), threading.Event()

    def hold() -> list[str]:
        with g.local_scope():
            g.ndata["other"] = torch.ones(6)
            entered.set()
            done.wait()
            return list(g.ndata)

    def run() -> list[str]:
        entered.wait()
        try:
            with g.local_scope():
                g.ndata["x"] = x
                torch.testing.assert_close(compiled(x), expected)
                return list(g.ndata)
        finally:
            done.set()

    assert side_by_side([hold, run]) == [["other"], ["x"]]
    assert not g.ndata


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_compiled_scope_reads_no_features_of_another_threads(fullgraph: bool) -> None:
    """The other thread has the only scope, so its features are in the graph."""

    def send(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        with g.local_scope():
            g.ndata["h"] = x
            return dglite.mean_nodes(g, "h") + (g.ndata["other"].sum() if "other" in g.ndata else 0)

    torch._dynamo.reset()
    g, x = fresh(6, 20), torch.rand(6, 2)
    expected, compiled = send(g, x), torch.compile(send, backend="eager", fullgraph=fullgraph)
    torch.testing.assert_close(compiled(g, x), expected)
    entered, done = threading.Event(), threading.Event()

    def hold() -> list[str]:
        with g.local_scope():
            g.ndata["other"] = torch.ones(6)
            entered.set()
            done.wait()
            return list(g.ndata)

    def run() -> None:
        entered.wait()
        try:
            if fullgraph:
                with pytest.raises(Exception, match="in whose scope another thread is"):
                    compiled(g, x)
            else:
                torch.testing.assert_close(compiled(g, x), expected)
        finally:
            done.set()

    assert side_by_side([hold, run]) == [["other"], None]
    assert not g.ndata
    with g.local_scope():  # a thread's own
        torch.testing.assert_close(compiled(g, x), expected)
    assert not g.ndata


def in_scope(g: DGLGraph) -> list[str]:
    with g.local_scope():
        return list(g.ndata)


def test_edge_ids_that_wait_are_made_once() -> None:
    rows = np.random.default_rng(0).integers(0, 1000, 200_000)
    for _ in range(5):
        stored = adjacency.compress(rows, rows, 1000)
        stored = adjacency.Compressed(stored.indptr, stored.indices, unsorted_rows=rows)
        assert len(set(side_by_side([lambda stored=stored: stored.addresses] * THREADS))) == 1


class GatheredMeanwhile(LazyColumn):
    """Rows that another thread gathers right after this one has looked at their source."""

    @property
    def source(self) -> Any:
        result, self._kept = self._kept, None
        self.value = torch.ones(1)
        return result

    @source.setter
    def source(self, source: Any) -> None:
        self._kept = source


@pytest.mark.parametrize("ask", [LazyColumn.gather, LazyColumn.like])
def test_rows_may_be_gathered_while_another_thread_asks_for_them(ask: Callable[[Any], torch.Tensor]) -> None:
    rows = GatheredMeanwhile(torch.zeros(3), np.array([0]))
    assert ask(rows).tolist() in ([1], [0, 0, 0])


def test_a_second_library_is_met_once() -> None:
    in_process("meet_numpy()")


def meet_numpy() -> None:
    loaded, load = list[str](), backend.load

    def slow(name: str) -> Any:
        loaded.append(name)
        time.sleep(0.1)
        return load(name)

    backend.load = slow
    g = fresh()
    result = side_by_side([lambda: backend.admit(np.ones(3), "x")] * THREADS)
    assert loaded == ["numpy"]
    assert {type(x) for x in result} == {backend.active.guest.tensor_type}
    assert torch.equal(ops.copy_u_sum(g, torch.ones(NODES, 1))[:, 0].long(), g.in_degrees())


def test_signatures_of_lazy_operations_have_numbers_of_their_own() -> None:
    in_process("number_signatures()")


class SlowlyNumbered:
    """A signature that is in no hurry when it gets its number."""

    arity = 0

    def __setattr__(self, name: str, value: int) -> None:
        time.sleep(0.01)
        self.__dict__[name] = value


def number_signatures() -> None:
    signatures: list[Any] = [SlowlyNumbered() for _ in range(THREADS)]
    side_by_side([lambda x=x: shared_signature(x) for x in signatures])
    assert all(shared[x.number] is x for x in signatures)


def test_writing_a_file_leaves_the_umask_alone(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "umask", None)
    io.save_graphs(tmp_path / "graphs", fresh())
    assert (tmp_path / "graphs").stat().st_size and os.umask is None


# -- everything at once ------------------------------------------------------------------------------------------------
class Cell(dynamic.VertexFunction):
    """A node's state is that of its children, summed, and its own input."""

    def __init__(self) -> None:
        super().__init__(state=4)
        self.layer = nn.Linear(4, 4)

    def forward(self) -> None:
        state = torch.tanh(self.layer(self.pull()) + self.gather_all().sum())
        self.scatter(state)
        self.push(state)


class Works:
    """What threads do, each on a graph that all of them share and on others of its own. Each returns tensors."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.graph, self.uses = fresh(), 0
        self.x, self.w = torch.randn(NODES, 8), torch.rand(EDGES, 1)
        self.conv, self.gat = (
            gnn.GraphConv(8, 4, allow_zero_in_degree=True),
            gnn.GATConv(8, 4, 2, allow_zero_in_degree=True),
        )
        self.sage, self.cell = gnn.SAGEConv(8, 4, "lstm"), Cell()
        self.tree = dglite.graph((np.arange(1, 64), (np.arange(1, 64) - 1) // 2))

    def shared(self) -> DGLGraph:
        """Return a graph that other threads use too; now and then a fresh one."""
        self.uses += 1
        if self.uses % 20 == 0:
            self.graph = fresh()
        return self.graph

    def all(self) -> Iterator[tuple[str, Callable[[], list[torch.Tensor]]]]:
        for name in (
            "built_ins",
            "own_functions",
            "edges",
            "softmax",
            "layers",
            "lstm",
            "structure",
            "sample",
            "fan_out",
        ):
            work = getattr(self, name)
            yield f"{name}, shared", lambda work=work: work(self.shared())
            yield f"{name}, own", lambda work=work: work(fresh())
        yield "program", self.program
        yield "topological", self.topological

    def grown(self, out: torch.Tensor, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Return a result and its gradients."""
        return [out.detach(), *torch.autograd.grad(out.square().sum(), inputs)]

    def built_ins(self, g: DGLGraph) -> list[torch.Tensor]:
        x, w = self.x.clone().requires_grad_(), self.w.clone().requires_grad_()
        with g.local_scope():
            g.ndata["x"], g.edata["w"] = x, w
            g.update_all(fn.u_mul_e("x", "w", "m"), fn.sum("m", "y"))
            g.update_all(fn.copy_u("x", "m"), fn.max("m", "z"))
            return self.grown(g.ndata["y"] + g.ndata["z"], x, w)

    def own_functions(self, g: DGLGraph) -> list[torch.Tensor]:
        g, x = g.local_var(), self.x.clone().requires_grad_()
        g.ndata["x"] = x
        g.update_all(lambda e: {"m": (e.src["x"] - e.dst["x"]).relu()}, lambda n: {"y": n.mailbox["m"].mean(1)})
        g.update_all(lambda e: {"m": e.src["x"]}, lambda n: {"z": n.mailbox["m"].sort(1)[0][:, 0]})
        return self.grown(g.ndata["y"] * g.ndata["z"], x)

    def edges(self, g: DGLGraph) -> list[torch.Tensor]:
        g, x = g.local_var(), self.x.clone().requires_grad_()
        g.ndata["x"] = x
        g.apply_edges(fn.u_dot_v("x", "x", "a"))
        g.apply_edges(lambda e: {"b": e.src["x"].cos() * e.data["a"]})
        return self.grown(g.edata["b"], x)

    def softmax(self, g: DGLGraph) -> list[torch.Tensor]:
        w = self.w.clone().requires_grad_()
        return self.grown(ops.edge_softmax(g, w), w)

    def layers(self, g: DGLGraph) -> list[torch.Tensor]:
        x = self.x.clone().requires_grad_()
        out = self.conv(g, x) + self.gat(g, x).sum(1)
        return self.grown(out, x, *self.conv.parameters(), *self.gat.parameters())

    def lstm(self, g: DGLGraph) -> list[torch.Tensor]:
        return [self.sage(g, self.x).detach()]

    def structure(self, g: DGLGraph) -> list[torch.Tensor]:
        only = g.formats("csr")
        turned = ops.copy_u_sum(g.reverse(), self.x) + ops.copy_u_sum(only.reverse(), self.x)
        simple = dglite.to_simple(g)
        return [turned, *g.edges(), *only.in_edges(7), simple.edges()[0], g.has_edges_between(g.nodes(), 0)]

    def sample(self, g: DGLGraph) -> list[torch.Tensor]:
        """The choices are random, and they are edges."""
        part = sampling.sample_neighbors(g, torch.arange(50), 3)
        assert g.has_edges_between(*part.edges()).all()
        traces, _ = sampling.random_walk(g, torch.arange(50), length=5)
        steps = torch.stack([traces[:, :-1].flatten(), traces[:, 1:].flatten()])
        steps = steps[:, (steps >= 0).all(0)]
        assert g.has_edges_between(*steps).all()
        g = g.local_var()
        g.edata["w"] = self.w
        weighed = sampling.sample_neighbors(g, g.nodes(), 1, prob="w")  # makes sums that threads share
        return [part.in_degrees()[:50], weighed.in_degrees()]

    def fan_out(self, g: DGLGraph) -> list[torch.Tensor]:
        g = g.local_var()
        g.ndata["x"] = self.x
        block = dglite.to_block(sampling.sample_neighbors(g, torch.arange(50), -1), torch.arange(50))
        x = self.x[block.srcdata[dglite.NID]]
        return [ops.copy_u_sum(block, x), block.srcdata[dglite.NID]]

    def program(self) -> list[torch.Tensor]:
        x = self.x[:64, :4].clone().requires_grad_()
        return self.grown(self.cell(self.tree, x), x, *self.cell.parameters())

    def topological(self) -> list[torch.Tensor]:
        tree, x = self.tree.local_var(), self.x[:64, :4].clone().requires_grad_()
        tree.ndata["x"] = tree.ndata["h"] = x
        tree.ndata["s"] = torch.zeros(64, 4)
        dglite.prop_nodes_topo(tree, self.message, self.total, apply_node_func=self.squash)
        return self.grown(tree.ndata["h"], x)

    def message(self, edges: Any) -> dict[str, torch.Tensor]:
        return {"m": edges.src["h"]}

    def total(self, nodes: Any) -> dict[str, torch.Tensor]:
        return {"s": nodes.mailbox["m"].sum(1)}

    def squash(self, nodes: Any) -> dict[str, torch.Tensor]:
        return {"h": torch.tanh(nodes.data["x"] + nodes.data["s"])}


def soak(seconds: float) -> None:
    """Let threads do everything, each in an order of its own, and compare with what one thread found before."""
    sys.setswitchinterval(1e-4)
    works = Works()
    want = {name: work() for name, work in works.all()}
    stop, counts = time.monotonic() + seconds, [0] * THREADS

    def run(i: int) -> None:
        order = np.random.default_rng(i)
        while time.monotonic() < stop:
            every = list(works.all())
            for k in order.permutation(len(every)):
                name, work = every[k]
                for actual, known in zip(work(), want[name], strict=True):
                    torch.testing.assert_close(actual, known, rtol=1e-4, atol=1e-5, msg=name)
                counts[i] += 1

    side_by_side([lambda i=i: run(i) for i in range(THREADS)])
    print(sum(counts), "calls")


def test_threads_do_everything_at_once() -> None:
    assert "calls" in in_process(f"soak({SOAK})")


# -- interrupts --------------------------------------------------------------------------------------------------------
def ends_early(work: Callable[[], Any]) -> None:
    """Interrupt something that takes a quarter of a minute at least, shortly after it has begun."""
    begin = time.process_time()

    def begun() -> None:
        while time.process_time() < begin + 0.5:
            time.sleep(0.01)

    assert interrupted(work, begun) < 4


def interrupt_a_sum(threads: int) -> None:
    torch.set_num_threads(threads)
    g, x = dglite.graph(endpoints(500, 3_000_000), num_nodes=500), torch.ones(500, 1 << 16)
    ops.copy_u_sum(g, x[:, :1].contiguous())
    ends_early(lambda: ops.copy_u_sum(g, x))
    assert (ops.copy_u_sum(g, x[:, :64].contiguous())[:, 0] == g.in_degrees()).all()


def dense() -> DGLGraph:
    """Return a graph of nodes with a thousand edges each, of equal weights."""
    g = fresh(200, 200_000)
    g.edata["w"] = torch.ones(g.num_edges())
    return g


def interrupt_walks() -> None:
    g, nodes = dense(), torch.arange(20)
    sampling.random_walk(g, nodes, length=100, prob="w")
    ends_early(lambda: sampling.random_walk(g, nodes, length=4_000_000, prob="w"))
    traces, _ = sampling.random_walk(g, nodes, length=100, prob="w")
    assert (traces >= 0).all()


def interrupt_a_sample() -> None:
    g = dense()
    nodes = torch.arange(200).repeat(40_000)
    sampling.sample_neighbors(g, nodes[:200], 2, prob="w", replace=True)
    ends_early(lambda: sampling.sample_neighbors(g, nodes, 2, prob="w", replace=True))
    assert sampling.sample_neighbors(g, nodes[:200], 2, prob="w").num_edges() == 400


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to processes of their own there")
@pytest.mark.parametrize(
    "code", ["interrupt_a_sum(1)", "interrupt_a_sum(2)", "interrupt_walks()", "interrupt_a_sample()"]
)
def test_long_calls_end_when_they_are_interrupted(code: str) -> None:
    in_process(code)


# -- forks -------------------------------------------------------------------------------------------------------------
def fork_while_locks_are_held() -> None:
    """Another thread holds every lock and the pool when this one forks; the child needs them."""
    torch.set_num_threads(2)
    works = Works()
    want = {name: getattr(works, name)(fresh()) for name in ("structure", "fan_out", "lstm")}
    with torch.no_grad():
        tree = works.cell(works.tree, works.x[:64, :4])
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.ExitStack() as stack, convert._turn:
            for lock in list(locks._locks):
                stack.enter_context(lock)
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    launch._Pool.words[0] = 1
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(PATIENCE / 2, exit=True)
        torch.set_num_threads(1)
        for name, known in want.items():
            for x, y in zip(getattr(works, name)(fresh()), known, strict=True):
                torch.testing.assert_close(x, y)
        with torch.no_grad():
            torch.testing.assert_close(works.cell(works.tree, works.x[:64, :4]), tree)
        backend.admit(np.ones(3), "x")
        g = fresh(5000, 1_100_000)  # sorted by several threads, edge ids on demand
        assert len(g.adjacency().csc().edge_ids) == 1_100_000
        assert launch.num_threads(1 << 20, 2) == 1
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert status == 0, f"the child ended with status {status}"
    launch._Pool.words[0] = 0
    assert torch.equal(works.structure(fresh())[0], want["structure"][0])


@FORKS
def test_a_child_does_not_wait_for_threads_that_it_does_not_have() -> None:
    in_process("fork_while_locks_are_held()")


def test_what_holds_a_lock_is_pickled_and_copied() -> None:
    rows = np.array([1, 0, 1])
    stored = adjacency.Compressed(np.array([0, 1, 3]), np.array([0, 0, 1]), unsorted_rows=rows)
    for result in (pickle.loads(pickle.dumps(stored)), copy.deepcopy(stored)):
        assert result.edge_ids.tolist() == [1, 0, 2]
    g = fresh()
    assert torch.equal(pickle.loads(pickle.dumps(g)).in_degrees(), g.in_degrees())
    cell = copy.deepcopy(Cell())
    tree = dglite.graph(([1, 2], [0, 0]))
    again = pickle.loads(pickle.dumps(cell))
    assert torch.equal(cell(tree, torch.ones(3, 4)), again(tree, torch.ones(3, 4)))


# -- the pool ----------------------------------------------------------------------------------------------------------
def end_threads_one_after_the_other() -> None:
    torch.set_num_threads(2)
    g, x = fresh(2000, 60_000), torch.ones(2000, 8)
    want, before = ops.copy_u_sum(g, x), launch.parallel_launches()
    most = 0
    for number in range(20):
        (result,) = side_by_side([lambda: ops.copy_u_sum(g, x)])
        assert torch.equal(result, want)
        if number == 0:
            most = len(os.listdir("/proc/self/task")) + 1
    assert launch.parallel_launches() == before + 20
    until = time.monotonic() + PATIENCE  # a team ends a while after its thread, on a busy machine
    while len(os.listdir("/proc/self/task")) > most and time.monotonic() < until:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) <= most


@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads of a process")
def test_a_thread_that_ends_takes_its_team_along() -> None:
    in_process("end_threads_one_after_the_other()")


def compute_in_all_threads() -> None:
    torch.set_num_threads(2)
    g, x = fresh(2000, 60_000), torch.rand(2000, 8)
    want, before = ops.copy_u_sum(g, x), launch.parallel_launches()
    for several in side_by_side([lambda: [ops.copy_u_sum(g, x) for _ in range(50)]] * THREADS):
        assert all(torch.equal(actual, want) for actual in several)
    assert before < launch.parallel_launches() <= before + 50 * THREADS


def test_results_do_not_depend_on_who_has_the_pool() -> None:
    in_process("compute_in_all_threads()")
