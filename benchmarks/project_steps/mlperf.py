import types

import torch
from dgl_utilities import components

torch.manual_seed(0)
sizes = {"paper": 3000, "author": 2000, "institute": 200, "fos": 500, "conference": 100, "journal": 100}
edges = {}
for a, name, b in [
    ("paper", "cites", "paper"),
    ("paper", "written_by", "author"),
    ("paper", "topic", "fos"),
    ("author", "affiliated_to", "institute"),
    ("paper", "published", "journal"),
    ("paper", "venue", "conference"),
]:
    src, dst = torch.randint(sizes[a], (9000,)), torch.randint(sizes[b], (9000,))
    edges[a, name, b] = src, dst
    if a != b:
        edges[b, f"rev_{name}", a] = dst, src
labels = torch.randint(5, (3000,))
structure = types.SimpleNamespace(edge_dict=edges, separate_sampling_aggregation=False, label=labels)
features = types.SimpleNamespace(feature={name: torch.randn(size, 64) for name, size in sizes.items()})
g = components.build_graph(structure, "dgl", features=features)
model = components.RGAT("dgl", "cpu", g, in_feats=64, h_feats=64, num_classes=5, num_layers=2, n_heads=4)
draws = torch.Generator().manual_seed(0)
for _, parameter in sorted(model.named_parameters()):
    parameter.data = torch.randn(parameter.shape, generator=draws) * 0.1
model.eval()
batches = components.get_loader(
    g, torch.arange(512), "1000,1000", "dgl", use_pyg_sampler=False, batch_size=512, shuffle=False, drop_last=False
)


def step():
    model.zero_grad()
    for batch in batches:
        logits, labels = model(batch, "cpu", None)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
    return loss


print("value", step().item())
