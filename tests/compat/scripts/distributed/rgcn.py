"""Node classification on several types: embeddings of featureless nodes, and convolutions by relation; unmodified."""

import argparse

import dgl
import numpy as np
import torch as th
import torch.nn as nn
import torch.nn.functional as F
from dgl import nn as dglnn
from dgl.distributed import DistDataLoader
from torch.nn.parallel import DistributedDataParallel


class RelGraphConvLayer(nn.Module):
    def __init__(self, in_feat, out_feat, rel_names, activation=None):
        super().__init__()
        self.rel_names, self.activation = rel_names, activation
        self.conv = dglnn.HeteroGraphConv(
            {rel: dglnn.GraphConv(in_feat, out_feat, norm="right", weight=False, bias=False) for rel in rel_names}
        )
        self.weight = nn.Parameter(th.Tensor(len(rel_names), in_feat, out_feat))
        nn.init.xavier_uniform_(self.weight, gain=nn.init.calculate_gain("relu"))
        self.loop_weight = nn.Parameter(th.Tensor(in_feat, out_feat))
        nn.init.xavier_uniform_(self.loop_weight)

    def forward(self, g, inputs):
        g = g.local_var()
        weights = {self.rel_names[i]: {"weight": w.squeeze(0)} for i, w in enumerate(th.split(self.weight, 1, dim=0))}
        inputs_dst = {k: v[: g.number_of_dst_nodes(k)] for k, v in inputs.items()}
        hs = self.conv(g, inputs, mod_kwargs=weights)
        hs = {ntype: h + th.matmul(inputs_dst[ntype], self.loop_weight) for ntype, h in hs.items()}
        return {ntype: self.activation(h) if self.activation else h for ntype, h in hs.items()}


def init_emb(shape, dtype):
    arr = th.zeros(shape, dtype=dtype)
    nn.init.uniform_(arr, -1.0, 1.0)
    return arr


class EmbedLayer(nn.Module):
    def __init__(self, g, embed_size, sparse):
        super().__init__()
        self.g, self.projs, self.sparse = g, nn.ModuleDict(), sparse
        self.ntype_id_map = {g.get_ntype_id(ntype): ntype for ntype in g.ntypes}
        self.embeds = {} if sparse else nn.ModuleDict()
        for ntype in g.ntypes:
            if "feat" in g.nodes[ntype].data:
                self.projs[ntype] = nn.Linear(g.nodes[ntype].data["feat"].shape[1], embed_size)
            elif sparse:
                policy = g.get_node_partition_policy(ntype)
                self.embeds[ntype] = dgl.distributed.DistEmbedding(
                    g.num_nodes(ntype), embed_size, "node_emb_" + ntype, init_emb, policy
                )
            else:
                self.embeds[ntype] = nn.Embedding(g.num_nodes(ntype), embed_size)

    def forward(self, node_ids):
        return {
            ntype: self.projs[ntype](self.g.nodes[ntype].data["feat"][ids])
            if ntype in self.projs
            else self.embeds[ntype](ids)
            for ntype, ids in node_ids.items()
        }


class Model(nn.Module):
    def __init__(self, embed, width, n_classes, rel_names):
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(
            [RelGraphConvLayer(width, width, rel_names, F.relu), RelGraphConvLayer(width, n_classes, rel_names)]
        )

    def forward(self, blocks, ids):
        h = self.embed(ids)
        for layer, block in zip(self.layers, blocks, strict=True):
            h = layer(block, h)
        return h["paper"]


def main(args):
    dgl.distributed.initialize(args.ip_config, use_graphbolt=False)
    th.distributed.init_process_group(backend="gloo")
    g = dgl.distributed.DistGraph(args.graph_name, part_config=args.part_config)
    pb, papers = g.get_partition_book(), g.nodes["paper"].data
    train = dgl.distributed.node_split(papers["train_mask"], pb, ntype="paper", force_even=True)
    val = dgl.distributed.node_split(papers["val_mask"], pb, ntype="paper", force_even=True)
    labels = papers["labels"][np.arange(g.num_nodes("paper"))]
    n_classes = len(th.unique(labels[labels >= 0]))
    sampler = dgl.dataloading.MultiLayerNeighborSampler([int(fanout) for fanout in args.fan_out.split(",")])
    loader = dgl.distributed.DistNodeDataLoader(
        g, {"paper": train}, sampler, batch_size=args.batch_size, shuffle=True, drop_last=False
    )
    evaluation = dgl.distributed.DistNodeDataLoader(g, {"paper": val}, sampler, batch_size=7)
    th.manual_seed(0)
    embed = EmbedLayer(g, 16, args.dgl_sparse)
    model = Model(embed, 16, n_classes, g.etypes)
    model = DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = th.optim.Adam(model.parameters(), lr=0.01)
    tables = list(embed.embeds.values()) if args.dgl_sparse else []
    emb_optimizer = dgl.distributed.optim.SparseAdam(tables, lr=0.01) if tables else None
    for epoch in range(args.num_epochs):
        for step, (input_nodes, seeds, blocks) in enumerate(loader):
            loss = F.cross_entropy(model(blocks, input_nodes), labels[seeds["paper"]])
            optimizer.zero_grad()
            if emb_optimizer is not None:
                emb_optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if emb_optimizer is not None:
                emb_optimizer.step()
            print(f"loss {epoch} {step} {loss.item():.9f}")
    results = dgl.distributed.DistTensor(labels.shape, th.long, "results", persistent=True)
    with th.no_grad():
        for input_nodes, seeds, blocks in evaluation:
            results[seeds["paper"]] = model.module(blocks, input_nodes).argmax(dim=1)
    g.barrier()
    if g.rank() == 0:
        nodes = th.LongTensor(np.nonzero(papers["val_mask"][np.arange(g.num_nodes("paper"))])).squeeze()
        print(f"val acc {(results[nodes] == labels[nodes]).float().mean():.4f}")
    pairs = DistDataLoader(dataset=train, batch_size=3, collate_fn=lambda seeds: g.in_subgraph({"paper": seeds}))
    assert sum(graph.num_edges() for graph in pairs) == sum(
        int(g.in_degrees(train, etype).sum()) for etype in g.canonical_etypes if etype[2] == "paper"
    )
    g.barrier()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph_name", type=str)
    parser.add_argument("--ip_config", type=str)
    parser.add_argument("--part_config", type=str)
    parser.add_argument("--num_epochs", type=int, default=5)
    parser.add_argument("--fan_out", type=str, default="4,4")
    parser.add_argument("--batch_size", type=int, default=100)
    parser.add_argument("--dgl_sparse", action="store_true")
    main(parser.parse_args())
