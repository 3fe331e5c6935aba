"""Sampled blocks, types of edges, sparse matrices and files, through the paths that DGL's users import from."""

import sys
from pathlib import Path

import dgl
import dgl.function as fn
import dgl.sparse as dglsp
import torch
import torch.nn as nn
from dgl import backend as F
from dgl.base import EID, NID, is_internal_column
from dgl.data.utils import load_graphs, save_graphs
from dgl.nn.pytorch.conv import SAGEConv
from dgl.ops import segment_mm, u_mul_e_sum
from dgl.sampling import random_walk, sample_neighbors
from dgl.transforms import Compose, ToSimple


class SAGE(nn.Module):
    def __init__(self, in_feats, hidden, classes):
        super().__init__()
        self.layers = nn.ModuleList([SAGEConv(in_feats, hidden, "mean"), SAGEConv(hidden, classes, "mean")])

    def forward(self, blocks, x):
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x_dst = x[: block.number_of_dst_nodes()]
            x = layer(block, (x, x_dst))
            x = x.relu() if i == 0 else x
        return x


def sample_blocks(g, seeds, fanouts):
    blocks = []
    for fanout in fanouts:
        frontier = sample_neighbors(g, seeds, fanout)
        assert (g.edata["w"][frontier.edata[EID]] == frontier.edata["w"]).all()
        block = dgl.to_block(frontier, seeds)
        seeds = block.srcdata[NID]
        blocks.insert(0, block)
    return seeds, blocks


def two_communities():
    generator = torch.Generator().manual_seed(0)
    side = torch.arange(60) // 30
    odds = torch.where(side[:, None] == side, 0.3, 0.02)
    src, dst = (torch.rand(60, 60, generator=generator) < odds).nonzero(as_tuple=True)
    g = Compose([ToSimple()])(dgl.graph((src, dst), num_nodes=60))
    g = dgl.add_self_loop(dgl.remove_self_loop(dgl.to_bidirected(g)))
    g.ndata["x"] = torch.eye(60)
    g.ndata["y"] = side
    g.edata["w"] = torch.rand(g.num_edges(), 1, generator=generator)
    return g


def train(g):
    torch.manual_seed(0)
    dgl.seed(0)
    model = SAGE(60, 16, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(20):
        for seeds in torch.randperm(60).split(20):
            nodes, blocks = sample_blocks(g, seeds, [4, 4])
            logits = model(blocks, F.gather_row(g.ndata["x"], nodes))
            loss = nn.functional.cross_entropy(logits, g.ndata["y"][seeds])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return (logits.argmax(1) == g.ndata["y"][seeds]).float().mean().item()


def check_operations(g, folder):
    h = torch.randn(60, 3)
    dense = torch.zeros(60, 60)
    src, dst = g.edges()
    dense[dst, src] = g.edata["w"].flatten()
    assert F.allclose(u_mul_e_sum(g, h, g.edata["w"]), dense @ h)
    A = dglsp.spmatrix(torch.stack([dst, src]), g.edata["w"].flatten(), (60, 60))
    assert F.allclose(A @ h, dense @ h)
    assert F.allclose(segment_mm(h, torch.ones(2, 3, 1), torch.tensor([30, 30])), h.sum(1, keepdim=True))
    traces, types = random_walk(g, torch.arange(5), length=3)
    assert g.has_edges_between(traces[:, 0], traces[:, 1]).all() and F.shape(traces) == (5, 4) and len(types) == 4
    save_graphs(str(folder / "g.bin"), [g], {"y": g.ndata["y"]})
    (again,), labels = load_graphs(str(folder / "g.bin"))
    assert again.num_edges() == g.num_edges() and F.asnumpy(labels["y"]).sum() == 30


def check_types():
    hg = dgl.heterograph({("user", "buys", "item"): ([0, 1, 1], [0, 0, 1]), ("item", "bought-by", "user"): ([0], [1])})
    hg.nodes["user"].data["h"], hg.nodes["item"].data["h"] = torch.ones(2, 2), torch.full((2, 2), 2.0)
    hg.multi_update_all({etype: (fn.copy_u("h", "m"), fn.sum("m", "z")) for etype in hg.etypes}, "sum")
    assert hg.nodes["item"].data["z"].tolist() == [[2, 2], [1, 1]]
    flat = dgl.to_homogeneous(hg, ndata=["h"])
    assert sorted(filter(is_internal_column, flat.ndata)) == [NID, dgl.NTYPE]
    assert dgl.to_heterogeneous(flat, hg.ntypes, hg.etypes).num_nodes("item") == 2


if __name__ == "__main__":
    graph = two_communities()
    check_operations(graph, Path(sys.argv[1]))
    check_types()
    print(f"accuracy {train(graph):.2f}")
