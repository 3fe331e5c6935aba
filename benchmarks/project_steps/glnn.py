import logging

import dgl
import torch
from models import Model
from train_and_eval import run_inductive, run_transductive

torch.manual_seed(0)
g = dgl.to_bidirected(dgl.graph(torch.randint(1000, (2, 8000)).unbind(), num_nodes=1000))
x, labels = torch.randn(1000, 32), torch.randint(4, (1000,))
ids = torch.randperm(1000)
splits = ids[:300], ids[300:500], ids[500:]
log = logging.getLogger("glnn")
total = 0.0


def conf(name):
    return {
        "model_name": name, "num_layers": 2, "feat_dim": 32, "hidden_dim": 32, "label_dim": 4, "dropout_ratio": 0.0,
        "norm_type": "none", "attn_dropout_ratio": 0.0, "fan_out": "0,0", "batch_size": 1000, "num_workers": 0,
        "device": "cpu", "max_epoch": 2, "eval_interval": 1, "patience": 9, "num_heads": 4,
        "learning_rate": 0.01, "weight_decay": 0.0, "seed": 0,
    }  # fmt: skip


def accuracy(out, target):
    return (out.argmax(1) == target).float().mean().item()


loss_of = torch.nn.NLLLoss()
for name in ("GCN", "GAT", "APPNP", "SAGE"):
    torch.manual_seed(1)
    model = Model(conf(name))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    out, *_ = run_transductive(conf(name), model, g, x, labels, splits, loss_of, accuracy, optimizer, log, [])
    total += out.mean().item()
torch.manual_seed(1)
model = Model(conf("GCN"))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
parts = *torch.arange(600).split([200, 100, 300]), ids[:600], ids[600:]
run_inductive(conf("GCN"), model, g, x, labels, parts, loss_of, accuracy, optimizer, log, [])


def step():
    loss = loss_of(model(g, x).log_softmax(1)[splits[0]], labels[splits[0]])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


print("value", total + step().item())
