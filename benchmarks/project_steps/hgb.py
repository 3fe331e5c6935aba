import dgl
import torch

torch.Tensor.cuda = lambda tensor: tensor  # its models ask for a GPU
import GNN  # noqa: E402

torch.manual_seed(0)
sizes = 800, 600, 400
g = dgl.remove_self_loop(dgl.graph(torch.randint(sum(sizes), (2, 12000)).unbind(), num_nodes=sum(sizes)))
g = dgl.add_self_loop(g)
types = torch.randint(7, (g.num_edges(),))
features = [torch.randn(size, 32) for size in sizes]
widths = [32] * 3
elu = torch.nn.functional.elu
total = 0.0
for model in (
    GNN.GAT(g, widths, 16, 5, 2, [4, 4, 1], elu, 0.0, 0.0, 0.2, True),
    GNN.GCN(g, widths, 16, 5, 2, elu, 0.0),
):
    torch.manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    total += model(features).abs().mean().item()
torch.manual_seed(1)
model = GNN.myGAT(g, 16, 7, widths, 16, 5, 2, [4, 4, 1], elu, 0.0, 0.0, 0.2, True, 0.05)


def step():
    model.zero_grad()
    loss = model(features, types).square().mean()
    loss.backward()
    return loss


print("value", total + step().item())
