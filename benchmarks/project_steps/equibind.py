import dgl
import torch
from models.equibind import IEGMN_Layer

torch.manual_seed(0)
sizes = [(20, 50), (25, 60)]


def near(num_nodes, width):
    x = torch.randn(num_nodes, 3)
    g = dgl.graph(dgl.knn_graph(x, 5).edges(), num_nodes=num_nodes, idtype=torch.int32)
    g.ndata["x"], g.edata["feat"] = x, torch.randn(g.num_edges(), width)
    return g


ligand, receptor = (dgl.batch([near(pair[i], 7 + i) for pair in sizes]) for i in (0, 1))
shape = dgl.batch([near(pair[0], 1) for pair in sizes])
shape.edata["feat"] = shape.edata["feat"].squeeze(1).abs()
mask = torch.block_diag(*[torch.ones(pair) for pair in sizes])
layer = IEGMN_Layer(
    orig_h_feats_dim=16, h_feats_dim=16, out_feats_dim=16, lig_input_edge_feats_dim=7, rec_input_edge_feats_dim=8,
    nonlin="lkyrelu", cross_msgs=True, layer_norm="BN", layer_norm_coords="LN", final_h_layer_norm=0,
    use_dist_in_layers=True, skip_weight_h=0.5, x_connection_init=0.25, leakyrelu_neg_slope=0.01, debug=False,
    device="cpu", dropout=0.0, fine_tune=True, geometry_regularization=True, loss_geometry_regularization=True,
)  # fmt: skip
h_ligand, h_receptor = torch.randn(45, 16), torch.randn(110, 16)


def step():
    layer.zero_grad()
    x, h, y, k, _, distortion = layer(
        ligand, receptor, ligand.ndata["x"], h_ligand, h_ligand, ligand.ndata["x"],
        receptor.ndata["x"], h_receptor, h_receptor, receptor.ndata["x"], mask, shape,
    )  # fmt: skip
    loss = sum(part.square().mean() for part in (x, h, y, k)) + 1e-6 * distortion
    loss.backward()
    return loss


print("value", step().item())
