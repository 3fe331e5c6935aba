"""``dgl.distributed`` in a process that was started alone, as unit tests of projects use it."""

from __future__ import annotations

import json

import pytest
import torch
import torch.distributed as dist

import dglite
from dglite import DGLError


@pytest.fixture
def dgl(dgl_is_dglite, tmp_path):
    import dgl

    yield dgl
    if dist.is_initialized():
        dist.destroy_process_group()


def _opened(dgl, tmp_path):
    ends = torch.randint(20, (2, 60))
    g = dglite.heterograph(
        {
            ("a", "r", "b"): (ends[0], ends[1]),
            ("b", "s", "a"): (ends[1], ends[0]),
        },
        {"a": 20, "b": 20},
    )
    g.nodes["a"].data["x"] = torch.arange(20.0)
    g.edges["r"].data["train_mask"] = torch.arange(60) < 30
    dgl.distributed.partition_graph(g, "g", 1, str(tmp_path))
    return dgl.distributed.DistGraph("g", part_config=str(tmp_path / "g.json"))


def test_the_process_group_may_be_made_after_the_graph(dgl, tmp_path):
    dgl.distributed.initialize("no file is read")
    g = _opened(dgl, tmp_path)
    assert (
        not dist.is_initialized() and dgl.distributed.rpc.get_rank() == 0 and dgl.distributed.rpc.get_num_client() == 1
    )
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    rows = dgl.distributed.DistTensor((20, 2), torch.float32, "t", part_policy=g.get_node_partition_policy("a"))
    rows[torch.tensor([3, 4])] = torch.ones(2, 2)
    assert rows[torch.arange(5)].sum() == 4 and rows.count_nonzero() == 4


def test_launchers_find_the_number_of_parts(dgl, tmp_path):
    _opened(dgl, tmp_path)
    assert json.loads((tmp_path / "g.json").read_text())["num_parts"] == 1


def test_loaders_step_by_next(dgl, tmp_path):
    g = _opened(dgl, tmp_path)
    sampler = dgl.dataloading.MultiLayerNeighborSampler([3])
    loader = dgl.dataloading.DistNodeDataLoader(g, {"a": torch.arange(20)}, sampler, batch_size=8)
    assert loader.expected_idxs == len(loader) == 3 and iter(loader) is loader and len(loader.collator.nids["a"]) == 20
    for _ in range(2):
        loader.__iter__()
        assert [len(loader.__next__()[1]["a"]) for _ in range(3)] == [8, 8, 4]
        with pytest.raises(StopIteration):
            next(loader)


def test_pairs_have_the_types_of_their_batch(dgl, tmp_path):
    g = _opened(dgl, tmp_path)
    sampler = dgl.dataloading.MultiLayerNeighborSampler([3])
    negatives = dgl.dataloading.negative_sampler.Uniform(2)
    options = {"batch_size": 8, "negative_sampler": negatives}
    loader = dgl.dataloading.DistEdgeDataLoader(g, {("a", "r", "b"): torch.arange(16)}, sampler, **options)
    for _, positive, negative, _ in loader:
        assert positive.canonical_etypes == negative.canonical_etypes == [("a", "r", "b")]
        assert positive.ntypes == ["a", "b"] and positive.num_edges() == 8 and negative.num_edges() == 16
        assert len(positive.edata[dglite.EID]) == 8 and len(positive.nodes["a"].data[dglite.NID])


def test_blocks_have_the_types_that_were_drawn(dgl, tmp_path):
    g = _opened(dgl, tmp_path)
    sampler = dgl.dataloading.MultiLayerNeighborSampler([3, 3], prefetch_node_feats={"a": ["x"]})
    loader = dgl.dataloading.DistNodeDataLoader(g, {"b": torch.arange(20)}, sampler, batch_size=8)
    layer = dgl.nn.HeteroGraphConv({type_: dgl.nn.GraphConv(1, 1, norm="right") for type_ in "rs"})
    for inputs, seeds, (first, last) in loader:
        assert last.canonical_etypes == [("a", "r", "b")] and first.is_block and last.is_block
        assert torch.equal(last.dstnodes["b"].data[dglite.NID], seeds["b"]) and last.num_dst_nodes("a") == 0
        assert torch.equal(first.srcnodes["a"].data["x"], inputs["a"].float())
        src, dst = last.edges(etype="r", order="eid")
        ends = g.find_edges(last.edges["r"].data[dglite.EID], ("a", "r", "b"))
        assert torch.equal(last.srcnodes["a"].data[dglite.NID][src], ends[0])
        assert torch.equal(last.dstnodes["b"].data[dglite.NID][dst], ends[1])
        assert list(layer(last, {t: torch.ones(last.num_src_nodes(t), 1) for t in "ab"})) == ["b"]
    frontier = dgl.distributed.sample_neighbors(g, {"b": torch.arange(5)}, 2)
    assert frontier.canonical_etypes == [("a", "r", "b")] and frontier.num_nodes("a") == 20


def test_a_tensor_of_a_graph_is_saved_whole(dgl, tmp_path):
    rows = _opened(dgl, tmp_path).nodes["a"].data["x"]
    torch.save(rows, tmp_path / "x.pt")
    assert torch.equal(torch.load(tmp_path / "x.pt"), rows[:])


def test_a_mask_is_read_from_the_graph_in_parts(dgl, tmp_path):
    g = _opened(dgl, tmp_path)
    sampler = dgl.dataloading.MultiLayerNeighborSampler([-1], mask="train_mask")
    loader = dgl.dataloading.DistNodeDataLoader(g, {"b": torch.arange(20)}, sampler, batch_size=20)
    ((_, _, (block,)),) = loader
    ids = block.edges["r"].data[dglite.EID]
    assert len(ids) == 30 and g.edges["a", "r", "b"].data["train_mask"][ids].all()


@pytest.mark.parametrize("name", ["NeighborSampler", "MultiLayerNeighborSampler"])
def test_a_sampler_may_have_no_layers(dgl, tmp_path, name):
    sampler = getattr(dgl.dataloading, name)([])
    assert isinstance(sampler, dglite.dataloading.NeighborSampler)
    loader = dgl.dataloading.DistNodeDataLoader(_opened(dgl, tmp_path), {"a": torch.arange(4)}, sampler, batch_size=4)
    ((inputs, outputs, blocks),) = loader
    assert inputs["a"].tolist() == outputs["a"].tolist() == [0, 1, 2, 3] and blocks == []
    (batch,) = dgl.dataloading.DataLoader(dglite.rand_graph(5, 9), torch.arange(3), sampler, batch_size=3)
    assert batch[0].tolist() == [0, 1, 2] and batch[2] == []


def test_types_are_balanced_by_those_that_are_given(dgl, tmp_path):
    g = dglite.heterograph({("a", "r", "b"): (torch.arange(40), torch.arange(40))})
    options = {"part_method": "random", "balance_ntypes": {"a": torch.arange(40) < 10}}
    dgl.distributed.partition_graph(g, "g", 2, str(tmp_path), **options)
    graphs = [dgl.distributed.load_partition(str(tmp_path / "g.json"), part)[0] for part in range(2)]
    for graph in graphs:
        assert int(graph.nodes["a"].data["inner_node"].sum()) == int(graph.nodes["b"].data["inner_node"].sum()) == 20
    with pytest.raises(dglite.DGLError, match=r"balance_ntypes is given for types \['a', 'b', 'c'\]"):
        dgl.distributed.partition_graph(g, "g", 2, str(tmp_path), balance_ntypes={"c": torch.arange(40)})


def test_loaders_of_dataloading_are_those_of_distributed(dgl):
    for name in ("DistDataLoader", "DistNodeDataLoader", "DistEdgeDataLoader"):
        assert getattr(dgl.dataloading, name) is getattr(dgl.distributed, name)

    class Batches(dgl.dataloading.DistDataLoader):
        def __init__(self, graph, ids):
            super().__init__(ids, batch_size=2, collate_fn=lambda items: (graph, items))

    assert list(Batches("a graph", torch.arange(3))) == [("a graph", [0, 1]), ("a graph", [2])]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("127.0.0.1\n" * 3, "names 3 machines, but there are 2 processes; start the same number on each"),
        ("127.0.0.1 one\n", r"line 1 is '127.0.0.1 one'; expected 'address \[port\]'"),
        ("\n", "is empty; expected a line 'address"),
        (None, "cannot be read"),
    ],
)
def test_an_ip_config_that_does_not_match_the_ranks(dgl, tmp_path, monkeypatch, content, match):
    if content is not None:
        (tmp_path / "ip.txt").write_text(content)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(DGLError, match=match):
        dgl.distributed.initialize(tmp_path / "ip.txt")
