"""torch's modules on lazy tensors: values and gradients beside the module called for each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dglite
from dglite import DGLError, dynamic

WIDTH = 8
Call = Callable[[nn.Module, Any], Any]


def whole(m: nn.Module, x: Any) -> Any:
    return m(x)


def first(m: nn.Module, x: Any) -> Any:
    return m(x)[0]


def last_state(m: nn.Module, x: Any) -> Any:
    return m(x)[1]


def last_cell(m: nn.Module, x: Any) -> Any:
    return m(x)[1][1]


def in_batches(m: nn.Module, x: Any) -> Any:
    return m(torch.stack([x, x * 2], 1))[0]


def with_state(m: nn.Module, x: Any) -> Any:
    return m(x, torch.tanh(x[:1]))[0]


MODULES: dict[str, tuple[Callable[[], nn.Module], Call]] = {
    "LSTM": (lambda: nn.LSTM(WIDTH, 5), first),
    "LSTM, cell": (lambda: nn.LSTM(WIDTH, 5), last_cell),
    "LSTM, two ways, two layers": (lambda: nn.LSTM(WIDTH, 5, 2, bidirectional=True), first),
    "LSTM, projected": (lambda: nn.LSTM(WIDTH, 5, proj_size=3), first),
    "LSTM, batch first": (lambda: nn.LSTM(WIDTH, 5, batch_first=True), first),
    "LSTM, no bias": (lambda: nn.LSTM(WIDTH, 5, bias=False), first),
    "GRU": (lambda: nn.GRU(WIDTH, 5), first),
    "GRU, state": (lambda: nn.GRU(WIDTH, 5, 2), last_state),
    "GRU of batches": (lambda: nn.GRU(WIDTH, 5), in_batches),
    "GRU from a state": (lambda: nn.GRU(WIDTH, WIDTH), with_state),
    "RNN": (lambda: nn.RNN(WIDTH, 5), first),
    "RNN, relu": (lambda: nn.RNN(WIDTH, 5, nonlinearity="relu"), first),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(WIDTH, 2), lambda m, x: m(x, x, x)[0]),
    "attention weights": (lambda: nn.MultiheadAttention(WIDTH, 2), lambda m, x: m(x, x, x)[1]),
    "attention without weights": (
        lambda: nn.MultiheadAttention(WIDTH, 2),
        lambda m, x: m(x, x, x, need_weights=False)[0],
    ),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(WIDTH, 2, 12, dropout=0.0), whole),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 12, dropout=0.0), 2),
        whole,
    ),
    "norm first": (
        lambda: nn.TransformerEncoderLayer(WIDTH, 2, 12, 0.0, "gelu", batch_first=True, norm_first=True),
        whole,
    ),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(WIDTH, 2, 12, dropout=0.0),
        lambda m, x: m(x, torch.tanh(x[:2])),
    ),
    "causal attention": (
        lambda: nn.MultiheadAttention(WIDTH, 2, batch_first=True),
        lambda m, x: m(x, x, x, attn_mask=torch.ones(len(x), len(x)).triu(1) > 0, need_weights=False)[0],
    ),
    "attention to other widths": (
        lambda: nn.MultiheadAttention(WIDTH, 2, kdim=5, vdim=4),
        lambda m, x: m(x, x[:2, :5], x[:2, :4], key_padding_mask=torch.tensor([False, True]))[0],
    ),
    "Conv1d": (lambda: nn.Conv1d(WIDTH, 4, 3, padding=1), lambda m, x: m(x.t())),
    "LayerNorm": (lambda: nn.LayerNorm(WIDTH), whole),
    "Bilinear": (lambda: nn.Bilinear(WIDTH, WIDTH, 3), lambda m, x: m(x[0], x[1])),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("training", [True, False])
def test_modules(name: str, training: bool) -> None:
    make, call = MODULES[name]
    torch.manual_seed(0)
    module = make().double().train(training)
    samples = [torch.randn(n, WIDTH, dtype=torch.float64) for n in (3, 4, 3)]
    losses = [(call(module, x) ** 2).sum() for x in samples]
    torch.stack(losses).sum().backward()
    expected = [torch.zeros_like(x) if x.grad is None else x.grad for x in module.parameters()]
    module.zero_grad()
    total = dynamic.backward([(call(module, dynamic.lazy(x)) ** 2).sum() for x in samples])
    torch.testing.assert_close(total, torch.stack(losses).sum().detach())
    result = [torch.zeros_like(x) if x.grad is None else x.grad for x in module.parameters()]
    torch.testing.assert_close(result, expected)


def test_recurrent_layers_of_one_length_are_one_batch() -> None:
    layer = nn.LSTM(WIDTH, 5)
    dynamic.run([layer(dynamic.lazy(torch.rand(n, WIDTH)))[0].sum() for n in (3, 4, 3, 3)])
    assert sorted(count for name, count in dynamic.last_run().batches if name.startswith("lstm")) == [1, 3]


def test_recurrent_layers_in_cells() -> None:
    layer = nn.GRU(WIDTH, 5)

    @dynamic.cell
    def total(x: Tensor) -> Tensor:
        return layer(x.transpose(0, 1))[0].sum((0, 2))

    samples = [torch.rand(3, WIDTH) for _ in range(2)]
    result = dynamic.run([total(dynamic.lazy(x)) for x in samples])
    torch.testing.assert_close(torch.stack(result), torch.stack([layer(x)[0].sum() for x in samples]))


def test_packed_sequences_are_refused() -> None:
    x = dynamic.lazy(torch.rand(3, WIDTH))
    with pytest.raises(DGLError, match="packed sequence"):
        nn.LSTM(WIDTH, 5)(nn.utils.rnn.PackedSequence(x, torch.ones(3, dtype=torch.int64)))


def test_embedding_bags() -> None:
    bag, ids = nn.EmbeddingBag(9, 4), torch.tensor([[1, 2], [3, 3]])
    torch.testing.assert_close(dynamic.run(bag(dynamic.lazy(ids))), bag(ids))
    real, lazy = dynamic.run([bag(ids), dynamic.lazy(ids[0]) * 2])  # what is not lazy comes back as it is
    torch.testing.assert_close(real, bag(ids))
    assert lazy.tolist() == [2, 4]


# -- inference mode, autocast ------------------------------------------------------------------------------------------
class Chain(dynamic.VertexFunction):
    """A layer over a chain."""

    def __init__(self) -> None:
        super().__init__(state=WIDTH)
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self) -> None:
        h = torch.tanh(self.pull() + self.layer(self.gather(0)))
        self.scatter(h)
        self.push(h)


def test_inference_mode() -> None:
    layer, chain, x = nn.Linear(WIDTH, 3), Chain(), torch.rand(3, WIDTH)
    graph = dglite.graph(([0, 1], [1, 2]))
    with torch.inference_mode():
        inside = torch.rand(WIDTH)
        results = dynamic.run([layer(dynamic.lazy(inside)), layer(dynamic.lazy(x[0]))])
        torch.testing.assert_close(results, [layer(inside), layer(x[0])])
        values = (dynamic.lazy(inside) + 1).value()
        torch.testing.assert_close(values, inside + 1)
        inferred = chain(graph, x)
    torch.testing.assert_close(inferred, chain(graph, x))
    dynamic.run(layer(dynamic.lazy(inside)))  # a tensor of inference mode, outside of it


def test_autocast_computes_in_float32() -> None:
    layer, chain, graph = nn.Linear(WIDTH, WIDTH).float(), Chain().float(), dglite.graph(([0, 1], [1, 2]))
    x = torch.rand(3, WIDTH, dtype=torch.float32)
    exact = dynamic.run([layer(dynamic.lazy(row)) for row in x])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = dynamic.run([layer(dynamic.lazy(row)) for row in x])
        half = layer(x)
        lazy, program = dynamic.run(dynamic.lazy(half) * 2), chain(graph, half)
        assert half.dtype is torch.bfloat16 and lazy.dtype is program.dtype is torch.float32
        torch.testing.assert_close(lazy, half.float() * 2)
    torch.testing.assert_close(results, exact)
    (program.sum() + lazy.sum()).backward()
    assert layer.weight.grad is not None and chain.layer.weight.grad is not None


def test_half_precision_without_autocast_is_refused() -> None:
    with pytest.raises(DGLError, match="bfloat16"):
        dynamic.lazy(torch.ones(3, dtype=torch.bfloat16))
