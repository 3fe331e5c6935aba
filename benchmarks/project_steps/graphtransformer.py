import dgl
import torch
from data.molecules import laplacian_positional_encoding, make_full_graph
from nets.molecules_graph_regression.load_net import gnn_model as network_of_graphs
from nets.SBMs_node_classification.load_net import gnn_model as network_of_nodes

torch.manual_seed(0)
SHARED = {
    "num_atom_type": 28, "num_bond_type": 4, "in_dim": 28, "n_classes": 3, "hidden_dim": 32, "out_dim": 32,
    "n_heads": 4, "in_feat_dropout": 0.0, "dropout": 0.0, "L": 3, "readout": "mean", "layer_norm": False,
    "batch_norm": True, "residual": True, "edge_feat": True, "device": "cpu", "pos_enc_dim": 4,
}  # fmt: skip


def molecule(num_nodes=20):
    ring, (src, dst) = torch.arange(num_nodes), torch.randint(num_nodes, (2, 20))
    g = dgl.to_bidirected(dgl.graph((torch.cat([ring, src]), torch.cat([ring.roll(1), dst]))))
    g.ndata["feat"], g.edata["feat"] = torch.randint(28, (num_nodes,)), torch.randint(4, (g.num_edges(),))
    g.ndata["wl_pos_enc"] = torch.randint(37, (num_nodes,))
    return laplacian_positional_encoding(g, 4)


graphs = [molecule() for _ in range(24)]
full = make_full_graph(graphs[0])
batch = dgl.batch(graphs)
positions = batch.ndata["lap_pos_enc"].abs()
models = [
    network("GraphTransformer", {**SHARED, "lap_pos_enc": lap, "wl_pos_enc": not lap})
    for network in (network_of_graphs, network_of_nodes)
    for lap in (True, False)
]


def step():
    total = float(full.num_edges())
    for model in models:
        model.zero_grad()
        scores = model(
            batch.local_var(), batch.ndata["feat"], batch.edata["feat"], positions, batch.ndata["wl_pos_enc"]
        )
        loss = scores.square().mean()
        loss.backward()
        total += loss.item()
    return total


print("value", step())
