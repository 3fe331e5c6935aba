"""Every public operation and every layer on the fake device, with its gradients, as on the CPU; tests/gpu, on a GPU."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import scipy.sparse
import torch
from torch.utils import _pytree as pytree

import dglite
from dglite import nn
from tests.fake_device.device import DEVICE
from tests.nn.cases import CASES
from tests.nn.laws import Case, graph_of, run
from tests.situations import operations

FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
LAYERS = [(case, name) for case in CASES for name in case.graphs]
NAMES = [operation.name for operation in operations.operations() if operation.layer is None]
OTHERS = list(operations.OTHER_LAYERS)
Moved = Callable[[Any], Any]


def to(device: str) -> Moved:
    """Return what moves tensors and graphs in any structure."""

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor | dglite.DGLGraph):
            return value.to(device)
        return value

    return lambda values: pytree.tree_map(move, values)


def outcome(call: Callable[..., Any], xs: list[torch.Tensor], more: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the results of a call and the gradients by ``xs`` and ``more``, on the host."""
    with torch.backends.cudnn.flags(enabled=False):  # its LSTM has no gradient outside of training
        results = [x for x in pytree.tree_leaves(call(*xs)) if isinstance(x, torch.Tensor)]
    smooth = [x for x in results if x.requires_grad]
    inputs = [x for x in (*xs, *more) if x.requires_grad]
    grads: list[Any] = []
    if smooth and inputs:
        weights = [torch.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).reshape(x.shape).to(x.device) for x in smooth]
        grads = list(torch.autograd.grad(smooth, inputs, weights, allow_unused=True))
    return [x.detach().cpu() for x in (*results, *grads) if x is not None]


@contextmanager
def cells_of_torch() -> Iterator[None]:
    """Skip what needs torch's fused LSTM and GRU cells, which it has for CUDA alone and expects of every other GPU."""
    try:
        yield
    except NotImplementedError as error:
        if "_thnn_fused_" not in str(error):
            raise
        pytest.skip("torch has no LSTM and GRU cells for this device")


def same(actual: list[torch.Tensor], want: list[torch.Tensor]) -> None:
    torch.testing.assert_close(actual, want, rtol=1e-7, atol=1e-9)


# -- layers ------------------------------------------------------------------------------------------------------------
def trained(layer: Any, g: dglite.DGLGraph | None, inputs: tuple[Any, ...], device: str) -> list[torch.Tensor]:
    """Return what a layer returns on a device, and its gradients."""
    move = to(device)
    parameters = []
    if isinstance(layer, torch.nn.Module):
        layer = copy.deepcopy(layer).to(device)
        parameters = list(layer.parameters())
    leaves, spec = pytree.tree_flatten(move(inputs))
    leaves = [x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in leaves]
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    g = move(g)

    def call(*xs: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, x in zip(places, xs, strict=True):
            filled[place] = x
        return run(layer, g, pytree.tree_unflatten(filled, spec))

    return outcome(call, [leaves[i] for i in places], parameters)


def compare_case(case: Case, name: str, device: str) -> None:
    g = graph_of(name)
    inputs = case.inputs(g)
    torch.manual_seed(0)
    want = trained(case.layer(), g, inputs, "cpu")
    torch.manual_seed(0)
    same(trained(case.layer(), g, inputs, device), want)


def compare_layer(name: str, device: str) -> None:
    make, g, inputs = operations.OTHER_LAYERS[name]
    torch.manual_seed(0)
    layer = make()
    if isinstance(layer, torch.nn.Module):
        layer = layer.double().eval()
    same(trained(layer, g, inputs, device), trained(layer, g, inputs, "cpu"))


# -- operations --------------------------------------------------------------------------------------------------------
def compute(name: str, device: str) -> list[torch.Tensor]:
    """Return the results and gradients of an operation, whose graphs are where ``operations`` has them."""
    operation = next(x for x in operations.operations() if x.name == name)
    return outcome(operation.call, [x.to(device).requires_grad_() for x in operation.inputs], [])


def compare_operation(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    want, move = compute(name, "cpu"), to(device)
    for title, value in list(vars(operations).items()):
        if isinstance(value, torch.Tensor | dglite.DGLGraph):
            monkeypatch.setattr(operations, title, move(value))
    same(compute(name, device), want)


# -- sparse features ---------------------------------------------------------------------------------------------------
def compare_sparse_features(device: str) -> None:
    """A GCN on a bag of words, and the gradient of its values."""
    rows, columns = operations.NODES, 7
    dense = torch.rand(rows, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = scipy.sparse.csr_array(dense.where(dense > 0.6, 0).numpy())
    torch.manual_seed(0)
    layer = nn.GraphConv(columns, 3).double()

    def on(place: str) -> list[torch.Tensor]:
        x, there = nn.SparseFeatures(matrix).to(place), copy.deepcopy(layer).to(place)
        values, g = x.values.requires_grad_(), operations.G.to(place)
        return outcome(lambda values: there(g, x.with_values(values)), [values], list(there.parameters()))

    same(on(device), on("cpu"))


STEP = 1 if FULL else 5


@pytest.mark.parametrize(("case", "name"), LAYERS[::STEP], ids=str)
def test_layers(case, name):
    with cells_of_torch():
        compare_case(case, name, DEVICE)


def test_sparse_features():
    compare_sparse_features(DEVICE)


@pytest.mark.parametrize("name", OTHERS[::STEP])
def test_other_layers(name):
    with cells_of_torch():
        compare_layer(name, DEVICE)


@pytest.mark.parametrize("name", NAMES[::STEP])
def test_operations(name, monkeypatch):
    with cells_of_torch():
        compare_operation(name, DEVICE, monkeypatch)
