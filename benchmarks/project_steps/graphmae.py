import types

import dgl
import torch
from graphmae.datasets.data_util import preprocess
from graphmae.models import build_model
from graphmae.utils import create_optimizer

torch.manual_seed(0)
g = dgl.graph(torch.randint(500, (2, 3000)).unbind(), num_nodes=500)
g.ndata["feat"] = x = torch.randn(500, 64)
g = preprocess(g)
total = float(g.num_edges())
for encoder in ("gat", "gcn", "gin", "dotgat"):
    torch.manual_seed(1)
    options = types.SimpleNamespace(
        num_heads=4, num_out_heads=1, num_hidden=64, num_layers=2, residual=False, attn_drop=0.0, in_drop=0.0,
        norm=None, negative_slope=0.2, encoder=encoder, decoder=encoder, mask_rate=0.5, drop_edge_rate=0.0,
        replace_rate=0.0, activation="prelu", loss_fn="sce", alpha_l=2, concat_hidden=False, num_features=64,
    )  # fmt: skip
    total += build_model(options)(g, x)[0].item()
options.encoder = options.decoder = "gat"
options.drop_edge_rate, options.replace_rate = 0.5, 0.05
torch.manual_seed(1)
model = build_model(options)
optimizer = create_optimizer("adam", model, 1e-3, 0)


def step():
    torch.manual_seed(2)
    loss, _ = model(g, x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


print("value", total + step().item())
