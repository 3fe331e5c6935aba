"""Optimizers of node embeddings against the formulas, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from dglite.errors import DGLError
from dglite.nn import NodeEmbedding
from dglite.optim import SparseAdagrad, SparseAdam

TABLE = torch.arange(12.0).reshape(4, 3) / 10
STEPS = [torch.tensor([1, 3, 1]), torch.tensor([3]), torch.tensor([0, 1])]


def table(name: str = "t") -> NodeEmbedding:
    return NodeEmbedding(4, 3, name, lambda x: x.copy_(TABLE))


def train(emb: NodeEmbedding, optimizer: Any, order: str) -> None:
    for ids in STEPS:
        if order == "before":
            optimizer.zero_grad()
        loss = (emb(ids) * torch.arange(1.0, 4)).pow(2).sum()
        if order == "between":
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if order == "after":
            optimizer.zero_grad()


def by_hand(change: Any) -> torch.Tensor:
    """Return the table after the steps; ``change(row, gradient)`` is taken from a row."""
    weight = TABLE.clone()
    for ids in STEPS:
        for row in ids.unique().tolist():  # every reading of a row has the same gradient here, so their mean is that
            weight[row] -= change(row, 2 * weight[row] * torch.arange(1.0, 4) ** 2)
    return weight


@pytest.mark.parametrize("order", ["before", "between", "after"])
def test_adagrad(order: str) -> None:
    total = torch.zeros(4, 3)

    def change(row: int, grad: torch.Tensor) -> torch.Tensor:
        total[row] += grad**2
        return 0.1 * grad / (total[row] + 1e-3).sqrt()

    emb = table()
    train(emb, SparseAdagrad([emb], 0.1, eps=1e-3), order)
    torch.testing.assert_close(emb.weight, by_hand(change))
    assert torch.equal(emb.weight[2], TABLE[2])


@pytest.mark.parametrize("order", ["before", "between", "after"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_adam(order: str, dtype: torch.dtype) -> None:
    first, second, steps = torch.zeros(4, 3), torch.zeros(4, 3), [0] * 4

    def change(row: int, grad: torch.Tensor) -> torch.Tensor:
        steps[row] += 1
        first[row] = 0.8 * first[row] + 0.2 * grad
        second[row] = 0.9 * second[row] + 0.1 * grad**2
        mean, square = first[row] / (1 - 0.8 ** steps[row]), second[row] / (1 - 0.9 ** steps[row])
        return 0.1 * mean / (square.sqrt() + 1e-3)

    emb = table()
    train(emb, SparseAdam([emb], 0.1, (0.8, 0.9), 1e-3, dtype=dtype), order)
    exact = {} if dtype is torch.float32 else {"rtol": 1e-2, "atol": 1e-2}
    torch.testing.assert_close(emb.weight, by_hand(change), **exact)
    assert emb.optm_state[1].dtype is dtype


def test_rows_without_a_gradient_are_left_alone() -> None:
    emb = table()
    optimizer = SparseAdagrad([emb], 0.1)
    emb(torch.tensor([0]))  # read, but in no loss
    emb(torch.tensor([1])).sum().backward()
    with torch.no_grad():
        assert not emb(torch.tensor([2])).requires_grad
    optimizer.step()
    assert [row for row in range(4) if not torch.equal(emb.weight[row], TABLE[row])] == [1] and len(emb.trace) == 1
    optimizer.zero_grad()
    assert not emb.trace


def test_several_backwards_add_up() -> None:
    emb, other = table(), table()
    optimizers = [SparseAdagrad([emb], 0.1), SparseAdagrad([other], 0.1)]
    for ids in ([0, 1], [1]):
        emb(torch.tensor(ids)).square().sum().backward()
    other(torch.tensor([0, 1, 1])).square().sum().backward()
    for optimizer in optimizers:
        optimizer.step()
    torch.testing.assert_close(emb.weight, other.weight)


@pytest.mark.parametrize("make", [SparseAdam, SparseAdagrad])
def test_states_are_restored(make: Any) -> None:
    one, two = table("a"), table("b")
    first = make([one, two], 0.1)
    train(one, first, "before")
    again, same = table("a"), table("b")
    second = make([again, same], 0.5)
    again.all_set_embedding(one.all_get_embedding())
    second.load_state_dict(first.state_dict())
    assert second.param_groups == first.param_groups and second.param_groups[0]["lr"] == 0.1
    train(one, first, "before")
    train(again, second, "before")
    torch.testing.assert_close(again.weight, one.weight, rtol=0, atol=0)
    with pytest.raises(DGLError, match=r"the state has no \['c'\]"):
        make([table("c")], 0.1).load_state_dict(first.state_dict())


def test_wrong_arguments_are_explained() -> None:
    with pytest.raises(DGLError, match="was given no tables"):
        SparseAdam([], 0.1)
    with pytest.raises(DGLError, match="was given a Parameter"):
        SparseAdagrad([torch.nn.Parameter(torch.zeros(2, 2))], 0.1)
    with pytest.raises(DGLError, match="float64"):
        SparseAdam([table()], 0.1, dtype=torch.float64)
    with pytest.raises(DGLError, match=r"got a table of shape \(2, 3\)"):
        table().all_set_embedding(torch.zeros(2, 3))
    with pytest.raises(DGLError, match=r"init_func returned shape \(3,\)"):
        NodeEmbedding(4, 3, "t", lambda x: x[0])
    with pytest.raises(DGLError, match="partition='halves'"):
        NodeEmbedding(4, 3, "t", partition="halves")


def test_a_group_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    assert (table().rank, table().world_size) == (0, 1)


READS = [[0, 3, 3], [3, 1], []]
"""What each of three processes reads of the table at each step."""


def one_of_three(rank: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=3)
    emb = table()
    optimizer = SparseAdam([emb], 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        if READS[rank]:
            (emb(torch.tensor(READS[rank])) ** 2 * (rank + 1)).sum().backward()
        optimizer.step()
    states = optimizer.state_dict()["state"]["t"]
    torch.save((emb.weight.clone(), [x.clone() for x in states], emb.rank, emb.world_size), f"{folder}/{rank}.pt")
    torch.distributed.barrier()
    if rank == 1:
        emb.weight[2] = 7.0
    torch.distributed.barrier()
    assert emb.weight[2].tolist() == [7.0] * 3
    torch.distributed.barrier()
    emb.all_set_embedding(TABLE)
    assert torch.equal(emb.weight, TABLE)
    torch.distributed.destroy_process_group()


def test_processes_of_one_machine_share_a_table(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(one_of_three, (str(tmp_path),), nprocs=3)
    expected = table()
    optimizer = SparseAdam([expected], 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        sum((expected(torch.tensor(ids)) ** 2 * (rank + 1)).sum() for rank, ids in enumerate(READS[:2])).backward()
        optimizer.step()
    for rank in range(3):
        weight, states, number, world = torch.load(tmp_path / f"{rank}.pt")
        torch.testing.assert_close(weight, expected.weight)
        torch.testing.assert_close(tuple(states), expected.all_get_optm_state())
        assert (number, world) == (rank, 3)


def test_what_a_table_says_of_itself() -> None:
    emb = NodeEmbedding(4, 3, "t")
    assert (emb.name, emb.num_embeddings, emb.embedding_dim, emb.rank, emb.world_size) == ("t", 4, 3, -1, 0)
    assert emb.store is None and emb.partition is None and emb.optm_state is None and not emb.weight.any()
