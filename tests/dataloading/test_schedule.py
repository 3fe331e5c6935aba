"""Features whose reads are planned before an epoch: the cache is the best there is, and batches are the same."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

import dglite
from dglite import DGLError
from dglite.dataloading import (
    DataLoader,
    MappedFeatures,
    NeighborSampler,
    ScheduledFeatures,
    TensorFeatures,
    as_edge_prediction_sampler,
    negative_sampler,
)
from dglite.dataloading.belady import planned_reads
from tests.patience import PATIENCE

torch = pytest.importorskip("torch")

NODES, WIDTH, BATCHES = 2000, 256, 20


def fewest_reads(requests, capacity):
    """Return the fewest reads by a search over all that a cache could keep: shortest paths over sets."""
    states = {frozenset(): 0}
    for rows in requests:
        following = {}
        for cached, cost in states.items():
            reads = cost + len(rows - cached)
            offered = sorted(cached | rows)
            for mask in range(1 << len(offered)):
                stays = frozenset(x for i, x in enumerate(offered) if mask >> i & 1)
                if len(stays) <= capacity and reads < following.get(stays, 1 << 30):
                    following[stays] = reads
        states = following
    return min(states.values())


def furthest_first(requests, capacity):
    """Return the reads of a cache that drops what is needed last, in sets: Belady's rule as it is told."""
    uses = {}
    for number, rows in enumerate(requests):
        for row in rows:
            uses.setdefault(row, []).append(number)
    cached, reads = set(), 0
    for number, rows in enumerate(requests):
        reads += len(rows - cached)
        later = {row: min((u for u in uses[row] if u > number), default=None) for row in cached | rows}
        candidates = sorted((at, row) for row, at in later.items() if at is not None)
        cached = {row for _, row in candidates[:capacity]}
    return reads


@pytest.mark.parametrize("seed", range(12))
def test_no_cache_reads_less(seed):
    rng = np.random.default_rng(seed)
    requests = [rng.choice(6, rng.integers(0, 5), replace=False) for _ in range(6)]
    for capacity in range(5):
        reads, num_slots = planned_reads([np.sort(rows) for rows in requests], capacity)
        assert num_slots <= capacity
        count = sum(int((step.before < 0).sum()) for step in reads)
        assert count == fewest_reads([set(rows.tolist()) for rows in requests], capacity)


def test_slots_hold_what_is_looked_for_in_them():
    rng = np.random.default_rng(0)
    requests = [np.sort(rng.choice(300, 100, replace=False)) for _ in range(40)]
    for capacity in (0, 1, 70, 1000):
        reads, num_slots = planned_reads(requests, capacity)
        cache = np.full(num_slots, -1)
        for rows, (planned, before, after) in zip(requests, reads, strict=True):
            assert np.array_equal(planned, rows)
            assert np.array_equal(cache[before[before >= 0]], rows[before >= 0])
            cache[after[after >= 0]] = rows[after >= 0]
        assert num_slots <= capacity
        sets = [set(rows.tolist()) for rows in requests]
        assert sum(int((step.before < 0).sum()) for step in reads) == furthest_first(sets, capacity)


def graph():
    dglite.seed(0)
    return dglite.rand_power_law_graph(NODES, 20_000)


def inputs():
    return np.random.default_rng(0).standard_normal((NODES, WIDTH)).astype(np.float32)


def loader(store, workers=0, **options):
    sampler = NeighborSampler([5, 5], prefetch_node_feats={"x": store}, prefetch_labels=["y"])
    g = graph()
    g.ndata["y"] = torch.arange(NODES)
    generator = torch.Generator().manual_seed(0)
    options = {"batch_size": NODES // BATCHES, "shuffle": True, **options}
    return DataLoader(g, torch.arange(NODES), sampler, num_workers=workers, generator=generator, **options)


def losses(store, workers, epochs=2, **options):
    """Return the losses of a linear model trained over the batches."""
    torch.manual_seed(0)
    model = torch.nn.Linear(WIDTH, 1)
    optimizer, values = torch.optim.SGD(model.parameters(), 0.01), []
    batches = loader(store, workers, **options)
    for _ in range(epochs):
        for nodes, _, blocks in batches:
            assert torch.equal(blocks[0].srcdata["x"], torch.from_numpy(inputs())[nodes])
            assert torch.equal(blocks[-1].dstdata["y"], blocks[-1].dstdata[dglite.NID])
            loss = model(blocks[0].srcdata["x"]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            values.append(loss.item())
    return values


def mapped(tmp_path):
    np.save(tmp_path / "x.npy", inputs())
    return MappedFeatures(tmp_path / "x.npy")


def least_memory(workers, together=None):
    """Return the least limit that an error names."""
    with pytest.raises(DGLError, match="is too little") as error:
        next(iter(loader(ScheduledFeatures(TensorFeatures(inputs()), 1, together), workers)))
    return int(re.search(r"([0-9,]+) bytes are needed", str(error.value))[1].replace(",", ""))


@pytest.mark.parametrize(
    ("times", "workers", "together"),
    [(1.1, 0, None), (1.1, 3, None), (1.3, 1, None), (1000, 3, None), (1.1, 3, 3), (1.3, 0, 3), (1000, 4, 1)],
)
def test_losses_are_the_same_for_any_limit_workers_and_plan(tmp_path, times, workers, together):
    store = ScheduledFeatures(mapped(tmp_path), int(times * least_memory(workers, together)), together)
    assert losses(store, workers) == losses(TensorFeatures(inputs()), 0)
    assert store.hits > 0 or together == 1


def test_the_rate_of_hits_is_beladys(tmp_path):
    plain = loader(TensorFeatures(inputs()))
    requests = [set(nodes.tolist()) for nodes, _, _ in plain]
    total = sum(map(len, requests))
    rates = []
    for memory in (least_memory(2), 1.2 * least_memory(2), 1 << 30):
        store = ScheduledFeatures(mapped(tmp_path), int(memory))
        for _ in loader(store, workers=2):
            pass
        reads = furthest_first(requests, store.capacity)
        assert (store.misses, store.planned_reads, store.hits) == (reads, reads, total - reads)
        assert store.hit_rate == 1 - reads / total
        assert store.planned == total
        assert store.distinct == len(set().union(*requests))
        assert f"reads {reads:,} of {total:,} rows, the least possible" in repr(store)
        rates.append(store.hit_rate)
    assert rates[0] < rates[1] < rates[2]
    assert store.misses == store.distinct


def test_a_limit_below_a_batch_is_an_error_that_says_what_is_needed(tmp_path):
    store = ScheduledFeatures(mapped(tmp_path), "40 kB")
    with pytest.raises(DGLError, match=r"memory=40\.0 KiB is too little: .* for 2 batches of up to .* rows that"):
        next(iter(loader(store)))
    assert (store.hits, store.misses) == (0, 0)
    store.memory = 1 << 30  # nothing of the failed plan is left
    assert losses(store, 0, 1) == losses(TensorFeatures(inputs()), 0, 1)
    for memory, message in (("a lot", "such as"), (0, "memory"), (-5, "memory")):
        with pytest.raises(DGLError, match=message):
            ScheduledFeatures(TensorFeatures(inputs()), memory)
    with pytest.raises(DGLError, match="batches"):
        ScheduledFeatures(TensorFeatures(inputs()), None, 0)
    with pytest.raises(DGLError, match="got str"):
        ScheduledFeatures("x.npy")


class Forgetful(NeighborSampler):
    """Draws from numbers that are not the loader's."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.numbers = np.random.default_rng(0)

    def sample_blocks(self, g, seed_nodes, exclude_eids=None):
        return super().sample_blocks(g, self.numbers.choice(NODES, 10, replace=False), exclude_eids)


@pytest.mark.parametrize("workers", [0, 3])
def test_a_sampler_that_cannot_draw_twice_is_an_error(workers):
    store = ScheduledFeatures(TensorFeatures(inputs()))
    sampler = Forgetful([5], prefetch_node_feats={"x": store})
    with pytest.raises(DGLError, match="asks for other rows than when the epoch was planned"):
        list(DataLoader(graph(), torch.arange(NODES), sampler, batch_size=100, num_workers=workers))


class Broken:
    """A store whose file fails at some rows."""

    num_rows = NODES

    def __init__(self, row):
        self.row = row

    def rows(self, ids, out=None):
        if self.row in np.asarray(ids):
            raise OSError("the disk is gone")
        return torch.from_numpy(inputs()[np.asarray(ids)])


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_a_batch_that_fails_ends_the_epoch_in_its_turn(workers):
    plain = [nodes.tolist() for nodes, _, _ in loader(TensorFeatures(inputs()))]
    row = next(iter(set(plain[12]).difference(*plain[:12])))
    batches, count = iter(loader(ScheduledFeatures(Broken(row)), workers)), 0
    threads = threading.active_count()
    with pytest.raises(OSError, match="the disk is gone"):
        for _ in batches:
            count += 1
    assert count == 12
    deadline = threading.Event()
    for _ in range(int(PATIENCE * 100)):
        if threading.active_count() <= threads - workers:
            break
        deadline.wait(0.01)
    assert threading.active_count() <= threads - workers


def test_an_epoch_goes_on_where_it_was_left(tmp_path):
    store = ScheduledFeatures(mapped(tmp_path), batches=7)
    first = loader(store, 2)
    batches = iter(first)
    for _ in range(5):
        next(batches)
    state = first.state_dict()
    batches.close()
    rest, plain = loader(store, 1), loader(TensorFeatures(inputs()))
    rest.load_state_dict(state)
    plain.load_state_dict(state)
    results = [[blocks[0].srcdata["x"] for _, _, blocks in x] for x in (rest, plain)]
    assert len(results[0]) == BATCHES - 5
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_edges_types_and_several_requests_of_a_batch():
    g = dglite.heterograph(
        {("user", "buys", "item"): ([0, 1, 2, 2], [0, 1, 1, 2]), ("item", "of", "user"): ([0, 1, 1, 2], [0, 1, 2, 2])}
    )
    x = {"user": np.arange(6.0).reshape(3, 2), "item": -np.arange(3)}
    weight = np.arange(4)[:, None]
    plain = {ntype: TensorFeatures(rows) for ntype, rows in x.items()}
    stores = {ntype: ScheduledFeatures(store, "1 MB") for ntype, store in plain.items()}
    edges = ScheduledFeatures(TensorFeatures(weight), "1 MB")
    nodes = NeighborSampler(
        [2, 2],
        prefetch_node_feats={ntype: {"x": store} for ntype, store in stores.items()},
        prefetch_edge_feats={"buys": {"w": edges}, "of": {"w": edges}},
    )
    sampler = as_edge_prediction_sampler(nodes, negative_sampler=negative_sampler.Uniform(1))
    for _, _, _, blocks in DataLoader(g, {"buys": [0, 1, 2, 3]}, sampler, batch_size=2, num_workers=2):
        for ntype, rows in x.items():
            part = blocks[0].srcnodes[ntype].data
            assert np.array_equal(part["x"].numpy(), rows[part[dglite.NID].numpy()])
        for block in blocks:
            for etype in ("buys", "of"):
                part = block.edges[etype].data
                assert np.array_equal(part["w"].numpy(), weight[part[dglite.EID].numpy()])
    assert edges.hits + edges.misses == edges.planned


def test_rows_elsewhere_come_from_the_store(tmp_path):
    store = ScheduledFeatures(mapped(tmp_path))
    assert np.array_equal(store.rows([3, 3, 1]).numpy(), inputs()[[3, 3, 1]])
    out = torch.empty(2, WIDTH)
    assert store.rows([5, 5], out) is out
    assert (store.hits, store.misses, store.hit_rate) == (0, 0, 0.0)
    with pytest.raises(DGLError, match="row"):
        store.rows([NODES])
