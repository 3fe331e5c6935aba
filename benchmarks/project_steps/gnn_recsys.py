import dgl
import torch
from src.model import ConvModel, max_margin_loss

torch.manual_seed(0)
SIZES = {"user": 200, "item": 300}
bought, clicked = ((torch.randint(200, (1500,)), torch.randint(300, (1500,))) for _ in range(2))
pairs = {("user", "buys", "item"): bought, ("user", "clicks", "item"): clicked}
back = {"buys": "bought-by", "clicks": "clicked-by"}
pairs |= {(b, back[etype], a): (v, u) for (a, etype, b), (u, v) in pairs.items()}
g = dgl.heterograph(pairs, SIZES)
for ntype, size in SIZES.items():
    g.nodes[ntype].data["features"] = torch.randn(size, 16)
for etype in ("buys", "clicks", "bought-by", "clicked-by"):
    g.edges[etype].data["occurrence"] = torch.randint(1, 5, (1500,))
dims = {"user": 16, "item": 16, "hidden": 32, "out": 32}
kinds = ("mean", "mean_nn", "pool_nn", "mean_edge", "mean_nn_edge", "pool_nn_edge")
models = [ConvModel(g, 3, dims, True, 0.0, kind, "cos", "sum") for kind in kinds]
eids = {etype: torch.arange(600) for etype in ("buys", "clicks")}
sampler = dgl.dataloading.as_edge_prediction_sampler(
    dgl.dataloading.MultiLayerFullNeighborSampler(2), exclude="reverse_types",
    reverse_etypes={"buys": "bought-by", "bought-by": "buys", "clicks": "clicked-by", "clicked-by": "clicks"},
    negative_sampler=lambda g, edges: {
        g.to_canonical_etype(etype): (g.find_edges(ids, etype=etype)[0].repeat_interleave(3), (ids.repeat(3) * 7) % 300)
        for etype, ids in edges.items()
    },
)  # fmt: skip
loader = dgl.dataloading.DataLoader(g, eids, sampler, batch_size=512)


def step():
    total = 0.0
    for model in models:
        for _, positive, negative, blocks in loader:
            h = dict(blocks[0].srcdata["features"])
            _, scores, others = model(blocks, h, positive, negative)
            loss = max_margin_loss(scores, others, 0.3, 3)
            model.zero_grad()
            loss.backward()
            total += loss.item()
    return total


print("value", step())
