"""Graph files whose structure is compressed: the same graphs and the same samples, and errors that name the file."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import DataLoader, LaborSampler, NeighborSampler
from dglite.io import load_graphs, save_graphs
from dglite.structure import packed as packing
from dglite.structure.packed import PackedRows, pack_indices
from tests.io.damage import compressed

KINDS = {
    "one value": lambda rng: np.full(200, 7),
    "near": lambda rng: 1000 + rng.integers(0, 9, 1000),
    "any": lambda rng: rng.integers(0, 1 << 20, 1000),
    "few far": lambda rng: np.where(rng.random(1000) < 0.1, rng.integers(0, 1 << 30, 1000), rng.integers(0, 99, 1000)),
    "up to the largest": lambda rng: rng.integers(0, 1 << 32, 777, dtype=np.int64),
    "ends": lambda rng: np.array([0, (1 << 32) - 1] * 50),
    "none": lambda rng: np.empty(0, np.int64),
    "a block": lambda rng: np.arange(64),
    "a block and one": lambda rng: np.arange(65)[::-1].copy(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at_once", [1, 1 << 16])
def test_integers_come_back(kind: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_AT_ONCE", at_once)
    values = KINDS[kind](np.random.default_rng(0))
    packed = pack_indices(values, 1 << 32)
    assert packed.fit(len(values)) and not packed.fit(len(values) + 64)
    np.testing.assert_array_equal(packed.unpacked(len(values), 1 << 32, np.int64), values)
    scratch = pack_indices(values, 1 << 32, tmp_path)
    assert np.array_equal(scratch.words, packed.words) and np.array_equal(scratch.heads, packed.heads)
    assert packed.words.nbytes + packed.heads.nbytes <= 4 * len(values) + 12 * -(-len(values) // 64) + 12


def test_near_indices_take_few_bits() -> None:
    rng = np.random.default_rng(0)
    near = np.arange(64_000) // 64 * 50 + rng.integers(0, 100, 64_000)
    assert 8 * sum(x.nbytes for x in pack_indices(near, 1 << 30)[:2]) < 9 * len(near)


def graph(**options: Any) -> dglite.DGLGraph:
    dglite.seed(0)
    g = dglite.rand_power_law_graph(3000, 40_000, num_communities=60, homophily=0.9)
    g.edata["w"], g.edata["t"] = torch.rand(40_000) + 0.1, torch.arange(40_000) % 1000
    g.ndata["t"] = torch.full((3000,), 500)
    return g


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dglite.DGLGraph, dglite.DGLGraph]:
    folder = tmp_path_factory.mktemp("graphs")
    g = graph()
    src, dst = g.edges()
    order = torch.randperm(len(src), generator=torch.Generator().manual_seed(0))
    shuffled = dglite.graph((src[order], dst[order]), num_nodes=g.num_nodes())
    shuffled.ndata.update(g.ndata)
    shuffled.edata.update(g.edata)
    save_graphs(folder / "plain", shuffled, formats="csc")
    save_graphs(folder / "compressed", shuffled, compress=True)
    assert (folder / "compressed").stat().st_size < (folder / "plain").stat().st_size
    (plain,), _ = load_graphs(folder / "plain", mmap=True)
    (compressed,), _ = load_graphs(folder / "compressed", mmap=True)
    return plain, compressed


SAMPLERS = {
    "uniform": lambda g, seeds: dglite.sampling.sample_neighbors(g, seeds, 5),
    "all": lambda g, seeds: dglite.sampling.sample_neighbors(g, seeds, -1),
    "replace": lambda g, seeds: dglite.sampling.sample_neighbors(g, seeds, 5, replace=True),
    "weights": lambda g, seeds: dglite.sampling.sample_neighbors(g, seeds, 5, prob="w"),
    "excluded": lambda g, seeds: dglite.sampling.sample_neighbors(g, seeds, 5, exclude_edges=torch.arange(20_000)),
    "largest": lambda g, seeds: dglite.sampling.select_topk(g, 3, "w", seeds),
    "labor": lambda g, seeds: dglite.sampling.sample_labors(g, seeds, 5, importance_sampling=0)[0],
    "types": lambda g, seeds: dglite.sampling.sample_etype_neighbors(g, seeds, [0, 10_000, 40_000], [2, 3]),
    "block": lambda g, seeds: dglite.sampling.sample_neighbors_fused(g, seeds, 5),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_samples_are_the_same_and_nothing_else_is_decoded(name: str, graphs: tuple) -> None:
    results = []
    for g in graphs:
        dglite.seed(3)
        results.append(SAMPLERS[name](g, torch.arange(0, 3000, 7)))
    plain, packed = results
    assert plain.num_edges() and all(torch.equal(x, y) for x, y in zip(plain.edges(), packed.edges(), strict=True))
    assert torch.equal(plain.edata[dglite.EID], packed.edata[dglite.EID])
    stored = graphs[1].adjacencies[0].csc()
    assert isinstance(stored, PackedRows) and stored._decoded is None


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "make",
    [
        lambda: NeighborSampler([5, 4]),
        lambda: NeighborSampler([-1, 3], prob="w"),
        lambda: NeighborSampler([5], time="t", edge_time="t"),
        lambda: LaborSampler([5, 4]),
    ],
    ids=["uniform", "weights", "time", "labor"],
)
def test_batches_are_the_same(make: Any, workers: int, graphs: tuple) -> None:
    batches = []
    for g in graphs:
        dglite.seed(1)
        loader = DataLoader(g, torch.arange(2000), make(), batch_size=200, shuffle=True, num_workers=workers)
        batches.append([(inputs, blocks) for inputs, _, blocks in loader])
    for (inputs, blocks), (others, packed) in zip(*batches, strict=True):
        assert torch.equal(inputs, others)
        for block, other in zip(blocks, packed, strict=True):
            assert torch.equal(block.edata[dglite.EID], other.edata[dglite.EID])
            assert all(torch.equal(x, y) for x, y in zip(block.edges(), other.edges(), strict=True))
    assert graphs[1].adjacencies[0].csc()._decoded is None


def test_everything_else_decodes_once(tmp_path: Path) -> None:
    g = graph()
    save_graphs(tmp_path / "g", [g], compress=True, formats=["csr", "csc"])
    (mapped,), _ = load_graphs(tmp_path / "g", mmap=True)
    (checked,), _ = load_graphs(tmp_path / "g")
    for h in (checked, mapped, pickle.loads(pickle.dumps(mapped))):
        assert all(torch.equal(x, y) for x, y in zip(g.edges(order="eid"), h.edges(order="eid"), strict=True))
        assert torch.equal(h.in_degrees(), g.in_degrees()) and torch.equal(h.edata["w"], g.edata["w"])
        x = torch.rand(3000, 4)
        assert torch.equal(dglite.ops.copy_u_sum(g, x), dglite.ops.copy_u_sum(h, x))
    save_graphs(tmp_path / "again", mapped, compress=True)
    assert torch.equal(load_graphs(tmp_path / "again")[0][0].edges()[0], g.edges()[0])


def test_several_graphs_and_types(tmp_path: Path) -> None:
    small = [dglite.rand_graph(20, 100 + i) for i in range(3)]
    typed = dglite.heterograph({("a", "r", "b"): ([0, 1, 5], [2, 2, 0]), ("b", "s", "a"): ([1, 0], [0, 3])})
    empty = dglite.graph(([], []), num_nodes=0)
    save_graphs(tmp_path / "g", [*small, typed, empty], {"y": torch.arange(5)}, compress=True)
    for mmap in (False, True):
        loaded, labels = load_graphs(tmp_path / "g", mmap=mmap)
        assert torch.equal(labels["y"], torch.arange(5))
        for g, h in zip([*small, typed, empty], loaded, strict=True):
            assert h.num_nodes() == g.num_nodes()
            for etype in g.canonical_etypes:
                ends = [x.edges(etype=etype, order="eid") for x in (g, h)]
                assert all(torch.equal(x, y) for x, y in zip(*ends, strict=True))


def test_what_is_not_compressed(tmp_path: Path) -> None:
    g = dglite.rand_graph(5, 9)
    with pytest.raises(DGLError, match="coo has lists of edges"):
        save_graphs(tmp_path / "g", g, formats="coo", compress=True)
    with pytest.raises(DGLError, match="files of DGL are not compressed"):
        save_graphs(tmp_path / "g", g, format="dgl", compress=True)
    with pytest.raises(DGLError, match=r"below 2\*\*32"):
        pack_indices(np.arange(3), (1 << 32) + 1)
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_named_and_never_read_outside(tmp_path: Path) -> None:
    path = tmp_path / "damaged.dgl"
    content, rng = compressed(), np.random.default_rng(0)
    whole = load_graphs_of(path, content)
    errors = 0
    for _ in range(300):
        data = bytearray(content)
        at = int(rng.integers(len(data) // 3, len(data)))
        data[at : at + 8] = rng.bytes(8)
        path.write_bytes(data)
        try:
            (g,), _ = load_graphs(path, mmap=True)
            dglite.seed(0)
            sampled = dglite.sampling.sample_neighbors(g, torch.arange(whole.num_nodes()), -1)
            src, _ = sampled.edges()
            assert len(src) == 0 or int(src.max()) < whole.num_nodes()
        except DGLError as error:
            errors += 1
            assert "damaged.dgl" in str(error)
    assert errors > 20


def load_graphs_of(path: Path, content: bytes) -> dglite.DGLGraph:
    path.write_bytes(content)
    return load_graphs(path)[0][0]


@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_a_file_that_is_cut_short_is_refused(part: float, tmp_path: Path) -> None:
    path, content = tmp_path / "cut.dgl", compressed()
    path.write_bytes(content[: int(len(content) * part)])
    for mmap in (True, False):
        with pytest.raises(DGLError, match=r"cut\.dgl"):
            load_graphs(path, mmap=mmap)
