"""``explain`` says what is meant, what is run, with which kernel and format, what it moves, and why."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dglite
from dglite import function as fn
from dglite.errors import DGLError
from tests.recorder.common import ForReal


@pytest.fixture
def g() -> Any:
    """Three nodes, in-degrees 0, 1 and 2; 8 heads of 4 features."""
    graph = dglite.graph(([0, 0, 1], [1, 2, 2]), num_nodes=3)
    graph.ndata["h"] = torch.ones(3, 8, 4)
    graph.edata["a"] = torch.ones(3, 8, 1)
    return graph


def summed(nodes: Any) -> dict[str, Any]:
    return {"x": nodes.mailbox["m"].sum(1)}


def pooled(nodes: Any) -> dict[str, Any]:
    m = nodes.mailbox["m"]
    return {"x": torch.relu((torch.softmax(m, 1) * m).sum(1))}


def spread(nodes: Any) -> dict[str, Any]:
    return {"x": torch.std(nodes.mailbox["m"], 1)}


def test_a_fused_pair(g: Any) -> None:
    result = dglite.explain(g, fn.u_mul_e("h", "a", "m"), fn.sum("m", "x"))
    text = str(result)
    assert "update_all(u_mul_e('h', 'a', 'm'), sum('m', 'x')) over _N:_E:_N: 3 source nodes, 3 edges" in text
    assert "%0 = Message u_mul_e('h', 'a', 'm')" in text and "%1 = Reduce sum('m', 'x') of %0" in text
    assert "%1 = FusedReduce sum of (u.h * e.a) -> 'x'" in text
    assert "g-SpMM sum, float32 full x repeat" in text and "CSC; CSR in backward" in text
    assert "fuse: element-wise message and reducer in one kernel; no message is stored" in text
    line = result.lines[0]
    csc = g.adjacencies[0].csc()
    structure = sum(part.nbytes for part in (csc.indptr, csc.indices, csc.edge_ids) if part is not None)
    assert line.read == structure + 3 * 32 * 4 + 3 * 8 * 4
    assert line.written == 3 * 32 * 4
    assert list(g.ndata) == ["h"]


def test_a_user_s_reducer_says_why_it_is_bucketed(g: Any) -> None:
    result = dglite.explain(g, fn.copy_u("h", "m"), spread, apply=lambda nodes: {})
    text = str(result)
    assert "the reducer reads the whole mailbox: bucketed by degree" in text and "2 buckets" in text
    assert "u.h as 'm'" in text and "Apply" in text
    assert "f1 is spread, executed as written, without fusion: it calls 'std' on messages" in text
    assert result.lines[0].read == 3 * 32 * 4 and result.lines[1].read is None


def test_recorded_functions_show_their_kernels(g: Any) -> None:
    def scaled(edges: Any) -> dict[str, Any]:
        return {"m": edges.src["h"] * edges.data["a"]}

    result = dglite.explain(g, scaled, pooled)
    text = str(result)
    assert "f0 is scaled, recorded" in text and "f1 is pooled, recorded" in text
    assert "ReduceOnce f1 of (u.h * e.a) as 'm'" in text
    kernels = result.lines[0].kernel
    assert kernels.startswith("user function, once over") and "softmax" in kernels and "g-SpMM sum of" in kernels
    assert "record the reducer: what it does to the mailbox are reductions over messages" in text
    assert list(g.ndata) == ["h"]


def test_a_reducer_that_is_seen_to_be_a_built_in_is_one_from_then_on(g: Any) -> None:
    def copied(edges: Any) -> dict[str, Any]:
        return {"m": edges.src["h"]}

    def summing(nodes: Any) -> dict[str, Any]:
        return {"x": nodes.mailbox["m"].sum(1)}

    assert "ReduceOnce f1 of u.h as 'm'" in str(dglite.explain(g, copied, summing))
    result = dglite.explain(g, copied, summing)
    assert "FusedReduce sum of u.h -> 'x'" in str(result)
    assert result.lines[0].written == 3 * 32 * 4


def test_reductions_in_one_pass_are_shown_as_one(g: Any) -> None:
    def copied(edges: Any) -> dict[str, Any]:
        return {"m": edges.src["h"]}

    def several(nodes: Any) -> dict[str, Any]:
        m = nodes.mailbox["m"]
        return {"x": m.mean(1), "y": m.max(1)[0]}

    assert "g-SpMM mean of u.h, max of u.h in one pass" in str(dglite.explain(g, copied, several))
    result = dglite.explain(g, copied, several)
    assert "FusedReduce mean of u.h -> 'x', max of u.h -> 'y'" in str(result) and "TakeColumn %1.y" in str(result)
    assert result.lines[0].kernel.startswith("g-SpMM mean, max, float32") and result.lines[0].written == 2 * 3 * 32 * 4
    assert (result.lines[1].kernel, result.lines[1].read) == ("no copy", 0)


def test_a_stored_message_says_why_it_is_not_fused(g: Any) -> None:
    text = str(dglite.explain(g, fn.u_dot_v("h", "h", "m"), fn.max("m", "x")))
    assert "EdgeCompute dot (u.h * v.h) -> 'm'" in text and "FusedReduce max of %0.m -> 'x'" in text
    assert "not element-wise" in text
    text = str(dglite.explain(g, ForReal(lambda edges: {"m": edges.src["h"]}), fn.max("m", "x")))
    assert (
        "RunEdgeUDF f0" in text
        and "f0 is ForReal, executed as written, without fusion: it changes a value in place" in text
        and "shape known when it runs" in text
        and "?" in text
    )


def test_apply_edges(g: Any) -> None:
    result = dglite.explain(g, fn.u_add_v("h", "h", "x"))
    assert str(result).startswith("apply_edges(u_add_v('h', 'h', 'x'))")
    assert "g-SDDMM, float32 full x full" in str(result)
    assert result.lines[0].written == 3 * 32 * 4
    assert "row gather" in str(dglite.explain(g, fn.copy_u("h", "x")))
    assert "no copy" in str(dglite.explain(g, fn.copy_e("a", "x")))


def test_a_list_of_messages_shows_that_a_dead_one_is_dropped(g: Any) -> None:
    result = dglite.explain(g, [fn.copy_u("h", "m"), fn.copy_e("a", "unread")], fn.sum("m", "x"))
    assert len(result.semantic.steps) == 4 and len(result.lines) == 2


def test_what_the_call_would_refuse_is_refused(g: Any) -> None:
    with pytest.raises(KeyError, match="'q' on the source nodes"):
        dglite.explain(g, fn.copy_u("q", "m"), fn.sum("m", "x"))
    with pytest.raises(DGLError, match="reads message field 'q'"):
        dglite.explain(g, fn.copy_u("h", "m"), fn.sum("q", "x"))
    g.edata["a"] = torch.ones(3, 5)
    with pytest.raises(DGLError, match="do not broadcast"):
        dglite.explain(g, fn.u_mul_e("h", "a", "m"), fn.sum("m", "x"))
