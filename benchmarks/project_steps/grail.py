from types import SimpleNamespace

import dgl
import torch
from model.dgl.graph_classifier import GraphClassifier

torch.manual_seed(0)
SHARED = {
    "max_label_value": 2, "inp_dim": 8, "emb_dim": 32, "rel_emb_dim": 32, "attn_rel_emb_dim": 32, "num_rels": 6,
    "aug_num_rels": 6, "num_bases": 4, "num_gcn_layers": 3, "dropout": 0.0, "edge_dropout": 0.0, "has_attn": True,
    "device": "cpu", "add_ht_emb": True,
}  # fmt: skip


def enclosing(relation, num_nodes=15, num_edges=60):
    src, dst = torch.randint(num_nodes, (2, num_edges))
    g = dgl.graph((src, dst), num_nodes=num_nodes)
    g.ndata["feat"], g.ndata["id"] = torch.randn(num_nodes, 8), torch.tensor([1, 2] + [0] * (num_nodes - 2))
    g.edata["type"], g.edata["label"] = torch.randint(6, (num_edges,)), torch.full((num_edges,), relation)
    return g


relations = torch.randint(6, (16,))
batch = dgl.batch([enclosing(int(relation)) for relation in relations])
models = [
    GraphClassifier(SimpleNamespace(gnn_agg_type=name, **SHARED), {str(i): i for i in range(6)})
    for name in ("sum", "mlp", "gru")
]


def step():
    total = 0.0
    for model in models:
        model.zero_grad()
        loss = model((batch.local_var(), relations)).square().mean()
        loss.backward()
        total += loss.item()
    return total


print("value", step())
