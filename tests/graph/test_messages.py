"""Message passing verbs: what each reads and writes, and what it says about bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dglite
from dglite import function as fn
from dglite.errors import DGLError
from tests.scheduler import oracle

SRC = [0, 0, 1, 3, 2, 2, 2]
DST = [1, 1, 2, 3, 0, 1, 2]
"""Parallel edges 0 -> 1, self-loops on 3 and 2, node 4 without edges; in-degrees 1, 3, 2, 1, 0."""
EDGES = oracle.Edges(5, 5, SRC, DST)


@pytest.fixture(params=[torch.int32, torch.int64], ids=["int32", "int64"])
def g(request: pytest.FixtureRequest) -> Any:
    """The small multigraph with features ``h`` (5, 2) and ``w`` (7, 1)."""
    return small(request.param)


def small(idtype: torch.dtype = torch.int64) -> Any:
    graph = dglite.graph((SRC, DST), num_nodes=5, idtype=idtype)
    generator = torch.Generator().manual_seed(0)
    graph.ndata["h"] = torch.rand(5, 2, generator=generator, dtype=torch.float64) + 0.5
    graph.edata["w"] = torch.rand(7, 1, generator=generator, dtype=torch.float64) + 0.5
    return graph


def expected(graph: Any, message: str, reducer: str) -> Tensor:
    """What the oracle says of a built-in pair on the small graph."""
    h, w = graph.ndata["h"].numpy(), graph.edata["w"].numpy()
    return torch.from_numpy(oracle.update_all(EDGES, message, reducer, h, w, h))


def snapshot(graph: Any) -> dict[str, Any]:
    return {"n": dict(graph.ndata), "e": dict(graph.edata)}


def assert_unchanged(graph: Any, before: dict[str, Any]) -> None:
    after = snapshot(graph)
    for kind in ("n", "e"):
        assert after[kind].keys() == before[kind].keys()
        assert all(after[kind][name] is before[kind][name] for name in before[kind])


# -- update_all ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reducer", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("message", ["copy_u", "u_mul_e"])
def test_update_all_of_built_ins_agrees_with_the_oracle(g: Any, message: str, reducer: str) -> None:
    fields = {"copy_u": ("h",), "u_mul_e": ("h", "w")}[message]
    g.update_all(getattr(fn, message)(*fields, "m"), getattr(fn, reducer)("m", "out"))
    torch.testing.assert_close(g.ndata["out"], expected(g, message, reducer))


@pytest.mark.parametrize("message", ["copy_e", "v_sub_u", "e_div_v", "u_dot_v"])
def test_update_all_sums_every_kind_of_message(message: str) -> None:
    g = small()
    names = {"u": "h", "v": "h", "e": "w"}
    fields = [names[side] for side in message.replace("copy", "").split("_") if side in names]
    g.update_all(getattr(fn, message)(*fields, "m"), fn.sum("m", "out"))
    torch.testing.assert_close(g.ndata["out"], expected(g, message, "sum"))


def test_user_functions_agree_with_built_ins(g: Any) -> None:
    pairs = [
        (lambda edges: {"m": edges.src["h"]}, lambda nodes: {"out": nodes.mailbox["m"].sum(1)}),
        (fn.copy_u("h", "m"), lambda nodes: {"out": nodes.mailbox["m"].sum(1)}),
        (lambda edges: {"m": edges.src["h"]}, fn.sum("m", "out")),
    ]
    for message, reduce in pairs:
        g.update_all(message, reduce)
        torch.testing.assert_close(g.ndata["out"], expected(g, "copy_u", "sum"))


def test_update_all_overwrites_the_whole_column() -> None:
    g = small()
    for reduce in (fn.sum("m", "out"), lambda nodes: {"out": nodes.mailbox["m"].sum(1)}):
        g.ndata["out"] = torch.full((5, 2), 9.0, dtype=torch.float64)
        g.update_all(fn.copy_u("h", "m"), reduce)
        assert g.ndata["out"][4].tolist() == [0.0, 0.0]


def test_a_node_without_messages_gets_the_initializer_s_value_from_a_user_s_reducer() -> None:
    g = small()
    g.set_n_initializer(lambda shape, dtype, ctx, id_range: torch.full(shape, 7.0, dtype=dtype), field="out")
    g.update_all(fn.copy_u("h", "m"), lambda nodes: {"out": nodes.mailbox["m"].sum(1)})
    assert g.ndata["out"][4].tolist() == [7.0, 7.0]
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
    assert g.ndata["out"][4].tolist() == [0.0, 0.0]


def test_the_mailbox_is_in_edge_id_order_and_the_batch_tells_its_ids(g: Any) -> None:
    g.edata["id"] = torch.arange(7)
    seen = {}

    def reduce(nodes: Any) -> dict[str, Tensor]:
        assert nodes.nodes().dtype == g.idtype
        assert len(nodes) == nodes.batch_size() == len(nodes.nodes())
        for node, ids in zip(nodes.nodes().tolist(), nodes.mailbox["m"].tolist(), strict=True):
            seen[node] = ids
        return {"first": nodes.mailbox["m"][:, 0], "h2": nodes.data["h"] * 2}

    g.update_all(fn.copy_e("id", "m"), reduce)
    assert seen == {0: [4], 1: [0, 1, 5], 2: [2, 6], 3: [3]}
    assert g.ndata["first"].tolist() == [4, 0, 2, 3, 0]
    torch.testing.assert_close(g.ndata["h2"][:4], g.ndata["h"][:4] * 2)


def test_apply_sees_reduced_columns_over_the_graph_s_and_alone_is_written() -> None:
    g = small()
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "s"), lambda nodes: {"out": nodes.data["s"] + nodes.data["h"]})
    torch.testing.assert_close(g.ndata["out"], expected(g, "copy_u", "sum") + g.ndata["h"])
    assert "s" not in g.ndata


def test_lists_of_built_ins_run_side_by_side() -> None:
    g = small()
    g.update_all(
        [fn.copy_u("h", "a"), fn.copy_e("w", "b"), fn.copy_e("missing", "never read")],
        [fn.sum("a", "x"), fn.max("b", "y"), fn.mean("a", "z")],
    )
    torch.testing.assert_close(g.ndata["x"], expected(g, "copy_u", "sum"))
    torch.testing.assert_close(g.ndata["y"], expected(g, "copy_e", "max"))
    torch.testing.assert_close(g.ndata["z"], expected(g, "copy_u", "mean"))


def test_a_user_s_reducer_reads_a_list_of_built_in_messages() -> None:
    g = small()
    g.update_all(
        [fn.copy_u("h", "a"), fn.u_mul_e("h", "w", "b")],
        lambda nodes: {"out": (nodes.mailbox["a"] + nodes.mailbox["b"]).sum(1)},
    )
    torch.testing.assert_close(g.ndata["out"], expected(g, "copy_u", "sum") + expected(g, "u_mul_e", "sum"))


# -- some nodes, some edges ------------------------------------------------------------------------------------------
def test_pull_writes_the_given_nodes_alone(g: Any) -> None:
    g.ndata["out"] = torch.full((5, 2), 9.0, dtype=torch.float64)
    g.pull([2, 4, 1, 1], fn.copy_u("h", "m"), fn.sum("m", "out"))
    result = expected(g, "copy_u", "sum")
    result[[0, 3]] = 9.0
    torch.testing.assert_close(g.ndata["out"], result)


def test_pull_with_a_user_s_reducer_gives_a_node_without_edges_the_initializer_s_value() -> None:
    g = small()
    g.ndata["out"] = torch.full((5, 2), 9.0, dtype=torch.float64)
    g.pull([1, 4], fn.copy_u("h", "m"), lambda nodes: {"out": nodes.mailbox["m"].sum(1)})
    result = torch.full((5, 2), 9.0, dtype=torch.float64)
    result[1], result[4] = expected(g, "copy_u", "sum")[1], 0.0
    torch.testing.assert_close(g.ndata["out"], result)
    g.pull([4], fn.copy_u("h", "m"), lambda nodes: {"never": nodes.mailbox["m"].sum(1)})
    assert "never" not in g.ndata


def test_push_reaches_successors_alone(g: Any) -> None:
    g.push([0, 3], fn.u_mul_e("h", "w", "m"), fn.sum("m", "out"))
    h, w = g.ndata["h"], g.edata["w"]
    result = torch.zeros(5, 2, dtype=torch.float64)
    result[1], result[3] = h[0] * w[0] + h[0] * w[1], h[3] * w[3]
    torch.testing.assert_close(g.ndata["out"], result)


@pytest.mark.parametrize("edges", [[6, 0, 5], torch.tensor([6, 0, 5]), np.array([6, 0, 5])])
def test_send_and_recv_uses_the_given_edges_alone(edges: Any) -> None:
    g = small()
    g.send_and_recv(edges, lambda edges: {"m": edges.src["h"] * edges.data["w"]}, fn.sum("m", "out"))
    h, w = g.ndata["h"], g.edata["w"]
    result = torch.zeros(5, 2, dtype=torch.float64)
    result[2], result[1] = h[2] * w[6], h[0] * w[0] + h[2] * w[5]
    torch.testing.assert_close(g.ndata["out"], result)


def test_send_and_recv_takes_edges_as_node_pairs_and_reads_destination_rows() -> None:
    g = small()
    g.send_and_recv(([3, 2], [3, 0]), fn.u_add_v("h", "h", "m"), lambda nodes: {"out": nodes.mailbox["m"].max(1)[0]})
    h = g.ndata["h"]
    torch.testing.assert_close(g.ndata["out"][[3, 0]], torch.stack([h[3] + h[3], h[2] + h[0]]))
    assert not g.ndata["out"][[1, 2, 4]].any()


@pytest.mark.parametrize("verb", ["pull", "push", "send_and_recv"])
def test_an_empty_selection_does_nothing(verb: str) -> None:
    g = small()
    before = snapshot(g)
    getattr(g, verb)([], fn.copy_u("h", "m"), lambda nodes: 1 / 0)
    assert_unchanged(g, before)


def test_prop_nodes_and_prop_edges_go_frontier_after_frontier() -> None:
    g = dglite.graph(([0, 1, 2], [1, 2, 3]), num_nodes=4)
    for walk in (
        lambda: g.prop_nodes([[1], [2], [3]], fn.copy_u("h", "m"), fn.sum("m", "h")),
        lambda: g.prop_edges(iter([[0], [1], [2]]), fn.copy_u("h", "m"), fn.sum("m", "h")),
    ):
        g.ndata["h"] = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
        walk()
        assert g.ndata["h"].flatten().tolist() == [1.0, 1.0, 1.0, 1.0]


# -- nodes and edges alone -------------------------------------------------------------------------------------------
def test_apply_nodes_on_all_and_on_some(g: Any) -> None:
    g.apply_nodes(lambda nodes: {"x": nodes.data["h"] * 2})
    torch.testing.assert_close(g.ndata["x"], g.ndata["h"] * 2)
    g.apply_nodes(lambda nodes: {"x": nodes.nodes().double()[:, None].expand(-1, 2)}, [3, 1])
    assert g.ndata["x"][:, 0].tolist()[1::2] == [1.0, 3.0]
    torch.testing.assert_close(g.ndata["x"][[0, 2, 4]], g.ndata["h"][[0, 2, 4]] * 2)


@pytest.mark.parametrize("none", [[], ([], []), torch.zeros(7, dtype=torch.bool)])
def test_applying_to_an_empty_selection_makes_columns(none: Any) -> None:
    g = small()
    kept = g.edata["w"].clone()
    g.apply_edges(fn.u_dot_v("h", "h", "score"), none)
    g.apply_edges(lambda edges: {"sum": edges.src["h"] + edges.data["w"], "w": edges.data["w"] * 0}, none)
    g.apply_nodes(lambda nodes: {"wide": nodes.data["h"] @ torch.ones(2, 3, dtype=torch.float64)}, [])
    assert g.edata["score"].shape == (7, 1) and not g.edata["score"].any()
    assert g.edata["sum"].shape == (7, 2) and not g.edata["sum"].any() and torch.equal(g.edata["w"], kept)
    assert g.ndata["wide"].shape == (5, 3) and not g.ndata["wide"].any()


def test_apply_edges_with_built_ins_and_user_functions(g: Any) -> None:
    h, w = g.ndata["h"], g.edata["w"]
    g.apply_edges(fn.u_dot_v("h", "h", "s"))
    torch.testing.assert_close(g.edata["s"], (h[SRC] * h[DST]).sum(-1, keepdim=True))
    g.apply_edges(lambda edges: {"t": edges.src["h"] - edges.dst["h"] * edges.data["w"]})
    torch.testing.assert_close(g.edata["t"], h[SRC] - h[DST] * w)
    g.apply_edges(fn.copy_u("h", "t"), [5, 0])
    assert g.edata["t"][5].tolist() == h[2].tolist()
    torch.testing.assert_close(g.edata["t"][6], (h[2] - h[2] * w[6]))


def test_apply_edges_tells_the_ids_of_its_edges(g: Any) -> None:
    def ends(edges: Any) -> dict[str, Tensor]:
        u, v, e = edges.edges()
        assert u.dtype == v.dtype == e.dtype == g.idtype
        return {"ends": torch.stack([u, v, e], 1)}

    g.apply_edges(ends)
    assert g.edata["ends"].tolist() == [[s, d, i] for i, (s, d) in enumerate(zip(SRC, DST, strict=True))]
    del g.edata["ends"]
    g.apply_edges(ends, [6, 3])
    assert g.edata["ends"][[6, 3]].tolist() == [[2, 2, 6], [3, 3, 3]]


def test_integer_columns_are_gathered_too() -> None:
    g = small()
    g.ndata["label"] = torch.tensor([3, 1, 4, 1, 5])
    g.apply_edges(fn.copy_u("label", "label"))
    assert g.edata["label"].tolist() == [3, 3, 1, 1, 4, 4, 4]
    g.apply_edges(lambda edges: {"same": edges.src["label"] == edges.dst["label"]})
    assert g.edata["same"].tolist() == [False, False, False, True, False, False, True]


@pytest.mark.parametrize(("by", "ends"), [("src", SRC), ("dst", DST)])
def test_group_apply_edges_normalises_over_the_edges_of_a_node(by: str, ends: list[int]) -> None:
    g = small()
    shapes = []

    def normalise(edges: Any) -> dict[str, Tensor]:
        w = edges.data["w"]
        shapes.append((tuple(w.shape), tuple(edges.src["h"].shape), len(edges)))
        return {"p": w / w.sum(1, keepdim=True)}

    g.group_apply_edges(by, normalise)
    w = g.edata["w"]
    totals = torch.zeros(5, 1, dtype=torch.float64).index_add(0, torch.tensor(ends), w)
    torch.testing.assert_close(g.edata["p"], w / totals[ends])
    degrees = sorted(set(np.bincount(ends).tolist()) - {0})
    assert [shape[0][1] for shape in shapes] == degrees
    assert all(h == (*own[:2], 2) and size == own[0] * own[1] for own, h, size in shapes)


def test_filters_return_the_ids_for_which_the_predicate_holds(g: Any) -> None:
    g.ndata["x"] = torch.tensor([0, 1, 0, 1, 1])
    assert g.filter_nodes(lambda nodes: nodes.data["x"] == 1).tolist() == [1, 3, 4]
    result = g.filter_nodes(lambda nodes: nodes.data["x"] == 1, [4, 0, 1])
    assert result.tolist() == [4, 1] and result.dtype == g.idtype
    assert g.filter_edges(lambda edges: edges.src["x"] == edges.dst["x"]).tolist() == [3, 4, 6]
    assert g.filter_edges(lambda edges: edges.src["x"] == edges.dst["x"], [6, 0]).tolist() == [6]
    for dtype in (torch.float32, torch.int64, torch.uint8):
        assert g.filter_nodes(lambda nodes, as_=dtype: (nodes.data["x"] == 1).to(as_)).tolist() == [1, 3, 4]
    with pytest.raises(DGLError, match="booleans or numbers of shape"):
        g.filter_nodes(lambda nodes: nodes.data["x"][:2] == 1)


# -- registered functions --------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:g.register:DeprecationWarning")
def test_registered_functions_serve_verbs_without_arguments() -> None:
    g = small()
    g.register_message_func(fn.copy_u("h", "m"))
    g.register_reduce_func(fn.sum("m", "s"))
    g.update_all()
    torch.testing.assert_close(g.ndata["s"], expected(g, "copy_u", "sum"))
    g.register_apply_node_func(lambda nodes: {"out": nodes.data["s"] * 2})
    g.send()
    g.recv()
    torch.testing.assert_close(g.ndata["out"], expected(g, "copy_u", "sum") * 2)
    g.register_apply_edge_func(fn.u_add_v("h", "h", "t"))
    g.apply_edges()
    assert g.edata["t"].shape == (7, 2)
    g.apply_nodes()
    with pytest.raises(DGLError, match="no message function given"):
        small().send()


# -- several types, blocks -------------------------------------------------------------------------------------------
def hetero() -> Any:
    """Users follow users and rate items; item 2 is rated by nobody. Features ``h`` on both types."""
    g = dglite.heterograph(
        {
            ("user", "follows", "user"): ([0, 1, 1], [1, 2, 0]),
            ("user", "rates", "item"): ([0, 1, 2, 2], [0, 0, 1, 0]),
            ("user", "likes", "item"): ([0, 1], [1, 1]),
        },
        num_nodes_dict={"user": 3, "item": 3},
    )
    g.nodes["user"].data["h"] = torch.tensor([[-1.0], [-2.0], [-3.0]])
    return g


def test_built_in_messages_go_to_every_edge_type_that_has_the_columns() -> None:
    g = hetero()
    g.apply_edges(fn.copy_u("h", "s"))
    assert g.edges["follows"].data["s"].flatten().tolist() == [-1, -2, -2] and len(g.edata["s"]) == 3
    g.apply_edges(fn.u_add_v("h", "h", "t"))
    assert list(g.edata["t"]) == [("user", "follows", "user")]
    with pytest.raises(KeyError, match="no edge type has the columns"):
        g.apply_edges(fn.copy_u("zz", "s"))
    with pytest.raises(DGLError, match="name one of"):
        g.apply_edges(lambda edges: {"s": edges.src["h"]})


def test_verbs_take_an_edge_type_by_name_triple_or_slice() -> None:
    results = []
    for call in (
        lambda g: g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"), etype="rates"),
        lambda g: g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"), etype=("user", "rates", "item")),
        lambda g: g["rates"].update_all(fn.copy_u("h", "m"), fn.sum("m", "out")),
        lambda g: (
            g.send(message_func=fn.copy_u("h", "m"), etype="rates"),
            g.recv(etype="rates", reduce_func=fn.sum("m", "out")),
        ),
    ):
        g = hetero()
        call(g)
        results.append(g.nodes["item"].data["out"].flatten().tolist())
        assert "out" not in g.nodes["user"].data
    assert results == [[-6.0, -3.0, 0.0]] * 4


def test_batches_know_their_types() -> None:
    g = hetero()

    def message(edges: Any) -> dict[str, Tensor]:
        assert edges.canonical_etype == ("user", "rates", "item")
        return {"m": edges.src["h"]}

    def reduce(nodes: Any) -> dict[str, Tensor]:
        assert nodes.ntype == "item"
        return {"out": nodes.mailbox["m"].mean(1)}

    g.update_all(message, reduce, etype="rates")
    assert g.nodes["item"].data["out"].flatten().tolist() == [-2.0, -3.0, 0.0]


@pytest.mark.parametrize(
    ("cross", "result"),
    [
        ("sum", [[-6.0], [-6.0], [0.0]]),
        ("mean", [[-3.0], [-3.0], [0.0]]),
        ("max", [[0.0], [-3.0], [0.0]]),
        ("min", [[-6.0], [-3.0], [0.0]]),
        ("stack", [[[-6.0], [0.0]], [[-3.0], [-3.0]], [[0.0], [0.0]]]),
        (lambda columns: columns[0] - columns[1], [[-6.0], [0.0], [0.0]]),
    ],
)
def test_multi_update_all_merges_relations(cross: Any, result: Any) -> None:
    g = hetero()
    order = ["rates", "likes"]
    order.sort(key=g.etype_id)
    if cross == "stack" and order[0] == "likes":
        result = [row[::-1] for row in result]
    sign = 1.0
    if callable(cross) and order[0] == "likes":
        sign = -1.0
    pair = (fn.copy_u("h", "m"), fn.sum("m", "out"))
    g.multi_update_all({"rates": pair, "likes": pair}, cross)
    torch.testing.assert_close(g.nodes["item"].data["out"], sign * torch.tensor(result))


@pytest.mark.parametrize(("name", "result"), [("max", [-1.0, -1.0, 0.0]), ("min", [-3.0, -3.0, 0.0])])
def test_an_extremum_of_extrema_passes_over_relations_without_messages(name: str, result: list[float]) -> None:
    g = hetero()
    pair = (fn.copy_u("h", "m"), getattr(fn, name)("m", "out"))
    g.multi_update_all({"rates": pair, "likes": pair}, name)
    assert g.nodes["item"].data["out"].flatten().tolist() == result


def test_extrema_that_only_one_relation_writes_stand_alone() -> None:
    g = hetero()
    g.multi_update_all(
        {"rates": (fn.copy_u("h", "m"), fn.max("m", "a")), "likes": (fn.copy_u("h", "m"), fn.max("m", "b"))}, "max"
    )
    assert g.nodes["item"].data["a"].flatten().tolist() == [-1.0, -3.0, 0.0]
    assert g.nodes["item"].data["b"].flatten().tolist() == [0.0, -1.0, 0.0]


def test_multi_update_all_applies_per_relation_and_afterwards_and_mixes_functions() -> None:
    g = hetero()
    g.multi_update_all(
        {
            "rates": (lambda edges: {"m": edges.src["h"]}, lambda nodes: {"out": nodes.mailbox["m"].sum(1)}),
            "likes": (fn.copy_u("h", "m"), fn.sum("m", "s"), lambda nodes: {"out": nodes.data["s"] * 10}),
            "follows": (fn.copy_u("h", "m"), fn.sum("m", "out")),
        },
        "sum",
        lambda nodes: {"double": nodes.data["out"] * 2},
    )
    assert g.nodes["item"].data["out"].flatten().tolist() == [-6.0, -33.0, 0.0]
    assert g.nodes["item"].data["double"].flatten().tolist() == [-12.0, -66.0, 0.0]
    assert g.nodes["user"].data["out"].flatten().tolist() == [-2.0, -1.0, -2.0]
    assert "s" not in g.nodes["item"].data


def test_update_all_without_etype_runs_a_built_in_on_every_type_that_has_the_columns() -> None:
    g = hetero()
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
    assert g.nodes["item"].data["out"].flatten().tolist() == [-6.0, -6.0, 0.0]
    with pytest.raises(DGLError, match="multi_update_all"):
        g.update_all(fn.copy_u("h", "m"), fn.mean("m", "out"))


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_a_block_writes_its_destination_nodes(idtype: torch.dtype) -> None:
    block = dglite.create_block(([0, 1, 2, 3], [0, 0, 1, 1]), num_src_nodes=4, num_dst_nodes=3, idtype=idtype)
    block.srcdata["h"] = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    block.dstdata["d"] = torch.tensor([[10.0], [20.0], [30.0]])
    block.update_all(fn.u_add_v("h", "d", "m"), fn.sum("m", "out"))
    assert block.dstdata["out"].flatten().tolist() == [23.0, 47.0, 0.0]
    block.update_all(
        lambda edges: {"m": edges.src["h"] + edges.dst["d"]},
        lambda nodes: {"out": nodes.mailbox["m"].sum(1) + nodes.data["d"]},
    )
    assert block.dstdata["out"].flatten().tolist() == [33.0, 67.0, 0.0]
    block.pull([1], fn.copy_u("h", "m"), fn.max("m", "out"))
    assert block.dstdata["out"].flatten().tolist() == [33.0, 4.0, 0.0]


# -- nothing there ---------------------------------------------------------------------------------------------------
def test_graphs_without_edges_or_nodes_work() -> None:
    for num_nodes in (0, 3):
        g = dglite.graph(([], []), num_nodes=num_nodes)
        g.ndata["h"] = torch.ones(num_nodes, 2)
        for reducer in ("sum", "max", "prod"):
            g.update_all(fn.copy_u("h", "m"), getattr(fn, reducer)("m", "s"))
            torch.testing.assert_close(g.ndata["s"], torch.zeros(num_nodes, 2))
        g.update_all(fn.copy_u("h", "m"), lambda nodes: {"never": nodes.mailbox["m"].sum(1)})
        g.update_all(lambda edges: {"m": edges.src["h"]}, fn.sum("m", "t"))
        assert "never" not in g.ndata and g.ndata["t"].shape == (num_nodes, 2)
        g.apply_edges(fn.u_add_v("h", "h", "e"))
        g.apply_edges(lambda edges: {"f": edges.src["h"]})
        g.apply_nodes(lambda nodes: {"n": nodes.data["h"]})
        g.group_apply_edges("dst", lambda edges: {"never": edges.data["e"]})
        g.send(message_func=fn.copy_u("h", "m"))
        g.recv(reduce_func=fn.sum("m", "r"))
        assert g.edata["e"].shape == g.edata["f"].shape == (0, 2)


def test_zero_width_features_work() -> None:
    g = small()
    g.ndata["empty"] = torch.zeros(5, 0)
    g.update_all(fn.copy_u("empty", "m"), fn.sum("m", "out"))
    g.update_all(fn.copy_u("empty", "m"), lambda nodes: {"too": nodes.mailbox["m"].sum(1)})
    assert g.ndata["out"].shape == g.ndata["too"].shape == (5, 0)


# -- gradients, scopes, failures -------------------------------------------------------------------------------------
def test_gradients_flow_through_buckets_and_partial_writes() -> None:
    g = small()
    h, w = g.ndata["h"].clone(), g.edata["w"].clone()

    def run(h: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        with g.local_scope():
            g.ndata["h"], g.edata["w"] = h, w
            g.update_all(
                lambda edges: {"m": edges.src["h"] * edges.data["w"] + edges.dst["h"]},
                lambda nodes: {"a": nodes.mailbox["m"].prod(1) * nodes.data["h"]},
            )
            g.update_all(fn.copy_u("h", "m"), lambda nodes: {"b": nodes.mailbox["m"].logsumexp(1)})
            g.update_all(fn.u_mul_e("h", "w", "m"), fn.prod("m", "c"))
            g.pull([1, 2, 4], fn.u_dot_v("h", "h", "m"), fn.sum("m", "d"))
            g.group_apply_edges("src", lambda edges: {"e": edges.data["w"].softmax(1) * edges.dst["h"]})
            return g.ndata["a"], g.ndata["b"], g.ndata["c"], g.ndata["d"], g.edata["e"]

    inputs = (h.requires_grad_(), w.requires_grad_())
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


def test_local_scope_forgets_what_verbs_write() -> None:
    g = small()
    with g.local_scope():
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
        g.apply_edges(fn.copy_u("h", "x"))
    assert list(g.edata) == ["w"]
    assert g.ndata["h"].max() < 1.5


def wrong_rows(batch: Any) -> dict[str, Tensor]:
    return {"m": torch.ones(2, 1)}


FAILURES = {
    "message not a dict": (lambda g: g.update_all(lambda edges: edges.src["h"], fn.sum("m", "x")), DGLError, "dict"),
    "message wrong rows": (lambda g: g.update_all(wrong_rows, fn.sum("m", "x")), DGLError, r"wrong_rows.*\(7,\)"),
    "message not a tensor": (lambda g: g.update_all(lambda edges: {"m": 3}, fn.sum("m", "x")), DGLError, "int"),
    "reduce not a dict": (lambda g: g.update_all(fn.copy_u("h", "m"), lambda nodes: 1), DGLError, "int.*dict"),
    "reduce wrong rows": (
        lambda g: g.update_all(fn.copy_u("h", "m"), lambda nodes: {"x": nodes.mailbox["m"].sum((0, 1))}),
        DGLError,
        "first axes",
    ),
    "apply wrong rows": (
        lambda g: g.update_all(fn.copy_u("h", "m"), fn.sum("m", "x"), wrong_rows),
        DGLError,
        "number of nodes",
    ),
    "missing mailbox field": (
        lambda g: g.update_all(fn.copy_u("h", "m"), lambda nodes: {"x": nodes.mailbox["q"]}),
        KeyError,
        "'q' on the messages; there are: 'm'",
    ),
    "missing message field": (
        lambda g: g.update_all(fn.copy_u("h", "m"), fn.sum("q", "x")),
        DGLError,
        "'q'.*makes 'm'",
    ),
    "missing field of a user's message": (
        lambda g: g.update_all(lambda edges: {"m": edges.src["h"]}, fn.sum("q", "x")),
        DGLError,
        "'q'.*'m'",
    ),
    "missing field of a product": (
        lambda g: g.update_all(lambda edges: {"m": edges.src["h"]}, fn.prod("q", "x")),
        DGLError,
        "'q'.*'m'",
    ),
    "unknown source column": (
        lambda g: g.update_all(fn.copy_u("q", "m"), fn.sum("m", "x")),
        KeyError,
        "'q' on the source nodes.*'h'",
    ),
    "unknown edge column": (lambda g: g.apply_edges(fn.copy_e("q", "x")), KeyError, "'q' on the edges.*'w'"),
    "unknown column in a batch": (
        lambda g: g.apply_edges(lambda edges: {"x": edges.dst["q"]}),
        KeyError,
        "'q' on the destination nodes",
    ),
    "a reducer as message": (lambda g: g.update_all(fn.sum("m", "x"), fn.sum("m", "x")), DGLError, "message function"),
    "a string as reducer": (lambda g: g.update_all(fn.copy_u("h", "m"), "sum"), DGLError, "'sum'.*reduce function"),
    "no message": (lambda g: g.update_all(), DGLError, "no message function given"),
    "group by": (lambda g: g.group_apply_edges("u", lambda edges: {}), DGLError, "'src' or 'dst'"),
    "cross reducer": (
        lambda g: g.multi_update_all({"_E": (fn.copy_u("h", "m"), fn.sum("m", "x"))}, "median"),
        DGLError,
        "median",
    ),
    "half a pair": (lambda g: g.multi_update_all({"_E": (fn.copy_u("h", "m"),)}, "sum"), DGLError, "reduce"),
    "shapes that do not fit": (lambda g: g.update_all(fn.u_add_v("h", "wide", "m"), fn.sum("m", "x")), DGLError, "3"),
    "columns differ between buckets": (
        lambda g: g.update_all(
            fn.copy_u("h", "m"), lambda nodes: {str(nodes.mailbox["m"].shape[1]): nodes.mailbox["m"].sum(1)}
        ),
        DGLError,
        "bucket",
    ),
    "shapes differ between buckets": (
        lambda g: g.update_all(fn.copy_u("h", "m"), lambda nodes: {"x": nodes.mailbox["m"].flatten(1)}),
        DGLError,
        "must not depend",
    ),
    "writing to a batch alone": (
        lambda g: g.apply_edges(lambda edges: edges.src.__setitem__("x", 1)),
        DGLError,
        "returned NoneType; expected a dict",
    ),
    "a node that is not there": (lambda g: g.pull([9], fn.copy_u("h", "m"), fn.sum("m", "x")), DGLError, "9"),
    "an edge that is not there": (lambda g: g.apply_edges(fn.copy_u("h", "x"), [7]), DGLError, "7"),
    "a user's own error": (
        lambda g: g.update_all(fn.copy_u("h", "m"), lambda nodes: 1 / 0),
        ZeroDivisionError,
        "division",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_verb_says_why_and_leaves_the_graph_as_it_was(name: str) -> None:
    call, error, message = FAILURES[name]
    g = small()
    g.ndata["wide"] = torch.ones(5, 3, dtype=torch.float64)
    before = snapshot(g)
    with pytest.raises(error, match=message):
        call(g)
    assert_unchanged(g, before)


def test_a_failed_multi_update_all_writes_no_type() -> None:
    g = hetero()
    with pytest.raises(DGLError, match="first axes"):
        g.multi_update_all(
            {
                "follows": (fn.copy_u("h", "m"), fn.sum("m", "out")),
                "rates": (fn.copy_u("h", "m"), fn.sum("m", "out"), lambda nodes: {"out": torch.ones(1)}),
            },
            "sum",
        )
    assert "out" not in g.nodes["user"].data and "out" not in g.nodes["item"].data


@pytest.mark.parametrize("reached", [False, True])
def test_sending_along_all_edges_by_their_ends_is_sending_along_all(reached: bool) -> None:
    """Parallel edges count once each, and nodes that nothing reaches keep their rows; formats are not made anew."""
    src, dst = torch.tensor([0, 1, 1, 2]), torch.tensor([1, 2, 2, 0])
    g = dglite.graph((src, dst), num_nodes=3 if reached else 4)
    g.ndata["h"], g.edata["w"] = torch.rand(g.num_nodes(), 2), torch.rand(4, 1)
    g.ndata["out"] = torch.full((g.num_nodes(), 2), 7.0)
    want = torch.zeros(g.num_nodes(), 2).index_add(0, dst, g.ndata["h"][src] * g.edata["w"])
    for edges in (g.edges(), g.edges(form="eid"), (dst.flip(0) * 0 + src, dst)):
        g.send_and_recv(edges, fn.u_mul_e("h", "w", "m"), fn.sum("m", "out"))
        torch.testing.assert_close(g.ndata["out"][:3], want[:3])
        assert reached or g.ndata["out"][3].tolist() == [7, 7]
    assert ("csc" in g.formats()["created"]) == reached
    assert g.edge_ids(*g.edges()).tolist() == [0, 1, 1, 3]
