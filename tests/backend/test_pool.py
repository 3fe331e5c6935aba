"""The memory pool: memory is lent again when nothing refers to it, never before, and given back in time."""

from __future__ import annotations

import gc
import io
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading
from itertools import pairwise

import numpy as np
import pytest
import torch

import dglite
import dglite.function as fn
from dglite.backend import load, memory, torch_memory, torch_tensors
from dglite.backend.memory import LARGE, Pool, pool, rounded
from dglite.errors import DGLError
from tests.patience import PATIENCE

MB = 1 << 20
BYTES = np.dtype(np.uint8)
GARBAGE = 0xAB


@pytest.fixture(autouse=True)
def garbage(monkeypatch):
    """Write into every block as soon as it comes back, and begin without free ones."""
    come_back = memory._PooledArray.__del__

    def overwrite(lent):
        if lent.block is not None:
            lent.block.bytes[:] = GARBAGE
        come_back(lent)

    monkeypatch.setattr(memory._PooledArray, "__del__", overwrite)
    monkeypatch.setattr(memory, "IDLE", 1e9)  # on a busy machine, ten seconds may pass between two lines
    gc.collect()
    dglite.empty_cache()


@pytest.fixture
def small(monkeypatch):
    """Let the pool be for tensors of all sizes."""
    for module in (torch_tensors, torch_memory):
        monkeypatch.setattr(module, "LARGE", 1)


def lend(of, nbytes, **options):
    lent = of.lend((nbytes,), BYTES, nbytes, **options)
    return None if lent is None else lent.view(np.ndarray)


def address(array):
    return array.__array_interface__["data"][0]


def run(code, **environment):
    """Run a program; return what it printed and what it complained about."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


# -- one tensor at a time ----------------------------------------------------------------------------------------------
def results(name):
    """Return a function that makes tensors of 1 MB by a backend."""
    of = load(name)
    return lambda: of.empty((512, 512), "float32", of.cpu())


HOLDS = {
    "itself": lambda x: x,
    "a row": lambda x: x[3],
    "its storage": lambda x: x.untyped_storage(),
    "an array": lambda x: x.numpy(),
    "a view of an array": lambda x: x.numpy()[1:].reshape(-1)[::2],
    "a buffer": lambda x: memoryview(x.numpy()),
    "another dtype": lambda x: x.view(torch.int32)[7],
    "detached": lambda x: x.detach(),
    "a parameter": torch.nn.Parameter,
    "dlpack": torch.from_dlpack,
    "a saved tensor": lambda x: (x * torch.ones(512, requires_grad=True)).sum(),
    "a storage that was set": lambda x: torch.empty(0).set_(x.untyped_storage(), 5, (3,)),
    "a gradient": lambda x: setattr(leaf := torch.zeros(512, 512, requires_grad=True), "grad", x) or leaf,
}


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_memory_stays_while_anything_refers_to_it(hold):
    make = results("torch")
    held = hold(make())
    gc.collect()
    assert pool.free_bytes == 0
    other = make()
    del held
    gc.collect()
    assert pool.free_bytes == MB
    place = other.data_ptr()
    assert make().data_ptr() != place
    assert pool.free_bytes == MB, "and it was lent again"


@pytest.mark.parametrize("hold", [lambda x: x.data, lambda x: x.data[3:].T[1:], lambda x: memoryview(x.data)])
def test_arrays_of_numpys_backend_keep_memory(hold):
    held = hold(results("numpy")())
    gc.collect()
    assert pool.free_bytes == 0
    del held
    assert pool.free_bytes == MB


def test_what_is_made_of_the_arrays_own_class_never_comes_back_twice():
    lent = pool.lend((MB,), BYTES, MB)
    view, copied, loaded = lent[5:], lent.copy(), pickle.loads(pickle.dumps(lent))
    del lent, copied, loaded
    gc.collect()
    assert pool.free_bytes == 0
    del view
    assert pool.free_bytes == MB


def test_no_live_tensor_changes(small):
    """Random tensors of all dtypes, sizes and ways to be kept, and blocks that are overwritten when they come back."""
    chance, of, live = random.Random(0), load("torch"), []
    dtypes = "float32 float64 float16 bfloat16 int64 int32 uint8 bool".split()
    for number in range(3000):
        shape = (chance.randrange(1, 90), chance.choice((1, 16, 100)))
        x = chance.choice((of.empty, lambda *a: of.full(a[0], 0, *a[1:])))(shape, chance.choice(dtypes), of.cpu())
        assert x.shape == shape and x.is_contiguous() and x.data_ptr() % 64 == 0 and x._base is None
        value = number % 2 if x.dtype is torch.bool else number % 100
        x.fill_(value)
        kept = chance.choice((x, x[len(x) // 2 :], x.view(-1), x.t(), x.detach(), x.clone()))
        live.append((kept, value))
        if len(live) > 30 or chance.random() < 0.3:
            kept, value = live.pop(chance.randrange(len(live)))
            assert (kept == value).all()
        del x, kept
    starts = sorted((x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()) for x, _ in live)
    ends = {start: start + size for start, size in starts}
    assert all(ends[a] <= b for (a, _), (b, _) in pairwise(starts) if a != b)
    for kept, value in live:
        assert (kept == value).all()
    assert pool.new_blocks < pool.allocations / 2


def graph(width=8):
    g = dglite.rand_graph(50, 400)
    g.ndata["x"] = torch.rand(50, width, dtype=torch.float64, requires_grad=True)
    g.edata["w"] = torch.rand(400, 1, dtype=torch.float64, requires_grad=True)
    return g


@pytest.mark.parametrize("reduce", [fn.sum, fn.mean, fn.max])
def test_gradients_and_their_gradients(small, reduce):
    g = graph(2)

    def call(x, w):
        with g.local_scope():
            g.ndata["x"], g.edata["w"] = x, w
            g.update_all(fn.u_mul_e("x", "w", "m"), reduce("m", "h"))
            return g.ndata["h"]

    inputs = g.ndata["x"], g.edata["w"]
    before = pool.allocations
    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)
    assert pool.allocations > before


def test_products_of_layers(small):
    x, weight, bias = (torch.rand(shape, dtype=torch.float64, requires_grad=True) for shape in ((5, 3), (3, 4), (4,)))
    active, before = load("torch"), pool.allocations
    for inputs in ((x, weight, bias), (x, weight, None)):
        assert torch.allclose(active.product(*inputs), x @ weight + (0 if inputs[2] is None else bias), rtol=1e-14)
        assert torch.autograd.gradcheck(active.product, inputs)
        assert torch.autograd.gradgradcheck(active.product, inputs, fast_mode=True)
    with torch.no_grad():
        total = torch.rand(5, 4, dtype=torch.float64)
        written = total.clone()
        result = active.add_product(written, x, weight)
    assert result.data_ptr() == written.data_ptr() and torch.allclose(result, total + x @ weight)
    assert torch.equal(active.times(x.detach(), x.detach()[:, :1]), x * x[:, :1])
    assert pool.allocations > before
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert active.product(x.float(), weight.float(), None).dtype is torch.bfloat16
    with pytest.raises(RuntimeError, match="dtype"):
        active.product(x, weight.float(), None)


def test_attention_is_the_same_in_memory_used_before(small):
    g = dglite.rand_graph(50, 400)
    g = dglite.add_self_loop(g)
    layer, x = dglite.nn.GATConv(6, 5, 3), torch.rand(50, 6, requires_grad=True)
    results = []
    for _ in range(3):
        layer.zero_grad()
        (grad,) = torch.autograd.grad(layer(g, x).square().sum(), x)
        results.append(grad)
    assert all(torch.equal(results[0], grad) for grad in results)


def test_threads(small):
    g, wrong = graph(), []
    x = g.ndata["x"].detach()
    expected = dglite.ops.copy_u_sum(g, x)

    def work(factor):
        for _ in range(100):
            kept = [dglite.ops.copy_u_sum(g, x * factor) for _ in range(3)]
            wrong.extend(y for y in kept if not torch.allclose(y, expected * factor))

    threads = [threading.Thread(target=work, args=(float(factor),)) for factor in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_compiled_function_uses_the_pool(small):
    g = graph()
    before = pool.allocations

    @torch.compile(backend="aot_eager")
    def call(x):
        return dglite.ops.copy_u_sum(g, x * 2) + 1

    x = g.ndata["x"]
    for _ in range(2):
        y = call(x)
        (grad,) = torch.autograd.grad(y.sum(), x)
        assert torch.allclose(y, dglite.ops.copy_u_sum(g, x * 2) + 1)
        assert torch.allclose(grad, 2 * g.out_degrees()[:, None].double().expand(-1, 8))
    assert pool.allocations > before


def test_tensors_are_pickled_saved_and_shared():
    x = load("torch").empty((600, 500), "float32", "cpu").fill_(3)
    assert torch.equal(pickle.loads(pickle.dumps(x)), x)
    file = io.BytesIO()
    torch.save(x, file)
    assert len(file.getvalue()) < x.nbytes + 5000, "what the block has beyond the tensor is not saved"
    file.seek(0)
    assert torch.equal(torch.load(file), x)
    assert pool.free_bytes == 0
    x.share_memory_()
    assert x.is_shared() and (x == 3).all()
    assert pool.free_bytes > 0, "the values have moved"


class Filled(torch.utils.data.Dataset):
    """Of this module, since workers that are not forks of this process, as from Python 3.14 on, import it."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return load("torch").full((600, 500), i, "float32", "cpu")


def test_workers_of_torchs_loader():
    loader = torch.utils.data.DataLoader(Filled(), batch_size=None, num_workers=2)
    batches = list(loader)
    assert [int(x[5, 5]) for x in batches] == [0, 1, 2, 3] and all((x == x[0, 0]).all() for x in batches)


def test_what_becomes_smaller_and_what_becomes_larger():
    x = load("torch").empty((600, 500), "float32", "cpu").fill_(3)
    assert x.resize_(10, 10).sum() == 300
    with pytest.raises(RuntimeError, match="resiz"):  # as of every tensor made of an array
        x.resize_(10**6)


# -- blocks ------------------------------------------------------------------------------------------------------------
def test_blocks_are_shared_by_dtypes_and_nearly_full():
    of = load("torch")
    place = of.empty((1024, 512), "float32", "cpu").data_ptr()
    for shape, dtype in (((512, 512), "float64"), ((2048, 512), "bfloat16"), ((1 << 21,), "bool")):
        x = of.empty(shape, dtype, "cpu")
        assert x.data_ptr() == place and x.shape == shape
        del x
    for nbytes in (1, 4096, 4097, 10**5, 2**20, 2**20 + 1, 51_200_000, 2**30 + 5):
        assert nbytes <= rounded(nbytes) <= max(nbytes + nbytes // 8, nbytes + 4095)
        assert rounded(rounded(nbytes)) == rounded(nbytes)


def test_small_results_have_memory_of_torch():
    before = pool.allocations
    assert load("torch").empty((LARGE - 1,), "float32", "cpu").untyped_storage().resizable()
    assert pool.allocations == before


def test_a_block_that_is_too_small_makes_way(monkeypatch):
    monkeypatch.setattr(memory, "MIN_LIMIT", 0)
    own = Pool(lambda: 1 << 40)
    for nbytes in range(MB, 4 * MB, MB // 4):
        lend(own, nbytes)
    assert own.free_bytes <= 1.5 * 4 * MB


def test_no_more_is_kept_than_half_of_what_was_in_use():
    own = Pool(lambda: 1 << 40)
    held = [lend(own, 4 * MB) for _ in range(4)]
    del held
    for nbytes in (24 * MB, 48 * MB, 96 * MB):
        lend(own, nbytes)
        assert own.bytes_held <= 1.5 * nbytes
    assert own.peak == 96 * MB


def test_sizes_in_turns_keep_their_blocks():
    own = Pool(lambda: 1 << 40)
    for _ in range(5):
        first = lend(own, 10 * MB)
        del first
        held = lend(own, 16 * MB), lend(own, 2 * MB)
        del held
    assert own.new_blocks <= 5 and own.allocations == 15
    assert own.bytes_held <= 1.5 * own.peak


def test_small_blocks_of_all_sizes_stay():
    own, chance = Pool(lambda: 1 << 40), random.Random(0)
    for _ in range(300):
        lend(own, chance.randrange(MB // 16, MB), loose=True)
    assert own.new_blocks < 15 and own.bytes_held <= memory.MIN_LIMIT


def test_the_limit_holds():
    own = Pool(lambda: 10 * MB)
    first, second = lend(own, 4 * MB), lend(own, 4 * MB)
    assert lend(own, 4 * MB) is None and lend(own, 20 * MB) is None
    del first
    assert lend(own, 8 * MB) is None
    del second
    assert len(lend(own, 8 * MB)) == 8 * MB, "free blocks make room"
    assert own.bytes_held <= 10 * MB
    assert lend(Pool(lambda: 0), MB) is None


def test_without_a_pool_results_are_torchs():
    code = """
        import dglite, torch
        from dglite.backend import active
        x = active.empty((600, 600), "float32", "cpu")
        print(x.untyped_storage().resizable())
        print(dglite.memory_summary())
    """
    printed, _ = run(code, DGLITE_POOL="0", DGLITE_BACKEND="torch")
    assert printed.startswith("True") and "no pool" in printed


def test_idle_blocks_go_back():
    held = [lend(pool, MB), lend(pool, 8 * MB)]
    del held
    for block in pool.blocks():
        if block.size == MB:
            block.since -= 2 * memory.IDLE
    gc.collect()
    assert pool.free_bytes == 8 * MB
    for block in pool.blocks():
        block.since -= 2 * memory.IDLE
    pool._next_look = 0.0
    other = lend(pool, MB)
    assert pool.free_bytes == 0 and len(other) == MB


def test_empty_cache_gives_free_blocks_back():
    held = lend(pool, 2 * MB)
    lend(pool, 4 * MB)
    assert pool.free_bytes == 4 * MB
    dglite.empty_cache()
    assert pool.free_bytes == 0 and pool.bytes_in_use >= 2 * MB
    held[:] = 1


# -- memory that runs out ----------------------------------------------------------------------------------------------
def test_memory_that_is_short_is_given_back_and_asked_for_again(monkeypatch):
    room = [16 * MB]

    def new(size):
        if sum(block.size for block in own.blocks()) + size > room[0]:
            raise OSError(12, "Cannot allocate memory")
        return memory._mapped(size)

    own = Pool(lambda: 1 << 40, new)
    monkeypatch.setattr(memory, "pool", own)
    held = [lend(own, 4 * MB) for _ in range(3)]
    del held[1:]
    assert len(lend(own, 12 * MB)) == 12 * MB
    assert own.new_blocks == 4
    with pytest.raises(MemoryError, match=r"16\.0 MiB more.*still used take 4\.0 MiB.*dataload"):
        lend(own, 16 * MB)
    assert own.free_bytes == 0 and len(held[0]) == 4 * MB


def test_other_errors_stay_as_they_are():
    def fail():
        raise RuntimeError("no such device")

    with pytest.raises(RuntimeError, match="no such device"):
        memory.with_room(fail, MB)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
@pytest.mark.parametrize("size", ["", "0"])
def test_memory_that_runs_out_is_an_error_that_helps(size):
    code = """
        import resource, torch, dglite
        from dglite.backend import active
        kept = active.empty((1 << 22,), "float32", "cpu")
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (256 << 20),) * 2)
        try:
            active.empty((1 << 29,), "float32", "cpu")
        except MemoryError as error:
            print(error)
        print(len(active.empty((1 << 22,), "float32", "cpu")))
    """
    printed, _ = run(code, DGLITE_POOL=size, DGLITE_BACKEND="torch")
    assert "2.0 GiB more are needed" in printed and ("16.0 MiB" in printed) == (size == "")
    assert printed.splitlines()[-1] == str(1 << 22)


# -- processes ---------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_forked_process_writes_to_memory_of_its_own():
    code = """
        import os, numpy as np
        from dglite.backend.memory import pool
        make = lambda: pool.lend((1 << 20,), np.dtype("u1"), 1 << 20)
        held, free = make(), make()
        held[:] = 1
        del free
        child = os.fork()
        if child == 0:
            assert pool.free_bytes == 0, "those are the parent's"
            mine = make()
            mine[:] = 2
            held[:] = 3
            del held
            other = make()
            other[:] = 4
            os._exit(0 if (mine == 2).all() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert (held == 1).all() and pool.free_bytes == 1 << 20
    """
    run(code)


def test_the_interpreter_ends_quietly():
    code = """
        import torch, dglite, threading
        from dglite.backend import active
        kept = [active.empty((1 << 20,), "float32", "cpu") for _ in range(3)]
        dglite.kept = kept[0]
        torch.kept = kept[1][5:]
        cycle = [kept[2]]
        cycle.append(cycle)
        threading.Thread(target=lambda: active.empty((1 << 20,), "float32", "cpu")).start()
        g = dglite.rand_graph(100, 1000)
        y = dglite.ops.copy_u_sum(g, torch.rand(100, 4096, requires_grad=True))
    """
    assert run(code, DGLITE_BACKEND="torch")[1] == ""


def test_a_tensor_outlives_its_graph():
    g = dglite.rand_graph(300, 3000)
    x = torch.rand(300, 1000)
    y = dglite.ops.copy_u_sum(g, x)
    expected = y.clone()
    del g, x
    gc.collect()
    dglite.empty_cache()
    assert torch.equal(y, expected) and pool.bytes_in_use > 0


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_structure_keeps_its_memory_as_long_as_anything_needs_it(dtype):
    before = pool.bytes_in_use
    src, dst = torch.randint(1000, (2, 1 << 19), dtype=dtype)
    g = dglite.graph((src, dst), num_nodes=1000)
    assert pool.bytes_in_use >= before + 4 * MB, "ids are no longer in the pool; this test has nothing to see"
    ends, degrees = g.edges(), g.in_degrees()
    turned, csc = dglite.reverse(g), g.adj_tensors("csc")
    u, v, ids = g.in_edges(torch.arange(600), form="all")
    del g
    gc.collect()
    dglite.graph((dst, src), num_nodes=1000).edges()  # takes what came back
    assert torch.equal(ends[0], src) and torch.equal(ends[1], dst)
    assert torch.equal(turned.edges()[0], dst) and torch.equal(turned.out_degrees(), degrees)
    assert (
        torch.equal(csc[1], src[csc[2].long()]) and torch.equal(u, src[ids.long()]) and torch.equal(v, dst[ids.long()])
    )


# -- what is shown -----------------------------------------------------------------------------------------------------
def test_the_summary_tells_what_is_held():
    own = Pool(lambda: 1 << 30)
    held = lend(own, 3 * MB), lend(own, MB - 4096)
    lend(own, 3 * MB)
    assert own.summary().splitlines() == [
        "in use           4.0 MiB, 4.0 KiB more than requested",
        "free             3.0 MiB",
        "most in use      7.0 MiB",
        "limit            1.0 GiB",
        "allocations            3, 0.0% of them from reused memory",
        "       block    blocks    free",
        "     1.0 MiB         1       0",
        "     3.0 MiB         2       1",
    ]
    del held
    assert dglite.memory_summary().startswith("dglite's memory pool\nin use")


def test_a_limit_that_is_nonsense(monkeypatch):
    monkeypatch.setenv("DGLITE_POOL", "lots")
    with pytest.raises(DGLError, match=r"DGLITE_POOL='lots'.*expected bytes, such as 4G"):
        lend(Pool(memory.pool_limit), MB)
