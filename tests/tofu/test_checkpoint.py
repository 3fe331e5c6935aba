"""State leaves and enters a step as DTensors, which torch.distributed.checkpoint takes to other numbers of workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional

from dglite import DGLError, tofu
from dglite.backend.torch_dtensor import DTensor, Replicate, Shard, distribute_tensor
from tests.patience import PATIENCE
from tests.tofu.workers import Workers


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Workers]]:
    results = {k: Workers(k, tmp_path_factory.mktemp(f"job{k}")) for k in (1, 2, 4)}
    yield results
    for workers in results.values():
        workers.stop()


def work(seed: int = 0) -> tuple[nn.Module, torch.optim.Optimizer, tuple[torch.Tensor, torch.Tensor]]:
    """Return a module with buffers, widths that are split evenly and not, its optimizer, and inputs."""
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(8, 10), nn.BatchNorm1d(10), nn.Tanh(), nn.Linear(10, 8), nn.Linear(8, 5)).double()
    torch.manual_seed(1)
    inputs = torch.randn(8, 8, dtype=torch.float64), torch.arange(8) % 5
    return module, torch.optim.AdamW(module.parameters(), 0.01), inputs


def prepared(seed: int = 0, steps: int = 0) -> tuple[tofu.ParallelStep, tuple[torch.Tensor, ...]]:
    """Return a step that has trained for some steps, and its inputs."""
    module, optimizer, inputs = work(seed)
    step = tofu.parallelize(module, functional.cross_entropy, optimizer, timeout=PATIENCE)
    step.prepare(*inputs)
    for _ in range(steps):
        step(*inputs)
    return step, inputs


def save(rank: int, folder: str) -> dict[str, torch.Tensor]:
    step, _ = prepared(steps=2)
    dcp.save({"train": step}, checkpoint_id=folder)
    return step.state_dict(full=True)


def load(rank: int, folder: str) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Return what has been loaded into a module of another seed, and the losses of two more steps."""
    step, inputs = prepared(seed=7)
    dcp.load({"train": step}, checkpoint_id=folder)
    return step.state_dict(full=True), [step(*inputs).item() for _ in range(2)]


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2), (2, 1), (1, 4)])
def test_a_checkpoint_is_loaded_by_another_number_of_workers(
    jobs: dict[int, Workers], tmp_path: Path, before: int, after: int
) -> None:
    module, optimizer, (x, y) = work()
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    saved = jobs[before].run(save, str(tmp_path))[0]
    for loaded, more in jobs[after].run(load, str(tmp_path)):
        assert loaded.keys() == saved.keys() >= {"0.weight", "1.running_var", "3.bias.exp_avg_sq", "0.weight.step"}
        for name, value in saved.items():
            torch.testing.assert_close(loaded[name], value, rtol=0, atol=0)
        assert more == pytest.approx(losses[2:], rel=1e-9)


def states(rank: int) -> list[tuple[str, tuple[Any, ...], tuple[int, ...], bool, bool]]:
    """Return of each DTensor of the state its placements, its mesh, whether it is a part's memory, and right."""
    step, _ = prepared()
    whole, parts = step.state_dict(full=True), step.parts()
    results = []
    for name, x in step.state_dict().items():
        assert isinstance(x, DTensor)
        shares = x.to_local().data_ptr() == parts[name].data_ptr()
        results.append((name, x.placements, x.device_mesh.shape, shares, torch.equal(x.full_tensor(), whole[name])))
    return results


def test_state_is_dtensors_of_the_plans_placements(jobs: dict[int, Workers]) -> None:
    for actual in jobs[4].run(states):
        assert all(right for *_, right in actual)
        by_name = {name: rest for name, *rest in actual}
        assert any(isinstance(p, Shard) for p in by_name["3.weight"][0])
        assert by_name["3.weight"][2]
        assert by_name["0.weight.step"][0] == (Replicate(),) * len(by_name["3.weight"][1])
        # five columns are split elsewhere by a DTensor
        assert not all(shares for _, _, shares, _ in by_name.values())


def enter(rank: int) -> tuple[list[float], float]:
    """Train a module of DTensors, then take DTensors of a mesh that is not the plan's."""
    module, optimizer, inputs = work()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for child in module:
        for name, p in list(child.named_parameters()):
            setattr(child, name, nn.Parameter(distribute_tensor(p.detach(), mesh, [Shard(0)])))
    optimizer = torch.optim.AdamW(module.parameters(), 0.01)
    step = tofu.parallelize(module, functional.cross_entropy, optimizer)
    losses = [step(*inputs).item() for _ in range(2)]
    saved = step.state_dict(full=True)
    other, _ = prepared(seed=7)
    other.load_state_dict(
        {name: distribute_tensor(x, mesh, [Shard(0) if x.dim() else Replicate()]) for name, x in saved.items()}
    )
    return [*losses, step(*inputs).item()], other(*inputs).item()


def test_dtensors_enter(jobs: dict[int, Workers]) -> None:
    expected = jobs[1].run(plain)[0]
    for losses, loss in jobs[2].run(enter):
        assert losses == pytest.approx(expected, rel=1e-9)
        assert loss == pytest.approx(expected[2], rel=1e-9)


def plain(rank: int) -> list[float]:
    step, inputs = prepared()
    return [step(*inputs).item() for _ in range(3)]


def refuse(rank: int) -> None:
    step, inputs = prepared()
    state = step.state_dict()
    with pytest.raises(DGLError, match=r"0\.bias has the shape \(3,\), expected \(10,\)"):
        step.load_state_dict(state | {"0.bias": torch.zeros(3)})
    step(*inputs)


def test_a_wrong_shape_is_refused(jobs: dict[int, Workers]) -> None:
    jobs[2].run(refuse)
