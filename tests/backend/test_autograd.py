"""The tape itself: what is recorded, and what is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from dglite.backend import toolkit
from dglite.backend.autograd import Tensor, backward, record
from dglite.backend.grad_mode import no_grad
from dglite.errors import DGLError


def leaf(*values: float) -> Tensor:
    return toolkit.tensor(np.array(values), requires_grad=True)


def test_gradients_add_up_over_calls_and_uses() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    (y + y).sum().backward(retain_graph=True)
    y.sum().backward()
    assert x.grad.tolist() == [6, 12]
    x.grad = None
    backward(x, np.ones(2))
    assert x.grad.tolist() == [1, 1]


def test_gradients_are_memory_of_their_own() -> None:
    x, y = leaf(1.0), leaf(2.0)
    (x + y).sum().backward()
    x.grad.mul_(5)
    assert y.grad.tolist() == [1]


def test_nothing_is_recorded_without_need() -> None:
    x = leaf(1.0)
    with no_grad():
        assert not (x * 2).requires_grad
    assert not (toolkit.ones(1) * 2).requires_grad and not x.detach().requires_grad and (x * 2).requires_grad

    @no_grad()
    def silent() -> Tensor:
        return x * 2

    assert not silent().requires_grad
    with no_grad(), toolkit.enable_grad():
        assert (x * 2).requires_grad


def test_a_diamond_is_walked_once() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(60):  # 2 ** 60 paths
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**60


def test_wrong_calls_are_explained() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(DGLError, match=r"of shape \(2,\) needs a gradient"):
        (x * 2).backward()
    with pytest.raises(DGLError, match="nothing that requires a gradient"):
        toolkit.ones(()).backward()
    with pytest.raises(DGLError, match="int64 has no gradient"):
        toolkit.tensor([1], requires_grad=True)
    with pytest.raises(DGLError, match="is not made an array silently"):
        np.asarray(x)
    with pytest.raises(DGLError, match="no dtype bfloat16"):
        toolkit.ones(1).to("bfloat16")
    with pytest.raises(DGLError, match="set DGLITE_BACKEND"):
        toolkit.ones(1).to("cuda:0")
    with pytest.raises(DGLError, match="only leaves"):
        (x * 2).requires_grad_(False)


def test_writing_in_place_is_noticed() -> None:
    x, w = toolkit.ones(2), leaf(1.0, 1.0)
    y = x * w
    view = x[:1]
    view[0] = 7
    assert x.tolist() == [7, 1]
    with pytest.raises(DGLError, match="'mul' was written in place"):
        y.sum().backward()
    with pytest.raises(DGLError, match="under no_grad"):
        w[0] = 3
    with no_grad():
        w.fill_(2)
    assert w.tolist() == [2, 2]


def test_own_operations_are_recorded() -> None:
    class Cube:
        saved = (0,)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            assert not toolkit.is_grad_enabled()
            return x**3 + y

        def backward(self, inputs, grad, needs):  # type: ignore[no-untyped-def]
            assert inputs[1] is None and needs == (True, False)
            return [3 * inputs[0] * inputs[0] * grad, None]

    x = leaf(2.0)
    record(Cube(), x * 1, toolkit.ones(1)).sum().backward()
    assert x.grad.tolist() == [12]
    with no_grad():
        assert not record(Cube(), x, toolkit.ones(1)).requires_grad


def test_own_operations_get_gradients_of_the_dtype_that_they_gave() -> None:
    class Same:
        saved = ()

        def forward(self, x: Tensor) -> Tensor:
            return x * 1

        def backward(self, inputs, grad, needs):  # type: ignore[no-untyped-def]
            assert grad.dtype == np.float32
            return [grad]

    x = toolkit.tensor(np.ones(2, np.float32), requires_grad=True)
    (record(Same(), x) * np.full(2, 2.0)).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_copies() -> None:
    x = leaf(1.0)
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        twin.data[0] = 5
        assert twin.requires_grad and x.tolist() == [1]
    with pytest.raises(DGLError, match=r"copy x\.detach"):
        copy.deepcopy(x * 2)
    y = x.clone().detach()
    y[0] = 9
    assert x.tolist() == [1] and {x: 1}[x] == 1


def test_a_second_backward_needs_retain_graph() -> None:
    x = leaf(1.0, 2.0)
    square = (x * x).sum()
    square.backward(retain_graph=True)
    square.backward()
    np.testing.assert_allclose(x.grad.data, [4.0, 8.0])
    with pytest.raises(RuntimeError, match=r"a second time.*retain_graph=True"):
        square.backward()
    np.testing.assert_allclose(x.grad.data, [4.0, 8.0])


def test_a_second_backward_through_a_shared_part() -> None:
    x = leaf(1.0, 2.0)
    shared = x.exp()
    shared.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        (shared * 2).sum().backward()
    y = leaf(1.0, 2.0)
    moved = (y + 1).reshape(2, 1)
    moved.sum().backward()
    moved.sum().backward()  # sums and shapes keep nothing, in torch either
    np.testing.assert_allclose(y.grad.data, [2.0, 2.0])


def test_an_array_that_was_written_after_backward_is_no_error_of_the_next() -> None:
    x, other = leaf(1.0, 2.0), toolkit.tensor([1.0, 3.0])
    product = (x * other).sum()
    product.backward()
    other[0] = 5.0
    with pytest.raises(RuntimeError, match="a second time"):
        product.backward()
