"""Recorded functions in every verb, on every kind of column, and from one call to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import dglite
from dglite import function as fn
from dglite.errors import DGLError
from dglite.kernels.cpu.graph import sparse
from dglite.scheduler import UserFunction, messages_of, record, reducer_of
from dglite.scheduler import relation as relation_module
from dglite.scheduler.relation import FEW_EDGES
from tests.recorder.common import (
    ForReal,
    assert_as_for_real,
    assert_same,
    bipartite,
    for_real,
    multigraph,
    outcome,
    reason,
    recorded,
    relation_of,
    values,
)

SCALE: Any = 2.0


def signature_of(reduce: Any, g: Any) -> Any:
    """Return the recorded form of a reducer of copied features."""
    relation = relation_of(g)
    return reducer_of(reduce, 1, relation, messages_of(fn.copy_u("h", "m"), 0, relation))


def scaled(edges: Any) -> Any:
    return {"m": edges.src["h"] * edges.data["w"]}


def copied(edges: Any) -> Any:
    return {"m": edges.src["h"]}


def summed(nodes: Any) -> Any:
    return {"out": nodes.mailbox["m"].sum(1)}


def pooled(nodes: Any) -> Any:
    m = nodes.mailbox["m"]
    return {"out": torch.relu((torch.softmax(m, 1) * m).sum(1)) + m.mean(1)}


def spread(nodes: Any) -> Any:
    return {"out": torch.median(nodes.mailbox["m"], 1)[0]}


def after(nodes: Any) -> Any:
    return {"out": nodes.data["out"] * 2 + nodes.data["h"]}


def several(nodes: Any) -> Any:
    m = nodes.mailbox["m"]
    return {"out": m.mean(1), "top": m.max(1)[0], "low": m.amin(1), "total": torch.sum(m, dim=1)}


def principal(nodes: Any) -> Any:
    """Compute what PNA does."""
    m = nodes.mailbox["m"]
    mean, top, low = m.mean(1), m.max(1)[0], m.min(1)[0]
    deviation = torch.sqrt(torch.relu((m * m).mean(1) - mean * mean) + 1e-5)
    return {"out": mean + 2 * deviation, "all": torch.cat([mean, top, low, deviation], 1)}


REDUCERS = [summed, pooled, spread, several, principal]
VERBS = {
    "update_all": lambda g, m, r: g.update_all(m, r),
    "update_all, apply": lambda g, m, r: g.update_all(m, r, after),
    "pull": lambda g, m, r: g.pull([1, 3, 5], m, r),
    "push": lambda g, m, r: g.push([0, 2], m, r),
    "send_and_recv": lambda g, m, r: g.send_and_recv([0, 3, 4, 5, 9], m, r),
    "send, recv": lambda g, m, r: (g.send(message_func=m), g.recv(reduce_func=r)),
    "send, recv some": lambda g, m, r: (g.send(message_func=m), g.recv([0, 2, 4], r)),
    "send some, recv": lambda g, m, r: (g.send([0, 1, 8, 9], m), g.recv(reduce_func=r)),
    "send twice, recv": lambda g, m, r: (g.send(message_func=m), g.send([2, 5], m), g.recv(reduce_func=r)),
    "prop_nodes": lambda g, m, r: g.prop_nodes([[0], [2, 3]], m, r),
}


@pytest.mark.parametrize("reduce", REDUCERS)
@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_is_as_for_real(verb: str, reduce: Any) -> None:
    expected = outcome(multigraph, lambda g: VERBS[verb](g, for_real(scaled), for_real(reduce)))
    for _ in range(2):
        result = outcome(multigraph, lambda g: VERBS[verb](g, scaled, reduce))
        for actual, want in zip(result, expected, strict=True):
            assert_same(actual, want)


def reductions_of_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives how many reductions each run of a g-SpMM makes."""
    results: list[int] = []
    run = sparse.SpmmKernel.__call__

    def counted(self: Any, *args: Any, **more: Any) -> Any:
        results.append(self.mode // 8 % 32)
        return run(self, *args, **more)

    def bound_to(self: Any, structure: Any, threads: Any, longest: int) -> Any:
        return lambda operands, out, argmax=0: self(structure, operands, out, threads(), argmax)

    monkeypatch.setattr(sparse.SpmmKernel, "__call__", counted)
    monkeypatch.setattr(sparse.SpmmKernel, "bound_to", bound_to)
    return results


def test_reductions_of_the_same_messages_take_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait when the first is needed; a reducer known to be built-in ones goes on like that."""

    def built_in(nodes: Any) -> Any:
        m = nodes.mailbox["m"]
        return {"a": m.mean(1), "b": m.max(1)[0], "c": m.sum(1)}

    def unused(nodes: Any) -> Any:
        m, other = nodes.mailbox["m"], nodes.mailbox["other"]
        m.sum(1)
        return {"a": m.mean(1), "b": other.max(1)[0]}

    def both(edges: Any) -> Any:
        return {"m": edges.src["h"] * edges.data["w"], "other": edges.data["k"]}

    g, passes = multigraph(), reductions_of_passes(monkeypatch)
    for message, reduce, want in (
        (scaled, principal, [4]),
        (scaled, built_in, [3]),
        (fn.copy_u("h", "m"), [fn.mean("m", "a"), fn.max("m", "b")], [2]),
        (both, unused, [1, 1]),
    ):
        for _ in range(2):
            passes.clear()
            g.update_all(message, reduce)
            assert passes == want


@pytest.mark.parametrize("edges", [None, [0, 3, 13], [5]])
def test_apply_edges_on_all_and_on_some(edges: Any) -> None:
    def message(batch: Any) -> Any:
        return {"a": batch.src["h"] * batch.dst["h"] * SCALE, "b": (batch.src["h"] * batch.dst["h"]).sum(-1)}

    chosen = () if edges is None else (edges,)
    expected = outcome(multigraph, lambda g: g.apply_edges(for_real(message), *chosen))
    result = outcome(multigraph, lambda g: g.apply_edges(message, *chosen))
    for actual, want in zip(result, expected, strict=True):
        assert_same(actual, want)


@pytest.mark.parametrize("cross", ["sum", "max", "mean", "stack"])
def test_multi_update_all_over_a_group_of_relations(cross: str) -> None:
    """One reduce function for three relations, one of which has no edges, and one reducer that must bucket."""

    def run(wrap: Any) -> Any:
        g = dglite.heterograph(
            {("a", "x", "b"): ([0, 1, 1], [0, 0, 2]), ("a", "y", "b"): ([2, 0], [1, 1]), ("b", "z", "b"): ([], [])},
            num_nodes_dict={"a": 3, "b": 4},
        )
        h, k = values(3, 2, seed=1).requires_grad_(), values(4, 2, seed=2).requires_grad_()
        g.nodes["a"].data["h"], g.nodes["b"].data["h"] = h, k
        shift = torch.tensor([0.5, 2.0], dtype=torch.float64)
        pairs = {
            "x": (wrap(lambda edges: {"m": edges.src["h"] * shift}), wrap(pooled)),
            "y": (wrap(copied), wrap(spread)),
            "z": (wrap(copied), wrap(pooled)),
        }
        if cross == "stack":
            del pairs["z"]
        g.multi_update_all(pairs, cross, after if cross == "sum" else None)
        out = g.nodes["b"].data["out"]
        return out.detach(), *torch.autograd.grad((out**2).sum(), (h, k), allow_unused=True)

    for result, want in zip(run(lambda f: f), run(for_real), strict=True):
        torch.testing.assert_close(result, want)


@pytest.mark.parametrize("reduce", REDUCERS)
def test_a_bipartite_relation_and_an_int32_graph(reduce: Any) -> None:
    assert_as_for_real(scaled, reduce, bipartite)
    assert_as_for_real(scaled, reduce, lambda: multigraph(idtype=torch.int32))


# -- from one call to the next -----------------------------------------------------------------------------------------
def test_a_function_that_is_known_serves_other_shapes_and_dtypes() -> None:
    for feat in ((3,), (1,), (2, 3), (), (3,)):
        for dtype in (torch.float64, torch.float32):

            def make(feat: Any = feat, dtype: Any = dtype) -> Any:
                g = multigraph(feat, dtype)
                g.edata["w"] = values(14, *feat[:0], *(1 for _ in feat), dtype=dtype, seed=3)
                return g

            assert_as_for_real(scaled, summed, make, rtol=1e-5, atol=1e-5)


def test_a_function_that_is_known_is_not_called_again() -> None:
    """Once its messages and reductions are seen, a plain pair is the built-in pair: the same plan object."""

    def message(edges: Any) -> Any:
        return {"m": edges.src["h"] * edges.data["w"]}

    def reduce(nodes: Any) -> Any:
        return {"out": nodes.mailbox["m"].sum(1)}

    g = multigraph()
    first = messages_of(message, 0, relation_of(g))
    assert messages_of(message, 0, relation_of(multigraph())) is first
    assert signature_of(reduce, g) == UserFunction(1, recorded=True)
    g.update_all(message, reduce)
    assert signature_of(reduce, g) == (fn.sum("m", "out"),)


def test_an_axis_counted_from_the_end_is_counted_again() -> None:
    def reduce(nodes: Any) -> Any:
        return {"out": nodes.mailbox["m"].sum(-2)}

    def regular() -> Any:
        g = dglite.graph(([0, 1, 1, 0], [0, 0, 1, 1]))
        g.ndata["h"] = values(2, 2, 3, seed=1)
        return g

    assert_as_for_real(copied, reduce, multigraph)
    assert_as_for_real(copied, reduce, regular)


def test_a_known_sum_serves_integers_and_truths() -> None:
    def reduce(nodes: Any) -> Any:
        return {"out": nodes.mailbox["m"].sum(1)}

    assert_as_for_real(copied, reduce)
    for column in (torch.arange(6), torch.arange(6) > 2, torch.arange(12, dtype=torch.int32).reshape(6, 2)):
        results = []
        for wrap in (lambda f: f, for_real):
            g = multigraph()
            g.ndata["h"] = column
            g.update_all(wrap(copied), wrap(reduce))
            results.append(g.ndata["out"])
        assert torch.equal(*results) and results[0].dtype == results[1].dtype


def test_a_known_sum_gives_the_initializer_s_value_where_nothing_arrives() -> None:
    assert_as_for_real(copied, summed)

    def make() -> Any:
        g = multigraph()
        g.set_n_initializer(lambda shape, dtype, ctx, ids: torch.full(shape, 7.0, dtype=dtype), "out")
        return g

    assert_as_for_real(copied, summed, make)
    g = make()
    g.update_all(copied, summed)
    assert torch.equal(g.ndata["out"][4:], torch.full((2, 3), 7.0, dtype=torch.float64))


def test_globals_that_are_bound_again_are_seen() -> None:
    global SCALE

    def message(edges: Any) -> Any:
        return {"m": edges.src["h"] * SCALE}

    try:
        for SCALE in (2.0, 3.7, torch.tensor(0.5), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 3.7):  # noqa: B007
            assert_as_for_real(message, summed)
    finally:
        SCALE = 2.0


def test_a_captured_tensor_that_is_changed_or_replaced_is_seen() -> None:
    weight = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)

    def message(edges: Any) -> Any:
        return {"m": edges.src["h"] * weight}

    def reduce(nodes: Any) -> Any:
        return {"out": (nodes.mailbox["m"] + weight).mean(1)}

    for _ in range(3):
        assert_as_for_real(message, reduce, parameters=[weight])
        with torch.no_grad():
            weight *= 1.5
    weight = torch.tensor([[0.1, 0.2, -0.3]], dtype=torch.float64, requires_grad=True)
    assert_as_for_real(message, reduce, parameters=[weight])


@pytest.mark.parametrize("both", ["weights", "dropout", "numbers"])
def test_tensors_of_the_message_and_of_the_reducer_are_told_apart(both: str) -> None:
    first, second = torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor([5.0, 7.0, 9.0]).double()

    def weight_message(edges: Any) -> Any:
        return {"m": edges.src["h"] * first}

    def weight_reduce(nodes: Any) -> Any:
        return {"out": (nodes.mailbox["m"] * second).sum(1)}

    def dropout_message(edges: Any) -> Any:
        return {"m": torch.dropout(edges.src["h"], 0.3, True) * edges.dst["h"]}

    def dropout_reduce(nodes: Any) -> Any:
        m = nodes.mailbox["m"]
        return {"out": (torch.softmax(m, 1) * m).sum(1)}

    def number_message(edges: Any) -> Any:
        return {"m": edges.src["h"] * first.sum().item() * 0.37}

    def number_reduce(nodes: Any) -> Any:
        return {"out": (nodes.mailbox["m"] * second.sum().item()).sum(1)}

    pairs = {
        "weights": (weight_message, weight_reduce),
        "dropout": (dropout_message, dropout_reduce),
        "numbers": (number_message, number_reduce),
    }
    assert_as_for_real(*pairs[both])


def test_a_reducer_that_cannot_be_recorded_is_tried_once() -> None:
    def reduce(nodes: Any) -> Any:
        return {"out": torch.median(nodes.mailbox["m"], 1)[0]}

    g = multigraph()
    assert signature_of(reduce, g) == UserFunction(1, recorded=True)
    g.update_all(copied, reduce)
    assert signature_of(reduce, g) == UserFunction(1)
    assert "executed as written, without fusion: it calls 'median' on messages" in reason(g, copied, reduce)


def test_what_the_first_attempt_computed_serves_the_second() -> None:
    """A message function that runs as written is called once, though its reducer is tried, given up and bucketed."""
    message = ForReal(scaled)

    def reduce(nodes: Any) -> Any:
        return {"out": torch.median(nodes.mailbox["m"], 1)[0]}

    multigraph().update_all(message, reduce)
    assert message.calls == 1


def test_a_feature_written_in_place_after_a_send_does_not_change_the_message() -> None:
    def doubled(edges: Any) -> Any:
        return {"m": edges.src["h"] * 2}

    results = []
    for wrap in (lambda f: f, for_real):
        g = multigraph()
        g.send(message_func=wrap(doubled))
        g.ndata["h"].zero_()
        g.recv(reduce_func=wrap(summed))
        results.append(g.ndata["out"])
    torch.testing.assert_close(*results)


# -- columns and results of every kind ---------------------------------------------------------------------------------
MIXED = {
    "integers": lambda edges: {"m": edges.src["i"] + 1},
    "truths": lambda edges: {"m": edges.src["h"] > 0},
    "casts": lambda edges: {"m": edges.src["i"].double() * edges.src["h"]},
    "integers by floats": lambda edges: {"m": edges.src["h"] * edges.src["i"]},
    "two dtypes": lambda edges: {"m": edges.src["h"] * edges.src["f"]},
    "no use of columns": lambda edges: {"m": torch.ones(len(edges), 3, dtype=torch.float64)},
    "ids": lambda edges: {"m": edges.edges()[0][:, None] * edges.src["h"]},
    "the same twice": lambda edges: {"m": edges.src["h"], "n": edges.src["h"]},
    "unread fields": lambda edges: {"m": edges.src["h"], "n": torch.log(edges.src["h"])},
    "an edge's own column": lambda edges: {"m": edges.data["k"]},
    "a transposed product": lambda edges: {"m": edges.src["h"].T.contiguous().T},
}


@pytest.mark.parametrize("reduce", [summed, lambda nodes: {"out": nodes.mailbox["m"].double().mean(1)}])
@pytest.mark.parametrize("kind", list(MIXED))
def test_messages_of_every_kind(kind: str, reduce: Any) -> None:
    def make() -> Any:
        g = multigraph()
        g.ndata["i"], g.ndata["f"] = torch.arange(18).reshape(6, 3), values(6, 3, dtype=torch.float32)
        return g

    assert_as_for_real(MIXED[kind], reduce, make, rtol=1e-6, atol=1e-6)


RESULTS = {
    "two reductions of one field": lambda n: {"a": n.mailbox["m"].sum(1), "b": n.mailbox["m"].mean(1)},
    "one reduction twice": lambda n: dict.fromkeys("ab", n.mailbox["m"].sum(1)),
    "the nodes' own column": lambda n: {"a": n.data["h"], "b": n.mailbox["m"].sum(1)},
    "no message": lambda n: {"a": n.data["h"] * 2},
    "integers": lambda n: {"a": n.nodes(), "b": n.mailbox["m"].sum(1) > 0},
    "a reduction of a reduction": lambda n: {"a": n.mailbox["m"].sum(1).sum(-1), "b": n.mailbox["m"].sum(-1).sum(-1)},
    "another dtype": lambda n: {"a": n.mailbox["m"].sum(1).float()},
}


@pytest.mark.parametrize("what", list(RESULTS))
def test_results_of_every_kind(what: str) -> None:
    assert_as_for_real(scaled, RESULTS[what])


@pytest.mark.parametrize(
    "result",
    [
        lambda n: {"out": n.mailbox["m"]},
        lambda n: {"out": 3.0},
        lambda n: n.mailbox["m"].sum(1),
        lambda n: {"out": n.mailbox["m"].sum(1)[:1]},
        lambda n: {1: n.mailbox["m"].sum(1)},
        lambda n: {"out": n.mailbox["m"].sum((0, 1))},
    ],
)
def test_a_result_that_does_not_fit_is_refused_as_for_real(result: Any) -> None:
    g = multigraph()
    for function in (result, for_real(result)):
        with pytest.raises(DGLError):
            g.update_all(scaled, function)
    assert set(g.ndata) == {"h", "p"}


@pytest.mark.parametrize("num_nodes", [0, 3])
@pytest.mark.parametrize("reduce", REDUCERS)
def test_without_edges_functions_are_as_for_real(num_nodes: int, reduce: Any) -> None:
    def make() -> Any:
        g = dglite.graph(([], []), num_nodes=num_nodes)
        g.ndata["h"], g.edata["w"] = torch.zeros(num_nodes, 3), torch.zeros(0, 1)
        return g

    result, expected = make(), make()
    result.update_all(scaled, reduce)
    expected.update_all(for_real(scaled), for_real(reduce))
    assert_same(dict(result.ndata), dict(expected.ndata))
    result.apply_edges(scaled)
    expected.apply_edges(for_real(scaled))
    assert_same(dict(result.edata), dict(expected.edata))


@pytest.mark.parametrize("feat", [(0,), (2, 0)])
def test_features_of_width_zero(feat: Any) -> None:
    def reduce(nodes: Any) -> Any:
        return {"out": torch.exp(nodes.mailbox["m"]).sum(1), "total": nodes.mailbox["m"].sum(-1).sum(1)}

    assert_as_for_real(lambda edges: {"m": edges.src["h"] * edges.dst["h"]}, reduce, lambda: multigraph(feat))


ACCIDENTS = {
    "a vector as long as there are edges": lambda e: {"m": e.src["h"] * torch.arange(14.0).double()},
    "a number per edge by such a vector": lambda e: {"m": e.src["h"][:, 0] * torch.arange(14.0).double()},
    "a column of such a vector": lambda e: {"m": e.src["h"] * torch.arange(14.0).double()[:, None]},
    "two columns that torch aligns from the right": lambda e: {"m": e.src["h"] * e.data["w"][:, 0]},
    "a leading axis of length 1": lambda e: {"m": e.src["h"] * torch.ones(1, 14).double()},
    "a square of two axes": lambda e: {"m": e.src["h"].unsqueeze(0).squeeze(0) * e.dst["h"]},
}


@pytest.mark.parametrize("what", list(ACCIDENTS))
def test_shapes_that_agree_by_accident(what: str) -> None:
    """The feature is as wide as there are edges."""
    assert_as_for_real(ACCIDENTS[what], summed, lambda: multigraph((14,)))


def test_a_node_s_feature_that_torch_aligns_with_the_degree() -> None:
    """Two nodes of degree 2: ``nodes.data['h']`` without a new axis is aligned with the messages, not the nodes."""

    def make() -> Any:
        g = dglite.graph(([0, 1, 1, 0], [0, 0, 1, 1]))
        g.ndata["h"] = values(2, 3, seed=1)
        return g

    assert_as_for_real(copied, lambda nodes: {"out": (nodes.mailbox["m"] * nodes.data["h"]).sum(1)}, make)
    assert_as_for_real(copied, lambda nodes: {"out": (nodes.mailbox["m"] - nodes.mailbox["m"].mean(1)).sum(1)}, make)
    assert_as_for_real(copied, lambda nodes: {"out": (nodes.mailbox["m"] * nodes.data["h"][:, None]).sum(1)}, make)


def test_ties_infinities_and_nan() -> None:
    def extrema(nodes: Any) -> Any:
        m = nodes.mailbox["m"]
        top = m.amax(1, keepdim=True)
        return {
            "first": m.max(1)[0],
            "shared": m.amin(1),
            "held": torch.where(m == top, m, 0 * m).sum(1),
            "log": m.logsumexp(1),
        }

    for special in (0.1, float("inf"), float("-inf"), float("nan")):

        def make(special: float = special) -> Any:
            g = multigraph()
            g.ndata["h"] = torch.full((6, 3), special, dtype=torch.float64)
            g.ndata["h"][0] = 0.1
            return g

        expected = outcome(make, lambda g: g.update_all(for_real(copied), for_real(extrema)))
        result = outcome(make, lambda g: g.update_all(copied, extrema))
        assert_same(result[0], expected[0])
        if special == 0.1:
            assert_same(result[1], expected[1])
            assert torch.equal(result[0]["src shared"], expected[0]["src shared"]), "an extremum is one of the messages"


def test_logsumexp_of_nothing_but_minus_infinity_has_no_gradient() -> None:
    def message(edges: Any) -> Any:
        return {"m": edges.src["h"].masked_fill(edges.src["h"] < 10, float("-inf"))}

    assert_as_for_real(message, lambda nodes: {"out": nodes.mailbox["m"].logsumexp(1)})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("reduce", [summed, pooled])
def test_lower_precision_keeps_its_dtype(dtype: torch.dtype, reduce: Any) -> None:
    g, exact = multigraph(dtype=dtype), multigraph()
    exact.ndata["h"], exact.edata["w"] = g.ndata["h"].double(), g.edata["w"].double()
    g.update_all(scaled, reduce)
    exact.update_all(for_real(scaled), for_real(reduce))
    assert g.ndata["out"].dtype == dtype and recorded(scaled, g) is not None
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(g.ndata["out"].double(), exact.ndata["out"], rtol=8 * eps, atol=8 * eps)


def test_large_equal_numbers_do_not_overflow_in_their_extremum() -> None:
    g = dglite.graph(([0, 1, 2], [3, 3, 3]))
    g.ndata["h"] = torch.full((4, 2), 60000.0, dtype=torch.float16, requires_grad=True)
    g.update_all(copied, lambda nodes: {"out": nodes.mailbox["m"].amax(1)})
    assert torch.equal(g.ndata["out"][3], torch.full((2,), 60000.0, dtype=torch.float16))


# -- errors and explanations -------------------------------------------------------------------------------------------
def test_dtypes_that_do_not_mix_are_refused_as_for_real() -> None:
    g = multigraph()
    g.ndata["f"] = values(6, 3, dtype=torch.float32)
    lists = fn.u_mul_v("h", "f", "m")
    for reduce in (pooled, for_real(pooled)):
        with pytest.raises(DGLError, match="dtypes float64 and float32"):
            g.update_all(lists, reduce)
    for message in (lambda edges: {"m": edges.src["h"] @ torch.ones(3, 2)},):
        for function in (message, for_real(message)):
            with pytest.raises(RuntimeError, match="dtype"):
                g.update_all(function, summed)


def test_a_field_that_no_message_has_is_named() -> None:
    for reduce in (lambda nodes: {"out": nodes.mailbox["q"].sum(1)},):
        for function in (reduce, for_real(reduce)):
            with pytest.raises(KeyError, match="'q' on the messages; there are: 'm'"):
                multigraph().update_all(scaled, function)


def test_explain_says_what_is_recorded_and_what_is_not() -> None:
    text = reason(multigraph(), lambda edges: {"m": edges.src["h"] * SCALE}, pooled)
    assert "f0 is <lambda>, recorded" in text and "f1 is pooled, recorded" in text and "ReduceOnce" in text
    kept: list[Any] = []
    text = reason(multigraph(), lambda edges: {"m": kept.append(1) or edges.src["h"]}, for_real(pooled))
    assert "f0 is <lambda>, executed as written, without fusion: it may change 'kept' by 'append'" in text and not kept
    assert "executed as written, without fusion: it changes a value in place" in text
    assert "RunEdgeUDF" in text and "bucketed by degree" in text


@pytest.mark.parametrize("first", ["integers", "a wrong shape"])
def test_what_lay_in_the_data_of_one_call_is_not_held_against_the_function(first: str) -> None:
    """Integers have no kernel and wrong shapes raise; the next call, with other columns, is recorded."""

    def reduce(nodes: Any) -> Any:
        return {"out": torch.relu(nodes.mailbox["m"].sum(1)) * nodes.data["p"]}

    g = multigraph()
    if first == "integers":
        g.ndata["h"] = torch.arange(18).reshape(6, 3)
        g.update_all(copied, reduce)
    else:
        g.ndata["p"] = torch.ones(6, 4)
        with pytest.raises(RuntimeError):
            g.update_all(copied, reduce)
    assert signature_of(reduce, multigraph()) == UserFunction(1, recorded=True)


@pytest.mark.parametrize("chosen", [[0, 2], dglite.ALL])
def test_apply_edges_on_few_chosen_edges_runs_a_function_as_written(
    chosen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "FEW_OF_SOME", {False: 2, True: 0})
    g, seen = multigraph(), []

    class Watched(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            seen.append(type(x) is torch.Tensor and x.shape[0] == 2)
            return super().forward(x)

    layer = Watched(g.ndata["h"].shape[1], 2, dtype=g.ndata["h"].dtype)
    g.apply_edges(lambda edges: {"m": layer(edges.src["h"])}, chosen)
    ids = g.edge_ids(*g.edges(order="eid")) if chosen is dglite.ALL else chosen
    src, _ = g.find_edges(ids)
    torch.testing.assert_close(g.edata["m"][ids], torch.nn.Linear.forward(layer, g.ndata["h"][src]))
    assert seen == [chosen is not dglite.ALL]


@pytest.mark.parametrize("few", [0, 14])
@pytest.mark.parametrize("reduced", [False, True])
def test_what_would_be_recorded_anew_at_each_call_is_called_as_written_on_few_edges(
    few: int, reduced: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Results and gradients are the same; a function that reads its batch alone is recorded once on any graph."""
    monkeypatch.setattr(record, "FEW_EDGES", {reduced: few, not reduced: 0})
    caplog.set_level("INFO", "dglite")
    g, layer = multigraph(), torch.nn.Linear(3, 2, dtype=torch.float64)
    h = g.ndata["h"] = g.ndata["h"].requires_grad_()

    def through(edges: Any) -> Any:
        return {"m": torch.tanh(layer(edges.src["h"]) * edges.data["w"])}

    def alone(edges: Any) -> Any:
        return {"m": torch.tanh(edges.src["h"] * edges.data["w"])}

    reduce = fn.sum("m", "out") if reduced else None
    g.update_all(through, reduce) if reduced else g.apply_edges(through)
    assert isinstance(messages_of(through, 0, relation_of(g), reduced), UserFunction) == bool(few)
    src, dst = g.edges()
    messages = torch.tanh(torch.nn.functional.linear(h[src], layer.weight, layer.bias) * g.edata["w"])
    want = torch.zeros(6, 2, dtype=h.dtype).index_add(0, dst, messages) if reduced else messages
    out = g.ndata["out"] if reduced else g.edata["m"]
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(*(torch.autograd.grad(x.square().sum(), h)[0] for x in (out, want)))
    assert ("as written, without fusion: on so few edges" in reason(g, through, reduce)) == bool(few)
    assert "recorded" in reason(g, alone, reduce) and "as written" not in reason(g, alone, reduce)
    assert not caplog.records


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that are recorded during a test, one entry for each time."""
    functions: list[Any] = []

    def noted(function: Any, relation: Any) -> Any:
        functions.append(function)
        return recorded_for_real(function, relation)

    recorded_for_real = record._recorded
    monkeypatch.setattr(record, "_recorded", noted)
    return functions


def test_functions_of_the_same_code_and_literals_are_recorded_once(recordings: list[Any]) -> None:
    """As a layer makes them at each call, of names of columns and numbers."""

    def message_of(field: str, factor: float, divides: bool) -> Any:
        def message(edges: Any, divides: bool = divides) -> Any:
            return {"m": edges.src[field] / factor if divides else edges.src[field] * factor}

        return message

    g = multigraph()
    g.ndata["k"] = g.ndata["h"] + 1
    cases = [(field, factor) for field in "hk" for factor in (2, 2.0, np.float64(2), 1, True, 0.0)]
    kept = 0
    for field, factor in [*cases, *cases]:
        for divides in (False, bool(factor)):
            g.apply_edges(message_of(field, factor, divides))
            source = g.ndata[field][g.edges()[0]]
            torch.testing.assert_close(g.edata["m"], source / factor if divides else source * factor)
        kept = kept or len(recordings) * ((field, factor) == cases[-1])
    assert kept and len(recordings) - kept < kept  # of 22 tuples of literals 16 are kept


def test_zeros_of_either_sign_are_different_literals() -> None:
    def message_of(factor: float) -> Any:
        return lambda edges: {"m": edges.src["h"] * factor}

    g = multigraph()
    positive = g.ndata["h"][g.edges()[0]] > 0
    for factor in (0.0, -0.0, 0.0):
        g.apply_edges(message_of(factor))
        assert torch.signbit(g.edata["m"][positive]).all() == (str(factor) == "-0.0")


def test_what_has_to_be_recorded_at_each_call_is_called_as_written_on_some_edges(
    recordings: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "FEW_OF_SOME", {False: 14, True: 0})

    def message_of(scale: float) -> Any:
        return lambda edges: {"m": edges.src["h"] * scale}

    g = multigraph()
    for _ in range(3):
        g.apply_edges(message_of(0.37), [0, 2, 5])
        torch.testing.assert_close(g.edata["m"][[0, 2, 5]], 0.37 * g.ndata["h"][g.edges()[0][[0, 2, 5]]])
    assert len(recordings) == 1


@pytest.mark.parametrize("writes", [False, True])
def test_columns_of_some_edges_are_gathered_once(writes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where recording fails after reading them; what the function writes into them leaves no trace."""
    taken, take = [], relation_module.core.take_rows
    monkeypatch.setattr(relation_module.core, "take_rows", lambda x, rows: taken.append(x) or take(x, rows))
    g = multigraph()
    w = g.edata["w"].clone()

    def message(edges: Any) -> Any:
        column = edges.data["w"]
        return {"m": column.mul_(2.0) if writes else column * 2.0}

    g.apply_edges(message, [1, 3])
    assert len(taken) == 1
    torch.testing.assert_close(g.edata["m"][[1, 3]], 2 * w[[1, 3]])
    torch.testing.assert_close(g.edata["w"], w)


@pytest.mark.parametrize("num_chosen", [FEW_EDGES, FEW_EDGES + 1])
def test_ends_of_chosen_edges_are_gathered_with_gradients_with_and_without_a_kernel(num_chosen: int) -> None:
    rng = np.random.default_rng(0)
    src, dst = (torch.from_numpy(rng.integers(0, 9, 1200)) for _ in range(2))
    g, h = dglite.graph((src, dst), num_nodes=10), values(10, 3, seed=1).requires_grad_()
    weights = torch.rand(num_chosen, 3, dtype=h.dtype)
    chosen = torch.from_numpy(rng.permutation(1200)[:num_chosen])
    g.ndata["h"] = h
    g.apply_edges(
        lambda edges: {"m": torch.tanh(edges.src["h"]) @ torch.eye(3, dtype=h.dtype) * edges.dst["h"]}, chosen
    )
    plain = torch.tanh(h[src[chosen]]) * h[dst[chosen]]
    torch.testing.assert_close(g.edata["m"][chosen], plain)
    for result, want in zip(
        torch.autograd.grad((g.edata["m"][chosen] * weights).sum(), h),
        torch.autograd.grad((plain * weights).sum(), h),
        strict=True,
    ):
        torch.testing.assert_close(result, want)
