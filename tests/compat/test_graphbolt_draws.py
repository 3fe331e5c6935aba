"""``dgl.graphbolt``: which edges are drawn, by time, for all types together, and without seed edges."""

from __future__ import annotations

import pytest
import torch

import dglite


@pytest.fixture
def gb(dgl_is_dglite):
    import dgl.graphbolt

    return dgl.graphbolt


def shop() -> dglite.DGLGraph:
    """Return a graph of 30 users and 20 items with times of nodes and edges from 0 to 99."""
    torch.manual_seed(0)

    def ends(sources, destinations, count):
        return torch.randint(sources, (count,)), torch.randint(destinations, (count,))

    edges = {("user", "like", "item"): (30, 20, 150), ("item", "by", "user"): (20, 30, 150)}
    edges[("user", "follow", "user")] = (30, 30, 100)
    h = dglite.heterograph({etype: ends(*sizes) for etype, sizes in edges.items()}, {"user": 30, "item": 20})
    for ntype in h.ntypes:
        h.nodes[ntype].data["t"] = torch.randint(100, (h.num_nodes(ntype),))
    for etype in h.etypes:
        h.edges[etype].data["t"] = torch.randint(100, (h.num_edges(etype),))
    return h


def check_edges(h, subgraph):
    """Check that a subgraph's edges are edges of the graph by their ids; yield type, ids and ends in the graph."""
    for name, csc in subgraph.sampled_csc.items():
        etype = tuple(name.split(":"))
        ids = subgraph._edge_ids_in_fused_csc_sampling_graph[name].long()
        rows, columns = subgraph.original_row_node_ids, subgraph.original_column_node_ids[etype[2]].long()
        src = csc.indices.long() if rows is None else rows[etype[0]].long()[csc.indices.long()]
        dst = columns.repeat_interleave(csc.indptr.diff())
        assert [x.tolist() for x in h.find_edges(ids, etype=etype)] == [src.tolist(), dst.tolist()]
        yield etype, ids, src, dst


@pytest.mark.parametrize("method", ["temporal_sample_neighbors", "temporal_sample_layer_neighbors"])
@pytest.mark.parametrize("names", [("edge",), ("node",), ("node", "edge")])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_edges_of_a_window_before_their_seeds(gb, method, names, dtype):
    g = dglite.rand_graph(40, 400)
    g.edata["t"], g.ndata["t"] = torch.randint(20, (400,)).to(dtype), torch.randint(20, (40,)).to(dtype)
    seeds, times, windows = torch.arange(40), torch.randint(20, (40,)).to(dtype), torch.full((40,), 6)
    src, dst = g.edges()
    there, attributes = torch.ones(400, dtype=torch.bool), {f"{x}_timestamp_attr_name": "t" for x in names}
    for x in names:
        when = g.edata["t"] if x == "edge" else g.ndata["t"][src]
        there &= (when < times[dst]) & (when >= times[dst] - 6)
    sample = getattr(gb.from_dglgraph(g), method)
    subgraph = sample(seeds, times, torch.tensor([-1]), False, windows, **attributes)
    ids = subgraph._edge_ids_in_fused_csc_sampling_graph
    assert sorted(ids.tolist()) == there.nonzero().flatten().tolist()
    assert torch.equal(src[ids], subgraph.sampled_csc.indices)
    some = sample(seeds, times, torch.tensor([2]), False, windows, **attributes)
    assert set(some._edge_ids_in_fused_csc_sampling_graph.tolist()) <= set(ids.tolist())


def test_a_seed_is_not_before_itself_and_new_times_count(gb):
    times = torch.tensor([1, 2, 3])
    graph = gb.fused_csc_sampling_graph(
        torch.tensor([0, 3]), torch.zeros(3, dtype=torch.int64), edge_attributes={"t": times}
    )

    def degrees(*stamps):
        stamps = torch.tensor(stamps)
        sample = graph.temporal_sample_neighbors(
            torch.zeros(len(stamps), dtype=torch.int64), stamps, torch.tensor([-1]), edge_timestamp_attr_name="t"
        )
        return sample.sampled_csc.indptr.diff().tolist()

    assert degrees(1, 2, 3, 4) == [0, 1, 2, 3] and degrees(2.5, 3.0, -1.0) == [2, 2, 0]
    graph.add_edge_attribute("t", torch.tensor([2.5, 9.0, float("nan")]))
    assert degrees(2, 3) == [0, 1] and degrees(2.5, 2.6, 99.0) == [0, 1, 2]


@pytest.mark.parametrize("stage", ["temporal_sample_neighbor", "temporal_sample_layer_neighbor"])
@pytest.mark.parametrize("fanouts", [[4, 4], [-1], [[2, 2, 2], [1, 0, 3]]])
def test_pairs_of_several_types_by_time(gb, stage, fanouts):
    h = shop()
    pairs = torch.stack(h.edges(etype="like"), 1)[:40]
    items = gb.ItemSet((pairs, torch.full((40,), 60)), names=("seeds", "timestamp"))
    pipe = gb.ItemSampler(gb.HeteroItemSet({"user:like:item": items}), 16)
    names = {"node_timestamp_attr_name": "t", "edge_timestamp_attr_name": "t"}
    pipe = getattr(pipe, stage)(gb.from_dglgraph(h), [torch.tensor(x) for x in fanouts], **names)
    drawn = 0
    for batch in gb.DataLoader(pipe):
        for subgraph in batch.sampled_subgraphs:
            for (source, *_), ids, src, _ in (edges := list(check_edges(h, subgraph))):
                etype = next(x[0] for x in edges if x[1] is ids)
                assert (h.edges[etype].data["t"][ids] < 60).all() and (h.nodes[source].data["t"][src] < 60).all()
                drawn += len(ids)
        last = batch.sampled_subgraphs[-1].original_column_node_ids
        places = batch.compacted_seeds["user:like:item"]
        assert torch.equal(
            torch.stack([last["user"][places[:, 0]], last["item"][places[:, 1]]], 1), batch.seeds["user:like:item"]
        )
    assert drawn


@pytest.mark.parametrize("method", ["sample_neighbors", "sample_layer_neighbors"])
def test_one_fanout_for_all_types(gb, method):
    h = shop()
    graph, seeds = gb.from_dglgraph(h), {"user": torch.arange(30), "item": torch.arange(20)}
    dglite.seed(1)
    counts = torch.zeros(30, dtype=torch.int64)
    subgraph = getattr(graph, method)(seeds, torch.tensor([4]))
    for (_, _, target), ids, _, dst in check_edges(h, subgraph):
        assert len(ids.unique()) == len(ids)
        if target == "user":
            counts += torch.bincount(dst, minlength=30)
    degrees = sum(h.in_degrees(etype=x) for x in ("by", "follow"))
    if method == "sample_neighbors":
        assert torch.equal(counts, degrees.clamp(max=4))
    else:  # seeds share random numbers: as many again by the same ones, and about four
        same = [graph.sample_layer_neighbors(seeds, torch.tensor([4]), random_seed=torch.tensor([5])) for _ in range(2)]
        for name, csc in same[0].sampled_csc.items():
            assert torch.equal(csc.indices, same[1].sampled_csc[name].indices)
        assert 2 < counts.float().mean() < 6


def test_blocks_of_all_types_together_have_features_of_edges(gb):
    h = shop()
    items = gb.HeteroItemSet({"user": gb.ItemSet(30, names="seeds"), "item": gb.ItemSet(20, names="seeds")})
    for featured in (True, False):  # ids of edges are read at once, or when they are asked for
        if not featured:
            for etype in h.etypes:
                del h.edges[etype].data["t"]
        pipe = gb.ItemSampler(items, 16, shuffle=True).sample_neighbor(gb.from_dglgraph(h), [3, 5])
        for batch in gb.DataLoader(pipe, num_workers=1):
            for block in batch.blocks:
                for etype in h.canonical_etypes:
                    src, dst = (x.long() for x in block.edges(etype=etype))
                    ends = (
                        block.srcnodes[etype[0]].data[dglite.NID][src],
                        block.dstnodes[etype[2]].data[dglite.NID][dst],
                    )
                    ids = block.edges[etype].data[dglite.EID].long()
                    assert [x.tolist() for x in h.find_edges(ids, etype=etype)] == [x.tolist() for x in ends]
                    if featured:
                        assert torch.equal(block.edges[etype].data["t"], h.edges[etype].data["t"][ids])
            for subgraph in batch.sampled_subgraphs:
                assert len(list(check_edges(h, subgraph))) == 3


def test_seed_edges_are_taken_out_of_blocks_and_of_subgraphs_alike(gb):
    h = shop()
    graph, kinds = gb.from_dglgraph(h), ("user:like:item", "user:follow:user")
    pairs = {kind: torch.stack(h.edges(etype=kind.split(":")[1]), 1) for kind in kinds}
    items = gb.HeteroItemSet({kind: gb.ItemSet(x, names="seeds") for kind, x in pairs.items()})
    reverse = {"user:like:item": "item:by:user", "user:follow:user": "user:follow:user"}
    for read in (False, True):

        def look(batch, read=read):
            assert not read or batch.sampled_subgraphs
            return batch

        pipe = gb.ItemSampler(items, 64).sample_neighbor(graph, [-1, -1]).transform(look)
        pipe = pipe.exclude_seed_edges(include_reverse_edges=True, reverse_etypes_mapping=reverse)
        for batch in gb.DataLoader(pipe):
            hidden = {kind: set(map(tuple, x.tolist())) for kind, x in batch.seeds.items()}
            backwards = [(reverse[kind], {(b, a) for a, b in x}) for kind, x in hidden.items()]
            for kind, x in backwards:
                hidden[kind] = hidden.get(kind, set()) | x
            for subgraph in batch.sampled_subgraphs:
                nodes = subgraph.original_column_node_ids
                for etype, ids, _, _ in check_edges(h, subgraph):
                    left = {int(i) for i in h.in_edges(nodes[etype[2]].unique(), form="eid", etype=etype)}
                    src, dst = (x.tolist() for x in h.find_edges(torch.tensor(sorted(left)), etype=etype))
                    gone = hidden.get(":".join(etype), set())
                    expected = [i for i, *ends in zip(sorted(left), src, dst, strict=True) if tuple(ends) not in gone]
                    assert sorted(ids.tolist()) == expected


def test_times_that_lack_are_named(gb):
    graph = gb.from_dglgraph(shop())
    seeds, one = {"user": torch.arange(3)}, torch.tensor([1])
    for times, names, match in (
        ({"user": torch.arange(2)}, {"edge_timestamp_attr_name": "t"}, "3 seeds of type 'user'; give a time for each"),
        ({}, {"edge_timestamp_attr_name": "t"}, "3 seeds of type 'user'; give a time for each"),
        (None, {"node_timestamp_attr_name": "t"}, "give seeds_timestamp"),
        ({"user": torch.arange(3)}, {"edge_timestamp_attr_name": "when"}, r"no attribute 'when'; it has \['t'\]"),
    ):
        for fanouts in (one, torch.tensor([1, 1, 1])):
            with pytest.raises(dglite.DGLError, match=match):
                graph.temporal_sample_neighbors(seeds, times, fanouts, **names)
    assert graph.temporal_sample_neighbors(seeds, None, one) is not None
