"""A fused plan, a bucketed plan and plain Python say the same, values and gradients, on any multigraph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dglite
from dglite import function as fn
from tests.scheduler import oracle

FIELDS = {"copy_u": ("h",), "copy_e": ("w",), "u_add_v": ("h", "h"), "u_mul_e": ("h", "w"), "u_dot_v": ("h", "h")}

USER_MESSAGES = {
    "copy_u": lambda edges: {"m": edges.src["h"]},
    "copy_e": lambda edges: {"m": edges.data["w"]},
    "u_add_v": lambda edges: {"m": edges.src["h"] + edges.dst["h"]},
    "u_mul_e": lambda edges: {"m": edges.src["h"] * edges.data["w"]},
    "u_dot_v": lambda edges: {"m": (edges.src["h"] * edges.dst["h"]).sum(-1, keepdim=True)},
}
USER_REDUCERS = {
    "sum": lambda nodes: {"out": nodes.mailbox["m"].sum(1)},
    "mean": lambda nodes: {"out": nodes.mailbox["m"].mean(1)},
    "max": lambda nodes: {"out": nodes.mailbox["m"].amax(1)},
    "min": lambda nodes: {"out": nodes.mailbox["m"].amin(1)},
    "prod": lambda nodes: {"out": nodes.mailbox["m"].prod(1)},
}


@st.composite
def multigraphs(draw: st.DrawFn) -> oracle.Edges:
    """Parallel edges, self-loops and nodes without edges come up often."""
    num_nodes = draw(st.integers(1, 8))
    ids = st.integers(0, num_nodes - 1)
    ends = draw(st.lists(st.tuples(ids, ids), min_size=1, max_size=20))
    return oracle.Edges(num_nodes, num_nodes, [s for s, _ in ends], [d for _, d in ends])


def run(edges: oracle.Edges, idtype: torch.dtype, h: Tensor, w: Tensor, verb: str, message: Any, reduce: Any) -> Any:
    """Return the result and the gradients of ``h`` and ``w`` under random weights of the result."""
    g = dglite.graph((edges.src, edges.dst), num_nodes=edges.num_dst, idtype=idtype)
    h, w = h.clone().requires_grad_(), w.clone().requires_grad_()
    g.ndata["h"], g.edata["w"] = h, w
    if verb == "update_all":
        g.update_all(message, reduce)
    elif verb == "send, recv":
        g.send(message_func=message)
        g.recv(reduce_func=reduce)
    elif verb == "two sends":
        g.send(message_func=message)
        g.send(list(range(0, len(edges.src), 2)), message)
        g.recv(reduce_func=reduce)
    else:
        g.pull(list(range(edges.num_dst)), message, reduce)
    out = g.ndata["out"]
    weights = torch.arange(1.0, 1.0 + out.numel(), dtype=out.dtype).reshape(out.shape)
    gradients = torch.autograd.grad((out * weights).sum(), (h, w), allow_unused=True)
    return out.detach(), *(
        torch.zeros_like(x) if grad is None else grad for x, grad in zip((h, w), gradients, strict=True)
    )


@settings(max_examples=60, deadline=None)
@given(
    edges=multigraphs(),
    message=st.sampled_from(sorted(FIELDS)),
    reducer=st.sampled_from(sorted(USER_REDUCERS)),
    verb=st.sampled_from(["update_all", "send, recv", "two sends", "pull"]),
    idtype=st.sampled_from([torch.int32, torch.int64]),
    seed=st.integers(0, 2**32 - 1),
)
def test_fused_bucketed_and_plain_python_agree(
    edges: oracle.Edges, message: str, reducer: str, verb: str, idtype: torch.dtype, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    h = torch.from_numpy(rng.uniform(0.5, 2.0, (edges.num_src, 2)))
    w = torch.from_numpy(rng.uniform(0.5, 2.0, (len(edges.src), 1)))
    builtin = (getattr(fn, message)(*FIELDS[message], "m"), getattr(fn, reducer)("m", "out"))
    user = (USER_MESSAGES[message], USER_REDUCERS[reducer])
    fused = run(edges, idtype, h, w, "update_all", *builtin)
    expected = oracle.update_all(edges, message, reducer, h.numpy(), w.numpy(), h.numpy())
    torch.testing.assert_close(fused[0], torch.from_numpy(expected))
    pairs = [builtin, (user[0], builtin[1])]
    if reducer not in ("max", "min"):
        # Among equal messages torch shares the gradient of amax, the kernel gives it to the first.
        pairs += [user, (builtin[0], user[1])]
    for pair in pairs:
        for actual, target in zip(run(edges, idtype, h, w, verb, *pair), fused, strict=True):
            torch.testing.assert_close(actual, target)


@settings(max_examples=30, deadline=None)
@given(edges=multigraphs(), seed=st.integers(0, 2**32 - 1))
def test_group_apply_edges_agrees_with_plain_python(edges: oracle.Edges, seed: int) -> None:
    w = torch.from_numpy(np.random.default_rng(seed).uniform(0.5, 2.0, (len(edges.src), 2)))
    for by, ends in (("src", edges.src), ("dst", edges.dst)):
        g = dglite.graph((edges.src, edges.dst), num_nodes=edges.num_dst)
        g.edata["w"] = w
        g.group_apply_edges(by, lambda batch: {"p": batch.data["w"].cumsum(1)})
        for edge, end in enumerate(ends):
            before = [i for i in range(edge + 1) if ends[i] == end]
            torch.testing.assert_close(g.edata["p"][edge], w[before].sum(0))


def test_the_gradient_of_a_maximum_has_the_precision_of_the_features() -> None:
    """Where the message chooses between two factors: 0.3 of the default dtype is 0.3 of float32."""
    g = dglite.graph(([0, 1], [1, 2]))
    h = torch.tensor([[1.0], [-2.0], [3.0]], dtype=torch.float64, requires_grad=True)
    g.ndata["h"] = h
    g.update_all(
        lambda edges: {"m": torch.where(edges.src["h"] > 0, edges.src["h"], 0.3 * edges.src["h"])}, fn.max("m", "o")
    )
    (gradient,) = torch.autograd.grad(g.ndata["o"].sum(), h)
    assert gradient.flatten().tolist() == [1.0, 0.3, 0.0]
