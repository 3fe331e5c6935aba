"""GraphBolt's names by the examples of its API reference, stages of a user's own, and input that does not fit."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import IterDataPipe

import dglite
from dglite import DGLError
from tests.dataloading.graphs import shop


@pytest.fixture
def gb(dgl_is_dglite):
    import dgl.graphbolt

    return dgl.graphbolt


@pytest.fixture
def typed(gb):
    """The graph of the reference's examples: two node types, four edge types."""
    return gb.fused_csc_sampling_graph(
        torch.tensor([0, 3, 5, 7, 9, 12]),
        torch.tensor([0, 1, 4, 2, 3, 0, 1, 1, 2, 0, 3, 4]),
        torch.tensor([0, 2, 5]),
        torch.tensor([0, 0, 2, 2, 2, 1, 1, 1, 3, 1, 3, 3]),
        {"N0": 0, "N1": 1},
        {"N0:R0:N0": 0, "N0:R1:N1": 1, "N1:R2:N0": 2, "N1:R3:N1": 3},
        {"x": torch.arange(5)},
        {gb.ORIGINAL_EDGE_ID: torch.arange(100, 112), "w": torch.arange(12.0)},
    )


def _listed(csc):
    return {etype: (x.indptr.tolist(), x.indices.tolist()) for etype, x in csc.items()}


def test_the_in_subgraph_of_the_reference(gb, typed):
    assert typed.num_nodes == {"N0": 2, "N1": 3} and typed.total_num_edges == 12
    assert typed.num_edges == {"N0:R0:N0": 2, "N0:R1:N1": 4, "N1:R2:N0": 3, "N1:R3:N1": 3}
    subgraph = typed.in_subgraph({"N0": torch.tensor([1]), "N1": torch.tensor([1, 2])})
    assert _listed(subgraph.sampled_csc) == {
        "N0:R0:N0": ([0, 0], []),
        "N0:R1:N1": ([0, 1, 2], [1, 0]),
        "N1:R2:N0": ([0, 2], [0, 1]),
        "N1:R3:N1": ([0, 1, 3], [0, 1, 2]),
    }
    assert subgraph.original_edge_ids["N0:R1:N1"].tolist() == [107, 109] and subgraph.original_row_node_ids is None


@pytest.mark.parametrize("method", ["sample_neighbors", "sample_layer_neighbors"])
@pytest.mark.parametrize("fanouts", [[2], [1, 1, 1, 1], [0, -1, 0, 0]])
def test_fanouts_are_for_all_types_or_for_each(gb, typed, method, fanouts):
    seeds = {"N0": torch.tensor([1, 0]), "N1": torch.tensor([0, 2])}
    subgraph = getattr(typed, method)(seeds, torch.tensor(fanouts))
    everything = typed.in_subgraph(seeds)
    total = {ntype: torch.zeros(2, dtype=torch.int64) for ntype in seeds}
    for i, (etype, csc) in enumerate(subgraph.sampled_csc.items()):
        degrees, whole = csc.indptr.diff(), everything.sampled_csc[etype].indptr.diff()
        assert (degrees <= whole).all()
        assert set(subgraph.original_edge_ids[etype].tolist()) <= set(everything.original_edge_ids[etype].tolist())
        total[etype.split(":")[2]] += degrees
        if method == "sample_neighbors" and len(fanouts) > 1:
            assert torch.equal(degrees, whole if fanouts[i] < 0 else whole.clamp(max=fanouts[i]))
    if method == "sample_neighbors" and len(fanouts) == 1:
        assert [total["N0"].tolist(), total["N1"].tolist()] == [[2, 2], [2, 2]]


def test_a_pipe_whose_fanouts_are_for_all_types(gb, typed):
    items = gb.HeteroItemSet({"N1": gb.ItemSet(3, "seeds")})
    for batch in gb.DataLoader(gb.ItemSampler(items, 2).sample_neighbor(typed, [2, 2]), num_workers=1):
        assert set(batch.sampled_subgraphs[0].sampled_csc) == set(typed.edge_type_to_id)
        for block in batch.blocks:
            total = sum(block.in_degrees(etype=etype) for etype in block.canonical_etypes if etype[2] == "N1")
            assert total.max() <= 2
            for etype in block.canonical_etypes:
                src, dst = block.edges(etype=etype)
                ids = block.edges[etype].data[dglite.EID] - 100
                assert torch.equal(
                    typed.indices[ids], block.srcnodes[etype[0]].data[dglite.NID][src] + 2 * (etype[0] == "N1")
                )
                assert torch.equal(
                    gb.expand_indptr(typed.csc_indptr, torch.int64)[ids],
                    block.dstnodes[etype[2]].data[dglite.NID][dst] + 2 * (etype[2] == "N1"),
                )


def test_edges_are_excluded_as_in_the_reference(gb):
    subgraph = gb.SampledSubgraphImpl(
        sampled_csc={"A:relation:B": gb.CSCFormatBase(indptr=torch.arange(4), indices=torch.arange(3))},
        original_column_node_ids={"B": torch.tensor([10, 11, 12])},
        original_row_node_ids={"A": torch.tensor([13, 14, 15])},
        original_edge_ids={"A:relation:B": torch.tensor([19, 20, 21])},
    )
    left = subgraph.exclude_edges({"A:relation:B": torch.tensor([[14, 11], [15, 12]])})
    assert _listed(left.sampled_csc) == {"A:relation:B": ([0, 1, 1, 1], [0])}
    assert (
        left.original_edge_ids["A:relation:B"].tolist() == [19] and len(subgraph.original_edge_ids["A:relation:B"]) == 3
    )
    with pytest.raises(DGLError, match="several edge types; edges to exclude are Tensor"):
        subgraph.exclude_edges(torch.tensor([[1, 2]]))


def test_compaction_as_in_the_reference(gb):
    csc = {
        "n2:e2:n1": gb.CSCFormatBase(torch.tensor([0, 1, 3]), torch.tensor([5, 4, 6])),
        "n1:e1:n1": gb.CSCFormatBase(torch.tensor([0, 1, 3]), torch.tensor([1, 2, 3])),
    }
    nodes, compacted, times = gb.compact_csc_format(csc, {"n1": torch.tensor([2, 4])}, {"n1": torch.tensor([10, 20])})
    assert {t: x.tolist() for t, x in nodes.items()} == {"n1": [2, 4, 1, 2, 3], "n2": [5, 4, 6]}
    assert _listed(compacted) == {"n2:e2:n1": ([0, 1, 3], [0, 1, 2]), "n1:e1:n1": ([0, 1, 3], [2, 3, 4])}
    assert {t: x.tolist() for t, x in times.items()} == {"n1": [10, 20, 10, 20, 20], "n2": [10, 20, 20]}
    csc = {
        "n1:e1:n2": gb.CSCFormatBase(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 2])),
        "n2:e2:n1": gb.CSCFormatBase(torch.tensor([0, 1, 3]), torch.tensor([5, 5, 6])),
    }
    unique, compacted = gb.unique_and_compact_csc_formats(csc, {"n1": torch.tensor([1, 2]), "n2": torch.tensor([5, 6])})
    assert {t: x.tolist() for t, x in unique.items()} == {"n1": [1, 2], "n2": [5, 6]}
    assert _listed(compacted) == {"n1:e1:n2": ([0, 2, 3], [0, 1, 1]), "n2:e2:n1": ([0, 1, 3], [0, 0, 1])}
    ids, (a, b) = gb.unique_and_compact([torch.tensor([[7, 3], [7, 9]]), torch.tensor([9])])
    assert ids.tolist() == [7, 3, 9] and a.tolist() == [[0, 1], [0, 2]] and b.tolist() == [2]
    with pytest.raises(DGLError, match="must be distinct"):
        gb.unique_and_compact_csc_formats(
            gb.CSCFormatBase(torch.tensor([0, 0, 0]), torch.arange(0)), torch.tensor([1, 1])
        )
    with pytest.raises(DGLError, match="2 columns, but there are 1 destination"):
        gb.unique_and_compact_csc_formats(gb.CSCFormatBase(torch.tensor([0, 0, 0]), torch.arange(0)), torch.tensor([1]))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_small_functions(gb, tmp_path, dtype):
    indptr = torch.tensor([0, 2, 2, 3], dtype=dtype)
    assert gb.expand_indptr(indptr, dtype=dtype).tolist() == [0, 0, 2]
    assert gb.expand_indptr(indptr, node_ids=torch.tensor([5, 6, 7])).tolist() == [5, 5, 7]
    assert gb.indptr_edge_ids(indptr).tolist() == [0, 1, 0]
    assert gb.indptr_edge_ids(indptr, offset=torch.tensor([4, 0, 9])).tolist() == [4, 5, 9]
    assert gb.isin(torch.tensor([1, 2, 9], dtype=dtype), torch.tensor([9, 1], dtype=dtype)).tolist() == [
        True,
        False,
        True,
    ]
    assert gb.index_select(torch.tensor([5.0, 6.0]), torch.tensor([1, 1], dtype=dtype)).tolist() == [6.0, 6.0]
    assert gb.seed_type_str_to_ntypes("user:like:item", 2) == ["user", "item"]
    assert gb.seed_type_str_to_ntypes("query:user:item", 3) == ["query", "user", "item"]
    edges = gb.add_reverse_edges({"A:r:B": torch.tensor([[0, 1]])}, {"A:r:B": "B:rr:A"})
    assert edges["B:rr:A"].tolist() == [[1, 0]]
    for array in (np.arange(6, dtype=np.float32).reshape(2, 3), np.asfortranarray(np.eye(3)), np.zeros((0, 4))):
        gb.numpy_save_aligned(tmp_path / "x", array)
        assert np.array_equal(np.load(tmp_path / "x.npy"), array)
        if array.size or np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # 2.0 maps nothing behind the last page
            assert np.load(tmp_path / "x.npy", mmap_mode="r").offset % 4096 == 0


def test_graphs_are_copied(gb, typed):
    homogeneous = gb.from_dglgraph(dglite.graph(([2, 0, 1], [0, 1, 1])), include_original_edge_id=True)
    for graph in (typed, homogeneous, gb.from_dglgraph(shop())):
        shared = graph.copy_to_shared_memory("dglite-test-graph")
        for other in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), shared, graph.to("cpu"),
                      gb.load_from_shared_memory("dglite-test-graph")):  # fmt: skip
            assert torch.equal(other.indices, graph.indices) and torch.equal(other.csc_indptr, graph.csc_indptr)
            assert other.num_edges == graph.num_edges and other.has_original_edge_ids == graph.has_original_edge_ids
            nodes = {ntype: torch.arange(n) for ntype, n in graph.num_nodes.items()} if graph.typed else torch.arange(3)
            assert str(other.in_subgraph(nodes)) == str(graph.in_subgraph(nodes))
        del shared, other
    with pytest.raises(DGLError, match="no graph is shared by the name"):
        gb.load_from_shared_memory("dglite-test-graph")
    ids = homogeneous.sample_neighbors(torch.tensor([1]), torch.tensor([-1])).original_edge_ids
    assert ids.tolist() == [1, 2]


def test_a_dglgraph_in_columns(gb):
    g = shop()
    graph = gb.from_dglgraph(g, include_original_edge_id=True)
    dst = gb.expand_indptr(graph.csc_indptr, torch.int64)
    for etype, number in graph.edge_type_to_id.items():
        a, relation, b = gb.etype_str_to_tuple(etype)
        places = (graph.type_per_edge == number).nonzero().flatten()
        ids = graph.edge_attributes[gb.ORIGINAL_EDGE_ID][places]
        src, end = g.find_edges(ids, etype=(a, relation, b))
        first = {ntype: graph.node_type_offset[i] for ntype, i in graph.node_type_to_id.items()}
        assert torch.equal(graph.indices[places], src + first[a]) and torch.equal(dst[places], end + first[b])
    weights = torch.arange(float(graph.total_num_edges))
    graph.add_edge_attribute("new", weights)
    assert torch.equal(graph.edge_attribute("new"), weights)
    of = graph.g.edges["buys"].data["new"]
    places = (graph.type_per_edge == graph.edge_type_to_id["user:buys:item"]).nonzero().flatten()
    assert torch.equal(of[graph.edge_attributes[gb.ORIGINAL_EDGE_ID][places]], weights[places])


def test_hyperlinks_and_repeated_seeds(gb, typed):
    graph = gb.from_dglgraph(dglite.rand_graph(20, 100))
    seeds = torch.randint(20, (6, 3))
    pipe = gb.ItemSampler(gb.ItemSet((seeds, torch.ones(6)), names=("seeds", "labels")), 4).sample_in_subgraph(graph)
    for i, batch in enumerate(pipe):
        nodes = batch.sampled_subgraphs[0].original_column_node_ids
        assert torch.equal(nodes[batch.compacted_seeds], seeds[4 * i : 4 * i + 4])
        assert torch.equal(batch.blocks[0].dstdata[dglite.NID], nodes)
    pipe = gb.ItemSampler(gb.ItemSet(8, names="seeds"), 8).sample_neighbor(graph, [3, 3], deduplicate=False)
    (batch,) = pipe
    for block in batch.blocks:
        assert block.num_src_nodes() == block.num_dst_nodes() + block.num_edges()
    assert torch.equal(batch.input_nodes[:8], torch.arange(8))


class _Doubled(IterDataPipe):
    """A pipe of a user's own, with an iterator of its own."""

    def __init__(self, datapipe):
        self.datapipe = datapipe

    def __iter__(self):
        for batch in self.datapipe:
            yield batch
            yield batch


def test_pipes_of_torch_and_of_a_users_own(gb):
    graph = gb.from_dglgraph(dglite.rand_graph(20, 100))
    items = gb.ItemSet(10, names="seeds")
    pipe = _Doubled(gb.ItemSampler(items, 4).buffer(2).prefetch(2).wait().mark_end()).sample_neighbor(graph, [2])
    assert [len(batch.seeds) for batch in gb.DataLoader(pipe, num_workers=2)] == [4, 4, 4, 4, 2, 2]
    assert [len(batch.seeds) for batch in pipe] == [4, 4, 4, 4, 2, 2]
    with pytest.warns(UserWarning):
        odd = gb.ItemSampler(items, 4).filter(lambda batch: len(batch.seeds) == 4).sample_neighbor(graph, [2])
    assert [batch.num_layers() for batch in gb.DataLoader(odd)] == [1, 1]
    adjacency = gb.datapipe_graph_to_adjlist(gb.traverse_dps(pipe))
    assert len(gb.find_dps(gb.traverse_dps(pipe), gb.ItemSampler)) == 1 and len(adjacency) > 5


class _FullNeighbours:
    """Made a stage in the test: a sampler of a user's own, by the guide."""

    def __init__(self, datapipe, graph, layers):
        super().__init__(datapipe)
        self.graph, self.layers = graph, layers

    def sample_subgraphs(self, seeds):
        subgraphs = []
        for _ in range(self.layers):
            subgraph = self.graph.sample_neighbors(seeds, torch.tensor([-1]))
            seeds, csc = self.compact(subgraph.sampled_csc, seeds)
            subgraph.sampled_csc, subgraph.original_row_node_ids = csc, seeds
            subgraphs.insert(0, subgraph)
        return seeds, subgraphs


def test_samplers_of_a_users_own(gb):
    compact = staticmethod(gb.unique_and_compact_csc_formats)
    sampler = type("FullNeighbours", (_FullNeighbours, gb.SubgraphSampler), {"compact": compact})

    class Stages(gb.SubgraphSampler):
        def sampling_stages(self, datapipe, graph):
            for _ in range(2):
                datapipe = datapipe.sample_per_layer(graph.sample_neighbors, torch.tensor([-1]), False, None)
                datapipe = datapipe.compact_per_layer(True)
            return datapipe

    g = dglite.rand_graph(20, 60)
    graph, items = gb.from_dglgraph(g), gb.ItemSet(10, names="seeds")
    expected = list(gb.ItemSampler(items, 4).sample_neighbor(graph, [-1, -1]))
    for pipe in (sampler(gb.ItemSampler(items, 4), graph, 2), Stages(gb.ItemSampler(items, 4), graph)):
        for batch, other in zip(gb.DataLoader(pipe, num_workers=1), expected, strict=True):
            assert torch.equal(batch.input_nodes, other.input_nodes)
            for block, like in zip(batch.blocks, other.blocks, strict=True):
                assert torch.equal(torch.stack(block.edges()), torch.stack(like.edges()))
                assert torch.equal(block.edata[dglite.EID], like.edata[dglite.EID])


def test_caches_have_the_rows_of_their_features(gb):
    x = torch.randn(100, 3)
    for wrap in (gb.cpu_cached_feature, gb.gpu_cached_feature):
        cached = wrap(gb.TorchBasedFeature(x.clone()), 10 * 3 * 4)
        rng = np.random.default_rng(0)
        for _ in range(50):
            ids = torch.from_numpy(rng.integers(0, 100, rng.integers(0, 30)) ** 2 % 100)
            assert torch.equal(cached.read(ids), x[ids])
        cached.update(torch.ones(2, 3), torch.tensor([4, 16]))
        assert cached.read(torch.tensor([16, 5, 4])).sum(1)[[0, 2]].tolist() == [3, 3]
        assert cached.cache_size_in_bytes == 120 and 0 < cached.miss_rate < 1
    both = gb.cpu_cached_feature({"a": gb.TorchBasedFeature(x), "b": gb.TorchBasedFeature(-x)}, 200, "s3-fifo")
    ids = torch.tensor([3, 50, 3])
    for _ in range(3):
        assert torch.equal(both["a"].read(ids), x[ids]) and torch.equal(both["b"].read(ids), -x[ids])
    none = gb.cpu_cached_feature(gb.TorchBasedFeature(x), 0)
    assert torch.equal(none.read(ids), x[ids]) and none.miss_rate == 1
    with pytest.raises(DGLError, match="no cache policy 'fifo'"):
        gb.cpu_cached_feature(gb.TorchBasedFeature(x), 100, "fifo")


def test_items_are_any_objects(gb):
    graphs = [dglite.rand_graph(5, 10) for _ in range(4)]
    items = gb.ItemSet((graphs, torch.arange(4)), names=("graphs", "labels"))
    assert items[1][0] is graphs[1] and items.num_items == 2 and len(items) == 4
    with pytest.warns(dglite.DGLWarning, match="graphs"):
        batches = list(gb.ItemSampler(items, 3, shuffle=False))
    assert batches[0].graphs == graphs[:3] and batches[1].labels.tolist() == [3]
    whole = gb.ItemSampler(items, 3, lambda batch, names: (dglite.batch(batch[0]), batch[1]))
    assert [g.batch_size for g, _ in gb.DataLoader(whole)] == [3, 1]
    dicts = gb.ItemSet([{"a": 1}, {"a": 2}])
    assert dicts[[1, 0]] == [{"a": 2}, {"a": 1}] and list(dicts) == [{"a": 1}, {"a": 2}]
    assert gb.ItemSet(x for x in ("p", "q"))[:] == ["p", "q"]
    with pytest.raises(DGLError, match="HeteroItemSet"):
        gb.ItemSet({"a": torch.arange(3)})


@pytest.mark.parametrize(("drop_last", "uneven"), [(False, False), (True, False), (True, True), (False, True)])
def test_shares_of_processes_are_those_of_the_reference(gb, monkeypatch, drop_last, uneven):
    from dglite.dataloading.order import Share

    shares = []
    for rank in range(4):
        monkeypatch.setattr(Share, "of_this_process", classmethod(lambda cls, seed, r=rank: cls(r, 4, seed)))
        sampler = gb.DistributedItemSampler(
            gb.ItemSet(15, names="seeds"), 2, drop_last=drop_last, drop_uneven_inputs=uneven
        )
        shares.append([batch.seeds.tolist() for batch in gb.DataLoader(sampler)])
    last = [[[12, 13]]] if drop_last else [[[12, 13], [14]]]
    expected = [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]], *last]
    assert shares == ([share[:1] for share in expected] if drop_last and uneven else expected)


def test_data_of_pyg(gb):
    pytest.importorskip("torch_geometric")
    g = dglite.rand_graph(20, 100)
    x = torch.randn(20, 3)
    store = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(x)})
    items = gb.ItemSet((torch.arange(4), torch.arange(4)), names=("seeds", "labels"))
    pipe = gb.ItemSampler(items, 4).sample_neighbor(gb.from_dglgraph(g), [-1]).fetch_feature(store, ["x"])
    (batch,) = pipe
    data = batch.to_pyg_data()
    assert torch.equal(data.x, x[data.n_id]) and data.batch_size == 4 and torch.equal(data.y, torch.arange(4))
    assert (data.edge_index[1] < 4).all()


def test_a_legacy_data_set(gb):
    g = dglite.rand_graph(10, 30)
    g.ndata["label"], g.ndata["feat"] = torch.arange(10), torch.randn(10, 2)
    for i, part in enumerate(("train", "val", "test")):
        g.ndata[f"{part}_mask"] = torch.arange(10) % 3 == i
    dataset = gb.LegacyDataset([g])
    assert dataset.tasks[0].validation_set[:][0].tolist() == [1, 4, 7] and len(dataset.all_nodes_set) == 10
    assert torch.equal(dataset.feature.read("node", None, "feat"), g.ndata["feat"])
    with pytest.raises(NotImplementedError, match="must define graph"):
        gb.Dataset().graph  # noqa: B018


def test_input_that_does_not_fit_names_the_stage(gb, typed, tmp_path):
    graph = gb.from_dglgraph(dglite.rand_graph(20, 100))
    nodes = gb.ItemSampler(gb.ItemSet(4, names="seeds"), 2)
    store = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(torch.zeros(20, 2))})
    torch.tensor([0])
    labelled = gb.ItemSampler(gb.ItemSet(4, names="labels"), 2)

    def forgets(batch):
        batch.labels = None

    class OfOtherThings(gb.SubgraphSampler):
        def sample_subgraphs(self, seeds, seeds_timestamp=None):
            return seeds, [3]

    short = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(torch.zeros(2, 2))})
    for run, error, match in (
        (lambda: list(nodes.transform(forgets)), TypeError, r"stage transform\(.*forgets\) returned NoneType"),
        (lambda: list(labelled.sample_neighbor(graph, [2])), DGLError, "NeighborSampler needs a MiniBatch with seeds"),
        (lambda: list(nodes.sample_uniform_negative(graph, 2)), DGLError, "UniformNegativeSampler needs .* are nodes"),
        (lambda: nodes.sample_neighbor(graph, [2]).fetch_feature(store, ["y"]), KeyError, "no feature .*'y'"),
        (lambda: list(nodes.sample_neighbor(graph, [2]).fetch_feature(store, {"a": []})), DGLError, "a list of names"),
        (lambda: list(labelled.fetch_feature(store, ["x"])), DGLError, "FeatureFetcher needs .* input_nodes"),
        (lambda: list(nodes.transform(gb.exclude_seed_edges)), DGLError, "nothing was sampled"),
        (lambda: list(OfOtherThings(nodes)), TypeError, r"OfOtherThings.sample_subgraphs returned a list with int"),
        (lambda: nodes.sample_neighbor("g", [2]), DGLError, "NeighborSampler needs a FusedCSCSamplingGraph, got str"),
        (lambda: list(nodes.fetch_feature(short, ["x"])), IndexError, r"FeatureFetcher, feature .*'x'\): row id"),
        (lambda: gb.DataLoader(gb.DistributedItemSampler(gb.ItemSet(4), 2)), DGLError, "DistributedItemSampler share"),
        (lambda: list(nodes.temporal_sample_neighbor(graph, [2])), DGLError, "needs times of the seeds"),
        (
            lambda: nodes.sample_neighbor(typed, [2, torch.tensor([1, 1, 1, 1])]),
            DGLError,
            "for all edge types together",
        ),
        (lambda: nodes.sample_neighbor(graph, [2.5]), DGLError, "must be integers >= -1"),
        (lambda: typed.sample_neighbors(torch.tensor([1]), torch.tensor([1])), DGLError, "a dictionary of tensors"),
        (lambda: typed.in_subgraph({"N1": torch.tensor([3])}), DGLError, "3"),
        (lambda: gb.fused_csc_sampling_graph(torch.tensor([0, 1]), torch.tensor([0, 0])), DGLError, r"ends with \[1\]"),
        (
            lambda: gb.fused_csc_sampling_graph(torch.tensor([0]), torch.arange(0), torch.tensor([0])),
            DGLError,
            "missing",
        ),
        (lambda: gb.SubgraphSampler(nodes).sample_subgraphs(None, None), NotImplementedError, "sample_subgraphs"),
        (
            lambda: gb.BuiltinDataset("no-such-set", root=tmp_path),
            DGLError,
            r"put the unpacked folder there, or the archive at",
        ),
        (lambda: gb.DiskBasedFeature(tmp_path / "x.npy"), DGLError, "does not exist"),
        (lambda: gb.BasicFeatureStore({"x": 3}), DGLError, "found by"),
    ):
        with pytest.raises(error, match=match):
            run()


def test_a_feature_of_another_length_names_the_field(gb, tmp_path):
    np.save(tmp_path / "e.npy", np.array([[0, 1], [1, 2]]))
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    for change, match in (("", "has 4 rows; expected 3, one for each node"), ("    type: a\n", "the type 'a'")):
        (tmp_path / "metadata.yaml").write_text(
            "graph:\n  nodes:\n  - num: 3\n  edges:\n  - format: numpy\n    path: e.npy\n"
            f"feature_data:\n  - domain: node\n    name: x\n    format: numpy\n    path: x.npy\n{change}"
        )
        with pytest.raises(DGLError, match=rf"feature_data\[0\].*{match}|x.npy.*{match}"):
            gb.preprocess_ondisk_dataset(tmp_path)
