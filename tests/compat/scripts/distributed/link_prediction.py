"""Embeddings without labels: GraphSAGE learns to tell edges from random pairs; run unmodified."""

import argparse

import dgl
import dgl.function as fn
import dgl.nn.pytorch as dglnn
import numpy as np
import torch as th
import torch.nn as nn
import torch.nn.functional as F


class SAGE(nn.Module):
    def __init__(self, in_feats, n_hidden):
        super().__init__()
        self.layers = nn.ModuleList(
            [dglnn.SAGEConv(in_feats, n_hidden, "mean"), dglnn.SAGEConv(n_hidden, n_hidden, "mean")]
        )

    def forward(self, blocks, h):
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, h)
            if i == 0:
                h = F.relu(h)
        return h


def pair_loss(h, pos_graph, neg_graph):
    scores = []
    for graph in (pos_graph, neg_graph):
        with graph.local_scope():
            graph.ndata["h"] = h
            graph.apply_edges(fn.u_dot_v("h", "h", "score"))
            scores.append(graph.edata["score"])
    label = th.cat([th.ones_like(scores[0]), th.zeros_like(scores[1])])
    return F.binary_cross_entropy_with_logits(th.cat(scores), label)


def main(args):
    dgl.distributed.initialize(args.ip_config)
    th.distributed.init_process_group(backend="gloo")
    g = dgl.distributed.DistGraph(args.graph_name, part_config=args.part_config)
    eids = dgl.distributed.edge_split(th.ones((g.num_edges(),), dtype=th.bool), g.get_partition_book(), force_even=True)
    global_train = th.LongTensor(np.nonzero(g.ndata["train_mask"][np.arange(g.num_nodes())])).squeeze()
    print("number of train", global_train.shape[0], "of edges", len(eids))
    sampler = dgl.dataloading.NeighborSampler([int(fanout) for fanout in args.fan_out.split(",")])
    exclude = "reverse_id" if args.remove_edge else None
    loader = dgl.distributed.DistEdgeDataLoader(
        g,
        eids,
        sampler,
        negative_sampler=dgl.dataloading.negative_sampler.Uniform(args.num_negs),
        exclude=exclude,
        reverse_eids=th.arange(g.num_edges()) if args.remove_edge else None,
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=False,
    )
    th.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(SAGE(g.ndata["features"].shape[1], 16))
    optimizer = th.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.num_epochs):
        with model.join():
            for step, (input_nodes, pos_graph, neg_graph, blocks) in enumerate(loader):
                if exclude is not None:
                    for block in blocks:
                        assert not th.isin(block.edata[dgl.EID], pos_graph.edata[dgl.EID]).any()
                h = model(blocks, g.ndata["features"][input_nodes])
                loss = pair_loss(h, pos_graph, neg_graph)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"loss {epoch} {step} {loss.item():.9f}")
    th.distributed.barrier()
    g._client.barrier()
    if g.rank() == 0:
        print("features", tuple(g.ndata["features"][np.arange(g.num_nodes())].shape))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph_name", type=str)
    parser.add_argument("--ip_config", type=str)
    parser.add_argument("--part_config", type=str)
    parser.add_argument("--num_epochs", type=int, default=3)
    parser.add_argument("--fan_out", type=str, default="5,5")
    parser.add_argument("--batch_size", type=int, default=100)
    parser.add_argument("--num_negs", type=int, default=1)
    parser.add_argument("--remove_edge", action="store_true")
    main(parser.parse_args())
