"""Persistent processors on an emulated GPU against torch: the same losses, parameters and states of optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from dglite import DGLError, dynamic
from dglite.dynamic.processors import gpu as gpus
from dglite.dynamic.processors.gpu import Profile
from dglite.kernels.cuda.dynamic import persistent as cuda
from dglite.kernels.cuda.run.emulate import Emulator
from dglite.ops import devices
from tests.dynamic.batching.models import TreeLSTM
from tests.dynamic.processors.test_handle import loss_of, weights
from tests.dynamic.processors.test_training import OPTIMIZERS, Losses, Mixed, Wide, tree_losses
from tests.kernels.cuda.emulated import needs_compiler

pytestmark = needs_compiler


@cache
def emulator(blocks: int, backwards: bool = False) -> Emulator:
    return Emulator(blocks, backwards)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what makes handles whose processors are the blocks of an emulated GPU."""

    def make(parameters: Any, optimizer: Any, blocks: int = 2, rows: int | None = 1, backwards: bool = False) -> Any:
        monkeypatch.setattr(devices, "HOST", devices.Gpu(emulator(blocks, backwards)))
        monkeypatch.setattr(gpus, "SMALL", 0)  # all blocks take part in everything
        return dynamic.persistent(parameters, optimizer, rows_per_warp=rows)

    return make


@pytest.fixture(params=[torch.float64])
def dtype(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    """Let models have parameters of a dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


def trained(
    make: Callable[[], nn.Module], losses: Losses, name: str, steps: int, handle: Any = None
) -> tuple[Any, ...]:
    """Return losses, parameters and states after some steps, by torch's optimizer unless a handle is made."""
    torch.manual_seed(0)
    model = make()
    optimizer, values = OPTIMIZERS[name](model.parameters()), []
    if handle is not None:
        trainer = handle(list(model.parameters()), optimizer)
        values = [trainer.step(losses(model, step)) for step in range(steps)][1:] + [trainer.sync()]
    for step in range(steps if handle is None else 0):
        optimizer.zero_grad()
        values.append(dynamic.backward(losses(model, step)).item())
        optimizer.step()
    states = [dict(optimizer.state[x]) for x in model.parameters()]
    return torch.tensor(values), dict(model.named_parameters()), states


def check(make: Callable[[], nn.Module], losses: Losses, name: str, handle: Any, steps: int = 3) -> None:
    expected = trained(make, losses, name, steps)
    result = trained(make, losses, name, steps, handle)
    single = torch.get_default_dtype() is torch.float32
    tolerance = {"rtol": 5e-5, "atol": 1e-5} if single else {"rtol": 1e-10, "atol": 1e-12}
    for one, two in zip(result, expected, strict=True):
        torch.testing.assert_close(one, two, **tolerance)


def wide_losses(*counts: int) -> Losses:
    return lambda model, step: model([(step + n) % 30 for n in range(counts[step % len(counts)])])


@pytest.mark.parametrize(("blocks", "rows", "name"), [(2, 1, "adam"), (3, 2, "nesterov")])
def test_trees(blocks: int, rows: int, name: str, on_gpu: Any, dtype: torch.dtype) -> None:
    """So many that several blocks compute the elements of a batch."""
    check(TreeLSTM, tree_losses(25), name, lambda *given: on_gpu(*given, blocks, rows))


@pytest.mark.parametrize("dtype", [torch.float32], indirect=True)
def test_cells_in_float32(on_gpu: Any, dtype: torch.dtype) -> None:
    check(lambda: TreeLSTM(dynamic.cell), tree_losses(3), "sgd decay", lambda *given: on_gpu(*given, 1, 4))


@pytest.mark.parametrize("blocks", [1, 3])
def test_parameters_in_all_roles(blocks: int, on_gpu: Any, dtype: torch.dtype) -> None:
    check(Mixed, lambda model, step: model(step), "adamw", lambda *given: on_gpu(*given, blocks, 2))


@pytest.mark.parametrize("scratch", [cuda.SCRATCH_BYTES, 1 << 12])
def test_rows_that_do_not_fit_registers(scratch: int, on_gpu: Any, dtype: torch.dtype, monkeypatch: Any) -> None:
    """And sums that do not fit the scratch memory; of a table few and many rows are used by turns."""
    monkeypatch.setattr(cuda, "SCRATCH_BYTES", scratch)
    slots = cuda.slots_of([cuda.Matrix(133, 67, "float64"), cuda.Matrix(21, 133, "float64")], 1, 1)
    assert [whole for _, whole in slots] == [True, False]
    check(Wide, wide_losses(1, 9, 2, 20), "adagrad", lambda *given: on_gpu(*given, 1, 1), steps=4)


class Bag(nn.Module):
    """Rows of a table by vectors of numbers, some of them several times, and one that gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(9, 4, padding_idx=2), nn.Linear(4, 3)

    def forward(self, step: int) -> list[Any]:
        rows = [self.words(dynamic.lazy(torch.tensor(numbers))) for numbers in ([3, step, 3, 2], [1, 8, 3, step])]
        return [self.out(torch.tanh(x)).mean() for x in rows]


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam"])
def test_rows_that_are_looked_up_together(name: str, on_gpu: Any, dtype: torch.dtype) -> None:
    check(Bag, lambda model, step: model(step), name, lambda *given: on_gpu(*given, 2, 1))


def test_small_work_is_one_blocks(on_gpu: Any, dtype: torch.dtype, monkeypatch: Any) -> None:
    def handle(*given: Any) -> Any:
        trainer = on_gpu(*given, 3, 1)
        trainer._machine.small = 1 << 30
        return trainer

    check(Wide, wide_losses(3), "sgd", handle)


def test_no_barrier_is_missing(on_gpu: Any, dtype: torch.dtype) -> None:
    """Blocks and threads that take turns the other way round come to the same bits."""
    ways = [
        trained(TreeLSTM, tree_losses(2), "adam", 2, lambda *given, way=way: on_gpu(*given, 2, 1, way))
        for way in (False, True)
    ]
    torch.testing.assert_close(*ways, rtol=0, atol=0)


def test_losses_of_two_dtypes_and_twice(on_gpu: Any) -> None:
    def losses(model: Any, step: int) -> list[Any]:
        loss = loss_of(model, step)
        return [loss, loss, dynamic.lazy(torch.ones((), dtype=torch.float64)) * 2.0]

    for handle in (dynamic.persistent, lambda *given: on_gpu(*given, 2, 1)):
        check(lambda: nn.Linear(4, 3), losses, "sgd", handle, steps=2)


@pytest.mark.parametrize("label", [3, -1])
def test_an_error_of_a_step_is_raised_by_the_next_call(label: int, on_gpu: Any) -> None:
    model = nn.Linear(4, 3)
    handle = on_gpu(list(model.parameters()), torch.optim.SGD(model.parameters(), lr=0.1))
    before = weights(model)
    handle.step(loss_of(model, label))
    with pytest.raises(IndexError, match=f"label {label} "):
        handle.step(loss_of(model))
    torch.testing.assert_close(weights(model), before, rtol=0, atol=0)
    handle.step(loss_of(model))
    assert handle.sync() is not None
    assert not torch.equal(weights(model)[0], before[0])


def test_the_fastest_rows_per_warp_are_kept(on_gpu: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(gpus, "CANDIDATES", (1, 2))
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    handle = on_gpu(list(model.parameters()), torch.optim.SGD(model.parameters(), lr=0.1), rows=None)
    used = []
    for _ in range(6):
        used.append(handle._machine.profile.rows)
        handle.step(loss_of(model))
        handle.sync()
    assert used[:4] == [1, 1, 2, 2] and used[4] == used[5]


def test_a_profile_compares_the_best_of_some_turns() -> None:
    profile, costs = Profile((1, 2, 4)), iter([9.0, 5.0, 3.0, 8.0, 4.0, 4.0])
    assert [(profile.rows, profile.note(profile.rows, cost))[0] for cost in costs] == [1, 1, 2, 2, 4, 4]
    assert profile.rows == 2
    profile.note(2, 100.0)
    assert profile.rows == 2 and Profile((4,)).rows == 4


def test_what_has_no_instruction_is_an_error(on_gpu: Any) -> None:
    model = nn.Linear(4, 3)
    handle = on_gpu(list(model.parameters()), torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(DGLError, match=r"no instruction for special_erf.*on a GPU"):
        handle.step(torch.special.erf(model(dynamic.lazy(torch.ones(4)))).sum())
    handle.step(loss_of(model))
    assert handle.sync() is not None


def test_weights_elsewhere(on_gpu: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(devices, "why_no_kernels", lambda device: "")
    model, bias = nn.Linear(4, 3), torch.ones(3, device="meta")
    for make in (dynamic.persistent, on_gpu):
        handle = make(list(model.parameters()), torch.optim.SGD(model.parameters(), lr=0.1))
        with pytest.raises(DGLError, match=r"shape \[3\] on meta is used in a step of processors on cpu"):
            handle.step(nn.functional.linear(dynamic.lazy(torch.ones(4)), model.weight, bias).sum())


def test_rows_per_warp_are_for_gpus(on_gpu: Any) -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(DGLError, match="rows_per_warp is for processors on a GPU"):
        dynamic.persistent(model.parameters(), optimizer, rows_per_warp=2)
    with pytest.raises(DGLError, match="got 0"):
        on_gpu(list(model.parameters()), optimizer, rows=0)


def test_a_gpu_that_no_handle_is_for() -> None:
    """Torch's meta device stands for one: what lies there has no values."""
    weight = torch.ones(3, 4, device="meta", requires_grad=True)
    with pytest.raises(DGLError, match="got a tensor on meta, where dglite has no kernels for meta"):
        nn.functional.linear(dynamic.lazy(torch.ones(4)), weight)
    with pytest.raises(DGLError, match=r"on one GPU; got a torch\.float32 tensor on meta"):
        dynamic.persistent([weight], torch.optim.SGD([weight], lr=0.1))
