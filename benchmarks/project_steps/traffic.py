from functools import partial

import dgl
import torch
from traffic_graph.traffic_graph.model import DiffConv, GraphRNN

torch.manual_seed(0)
roads = torch.randint(100, (2, 500)).unique(dim=1)
g = dgl.graph(roads.unbind(), num_nodes=100)
g.edata["weight"] = torch.rand(g.num_edges())
outward, inward = DiffConv.attach_graph(g, 3)
network = partial(DiffConv, k=3, in_graph_list=inward, out_graph_list=outward, dir="both")

model = GraphRNN(2, 16, 4, 2, network, 2000).eval()
speeds, targets = torch.rand(2, 4, 100, 2).unbind()


def step():
    model.zero_grad()
    loss = (model(g, speeds, targets, 1, "cpu") - targets).abs().mean()
    loss.backward()
    return loss


print("value", step().item() + sum(graph.num_edges() for graph in (*outward, *inward)))
