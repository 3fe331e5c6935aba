"""Equivariant convolutions and attention over fibers: features by degree, kernels from distances, edge softmax."""

import dgl
import dgl.function as fn
import torch as th
from dgl import DGLGraph
from dgl.ops import copy_e_sum, e_dot_v, edge_softmax
from torch import nn

DEGREES, CHANNELS, HEADS = (0, 1), 4, 2


class PairwiseKernel(nn.Module):
    """Weights per edge from features of degree ``d_in`` to ``d_out``, out of the distance and the direction."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.d_in, self.d_out = d_in, d_out
        self.radial = nn.Sequential(nn.Linear(1, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, CHANNELS * CHANNELS))

    def forward(self, distance, direction):
        sides = {0: th.ones_like(distance), 1: direction}
        basis = sides[self.d_out][:, :, None] * sides[self.d_in][:, None, :]
        weight = self.radial(distance).view(-1, CHANNELS, 1, CHANNELS, 1)
        return (weight * basis[:, None, :, None, :]).flatten(3).flatten(1, 2)


class PartialConv(nn.Module):
    """Features of the edges, by degree; without attention, their means at the nodes and what the nodes have."""

    def __init__(self, pooled):
        super().__init__()
        self.pooled = pooled
        self.kernels = nn.ModuleDict({f"{i},{o}": PairwiseKernel(i, o) for i in DEGREES for o in DEGREES})
        self.self_weight = nn.ParameterDict({str(d): nn.Parameter(th.empty(CHANNELS, CHANNELS)) for d in DEGREES})

    def udf_u_mul_e(self, d_out):
        def message(edges):
            total = 0
            for d_in in DEGREES:
                src = edges.src[f"{d_in}"].reshape(-1, CHANNELS * (2 * d_in + 1), 1)
                total = total + th.matmul(edges.data[f"{d_in},{d_out}"], src)
            total = total.view(total.shape[0], -1, 2 * d_out + 1)
            if self.pooled:
                own = edges.dst[f"{d_out}"]
                total = total + th.matmul(self.self_weight[f"{d_out}"], own)
            return {"msg": total}

        return message

    def forward(self, h, graph, distance, direction):
        with graph.local_scope():
            for key, value in h.items():
                graph.ndata[key] = value
            for key, kernel in self.kernels.items():
                graph.edata[key] = kernel(distance, direction)
            out = {}
            for d in DEGREES:
                if self.pooled:
                    graph.update_all(self.udf_u_mul_e(d), fn.mean("msg", f"out{d}"))
                    out[f"{d}"] = graph.ndata[f"out{d}"]
                else:
                    graph.apply_edges(self.udf_u_mul_e(d))
                    out[f"{d}"] = graph.edata["msg"]
            return {k: v.view(v.shape[0], -1, 2 * int(k) + 1) for k, v in out.items()}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_value, self.to_key = PartialConv(False), PartialConv(False)
        self.to_query = nn.ParameterDict({str(d): nn.Parameter(th.empty(CHANNELS, CHANNELS)) for d in DEGREES})

    def heads(self, fiber):
        return th.cat([fiber[str(d)].reshape(fiber[str(d)].shape[0], HEADS, -1) for d in DEGREES], -1)

    def forward(self, h, graph: DGLGraph, distance, direction):
        value, key = (conv(h, graph, distance, direction) for conv in (self.to_value, self.to_key))
        query = {d: th.matmul(self.to_query[d], x) for d, x in h.items()}
        with graph.local_scope():
            weights = e_dot_v(graph, self.heads(key), self.heads(query)).squeeze(-1)
            weights = edge_softmax(graph, weights / (CHANNELS * 4) ** 0.5)
            out = {}
            for d in DEGREES:
                v = value[str(d)].view(graph.num_edges(), HEADS, -1, 2 * d + 1)
                out[str(d)] = copy_e_sum(graph, weights[:, :, None, None] * v).view(-1, CHANNELS, 2 * d + 1)
            graph.ndata["q"], graph.edata["k"] = self.heads(query), self.heads(key)
            graph.apply_edges(fn.e_dot_v("k", "q", "s"))
            assert graph.edata["s"].shape == (graph.num_edges(), HEADS, 1)
        return out


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Attention(), PartialConv(True)])

    def forward(self, graph, h):
        away = graph.edata["rel_pos"]
        distance = away.norm(dim=-1, keepdim=True)
        for layer in self.layers:
            h = {d: x + h[d] for d, x in layer(h, graph, distance, away / distance).items()}
        return dgl.nn.AvgPooling()(graph, h["0"][..., 0]), dgl.nn.MaxPooling()(graph, h["1"].norm(dim=-1))


def results():
    number = th.arange(9.0)
    graphs = []
    for n in (5, 4):
        position = th.sin(number[:n, None] * th.tensor([1.0, 2.3, 0.7]) + n)
        u, v = (end.flatten() for end in th.meshgrid(th.arange(n), th.arange(n), indexing="ij"))
        g = dgl.graph((u[u != v], v[u != v]), num_nodes=n)
        g.ndata["pos"] = position
        g.edata["rel_pos"] = position[g.edges()[1]] - position[g.edges()[0]]
        graphs.append(g)
    batch = dgl.batch(graphs)
    model = Transformer()
    with th.no_grad():
        for i, weight in enumerate(model.parameters()):
            weight.copy_(th.cos(th.arange(float(weight.numel())) + i).view_as(weight) / 2)
    h = {
        "0": th.cos(th.arange(9.0 * CHANNELS)).view(9, CHANNELS, 1),
        "1": th.sin(th.arange(27.0 * CHANNELS)).view(9, -1, 3),
    }
    for x in h.values():
        x.requires_grad_()
    scalar, vector = model(batch, h)
    (scalar.square().sum() + vector.sum()).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"scalar": scalar, "vector": vector, "h0": h["0"].grad, "h1": h["1"].grad, **gradients}
