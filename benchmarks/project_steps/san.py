import dgl
import torch
from data.SBMs import add_edge_laplace_feats, laplace_decomp, make_full_graph
from nets.SBMs_node_classification.load_net import gnn_model

torch.manual_seed(0)
SHARED = {
    "in_dim": 3, "n_classes": 2, "full_graph": True, "gamma": 0.1, "LPE_layers": 1, "LPE_dim": 16, "LPE_n_heads": 4,
    "GT_layers": 2, "GT_hidden_dim": 32, "GT_out_dim": 32, "GT_n_heads": 4, "residual": True, "readout": "mean",
    "in_feat_dropout": 0.0, "dropout": 0.0, "layer_norm": False, "batch_norm": True, "device": "cpu",
}  # fmt: skip


def community_graph(num_nodes=40):
    dense = (torch.rand(num_nodes, num_nodes) < 0.2).fill_diagonal_(False)
    g = dgl.graph(dense.nonzero().T.unbind(), num_nodes=num_nodes)
    g.ndata["feat"] = torch.randint(3, (num_nodes,))
    g.edata["feat"] = torch.ones(g.num_edges(), 1)
    return laplace_decomp(g, 10)


graphs = [community_graph() for _ in range(4)]
batch = dgl.batch([make_full_graph(g) for g in graphs])
eig_vecs, eig_vals = batch.ndata["EigVecs"].abs(), batch.ndata["EigVals"]
total = eig_vecs.nansum() + add_edge_laplace_feats(graphs[0]).edata["diff"].abs().nansum()
model = gnn_model("node", SHARED).eval()


def step():
    model.zero_grad()
    scores = model(batch.local_var(), batch.ndata["feat"], batch.edata["real"], eig_vecs.clone(), eig_vals)
    loss = scores.square().mean()
    loss.backward()
    return loss


print("value", total.item() + step().item())
