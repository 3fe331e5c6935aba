"""A process of several that train together."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import dglite
from dglite.dataloading import DataLoader, NeighborSampler
from dglite.nn import SAGEConv
from tests.dataloading.graphs import ring


def train(rank: int, size: int, path: Path) -> None:
    """Train with processes that meet at a file; check what each has seen."""
    distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    # The model goes before the group: after it, torch would wait for the group's threads without giving up the GIL.
    _train(rank, size)
    distributed.destroy_process_group()


def _train(rank: int, size: int) -> None:
    dglite.seed(rank), torch.manual_seed(rank)  # parameters are the first process's, the order is ddp_seed's
    g = ring(30, 4)
    model = DistributedDataParallel(SAGEConv(2, 3, "mean"))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    sampler = NeighborSampler([3], prefetch_node_feats=["x"], prefetch_labels=["y"])
    loader = DataLoader(g, range(21), sampler, batch_size=4, shuffle=True, use_ddp=True, ddp_seed=3, num_workers=1)
    seen, steps = [], 0
    for epoch in range(2):
        loader.set_epoch(epoch)
        for _, seeds, (block,) in loader:
            loss = nn.functional.cross_entropy(model(block, block.srcdata["x"]), block.dstdata["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(seeds.tolist())
            steps += 1
        assert steps == (epoch + 1) * len(loader)
    results = [None] * size
    distributed.all_gather_object(results, (seen, [p.tolist() for p in model.parameters()]))
    for epoch in range(2):
        shares = [[x for batch in of[epoch * 3 : epoch * 3 + 3] for x in batch] for of, _ in results]
        assert [len(share) for share in shares] == [11] * size, shares
        assert set(shares[0] + shares[1]) == set(range(21)), shares  # one of 21 is given twice
    assert results[0][0][:3] != results[0][0][3:] and results[0][1] == results[1][1]
