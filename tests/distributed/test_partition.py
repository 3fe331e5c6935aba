"""Parts of a graph on the disk: what is owned, in which order, and what is refused."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
import torch

import dglite
from dglite.distributed import PartitionBook, load_partition, load_partition_book, partition_graph, scratch
from dglite.distributed.__main__ import main
from dglite.distributed.assign import assign_parts
from dglite.distributed.config import PartConfig
from dglite.distributed.parts import load_topology
from dglite.errors import DGLError
from tests.distributed.graphs import hetero, homogeneous


def cut(tmp_path, g, num_parts=3, method="random", **options):
    mapping = partition_graph(g, "g", num_parts, tmp_path, part_method=method, return_mapping=True, **options)
    return tmp_path / "g.json", mapping


@pytest.mark.parametrize("method", ["random", "locality"])
def test_parts_together_are_the_graph(tmp_path, method) -> None:
    g = homogeneous()
    path, (nodes, edges) = cut(tmp_path, g, method=method)
    found_nodes, found_edges = [], []
    for part in range(3):
        own, node_feats, edge_feats, book, name, _, _ = load_partition(path, part)
        inner = own.ndata["inner_node"].bool()
        ids = own.ndata[dglite.NID]
        assert torch.equal(ids[inner], book.partid2nids(part)) and name == "g"
        old = nodes[ids[inner]]
        assert torch.equal(node_feats["_N/x"], g.ndata["x"][old]) and old.equal(old.sort().values)
        src, dst = own.edges()
        old_edges = edges[own.edata[dglite.EID]]
        assert torch.equal(g.find_edges(old_edges)[0], nodes[ids[src]])
        assert torch.equal(g.find_edges(old_edges)[1], nodes[ids[dst]])
        assert torch.equal(edge_feats["_N:_E:_N/w"], g.edata["w"][old_edges])
        assert inner[dst].all() and own.num_edges() == g.in_degrees(old).sum()
        assert (book.nid2partid(ids[~inner]) != part).all()
        found_nodes.append(old), found_edges.append(old_edges)
    assert torch.equal(torch.cat(found_nodes).sort().values, torch.arange(g.num_nodes()))
    assert torch.equal(torch.cat(found_edges).sort().values, torch.arange(g.num_edges()))


def test_there_is_a_part_for_each_trainer_of_each_machine(tmp_path) -> None:
    options = {"objtype": "cut", "graph_formats": ["csc"], "use_graphbolt": True, "reshuffle": True}
    path, _ = cut(tmp_path, homogeneous(), 2, num_trainers_per_machine=2, **options)
    assert PartConfig.read(path).num_parts == 4
    assert load_partition(path, 3, use_graphbolt=True)[3].num_partitions() == 4
    with pytest.raises(DGLError, match="give all parts"):
        cut(tmp_path, homogeneous(), 2, method=torch.zeros(60, dtype=torch.int64), num_trainers_per_machine=2)


def test_in_edges_keep_their_order(tmp_path) -> None:
    g = homogeneous()
    path, (nodes, edges) = cut(tmp_path, g)
    whole = load_topology(PartConfig.read(path))
    assert torch.equal(whole.ndata["orig_id"], nodes) and torch.equal(whole.edata["orig_id"], edges)
    for new, old in enumerate(nodes.tolist()):
        ids = whole.in_edges([new], form="eid")
        assert torch.equal(edges[ids], g.in_edges([old], form="eid"))
    assert torch.equal(whole.in_edges(whole.nodes(), form="eid"), torch.arange(g.num_edges()))


def test_each_type_has_a_range_of_its_own(tmp_path) -> None:
    g = hetero()
    path, (nodes, edges) = cut(tmp_path, g, 2)
    book, _, ntypes, etypes = load_partition_book(path, 1)
    assert (ntypes, etypes) == (g.ntypes, g.canonical_etypes)
    for ntype in ntypes:
        assert torch.equal(nodes[ntype].sort().values, torch.arange(g.num_nodes(ntype)))
        counts = torch.bincount(book.nid2partid(torch.arange(g.num_nodes(ntype)), ntype), minlength=2)
        assert (counts[0] - counts[1]).abs() <= 1
    whole = load_topology(PartConfig.read(path))
    for etype in etypes:
        src, dst = whole.edges(etype=etype, order="eid")
        old = g.find_edges(edges[etype], etype=etype)
        assert torch.equal(nodes[etype[0]][src], old[0]) and torch.equal(nodes[etype[2]][dst], old[1])
        assert torch.equal(book.eid2partid(torch.arange(len(src)), etype), book.nid2partid(dst, etype[2]))


def test_a_halo_of_two_hops(tmp_path) -> None:
    chain = dglite.graph((range(5), range(1, 6)))
    path, _ = cut(tmp_path, chain, 2, torch.tensor([0, 0, 0, 0, 1, 1]), num_hops=2)
    own, *_ = load_partition(path, 1)
    assert own.ndata[dglite.NID].tolist() == [4, 5, 2, 3] and own.ndata["part_id"].tolist() == [1, 1, 0, 0]
    assert sorted(own.edata[dglite.EID].tolist()) == [2, 3, 4]
    assert own.edata["inner_edge"].tolist() == [1, 1, 0]


def test_a_stream_cuts_few_edges_and_balances() -> None:
    rng = np.random.default_rng(0)
    block = np.repeat(np.arange(4), 250)[rng.permutation(1000)]
    src = np.repeat(np.arange(1000), 8)
    same = np.array([rng.choice(np.flatnonzero(block == block[u])) for u in src])
    g = dglite.add_reverse_edges(dglite.graph((src, np.where(rng.random(len(src)) < 0.9, same, rng.permutation(src)))))
    (parts,) = assign_parts(g, 4, "locality")
    ends = [parts[x.numpy()] for x in g.edges()]
    assert (ends[0] != ends[1]).mean() < 0.4 and np.bincount(parts).max() <= 1.05 * 250
    mask = np.arange(1000) < 100
    (parts,) = assign_parts(g, 4, "locality", torch.from_numpy(mask.astype(int)), True)
    assert np.bincount(parts[mask], minlength=4).max() <= 40
    (edges,) = [np.bincount(parts, g.in_degrees().numpy(), 4)]
    assert edges.max() <= 1.3 * edges.mean()


def test_the_table_counts_what_is_cut(tmp_path, capsys) -> None:
    g = dglite.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
    cut(tmp_path, g, 2, torch.tensor([0, 0, 1, 1]))
    assert "50.0% of edges cut" in capsys.readouterr().out
    sizes = PartConfig.read(tmp_path / "g.json").sizes
    assert sizes == [{"nodes": 2, "edges": 2, "cut": 1, "halo": 1}] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_parts": 21}, "21 parts for 20 nodes"),
        ({"num_parts": 0}, "num_parts"),
        ({"method": torch.zeros(20, dtype=torch.long)}, "part 1 of 3 has no nodes"),
        ({"method": torch.full((20,), 3)}, "gives part 3; there are 3"),
        ({"method": torch.zeros(20)}, "integers"),
        ({"method": torch.zeros(5, dtype=torch.long)}, "shape"),
        ({"method": "magic"}, "part_method='magic'"),
        ({"balance_ntypes": torch.zeros(3, dtype=torch.long)}, "balance_ntypes"),
    ],
)
def test_what_cannot_be_cut_is_refused_before_anything_is_written(tmp_path, options, message) -> None:
    with pytest.raises(DGLError, match=message):
        cut(tmp_path / "new", homogeneous(), **options)
    assert not (tmp_path / "new").exists()


def test_damage_is_found(tmp_path) -> None:
    path, _ = cut(tmp_path, homogeneous())
    feats = tmp_path / "part1" / "node_feats.safetensors"
    whole = feats.read_bytes()
    feats.write_bytes(whole[:-1])
    with pytest.raises(DGLError, match="bytes, but"):
        load_partition(path, 1)
    feats.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert main(["verify", str(path)]) == 1
    feats.unlink()
    with pytest.raises(DGLError, match=r"node_feats.safetensors is missing"):
        load_partition(path, 1)
    feats.write_bytes(whole)
    assert main(["verify", str(path)]) == 0
    with pytest.raises(DGLError, match="part 3 does not exist"):
        load_partition(path, 3)
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"num_hops": 7}))
    with pytest.raises(DGLError, match="hash does not fit"):
        load_partition_book(path, 0)
    path.write_text(json.dumps(fields | {"version": 99}))
    with pytest.raises(DGLError, match="version 99"):
        load_partition_book(path, 0)
    path.write_text("{}")
    with pytest.raises(DGLError, match="damaged"):
        load_partition_book(path, 0)


def places(value, path=()):
    """Return the way to each value in a JSON text, itself included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, x in inner for place in places(x, (*path, key)))]


def replaced(value, path, by):
    """Return a JSON value with another one at a place."""
    if not path:
        return by
    copied = value.copy()
    copied[path[0]] = replaced(value[path[0]], path[1:], by)
    return copied


@pytest.mark.parametrize("by", [None, -1, 1.5, "x", [], {}, [[]], 1 << 80, float("nan"), True], ids=str)
def test_a_damaged_description_is_named(tmp_path, by) -> None:
    path, _ = cut(tmp_path, homogeneous())
    fields = json.loads(path.read_text())
    for place in places(fields):
        damaged = replaced(fields, place, by)
        if damaged != fields:
            path.write_text(json.dumps(damaged))
            with pytest.raises(DGLError, match=r"g\.json"):
                load_partition_book(path, 0)
    for text in ("", "[" * 5000, '{"version": 1', "\x00", "3"):
        path.write_text(text)
        with pytest.raises(DGLError, match=r"g\.json"):
            load_partition_book(path, 0)


def test_a_book_names_owners_and_refuses_other_ids() -> None:
    book = PartitionBook(0, {"_N": [0, 2, 2, 5]}, {("_N", "_E", "_N"): [0, 4, 4, 9]})
    assert book.nid2partid([0, 1, 2, 4]).tolist() == [0, 0, 2, 2] and book.eid2partid([4]).tolist() == [2]
    assert book.nid2localnid([2, 4], 2).tolist() == [0, 2] and book.partid2nids(1).tolist() == []
    assert book.metadata()[2] == {"machine_id": 2, "num_nodes": 3, "num_edges": 5}
    with pytest.raises(DGLError, match="belongs to part 0, not to part 2"):
        book.nid2localnid([4, 1], 2)
    with pytest.raises(DGLError, match="does not exist"):
        book.nid2partid([5])
    with pytest.raises(DGLError, match="integers"):
        book.nid2partid(torch.zeros(1))
    with pytest.raises(DGLError, match="no nodes of type 'user'"):
        book.partid2nids(0, "user")


def test_the_command_cuts_a_file(tmp_path, capsys) -> None:
    dglite.save_graphs(tmp_path / "g.bin", homogeneous())
    options = ["--parts", "2", "--method", "locality", "--name", "ring"]
    assert main(["partition", str(tmp_path / "g.bin"), str(tmp_path / "out"), *options]) == 0
    assert load_partition_book(tmp_path / "out" / "ring.json", 0)[1] == "ring"
    assert main(["partition", str(tmp_path / "no.bin"), str(tmp_path / "out"), *options]) == 1
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("g", [homogeneous(), hetero(), dglite.graph(([], []), num_nodes=4)])
def test_edges_that_are_too_many_for_memory_are_cut_the_same(tmp_path, monkeypatch, g) -> None:
    wide, results, memmap = tmp_path / "wide", [], np.memmap
    dglite.seed(1)
    partition_graph(g, "g", 2, tmp_path / "narrow", part_method="random")
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    monkeypatch.setattr(scratch, "EDGES_AT_A_TIME", 7)
    monkeypatch.setattr(np, "memmap", lambda *args, **options: results.append(args) or memmap(*args, **options))
    dglite.seed(1)
    partition_graph(g, "g", 2, wide, part_method="random")
    assert bool(results) == (g.num_edges() > 0)
    assert PartConfig.read(wide / "g.json").hash == PartConfig.read(tmp_path / "narrow" / "g.json").hash
    assert {path.name for path in wide.iterdir()} == {"g.json", "g.graph", "part0", "part1"}  # and nothing else


def test_the_command_cuts_edges_on_the_disk(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    monkeypatch.setattr(scratch, "EDGES_AT_A_TIME", 7)
    g, options = homogeneous(), ["--parts", "2", "--method", "locality"]
    src, dst = g.edges()
    np.save(tmp_path / "edges.npy", torch.stack([src, dst]).numpy().astype(np.int32))
    assert main(["partition", str(tmp_path / "edges.npy"), str(tmp_path / "out"), *options]) == 0
    cut(tmp_path, dglite.graph((src, dst)), 2, "locality")  # without the isolated nodes of highest ids
    for path in ("g.graph", "part0/structure.safetensors", "part1/structure.safetensors"):
        name = path.replace("g.graph", "graph.graph")
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / path).read_bytes()
    for wrong, message in (
        (np.zeros((3, 2), np.int64), "expected integers of shape"),
        (np.zeros((2, 3)), "expected integers of shape"),
        (np.array([[0, -1], [1, 1]]), "negative id among edges 0 to 1"),
    ):
        np.save(tmp_path / "wrong.npy", wrong)
        assert main(["partition", str(tmp_path / "wrong.npy"), str(tmp_path / "no"), *options]) == 1
        assert message in capsys.readouterr().err
    assert main(["partition", str(tmp_path / "none.npy"), str(tmp_path / "no"), *options]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_a_stream_keeps_numbers_by_node_only(tmp_path) -> None:
    rng = np.random.default_rng(0)
    g = dglite.graph((rng.integers(0, 1000, 200_000), rng.integers(0, 1000, 200_000)))
    dglite.save_graphs(tmp_path / "g.bin", [g], formats="csc")
    (mapped,), _ = dglite.load_graphs(tmp_path / "g.bin", mmap=True)
    mapped.adjacencies[0].csc()
    assign_parts(mapped, 4, "locality")  # compiles
    tracemalloc.start()
    assign_parts(mapped, 4, "locality")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 1000  # a byte for each edge would be twice that
