"""Energies of crystals from pairs and triples of atoms: a line graph, three-body messages, a state for each graph."""

from math import pi

import dgl
import dgl.function as fn
import torch as th
from dgl import broadcast_edges, broadcast_nodes, readout_edges, readout_nodes
from dgl.nn import Set2Set, WeightAndSum
from torch import nn


def compute_pair_vector_and_distance(g):
    vector = g.ndata["pos"][g.edges()[1].long()] - g.ndata["pos"][g.edges()[0].long()]
    return vector, vector.norm(dim=1)


def compute_theta(edges):
    vec1, vec2 = edges.src["bond_vec"], edges.dst["bond_vec"]
    cosine = (vec1 * vec2).sum(1) / (vec1.norm(dim=1) * vec2.norm(dim=1))
    return {"cos_theta": cosine.clamp(-0.999, 0.999), "triple_bond_lengths": edges.dst["bond_dist"]}


def prune_edges_by_features(graph, feat, condition):
    """The graph without the edges whose feature fulfills a condition, and where the others were."""
    keep = th.logical_not(condition(graph.edata[feat])).nonzero().squeeze(1)
    u, v = graph.edges()
    pruned = dgl.graph((u[keep], v[keep]), num_nodes=graph.num_nodes(), device=graph.device)
    pruned.edata["edge_ids"] = keep
    for key in graph.edata:
        pruned.edata[key] = graph.edata[key][keep]
    return pruned


def create_line_graph(g):
    """Triples of atoms whose bonds are short, as edges between the bonds."""
    short = prune_edges_by_features(g, "bond_dist", lambda d: d > 3)
    l_g = dgl.line_graph(short, backtracking=False, shared=True)
    assert l_g.num_nodes() == short.num_edges() < g.num_edges() and "bond_dist" in l_g.ndata
    l_g.apply_edges(compute_theta)
    return l_g


class ThreeBody(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.atoms, self.gate = nn.Linear(size, 3), nn.Linear(3, size)

    def forward(self, g, l_g, atoms, bonds):
        three = th.stack([th.cos(k * l_g.edata["cos_theta"].acos()) for k in range(3)], 1)
        cutoff = 0.5 * (1 + th.cos(pi * l_g.edata["triple_bond_lengths"] / 6))
        bond = l_g.ndata["edge_ids"]
        ends = self.atoms(atoms)[g.edges()[1].long()[bond]]
        with l_g.local_scope():
            l_g.ndata["end"] = th.sigmoid(ends)
            l_g.edata["basis"] = three * cutoff[:, None]
            l_g.update_all(fn.u_mul_e("end", "basis", "m"), fn.sum("m", "new"))
            return bonds.index_add(0, bond, th.tanh(self.gate(l_g.ndata["new"])))


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.edge, self.node, self.state = (
            nn.Linear(4 * size, size),
            nn.Linear(4 * size, size),
            nn.Linear(3 * size, size),
        )

    def _edge(self, edges):
        inputs = th.hstack([edges.src["v"], edges.dst["v"], edges.data["e"], edges.data["u"]])
        return {"e": edges.data["e"] + nn.functional.silu(self.edge(inputs))}

    def _message(self, edges):
        inputs = th.hstack([edges.src["v"], edges.dst["v"], edges.data["e"], edges.data["u"]])
        return {"mess": self.node(inputs)}

    def forward(self, g, e, v, u):
        with g.local_scope():
            g.edata["e"], g.ndata["v"] = e, v
            g.edata["u"] = broadcast_edges(g, u)
            g.apply_edges(self._edge)
            g.update_all(self._message, fn.sum("mess", "ve"))
            v = v + g.ndata.pop("ve") + broadcast_nodes(g, u)
            g.ndata["v"] = v
            both = [readout_nodes(g, "v", op="mean"), readout_edges(g, feat="e", op="mean")]
            return g.edata.pop("e"), v, nn.functional.silu(self.state(th.hstack([u, *both])))


class Energies(nn.Module):
    def __init__(self, size=6):
        super().__init__()
        self.embedding = nn.Embedding(3, size)
        self.radial = nn.Linear(2, size)
        self.three = nn.ModuleList([ThreeBody(size) for _ in range(2)])
        self.blocks = nn.ModuleList([Block(size) for _ in range(2)])
        self.set2set, self.weighted = Set2Set(size, 2, 1), WeightAndSum(size)
        self.final = nn.Linear(4 * size, 1)

    def forward(self, g):
        g.edata["bond_vec"], g.edata["bond_dist"] = compute_pair_vector_and_distance(g)
        l_g = create_line_graph(g)
        d = g.edata["bond_dist"]
        v, e = self.embedding(g.ndata["kind"]), self.radial(th.stack([th.exp(-d), th.exp(-d * d)], 1))
        u = th.zeros(g.batch_size, v.shape[1])
        for three, block in zip(self.three, self.blocks, strict=True):
            e = three(g, l_g, v, e)
            e, v, u = block(g, e, v, u)
        return self.final(th.hstack([self.set2set(g, v), self.weighted(g, v), u])).squeeze(-1)


def results():
    crystals = []
    for n in (4, 5, 2):
        position = th.sin(th.arange(float(n))[:, None] * th.tensor([1.0, 2.3, 0.7]) + n) * 2
        near = th.cdist(position, position) < 3.2
        u, v = th.where(near & ~th.eye(n, dtype=th.bool))
        g = dgl.graph((u.int(), v.int()), num_nodes=n)
        g.ndata["pos"], g.ndata["kind"] = position, th.arange(n) % 3
        crystals.append(g)
    g = dgl.batch(crystals)
    model = Energies()
    with th.no_grad():
        for i, weight in enumerate(model.parameters()):
            weight.copy_(th.cos(th.arange(float(weight.numel())) + i).view_as(weight) / 2)
    g.ndata["pos"] = g.ndata["pos"].requires_grad_()
    energies = model(g)
    (forces,) = th.autograd.grad(energies.sum(), g.ndata["pos"], create_graph=True)
    (energies.square().sum() + forces.square().sum()).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"energies": energies, "forces": forces, **gradients}
