"""``dgl.frame``, ``dgl.init`` and ``dgl.random``."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dglite
from dglite.compat import frame as init
from dglite.compat import random
from dglite.compat.frame import Column, Frame, Scheme, infer_scheme
from dglite.errors import DGLError, DGLWarning


@pytest.fixture
def frame() -> Frame:
    return Frame({"h": torch.arange(6.0).reshape(3, 2), "y": torch.tensor([1, 2, 3])})


def test_columns_by_name(frame: Frame) -> None:
    assert (frame.num_rows, frame.num_columns, len(frame)) == (3, 2, 2)
    assert frame.schemes["h"] == Scheme((2,), torch.float32) == infer_scheme(frame["h"])
    frame["z"] = Column(torch.zeros(3, 1))
    del frame["y"]
    assert sorted(frame) == ["h", "z"] and "y" not in frame
    with pytest.raises(DGLError, match="first dimension must be 3"):
        frame["w"] = torch.zeros(2)


def test_the_size_of_a_frame() -> None:
    assert Frame().num_rows == 0 and Frame(num_rows=3).num_rows == Frame({"h": torch.zeros(3)}).num_rows == 3
    with pytest.raises(DGLError):
        Frame()["h"] = torch.zeros(4, 1)
    with pytest.raises(DGLError):
        Frame({"h": torch.zeros(2)}, num_rows=3)


def test_rows(frame: Frame) -> None:
    frame.update_row([2], {"h": torch.tensor([[9.0, 9.0]]), "new": torch.ones(1, 1)})
    assert frame["h"][2].tolist() == [9, 9] and frame["new"].tolist() == [[0], [0], [1]]
    frame.add_rows(1)
    assert frame.num_rows == 4 and frame["y"].tolist() == [1, 2, 3, 0]
    frame.set_initializer(lambda shape, dtype, ctx, ids: torch.full(shape, 7, dtype=dtype), "y")
    frame.append({"h": torch.ones(2, 2)})
    assert frame["y"].tolist() == [1, 2, 3, 0, 7, 7] and frame["h"][4:].tolist() == [[1, 1], [1, 1]]
    frame.add_column("z", Scheme((), torch.int32), torch.device("cpu"))
    assert frame["z"].dtype is torch.int32
    with pytest.warns(DGLWarning, match="replaced"):
        frame.add_column("z", Scheme((1,), torch.int64), torch.device("cpu"))
    assert frame.schemes["z"] == Scheme((1,), torch.int64)
    part = frame.subframe(torch.tensor([4, 0]))
    assert part["y"].tolist() == [7, 1] and part.num_rows == 2
    frame.clear()
    assert frame.num_rows == frame.num_columns == 0


def test_copies(frame: Frame) -> None:
    clone, deep = frame.clone(), frame.deepclone()
    clone["new"] = torch.zeros(3)
    frame["y"][0] = 100
    assert "new" not in frame and clone["y"][0] == 100 and deep["y"][0] == 1
    assert frame.to("meta")["h"].is_meta
    results = [results["h"].dtype for results in (frame.half(), frame.bfloat16(), frame.float(), frame.double())]
    assert results == [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    assert frame.half()["y"].dtype is torch.int64 and frame["h"].dtype is torch.float32


def test_columns() -> None:
    column = Column.create(torch.tensor([[1.0], [2.0], [3.0]]))
    part = column.subcolumn(torch.tensor([2, 1])).subcolumn(torch.tensor([0, 0]))
    assert len(part) == 2 and part.index is not None and part.data.tolist() == [[3], [3]] and part.index is None
    column.update([0], torch.tensor([[5.0]]))
    column.extend(torch.tensor([[6.0]]))
    assert column.data.flatten().tolist() == [5, 2, 3, 6] and column[[3, 0]].flatten().tolist() == [6, 5]
    halves = column.subcolumn(torch.tensor([2, 0])).astype(torch.float16)
    assert halves.data.tolist() == column.data[[2, 0]].tolist() and halves.dtype is torch.float16
    assert column.astype("int32").dtype is torch.int32
    assert column.shape == (1,) and column.dtype is torch.float32 and Column.create(column) is column
    clone, deep = column.clone(), column.deepclone()
    column.data[0] = 8
    assert clone.data[0] == 8 and deep.data[0] == 5 and column.to("meta").data.is_meta
    for wrong in (torch.zeros(1, 2), torch.zeros(1, 1, dtype=torch.int64)):
        with pytest.raises(DGLError, match="the column has rows"):
            column.extend(wrong)


def test_initializers() -> None:
    g = dglite.graph(([0], [1]))
    g.set_n_initializer(init.zero_initializer, field="h")
    g.ndata["h"] = torch.ones(2, 3)
    g.add_nodes(1)
    assert g.ndata["h"][2].tolist() == [0, 0, 0]
    with pytest.raises(NotImplementedError, match="zero_initializer"):
        init.base_initializer((1,), torch.float32, "cpu", slice(0, 1))


def test_choice() -> None:
    random.seed(3)
    first = random.choice(10, (2, 3))
    random.seed(3)
    assert random.choice(10, (2, 3)).tolist() == first.tolist() and first.shape == (2, 3) and first.max() < 10
    population = torch.tensor([5.0, 7.0, 9.0])
    assert sorted(random.choice(population, 3, replace=False).tolist()) == [5, 7, 9]
    counts = np.bincount(random.choice(3, 4000, prob=torch.tensor([1.0, 0.0, 3.0])), minlength=3)
    assert counts[1] == 0 and abs(counts[2] - 3000) < 5 * np.sqrt(4000 * 0.75 * 0.25)
    with pytest.raises(DGLError, match="4 of 3"):
        random.choice(3, 4, replace=False)
