"""Reports of message passing: reducers of no messages, several edge types, user-defined functions, gradients."""

from __future__ import annotations

import pytest
import torch

import dglite
import dglite.function as fn
from dglite.graph import DGLGraph
from tests.reports.cases import ids, pairs, report


def two_types() -> DGLGraph:
    """Return a graph of two edge types into "game"; game 1 has users only, game 2 shops only, game 3 nothing."""
    g = dglite.heterograph(
        {("user", "plays", "game"): ([0, 1, 1], [0, 0, 1]), ("shop", "sells", "game"): ([0, 1], [0, 2])},
        num_nodes_dict={"user": 2, "shop": 2, "game": 4},
    )
    g.nodes["user"].data["x"], g.nodes["shop"].data["x"] = torch.tensor([-1.0, -2.0]), torch.tensor([-3.0, -4.0])
    return g


@report(
    "dmlc/dgl#3564", "max and min over several edge types took the 0 of nodes without messages", also="dmlc/dgl#3581"
)
@pytest.mark.parametrize(("name", "expected"), [("max", [-1, -2, -4, 0]), ("min", [-3, -2, -4, 0])])
def test_extremes_over_edge_types(name: str, expected: list[float]) -> None:
    g = two_types()
    functions = (fn.copy_u("x", "m"), getattr(fn, name)("m", "y"))
    g.multi_update_all({"plays": functions, "sells": functions}, name)
    assert g.nodes["game"].data["y"].tolist() == expected


@report("dmlc/dgl#5873", "min into columns of other names left infinities")
def test_each_edge_type_has_its_own_column() -> None:
    g = two_types()
    messages = fn.copy_u("x", "m")
    g.multi_update_all({"plays": (messages, fn.min("m", "a")), "sells": (messages, fn.min("m", "b"))}, "min")
    assert g.nodes["game"].data["a"].tolist() == [-2, -2, 0, 0]
    assert g.nodes["game"].data["b"].tolist() == [-3, 0, -4, 0]


@report("dmlc/dgl#3321", "the mean over edge types counts all of them, with and without messages")
def test_mean_over_edge_types() -> None:
    g = two_types()
    functions = (fn.copy_u("x", "m"), fn.sum("m", "y"))
    g.multi_update_all({"plays": functions, "sells": functions}, "mean")
    assert g.nodes["game"].data["y"].tolist() == [-3, -1, -2, 0]


@report("dmlc/dgl#1329", "nodes without messages get 0, not their old value")
def test_nodes_without_messages_are_overwritten() -> None:
    g = dglite.heterograph(
        {("user", "follows", "user"): ([0, 1], [1, 1]), ("game", "attracts", "user"): ([0], [1])},
        {"user": 2, "game": 1},
    )
    g.nodes["user"].data["h"], g.nodes["game"].data["h"] = torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0]])
    functions = (fn.copy_u("h", "m"), fn.sum("m", "h"))
    g.multi_update_all({"follows": functions, "attracts": functions}, "sum")
    assert g.nodes["user"].data["h"].tolist() == [[0], [4]]


@report("dmlc/dgl#2011", "every reducer of no messages is 0", also="dmlc/dgl#1331")
@pytest.mark.parametrize(
    ("name", "expected"), [("sum", [0, 0, 5]), ("mean", [0, 0, 2.5]), ("max", [0, 0, 3]), ("min", [0, 0, 2])]
)
@pytest.mark.parametrize("user_defined", [False, True])
def test_reducers_of_no_messages(name: str, expected: list[float], user_defined: bool) -> None:
    g = dglite.graph(([1, 2], [2, 2]))
    g.ndata["h"] = torch.tensor([[1.0], [2.0], [3.0]])
    reduced = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}[name]
    by_user = lambda nodes: {"y": reduced(nodes.mailbox["m"], 1)}  # noqa: E731
    g.update_all(fn.copy_u("h", "m"), by_user if user_defined else getattr(fn, name)("m", "y"))
    assert g.ndata["y"].flatten().tolist() == expected


@report("dmlc/dgl#177", "nodes without messages are left to the apply function")
def test_apply_function_where_no_messages_come() -> None:
    g = dglite.graph(([0], [1]), num_nodes=3)
    g.ndata["h"] = torch.tensor([1.0, 2.0, 3.0])
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "s"), lambda nodes: {"h": nodes.data["h"] + 10 * nodes.data["s"]})
    assert g.ndata["h"].tolist() == [1, 12, 3]


@report("dmlc/dgl#2175", "messages in a mailbox are in the order of edge ids", also="dmlc/dgl#2176")
def test_order_of_messages_in_a_mailbox() -> None:
    src, dst = [1, 3, 5, 0, 4, 2, 3, 3, 4, 5], [1, 1, 0, 0, 1, 2, 2, 0, 3, 3]
    g = dglite.graph((src, dst))
    g.edata["eid"] = torch.arange(10)
    mailboxes = {}

    def collect(nodes: dglite.NodeBatch) -> dict[str, torch.Tensor]:
        mail = nodes.mailbox["eid"]
        mailboxes.update(zip(nodes.nodes().tolist(), mail.tolist(), strict=True))
        return {"n": mail.sum(1)}

    g.update_all(fn.copy_e("eid", "eid"), collect)
    assert mailboxes == {0: [2, 3, 7], 1: [0, 1, 4], 2: [5, 6], 3: [8, 9]}
    assert g.ndata["n"].tolist() == [12, 5, 11, 17, 0, 0]


@report("dmlc/dgl#2484", "prop_nodes_topo of trees passed features to other nodes")
def test_sums_along_trees() -> None:
    tree = dglite.graph(([4, 4, 1, 1, 0], [1, 0, 3, 2, 5]))  # the root is 4: numbers do not follow levels
    tree.ndata["h"] = torch.tensor([1.0, 2, 4, 8, 16, 32])
    total = lambda nodes: {"h": nodes.data["h"] + nodes.mailbox["m"].sum(1)}  # noqa: E731
    dglite.prop_nodes_topo(tree, fn.copy_u("h", "m"), total)
    assert tree.ndata["h"].tolist() == [1 + 16, 2 + 16, 4 + 18, 8 + 18, 16, 32 + 17]


@report("dmlc/dgl#1036", "edges were grouped wrongly once degrees had been asked for")
def test_groups_of_edges() -> None:
    g = dglite.graph(([4, 1, 2, 0, 3, 4], [0, 2, 0, 2, 1, 0]))
    g.in_degrees()
    g.edata["w"] = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    g.group_apply_edges("dst", lambda edges: {"share": edges.data["w"] / edges.data["w"].sum(1, keepdim=True)})
    expected = torch.tensor([1 / 10, 2 / 6, 3 / 10, 4 / 6, 1, 6 / 10])
    torch.testing.assert_close(g.edata["share"], expected)


@report("dmlc/dgl#3717", "booleans and integers could not be copied to edges")
@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.int64, torch.uint8])
def test_copies_of_other_dtypes(dtype: torch.dtype) -> None:
    g = dglite.graph(([0, 0, 1, 5], [1, 2, 2, 0]))
    g.ndata["mask"] = torch.tensor([1, 0, 0, 1, 0, 1]).to(dtype)
    g.apply_edges(fn.copy_u("mask", "at_src"))
    assert g.edata["at_src"].dtype == dtype and g.edata["at_src"].int().tolist() == [1, 1, 0, 1]


@report("dmlc/dgl#4039", "sums of integers are refused by an error that says to convert them")
def test_sums_of_integers_are_refused() -> None:
    g = dglite.graph(([0, 1], [1, 1]))
    g.edata["label"] = ids(1, 2)
    with pytest.raises(dglite.DGLError, match=r"int64.*float|float.*int64"):
        g.update_all(fn.copy_e("label", "m"), fn.sum("m", "h"))
    assert "h" not in g.ndata


@report("dmlc/dgl#1996", "copied edge features with a user-defined reducer")
def test_copied_edges_with_a_user_defined_reducer() -> None:
    g = dglite.graph(([0, 1, 2], [2, 2, 0]))
    g.edata["w"] = torch.tensor([[1.0], [2.0], [3.0]])
    g.update_all(fn.copy_e("w", "m"), lambda nodes: {"h": (nodes.mailbox["m"] ** 2).sum(1)})
    assert g.ndata["h"].flatten().tolist() == [9, 0, 5]


@report("dmlc/dgl#513", "ends of edges were mixed up where a function took all of them")
def test_ends_of_all_edges() -> None:
    g = dglite.graph(([1, 2, 3], [0, 2, 4]))
    g.ndata["f"] = torch.arange(5.0)[:, None]
    g.apply_edges(lambda edges: {"z": torch.cat([edges.src["f"], edges.dst["f"]], 1)})
    assert g.edata["z"].tolist() == [[1, 0], [2, 2], [3, 4]]


@report("dmlc/dgl#4817", "gradients with one node type and several edge types")
def test_gradients_of_several_edge_types() -> None:
    g = dglite.heterograph({("n", "a", "n"): ([0, 1], [1, 2]), ("n", "b", "n"): ([0, 2], [2, 0])})
    g.ndata["h"] = x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    functions = (fn.copy_u("h", "m"), fn.sum("m", "y"))
    g.multi_update_all({"a": functions, "b": functions}, "sum")
    assert g.ndata["y"].tolist() == [3, 1, 3]
    (g.ndata["y"] * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [110, 100, 1]


@report("dmlc/dgl#1863", "second derivatives through update_all", also="dmlc/dgl#1877")
def test_second_derivatives_of_update_all() -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    g.ndata["h"] = x = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64, requires_grad=True)
    g.update_all(fn.u_mul_v("h", "h", "m"), fn.sum("m", "y"))
    (first,) = torch.autograd.grad((g.ndata["y"] ** 2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first[0], x)
    # y = (0, ab, bc); d(y.y)/da = 2ab^2, whose derivatives are 2b^2, 4ab, 0
    assert first[0].item() == 2 * 2 * 9 and second.tolist() == [18, 24, 0]


@report("dmlc/dgl#3750", "backward twice through the same messages", also="dmlc/dgl#1046")
def test_backward_twice() -> None:
    g = dglite.graph(([0, 1], [1, 1]))
    g.ndata["h"] = x = torch.tensor([2.0, 3.0], requires_grad=True)
    g.update_all(fn.u_mul_v("h", "h", "m"), fn.sum("m", "y"))
    loss = g.ndata["y"].sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert x.grad is not None and x.grad.tolist() == [6, 16]


@report(
    "dmlc/dgl#4202",
    "a feature changed in place before backward is an error, not a wrong gradient",
    also="dmlc/dgl#5484",
)
def test_change_in_place_before_backward() -> None:
    g = dglite.graph(([0], [1]))
    weight = torch.tensor(3.0, requires_grad=True)
    g.ndata["h"] = torch.tensor([1.0, 2.0]) * weight
    g.update_all(fn.u_mul_v("h", "h", "m"), fn.sum("m", "y"))
    loss = g.ndata["y"].sum()
    with torch.no_grad():
        g.ndata["h"].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@report("dmlc/dgl#3319", "several messages in turn do not disturb each other")
def test_two_columns_in_turn() -> None:
    g = dglite.graph(([0, 1, 2], [1, 2, 2]))
    g.ndata["h"] = g.ndata["x"] = torch.tensor([[0.0], [1.0], [2.0]])
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "a"))
    g.update_all(fn.copy_u("x", "m"), fn.max("m", "b"))
    assert g.ndata["a"].flatten().tolist() == [0, 0, 3] and g.ndata["b"].flatten().tolist() == [0, 0, 2]
    assert pairs(g) == [(0, 1), (1, 2), (2, 2)] and "m" not in g.edata


@report(
    "dmlc/dgl#1304",
    "a missing column: the error names it and says whether nodes or edges lack it",
    also="dmlc/dgl#2280",
)
def test_error_of_a_missing_column() -> None:
    g = dglite.graph(([0], [1]))
    g.ndata["h"] = torch.ones(2)
    with pytest.raises(KeyError, match="edge"):
        g.update_all(fn.u_mul_e("h", "weight", "m"), fn.sum("m", "y"))
    with pytest.raises(KeyError, match="h0"):
        g.apply_edges(lambda edges: {"y": edges.src["h0"]})


@report("dmlc/dgl#4050", "edges of a graph without nodes, edges or messages", also="dmlc/dgl#4047")
def test_graphs_without_anything() -> None:
    g = dglite.graph(([], []))
    g.ndata["h"] = torch.zeros(0, 2)
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "y"))
    g.apply_edges(fn.u_add_v("h", "h", "e"))
    assert g.ndata["y"].shape == g.edata["e"].shape == (0, 2)
    for query in (g.in_edges, g.out_edges):
        with pytest.raises(dglite.DGLError, match="node"):
            query([0])


@report("dmlc/dgl#2497", "pull and send_and_recv wrote to other nodes than those that received")
@pytest.mark.parametrize("user_defined", [False, True])
def test_some_nodes_receive(user_defined: bool) -> None:
    g = dglite.graph(([0, 1, 2, 3, 4], [3, 0, 1, 2, 2]))
    reducer = (lambda nodes: {"h": nodes.mailbox["m"].sum(1)}) if user_defined else fn.sum("m", "h")
    for receive, expected in (
        (lambda: g.pull([2, 0], fn.copy_u("h", "m"), reducer), [2, 2, 9, 4, 5]),
        (lambda: g.push([3, 0], fn.copy_u("h", "m"), reducer), [1, 2, 4, 1, 5]),
        (lambda: g.send_and_recv(([2, 0], [1, 3]), fn.copy_u("h", "m"), reducer), [1, 3, 3, 1, 5]),
    ):
        g.ndata["h"] = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
        receive()
        assert g.ndata["h"].tolist() == expected


@report("dmlc/dgl#126", "messages read values that others had written in the same round", also="dmlc/dgl#84")
def test_messages_are_sent_before_any_is_received() -> None:
    g = dglite.graph(([0, 1, 0], [1, 0, 2]))
    g.ndata["h"] = torch.tensor([[1.0], [2.0], [3.0]])
    message = lambda edges: {"m": edges.src["h"]}  # noqa: E731
    g.send_and_recv(([0, 1, 0], [1, 0, 2]), message, lambda nodes: {"h": nodes.mailbox["m"].sum(1)})
    assert g.ndata["h"].tolist() == [[2], [1], [1]]


@report("dmlc/dgl#3598", "built-in functions on all edge types at once", also="dmlc/dgl#2989")
def test_functions_on_all_edge_types() -> None:
    g = two_types()
    g.nodes["game"].data["x"] = torch.tensor([10.0, 20.0, 30.0, 40.0])
    g.apply_edges(fn.u_add_v("x", "x", "s"))
    assert g.edges["plays"].data["s"].tolist() == [9, 8, 18] and g.edges["sells"].data["s"].tolist() == [7, 26]
    g.update_all(fn.copy_e("s", "m"), fn.sum("m", "y"))
    assert g.nodes["game"].data["y"].tolist() == [24, 18, 26, 0]


@report("dmlc/dgl#2218", "the gradient of one number that all edges share")
@pytest.mark.parametrize(("name", "expected"), [("max", 2), ("sum", 3), ("mean", 2)])
def test_gradient_of_a_shared_number(name: str, expected: float) -> None:
    g = dglite.graph(([0, 1, 0], [2, 3, 3]))
    number = torch.tensor(0.5, requires_grad=True)
    g.edata["w"] = number.expand(3)
    g.update_all(fn.copy_e("w", "m"), getattr(fn, name)("m", "y"))
    g.ndata["y"].sum().backward()
    assert number.grad is not None and number.grad.item() == expected
