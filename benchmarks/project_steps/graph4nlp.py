import dgl
import torch
from graph4nlp.pytorch.data.data import GraphData, from_dgl, to_batch
from graph4nlp.pytorch.modules.graph_embedding_learning.gat import GAT
from graph4nlp.pytorch.modules.graph_embedding_learning.gcn import GCN
from graph4nlp.pytorch.modules.graph_embedding_learning.ggnn import GGNN
from graph4nlp.pytorch.modules.graph_embedding_learning.graphsage import GraphSAGE

torch.manual_seed(0)


def sentence(num_nodes=30, num_edges=90):
    g = dgl.add_self_loop(dgl.graph(torch.randint(num_nodes, (2, num_edges)).unbind(), num_nodes=num_nodes))
    g.ndata["node_feat"] = torch.randn(num_nodes, 32)
    return from_dgl(g)


def model_of(kind, direction):
    shared = {"direction_option": direction, "feat_drop": 0.0}
    if kind is GAT:
        return GAT(2, 32, 32, 32, [2, 2], attn_drop=0.0, **shared)
    if kind is GGNN:
        return GGNN(2, 32, 32, 32, **shared)
    if kind is GraphSAGE:
        return GraphSAGE(2, 32, 32, 32, "lstm", **shared)
    return GCN(2, 32, 32, 32, **shared)


batch = to_batch([sentence() for _ in range(6)])
assert isinstance(batch, GraphData)
total = 0.0
for kind in (GCN, GAT, GGNN, GraphSAGE):
    for direction in ("undirected", "bi_sep", "bi_fuse"):
        torch.manual_seed(1)
        model = model_of(kind, direction)
        total += model(batch).node_features["node_emb"].abs().mean().item()
torch.manual_seed(1)
model = model_of(GGNN, "bi_fuse")


def step():
    model.zero_grad()
    loss = model(batch).node_features["node_emb"].square().mean()
    loss.backward()
    return loss


print("value", total + step().item())
