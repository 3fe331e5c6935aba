import types

import dgl
import layers
import memorys
import modules
import torch


class OnTheCpu(types.ModuleType):
    """Torch, of which all devices are the CPU."""

    def __getattr__(self, name):
        return (lambda _: torch.get_default_device()) if name == "device" else getattr(torch, name)


layers.torch = memorys.torch = OnTheCpu("torch")
torch.Tensor.cuda = lambda tensor: tensor
torch.manual_seed(0)
SAMPLED = {"history": 1}
MEMORY = {"type": "none", "dim_out": 0}
GNN = {"arch": "transformer_attention", "layer": 2, "att_head": 2, "dim_time": 16, "dim_out": 32}
TRAINING = {"dropout": 0.0, "att_dropout": 0.0}


def block(num_dst, degree=5):
    """A block as the repository's sampler makes it: every edge has a source of its own, behind the destinations."""
    dst = torch.arange(num_dst).repeat_interleave(degree)
    src = torch.arange(num_dst, num_dst * (degree + 1))
    sampled = dgl.create_block((src, dst), num_src_nodes=num_dst * (degree + 1), num_dst_nodes=num_dst)
    sampled.edata["dt"], sampled.edata["f"] = torch.rand(len(src)), torch.randn(len(src), 8)
    sampled.srcdata["ts"] = torch.rand(sampled.num_src_nodes())
    return sampled


inner, outer = block(300), block(1800)
outer.srcdata["h"] = torch.randn(outer.num_src_nodes(), 24)
total = 0.0
for combined in (False, True):
    torch.manual_seed(1)
    layer = layers.TransfomerAttentionLayer(24, 8, 16, 2, 0.0, 0.0, 32, combined=combined)
    total += layer(outer).abs().mean().item()
model = modules.GeneralModel(24, 8, SAMPLED, MEMORY, GNN, TRAINING)


def step():
    model.zero_grad()
    positive, negative = model([[outer], [inner]])
    loss = positive.square().mean() + negative.square().mean()
    loss.backward()
    return loss


print("value", total + step().item())
