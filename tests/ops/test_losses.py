"""Cross entropy in one pass is torch's, over the nodes that count: values and gradients of any order."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from dglite import DGLError
from dglite.kernels.cpu.run import launch
from dglite.nn.functional import cross_entropy
from dglite.ops import losses


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go parallel from the first element on."""
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1 if request.param == 2 else 10**9)


def case(rows: int, width: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows + width)
    return 3 * torch.randn(rows, width, dtype=dtype), torch.randint(width, (rows,))


def taken(logits: torch.Tensor, labels: torch.Tensor, nodes: torch.Tensor | None) -> torch.Tensor:
    return F.cross_entropy(logits, labels) if nodes is None else F.cross_entropy(logits[nodes], labels[nodes])


NODES = {
    "all": None,
    "mask": torch.arange(50) % 3 == 0,
    "ids": torch.tensor([7, 1, 49]),
    "int32 ids": torch.tensor([7, 1, 49], dtype=torch.int32),
    "twice": torch.tensor([7, 1, 7]),
    "from the end": torch.tensor([-1]),
}


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("nodes", NODES.values(), ids=NODES)
@pytest.mark.parametrize("width", [1, 7, 16, 75])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient_are_torchs(width: int, nodes: torch.Tensor | None, dtype: torch.dtype) -> None:
    logits, labels = case(50, width, dtype)
    labels[20:30] = -100
    own, other = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    result, expected = cross_entropy(own, labels, nodes), taken(other, labels, nodes)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(cross_entropy(logits, labels, nodes), expected.detach())
    (3 * result).backward()
    (3 * expected).backward()
    torch.testing.assert_close(own.grad, other.grad)


@pytest.mark.usefixtures("threads")
def test_the_sum_of_many_losses_is_accurate() -> None:
    logits, labels = case(300_000, 3)
    expected = F.cross_entropy(logits.double(), labels).item()
    for x in (logits, logits.clone().requires_grad_()):
        assert cross_entropy(x, labels).item() == pytest.approx(expected, rel=1e-6)


def test_gradients_of_any_order() -> None:
    logits, labels = case(6, 4, torch.float64)
    labels[4] = -100
    logits.requires_grad_()

    def loss(x: torch.Tensor) -> torch.Tensor:
        return cross_entropy(x, labels, torch.tensor([0, 1, 4, 5]))

    assert torch.autograd.gradcheck(loss, logits, fast_mode=True)
    assert torch.autograd.gradgradcheck(loss, logits, fast_mode=True)


def test_it_is_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "_unfused", lambda *given: pytest.fail("by steps"))
    labels = case(50, 7)[1]
    strided = torch.randn(7, 50).t().requires_grad_()
    cross_entropy(strided, labels, torch.ones(50, dtype=torch.bool)).backward()
    torch.testing.assert_close(cross_entropy(strided, labels), F.cross_entropy(strided, labels))


def test_backward_twice_gives_the_same() -> None:
    logits, labels = case(50, 7)
    logits.requires_grad_()
    loss = cross_entropy(logits, labels)
    first, second = (torch.autograd.grad(loss, logits, retain_graph=True)[0].clone() for _ in range(2))
    assert torch.equal(first, second)
    loss.backward(retain_graph=True)
    logits.grad.zero_()  # what a user does with a gradient must not reach what is kept
    loss.backward()
    assert torch.equal(logits.grad, first)


def test_no_nodes_give_nan_and_no_gradient() -> None:
    logits, labels = case(5, 3)
    logits.requires_grad_()
    for nodes in (torch.zeros(5, dtype=torch.bool), torch.zeros(0, dtype=torch.int64)):
        loss = cross_entropy(logits, labels, nodes)
        assert loss.isnan()
        assert not torch.autograd.grad(loss, logits)[0].any()
    assert cross_entropy(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)).isnan()


def test_special_values_are_torchs() -> None:
    logits = torch.tensor([[1e4, 0.0], [-float("inf"), 0.0], [1e4, 1e4]], requires_grad=True)
    actual, expected = (loss(logits, torch.tensor([1, 1, 0])) for loss in (cross_entropy, F.cross_entropy))
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(*(torch.autograd.grad(x, logits)[0] for x in (actual, expected)))
    for odd in ([float("nan"), 0.0], [-float("inf"), -float("inf")]):
        logits = torch.tensor([odd, [0.0, 0.0]], requires_grad=True)
        assert cross_entropy(logits, torch.tensor([0, 1])).isnan()
        apart = cross_entropy(logits, torch.tensor([-100, 1]))  # torch lets NaN into the gradient here
        assert torch.equal(torch.autograd.grad(apart, logits)[0], torch.tensor([[0.0, 0.0], [0.5, -0.5]]))


def test_half_precision_goes_by_steps() -> None:
    logits, labels = case(50, 7, torch.bfloat16)
    torch.testing.assert_close(cross_entropy(logits, labels), F.cross_entropy(logits, labels))


@pytest.mark.parametrize(
    ("error", "words", "change"),
    [
        (IndexError, "label 9 is no class; logits have 7 columns", {"labels": torch.full((50,), 9)}),
        (IndexError, "label -1 is no class", {"labels": torch.full((50,), -1)}),
        (IndexError, "50", {"nodes": torch.tensor([50])}),
        (DGLError, "labels \\(3,\\)", {"labels": torch.zeros(3, dtype=torch.int64)}),
        (DGLError, "labels are float32", {"labels": torch.zeros(50)}),
        (DGLError, "nodes are bool \\(3,\\)", {"nodes": torch.ones(3, dtype=torch.bool)}),
        (DGLError, "nodes are float32", {"nodes": torch.ones(50)}),
        (DGLError, "logits is a list", {"logits": [1.0]}),
    ],
)
def test_wrong_inputs(error: type[Exception], words: str, change: dict) -> None:
    logits, labels = case(50, 7)
    with pytest.raises(error, match=words):
        cross_entropy(**{"logits": logits, "labels": labels, **change})
