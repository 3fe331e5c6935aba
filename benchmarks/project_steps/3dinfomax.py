import dgl
import torch
from models.net3d import Net3D
from models.pna import PNA

torch.manual_seed(0)
SHARED = {"aggregators": ["mean", "max", "min", "std"], "scalers": ["identity", "amplification", "attenuation"]}


def molecule(num_nodes=18):
    ring = torch.arange(num_nodes)
    src, dst = (
        torch.cat([ring, torch.randint(num_nodes, (6,))]),
        torch.cat([ring.roll(1), torch.randint(num_nodes, (6,))]),
    )
    g = dgl.remove_self_loop(dgl.to_bidirected(dgl.graph((src, dst))))
    g.ndata["feat"], g.edata["feat"] = torch.zeros(num_nodes, 9).long(), torch.zeros(g.num_edges(), 3).long()
    g.ndata["feat"][:, 0], g.edata["feat"][:, 0] = torch.randint(90, (num_nodes,)), torch.randint(4, (g.num_edges(),))
    return g


def conformer(num_nodes=18):
    u, v = torch.nonzero(~torch.eye(num_nodes, dtype=torch.bool)).T
    g, x = dgl.graph((u, v)), torch.randn(num_nodes, 3)
    g.ndata["feat"], g.edata["d"] = torch.zeros(num_nodes, 1), (x[u] - x[v]).norm(dim=1, keepdim=True)
    return g


flat, solid = dgl.batch([molecule() for _ in range(24)]), dgl.batch([conformer() for _ in range(24)])
flat_net = PNA(50, 32, readout_aggregators=["min", "max", "mean"], propagation_depth=3, **SHARED)
solid_net = Net3D(
    node_dim=0, edge_dim=1, hidden_dim=20, target_dim=32, readout_aggregators=["min", "max", "mean"],
    fourier_encodings=4, propagation_depth=1, reduce_func="mean",
)  # fmt: skip
for weight in (*flat_net.parameters(), *solid_net.parameters()):
    if weight.dim() > 1:
        torch.nn.init.xavier_uniform_(weight)  # its own are so small that all molecules look the same


def step():
    a, b = flat_net(flat.local_var()), solid_net(solid.local_var())
    scores = torch.nn.functional.normalize(a) @ torch.nn.functional.normalize(b).T / 0.1
    loss = torch.nn.functional.cross_entropy(scores, torch.arange(24))
    flat_net.zero_grad()
    solid_net.zero_grad()
    loss.backward()
    return loss.item()


print("value", step())
