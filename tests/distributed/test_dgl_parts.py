"""Partitions that DGL 2.1 wrote, in tests/distributed/dgl_parts: of each edge its ends before, of each node its id."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from dglite import EID, NID, DGLError
from dglite.distributed import load_partition, load_partition_book
from dglite.distributed.dgl_parts import read_dgl_partition
from dglite.io import load_graphs
from tests.io.test_graphbolt_file import graphbolt_saves

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


def _for_graphbolt(path: Path, with_edge_ids: bool = True) -> None:
    """Let a partition have GraphBolt's form alone, as ``dgl_partition_to_graphbolt`` writes it."""
    fields = json.loads(path.read_text())
    for part in range(int(fields["num_parts"])):
        files = fields[f"part-{part}"]
        graph = load_graphs(path.parent / files.pop("part_graph"))[0][0]
        indptr, indices, order = graph.adj_tensors("csc")
        order = order.long() if len(order) else torch.arange(len(indices))
        groups = {
            "independent_tensors": {"version_number": torch.tensor([6199]), "indptr": indptr, "indices": indices},
            "node_attributes": {NID: graph.ndata[NID]},
            "edge_attributes": {EID: graph.edata[EID][order]} if with_edge_ids else {"w": torch.ones(len(indices))},
        }
        files["part_graph_graphbolt"] = f"part{part}/fused_csc_sampling_graph.pt"
        graphbolt_saves(path.parent / files["part_graph_graphbolt"], groups)
    fields |= {"node_map_dtype": "int64", "edge_map_dtype": "int64"}
    path.write_text(json.dumps(fields))


@pytest.mark.parametrize("name", ["g", "h"])
def test_a_partition_for_graphbolt_is_the_same_graph(folder, name) -> None:
    path = folder / name / f"{name}.json"
    graph, owners = read_dgl_partition(path)
    _for_graphbolt(path)
    again, same_owners = read_dgl_partition(path)
    assert all(torch.equal(owners[ntype], same_owners[ntype]) for ntype in graph.ntypes)
    for etype in graph.canonical_etypes:
        for x, y in zip(graph.edges(etype=etype), again.edges(etype=etype), strict=True):
            assert torch.equal(x, y)
        assert torch.equal(graph.edges[etype].data["ends"], again.edges[etype].data["ends"])
    assert load_partition(path, 1)[3].num_partitions() == 2


def test_a_partition_for_graphbolt_without_ids_says_what_to_do(folder) -> None:
    _for_graphbolt(folder / "g" / "g.json", with_edge_ids=False)
    with pytest.raises(
        DGLError, match=r"fused_csc_sampling_graph.pt was written for GraphBolt, without ids of edges; "
    ):
        load_partition(folder / "g" / "g.json", 0)
