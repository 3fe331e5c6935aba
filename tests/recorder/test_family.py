"""A family of users' functions, written as source text: recorded and as written they agree, values and gradients."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import dglite
from dglite.function import MessageFunction
from dglite.scheduler import messages_of
from tests.recorder.common import assert_same, bipartite, compiled, for_real, multigraph, outcome, relation_of, values

TERMS = ["x", "y", "k", "x * w", "x + c", "y * s"]
WRAPS = [
    "{0}",
    "torch.tanh({0})",
    "F.leaky_relu({0}, 0.2)",
    "({0}).sigmoid() * x",
    "torch.where({0} > 0.3, {0}, y)",
    "({0}).clamp(-0.8, 0.9)",
    "torch.exp(-({0}).abs())",
    "(({0}) * y).sum(-1, keepdim=True)",
    "(({0}) * c).sum(-1).unsqueeze(-1) * x",
]
"""The grammar of messages: a term inside a wrap. ``c`` and ``s`` are captured, ``w`` is one number per edge."""

REDUCERS = [
    "m.sum(1)",
    "torch.sum(m, dim=1)",
    "m.mean(dim=1)",
    "torch.mean(m, 1)",
    "m.max(1)[0]",
    "torch.max(m, dim=1).values",
    "m.min(dim=1)[0]",
    "m.amax(1)",
    "torch.amin(m, dim=1)",
    "m.logsumexp(1)",
    "torch.logsumexp(m, dim=1, keepdim=True).squeeze(1)",
    "(torch.softmax(m, dim=1) * m).sum(1)",
    "(F.softmax(m.sum(-1, keepdim=True), 1) * m).sum(dim=1)",
    "(m - m.mean(1, keepdim=True)).square().sum(1)",
]
AFTER = ["{0}", "torch.relu({0}) + n", "linear(({0}).expand(-1, 3)) * n", "torch.cat([{0}, n], -1)", "({0}) / 3"]
"""What is done with the reduction ``r``: ordinary work on real tensors, with the nodes' own features ``n``."""


def message_of(term: str, wrap: str, given: dict[str, Any]) -> Any:
    return compiled(
        "def f(edges):\n"
        "    x, y = edges.src['h'], edges.dst['h']\n"
        "    k, w = edges.data['k'], edges.data['w']\n"
        f"    return {{'m': {wrap.format(term)}}}\n",
        **given,
    )


def reducer_of(reducer: str, after: str, given: dict[str, Any]) -> Any:
    return compiled(
        "def f(nodes):\n"
        "    m, n = nodes.mailbox['m'], nodes.data['h']\n"
        f"    return {{'out': {after.format(reducer)}}}\n",
        **given,
    )


def block() -> Any:
    """Return a block from 7 nodes to 4, of which the last receives nothing."""
    g = dglite.create_block(([0, 1, 6, 4, 4, 2, 0, 0], [0, 0, 1, 1, 1, 2, 2, 0]), num_src_nodes=7, num_dst_nodes=4)
    g.srcdata["h"], g.dstdata["h"] = values(7, 3, seed=1), values(4, 3, seed=2)
    g.edata["w"], g.edata["k"] = values(8, 1, seed=3), values(8, 3, seed=4)
    return g


def one_edge() -> Any:
    g = dglite.graph(([1], [0]), num_nodes=3)
    g.ndata["h"] = values(3, 3, seed=1)
    g.edata["w"], g.edata["k"] = values(1, 1, seed=3), values(1, 3, seed=4)
    return g


GRAPHS = {"multigraph": multigraph, "bipartite": bipartite, "block": block, "one edge": one_edge}


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    term=st.sampled_from(TERMS),
    wrap=st.sampled_from(WRAPS),
    reducer=st.sampled_from(REDUCERS),
    after=st.sampled_from(AFTER),
    kind=st.sampled_from(sorted(GRAPHS)),
)
def test_recorded_functions_equal_what_is_run_for_real(
    term: str, wrap: str, reducer: str, after: str, kind: str
) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(3, 3).double()
    given = {
        "c": torch.tensor([0.7, -1.3, 0.4], dtype=torch.float64, requires_grad=True),
        "s": torch.tensor(1.7, dtype=torch.float64, requires_grad=True),
    }
    message, reduce = message_of(term, wrap, given), reducer_of(reducer, after, {**given, "linear": linear})
    make, parameters = GRAPHS[kind], [*given.values(), *linear.parameters()]
    signature = messages_of(message, 0, relation_of(make()))
    assert isinstance(signature, tuple) and all(isinstance(one, MessageFunction) for one in signature)
    expected = outcome(make, lambda g: g.update_all(for_real(message), for_real(reduce)), parameters)
    for pair in ((message, reduce), (for_real(message), reduce), (message, for_real(reduce)), (message, reduce)):
        result = outcome(make, lambda g, pair=pair: g.update_all(*pair), parameters)
        for actual, want in zip(result, expected, strict=True):
            assert_same(actual, want, rtol=1e-9, atol=1e-9)
