"""Reports of files and of other processes: saved and pickled graphs, their dtypes, names and sizes."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path

import pytest
import torch

import dglite
from dglite import nn
from tests.reports.cases import ids, pairs, report


@report("dmlc/dgl#3453", "boolean masks could not be saved", also="dmlc/dgl#1487 dmlc/dgl#3467 dmlc/dgl#3494")
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_of_saved_features(tmp_path: Path, dtype: torch.dtype) -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    g.ndata["mask"] = torch.tensor([True, False, True]).to(dtype)
    dglite.save_graphs(str(tmp_path / "g.bin"), [g], {"label": ids(1).to(dtype)})
    (loaded,), labels = dglite.load_graphs(str(tmp_path / "g.bin"))
    for again in (loaded, pickle.loads(pickle.dumps(g))):
        assert again.ndata["mask"].dtype == dtype and again.ndata["mask"].double().tolist() == [1, 0, 1]
    assert labels["label"].dtype == dtype


@report("dmlc/dgl#1029", "graphs of several types could not be saved", also="dmlc/dgl#1524 dmlc/dgl#1526")
def test_saving_several_types(tmp_path: Path) -> None:
    g = dglite.heterograph({("user", "+1", "movie"): ([0, 0, 1], [0, 1, 0]), ("user", "-1", "movie"): ([2], [1])}).int()
    g.edges["-1"].data["w"], g.nodes["user"].data["h"] = torch.tensor([7.0]), torch.arange(3.0)
    dglite.save_graphs(str(tmp_path / "g.bin"), g)  # one graph, not a list
    (loaded,), labels = dglite.load_graphs(str(tmp_path / "g.bin"))
    assert loaded.canonical_etypes == g.canonical_etypes and loaded.idtype == torch.int32 and labels == {}
    assert pairs(loaded, "+1") == [(0, 0), (0, 1), (1, 0)] and pairs(loaded, "-1") == [(2, 1)]
    assert loaded.edges["-1"].data["w"].tolist() == [7] and loaded.nodes["user"].data["h"].tolist() == [0, 1, 2]


@report("dmlc/dgl#883", "saved lists of graphs could not be read")
def test_saved_list_of_graphs(tmp_path: Path) -> None:
    graphs = [dglite.graph((torch.arange(n), torch.arange(n)), num_nodes=n + 1) for n in range(20)]
    for n, g in enumerate(graphs):
        g.ndata["h"] = torch.full((n + 1, 2), float(n))
    dglite.save_graphs(str(tmp_path / "g.bin"), graphs, {"y": torch.arange(20)})
    some, labels = dglite.load_graphs(str(tmp_path / "g.bin"), [3, 17])
    assert [g.num_edges() for g in some] == [3, 17] and some[1].ndata["h"].unique().tolist() == [17]
    assert labels["y"].tolist() == list(range(20))
    with pytest.raises(dglite.DGLError, match="20"):
        dglite.load_graphs(str(tmp_path / "g.bin"), [20])


@report("dmlc/dgl#2135", "a pickled subgraph carried the features of the whole graph")
def test_size_of_a_pickled_subgraph() -> None:
    g = dglite.graph(([], []), num_nodes=100_000)
    g.ndata["x"] = torch.ones(100_000, 10)
    part = g.subgraph([5])
    saved = pickle.dumps(part)
    assert len(saved) < 50_000 and pickle.loads(saved).ndata["x"].tolist() == [[1] * 10]


@report("dmlc/dgl#438", "a pickled graph's features could not be set or read", also="dmlc/dgl#456 dmlc/dgl#397")
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_and_pickles(again: object) -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    g.ndata["h"], g.edata["w"] = torch.arange(3.0), torch.tensor([1.0, 2.0])
    other = again(g)  # type: ignore[operator]
    other.ndata["h"] = other.ndata["h"] + 1
    other.ndata["new"] = torch.ones(3)
    other.add_edges([2], [0])
    assert pairs(g) == [(0, 1), (1, 2)] and list(g.ndata) == ["h"] and g.ndata["h"].tolist() == [0, 1, 2]
    assert pairs(other) == [(0, 1), (1, 2), (2, 0)] and other.edata["w"].tolist() == [1, 2, 0]
    assert other.ndata["h"].tolist() == [1, 2, 3]


@report("dmlc/dgl#458", "graphs inside of torch.save")
def test_graphs_in_checkpoints() -> None:
    g = dglite.batch([dglite.graph(([0], [1])), dglite.graph(([], []), num_nodes=1)])
    g.ndata["h"] = torch.tensor([1.0, 2.0, 3.0])
    buffer = io.BytesIO()
    torch.save({"graph": g, "epoch": 3}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)["graph"]
    assert loaded.batch_num_nodes().tolist() == [2, 1] and loaded.ndata["h"].tolist() == [1, 2, 3]


@report("dmlc/dgl#2749", "HeteroGraphConv could not be pickled")
@pytest.mark.parametrize("aggregate", ["sum", "mean", "max", "min", "stack"])
def test_pickled_heterogeneous_layers(aggregate: str) -> None:
    torch.manual_seed(0)
    g = dglite.heterograph({("a", "r", "b"): ([0, 1], [0, 0]), ("b", "s", "b"): ([0], [0])})
    layer = nn.HeteroGraphConv({name: nn.GraphConv(2, 3) for name in g.etypes}, aggregate=aggregate)
    inputs = {"a": torch.ones(2, 2), "b": torch.ones(1, 2)}
    again = pickle.loads(pickle.dumps(layer))
    assert torch.equal(again(g, inputs)["b"], layer(g, inputs)["b"])


@report("dmlc/dgl#3909", "deep copies of graphs with pinned or plain features", also="dmlc/dgl#3863")
def test_deep_copies_have_their_own_memory() -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    g.ndata["h"] = torch.zeros(3)
    other = copy.deepcopy(g)
    other.ndata["h"] += 1
    assert g.ndata["h"].tolist() == [0, 0, 0] and other.is_pinned() == g.is_pinned()


@report("dmlc/dgl#2838", "graphs without features could not be partitioned", also="dmlc/dgl#2366")
def test_parts_of_a_graph_without_features() -> None:
    g = dglite.graph(([0, 1, 2, 3, 0, 0], [1, 2, 3, 0, 1, 1]))
    owner = ids(0, 1, 0, 1)
    parts, *_ = dglite.partition_graph_with_halo(g, owner, 1)
    inner = {part: parts[part].ndata[dglite.NID][parts[part].ndata["inner_node"].bool()].tolist() for part in parts}
    assert {part: sorted(nodes) for part, nodes in inner.items()} == {0: [0, 2], 1: [1, 3]}
    kept = sorted(
        eid for part in parts.values() for eid in part.edata[dglite.EID][part.edata["inner_edge"].bool()].tolist()
    )
    assert kept == [0, 1, 2, 3, 4, 5]
