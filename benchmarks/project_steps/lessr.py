import torch
from lessr import LESSR
from utils.data.collate import collate_fn_factory, seq_to_eop_multigraph, seq_to_shortcut_graph

torch.manual_seed(0)
sessions = [
    (torch.randint(60, (int(length),)).tolist(), i % 60) for i, length in enumerate(torch.randint(2, 16, (64,)))
]
collate = collate_fn_factory(seq_to_eop_multigraph, seq_to_shortcut_graph)
(by_order, shortcuts), labels = collate(sessions)
model = LESSR(60, 16, 3)


def step():
    model.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(by_order, shortcuts), labels)
    loss.backward()
    return loss


num_edges = sum(graph.num_edges() for graph in collate(sessions)[0])
print("value", step().item() + num_edges)
