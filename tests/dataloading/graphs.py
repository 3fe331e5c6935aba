"""Graphs that the tests of loaders share, and batches brought to a form that compares."""

from __future__ import annotations

import torch

import dglite


def ring(num_nodes=12, chords=2):
    """Return a graph with ``chords + 1`` edges out of each node, each with features."""
    nodes = torch.arange(num_nodes)
    ends = [(nodes, (nodes + step) % num_nodes) for step in range(1, chords + 2)]
    g = dglite.graph((torch.cat([u for u, _ in ends]), torch.cat([v for _, v in ends])))
    g.ndata["x"], g.ndata["y"] = torch.arange(2.0 * num_nodes).reshape(-1, 2), nodes % 3
    g.edata["w"], g.edata["e"] = torch.ones(g.num_edges()), torch.arange(float(g.num_edges()))
    return g


def shop():
    """Return users who buy items, items bought by users in reverse, and users who follow users."""
    user, item = torch.tensor([0, 0, 1, 2, 3, 3]), torch.tensor([0, 1, 1, 2, 0, 2])
    g = dglite.heterograph(
        {
            ("user", "buys", "item"): (user, item),
            ("item", "bought", "user"): (item, user),
            ("user", "follows", "user"): (torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, 0])),
        }
    )
    g.nodes["user"].data["x"], g.nodes["item"].data["z"] = torch.arange(4.0), torch.arange(3.0)
    return g


def plain(x):
    """Return a batch as lists: graphs by their edges and ids, tensors by their numbers."""
    if isinstance(x, dglite.DGLGraph):
        edges = [[end.tolist() for end in x.edges(etype=etype)] for etype in x.canonical_etypes]
        ids = [x.edges[etype].data.get(dglite.EID, torch.empty(0)).tolist() for etype in x.canonical_etypes]
        return edges, ids
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [plain(value) for value in x]
    return x.tolist() if torch.is_tensor(x) else x


def check_blocks(g, input_nodes, output_nodes, blocks):
    """Assert what defines blocks: each is of edges of ``g``, starts with its destinations, and feeds the next."""
    inputs = {g.ntypes[0]: input_nodes} if len(g.ntypes) == 1 else input_nodes
    outputs = {g.ntypes[0]: output_nodes} if len(g.ntypes) == 1 else output_nodes
    for ntype in g.ntypes:
        assert torch.equal(blocks[0].srcnodes[ntype].data[dglite.NID], inputs[ntype])
        given = outputs.get(ntype, torch.empty(0, dtype=torch.int64))
        assert torch.equal(blocks[-1].dstnodes[ntype].data[dglite.NID], given)
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            src, dst = block.srcnodes[ntype].data[dglite.NID], block.dstnodes[ntype].data[dglite.NID]
            assert torch.equal(src[: len(dst)], dst) and len(src.unique()) == len(src)
            if following is not None:
                assert torch.equal(dst, following.srcnodes[ntype].data[dglite.NID])
    for block in blocks:
        for src_type, etype, dst_type in g.canonical_etypes:
            u, v = block.edges(etype=etype)
            ends = g.find_edges(block.edges[etype].data[dglite.EID], etype)
            assert torch.equal(block.srcnodes[src_type].data[dglite.NID][u], ends[0])
            assert torch.equal(block.dstnodes[dst_type].data[dglite.NID][v], ends[1])
