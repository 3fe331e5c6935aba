"""Models that the partition search is measured with, on the meta device: they need no memory.

The wide ResNets and the LSTMs are those of Table 3.2 of Wang's dissertation (Table 2 of the EuroSys paper); the
transformer has the shape of Llama 3 8B.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from common import erdos_renyi
from torch import nn

import dglite
from dglite.nn import GraphConv

WRESNETS = [(layers, widen) for widen in (4, 6, 8, 10) for layers in (50, 101, 152)]
"""Layers and widening."""

RNNS = [(layers, thousands) for thousands in (4, 6, 8) for layers in (6, 8, 10)]
"""Layers, and hidden size in thousands (1,024)."""

WEIGHTS_GIB = {"WResNet-152-10": 65.1, "RNN-10-8K": 57.0}
"""Weights, gradients and history of the largest, by the table, in units of 2 ** 30 bytes."""


@dataclass
class Work:
    """A training step: module, loss, example inputs and optimizer."""

    name: str
    module: nn.Module
    loss: Callable[..., torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    optimizer: torch.optim.Optimizer


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.BatchNorm2d(outputs)
        self.short = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.bn1(self.conv1(x)))
        h = F.relu(self.bn2(self.conv2(h)))
        return F.relu(self.bn3(self.conv3(h)) + self.short(x))


BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class WResNet(nn.Sequential):
    """A ResNet for ImageNet with ``widen`` times the channels everywhere."""

    def __init__(self, layers: int = 152, widen: int = 10, classes: int = 1000) -> None:
        channels, stages = 64 * widen, []
        inputs = channels
        for stage, count in enumerate(BLOCKS[layers]):
            width = channels * 2**stage
            for block in range(count):
                stages.append(Bottleneck(inputs, width, width * 4, 2 if stage and not block else 1))
                inputs = width * 4
        super().__init__(
            nn.Conv2d(3, channels, 7, 2, 3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            *stages,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(inputs, classes),
        )


class LSTM(nn.Module):
    """A deep LSTM. The sizes of the table leave no memory for an embedding: inputs are narrow."""

    def __init__(self, layers: int, hidden: int, inputs: int = 64) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, layers, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


class RMSNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Block(nn.Module):
    """A transformer block with grouped queries, rotary positions and a gated feed-forward network."""

    def __init__(self, size: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, size // heads
        self.q_proj = nn.Linear(size, size, bias=False)
        self.k_proj = nn.Linear(size, kv_heads * self.head, bias=False)
        self.v_proj = nn.Linear(size, kv_heads * self.head, bias=False)
        self.o_proj = nn.Linear(size, size, bias=False)
        self.gate_proj = nn.Linear(size, hidden, bias=False)
        self.up_proj = nn.Linear(size, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, size, bias=False)
        self.norm1, self.norm2 = RMSNorm(size), RMSNorm(size)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        q, k, v = (self._heads(p(h)) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = q * cos + _turned(q) * sin, k * cos + _turned(k) * sin
        k, v = (self._repeated(t) for t in (k, v))
        scores = (q @ k.transpose(2, 3)) / math.sqrt(self.head)
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        mixed = torch.softmax(scores.masked_fill(ahead, -1e9), -1) @ v
        x = x + self.o_proj(mixed.transpose(1, 2).reshape(x.shape))
        h = self.norm2(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))

    def _heads(self, t: torch.Tensor) -> torch.Tensor:
        return t.view(t.shape[0], t.shape[1], -1, self.head).transpose(1, 2)

    def _repeated(self, t: torch.Tensor) -> torch.Tensor:
        times = self.heads // self.kv_heads
        if times == 1:
            return t
        wide = t[:, :, None].expand(t.shape[0], t.shape[1], times, t.shape[2], t.shape[3])
        return wide.reshape(t.shape[0], self.heads, t.shape[2], t.shape[3])


def _turned(t: torch.Tensor) -> torch.Tensor:
    first, second = t.chunk(2, -1)
    return torch.cat((-second, first), -1)


class Transformer(nn.Module):
    def __init__(self, layers: int, size: int, heads: int, kv_heads: int, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, size)
        self.blocks = nn.ModuleList([Block(size, heads, kv_heads, hidden) for _ in range(layers)])
        self.norm = RMSNorm(size)
        self.lm_head = nn.Linear(size, vocabulary, bias=False)
        self.head = size // heads

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        places = torch.arange(tokens.shape[1], device=x.device, dtype=x.dtype)
        turns = 5e5 ** (-torch.arange(0, self.head, 2, device=x.device, dtype=x.dtype) / self.head)
        angles = (places[:, None] * turns).repeat(1, 2)
        cos, sin = angles.cos(), angles.sin()
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.lm_head(self.norm(x)).flatten(0, 1)


class GCN(nn.Module):
    """Graph convolutions on a fixed graph."""

    def __init__(self, graph: dglite.DGLGraph, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.graph = graph
        self.layers = nn.ModuleList([GraphConv(a, b) for a, b in itertools.pairwise(sizes)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            x = F.relu(layer(self.graph, x))
        return self.layers[-1](self.graph, x)


def wresnet(layers: int = 152, widen: int = 10, batch: int = 8) -> Work:
    """Return a training step of a wide ResNet, with momentum."""
    with torch.device("meta"):
        module = WResNet(layers, widen)
        inputs = torch.empty(batch, 3, 224, 224), torch.empty(batch, dtype=torch.long)
    return Work(f"WResNet-{layers}-{widen}", module, F.cross_entropy, inputs, _momentum(module))


def rnn(layers: int = 10, thousands: int = 8, batch: int = 128, steps: int = 20) -> Work:
    """Return a training step of a deep LSTM, with momentum."""
    hidden = thousands * 1024
    with torch.device("meta"):
        module = LSTM(layers, hidden)
        inputs = torch.empty(batch, steps, 64), torch.empty(batch, steps, hidden)
    return Work(f"RNN-{layers}-{thousands}K", module, F.mse_loss, inputs, _momentum(module))


def transformer(
    layers: int = 32, size: int = 4096, heads: int = 32, kv_heads: int = 8, hidden: int = 14336,
    vocabulary: int = 128256, batch: int = 8, length: int = 2048,
) -> Work:  # fmt: skip
    """Return a training step of a transformer, of Llama 3 8B's shape by default, with AdamW."""
    with torch.device("meta"):
        module = Transformer(layers, size, heads, kv_heads, hidden, vocabulary)
        inputs = torch.empty(batch, length, dtype=torch.long), torch.empty(batch * length, dtype=torch.long)
    return Work(f"Transformer-{layers}-{size}", module, F.cross_entropy, inputs, torch.optim.AdamW(module.parameters()))


def gcn(nodes: int = 2**16, degree: int = 16, sizes: tuple[int, ...] = (512, 1024, 64)) -> Work:
    """Return a training step of a GCN on a random graph, with Adam."""
    src, dst = erdos_renyi(nodes, nodes * degree)
    graph = dglite.add_self_loop(dglite.graph((src, dst), num_nodes=nodes))
    with torch.device("meta"):
        module = GCN(graph, sizes)
        inputs = torch.empty(nodes, sizes[0]), torch.empty(nodes, dtype=torch.long)
    return Work(f"GCN-{nodes}", module, F.cross_entropy, inputs, torch.optim.Adam(module.parameters()))


def _momentum(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
