import dgl
import torch
from data.molecules import init_positional_encoding, make_full_graph
from nets.ZINC_graph_regression.load_net import gnn_model

torch.manual_seed(0)
SHARED = {
    "num_atom_type": 28, "num_bond_type": 4, "hidden_dim": 20, "out_dim": 20, "n_heads": 4, "in_feat_dropout": 0.0,
    "dropout": 0.0, "L": 3, "readout": "mean", "layer_norm": False, "batch_norm": True, "graph_norm": True,
    "residual": True, "edge_feat": True, "device": "cpu", "pos_enc_dim": 8, "pe_init": "rand_walk",
    "use_lapeig_loss": False, "alpha_loss": 1e-4, "lambda_loss": 1.0, "batch_size": 16, "edge_dim": 10,
    "aggregators": "mean max min std", "scalers": "identity amplification attenuation", "avg_d": {"log": 1.1},
    "divide_input_first": True, "divide_input_last": True, "gru": False, "towers": 5, "pretrans_layers": 1,
    "posttrans_layers": 1, "init_gamma": 0.1, "full_graph": True, "adaptive_edge_PE": True, "gamma": 0.25, "p_steps": 4,
}  # fmt: skip


def molecule(num_nodes=16):
    src, dst = torch.randint(num_nodes, (2, 24))
    ring = torch.arange(num_nodes)
    u, v = torch.cat([src, ring]), torch.cat([dst, (ring + 1) % num_nodes])
    g = dgl.remove_self_loop(dgl.to_bidirected(dgl.graph((u, v))))
    g.ndata["feat"], g.edata["feat"] = torch.randint(28, (num_nodes,)), torch.randint(4, (g.num_edges(),))
    return init_positional_encoding(g, 8, "rand_walk")


graphs = [molecule() for _ in range(16)]
sparse = dgl.batch(graphs)
full = dgl.batch([make_full_graph(g, adaptive_weighting=(4, 0.25)) for g in graphs])
norm = torch.full((sparse.num_nodes(), 1), 0.25)
models = [
    (gnn_model(name, SHARED), batch)
    for name, batch in (("GatedGCN", sparse), ("PNA", sparse), ("SAN", full), ("GraphiT", full))
]


def step():
    total = 0.0
    for model, batch in models:
        model.zero_grad()
        features = batch.ndata["feat"], batch.ndata["pos_enc"], batch.edata["feat"]
        scores, _ = model(batch.local_var(), *features, norm)
        loss = scores.square().mean()
        loss.backward()
        total += loss.item()
    return total


print("value", step())
