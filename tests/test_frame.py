"""Columns keep their row count, are written out of place, and are gathered when read."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

import dglite
from dglite.column import Scheme
from dglite.errors import DGLError
from dglite.frame import Frame

ROWS = np.array([2, 0])


def frame(**columns: torch.Tensor) -> Frame:
    return Frame(3, columns, "node", torch.device("cpu"))


def test_a_frame_is_a_mapping():
    f = frame(h=torch.ones(3, 2))
    f["w"] = torch.arange(3)
    assert list(f) == ["h", "w"] and len(f) == 2 and "h" in f and "x" not in f
    assert f.peek("x") is None and f.peek("h") is f["h"]
    assert f.pop("w").tolist() == [0, 1, 2] and list(f.keys()) == ["h"]
    f.update({"a": torch.zeros(3)}, b=torch.zeros(3, 0))
    assert f.schemes == {
        "h": Scheme((2,), torch.float32),
        "a": Scheme((), torch.float32),
        "b": Scheme((0,), torch.float32),
    }
    del f["a"]
    f.clear()
    assert not f and repr(f) == "{}"


def test_lists_become_tensors():
    f = frame()
    f["y"] = [1, 2, 3]
    assert f["y"].dtype == torch.int64


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.ones(2), r"'h' has shape \(2,\); its first dimension must be 3, one row for each node"),
        (torch.tensor(1.0), r"has shape \(\)"),
        ("abc", "must be a tensor, got str"),
        (object(), "must be a tensor, got object"),
        (torch.ones(3, device="meta"), "is on meta, but the graph is on cpu"),
    ],
)
def test_bad_columns_change_nothing(value, message):
    f = frame(h=torch.zeros(3))
    with pytest.raises(DGLError, match=message):
        f["h"] = value
    with pytest.raises(DGLError, match=message):
        f.update({"a": torch.ones(3), "h": value})
    assert f["h"].sum() == 0 and list(f) == ["h"]


def test_names_are_strings_and_missing_ones_are_listed():
    f = frame(h=torch.zeros(3))
    with pytest.raises(DGLError, match="must be a string, got 3"):
        f[3] = torch.zeros(3)
    with pytest.raises(KeyError, match=r"no feature 'x' on the nodes; there are \['h'\]"):
        f["x"]
    with pytest.raises(KeyError, match="no feature 'x'"):
        del f["x"]


# -- rows --------------------------------------------------------------------------------------------------------
def test_writing_rows_is_out_of_place_and_differentiable():
    column = torch.zeros(3, 2, requires_grad=True)
    values = torch.ones(2, 2, requires_grad=True)
    f = frame(h=column)
    f.set_rows(ROWS, {"h": values})
    assert f["h"].tolist() == [[1, 1], [0, 0], [1, 1]] and column.sum() == 0
    f["h"].sum().backward()
    assert column.grad.tolist() == [[0, 0], [1, 1], [0, 0]] and values.grad.sum() == 4
    assert f.get_rows(ROWS)["h"].tolist() == [[1, 1], [1, 1]]


def test_a_new_column_written_by_rows_starts_from_the_initializer():
    f = frame()
    f.set_rows(ROWS, {"h": torch.ones(2)})
    assert f["h"].tolist() == [1, 0, 1]
    f.set_initializer(lambda shape, dtype, device, ids: torch.full(shape, -1, dtype=dtype, device=device), "w")
    f.set_rows(ROWS, {"w": torch.ones(2, dtype=torch.int64)})
    assert f["w"].tolist() == [1, -1, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"h": torch.ones(3, 2)}, "must be 2, one row for each node that is written"),
        ({"h": torch.ones(2, 3)}, r"rows of feature 'h' of the nodes are \(2,\) torch.float32; got \(3,\)"),
        ({"h": torch.ones(2, 2, dtype=torch.float64)}, r"got \(2,\) torch.float64"),
        ({"new": torch.ones(2), "h": torch.ones(1, 2)}, "must be 2"),
    ],
)
def test_bad_rows_change_nothing(values, message):
    f = frame(h=torch.zeros(3, 2))
    with pytest.raises(DGLError, match=message):
        f.set_rows(ROWS, values)
    assert f["h"].sum() == 0 and list(f) == ["h"]


def test_take_gathers_when_read():
    f = frame(h=torch.arange(3.0, requires_grad=True), w=torch.zeros(3, 4))
    taken = f.take(ROWS)
    again = taken.take(np.array([1, 1, 0]))
    assert taken._columns["h"].value is None, "nothing is gathered yet"
    assert again.schemes == f.schemes and again.num_rows == 3
    assert again["h"].tolist() == [0, 0, 2]
    assert taken["h"].tolist() == [2, 0]
    assert taken["h"] is taken["h"] and again.copy()["h"] is again["h"]
    again["h"].sum().backward()
    assert f["h"].grad.tolist() == [2, 0, 1]


def test_copies_share_columns_but_not_their_set():
    f = frame(h=torch.zeros(3))
    other = f.copy()
    assert other["h"] is f["h"]
    other["h"] = torch.ones(3)
    other["w"] = torch.ones(3)
    assert f["h"].sum() == 0 and "w" not in f


# -- growing and shrinking ---------------------------------------------------------------------------------------
def test_append_fills_what_is_missing():
    f = frame(h=torch.ones(3, 2))
    f.set_initializer(lambda shape, dtype, device, ids: torch.full(shape, float(ids.start)), "h")
    f.append(2)
    assert f.num_rows == 5 and f["h"].tolist() == [[1, 1]] * 3 + [[3, 3]] * 2
    f.append(1, {"h": torch.ones(1, 2), "new": torch.ones(1)})
    assert f["new"].tolist() == [0] * 5 + [1] and f["h"].shape == (6, 2)
    f.append(0)
    assert f.num_rows == 6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"h": torch.ones(2)}, "must be 1"),
        ({"h": torch.ones(1, 4)}, r"got \(4,\)"),
        ({"h": torch.ones(1, dtype=torch.int32)}, "int32"),
    ],
)
def test_a_bad_append_changes_nothing(values, message):
    f = frame(h=torch.zeros(3))
    with pytest.raises(DGLError, match=message):
        f.append(1, values)
    assert f.num_rows == 3 and f["h"].shape == (3,)


def test_keep():
    f = frame(h=torch.arange(3))
    f.keep(ROWS)
    assert f.num_rows == 2 and f["h"].tolist() == [2, 0]


def test_initializers_fall_back_from_column_to_frame_to_zeros():
    f = frame()
    like = ((), torch.float32, torch.device("cpu"))
    ones = lambda shape, dtype, device, ids: torch.ones(shape, dtype=dtype)  # noqa: E731
    assert f.initial("h", 2, *like).tolist() == [0, 0]
    f.set_initializer(ones)
    assert f.initial("h", 2, *like).tolist() == [1, 1]
    f.set_initializer(None, "h")
    assert f.initial("h", 2, *like).tolist() == [0, 0]
    assert f.copy().initial("w", 1, *like).tolist() == [1]
    with pytest.raises(DGLError, match="an initializer is called"):
        f.set_initializer(3)
    f.set_initializer(lambda shape, dtype, device, ids: torch.ones(1, dtype=dtype))
    with pytest.raises(DGLError, match=r"returned \(1,\) torch.float32; expected a tensor \(2,\) torch.float32"):
        f.initial("w", 2, *like)
    f.set_initializer(lambda *args: None)
    with pytest.raises(DGLError, match="returned NoneType"):
        f.initial("w", 2, *like)


def test_pickling_and_deep_copies():
    f = frame(h=torch.ones(3)).take(ROWS)
    for other in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
        assert other.num_rows == 2 and other["h"].tolist() == [1, 1]


@pytest.mark.parametrize("num_rows", [0, 3])
def test_no_rows_and_no_width(num_rows):
    f = Frame(num_rows, {"h": torch.zeros(num_rows, 0)})
    f.set_rows(np.empty(0, np.int64), {"h": torch.zeros(0, 0)})
    f.append(2)
    assert f["h"].shape == (num_rows + 2, 0)
    assert f.take(np.empty(0, np.int64))["h"].shape == (0, 0)


def test_selected_rows_know_the_tensor_that_they_are_taken_of():
    h = torch.arange(4.0)
    part = Frame(4, {"h": h}).take(np.array([3, 1, 0])).take(np.array([1, 2]))
    column = part._columns["h"]
    assert column.storage is h and column.index.tolist() == [1, 0]
    assert part["h"].tolist() == [1, 0] and column.storage is part["h"] and column.index is None


def test_a_deep_copy_says_what_to_do_with_a_history() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    frame = Frame(2, {"leaf": x, "plain": torch.zeros(2)}, "node")
    copied = copy.deepcopy(frame)
    assert copied["leaf"] is not x and copied["leaf"].requires_grad and copied.num_rows == 2 and copied.label == "node"
    frame["h"] = x * 2
    with pytest.raises(DGLError, match=r"feature 'h' on the nodes .* use g.clone\(\), .* or store x.detach\(\)"):
        copy.deepcopy(frame)


def test_a_deep_copy_of_a_graph() -> None:
    g = dglite.graph(([0, 1], [1, 0]))
    g.ndata["x"], g.edata["w"] = torch.ones(2, 1), torch.ones(2)
    other = copy.deepcopy([g, g.ndata["x"]])
    assert other[0].ndata["x"] is other[1] and torch.equal(other[0].edges()[0], g.edges()[0])
    g.edata["w"] = torch.ones(2, requires_grad=True).exp()
    with pytest.raises(DGLError, match=r"feature 'w' on the edge.* use g.clone"):
        copy.deepcopy(g)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
@pytest.mark.parametrize("learned", [False, True])
def test_lazy_rows_that_were_read_without_gradients_are_trained_on(mode: str, learned: bool) -> None:
    g = dglite.graph(([0, 1, 2], [1, 2, 0]))
    g.ndata["x"] = x = torch.ones(3, 2, requires_grad=learned)
    weight = torch.ones(2, 1, requires_grad=True)
    sub = g.subgraph([2, 1])
    with getattr(torch, mode)():
        assert not sub.ndata["x"].requires_grad
    (sub.ndata["x"] @ weight).sum().backward()
    assert weight.grad.tolist() == [[2.0], [2.0]]
    assert not learned or x.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
    assert sub.ndata["x"] is sub.ndata["x"]
