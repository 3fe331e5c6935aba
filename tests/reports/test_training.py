"""Reports of training: ensembles, averaged weights, labels that spread."""

from __future__ import annotations

import copy

import pytest
import torch

import dglite
from dglite import nn
from tests.reports.cases import ids, report


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


GRAPH = dglite.graph(([0, 0, 1, 2], [1, 2, 2, 0]))


@report("pytorch/pytorch#85335", "an ensemble of models by vmap")
def test_ensemble_by_vmap() -> None:
    x = torch.randn(3, 2)
    models = [nn.GraphConv(2, 4) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    run = torch.vmap(lambda p, b: torch.func.functional_call(base, (p, b), (GRAPH, x)))
    torch.testing.assert_close(run(parameters, buffers), torch.stack([model(GRAPH, x) for model in models]))


@report(
    "Lightning-AI/pytorch-lightning#8106", "averaged weights of a model", also="Lightning-AI/pytorch-lightning#7089"
)
def test_averaged_weights() -> None:
    x = torch.randn(3, 2)
    model = nn.GraphConv(2, 4)
    averaged = torch.optim.swa_utils.AveragedModel(model)
    results = []
    for _ in range(2):
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 4))
        averaged.update_parameters(model)
        results.append(model(GRAPH, x))  # linear in the weights: the mean of results is that of averaged weights
    torch.testing.assert_close(averaged(GRAPH, x), (results[0] + results[1]) / 2)


@report("scikit-learn/scikit-learn#3550", "labels that are known spread from their nodes alone")
def test_labels_spread_from_marked_nodes() -> None:
    g = dglite.graph(([0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]))
    labels, mask = ids(0, 1, 0, 1), torch.tensor([True, False, False, True])
    a = torch.zeros(4, 4)
    a[g.edges()] = 1
    scale = a.sum(1).rsqrt()
    a = scale[:, None] * a * scale
    start = torch.nn.functional.one_hot(labels).float() * mask[:, None]
    expected = start
    for _ in range(3):
        expected = (0.6 * a @ expected + 0.4 * start).clamp(0, 1)
    spread = nn.LabelPropagation(3, 0.6)
    torch.testing.assert_close(spread(g, labels, mask), expected)
    relabelled = labels.clone()
    relabelled[1:3] = 0 if int(labels[1]) else 1  # labels of other nodes do not matter
    torch.testing.assert_close(spread(g, relabelled, mask), expected)


@report("dmlc/dgl#3448", "mixed precision failed in attention", also="dmlc/dgl#2552 dmlc/dgl#2423")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4)
    model = nn.GATConv(4, 2, 3)
    exact = model(GRAPH, x)
    with torch.autocast("cpu", dtype=dtype):
        result = model(GRAPH, x)
        loss = result.float().square().sum()
    loss.backward()
    torch.testing.assert_close(result.float(), exact, rtol=0.05, atol=0.05)
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())
