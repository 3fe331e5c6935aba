import dgl
import numpy as np
import torch
from data.SBMs import positional_encoding, self_loop
from nets.molecules_graph_regression.load_net import gnn_model as of_graphs
from nets.SBMs_node_classification.load_net import gnn_model as of_nodes
from nets.TSP_edge_classification.load_net import gnn_model as of_edges
from train.train_SBMs_node_classification import evaluate_network_sparse, train_epoch_sparse

torch.manual_seed(0)
np.random.seed(0)
SHARED = {
    "L": 3, "hidden_dim": 32, "out_dim": 32, "residual": True, "readout": "mean", "in_feat_dropout": 0.0,
    "dropout": 0.0, "batch_norm": True, "n_heads": 4, "kernel": 3, "pseudo_dim_MoNet": 2, "sage_aggregator": "maxpool",
    "n_mlp_GIN": 2, "learn_eps_GIN": True, "neighbor_aggr_GIN": "sum", "gated": False, "edge_feat": False,
    "pos_enc": False, "device": "cpu", "n_classes": 2, "in_dim": 3, "in_dim_edge": 1, "num_atom_type": 3,
    "num_bond_type": 4, "layer_norm": False, "layer_type": "dgl",
}  # fmt: skip


def community_graph(num_nodes=60):
    edges = np.argwhere(np.random.rand(num_nodes, num_nodes) < 0.2)
    g = dgl.DGLGraph()
    g.add_nodes(num_nodes)
    g.ndata["feat"] = torch.randint(3, (num_nodes,))
    g.add_edges(edges[:, 0], edges[:, 1])
    g.edata["feat"] = torch.ones(g.number_of_edges(), 1)
    return g


graphs = [community_graph() for _ in range(8)]
with_loops = dgl.batch([self_loop(g) for g in graphs])
encoded = dgl.batch([positional_encoding(g, 4) for g in graphs])
batch = dgl.batch(graphs)
labels = torch.randint(2, (batch.number_of_nodes(),))
assert encoded.ndata["pos_enc"].shape == (batch.number_of_nodes(), 4)
total = with_loops.edata["feat"].sum()
for name in ("GatedGCN", "GCN", "GAT", "GraphSage", "MLP", "GIN", "MoNet"):
    for model_of, edge in ((of_nodes, torch.float32), (of_edges, torch.float32), (of_graphs, torch.int64)):
        torch.manual_seed(1)
        parameters = {**SHARED, "in_dim": 2} if model_of is of_edges else SHARED
        model = model_of(name, parameters)
        h = torch.randn(batch.number_of_nodes(), 2) if model_of is of_edges else batch.ndata["feat"]
        e = torch.ones(batch.number_of_edges(), dtype=edge)
        e = e.unsqueeze(1) if edge.is_floating_point else e
        total = total + model(batch, h, e).square().mean().detach()
model = of_nodes("GatedGCN", SHARED)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = [(batch, labels)] * 2


def step():
    return train_epoch_sparse(model, optimizer, "cpu", loader, 0)[0]


print("value", total.item() + step() + evaluate_network_sparse(model, "cpu", loader, 0)[0])
