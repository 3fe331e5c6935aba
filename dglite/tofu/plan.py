"""Plans: how a training step is partitioned over workers, and how much that communicates.

A plan is made in steps. A step splits each group of workers into ``k`` groups and says, for each *tensor* (a node of
the graph whose value is one), along which dimension what the group holds is split among them (None: each has all), and,
for each *operator*, the strategy by which they share it (None: each does all of it). A worker's number, written with
the steps' ``k`` as digits, the first step's first, says which part it has in each step: a tensor's part is found by
cutting, step by step, the rows that the last step left, and an operator's by cutting the strategy's index likewise.
Parts of ``n`` rows begin at ``j * n // k``. That, with the graph in its original order, is all that execution needs.

An operator fetches, beyond what its worker holds, what its part needs of each input (`Strategy.inputs`). What it makes
(`Strategy.outputs`) is sent to those who hold it: partial outputs are reduced and scattered, or all-reduced where the
output's placement is None.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch.fx import Node

from ..tables import Bar, bytes_text, html_card, html_table, text_table
from . import baselines
from .capture import Captured
from .certificate import least_bytes
from .coarsen import Coarse, TensorShape
from .drawing import draw_bars, draw_tiles
from .joint import JOINT_STEPS, search_jointly
from .keeping import KeptFetches, share_fetches
from .memory import local_shapes, memory_profile
from .search import Policy, SearchStep, factors, recursions, search
from .strategy import Strategy

LinkLevels = Sequence[tuple[int, float]]
TIGHT = 1.01
"""Bytes sent, in those of the bound without the order of steps, beyond which the slower bound is asked, too."""
_HEAD = ("operator", "output", "calls", "bytes", "split")


@dataclass(frozen=True)
class PlanStep:
    """One step of the recursion.

    Attributes
    ----------
    k : int
        Into how many groups each group of workers is split.
    bytes : float
        Bytes that all workers together receive because of this step, per training step.
    bandwidth : float or None
        Bytes per second of a worker's link between these groups.
    placements : dict of Node to int or None
        The dimension along which each tensor is split.
    strategies : dict of Node to Strategy or None
        How each operator is.
    """

    k: int
    bytes: float
    bandwidth: float | None
    placements: dict[Node, int | None] = field(repr=False)
    strategies: dict[Node, Strategy | None] = field(repr=False)


class PartitionPlan:
    """How a training step is partitioned over workers.

    Attributes
    ----------
    captured : Captured
        The step as a graph.
    workers : int
    steps : tuple of PlanStep
    seconds : float
        That the search took, from the captured graph on.
    capture_seconds : float
        That capturing the graph took.
    """

    def __init__(
        self,
        coarse: Coarse,
        steps: Sequence[SearchStep],
        bandwidths: Sequence[float | None] | None = None,
        seconds: float = 0.0,
        capture_seconds: float = 0.0,
        memory: float | None = None,
    ) -> None:
        self._coarse, self._search_steps = coarse, list(steps)
        self._bandwidths = list(bandwidths or [None] * len(steps))
        self.captured: Captured = coarse.captured
        self.workers = 1
        for step in steps:
            self.workers *= step.k
        self.seconds, self.capture_seconds = seconds, capture_seconds
        self._allowed = memory

    @cached_property
    def kept_fetches(self) -> KeptFetches:
        """What is fetched once for several operators.

        It takes no more memory than is needed at some time anyway, or up to what was allowed.
        """
        profile = memory_profile(self._coarse, self._search_steps)
        return share_fetches(self._coarse, self._search_steps, profile, max(profile.max(initial=0), self._allowed or 0))

    @cached_property
    def steps(self) -> tuple[PlanStep, ...]:
        """The steps of the recursion."""
        groups = self._coarse.operators
        return tuple(
            PlanStep(
                step.k,
                sent,
                bandwidth,
                {node: step.placements[number] for node, number in self._coarse.group_of.items()},
                {n: w.strategy for group, w in zip(groups, step.ways, strict=True) for n in group.nodes},
            )
            for step, sent, bandwidth in zip(self._search_steps, self._sent, self._bandwidths, strict=True)
        )

    @property
    def _sent(self) -> list[float]:
        return [step.bytes - saved for step, saved in zip(self._search_steps, self.kept_fetches.bytes, strict=True)]

    @cached_property
    def bytes(self) -> float:
        """Bytes that all workers together receive in a training step."""
        return sum(self._sent)

    @cached_property
    def lower_bound(self) -> float:
        """Bytes that no plan of this step over as many workers communicates less than, before fetches are shared.

        It is over all steps of the recursion at once, where the search decides one after the other, and takes up to a
        minute; `certificate` says which plans it is about.
        """
        least = least_bytes(self._coarse, self.workers, self._allowed)
        sent = sum(step.bytes for step in self._search_steps)
        if self._allowed is None and 0 < len(factors(self.workers)) <= JOINT_STEPS and sent > TIGHT * least:
            least = max(least, min(search_jointly(self._coarse, ks)[0] for ks in recursions(self.workers)))
        return least

    def certificate(self) -> str:
        """Return how far from the optimum the bytes of the search are at most, as text.

        The optimum is that of all plans for the same groups of tensors and operators, before fetches are shared by
        several operators: up to 8 workers in the recursions that the search tries, else in any. Tensors are replicated
        in none of them without ``memory=``, and with it in those that fit.
        """
        sent = sum(step.bytes for step in self._search_steps)
        least = self.lower_bound
        share = max(100 * (sent / least - 1), 0.0) if least > 0 else 0.0
        gap = f"within {share:.2f}% of optimal" if least > 0 else "no bound" if sent else "optimal"
        return f"{gap}: {bytes_text(sent)} before fetches are shared, no plan less than {bytes_text(least)}"

    @cached_property
    def transfer_seconds(self) -> float | None:
        """Seconds of communication in a training step with the links that were given, if any."""
        if any(b is None for b in self._bandwidths):
            return None
        pairs = zip(self._sent, self._bandwidths, strict=True)
        return sum(sent / self.workers / bandwidth for sent, bandwidth in pairs if bandwidth)

    @cached_property
    def memory(self) -> int:
        """Bytes that a worker needs, predicted: the most that it holds at a time."""
        return self.kept_fetches.peak

    def placement(self, tensor: str | Node) -> tuple[int | None, ...]:
        """Return the dimension along which a tensor is split in each step; None is replicated.

        Parameters
        ----------
        tensor : str or Node
            The name of a parameter, a buffer or an optimizer's state, or a node of the graph.
        """
        number = self._coarse.group_of[self._node(tensor)]
        return tuple(step.placements[number] for step in self._search_steps)

    def local_shape(self, tensor: str | Node) -> TensorShape:
        """Return the shape of the largest part of a tensor that a worker holds."""
        return self._local_shapes[self._coarse.group_of[self._node(tensor)]]

    @cached_property
    def _local_shapes(self) -> list[TensorShape]:
        return local_shapes(self._coarse, self._search_steps)

    def _node(self, tensor: str | Node) -> Node:
        if isinstance(tensor, Node):
            return tensor
        captured = self.captured
        named = captured.parameters | captured.buffers | captured.state
        if tensor not in named:
            raise KeyError(f"no parameter, buffer or state is called {tensor!r}: there are {', '.join(named)}")
        return named[tensor]

    def summary(self, rows: int = 20) -> str:
        """Return a table of the operators that communicate most: how they are split in each step, and their bytes.

        Parameters
        ----------
        rows : int
            The most lines for operators; what is left out is summed in the last.
        """
        table = [(*row[:3], bytes_text(row[3]), row[4]) for row in self._by_operator(rows)]
        return "\n".join([*self._facts, *text_table(_HEAD, table, numbers=[2, 3])])

    def _repr_html_(self) -> str:
        table = [
            (*row[:3], bytes_text(row[3]), Bar(row[3] / (self.bytes or 1)), row[4]) for row in self._by_operator(20)
        ]
        head = (*_HEAD[:4], "", _HEAD[4])
        return html_card("Tofu plan", self._facts, html_table(head, table, numbers=[2, 3]))

    @property
    def _facts(self) -> list[str]:
        head = f"{self.workers} workers in steps of {' x '.join(str(s.k) for s in self._search_steps)}"
        return [
            f"{head}: {bytes_text(self.bytes)} received per training step, {bytes_text(self.memory)} held per worker",
            f"searched in {self.seconds:.2f} s; received by step: {', '.join(map(bytes_text, self._sent))}",
        ]

    def _by_operator(self, rows: int) -> list[tuple[str, str, int | None, float, str]]:
        """Return operator, shape, calls, bytes and split of the ``rows`` that receive most, then the sum of others."""
        total: Counter[Any] = Counter()
        count: Counter[Any] = Counter()
        for number, group in enumerate(self._coarse.operators):
            ways = [step.ways[number].strategy for step in self._search_steps]
            split = " ".join("whole" if s is None else _described(s) for s in ways)
            key = (str(group.call.target).removeprefix("aten.")[:36], str(list(group.call.outputs[0])), split)
            sent = sum(step.bytes_by_operator[number] for step in self._search_steps)
            total[key] += round(sent - self.kept_fetches.by_operator.get(number, 0))
            count[key] += len(group.nodes)
        most = [(key, n) for key, n in total.most_common(rows) if n]
        table = [(name, shape, count[name, shape, split], n, split) for (name, shape, split), n in most]
        return [*table, ("all others", "", None, sum(total.values()) - sum(n for _, n in most), "")]

    def __repr__(self) -> str:
        return f"PartitionPlan(workers={self.workers}, bytes={self.bytes:.4g}, memory={self.memory:.4g})"

    def draw(self, tensors: Sequence[str] | None = None) -> Any:
        """Draw tensors cut into the workers' parts, and return the matplotlib figure.

        Parameters
        ----------
        tensors : sequence of str, optional
            Names of parameters, buffers or state; by default the parameters with two or more dimensions, up to 24.
        """
        if tensors is None:
            tensors = [n for n, p in self.captured.parameters.items() if p.meta["val"].dim() > 1][:24]
        tiles = [(n, tuple(self._node(n).meta["val"].shape), self._cuts(n)) for n in tensors]
        return draw_tiles(tiles)

    def _cuts(self, name: str) -> list[tuple[int | None, int]]:
        return [(dim, step.k) for dim, step in zip(self.placement(name), self._search_steps, strict=True)]

    def compare(self, draw: bool = False) -> dict[str, PartitionPlan]:
        """Return this plan as ``"Tofu"`` and what each of `baselines.BASELINES` makes of the same training step.

        Parameters
        ----------
        draw : bool
            Draw their bytes as bars, too, on the current matplotlib figure.
        """
        plans = {"Tofu": self} | {name: self.baseline(make) for name, make in baselines.BASELINES.items()}
        if draw:
            draw_bars({name: p.bytes for name, p in plans.items()}, {name: p.memory for name, p in plans.items()})
        return plans

    def researched(self, policy: Policy, memory: float | None = None) -> PartitionPlan:
        """Return a plan of the same step, with the same recursion, from what a policy allows."""
        ks = [step.k for step in self._search_steps]
        return PartitionPlan(self._coarse, search(self._coarse, ks, policy), self._bandwidths, memory=memory)

    def baseline(self, make: Callable[[Coarse, int], list[SearchStep]]) -> PartitionPlan:
        """Return the plan that one of `baselines` makes of the same training step, `baselines.megatron` for example."""
        start = time.perf_counter()
        steps = make(self._coarse, self.workers)
        return PartitionPlan(self._coarse, steps, None, time.perf_counter() - start, self.capture_seconds)


def _described(strategy: Strategy) -> str:
    reduced = {*strategy.combine} - {"concat"}
    return f"{strategy.index}:{'/'.join(sorted(reduced))}" if reduced else strategy.index
