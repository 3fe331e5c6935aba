"""Scripts in DistDGL's manner, unmodified, on 1, 2 and 4 ranks: losses are those of one rank."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

import dglite
from dglite import compat
from dglite.distributed import partition_graph
from tests import forked
from tests.ports import free_port

SCRIPTS = Path(__file__).parent / "scripts" / "distributed"
SIZES = [2, *([4] if os.environ.get("DGLITE_TEST_FULL") == "1" else [])]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def papers() -> dglite.DGLGraph:
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (120,), generator=draw)

    def pairs(count: int, src: int, dst: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randint(src, (count,), generator=draw), torch.randint(dst, (count,), generator=draw)

    edges = {
        ("paper", "cites", "paper"): pairs(500, 120, 120),
        ("author", "writes", "paper"): pairs(300, 60, 120),
        ("paper", "written-by", "author"): pairs(300, 120, 60),
    }
    g = dglite.heterograph(edges, {"paper": 120, "author": 60})
    columns = g.nodes["paper"].data
    columns["feat"] = torch.nn.functional.one_hot(labels, 3) + torch.randn(120, 3, generator=draw)
    columns["labels"] = labels
    columns["train_mask"], columns["val_mask"] = torch.arange(120) % 3 > 0, torch.arange(120) % 3 == 0
    return g


def community() -> dglite.DGLGraph:
    dglite.seed(0)
    draw = torch.Generator().manual_seed(0)
    g = dglite.rand_power_law_graph(200, 1600, num_communities=4, homophily=0.9)
    labels = torch.arange(200) % 4
    g.ndata["labels"] = labels
    g.ndata["features"] = torch.nn.functional.one_hot(labels, 4) + torch.randn(200, 4, generator=draw)
    g.ndata["train_mask"], g.ndata["val_mask"] = torch.arange(200) % 5 < 4, torch.arange(200) % 5 == 4
    return g


def start(script: str, *arguments: str) -> None:
    compat.install()
    forked.script(script, *arguments)


def run(folder: Path, name: str, g: dglite.DGLGraph, ranks: int, parts: int, *arguments: str) -> list[str]:
    """Return what each rank prints."""
    partition_graph(g, "mine", parts, folder / "parts", part_method="random")
    (folder / "ip_config.txt").write_text("127.0.0.1\n")
    given = "--graph_name", "mine", "--ip_config", "ip_config.txt", "--part_config", "parts/mine.json", *arguments
    job = {
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
    }
    before = os.getcwd()
    os.chdir(folder)
    try:
        started = [
            forked.Started(folder, f"rank{rank}", start, str(SCRIPTS / name), *given, RANK=str(rank), **job)
            for rank in range(ranks)
        ]
    finally:
        os.chdir(before)
    done = [process.wait() for process in started]
    for rank, process in enumerate(done):
        assert process.returncode == 0, f"rank {rank}: {process.stderr}"
    return [process.stdout for process in done]


def losses(printed: list[str]) -> np.ndarray:
    """Return the mean over ranks of the losses of each step."""
    steps = defaultdict(list)
    for text in printed:
        for epoch, step, loss in re.findall(r"loss (\d+) (\d+) (\S+)", text):
            steps[int(epoch), int(step)].append(float(loss))
    assert steps and all(len(of) == len(printed) for of in steps.values())
    return np.array([np.mean(steps[key]) for key in sorted(steps)])


@pytest.mark.parametrize("ranks", SIZES)
def test_full_batches_of_nodes_have_the_losses_of_one_rank(tmp_path, ranks) -> None:
    arguments = "--fan_out=-1,-1", "--batch_size=1000", "--num_epochs=6"
    by_ranks = {}
    for size, parts in ((1, 1), (ranks, ranks), (ranks, 1)):
        (folder := tmp_path / f"{size} {parts}").mkdir()
        printed = run(folder, "node_classification.py", community(), size, parts, *arguments)
        by_ranks[size, parts] = losses(printed)
        accuracy = float(re.findall(r"all acc (\S+)", printed[0])[-1])
        assert accuracy > 0.5 and not any("all acc" in text for text in printed[1:])
    for actual in by_ranks.values():
        np.testing.assert_allclose(actual, by_ranks[1, 1], rtol=1e-4)
    assert by_ranks[1, 1][-1] < by_ranks[1, 1][0]


def test_ranks_have_batches_of_their_own(tmp_path) -> None:
    g = community()
    g.ndata["train_mask"] = torch.arange(200) < 51  # 26 and 25 nodes, in batches of 25
    printed = run(tmp_path, "node_classification.py", g, 2, 2, "--batch_size=25", "--num_epochs=2")
    counts = sorted(len(re.findall(r"loss \d+", text)) for text in printed)
    assert counts == [2, 4]


@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize("sparse", [False, True])
def test_types_have_the_losses_of_one_rank(tmp_path, ranks, sparse) -> None:
    arguments = ["--fan_out=-1,-1", *(["--dgl_sparse"] if sparse else [])]
    results = []
    for size in (1, ranks):
        (folder := tmp_path / str(size)).mkdir()
        printed = run(folder, "rgcn.py", papers(), size, 1, *arguments)  # new ids, which have embeddings, are the same
        results.append(losses(printed))
        assert "val acc" in printed[0]
    # Each rank draws the first values of its rows of a table, and a row has the mean gradient of ranks that read it.
    np.testing.assert_allclose(results[1], results[0], rtol=0.3 if sparse else 1e-4)


@pytest.mark.parametrize("ranks", SIZES)
def test_pairs_are_learned_by_any_number_of_ranks(tmp_path, ranks) -> None:
    results = []
    for size in (1, ranks):
        (folder := tmp_path / str(size)).mkdir()
        batch = f"--batch_size={400 // size}"  # so that steps are of as many pairs
        printed = run(folder, "link_prediction.py", community(), size, size, batch, "--remove_edge")
        results.append(losses(printed))
        assert "features (200, 4)" in printed[0]
    # Neighbours and negative pairs are random: seen apart by up to 10%.
    means = [of.reshape(3, -1).mean(axis=1) for of in results]
    np.testing.assert_allclose(means[1], means[0], rtol=0.2)
