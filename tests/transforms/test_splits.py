"""Random splits of edges and nodes: nothing that is predicted is seen, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dglite
from dglite.errors import DGLError
from dglite.transforms import RandomLinkSplit, RandomNodeSplit


@pytest.fixture(autouse=True)
def _seeded() -> None:
    dglite.seed(0)


def directed() -> dglite.DGLGraph:
    g = dglite.rand_graph(40, 200)
    g.ndata["x"], g.edata["w"] = torch.randn(40, 3), torch.arange(200)
    return g


def pairs_of(src: torch.Tensor, dst: torch.Tensor) -> list[tuple[int, int]]:
    return list(zip(src.tolist(), dst.tolist(), strict=True))


def edges_of(g: dglite.DGLGraph, etype: Any = None) -> set[tuple[int, int]]:
    return set(pairs_of(*g.edges(etype=etype)))


def positives(part: Any) -> list[tuple[int, int]]:
    return [pair for pair, label in zip(pairs_of(part.src, part.dst), part.label, strict=True) if label]


def negatives(part: Any) -> list[tuple[int, int]]:
    return [pair for pair, label in zip(pairs_of(part.src, part.dst), part.label, strict=True) if not label]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_held_out_edges_are_in_no_graph_that_predicts_them(idtype: torch.dtype) -> None:
    g = directed().astype(idtype)
    whole = edges_of(g)
    train, val, test = RandomLinkSplit(num_val=0.1, num_test=0.2)(g)
    assert repr(test).startswith(f"LinkSplit(pairs to predict: {len(test.src)},\n          graph=Graph(num_nodes=")
    assert [len(positives(part)) for part in (train, val, test)] == [140, 20, 40]
    assert [part.graph.num_edges() for part in (train, val, test)] == [140, 140, 160]
    assert set(positives(train)) | set(positives(val)) | set(positives(test)) == whole
    assert edges_of(train.graph) == edges_of(val.graph) == set(positives(train))
    assert edges_of(test.graph) == set(positives(train)) | set(positives(val))
    drawn = [pair for part in (train, val, test) for pair in negatives(part)]
    assert len(drawn) == len(set(drawn)) == 200 and not whole & set(drawn)
    assert train.src.dtype == idtype and train.label.dtype == torch.float32
    assert torch.equal(train.graph.ndata["x"], g.ndata["x"]) and g.num_edges() == 200
    weights = dict(zip(pairs_of(*g.edges()), g.edata["w"].tolist(), strict=True))
    kept = dict(zip(pairs_of(*test.graph.edges()), test.graph.edata["w"].tolist(), strict=True))
    assert all(weights[pair] == weight for pair, weight in kept.items())


def test_both_directions_stay_together() -> None:
    g = dglite.to_bidirected(dglite.remove_self_loop(dglite.rand_graph(30, 60)))
    train, val, test = RandomLinkSplit(0.2, 0.2, is_undirected=True)(g)
    for graph, hidden in ((train.graph, (val, test)), (val.graph, (val, test)), (test.graph, (test,))):
        edges = edges_of(graph)
        assert {(v, u) for u, v in edges} == edges
        for part in hidden:
            assert not {*positives(part), *((v, u) for u, v in positives(part))} & edges
    assert sum(len(positives(part)) for part in (train, val, test)) * 2 == g.num_edges()


def test_parallel_edges_stay_together() -> None:
    g = dglite.graph(([0, 0, 0, 1, 2, 3], [1, 1, 1, 2, 3, 0]))
    for _ in range(10):
        train, val, _ = RandomLinkSplit(num_val=1, num_test=1)(g)
        assert not set(positives(val)) & edges_of(train.graph)
        assert len(positives(train)) == 2


def test_options() -> None:
    g = directed()
    train, val, _ = RandomLinkSplit(20, 20, add_negative_train_samples=False, neg_sampling_ratio=2.0)(g)
    assert not negatives(train) and len(negatives(val)) == 40
    train, val, _ = RandomLinkSplit(20, 20, neg_sampling_ratio=0.0, disjoint_train_ratio=0.25)(g)
    assert not negatives(val) and len(positives(train)) == 40 and train.graph.num_edges() == 120
    assert not set(positives(train)) & edges_of(train.graph) and val.graph.num_edges() == 160


def test_a_dense_graph_has_few_negatives() -> None:
    g = dglite.graph((torch.ones(5, 5) - torch.eye(5)).nonzero(as_tuple=True))
    assert all(not negatives(part) for part in RandomLinkSplit(0.2, 0.2)(g))


def test_draws_follow_the_seed() -> None:
    g = directed()
    dglite.seed(0)
    first = RandomLinkSplit()(g)
    dglite.seed(0)
    again = RandomLinkSplit()(g)
    other = RandomLinkSplit()(g)
    assert torch.equal(first[1].src, again[1].src) and not torch.equal(again[1].src, other[1].src)


def typed() -> dglite.DGLGraph:
    src, dst = torch.randint(0, 20, (100,)), torch.randint(0, 30, (100,))
    order = torch.randperm(100)
    return dglite.heterograph(
        {
            ("user", "rates", "film"): (src, dst),
            ("film", "rated by", "user"): (dst[order], src[order]),
            ("user", "knows", "user"): ([0, 1], [1, 2]),
        },
        {"user": 20, "film": 30},
    )


def test_reverse_types_lose_the_same_edges() -> None:
    g = typed()
    train, val, test = RandomLinkSplit(0.2, 0.2, edge_types="rates", rev_edge_types="rated by")(g)
    for part in (train, val, test):
        back = {(v, u) for u, v in edges_of(part.graph, "rated by")}
        assert back == edges_of(part.graph, "rates") and part.graph.num_edges("knows") == 2
    assert not set(positives(test)) & edges_of(test.graph, "rates")


def test_several_types() -> None:
    g = typed()
    train, _, test = RandomLinkSplit(0.2, 0.2, edge_types=["rates", ("user", "knows", "user")])(g)
    assert set(train.src) == {("user", "rates", "film"), ("user", "knows", "user")}
    rates = ("user", "rates", "film")
    held_out = {
        pair for pair, y in zip(pairs_of(test.src[rates], test.dst[rates]), test.label[rates], strict=True) if y
    }
    assert held_out and not held_out & edges_of(test.graph, "rates")


LINK_MISTAKES: dict[str, tuple[Any, list[str]]] = {
    "too many": (lambda: RandomLinkSplit(0.5, 0.5)(directed()), ["leave 0 of 200", "num_val=0.5"]),
    "a number too large": (lambda: RandomLinkSplit(500, 0)(directed()), ["num_val=500", "up to 200"]),
    "a fraction above 1": (lambda: RandomLinkSplit(1.5, 0)(directed()), ["num_val=1.5"]),
    "one direction": (lambda: RandomLinkSplit(is_undirected=True)(directed()), ["no way back", "to_bidirected"]),
    "types": (lambda: RandomLinkSplit()(typed()), ["3 edge types", "rates"]),
    "an unknown type": (lambda: RandomLinkSplit(edge_types="likes")(typed()), ["'likes'", "rates"]),
    "a type that goes elsewhere": (
        lambda: RandomLinkSplit(edge_types="rates", rev_edge_types="knows")(typed()),
        ["knows", "does not go back"],
    ),
    "lengths": (lambda: RandomLinkSplit(edge_types=["a", "b"], rev_edge_types=["c"]), ["2 edge_types and 1"]),
    "an empty graph": (lambda: RandomLinkSplit()(dglite.graph(([], []), num_nodes=3)), ["leave 0 of 0"]),
    "no graph": (lambda: RandomLinkSplit()(torch.zeros(2, 3)), ["takes a graph"]),
    "a share": (lambda: RandomLinkSplit(disjoint_train_ratio=1.0), ["disjoint_train_ratio=1.0", "below 1"]),
}


@pytest.mark.parametrize("name", LINK_MISTAKES)
def test_errors_of_link_splits(name: str) -> None:
    call, words = LINK_MISTAKES[name]
    with pytest.raises(DGLError) as error:
        call()
    assert not [word for word in words if word not in str(error.value)], str(error.value)


# -- nodes ------------------------------------------------------------------------------------------------------------
def labelled() -> dglite.DGLGraph:
    g = dglite.rand_graph(100, 300)
    g.ndata["label"] = torch.arange(100) % 3
    return g


@pytest.mark.parametrize(
    ("split", "sizes"), [("train_rest", [70, 10, 20]), ("test_rest", [15, 10, 75]), ("random", [15, 10, 20])]
)
def test_masks(split: str, sizes: list[int]) -> None:
    g = RandomNodeSplit(split, num_train_per_class=5, num_val=10, num_test=0.2)(labelled())
    masks = [g.ndata[f"{part}_mask"] for part in ("train", "val", "test")]
    assert [int(mask.sum()) for mask in masks] == sizes and int((sum(mask.int() for mask in masks) > 1).sum()) == 0
    if split != "train_rest":
        assert torch.bincount(g.ndata["label"][masks[0]]).tolist() == [5, 5, 5]
    assert masks[0].dtype == torch.bool


def test_several_splits_and_graphs_without_labels() -> None:
    g = RandomNodeSplit(num_splits=4, num_val=0.1, num_test=0.1)(dglite.rand_graph(50, 50))
    assert g.ndata["val_mask"].shape == (50, 4) and g.ndata["val_mask"].sum(0).tolist() == [5] * 4
    assert not torch.equal(g.ndata["val_mask"][:, 0], g.ndata["val_mask"][:, 1])


def test_only_types_with_labels_get_masks() -> None:
    g = typed()
    g.nodes["film"].data["label"] = torch.zeros(30, dtype=torch.int64)
    split = RandomNodeSplit(num_val=5, num_test=5)(g)
    assert "train_mask" in split.nodes["film"].data and not split.nodes["user"].data and "train_mask" not in g.ndata


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: RandomNodeSplit()(labelled()), ["num_val=500", "up to 100"]),
        (lambda: RandomNodeSplit(num_val=60, num_test=60)(labelled()), ["more than the 100 nodes", "0.1"]),
        (lambda: RandomNodeSplit("test_rest")(dglite.rand_graph(5, 5)), ["'label'", "test_rest"]),
        (lambda: RandomNodeSplit("rest"), ["split='rest'", "train_rest"]),
    ],
)
def test_errors_of_node_splits(call: Any, words: list[str]) -> None:
    with pytest.raises(DGLError) as error:
        call()
    assert not [word for word in words if word not in str(error.value)], str(error.value)
