"""Vertex programs that the tests share."""

from __future__ import annotations

import torch
from torch import nn

from dglite import dynamic


class BinaryTreeLSTM(dynamic.VertexFunction):
    """Two children, by number."""

    def __init__(self, in_feats: int, size: int) -> None:
        super().__init__(state={"h": size, "c": size})
        self.W, self.U, self.size = nn.Linear(in_feats, 3 * size), nn.Linear(2 * size, 5 * size, bias=False), size

    def forward(self) -> None:
        left, right = self.gather(0), self.gather(1)
        iou, f = self.U(torch.cat([left.h, right.h], 1)).split([3 * self.size, 2 * self.size], 1)
        i, o, u = (self.W(self.pull()) + iou).chunk(3, 1)
        f_left, f_right = torch.sigmoid(f).chunk(2, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + f_left * left.c + f_right * right.c
        h = torch.sigmoid(o) * torch.tanh(c)
        self.scatter(h=h, c=c)
        self.push(h)


class ChildSumTreeLSTM(dynamic.VertexFunction):
    """Any number of children, each with a forget gate."""

    def __init__(self, in_feats: int, size: int) -> None:
        super().__init__(state=(size, size))
        self.W, self.U = nn.Linear(in_feats, 3 * size), nn.Linear(size, 3 * size)
        self.W_f, self.U_f = nn.Linear(in_feats, size), nn.Linear(size, size, bias=False)

    def forward(self) -> None:
        x, children = self.pull(), self.gather_all()
        h_sum, _ = children.sum()
        i, o, u = (self.W(x) + self.U(h_sum)).chunk(3, -1)
        f = torch.sigmoid(children.each(self.W_f(x)) + self.U_f(children[0]))
        c = torch.sigmoid(i) * torch.tanh(u) + children.sum(f * children[1])
        h = torch.sigmoid(o) * torch.tanh(c)
        self.scatter(h, c)
        self.push(h, c)


class Chain(dynamic.VertexFunction):
    """A sequence: torch's own LSTM cell."""

    def __init__(self, in_feats: int, size: int) -> None:
        super().__init__(state=(size, size))
        self.cell = nn.LSTMCell(in_feats, size)

    def forward(self) -> None:
        h, c = self.cell(self.pull(), self.gather(0))
        self.scatter(h, c)
        self.push(h)


class Gated(dynamic.VertexFunction):
    """A GRU cell over the sum of the children, an output layer, a normalisation, an activation of each kind."""

    def __init__(self, in_feats: int, size: int) -> None:
        super().__init__(state=size)
        self.cell, self.out, self.norm = nn.GRUCell(in_feats, size), nn.Linear(size, 3), nn.LayerNorm(size)
        self.scale = nn.Parameter(torch.rand(1))

    def forward(self) -> None:
        x = self.pull()
        h = self.norm(self.cell(torch.relu(x), self.gather_all().sum())) * self.scale
        self.scatter(torch.nn.functional.elu(h))
        self.push(self.out(h).softmax(-1), torch.cat([h, x], 1))


class Mixed(dynamic.VertexFunction):
    """The first child by number, and all of them."""

    def __init__(self, in_feats: int, size: int) -> None:
        super().__init__(state=size)
        self.W, self.U, self.V = (nn.Linear(n, size, bias=False) for n in (in_feats, size, size))

    def forward(self) -> None:
        children = self.gather_all()
        h = torch.tanh(self.W(self.pull()) + self.U(self.gather(0)) + self.V(children.sum(children[0] * children[0])))
        self.scatter(h)
        self.push(h * 2 + 1)
