"""What lazy batching refuses, and what it says."""

from __future__ import annotations

import pkgutil
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dglite import DGLError, dynamic


def vector() -> dynamic.LazyTensor:
    return dynamic.lazy(torch.ones(3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x + torch.ones(4), "do not go together"),
        (lambda x: torch.cat([x, torch.ones(2, 2)]), "cannot be recorded"),
        (lambda x: nn.Linear(4, 2)(x), "the last axis of a sample's value must"),
        (lambda x: x.reshape(2, 2), "no batch axis: shape '.2, 2.' is invalid"),
        (lambda x: x.split([1, 1]), "no batch axis: .*sum exactly to 3"),
        (lambda x: nn.LSTMCell(3, 2)(x, (x, x)), "must have as many elements"),
        (lambda x: F.cross_entropy(x, torch.ones(2, 2)), "cannot be recorded"),
    ],
)
def test_shapes_that_do_not_fit(call: object, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        call(vector())  # type: ignore[operator]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.add_(1),
        lambda x: torch.relu_(x),
        lambda x: F.relu(x, inplace=True),
        lambda x: torch.add(x, x, out=torch.ones(3)),
        lambda x: x.__setitem__(0, 1.0),
    ],
)
def test_work_in_place(call: object) -> None:
    with pytest.raises(DGLError, match="in place"):
        call(vector())  # type: ignore[operator]


@pytest.mark.parametrize("call", [bool, float, int, lambda x: 1 if x[0] else 2])
def test_branching_asks_for_a_value(call: object) -> None:
    with pytest.raises(DGLError, match=r"value\(\)"):
        call(vector())  # type: ignore[operator]


def test_dtypes_that_are_not_recorded() -> None:
    with pytest.raises(DGLError, match=r"returns torch.uint8; lazy tensors are"):
        vector().to(torch.uint8)
    with pytest.raises(DGLError, match=r"got torch.int16: convert it first"):
        dynamic.lazy(torch.ones(2, dtype=torch.int16))


def test_sessions_do_not_mix() -> None:
    old = vector()
    dynamic.run(torch.tanh(old))
    for call in (lambda: old + vector(), lambda: torch.cat([vector(), old]), lambda: dynamic.run([old, vector()])):
        with pytest.raises(DGLError, match="different sessions"):
            call()
    with pytest.raises(DGLError, match="different sessions"):
        dynamic.cell(lambda x, y: x + y)(old, vector())
    torch.testing.assert_close(dynamic.run(old * 2), torch.full((3,), 2.0))  # by itself it can go on


def test_what_cannot_be_run() -> None:
    for name in ("run", "backward"):
        with pytest.raises(DGLError, match="an empty list"):
            getattr(dynamic, name)([])
        with pytest.raises(DGLError, match="takes lazy tensors; got int"):
            getattr(dynamic, name)([1])
    with pytest.raises(DGLError, match="takes lazy tensors; got Tensor"):
        dynamic.backward([torch.ones(1)])
    with pytest.raises(DGLError, match="a loss is one floating-point number"):
        dynamic.backward(vector())
    with pytest.raises(DGLError, match="wants a gradient"):
        dynamic.backward(vector().sum())
    dynamic.lazy(torch.ones(3, requires_grad=True))
    with pytest.raises(DGLError, match="wants a gradient"):
        dynamic.backward(vector().sum())  # nor does the loss depend on what does


def test_what_cannot_be_lazy() -> None:
    with pytest.raises(DGLError, match="float32, float64, int32, int64 or boolean"):
        dynamic.lazy(torch.ones(2, dtype=torch.float16))
    with pytest.raises(DGLError, match="on the CPU"):
        dynamic.lazy(torch.ones(2, device="meta"))


def test_indices_out_of_range() -> None:
    table = nn.Embedding(4, 2)
    with pytest.raises(IndexError, match="row 4 of an embedding of 4 rows"):
        table(dynamic.lazy(4))
    with pytest.raises(IndexError, match="index 3 of an axis of 3"):
        vector()[3]
    with pytest.raises(IndexError, match="no batch axis"):
        vector().chunk(3, dim=1)
    with pytest.raises(DGLError, match="is not recorded"):
        nn.Embedding(4, 2, sparse=True)(dynamic.lazy(1))


def test_parameters_changed_before_backward() -> None:
    layer = nn.Linear(3, 1)
    loss = dynamic.run(layer(vector()))
    with torch.no_grad():
        layer.weight.add_(1)
    with pytest.raises(DGLError, match="changed in place"):
        loss.sum().backward()


def test_a_failed_call_leaves_the_session_as_it_was() -> None:
    x = vector()
    y = torch.tanh(x)
    with pytest.raises(DGLError):
        y + torch.ones(4)
    with pytest.raises(DGLError):
        dynamic.run(y, strategy="fast")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(dynamic.run(y), torch.ones(3).tanh())


def test_attributes() -> None:
    x = dynamic.lazy(torch.ones(2, 3))
    assert (x.shape, x.dtype, x.ndim, x.dim(), x.size(), x.size(1)) == ((2, 3), torch.float64, 2, 2, (2, 3), 3)
    assert (x.numel(), len(x), x.is_floating_point(), x.device.type) == (6, 2, True, "cpu")
    assert repr(x) == "LazyTensor(float64[2, 3])"
    assert dynamic.lazy(x) is x
    assert dynamic.lazy([1.0, 2.0]).shape == (2,)
    assert dynamic.lazy(0.5).item() == 0.5
    with pytest.raises(AttributeError, match="no attribute 'grad_of'"):
        _ = x.grad_of
    with pytest.raises(TypeError, match="without axes"):
        len(dynamic.lazy(1.0))


def test_no_public_name_hides_a_package() -> None:
    assert not {module.name for module in pkgutil.iter_modules(dynamic.__path__) if module.ispkg} & set(dynamic.__all__)


@pytest.mark.parametrize("label", [3, -1])
def test_a_label_that_is_no_class(label: int) -> None:
    scores = torch.zeros(3, requires_grad=True)
    good, bad = (F.cross_entropy(dynamic.lazy(scores), dynamic.lazy(y)) for y in (0, label))
    with pytest.raises(IndexError, match=f"label {label} "):
        dynamic.backward([good, bad])
    assert scores.grad is None


def test_a_weight_that_becomes_another_one() -> None:
    layer = torch.nn.Linear(4, 3)
    result = layer(dynamic.lazy(torch.ones(4)).relu())
    layer.weight.data = torch.ones(3, 5)
    with pytest.raises(DGLError, match=r"was \[3, 4\].*is \[3, 5\]"):
        dynamic.run(result)


def test_a_weight_and_a_bias_of_several_dtypes() -> None:
    layer = torch.nn.Linear(4, 3)
    layer.bias.data = layer.bias.data.float()
    with pytest.raises(DGLError, match="float64 and a bias of"):
        layer(dynamic.lazy(torch.ones(4)))
