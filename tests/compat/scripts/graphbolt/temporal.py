"""Temporal link prediction: no edge is later than its seed, as DGL's examples/graphbolt/temporal_link_prediction.py."""

import dgl.graphbolt as gb
import torch

TIME = "__timestamp__"


def main(mode="temporal_sample_neighbor"):
    torch.manual_seed(0)
    users, items, count = 30, 20, 600
    user, item = torch.randint(users, (count,)), torch.randint(items, (count,))
    time = torch.arange(count)
    # In one numbering: users, then items; edges user -> item and item -> user by destination.
    src, dst = torch.cat([user, item + users]), torch.cat([item + users, user])
    kind = torch.cat([torch.zeros(count), torch.ones(count)]).to(torch.uint8)
    order = dst.argsort(stable=True)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), dst.bincount(minlength=users + items).cumsum(0)])
    graph = gb.fused_csc_sampling_graph(
        indptr,
        src[order],
        torch.tensor([0, users, users + items]),
        kind[order],
        {"user": 0, "item": 1},
        {"user:buys:item": 0, "item:bought:user": 1},
        {TIME: torch.zeros(users + items, dtype=torch.int64)},
        {TIME: time.repeat(2)[order]},
    )
    seeds = torch.stack([user, item], 1)[300:]
    train_set = gb.HeteroItemSet(
        {"user:buys:item": gb.ItemSet((seeds, time[300:], torch.ones(300)), names=("seeds", "timestamp", "labels"))}
    )
    datapipe = gb.ItemSampler(train_set, batch_size=50, shuffle=True)
    datapipe = getattr(datapipe, mode)(graph, [5, 5], node_timestamp_attr_name=TIME, edge_timestamp_attr_name=TIME)
    edges = 0
    for data in gb.DataLoader(datapipe):
        places = data.compacted_seeds["user:buys:item"]
        last = data.sampled_subgraphs[-1]
        stamps = {"user": data.timestamp["user:buys:item"], "item": data.timestamp["user:buys:item"]}
        assert places.shape == data.seeds["user:buys:item"].shape
        for layer in reversed(data.sampled_subgraphs):
            after = {}
            for etype, csc in layer.sampled_csc.items():
                ntype = etype.split(":")[2]
                of = gb.expand_indptr(csc.indptr, node_ids=stamps[ntype])
                ids = layer._edge_ids_in_fused_csc_sampling_graph[etype]
                column = graph.g.edges[gb.etype_str_to_tuple(etype)].data[TIME]
                assert (column[ids.long()] < of).all()
                assert mode != "temporal_sample_neighbor" or csc.indptr.diff().max() <= 5
                edges += len(ids)
                after.setdefault(etype.split(":")[0], []).append(of)
            stamps = {t: torch.cat([stamps[t], *after.get(t, [])]) for t in stamps}
        assert [block.num_dst_nodes("user") for block in data.blocks][-1] == len(last.original_column_node_ids["user"])
    return edges
