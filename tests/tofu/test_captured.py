"""Every operator of captured training steps, in parts: what models call with the shapes that they call it with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import Interpreter
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from dglite.tofu.decompositions import decompositions
from dglite.tofu.verify import verify


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(12), nn.Linear(12, 36), nn.Linear(12, 12)
        self.mlp = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (y.view(4, 5, 3, 4).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(4, 5, 12))
        return x + self.mlp(x)


class Residual(nn.Module):
    """Convolutions with a normalization and a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4, track_running_stats=False)
        self.second, self.pool, self.out = nn.Conv2d(4, 4, 3, padding=1), nn.MaxPool2d(3, 2, 1), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.norm(self.first(x))))
        return self.out((x + self.second(x)).mean((2, 3)))


class Recurrent(nn.Module):
    """An LSTM's cell over three steps of embedded words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.cell, self.out = nn.Embedding(7, 4), nn.LSTMCell(4, 4), nn.Linear(4, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for word in self.words(x).unbind(1):
            state = self.cell(word, state)
        assert state is not None
        return self.out(state[0])


class Verifier(Interpreter):
    """Runs a graph, and each of its operators in parts."""

    verified = 0

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, torch._ops.OpOverload):
            type(self).verified += len(verify(target, args, kwargs))
        return super().call_function(target, args, kwargs)


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (Block, torch.randn(4, 5, 12, dtype=torch.float64)),
        (Residual, torch.randn(4, 3, 9, 8, dtype=torch.float64)),
        (Recurrent, torch.randint(7, (4, 3))),
    ],
)
def test_all_operators_of_a_step(make: Callable[[], nn.Module], x: torch.Tensor) -> None:
    torch.manual_seed(0)
    module = make().double()
    names, parameters = zip(*module.named_parameters(), strict=True)

    def loss(own: tuple[torch.Tensor, ...], x: torch.Tensor) -> torch.Tensor:
        out = torch.func.functional_call(module, dict(zip(names, own, strict=True)), (x,))
        return functional.cross_entropy(out.flatten(0, -2), torch.arange(out[..., 0].numel()) % out.shape[-1])

    def step(own: tuple[torch.Tensor, ...], state: tuple[torch.Tensor, ...], x: torch.Tensor) -> Any:
        grads = torch.func.grad(loss)(own, x)
        state = tuple(0.9 * s + g for s, g in zip(state, grads, strict=True))
        return tuple(p - 0.1 * s for p, s in zip(own, state, strict=True)), state

    own = tuple(p.detach() for p in parameters)
    state = tuple(torch.randn_like(p) for p in own)
    graph = make_fx(torch.func.functionalize(step), decompositions())(own, state, x)
    Verifier.verified = 0
    Verifier(graph).run(*own, *state, x)
    assert Verifier.verified > 100
