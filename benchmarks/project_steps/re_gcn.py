import numpy as np
import torch
from rgcn.utils import build_sub_graph
from src.rrgcn import RecurrentRGCN

torch.manual_seed(0)
numbers = np.random.RandomState(0)
ENTITIES, RELATIONS, WORDS = 200, 12, 30


def facts(count=400):
    return np.stack([numbers.randint(top, size=count) for top in (ENTITIES, RELATIONS, ENTITIES)], 1)


days = [build_sub_graph(ENTITIES, RELATIONS, facts(), False, -1) for _ in range(3)]
words = np.stack([numbers.randint(top, size=300) for top in (ENTITIES, 4, WORDS)], 1) + [0, 0, ENTITIES]
static = build_sub_graph(ENTITIES + WORDS, 4, words, False, -1)
model = RecurrentRGCN(
    "convtranse", "uvrgcn", ENTITIES, RELATIONS, 4, WORDS, 32, "sub", 3, num_bases=8, num_hidden_layers=2,
    self_loop=True, layer_norm=True, use_static=True, discount=1, angle=10, entity_prediction=True,
    relation_prediction=True, gpu="cpu",
)  # fmt: skip
asked = torch.from_numpy(facts())


def step():
    model.zero_grad()
    loss = sum(model.get_loss(days, asked, static, False)).sum()
    loss.backward()
    return loss


print("value", step().item() + sum(graph.edata["norm"].sum().item() for graph in days))
