"""The named operations of ``dglite.ops``."""

from __future__ import annotations

import inspect
import pickle

import pytest
import torch

import dglite
import dglite.function as fn
from dglite import DGLError, ops


@pytest.fixture
def g():
    return dglite.graph(([0, 1, 1, 2], [1, 0, 2, 2]), num_nodes=4)


X = torch.arange(8.0).reshape(4, 2) + 1
W = torch.tensor([[1.0], [2.0], [3.0], [4.0]])


def test_every_name_is_there_and_says_what_it_does():
    assert {"gspmm", "gsddmm", "copy_u_sum", "u_mul_e_max", "u_dot_v", "copy_v", "segment_reduce"} <= set(ops.__all__)
    for name in ops.__all__:
        function = getattr(ops, name)
        assert function.__name__ == name and inspect.getdoc(function)
        assert pickle.loads(pickle.dumps(function)) is function


def test_shorthands_equal_the_general_form(g):
    for op in ("add", "sub", "mul", "div", "pow"):
        for reducer in ("sum", "mean", "max", "min", "logsumexp"):
            short = getattr(ops, f"u_{op}_e_{reducer}")(g, X, W)
            assert torch.equal(short, ops.gspmm(g, op, reducer, X, W))
    for reducer in ("sum", "mean", "max", "min", "logsumexp"):
        assert torch.equal(getattr(ops, f"copy_u_{reducer}")(g, X), ops.gspmm(g, "copy_lhs", reducer, X, None))
        assert torch.equal(getattr(ops, f"copy_e_{reducer}")(g, W), ops.gspmm(g, "copy_rhs", reducer, None, W))
    for op in ("add", "sub", "mul", "div", "pow", "dot"):
        for lhs, rhs in (("u", "v"), ("v", "e"), ("e", "u")):
            rows = {"u": X, "v": X * 2, "e": W.expand(4, 2)}
            short = getattr(ops, f"{lhs}_{op}_{rhs}")(g, rows[lhs], rows[rhs])
            assert torch.equal(short, ops.gsddmm(g, op, rows[lhs], rows[rhs], lhs, rhs))


def test_values_by_hand(g):
    assert ops.copy_u_sum(g, X).tolist() == [[3, 4], [1, 2], [8, 10], [0, 0]]
    assert ops.u_mul_e_max(g, X, W).tolist() == [[6, 8], [1, 2], [20, 24], [0, 0]]
    assert ops.u_dot_v(g, X, X).flatten().tolist() == [11, 11, 39, 61]
    assert ops.copy_v(g, X).tolist() == [[3, 4], [1, 2], [5, 6], [5, 6]]
    assert ops.edge_softmax(g, torch.zeros(4)).tolist() == [1, 1, 0.5, 0.5]
    assert ops.edge_softmax(g, torch.zeros(4), norm_by="src").tolist() == [1, 0.5, 0.5, 1]
    assert ops.edge_softmax(g, torch.zeros(2), eids=[0, 2]).tolist() == [1, 1]


def test_a_dot_product_of_numbers_is_their_product(g):
    numbers = torch.tensor([2.0, 3.0, 5.0, 7.0], requires_grad=True)
    src, dst = (end.long() for end in g.edges())
    result = ops.u_dot_v(g, numbers, numbers)
    assert torch.equal(result, numbers[src] * numbers[dst])
    g.ndata["x"] = numbers
    g.update_all(fn.u_dot_v("x", "x", "m"), fn.sum("m", "out"))
    assert g.ndata["out"].tolist() == torch.zeros(4).index_add(0, dst, result).tolist()
    (grad,) = torch.autograd.grad(g.ndata["out"].sum(), numbers)
    assert torch.equal(grad, torch.autograd.grad((numbers[src] * numbers[dst]).sum(), numbers)[0])


def test_log_sum_exp_is_torchs(g):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, generator=generator, dtype=torch.float64).requires_grad_()
    src, dst = g.edges()
    result = ops.copy_u_logsumexp(g, x)
    rows = [torch.logsumexp(x[src[dst == v]], 0) if (dst == v).any() else x.new_zeros(3) for v in range(4)]
    torch.testing.assert_close(result, torch.stack(rows))
    assert torch.autograd.gradcheck(lambda x: ops.copy_u_logsumexp(g, x), x, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x: ops.copy_u_logsumexp(g, x), x, fast_mode=True)


def test_log_sum_exp_of_infinite_messages(g):
    x = torch.tensor([[-torch.inf, 1e4], [-torch.inf, 1e4], [2.0, torch.inf], [0.0, 0.0]])
    log2 = torch.log(torch.tensor(2.0)).item()
    want = torch.tensor([[-torch.inf, 1e4], [-torch.inf, 1e4], [2.0, torch.inf], [0.0, 0.0]])
    result = ops.copy_u_logsumexp(dglite.graph(([0, 1, 2, 1], [0, 1, 2, 2]), num_nodes=4), x)
    torch.testing.assert_close(result, want)
    assert ops.copy_u_logsumexp(g, x)[2, 1] == torch.inf
    torch.testing.assert_close(
        ops.copy_e_logsumexp(g, torch.full((4,), 500.0)), torch.tensor([500, 500, 500 + log2, 0])
    )


def test_powers_of_features(g):
    x = torch.tensor([-2.0, 0.0, 0.5, 3.0], dtype=torch.float64).requires_grad_()
    y = torch.tensor([3.0, 2.0, 0.0, 1.5], dtype=torch.float64).requires_grad_()
    src, _ = g.edges()
    torch.testing.assert_close(ops.u_pow_e(g, x, y), x[src] ** y)
    for actual, want in zip(
        torch.autograd.grad(ops.u_pow_e(g, x, y).sum(), (x, y)),
        torch.autograd.grad((x[src] ** y).sum(), (x, y)),
        strict=True,
    ):
        torch.testing.assert_close(actual, want, equal_nan=True)


@pytest.mark.parametrize("norm_by", ["dst", "src"])
def test_edges_of_several_types_compete_where_they_share_a_node(norm_by):
    g = dglite.heterograph(
        {
            ("a", "p", "b"): ([0, 1, 0], [0, 0, 1]),
            ("a", "q", "b"): ([1], [0]),
            ("a", "r", "b"): ([1, 1], [0, 1]),
            ("b", "s", "a"): ([0, 1], [1, 1]),
        }
    )
    names = ["p", ("a", "r", "b"), "s"]
    scores = {name: torch.randn(g.num_edges(name), 2, dtype=torch.float64, requires_grad=True) for name in names}
    weights = dglite.nn.functional.edge_softmax(g, scores, norm_by=norm_by)
    assert list(weights) == [("a", "p", "b"), ("a", "r", "b"), ("b", "s", "a")]  # canonical, as in DGL
    weights = {name: weights[g.to_canonical_etype(name)] for name in names}
    assert all(weights[name].shape == scores[name].shape for name in names)
    both = {name: [end.tolist() for end in g.edges(etype=name)] for name in names}
    where = [("a" if (name == "s") == (norm_by == "dst") else "b", v) for name in names
             for v in both[name][norm_by == "dst"]]  # fmt: skip
    exponents = torch.cat([scores[name] for name in names]).exp()
    totals = torch.stack([sum(x for x, other in zip(exponents, where, strict=True) if other == v) for v in where])
    torch.testing.assert_close(torch.cat([weights[name] for name in names]), exponents / totals)
    assert torch.autograd.gradcheck(
        lambda *given: tuple(ops.edge_softmax(g, dict(zip(names, given, strict=True)), norm_by=norm_by).values()),
        tuple(scores.values()),
        fast_mode=True,
    )
    with pytest.raises(DGLError, match="same for all"):
        ops.edge_softmax(g, {"p": torch.zeros(3, 1), "r": torch.zeros(2)})
    with pytest.raises(DGLError, match="more than once"):
        ops.edge_softmax(g, {"p": torch.zeros(3), ("a", "p", "b"): torch.zeros(3)})


def test_segments():
    assert ops.segment_reduce([1, 0, 3], X, "mean").tolist() == [[1, 2], [0, 0], [5, 6]]
    assert ops.segment_softmax(torch.tensor([2, 2]), torch.zeros(4, 1)).flatten().tolist() == [0.5] * 4
    with pytest.raises(DGLError, match=r"shape \(4, 2\); expected 3 rows"):
        ops.segment_reduce([1, 2], X)
    with pytest.raises(DGLError, match="numbers from 0 up"):
        ops.segment_reduce([5, -1], X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: ops.gspmm(g, "mod", "sum", X, W), "no operation 'mod'; expected one of add, sub"),
        (lambda g: ops.gspmm(g, "dot", "sum", X, W), "no operation 'dot'"),
        (lambda g: ops.gspmm(g, "add", "prod", X, W), "no reduce operation 'prod'; expected sum, mean"),
        (lambda g: ops.gsddmm(g, "add", X, W, "u", "w"), "unknown target 'w'"),
        (lambda g: ops.edge_softmax(g, W, norm_by="both"), "norm_by='both'"),
        (lambda g: ops.gspmm(g, "copy_lhs", "sum", None, W), "got NoneType"),
    ],
)
def test_names_that_do_not_exist_are_refused(g, call, message):
    with pytest.raises(DGLError, match=message):
        call(g)


def test_a_graph_with_several_edge_types_needs_a_choice():
    hg = dglite.heterograph({("a", "x", "a"): ([0], [0]), ("a", "y", "a"): ([0], [0])})
    with pytest.raises(DGLError):
        ops.copy_u_sum(hg, torch.ones(1, 1))
    assert ops.copy_u_sum(hg["x"], torch.ones(1, 1)).tolist() == [[1.0]]
