"""Reducers see the nodes of one degree at a time: what looks from one node to another is never done on all at once."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import dglite
from dglite import function as fn
from dglite.scheduler.learned import why_bucketed
from tests.recorder.common import assert_as_for_real, compiled, for_real, multigraph, values

COPY = fn.copy_u("h", "m")

MIXING = """
    s - s.mean(0) | s - s.mean(0, keepdim=True) | s / s.sum(0) | s * s.max() | s * s.mean() | s + s.sum()
    s.softmax(0) | torch.softmax(s, 0) | torch.softmax(s, dim=-2) | F.log_softmax(s, 0) | F.normalize(s, dim=0)
    s.max(0)[0] + s | s.amax(0) + s | s.std(0) + s | s * torch.norm(s) | torch.cumsum(s, 0) | s.cumprod(0) | s.flip(0)
    torch.flip(s, [0, 1]) | s.sort(0)[0] | s.argsort(0) | s.roll(1, 0) | torch.roll(s, 1) | s[0] + s | s[-1:] + s
    s[[0]] + s | s[s[:, 0] > 0].sum() + s | s[torch.tensor([0])] + s | s.T.contiguous().T
    s.transpose(0, 1).sum(1) + s | s @ s.T @ s | torch.matmul(s.t(), s).sum() + s | s.view(-1).cumsum(0).view(-1, 3)
    s * s.shape[0] | s * s.size(0) | s * s.size()[0] | s * len(s) | s * len(nodes) | s * nodes.batch_size()
    s * s.numel() | s.new_ones(s.shape) * s | s + sum(s) | s * float(s.detach().sum()) | s * s.sum().item()
    torch.cat([s, s])[:len(s)] | s + torch.stack([s, s]).sum((0, 1)) | s + (s > 0).any() | s.reshape(len(s), -1)
    s.view(s.size(0), -1) | s[:, 0] * s[:, 0].sum() | norm(s) | F.batch_norm(s, None, None, training=True)
    n - n.mean(0) | n.sum() + s | s + n[0] | nodes.nodes().sum() * s | nodes.nodes()[:1] * s
    s + torch.tensor(s.tolist()).sum() | torch.stack(list(s)) | torch.stack([row * 2 for row in s])
    s * (s == s[0]).sum() | s * torch.unique(s).numel() | s[:, 0][:, None] * s[:, 0] if k else s
    torch.einsum('ij,kj->ik', s, s).sum(1)[:, None] + s | torch.cdist(s, s).sum(1, keepdim=True) + s
    torch.cov(s.T).sum() + s | s + s.view(-1, 1).mean() | s.unsqueeze(0)[0]
"""
"""Reducers by what they make of the sum ``s`` of messages, a node's own feature ``n``, the messages ``m``."""

ROWWISE = """
    s * 2 + n | torch.relu(s) * n.sigmoid() | s - s.mean(1, keepdim=True) | s.softmax(1) | torch.softmax(s, -1)
    s @ W | torch.matmul(s, W) | F.linear(s, W, c) | linear(s) | mlp(s) | layer(s) | norm1(s) | F.normalize(s)
    s.norm(dim=1) | s.norm(2, -1, keepdim=True) * s | torch.cat([s, n], 1) | torch.cat((s, n, s), dim=-1)
    torch.stack([s, n], 1).sum(1) | s[:, 0] | s[:, :2] * n[:, 1:] | s[..., 0] | s[:, None] * n[:, :, None]
    s.unsqueeze(1).squeeze(1) | s * c | c - s | s.view(-1, 3, 1).expand(-1, 3, 2).sum(-1)
    s.reshape(-1, 1, 3).transpose(1, 2).flatten(1) | s.max(1)[0] | s.sort(1)[0] | s.topk(2)[0]
    torch.where(s > 0, s, n) | s.clamp(min=0.1) | torch.maximum(s, n) | s.double() + n.to(s.dtype) | s.chunk(3, 1)[0]
    torch.split(s, 1, dim=1)[2] | s.cumsum(1) | s.detach() * n | torch.zeros_like(s) + n | s.size(1) * s
    s * s.shape[-1] ** -0.5 | act(linear(s)) | gru(s, n) | prelu(s) | s.repeat(1, 2) | (s * n).sum(1)
    s / (s.abs().sum(-1, True) + 1) | self_less(s) | F.layer_norm(s, (3,)) | s.unsqueeze(-1) @ n.unsqueeze(1)
    torch.bmm(s[:, None], n[:, :, None]).squeeze(2) | nodes.nodes()[:, None] * s | s.permute(0, 1) | s.flip(1)
    -s + abs(n) | s ** 2 | 2 ** s | s.pow(2).mean(1) | n | F.dropout(s, 0.5, training=False)
    s.masked_fill(s < 0, 0.0) | s.isnan().double() | s.argmax(1).double() | s * s.ndim + s.dim()
"""


class User(nn.Module):
    """A layer of a user's own, with a linear map and an activation that works in place."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.act = nn.Linear(3, 3).double(), nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        return self.act(self.linear(x)) + x


def reducer(text: str) -> Any:
    torch.manual_seed(0)
    given: dict[str, Any] = {
        "W": values(3, 3, seed=1),
        "c": values(3, seed=2),
        "k": 1,
        "linear": nn.Linear(3, 3).double(),
        "mlp": nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)).double(),
        "layer": User(),
        "norm": nn.BatchNorm1d(3, affine=False, track_running_stats=False).double(),
        "norm1": nn.LayerNorm(3).double(),
        "act": nn.ELU(inplace=True),
        "gru": nn.GRUCell(3, 3).double(),
        "prelu": nn.PReLU(3).double(),
        "self_less": lambda x: torch.tanh(x) * 2,
    }
    source = "def f(nodes):\n    m, n = nodes.mailbox['m'], nodes.data['p']\n    s = m.sum(1)\n"
    return compiled(f"{source}    return {{'out': {text}}}\n", **given)


def each(table: str) -> list[str]:
    return [text.strip() for line in table.strip().splitlines() for text in line.split("|") if text.strip()]


@pytest.mark.parametrize("text", each(MIXING))
def test_what_mixes_nodes_is_run_for_each_degree(text: str) -> None:
    function = reducer(text)
    assert_as_for_real(COPY, function)
    assert why_bucketed(function) is not None


@pytest.mark.parametrize("text", each(ROWWISE))
def test_what_works_on_each_node_is_run_for_all_at_once(text: str) -> None:
    function = reducer(text)
    assert_as_for_real(COPY, function)
    assert why_bucketed(function) is None


def test_a_tensor_with_a_row_for_each_node_is_not_laid_along_the_nodes() -> None:
    """In a bucket it meets the nodes of one degree; with all nodes at once it would fit by accident."""
    for rows in (4, 6):
        table = values(rows, 3, seed=7)
        for text in ("s * table", "table", "torch.cat([s, table], 1)", "(m * table[:, None]).sum(1)"):
            function = reducer(text)
            function.__globals__["table"] = table
            for wrap in (lambda f: f, for_real):
                with pytest.raises((RuntimeError, dglite.DGLError)):
                    multigraph().update_all(COPY, wrap(function))


def test_rows_of_another_number_of_axes_are_aligned_as_torch_does() -> None:
    """Three nodes of degree 2, one of degree 1, features of width 3: one number per node falls on the features."""

    def make() -> Any:
        g = dglite.graph(([0, 1, 1, 2, 2, 0, 0], [0, 0, 1, 1, 2, 2, 3]))
        g.ndata["h"], g.ndata["p"] = values(4, 3, seed=1), values(4, 3, seed=2)
        return g

    for text in ("s * s.sum(1)", "s * n.sum(1)", "s[:, 0] * n"):
        assert_as_for_real(COPY, reducer(text), make)


STORES = {
    "an item": "buf[0] += 1",
    "by a variable": "buf[k] = buf[k] + 1",
    "by a captured number": "buf[K] = buf[K] + 1",
    "a slice": "buf[:1] = buf[:1] + 1",
    "a mask": "buf[mask] = buf[mask] + 1",
    "out": "torch.add(buf, 1, out=buf)",
    "in place": "buf.add_(1)",
    "by option": "F.threshold(buf, 100.0, float(buf[0]) + 1.0, True)",
    "in a list": "bufs[0] = bufs[0] + 1",
    "in a list by a variable": "bufs[k] = bufs[k] + 1",
    "by a dict": "table['n'] = table['n'] + 1",
    "data": "buf.data = buf.data + 1",
    "of a function": "f.calls = f.calls + 1",
}


@pytest.mark.parametrize("what", STORES)
def test_a_reducer_that_stores_is_called_for_each_degree(what: str) -> None:
    """The multigraph has two degrees."""
    results = []
    for wrap in (lambda f: f, for_real):
        given = {"buf": torch.zeros(2), "bufs": [0, 0], "table": {"n": 0}, "K": 0, "mask": torch.tensor([True, False])}
        text = f"def f(nodes):\n    k = 0\n    {STORES[what]}\n    return {{'out': nodes.mailbox['m'].sum(1)}}\n"
        function = compiled(text, **given)
        function.calls = 0
        for _ in range(2):
            multigraph().update_all(COPY, wrap(function))
        results.append([given["buf"].tolist(), given["bufs"], given["table"], function.calls])
    assert results[0] == results[1]
    assert max(results[0][0][0], results[0][1][0], results[0][2]["n"], results[0][3]) >= 4


def test_a_reduction_that_is_written_in_place_is_no_built_in() -> None:
    for text in ("F.relu(s, inplace=True)", "act(s.contiguous())", "act(s.view(-1, 3))", "act(s[:, :2])"):
        function = compiled(
            f"def f(nodes):\n    s = nodes.mailbox['m'].sum(1)\n    {text}\n    return {{'out': s}}\n",
            act=nn.ReLU(inplace=True),
        )
        assert_as_for_real(COPY, function)


class Counter(nn.Module):
    """Ways in which calling something of a layer may leave a trace."""

    log: ClassVar[list[int]] = []

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.linear = Inner(), nn.Linear(3, 3).double()
        self.hooked = nn.Linear(3, 3).double()
        self.hooked.register_forward_hook(lambda *given: Counter.log.append(1))

    @classmethod
    def of_class(cls, x: Any) -> Any:
        cls.log.append(1)
        return x

    @staticmethod
    def of_nothing(x: Any) -> Any:
        Counter.log.append(1)
        return x

    @property
    def as_attribute(self) -> int:
        self.log.append(1)
        return 2

    def helper(self, x: Any) -> Any:
        self.log.append(1)
        return x


class Inner(nn.Module):
    def bump(self, x: Any) -> Any:
        Counter.log.append(1)
        return x

    def forward(self, x: Any) -> Any:
        return x


TRACES = {
    "a class method": "self.of_class(s)",
    "a static method": "self.of_nothing(s)",
    "a property": "self.as_attribute * s",
    "a helper": "self.helper(s)",
    "a list of the class": "s if self.log.append(1) else s * 1",
    "a method of a layer inside": "self.inner.bump(s)",
    "a hook": "self.hooked(s)",
    "a method by its name": "getattr(self, 'helper')(s)",
    "a function in a list": "acts[0](s)",
    "a function in a dict": "table['act'](s)",
    "a patched function": "F.relu(s)",
    "a bound method": "bound(s)",
    "a layer in a list": "layers[0](s)",
    "a layer in a dict": "named.get('l')(s)",
    "a layer as default": "layer(s)",
    "a function as default": "act(s)",
}


@pytest.mark.parametrize("what", TRACES)
def test_what_a_reducer_calls_leaves_as_many_traces_as_run_for_real(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter()
    if what == "a patched function":
        monkeypatch.setattr(torch.nn.functional, "relu", Counter.of_nothing)
    head = "def f(self, nodes, layer=layers[0], act=acts[0]):\n    s = nodes.mailbox['m'].sum(1)\n"
    text = f"{head}    return {{'out': {TRACES[what]}}}\n"
    layers, acts = [nn.Sequential(counter.hooked)], [Counter.of_nothing]
    given = {"table": {"act": counter.helper}, "bound": counter.helper, "named": {"l": layers[0]}}
    function = compiled(text, acts=acts, layers=layers, **given)
    method = function.__get__(counter)
    traces = []
    for wrap in (for_real, lambda f: f):
        before = len(Counter.log)
        multigraph().update_all(COPY, wrap(method))
        traces.append(len(Counter.log) - before)
    assert traces[0] == traces[1] > 0


MESSAGES = """
    x - x.mean(0) | x * len(edges) | x / edges.batch_size() | torch.softmax(x, 0) | x.softmax(dim=0) | x * x.max()
    x.cumsum(0) | x.flip(0) | x @ x.T @ x | x * x.shape[0] | x.sum() + x | norm(x) | x[0] + x | x.T.contiguous().T
    torch.sort(x, 0)[0] | x[edges.edges()[2]] | x * float(x.detach().std())
"""


@pytest.mark.parametrize("text", each(MESSAGES))
def test_a_message_function_sees_all_edges_at_once(text: str) -> None:
    norm = nn.BatchNorm1d(3).double().eval()
    source = f"def f(edges):\n    x = edges.src['h']\n    return {{'m': {text}}}\n"
    function = compiled(source, norm=norm)
    assert_as_for_real(function, fn.sum("m", "out"))
    g = multigraph()
    g.apply_edges(function)
    scope = {"x": g.ndata["h"][g.edges()[0]], "torch": torch, "norm": norm, "edges": Everything(g)}
    torch.testing.assert_close(g.edata["m"], eval(text, scope))


class Everything:
    """All edges of a graph, as plain torch has them."""

    def __init__(self, g: Any) -> None:
        self.g = g

    def __len__(self) -> int:
        return int(self.g.num_edges())

    def batch_size(self) -> int:
        return len(self)

    def edges(self) -> Any:
        return self.g.edges(form="all")
