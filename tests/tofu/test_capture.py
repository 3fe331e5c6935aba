"""A captured training step computes what torch does, and knows which of its tensors belong together."""

from __future__ import annotations

import operator
import sys
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import Node

import dglite
from dglite import DGLError, DGLWarning
from dglite.nn import GraphConv
from dglite.tofu import Captured, capture, plan, plan_captured

VIEW = torch.ops.aten.view.default


def run(captured: Captured, values: dict[Node, torch.Tensor]) -> dict[Node, Any]:
    """Compute every node of a captured graph."""
    for node in captured.graph.nodes:
        if node.op == "call_function":
            args = torch.fx.map_arg(node.args, values.__getitem__)
            kwargs = torch.fx.map_arg(node.kwargs, values.__getitem__)
            values[node] = (torch.reshape if node.target is VIEW else node.target)(*args, **kwargs)
    return values


class Sequence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2)
        self.out = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(x)[0])


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        h.mul_(2).tanh_()
        self.count[0].add_(1)
        self.count[1:].fill_(5)
        column, same = self.count.view(2, 1), self.count.detach()
        self.count.mul_(3)
        column[0] += 1
        same += 2
        return h * self.count.sum() + column.sum() * same.prod()


def images() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    layers = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 3))
    return module, (torch.randn(5, 2, 4, 4), torch.tensor([0, 1, 2, 0, 1]))


def sequences() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Sequence(), (torch.randn(3, 2, 3), torch.randn(3, 2, 3))


def instances() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Normalizations without statistics of former batches."""
    norms = nn.InstanceNorm1d(4, affine=True), nn.BatchNorm1d(4, track_running_stats=False)
    return nn.Sequential(nn.Conv1d(2, 4, 3), *norms, nn.Flatten(), nn.Linear(8, 3)), (
        torch.randn(5, 2, 4),
        torch.randn(5, 3),
    )


def in_place() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return InPlace(), (torch.randn(3, 4), torch.randn(3, 4))


def optimizers(kind: str, parameters: Any) -> torch.optim.Optimizer:
    make = {
        "sgd": lambda: torch.optim.SGD(parameters, 0.1, weight_decay=0.01),
        "momentum": lambda: torch.optim.SGD(parameters, 0.1, momentum=0.9),
        "nesterov": lambda: torch.optim.SGD(parameters, 0.1, momentum=0.9, nesterov=True),
        "adam": lambda: torch.optim.Adam(parameters, 0.1, weight_decay=0.01),
        "adamw": lambda: torch.optim.AdamW(parameters, 0.1),
        "adagrad": lambda: torch.optim.Adagrad(parameters, 0.1, lr_decay=0.5, weight_decay=0.01),
    }
    return make[kind]()


@pytest.mark.parametrize("kind", ["sgd", "momentum", "nesterov", "adam", "adamw", "adagrad"])
@pytest.mark.parametrize("make", [images, instances, sequences, in_place], ids=lambda f: f.__name__)
def test_the_graph_computes_what_torch_does(make: Any, kind: str) -> None:
    torch.manual_seed(0)
    module, inputs = make()
    module, inputs = module.double(), tuple(x.double() if x.is_floating_point() else x for x in inputs)
    loss = nn.functional.cross_entropy if make is images else nn.functional.mse_loss
    optimizer = optimizers(kind, module.parameters())
    captured = capture(module, loss, inputs, optimizer)
    held = {n: p.detach().clone() for n, p in (*module.named_parameters(), *module.named_buffers())}
    values = {node: held[name] for name, node in (captured.parameters | captured.buffers).items()}
    values |= {n: torch.zeros(n.meta["val"].shape, dtype=torch.float64) for n in captured.state.values()}
    for _ in range(2):
        optimizer.zero_grad()
        expected = loss(module(*inputs[:-1]), inputs[-1])
        expected.backward()
        optimizer.step()
        values |= dict(zip(captured.data, inputs, strict=True))
        result = run(captured, dict(values))
        torch.testing.assert_close(result[captured.loss], expected.detach())
        for name, p in module.named_parameters():
            torch.testing.assert_close(result[captured.updates[captured.parameters[name]]], p.grad)
            values[captured.parameters[name]] = p.detach().clone()
        values |= {old: result[new] for old, new in captured.updates.items() if old in captured.buffers.values()}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        node = (captured.parameters | captured.buffers)[name]
        torch.testing.assert_close(values[node], tensor.detach(), check_dtype=False)


def test_forward_values_are_paired_with_their_gradients() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3))
    x, y = torch.randn(2, 4), torch.randn(2, 3)
    captured = capture(module, nn.functional.mse_loss, (x, y))
    values = {node: p.detach() for node, p in zip(captured.parameters.values(), module.parameters(), strict=True)}
    values = run(captured, values | dict(zip(captured.data, (x, y), strict=True)))
    hidden = module[0](x).detach().requires_grad_()
    nn.functional.mse_loss(module[2](module[1](hidden)), y).backward()
    node = next(n for n in captured.graph.nodes if n.target is torch.ops.aten.addmm.default)
    torch.testing.assert_close(values[captured.gradients[node]], hidden.grad)
    assert {*captured.parameters.values()} <= {*captured.gradients}


def test_backward_nodes_know_their_forward_node_and_module() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    captured = capture(module, nn.functional.mse_loss, (torch.randn(2, 4), torch.randn(2, 2)))
    products = [n for n in captured.graph.nodes if n.target is torch.ops.aten.mm.default]
    assert len(products) == 3
    assert [n.meta["module"] for n in products] == ["2", "2", "0"]
    assert all(n.meta["forward"].target is torch.ops.aten.addmm.default for n in products)


def test_an_lstm_is_opened_into_its_time_steps() -> None:
    module, inputs = sequences()
    captured = capture(module, nn.functional.mse_loss, inputs)
    names = [str(n.target) for n in captured.graph.nodes if n.op == "call_function"]
    assert not any("lstm" in name for name in names)
    assert names.count("aten.sigmoid.default") == 3 * 2 * 3  # gates, layers, steps


def test_a_model_larger_than_memory_is_captured() -> None:
    with torch.device("meta"):
        module = nn.Linear(2**20, 2**21)
        inputs = torch.empty(8, 2**20), torch.empty(8, 2**21)
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    captured = capture(module, nn.functional.mse_loss, inputs, optimizer)
    assert captured.weight_bytes() == 3 * 4 * (2**41 + 2**21)


def test_capturing_leaves_the_module_as_it_was() -> None:
    module, inputs = images()
    before = {name: t.clone() for name, t in module.state_dict().items()}
    hooks = len(nn.modules.module._global_forward_hooks), len(nn.modules.module._global_forward_pre_hooks)
    capture(module, nn.functional.cross_entropy, inputs)
    with pytest.raises(DGLError):
        capture(module, lambda out, y: out, inputs)
    assert (len(nn.modules.module._global_forward_hooks), len(nn.modules.module._global_forward_pre_hooks)) == hooks
    assert all(torch.equal(t, before[name]) for name, t in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())


def test_without_a_loss_the_module_returns_it() -> None:
    class WithLoss(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).sum()

    captured = capture(WithLoss(2, 2), None, (torch.randn(3, 2),))
    assert len(captured.updates) == 2 and captured.loss.meta["val"].shape == ()


class Branches(nn.Linear):
    def __init__(self, what: Any) -> None:
        super().__init__(2, 2)
        self.what = what

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.what(super().forward(x))


@pytest.mark.parametrize(
    ("what", "named"),
    [
        (lambda h: h if h.sum() > 0 else -h, "_local_scalar_dense"),
        (lambda h: h * h.sum().item(), "_local_scalar_dense"),
        (lambda h: h[h > 0], "index"),
        (lambda h: h.nonzero(), "nonzero"),
        (lambda h: h.unique() + 0 * h.sum(), "unique"),
    ],
)
def test_control_flow_that_depends_on_data_is_refused(what: Any, named: str) -> None:
    with pytest.raises(DGLError, match=rf"^line \d+ of .*test_capture\.py, in module 'inner': .*{named}.*torch\.where"):
        module = nn.Sequential(OrderedDict(inner=Branches(what)))
        capture(module, lambda out, y: out.sum(), (torch.randn(3, 2), torch.zeros(1)))


def test_a_random_number_decides_where_every_draw_does_alike() -> None:
    def skipped(probability: float) -> Captured:
        module = Branches(lambda h: -h if torch.rand([]) < probability else h)
        return capture(module, lambda out, y: out.sum(), (torch.randn(3, 2), torch.zeros(1)))

    def negated(captured: Captured) -> bool:
        return any(node.target is torch.ops.aten.neg.default for node in captured.graph.nodes)

    assert (negated(skipped(0.0)), negated(skipped(1.0))) == (False, True)
    with pytest.raises(DGLError, match="_local_scalar_dense"):
        skipped(0.5)


def test_masks_that_the_module_makes_may_be_compared() -> None:
    def causal(h: torch.Tensor) -> torch.Tensor:
        mask = torch.full((3, 3), -torch.inf).triu(1)
        return -h if (mask == torch.full((3, 3), -torch.inf, device=h.device).triu(1)).all() else h

    module = Branches(causal)
    captured = capture(module, lambda out, y: out.sum(), (torch.randn(3, 2), torch.zeros(1)))
    assert any(node.target is torch.ops.aten.neg.default for node in captured.graph.nodes)
    with pytest.raises(DGLError, match="_local_scalar_dense"):
        capture(Branches(lambda h: h * torch.rand(2).sum().item()), lambda out, y: out.sum(), (torch.randn(3, 2), None))


def test_rows_are_selected_by_masks_with_values() -> None:
    mask, module = torch.tensor([True, False, True]), nn.Linear(2, 2)
    new = nn.Parameter(torch.randn(2))

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.new = module, new

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.linear(x) * 1
            h[mask] = self.new
            return h[~mask].sum() + (h[mask] ** 2).sum()

    x = torch.randn(3, 2)
    captured = capture(Masked(), None, (x,))
    inputs = {captured.parameters["new"]: new, captured.data[0]: x}
    inputs |= {captured.parameters[f"linear.{name}"]: p for name, p in module.named_parameters()}
    inputs |= {node: captured.constant_values[name] for name, node in captured.constants.items()}
    values = run(captured, inputs)
    loss = Masked()(x)
    (gradient,) = torch.autograd.grad(loss, new)
    torch.testing.assert_close(values[captured.loss], loss)
    torch.testing.assert_close(values[captured.updates[captured.parameters["new"]]], gradient)


def test_what_cannot_be_trained_is_refused() -> None:
    x, y = torch.randn(3, 2), torch.randn(3, 2)
    linear = nn.Linear(2, 2)
    with pytest.raises(DGLError, match="no parameters"):
        capture(nn.ReLU(), nn.functional.mse_loss, (x, y))
    with pytest.raises(DGLError, match="shape \\(3, 2\\)"):
        capture(linear, lambda out, y: out, (x, y))
    with pytest.raises(DGLError, match="depends on no parameter"):
        capture(linear, lambda out, y: y.sum(), (x, y))
    with pytest.raises(DGLError, match="that the module does not have"):
        capture(linear, nn.functional.mse_loss, (x, y), torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1))


def first_to_one(h: torch.Tensor) -> torch.Tensor:
    h = h * 2
    h[:, 0] = 1
    return h


def added_to_a_row(h: torch.Tensor) -> torch.Tensor:
    h = h.sin()
    h.t()[1].mul_(3)
    return h.flatten().mul_(h.sum())


def dropped(h: torch.Tensor) -> torch.Tensor:
    return nn.functional.adaptive_avg_pool1d(h[None], 1).flatten(1).mul_(2).relu_()


@pytest.mark.parametrize("what", [first_to_one, added_to_a_row, dropped])
def test_writing_through_a_view_that_has_a_gradient(what: Any) -> None:
    torch.manual_seed(0)
    module, x = Branches(what), torch.randn(3, 2)
    captured = capture(module, lambda out, y: (out * y).sum(), (x, x[0, :1]))
    values = {node: p.detach() for node, p in zip(captured.parameters.values(), module.parameters(), strict=True)}
    result = run(captured, values | dict(zip(captured.data, (x, x[0, :1]), strict=True)))
    (module(x) * x[0, :1]).sum().backward()
    for name, p in module.named_parameters():
        torch.testing.assert_close(result[captured.updates[captured.parameters[name]]], p.grad)


@pytest.mark.parametrize("what", [lambda h: h * sum(h[0].tolist()), lambda h: h * h.detach().numpy().sum()])
def test_reading_values_is_refused(what: Any) -> None:
    with pytest.raises(DGLError, match=r"^line \d+ of .*test_capture\.py: the module reads the values of a tensor"):
        capture(Branches(what), lambda out, y: out.sum(), (torch.randn(3, 2), torch.zeros(1)))


def test_operators_that_transpose_in_place_or_write_into_out_are_captured() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(4, 4, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.gru(x)[0].sum(1)
            with torch.no_grad(), torch.profiler.record_function("norm"):
                norm = torch.empty_like(h)
                torch.add(h, 2.0, out=norm)
            return h * norm

    module, x = Recurrent(), torch.randn(4, 4, 4)
    captured = capture(module, lambda out, y: (out * y).sum(), (x, x[0, :1]))
    values = {captured.parameters[name]: p.detach() for name, p in module.named_parameters()}
    result = run(captured, values | dict(zip(captured.data, (x, x[0, :1]), strict=True)))
    (module(x) * x[0, :1]).sum().backward()
    for name, p in module.named_parameters():
        torch.testing.assert_close(result[captured.updates[captured.parameters[name]]], p.grad)


def test_a_refusal_names_the_line_of_the_user() -> None:
    def branch(h: torch.Tensor) -> torch.Tensor:
        return h if h.sum() > 0 else -h

    line = branch.__code__.co_firstlineno + 1
    with pytest.raises(DGLError, match=rf"^line {line} of .*test_capture\.py: aten\._local_scalar_dense"):
        capture(Branches(branch), lambda out, y: out.sum(), (torch.randn(3, 2), torch.zeros(1)))


def test_a_long_loop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def loop(h: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            h = h.sin()
        return h

    monkeypatch.setattr(sys.modules["dglite.tofu.checks"], "MANY_OPERATORS", 20)
    with pytest.warns(DGLWarning, match=r"23 operators, 22 of them in module 'inner'"):
        module = nn.Sequential(OrderedDict(inner=Branches(loop)))
        capture(module, lambda out, y: out.sum(), (torch.randn(3, 2), torch.zeros(1)))


def test_layers_of_all_kinds_are_planned() -> None:
    x = torch.randn(4, 6, 8)
    modules = [
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        nn.Sequential(nn.Conv1d(6, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.SiLU(), nn.Dropout(0.1)),
        nn.Sequential(nn.BatchNorm1d(6).eval(), nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout()),
    ]
    for module in modules:
        result = plan(module, nn.functional.mse_loss, (x, x), torch.optim.AdamW(module.parameters()), workers=2)
        assert result.memory < plan_captured(result.captured, 1).memory


def test_graph_layers_are_recorded_as_their_operators() -> None:
    graph = dglite.graph(([0, 1, 2, 3], [1, 2, 3, 0]))

    class Graphs(GraphConv):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(graph, x)

    captured = capture(Graphs(3, 2), nn.functional.mse_loss, (torch.randn(4, 3), torch.randn(4, 2)))
    names = [str(n.target) for n in captured.graph.nodes if n.op == "call_function"]
    assert names.count("dglite_tofu.spmm.default") == 2
    assert not torch.compiler.is_compiling()


def test_an_operator_of_unknown_shape_is_refused() -> None:
    with torch.library._scoped_library("tofu_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        with pytest.raises(DGLError, match=r"tofu_test\.twice.*register_fake"):
            module = Branches(torch.ops.tofu_test.twice.default)
            capture(module, lambda out, y: out.sum(), (torch.randn(3, 2), torch.zeros(1)))


def test_unused_and_shared_parameters() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)
            self.two = nn.Linear(3, 3)
            self.two.weight = self.one.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(self.one(x))

    module = Tied()
    captured = capture(module, nn.functional.mse_loss, (torch.randn(2, 3), torch.randn(2, 3)))
    updated = {name for name, node in captured.parameters.items() if node in captured.updates}
    assert updated == {"one.weight", "one.bias", "two.bias"}


def test_the_graph_has_no_mutation_and_no_dead_code() -> None:
    module, inputs = in_place()
    captured = capture(module, nn.functional.mse_loss, inputs)
    for node in captured.graph.nodes:
        if node.op == "call_function":
            assert node.users
            assert node.target is operator.getitem or not node.target._schema.is_mutable
    captured.graph.lint()
