"""Partitions that DGL 2.1 wrote, in tests/distributed/dgl_parts: of each edge its ends before, of each node its id."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from dglite import DGLError
from dglite.distributed import load_partition, load_partition_book
from dglite.distributed.dgl_parts import read_dgl_partition

WRITTEN = Path(__file__).parent / "dgl_parts"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(WRITTEN, tmp_path / "parts"))


@pytest.mark.parametrize(("name", "edges"), [("g", 14), ("h", 22)])
def test_all_parts_are_the_graph(folder, name, edges) -> None:
    graph, owners = read_dgl_partition(folder / name / f"{name}.json")
    assert graph.num_edges() == edges
    for src, etype, dst in graph.canonical_etypes:
        ends = torch.stack(graph.edges(etype=(src, etype, dst), order="eid"))
        old = torch.stack([graph.nodes[t].data["x"][i, 0].long() for t, i in zip((src, dst), ends, strict=True)], 1)
        assert torch.equal(old, graph.edges[src, etype, dst].data["ends"])
    for ntype in graph.ntypes:  # ids of the first part come first
        assert sorted(graph.nodes[ntype].data["x"][:, 0].tolist()) == list(range(graph.num_nodes(ntype)))
        assert torch.equal(owners[ntype], owners[ntype].sort().values)


@pytest.mark.parametrize("name", ["g", "h"])
def test_a_part_has_the_nodes_that_dgl_gave_it(folder, name) -> None:
    path = folder / name / f"{name}.json"
    ranges, num_edges = json.loads(path.read_text())["node_map"], 0
    for part in range(2):
        _, nodes, edges, book, graph_name, ntypes, _ = load_partition(path, part)
        assert graph_name == name
        for ntype in ntypes:
            first, last = ranges[ntype][part]
            assert book.map_to_homo_nid(book.partid2nids(part, ntype), ntype).tolist() == list(range(first, last))
            assert len(nodes[f"{ntype}/x"]) == last - first
        num_edges += sum(len(rows) for key, rows in edges.items() if key.endswith("/ends"))
    assert num_edges == sum(
        last - first for of in json.loads(path.read_text())["edge_map"].values() for first, last in of
    )
    book, *_ = load_partition_book(path, 1)
    assert book.partid == 1


def test_damage_is_named(folder) -> None:
    path = folder / "h" / "h.json"
    feats = folder / "h" / "part1" / "node_feat.dgl"
    feats.write_bytes(feats.read_bytes()[:-3])
    with pytest.raises(DGLError, match=r"node_feat\.dgl.*ends at byte"):
        load_partition(path, 0)
    fields = json.loads(path.read_text())
    del fields["part-1"]
    path.write_text(json.dumps(fields))
    with pytest.raises(DGLError, match=r"h\.json is damaged"):
        load_partition(path, 0)
    with pytest.raises(DGLError, match="not the JSON file"):
        read_dgl_partition(folder / "h" / "part0" / "graph.dgl")
