"""What scripts take from the tape's framework besides operations: modules, initial values, creation."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from dglite.backend import toolkit
from dglite.errors import DGLError

BOTH = pytest.mark.parametrize("lib", [toolkit, torch], ids=["toolkit", "torch"])


def model(lib: Any) -> Any:
    nn = lib.nn

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 4)
            self.blocks = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.ReLU()])
            self.blocks.append(nn.Dropout(0.5))
            self.by_name = nn.ModuleDict({"last": nn.Linear(4, 2)})
            self.twin = self.first
            self.scale = nn.Parameter(lib.ones(1))
            self.register_buffer("count", lib.zeros(1))
            self.register_parameter("none", None)
            self.note = "no state"

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            for block in self.blocks:
                x = block(x)
            return self.by_name["last"](x) * self.scale

    return Net()


@BOTH
def test_modules_find_what_is_inside(lib: Any) -> None:
    net = model(lib)
    assert [name for name, _ in net.named_parameters()] == [
        "scale",
        "first.weight",
        "first.bias",
        "blocks.0.weight",
        "by_name.last.weight",
        "by_name.last.bias",
    ]
    assert list(net.state_dict()) == [
        "scale",
        "count",
        "first.weight",
        "first.bias",
        "blocks.0.weight",
        "by_name.last.weight",
        "by_name.last.bias",
        "twin.weight",
        "twin.bias",
    ]
    assert len(list(net.modules())) == 8 and [name for name, _ in net.named_buffers()] == ["count"]
    assert [type(module).__name__ for module in net.children()][:2] == ["Linear", "ModuleList"]
    assert "(first): Linear(in_features=3, out_features=4, bias=True)" in repr(net)
    net.scale = None
    assert len(list(net.parameters())) == 5
    with pytest.raises(TypeError):
        net.blocks[0](1, 2)


@BOTH
def test_state_and_modes(lib: Any) -> None:
    net, other = model(lib), copy.deepcopy(model(lib))
    other.load_state_dict(net.state_dict())
    x = lib.ones(5, 3)
    assert net.eval() is net and not any(module.training for module in net.modules())
    other.eval()
    np.testing.assert_allclose(net(x).detach().numpy(), other(x).detach().numpy())
    net.train()(x).sum().backward()
    assert net.first.weight.grad is not None and other.first.weight.grad is None
    net.zero_grad()
    assert net.first.weight.grad is None
    state = net.state_dict()
    del state["scale"]
    with pytest.raises((DGLError, RuntimeError), match="scale"):
        other.load_state_dict(state)
    other.load_state_dict(state, strict=False)
    state["first.weight"] = lib.ones(1, 1)
    with pytest.raises((DGLError, RuntimeError), match=r"first\.weight"):
        other.load_state_dict(state, strict=False)
    assert other.double().first.weight.dtype == lib.float64
    seen: list[str] = []
    net.apply(lambda module: seen.append(type(module).__name__))
    assert seen[0] == "Linear" and seen[-1] == "Net"


def test_a_forgotten_constructor_is_explained() -> None:
    class Net(toolkit.nn.Module):
        def __init__(self) -> None:
            self.layer = toolkit.nn.Linear(1, 1)

    with pytest.raises(DGLError, match=r"Net\.layer is set before super\(\)\.__init__\(\)"):
        Net()


INITIAL = {
    "xavier_uniform_": (lambda init, x: init.xavier_uniform_(x, gain=2), math.sqrt(8 / 300)),
    "xavier_normal_": (lambda init, x: init.xavier_normal_(x), math.sqrt(2 / 300)),
    "kaiming_uniform_": (lambda init, x: init.kaiming_uniform_(x), math.sqrt(2 / 100)),
    "normal_": (lambda init, x: init.normal_(x, 0, 0.3), 0.3),
    "uniform_": (lambda init, x: init.uniform_(x, -3, 3), math.sqrt(3)),
    "zeros_": (lambda init, x: init.zeros_(x), 0),
    "constant_": (lambda init, x: init.constant_(x, 5), 0),
}


@BOTH
@pytest.mark.parametrize("name", INITIAL)
def test_initial_values(name: str, lib: Any) -> None:
    lib.manual_seed(0)
    fill, deviation = INITIAL[name]
    x = lib.nn.Parameter(lib.empty(200, 100))
    assert fill(lib.nn.init, x) is x
    assert x.detach().std().item() == pytest.approx(deviation, rel=0.03)
    assert x.detach().mean().item() == pytest.approx(5 if name == "constant_" else 0, abs=0.03)


@BOTH
def test_random_numbers_repeat(lib: Any) -> None:
    drawn = []
    for _ in range(2):
        lib.manual_seed(7)
        parts = (lib.rand(3), lib.randn(2, 2), lib.randint(0, 9, (4,)), lib.randperm(5))
        drawn.append([part.tolist() for part in parts])
    assert drawn[0] == drawn[1] and sorted(drawn[0][3]) == [0, 1, 2, 3, 4]


@BOTH
def test_creation(lib: Any) -> None:
    assert lib.arange(3).dtype == lib.int64 and lib.arange(0.0, 1.0, 0.5).tolist() == [0, 0.5]
    assert lib.full((2,), 3).tolist() == [3, 3] and lib.eye(2).tolist() == [[1, 0], [0, 1]]
    assert lib.zeros((2, 1), dtype=lib.int32).dtype == lib.int32 and lib.ones_like(lib.zeros(2)).tolist() == [1, 1]
    array = np.zeros(2)
    lib.from_numpy(array)[0] = 4
    assert array[0] == 4 and lib.tensor(array).dtype == lib.float64
    x = lib.zeros(2, 3)
    assert x.new_ones(2).dtype == lib.float32 and x.size(1) == 3 and x.dim() == 2 and x.numel() == 6
    assert x.add_(2).mul_(3).sub_(1).div_(5).tolist() == [[1, 1, 1]] * 2 and x.copy_(lib.ones(3)).sum() == 6


def _twins(lib: Any, name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return a module of ``lib`` and torch's, with the same parameters."""
    ours, theirs = getattr(lib.nn, name)(*args, **kwargs), getattr(torch.nn, name)(*args, **kwargs)
    assert {n: tuple(x.shape) for n, x in ours.state_dict().items()} == {
        n: tuple(x.shape) for n, x in theirs.state_dict().items()
    }
    ours.load_state_dict({n: lib.tensor(x.numpy()) for n, x in theirs.state_dict().items()})
    return ours, theirs


def _agree(lib: Any, ours: Any, theirs: Any, results: Any, expected: Any) -> None:
    """Check values, and the gradients of parameters."""
    for out, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(out.detach().numpy(), right.detach().numpy(), rtol=1e-5, atol=1e-6)
    (results[0] * lib.arange(results[0].shape[-1])).sum().backward()
    (expected[0] * torch.arange(expected[0].shape[-1])).sum().backward()
    for mine, right in zip(ours.parameters(), theirs.parameters(), strict=True):
        if right.grad is not None:
            np.testing.assert_allclose(mine.grad.numpy(), right.grad.numpy(), rtol=1e-4, atol=1e-5)


@BOTH
@pytest.mark.parametrize("how", [{"batch_first": True}, {"num_layers": 2}, {"bidirectional": True, "num_layers": 2}])
@pytest.mark.parametrize("given", [False, True])
def test_lstm_is_torchs(lib: Any, how: dict[str, Any], given: bool) -> None:
    rng = np.random.default_rng(0)
    ours, theirs = _twins(lib, "LSTM", 3, 2, **how)
    x = rng.standard_normal((4, 5, 3)).astype(np.float32)
    first = rng.standard_normal((len(list(theirs.parameters())) // 4, 4 if "batch_first" in how else 5, 2))
    first = first.astype(np.float32)
    states = [((f(first), f(-first)),) if given else () for f in (lib.tensor, torch.tensor)]
    out, last = ours(lib.tensor(x), *states[0])
    right, end = theirs(torch.tensor(x), *states[1])
    _agree(lib, ours, theirs, (out, *last), (right, *end))


@BOTH
@pytest.mark.parametrize("padding", [None, 0, -1])
def test_embedding_is_torchs(lib: Any, padding: int | None) -> None:
    ours, theirs = _twins(lib, "Embedding", 4, 3, padding_idx=padding)
    fresh = lib.nn.Embedding(500, 20, padding_idx=padding).weight.detach().numpy()
    assert fresh.std() == pytest.approx(1, rel=0.05) and (padding is None or not fresh[padding].any())
    ids = np.array([[0, 3, 1], [3, 0, 0]])
    _agree(lib, ours, theirs, [ours(lib.tensor(ids))], [theirs(torch.tensor(ids))])


@BOTH
@pytest.mark.parametrize("affine", [False, True])
def test_layer_norm_is_torchs(lib: Any, affine: bool) -> None:
    ours, theirs = _twins(lib, "LayerNorm", 3, elementwise_affine=affine)
    x = np.random.default_rng(0).standard_normal((4, 2, 3)).astype(np.float32)
    mine, right = lib.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    _agree(lib, ours, theirs, [ours(mine)], [theirs(right)])
    np.testing.assert_allclose(mine.grad.numpy(), right.grad.numpy(), rtol=1e-4, atol=1e-5)


@BOTH
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_gru_cell_is_torchs(lib: Any, bias: bool, given: bool) -> None:
    rng = np.random.default_rng(0)
    ours, theirs = _twins(lib, "GRUCell", 3, 2, bias)
    drawn = [rng.standard_normal((4, size)).astype(np.float32) for size in ((3, 2) if given else (3,))]
    mine, right = ([make(x, requires_grad=True) for x in drawn] for make in (lib.tensor, torch.tensor))
    _agree(lib, ours, theirs, [ours(*mine)], [theirs(*right)])
    for a, b in zip(mine, right, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours(mine[0][0]).detach().numpy(), theirs(right[0][0]).detach().numpy(), rtol=1e-5)


NORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "mean of all": {"momentum": None, "eps": 0.1},
    "no parameters": {"affine": False, "momentum": 0.5},
    "no statistics": {"track_running_stats": False},
}


@BOTH
@pytest.mark.parametrize("how", NORMS)
@pytest.mark.parametrize("behind", [(), (2,)], ids=["rows", "rows of lengths"])
def test_batch_norm_is_torchs(lib: Any, how: str, behind: tuple[int, ...]) -> None:
    ours, theirs = _twins(lib, "BatchNorm1d", 3, **NORMS[how])
    assert list(ours.state_dict()) == list(theirs.state_dict())
    rng = np.random.default_rng(0)
    for rows, training in ((4, True), (5, True), (0, True), (4, False)):
        x = 2 + 3 * rng.standard_normal((rows, 3, *behind)).astype(np.float32)
        mine, right = lib.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        ours.train(training), theirs.train(training)
        _agree(lib, ours, theirs, [ours(mine)], [theirs(right)])
        np.testing.assert_allclose(mine.grad.numpy(), right.grad.numpy(), rtol=1e-4, atol=1e-5)
        for name, buffer in theirs.named_buffers():
            result = ours.state_dict()[name]
            assert str(result.dtype).endswith(str(buffer.dtype).removeprefix("torch."))
            np.testing.assert_allclose(result.numpy(), buffer.numpy(), rtol=1e-5, err_msg=name)
    ours.train()
    with pytest.raises(ValueError, match=r"more than (one|1) value"):
        ours(lib.ones(1, 3))
    ours.reset_parameters()
    assert [x.tolist() for x in ours.buffers()] == [x.tolist() for x in lib.nn.BatchNorm1d(3, **NORMS[how]).buffers()]


@BOTH
@pytest.mark.parametrize(
    "name, how",
    [
        ("ReLU", {"inplace": True}),
        ("LeakyReLU", {"negative_slope": 0.1, "inplace": True}),
        ("ELU", {"inplace": True}),
        ("SiLU", {}),
        ("Softplus", {}),
        ("Softplus", {"beta": 2, "threshold": 1}),
    ],
)
def test_activations_are_torchs(lib: Any, name: str, how: dict[str, Any]) -> None:
    x = 30 * np.random.default_rng(0).standard_normal((4, 3))
    mine, right = lib.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    ours, theirs = _twins(lib, name, **how)
    _agree(lib, ours, theirs, [ours(mine * 1)], [theirs(right * 1)])
    np.testing.assert_allclose(mine.grad.numpy(), right.grad.numpy(), rtol=1e-9, atol=1e-12)


@BOTH
def test_lists_of_parameters(lib: Any) -> None:
    parameters = lib.nn.ParameterList([lib.nn.Parameter(lib.ones(2)), lib.zeros(1)])
    assert parameters.append(lib.nn.Parameter(lib.ones(3))) is parameters and len(parameters) == 3
    assert [name for name, _ in parameters.named_parameters()] == ["0", "1", "2"]
    assert [x.shape[0] for x in parameters] == [2, 1, 3] and parameters[-1].requires_grad
    by_name = lib.nn.ModuleDict({"a": lib.nn.ReLU(), "b": lib.nn.SiLU()})
    assert list(by_name.keys()) == ["a", "b"] and list(by_name.values()) == [by_name["a"], by_name["b"]]


def test_wrong_arguments_are_explained() -> None:
    nn = toolkit.nn
    with pytest.raises(DGLError, match=r"got shape \(2, 4\); expected \(rows, 3\)"):
        nn.BatchNorm1d(3)(toolkit.ones(2, 4))
    with pytest.raises(DGLError, match="expected a probability"):
        nn.Dropout(2)
    with pytest.raises(DGLError, match="num_layers=True"):
        nn.LSTM(1, 1, True)
    with pytest.raises(DGLError, match="no row of 3"):
        nn.Embedding(3, 1, padding_idx=3)
    with pytest.raises(DGLError, match="at least two axes"):
        nn.init.xavier_uniform_(toolkit.ones(3))
    with pytest.raises(DGLError, match="no gain is known"):
        nn.init.calculate_gain("gelu")
    with pytest.raises(DGLError, match="no parameters"):
        toolkit.optim.Adam([])
    with pytest.raises(DGLError, match="expected \\(rows, classes\\)"):
        nn.functional.cross_entropy(toolkit.ones(2, 3), toolkit.ones(2))
    with pytest.raises(DGLError, match="for 3 classes"):
        nn.functional.cross_entropy(toolkit.ones(2, 3), toolkit.tensor([0, 3]))
    with pytest.raises(DGLError, match="computes with numpy on cpu"):
        toolkit.zeros(2, device="cuda:0")
