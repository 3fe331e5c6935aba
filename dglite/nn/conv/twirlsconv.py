"""TWIRLS: layers that unfold gradient descent on an energy."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, final

from ...backend import Tensor, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from .. import functional
from ..base import Layer, nn

_NORMS = ("none", "batch", "layer")


class _Scales(NamedTuple):
    """A step's factors of sources and of sums, (num_nodes, 1), the term added, and the factor of Y."""

    before: Tensor
    after: Tensor
    added: Tensor
    scale: float | Tensor


@final
class TWIRLSUnfoldingAndAttention(Layer):
    r"""Propagation and reweighting of Yang et al., "Graph neural networks inspired by classical iterative algorithms",
    2021.

    .. math:: Y^{(k+1)} = (1 - \alpha) Y^{(k)} + \alpha \lambda \tilde D^{-1/2} A_w \tilde D^{-1/2} Y^{(k)}
              + \alpha \tilde D^{-1} X, \quad \tilde D = \lambda D + (1 - \lambda) I

    from :math:`Y^{(0)} = X`; without preconditioning :math:`\tilde D` is D in the product, 1 before X, and
    :math:`\alpha \lambda Y^{(k)}` is taken away as well. Attention makes edge weights
    :math:`1 / \max(\tau, |y_u - y_v|^{2 - p})`, 0 where that exceeds :math:`T > 0`, of which D are the sums by
    destination. Each step is one kernel, its normalisation inside. A degree of 0 counts as 1.

    Parameters
    ----------
    d
        Size of the features.
    alp, lam
        :math:`\alpha`, or 0 for :math:`1 / (\lambda + 1)`, and :math:`\lambda`.
    prop_step
        How many steps are taken.
    attn_aft
        After this many steps edges are reweighted; -1 for never.
    tau, T, p
        Of the attention.
    use_eta
        Whether features are scaled by learned numbers for the attention.
    init_att
        Whether edges are reweighted before the first step.
    attn_dropout
        Dropout of edge weights.
    precond
        Whether steps are preconditioned.

    Shapes
    ------
    X (num_nodes, d) -> (num_nodes, d)
    """

    etas: Tensor | None

    def __init__(
        self,
        d: int,
        alp: float,
        lam: float,
        prop_step: int,
        attn_aft: int = -1,
        tau: float = 0.2,
        T: float = -1,
        p: float = 1,
        use_eta: bool = False,
        init_att: bool = False,
        attn_dropout: float = 0,
        precond: bool = True,
    ) -> None:
        super().__init__()
        self.d, self.alp, self.lam = d, alp if alp > 0 else 1 / (lam + 1), lam
        self.tau, self.T, self.p = tau, T, p
        self.prop_step, self.attn_aft, self.init_att, self.precond = prop_step, attn_aft, init_att, precond
        self.use_eta = use_eta
        self.attn_drop = nn.Dropout(attn_dropout)
        self.register_parameter("etas", nn.Parameter(framework.ones(d)) if use_eta else None)

    def forward(self, g: DGLGraph, X: Tensor) -> Tensor:
        """Return the features after the steps; raises ``DGLError`` for wrong widths and numbers of rows."""
        x = functional.require_one_size(self, "X", g, X, self.d)
        return self.unfold(g.adjacency(), x)

    def unfold(self, adjacency: Adjacency, x: Tensor, others: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Take the steps over a relation, or over the one that :func:`functional.loops_replaced` stands for."""
        looped, weight, loops = None, None, None
        if others is None:
            degrees = functional.in_degrees(adjacency, x)
        else:
            looped, sums = others
            weight, loops = looped, framework.ones_like(x[:, :1])
            degrees = sums + loops
        scales, y = self._scales(x, degrees), x
        if self.init_att:
            weight, loops, scales = self._attend(adjacency, x, y, looped)
        for step in range(self.prop_step):
            before, after, added, scale = scales
            factor = scale if loops is None else scale + loops * before * after
            y = functional.scaled_sum(adjacency, y, before, after, factor * y + added, weight)
            if step == self.attn_aft - 1:
                weight, loops, scales = self._attend(adjacency, x, y, looped)
        return y

    def _scales(self, x: Tensor, degrees: Tensor) -> _Scales:
        """Return what steps scale by as long as edges have the weights of which these are the sums."""
        if self.precond:
            degrees = self.lam * degrees + (1 - self.lam)
        inverse = 1 / framework.where(degrees > 0, degrees, framework.ones_like(degrees))
        root = inverse.sqrt()
        if self.precond:
            return _Scales(root, root * (self.alp * self.lam), self.alp * inverse * x, 1 - self.alp)
        return _Scales(root, root * (self.alp * self.lam), self.alp * x, 1 - self.alp * self.lam - self.alp)

    def _attend(
        self, adjacency: Adjacency, x: Tensor, y: Tensor, looped: Tensor | None
    ) -> tuple[Tensor, Tensor | None, _Scales]:
        """Return the weights of edges, (num_edges, 1), and of the nodes' own loops, after dropout, and the scales that
        follow from them before it."""
        distance = functional.squared_distance(adjacency, y if self.etas is None else y * self.etas)
        weight, loops = self._reweighted(distance), None
        if looped is not None:
            weight, loops = weight * looped, self._reweighted(framework.zeros_like(y[:, :1]))
        scales = self._scales(x, _degrees(adjacency, weight, loops))
        return self.attn_drop(weight), None if loops is None else self.attn_drop(loops), scales

    def _reweighted(self, distance: Tensor) -> Tensor:
        penalty = ((distance.relu() + 1e-7) ** (1 - 0.5 * self.p)).clamp(min=self.tau)
        weight = 1 / penalty
        if self.T > 0:
            weight = framework.where(penalty > self.T, framework.zeros_like(weight), weight)
        return weight + 1e-9


def _degrees(adjacency: Adjacency, weight: Tensor, loops: Tensor | None) -> Tensor:
    """Return the sums of the weights that arrive, (num_nodes, 1)."""
    degrees = functional.reduce_edges(adjacency, weight, Reducer.SUM)
    return degrees if loops is None else degrees + loops


class Perceptron(Layer):
    """Linear layers with normalisation, ReLU and dropout between them, and before the first where asked for."""

    def __init__(self, sizes: list[int], hidden: int, dropout: float, norm: str, init_activate: bool) -> None:
        super().__init__()
        self.init_activate, self.drop = init_activate, nn.Dropout(dropout)
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        count = len(self.layers) - 1 + init_activate
        if norm != "none":
            make = nn.BatchNorm1d if norm == "batch" else nn.LayerNorm
            self.norms = nn.ModuleList([make(hidden) for _ in range(count)])
        self.normalises = norm != "none"
        for layer in self.layers:
            functional.xavier_normal_(layer.weight)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        activated = 0
        for i, layer in enumerate(self.layers):
            if i or self.init_activate:
                x = self.norms[activated](x) if self.normalises else x
                x, activated = self.drop(x.relu()), activated + 1
            x = layer(x)
        return x


def _sizes(first: int, hidden: int, last: int, count: int) -> list[int]:
    return [first, *[hidden] * (count - 1), last] if count else [first]


@final
class TWIRLSConv(Layer):
    r"""A whole network of Yang et al., "Graph neural networks inspired by classical iterative algorithms", 2021: a
    perceptron, :class:`TWIRLSUnfoldingAndAttention`, and another perceptron.

    Parameters
    ----------
    input_d, output_d, hidden_d
        Sizes of input, output and what is between.
    prop_step
        How many steps are taken.
    num_mlp_before, num_mlp_after
        Layers of the perceptrons; 0 for none.
    norm
        Of the perceptrons: ``"none"``, ``"batch"`` or ``"layer"``.
    precond, alp, lam, tau, T, p, use_eta, attn_dropout
        As for :class:`TWIRLSUnfoldingAndAttention`.
    attention, attn_bef
        Whether edges are reweighted after half of the steps, and before the first.
    dropout, inp_dropout
        Of the perceptrons, and of the input.

    Self-loops of the graph are replaced by one at each node. Without a first perceptron, attention and input dropout,
    what the first call computes before the last perceptron is kept: graph and features must not change then.

    Shapes
    ------
    feat (num_nodes, input_d) -> (num_nodes, output_d)
    """

    def __init__(
        self,
        input_d: int,
        output_d: int,
        hidden_d: int,
        prop_step: int,
        num_mlp_before: int = 1,
        num_mlp_after: int = 1,
        norm: str = "none",
        precond: bool = True,
        alp: float = 0,
        lam: float = 1,
        attention: bool = False,
        tau: float = 0.2,
        T: float = -1,
        p: float = 1,
        use_eta: bool = False,
        attn_bef: bool = False,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        inp_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if norm not in _NORMS:
            raise DGLError(f"norm={norm!r} is not known; expected one of {', '.join(_NORMS)}")
        self.input_d = input_d
        self.cacheable = not attention and num_mlp_before == 0 and inp_dropout <= 0
        self.cached_unfolding: Tensor | None = None
        self.inp_drop = nn.Dropout(inp_dropout)
        before = hidden_d if num_mlp_after else output_d
        after = hidden_d if num_mlp_before else input_d
        both = num_mlp_before > 0 and num_mlp_after > 0
        self.mlp_bef = Perceptron(_sizes(input_d, hidden_d, before, num_mlp_before), hidden_d, dropout, norm, False)
        self.unfolding = TWIRLSUnfoldingAndAttention(
            hidden_d,
            alp,
            lam,
            prop_step,
            prop_step // 2 if attention else -1,
            tau,
            T,
            p,
            use_eta,
            attn_bef,
            attn_dropout,
            precond,
        )
        self.mlp_aft = Perceptron(_sizes(after, hidden_d, output_d, num_mlp_after), hidden_d, dropout, norm, both)

    def forward(self, graph: DGLGraph, feat: Tensor) -> Tensor:
        """Return the network's output; raises ``DGLError`` for wrong widths and numbers of rows."""
        feat = functional.require_one_size(self, "feat", graph, feat, self.input_d)
        if self.cached_unfolding is not None:
            return self.mlp_aft(self.cached_unfolding)
        adjacency, others = functional.loops_replaced(graph.adjacency(), feat)
        result = self.unfolding.unfold(adjacency, self.mlp_bef(self.inp_drop(feat)), others)
        if self.cacheable:
            self.cached_unfolding = result
        return self.mlp_aft(result)
