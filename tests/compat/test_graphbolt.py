"""``dgl.graphbolt``: its scripts for nodes and pairs, of one type and of several, from memory and from disk."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
import yaml

import dglite
from dglite import DGLError
from tests.dataloading.graphs import check_blocks, ring, shop


@pytest.fixture
def gb(dgl_is_dglite):
    import dgl.graphbolt

    return dgl.graphbolt


def test_nodes(gb):
    g = ring(40, 3)
    graph = gb.from_dglgraph(g)
    store = gb.TorchBasedFeatureStore(
        {
            ("node", None, "feat"): gb.TorchBasedFeature(g.ndata["x"]),
            ("edge", None, "w"): gb.TorchBasedFeature(g.edata["e"].numpy()),
        }
    )
    items = gb.ItemSet((torch.arange(10, 30), g.ndata["y"][10:30]), names=("seed_nodes", "labels"))

    def batches(num_workers, sample):
        dglite.seed(3)
        pipe = gb.ItemSampler(items, batch_size=8, shuffle=True)
        pipe = getattr(pipe, sample)(graph, fanouts=[torch.tensor([3]), 2])
        pipe = pipe.fetch_feature(store, node_feature_keys=["feat"], edge_feature_keys=["w"]).copy_to("cpu")
        loader = gb.DataLoader(pipe, num_workers=num_workers)
        assert len(loader) == 3
        return list(loader)

    for sample in ("sample_neighbor", "sample_layer_neighbor"):
        result, again = batches(0, sample), batches(2, sample)
        assert sorted(torch.cat([batch.seed_nodes for batch in result]).tolist()) == list(range(10, 30))
        for batch, other in zip(result, again, strict=True):
            check_blocks(g, batch.input_nodes, batch.seed_nodes, batch.blocks)
            assert torch.equal(batch.labels, g.ndata["y"][batch.seed_nodes])
            assert torch.equal(batch.node_features["feat"], g.ndata["x"][batch.input_nodes])
            for block, features in zip(batch.blocks, batch.edge_features, strict=True):
                assert torch.equal(features["w"], block.edata[dglite.EID].float())
            assert torch.equal(batch.input_nodes, other.input_nodes)
    assert store.size("node", None, "feat") == torch.Size([2])
    with pytest.raises(KeyError, match="there is no feature"):
        store.read("node", None, "no")
    with pytest.raises(KeyError, match="there is no feature"):
        store.update("node", None, "no", torch.ones(3))


@pytest.mark.parametrize("reverse", [False, True])
def test_pairs(gb, reverse):
    g = dglite.add_reverse_edges(ring(40, 2))
    graph, pairs = gb.from_dglgraph(g), torch.stack(g.edges(), 1)[:30]
    pipe = gb.ItemSampler(gb.ItemSet(pairs, names="node_pairs"), batch_size=7, shuffle=True)
    pipe = pipe.sample_uniform_negative(graph, 3).sample_neighbor(graph, [-1, -1])
    pipe = pipe.transform(partial(gb.exclude_seed_edges, include_reverse_edges=reverse))
    for batch in gb.MultiProcessDataLoader(pipe, num_workers=1):
        src, dst = batch.node_pairs
        nodes = batch.blocks[-1].dstdata[dglite.NID]
        assert torch.equal(nodes[batch.positive_node_pairs[0]], src) and torch.equal(
            nodes[batch.positive_node_pairs[1]], dst
        )
        negative = batch.negative_node_pairs
        assert torch.equal(nodes[negative[0]], src[:, None].expand(-1, 3)) and negative[1].shape == (len(src), 3)
        assert torch.equal(nodes[negative[1]], batch.negative_dsts)
        (u, v), labels = batch.node_pairs_with_labels
        assert len(u) == len(v) == len(labels) == 4 * len(src) and labels.sum() == len(src)
        hidden = set(zip(src.tolist(), dst.tolist(), strict=True))
        hidden |= {(b, a) for a, b in hidden} if reverse else set()
        for block in batch.blocks:
            ends = [end.tolist() for end in g.find_edges(block.edata[dglite.EID])]
            assert not hidden & set(zip(*ends, strict=True)) and block.num_edges()
            assert torch.equal(g.find_edges(block.edata[dglite.EID])[0], block.srcdata[dglite.NID][block.edges()[0]])


def test_items(gb):
    """Examples of DGL 2.1's ItemSet, ItemSetDict and ItemSampler."""
    ids = gb.ItemSet(torch.tensor(3, dtype=torch.int32), names="seeds")
    assert ids[:].dtype == torch.int32 and ids[:].tolist() == [0, 1, 2] and ids.names == ("seeds",)
    assert gb.ItemSet([5, 7, 9], names="seeds")[1:].tolist() == [7, 9]
    assert list(gb.ItemSet((torch.arange(2), torch.arange(5, 7)))) == [(0, 5), (1, 6)]
    with pytest.warns(DeprecationWarning, match="use HeteroItemSet"):
        both = gb.ItemSetDict({"user": gb.ItemSet(2), "item": gb.ItemSet(torch.tensor([5, 6]))})
    assert list(both) == [{"user": 0}, {"user": 1}, {"item": 5}, {"item": 6}] and both[-1]["item"].ndim == 0
    assert {key: x.tolist() for key, x in both[1:4].items()} == {"user": [1], "item": [5, 6]}
    with pytest.warns(dglite.DGLWarning, match="have no names"):
        batches = list(gb.ItemSampler(gb.ItemSet(torch.arange(10)), 4).transform(lambda batch: batch + 1))
    assert [batch.tolist() for batch in batches] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert gb.etype_str_to_tuple(("a", "r", "b")) == gb.etype_str_to_tuple("a:r:b") == ("a", "r", "b")


def test_pairs_as_seeds(gb):
    g = ring(40, 2)
    graph, pairs = gb.from_dglgraph(g).pin_memory_(), torch.stack(g.edges(), 1)[:12]
    pipe = gb.ItemSampler(gb.ItemSet(pairs, names="seeds"), batch_size=5).sample_uniform_negative(graph, 2)
    for i, batch in enumerate(gb.DataLoader(pipe.sample_neighbor(graph, [2], asynchronous=True))):
        count = min(5, 12 - 5 * i)
        assert torch.equal(batch.seeds[:count], pairs[5 * i : 5 * i + count]) and len(batch.seeds) == 3 * count
        assert batch.labels.tolist() == [1.0] * count + [0.0] * 2 * count
        assert torch.equal(batch.seeds[:, 0], batch.seeds[batch.indexes, 0])
        assert torch.equal(batch.blocks[-1].dstdata[dglite.NID][batch.compacted_seeds], batch.seeds)
    # Ready pairs, of both spellings, keep their labels and have no negatives of their own.
    ready = gb.ItemSet((pairs, torch.ones(12), torch.arange(12)), names=("seeds", "labels", "indexes"))
    (batch,) = gb.ItemSampler(ready, 12).sample_neighbor(graph, [2])
    assert torch.equal(batch.seeds, pairs) and batch.labels.tolist() == [1.0] * 12
    assert batch.negative_dsts.shape == (12, 0)
    old = gb.ItemSet((pairs, torch.arange(24).reshape(12, 2)), names=("node_pairs", "negative_dsts"))
    (batch,) = gb.ItemSampler(old, 12).sample_neighbor(graph, [2])
    assert batch.negative_dsts.tolist() == torch.arange(24).reshape(12, 2).tolist() and len(batch.seeds) == 36
    assert torch.equal(batch.node_pairs[1], pairs[:, 1]) and batch.compacted_negative_dsts.shape == (12, 2)
    nodes = next(iter(gb.ItemSampler(gb.HeteroItemSet({"a": gb.ItemSet(2, "seeds")}), 2)))
    assert nodes.node_pairs is None and nodes.negative_dsts is None and nodes.seed_nodes["a"].tolist() == [0, 1]


def test_features_are_replaced_between_layers(gb):
    store = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(torch.zeros(3, 2))}).pin_memory_()
    store.to("cpu").update("node", None, "x", torch.ones(3, 5))
    assert store.size("node", None, "x") == torch.Size([5]) and store.read("node", None, "x").sum() == 15
    store.update("node", None, "x", torch.zeros(2, 5), ids=torch.tensor([2, 0]))
    assert store.read("node", None, "x").sum(1).tolist() == [0, 5, 0]
    for feature in (gb.TorchBasedFeature(torch.zeros(3, 2)), gb.TorchBasedFeature(np.zeros((3, 2)))):
        feature.update(torch.ones(1, 2), torch.tensor([1]))
        assert feature.read().sum(1).tolist() == [0, 2, 0]


@pytest.mark.parametrize("edges", [{"a:r:a": 2, "a:s:a": 1}, {"u:r:i": 2}])
def test_types_are_named_where_there_is_one_of_nodes_or_of_edges(gb, edges):
    nodes = torch.arange(2)
    g = dglite.heterograph({gb.etype_str_to_tuple(x): (nodes[:n], nodes.flip(0)[:n]) for x, n in edges.items()})
    etype, (source, _, seeds) = next(iter(edges)), g.canonical_etypes[0]
    features = {("node", source, "x"): nodes[:, None] + 5, ("edge", etype, "w"): nodes[:, None] + 7}
    store = gb.BasicFeatureStore({key: gb.TorchBasedFeature(x) for key, x in features.items()})
    pipe = gb.ItemSampler(gb.HeteroItemSet({seeds: gb.ItemSet(2, "seeds")}), 2)
    pipe = pipe.sample_layer_neighbor(gb.from_dglgraph(g), [-1], False)
    (batch,) = pipe.fetch_feature(store, {source: ["x"]}, {etype: ["w"]})
    assert torch.equal(batch.node_features[source, "x"][:, 0], batch.input_nodes[source] + 5)
    (block,) = batch.blocks
    ids = block.edges[g.canonical_etypes[0]].data[dglite.EID]
    assert torch.equal(batch.edge_features[0][etype, "w"][:, 0], ids + 7) and len(ids) == 2


def test_pairs_of_large_int32_ids_are_told_apart(gb):
    # 65536 sources of 65536 destinations are more pairs than an int32 counts: the first and the last would be one.
    g = dglite.graph(([0, 65536], [65535, 65535]), num_nodes=65537).int()
    items = gb.ItemSet(torch.tensor([[0, 65535]], dtype=torch.int32), "node_pairs")
    pipe = gb.ItemSampler(items, 1).sample_neighbor(gb.from_dglgraph(g), [-1])
    (batch,) = pipe.transform(gb.exclude_seed_edges)
    assert batch.blocks[0].edata[dglite.EID].tolist() == [1]


def test_several_types(gb):
    g = shop()
    graph = gb.from_dglgraph(g)
    assert graph.num_nodes == {"item": 3, "user": 4} and graph.node_type_offset.tolist() == [0, 3, 7]
    items = gb.HeteroItemSet(
        {"user": gb.ItemSet(torch.arange(4), "seed_nodes"), "item": gb.ItemSet(torch.tensor([2, 0]), "seed_nodes")}
    )
    store = gb.BasicFeatureStore({("node", "user", "x"): gb.TorchBasedFeature(g.nodes["user"].data["x"])})
    pipe = gb.ItemSampler(items, 4).sample_neighbor(graph, [torch.tensor([2, 1, 0])])
    for batch in gb.DataLoader(pipe.fetch_feature(store, {"user": ["x"]})):
        check_blocks(g, batch.input_nodes, batch.seed_nodes, batch.blocks)
        assert torch.equal(batch.node_features["user", "x"], batch.input_nodes["user"].float())
        assert batch.blocks[0].num_edges("follows") == 0
    pairs = {"user:buys:item": gb.ItemSet(torch.stack(g.edges(etype="buys"), 1), "node_pairs")}
    pipe = gb.ItemSampler(gb.HeteroItemSet(pairs), 2).sample_uniform_negative(graph, 2).sample_neighbor(graph, [-1])
    mapping = {"user:buys:item": "item:bought:user"}
    hide = partial(gb.exclude_seed_edges, include_reverse_edges=True, reverse_etypes_mapping=mapping)
    for i, batch in enumerate(gb.DataLoader(pipe.transform(hide))):
        src, dst = batch.positive_node_pairs["user:buys:item"]
        (block,) = batch.blocks
        ids = [block.dstnodes[t].data[dglite.NID][x].tolist() for t, x in (("user", src), ("item", dst))]
        assert ids == [x[2 * i : 2 * i + 2].tolist() for x in g.edges(etype="buys")]
        for etype in ("buys", "bought"):
            assert not {2 * i, 2 * i + 1} & set(block.edges[etype].data[dglite.EID].tolist())
        assert batch.node_pairs_with_labels[1]["user:buys:item"].tolist() == [1, 1, 0, 0, 0, 0]


def test_compressed_columns(gb):
    graph = gb.fused_csc_sampling_graph(torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1]))
    assert [x.tolist() for x in graph.g.edges()] == [[1, 0, 1], [0, 1, 1]] and graph.num_edges == 3
    # users 0, 1 and item 2: both users buy it, user 0 follows user 1
    graph = gb.fused_csc_sampling_graph(
        torch.tensor([0, 0, 1, 3]),
        torch.tensor([0, 0, 1]),
        torch.tensor([0, 2, 3]),
        torch.tensor([0, 1, 1]),
        {"user": 0, "item": 1},
        {"user:follows:user": 0, "user:buys:item": 1},
        edge_attributes={"w": torch.tensor([0.5, 1.5, 2.5])},
    )
    assert [x.tolist() for x in graph.g.edges(etype="buys")] == [[0, 1], [0, 0]]
    assert graph.g.edges["buys"].data["w"].tolist() == [1.5, 2.5] and graph.total_num_nodes == 3


def test_a_data_set_on_disk(gb, tmp_path):
    g = shop()
    np.save(tmp_path / "buys.npy", torch.stack(g.edges(etype="buys")).numpy())
    np.savetxt(tmp_path / "follows.csv", torch.stack(g.edges(etype="follows"), 1).numpy(), "%d", ",")
    np.save(tmp_path / "x.npy", np.arange(8.0).reshape(4, 2))
    torch.save(torch.tensor([1, 3]), tmp_path / "train.pt")
    np.save(tmp_path / "labels.npy", np.array([0, 1]))
    users = [
        {"name": "seed_nodes", "format": "torch", "path": "train.pt"},
        {"name": "labels", "format": "numpy", "path": "labels.npy"},
    ]
    feature = {"domain": "node", "type": "user", "name": "x", "format": "numpy", "path": "x.npy", "in_memory": False}
    described = {
        "dataset_name": "shop",
        "graph": {
            "nodes": [{"type": "user", "num": 4}, {"type": "item", "num": 3}],
            "edges": [
                {"type": "user:buys:item", "format": "numpy", "path": "buys.npy"},
                {"type": "user:follows:user", "format": "csv", "path": "follows.csv"},
            ],
        },
        "feature_data": [feature],
        "tasks": [{"name": "classify", "num_classes": 2, "train_set": [{"type": "user", "data": users}]}],
    }
    (tmp_path / "metadata.yaml").write_text(yaml.safe_dump(described))
    dataset = gb.OnDiskDataset(tmp_path).load()
    (task,) = dataset.tasks
    assert task == gb.OnDiskTask(task.metadata, train_set=task.train_set, validation_set=None, test_set=None)
    assert task.metadata == {"name": "classify", "num_classes": 2} and task.validation_set is None
    assert dataset.graph.num_edges == {"user:buys:item": 6, "user:follows:user": 4}
    pipe = gb.ItemSampler(task.train_set, 2).sample_neighbor(dataset.graph, [-1, -1])
    (batch,) = gb.DataLoader(pipe.fetch_feature(dataset.feature, {"user": ["x"]}))
    assert batch.labels["user"].tolist() == [0, 1] and batch.seed_nodes["user"].tolist() == [1, 3]
    assert torch.equal(batch.node_features["user", "x"][:, 0], 2.0 * batch.input_nodes["user"])
    assert len(dataset.all_nodes_set) == 7
    with pytest.warns(gb.GBWarning, match=r"has no tasks named \['other'\]"):
        assert gb.OnDiskDataset(tmp_path).load(tasks="other").tasks == []


def test_stop_iteration_of_a_stage_does_not_end_the_epoch(gb):
    pipe = gb.ItemSampler(gb.ItemSet(4, names="seeds"), batch_size=2).transform(lambda batch: next(iter([])))
    for workers in (0, 2):
        with pytest.raises(RuntimeError, match="would end the epoch early"):
            list(gb.DataLoader(pipe, num_workers=workers))


def test_arguments_of_another_kind(gb):
    items = gb.ItemSet(4, names="seeds")
    for call, error, match in (
        (lambda: gb.ItemSampler(items, batch_size=2.5), ValueError, "batch_size must be an integer"),
        (lambda: gb.ItemSampler(items, batch_size=2, drop_last=3), ValueError, "drop_last must be True or False"),
        (lambda: gb.ItemSampler(items, batch_size=2, shuffle="no"), ValueError, "shuffle must be True or False"),
        (lambda: gb.ItemSampler(items, batch_size=2, minibatcher=3), TypeError, "minibatcher must be a function"),
        (lambda: gb.ItemSampler(items, batch_size=2).transform(3), TypeError, "a stage must be a function"),
        (lambda: gb.DataLoader(items), TypeError, "datapipe must be an ItemSampler, or a stage after one, got ItemSet"),
        (lambda: gb.DataLoader(gb.ItemSampler(items, 2), num_workers=0.5), ValueError, "num_workers must be"),
    ):
        with pytest.raises(error, match=match):
            call()


FEATURE = {"domain": "node", "name": "x", "path": "x.npy", "format": "numpy"}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ("[" * 5000, r"metadata.yaml is damaged, or no YAML"),
        ("- a", "is not a mapping"),
        ({"graph": None}, r"metadata.yaml needs graph, names and values; got None"),
        ({"graph": {}}, "needs nodes and edges"),
        ({"graph": {"nodes": 3}}, "needs nodes, a list; got 3"),
        ({"graph": {"nodes": [3]}}, r"nodes\[0\] in graph in .*metadata.yaml is 3"),
        ({"nodes": [{"num": "many"}]}, r"needs num, a number from 0 on; got 'many'"),
        ({"nodes": [{"num": -1}]}, r"needs num, a number from 0 on; got -1"),
        ({"nodes": [{"num": 4, "type": "a"}]}, "name all or none"),
        ({"edges": [{"format": "numpy"}]}, r"edges\[0\] in graph in .* needs path, a text; got None"),
        ({"edges": [{"path": "e.npy"}]}, r"edges\[0\].* needs format, one of \['numpy', 'csv'\]; got None"),
        ({"edges": [{"format": "numpy", "path": "other.npy"}]}, r"other.npy does not exist, which edges\[0\]"),
        ({"edges": [{"format": "numpy", "path": "bad.npy"}]}, "bad.npy is not read as .npy"),
        ({"edges": [{"format": "numpy", "path": "x.npy"}]}, r"expected ids of shape \(2, num_edges\)"),
        ({"edges": [{"format": "csv", "path": "bad.npy"}]}, "bad.npy"),
        ({"feature_data": [{"domain": "node"}]}, r"feature_data\[0\] in .* needs name"),
        ({"feature_data": [{"domain": "nodes"}]}, r"needs domain, one of \['node', 'edge', 'graph'\]; got 'nodes'"),
        (
            {"feature_data": [{"domain": "node", "name": "x", "format": "numpy"}]},
            r"feature_data\[0\] in .* needs path, a text; got None",
        ),
        (
            {"tasks": [{"test_set": [{"data": [{"format": "pickle"}]}]}]},
            r"data\[0\] in test_set\[0\].* needs format, one",
        ),
        ({"feature_data": [FEATURE | {"path": "bad.npy", "format": "torch"}]}, "bad.npy is not read as a tensor"),
        ({"feature_data": [FEATURE | {"format": "hdf5"}]}, "needs format, one of .*; got 'hdf5'"),
        ({"feature_data": [FEATURE | {"in_memory": 3}]}, "needs in_memory, true or false"),
        ({"graph_topology": {"type": "CSC", "path": "x"}}, r"needs type, one of \['FusedCSCSamplingGraph'\]"),
        ({"tasks": [{"train_set": [{}]}]}, r"train_set\[0\] in tasks\[0\] in .* needs data"),
        ({"tasks": 3}, "needs tasks, a list"),
    ],
)
def test_a_damaged_data_set_on_disk(gb, tmp_path, changes, match):
    np.save(tmp_path / "e.npy", np.array([[0, 1], [1, 2]]))
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    (tmp_path / "bad.npy").write_bytes(b"no array")
    if isinstance(changes, dict):
        of_graph = {"nodes": [{"num": 3}], "edges": [{"format": "numpy", "path": "e.npy"}]}
        of_graph |= {name: x for name, x in changes.items() if name in of_graph}
        changes = yaml.safe_dump({"graph": of_graph} | {name: x for name, x in changes.items() if name not in of_graph})
    (tmp_path / "metadata.yaml").write_text(changes)
    with pytest.raises(DGLError, match=match):
        gb.OnDiskDataset(tmp_path).load()


def test_a_failed_load_changes_nothing(gb, tmp_path):
    np.save(tmp_path / "e.npy", np.array([[0, 1], [1, 2]]))
    described = {"graph": {"nodes": [{"num": 3}], "edges": [{"format": "numpy", "path": "e.npy"}]}}
    (tmp_path / "metadata.yaml").write_text(yaml.safe_dump(described))
    dataset = gb.OnDiskDataset(tmp_path).load()
    before = dict(vars(dataset))
    dataset.yaml_data["tasks"] = [{"train_set": 3}]
    with pytest.raises(DGLError, match="needs train_set, a list"):
        dataset.load()
    assert {name: vars(dataset)[name] for name in before} == before and dataset.graph.total_num_edges == 2


def test_what_does_not_fit(gb, tmp_path):
    graph, feature = gb.from_dglgraph(shop()), gb.TorchBasedFeature(torch.zeros(3, 2))
    for call, match in (
        (lambda: gb.ItemSet((torch.arange(2), torch.arange(3))), "expected as many in all"),
        (lambda: gb.ItemSet(5, names=("a", "b")), "2 names"),
        (lambda: gb.HeteroItemSet({"a": gb.ItemSet(3, "x"), "b": gb.ItemSet(3, "y")}), "the same in all"),
        (lambda: gb.etype_str_to_tuple("buys"), "'source:relation:destination'"),
        (lambda: graph.sample_neighbors({}, torch.tensor([1, 2])), "the graph has 3"),
        (lambda: feature.update(torch.ones(2), torch.tensor([1])), r"expected \(1, 2\)"),
        (lambda: gb.OnDiskDataset(tmp_path), "does not exist"),
    ):
        with pytest.raises(DGLError, match=match):
            call()
