"""Node classification by GraphSAGE on a partitioned graph, as DistDGL's users write it; run unmodified."""

import argparse

import dgl
import dgl.nn.pytorch as dglnn
import numpy as np
import torch as th
import torch.nn as nn
import torch.nn.functional as F


class SAGE(nn.Module):
    def __init__(self, in_feats, n_hidden, n_classes):
        super().__init__()
        self.n_hidden, self.n_classes = n_hidden, n_classes
        self.layers = nn.ModuleList(
            [dglnn.SAGEConv(in_feats, n_hidden, "mean"), dglnn.SAGEConv(n_hidden, n_classes, "mean")]
        )

    def forward(self, blocks, h):
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, h)
            if i == 0:
                h = F.relu(h)
        return h

    def inference(self, g, x, batch_size):
        nodes = dgl.distributed.node_split(np.arange(g.num_nodes()), g.get_partition_book(), force_even=True)
        for i, layer in enumerate(self.layers):
            width, name = (self.n_hidden, "h") if i == 0 else (self.n_classes, "h_last")
            y = dgl.distributed.DistTensor((g.num_nodes(), width), th.float32, name, persistent=True)
            sampler = dgl.dataloading.NeighborSampler([-1])
            loader = dgl.distributed.DistNodeDataLoader(
                g, nodes, sampler, batch_size=batch_size, shuffle=False, drop_last=False
            )
            for input_nodes, output_nodes, blocks in loader:
                h = x[input_nodes]
                h = layer(blocks[0], (h, h[: blocks[0].number_of_dst_nodes()]))
                y[output_nodes] = F.relu(h) if i == 0 else h
            x = y
            g.barrier()
        return x


def accuracy(pred, labels):
    return (pred.argmax(dim=1) == labels.long()).float().mean()


def main(args):
    dgl.distributed.initialize(args.ip_config, use_graphbolt=False)
    th.distributed.init_process_group(backend="gloo")
    g = dgl.distributed.DistGraph(args.graph_name, part_config=args.part_config)
    pb = g.get_partition_book()
    trainer = {"node_trainer_ids": g.ndata["trainer_id"]} if "trainer_id" in g.ndata else {}
    train, val = (
        dgl.distributed.node_split(g.ndata[mask], pb, force_even=True, **trainer) for mask in ("train_mask", "val_mask")
    )
    local = pb.partid2nids(pb.partid).detach().numpy()
    print(f"rank {g.rank()}, train: {len(train)} (local: {len(np.intersect1d(train.numpy(), local))})")
    labels = g.ndata["labels"][np.arange(g.num_nodes())]
    n_classes = len(th.unique(labels[th.logical_not(th.isnan(labels.float()))]))

    fanouts = [int(fanout) for fanout in args.fan_out.split(",")]
    sampler = dgl.dataloading.NeighborSampler(fanouts)
    loader = dgl.distributed.DistNodeDataLoader(
        g, train, sampler, batch_size=args.batch_size, shuffle=True, drop_last=False
    )
    th.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(SAGE(g.ndata["features"].shape[1], args.num_hidden, n_classes))
    optimizer = th.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.num_epochs):
        with model.join():
            for step, (input_nodes, seeds, blocks) in enumerate(loader):
                inputs, targets = g.ndata["features"][input_nodes], g.ndata["labels"][seeds].long()
                loss = F.cross_entropy(model(blocks, inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"loss {epoch} {step} {loss.item():.9f}")
        if epoch % args.eval_every == 0 or epoch == args.num_epochs - 1:
            with th.no_grad():
                pred = model.module.inference(g, g.ndata["features"], 37)
                print(f"val acc {accuracy(pred[val], g.ndata['labels'][val]):.4f}")
                if g.rank() == 0:  # alone
                    nodes = np.arange(g.num_nodes())
                    print(f"all acc {accuracy(pred[nodes], g.ndata['labels'][nodes]):.4f}")
            g.barrier()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph_name", type=str)
    parser.add_argument("--ip_config", type=str)
    parser.add_argument("--part_config", type=str)
    parser.add_argument("--num_epochs", type=int, default=20)
    parser.add_argument("--num_hidden", type=int, default=16)
    parser.add_argument("--fan_out", type=str, default="10,25")
    parser.add_argument("--batch_size", type=int, default=1000)
    parser.add_argument("--eval_every", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.03)
    main(parser.parse_args())
