"""Loaders on another tensor library, and under DGL's name."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dglite.compat import install, uninstall

ROOT = Path(__file__).parents[2]


def test_the_numpy_backend():
    code = """
        import sys
        import numpy as np
        import dglite
        from dglite.backend import active
        from dglite.dataloading import *
        from dglite.dataloading import negative_sampler

        dglite.seed(0)
        g = dglite.rand_graph(50, 400)
        g.ndata["x"] = np.arange(50.0)
        before = active.num_threads()
        sums = []
        for workers in (0, 2):
            dglite.seed(1)
            sampler = NeighborSampler([2, 2], prefetch_node_feats=["x"])
            total = 0
            loader = DataLoader(g, range(30), sampler, batch_size=4, shuffle=True, num_workers=workers)
            for inputs, outputs, blocks in loader:
                assert not workers or active.num_threads() == max(-(-3 * before // 4), before - 2)
                total += float(active.to_numpy(blocks[0].srcdata["x"]).sum())
            sums.append(total)
        assert sums[0] == sums[1] and active.num_threads() == before
        edges = as_edge_prediction_sampler(sampler, "self", negative_sampler=negative_sampler.Uniform(2))
        for inputs, pairs, negative, blocks in DataLoader(g, range(30), edges, batch_size=10, num_workers=1):
            assert negative.num_edges() == 20
        for batch, labels in GraphDataLoader([(g, 1), (g, 2), (g, 3)], batch_size=3):
            assert batch.batch_size == 3 and active.to_numpy(labels).tolist() == [1, 2, 3]
        for sampler in (LaborSampler([2]), ShaDowKHopSampler([2]), SAINTSampler("walk", (2, 2))):
            assert len(list(DataLoader(g, range(4), sampler))) == 4
        assert "torch" not in sys.modules
    """
    environment = {**os.environ, "DGLITE_BACKEND": "numpy", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "dgl.dataloading.NeighborSampler",
        "dgl.dataloading.negative_sampler.Uniform",
        "dgl.dataloading.dataloader.GraphDataLoader",
        "dgl.dataloading.dist_dataloader.EdgeCollator",
        "dgl.dataloading.pytorch.NodeDataLoader",
        "dgl.dataloading.spot_target.SpotTarget",
        "dgl.dataloading.capped_neighbor_sampler.CappedNeighborSampler",
        "dgl.dataloading.base.find_exclude_eids",
        "dgl.set_src_lazy_features",
    ],
)
def test_dgls_names(name):
    install()
    try:
        module, _, attribute = name.rpartition(".")
        assert callable(getattr(importlib.import_module(module), attribute))
    finally:
        uninstall()
