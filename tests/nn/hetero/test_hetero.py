"""Layers over several types."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import dglite
from dglite import DGLGraph
from dglite.errors import DGLError
from dglite.nn import GraphConv, HeteroEmbedding, HeteroGraphConv, HeteroLinear, SAGEConv, TypedLinear

FOLLOWS, BUYS, SELLS = ("user", "follows", "user"), ("user", "buys", "item"), ("shop", "sells", "item")


def shop() -> DGLGraph:
    edges = {FOLLOWS: ([0, 1], [1, 2]), BUYS: ([0, 0, 2], [0, 1, 1]), SELLS: ([0], [1])}
    return dglite.heterograph(edges, {"user": 3, "item": 2, "shop": 1})


def features() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {ntype: torch.randn(n, 4) for ntype, n in (("user", 3), ("item", 2), ("shop", 1))}


def layers() -> dict[str, torch.nn.Module]:
    torch.manual_seed(1)
    return {"follows": SAGEConv(4, 2, "mean"), "buys": SAGEConv(4, 2, "mean"), "sells": SAGEConv(4, 2, "mean")}


AGGREGATES = {
    "sum": lambda xs: torch.stack(xs).sum(0),
    "mean": lambda xs: torch.stack(xs).mean(0),
    "max": lambda xs: torch.stack(xs).max(0).values,
    "min": lambda xs: torch.stack(xs).min(0).values,
    "stack": lambda xs: torch.stack(xs, 1),
}


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_each_relation_has_its_layer(aggregate: str) -> None:
    g, x, mods = shop(), features(), layers()
    result = HeteroGraphConv(mods, aggregate)(g, x)
    parts = {e: mods[e[1]](g[e], (x[e[0]], x[e[2]])) for e in (FOLLOWS, BUYS, SELLS)}
    torch.testing.assert_close(result["user"], AGGREGATES[aggregate]([parts[FOLLOWS]]))
    arriving = [parts[etype] for etype in g.canonical_etypes if etype[2] == "item"]
    torch.testing.assert_close(result["item"], AGGREGATES[aggregate](arriving))
    assert set(result) == {"user", "item"}


def test_a_function_aggregates() -> None:
    seen = []

    def first(xs: list[torch.Tensor], ntype: str) -> torch.Tensor:
        seen.append(ntype)
        return xs[0]

    HeteroGraphConv(layers(), first)(shop(), features())
    assert sorted(seen) == ["item", "user"]


def test_canonical_types_arguments_and_missing_sources() -> None:
    g, x = shop(), features()
    mods = {FOLLOWS: GraphConv(4, 2), "buys": GraphConv(4, 2), "sells": GraphConv(4, 2)}
    conv = HeteroGraphConv(mods)  # nodes that no edge enters are allowed from here on
    assert conv.mod_dict[FOLLOWS] is mods[FOLLOWS]
    weight = torch.tensor([2.0, 3.0])
    result = conv(g, {"user": x["user"], "item": x["item"]}, mod_kwargs={"follows": {"edge_weight": weight}})
    torch.testing.assert_close(result["user"], mods[FOLLOWS](g[FOLLOWS], x["user"], edge_weight=weight))
    torch.testing.assert_close(result["item"], mods["buys"](g[BUYS], (x["user"], x["item"])))


def test_blocks_take_the_first_rows() -> None:
    g, x, conv = shop(), features(), HeteroGraphConv(layers())
    block = dglite.to_block(g, {"item": torch.tensor([1, 0])})
    sources = {ntype: x[ntype][block.srcdata[dglite.NID][ntype]] for ntype in block.srctypes}
    torch.testing.assert_close(conv(block, sources)["item"], conv(g, x)["item"][[1, 0]])


def test_copies_compute_the_same() -> None:
    g, x, conv = shop(), features(), HeteroGraphConv(layers(), "max")
    assert set(conv.state_dict()) == {f"mods.{name}.{key}" for name, m in layers().items() for key in m.state_dict()}
    for other in (copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        torch.testing.assert_close(other(g, x), conv(g, x))


def test_what_is_missing_is_named() -> None:
    g, x = shop(), features()
    with pytest.raises(DGLError, match="aggregate='last' is not known; expected one of sum"):
        HeteroGraphConv(layers(), "last")
    with pytest.raises(KeyError, match=r"no layer for the edge type .*sells"):
        HeteroGraphConv({"follows": layers()["follows"], "buys": layers()["buys"]})(g, x)
    with pytest.raises(KeyError, match="no features of 'item'"):
        HeteroGraphConv(layers())(g, {"user": x["user"]})


def test_linear_and_embedding_by_type() -> None:
    sizes = {"user": 2, FOLLOWS: 3}
    linear, table = HeteroLinear(sizes, 5), HeteroEmbedding(sizes, 4)
    assert set(linear.state_dict()) == {f"linears.{key}.{name}" for key in sizes for name in ("weight", "bias")}
    x = {key: torch.randn(6, size) for key, size in sizes.items()}
    for key, actual in linear(x).items():
        torch.testing.assert_close(actual, linear.linears[str(key)](x[key]))
    assert set(table.weight) == set(sizes)
    ids = {FOLLOWS: torch.tensor([2, 0])}
    torch.testing.assert_close(table(ids)[FOLLOWS], table.weight[FOLLOWS][[2, 0]])
    with pytest.raises(DGLError, match="no layer for 'item'; it has user"):
        linear({"item": torch.ones(1, 2)})
    with pytest.raises(DGLError, match="no table for 'item'"):
        table({"item": torch.tensor([0])})


@pytest.mark.parametrize("regularizer", [None, "basis", "bdd"])
def test_typed_linear(regularizer: str | None) -> None:
    torch.manual_seed(0)
    layer = TypedLinear(4, 6, 3, regularizer, None if regularizer is None else 2).double()
    x, types = torch.randn(7, 4, dtype=torch.float64), torch.tensor([2, 0, 0, 1, 2, 2, 0])
    order = torch.argsort(types, stable=True)
    matrices = layer.get_weight()
    if regularizer == "bdd":
        matrices = torch.stack([torch.block_diag(*blocks.reshape(2, 2, 3)) for blocks in matrices])
    expected = torch.einsum("ni,nio->no", x, matrices[types])
    torch.testing.assert_close(layer(x, types), expected)
    torch.testing.assert_close(layer(x[order], types[order], sorted_by_type=True), expected[order])
    assert ("num_bases=2" in repr(layer)) == (regularizer is not None)
    with pytest.raises(DGLError, match="TypedLinear: x has shape"):
        layer(x[:, :3], types)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((4, 6, 3, "other", 2), "regularizer='other' is not known"),
        ((4, 6, 3, "basis"), "needs num_bases"),
        ((4, 6, 3, "bdd", 4), "must divide in_size=4 and out_size=6"),
    ],
)
def test_typed_linears_that_cannot_be(arguments: tuple, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        TypedLinear(*arguments)


@pytest.mark.parametrize("name", ["items", "type", "training", "forward", "a.b", "", "type:a%2Eb"])
def test_types_have_any_name(name: str) -> None:
    g = dglite.heterograph({(name, name, "v"): ([0, 1], [1, 0]), ("v", "back", name): ([0], [1])})
    x = {name: torch.ones(2, 3), "v": torch.ones(2, 3)}
    layer = HeteroGraphConv({name: GraphConv(3, 2), ("v", "back", name): GraphConv(3, 2)})
    assert layer(g, x).keys() == {name, "v"} and list(layer.mod_dict) == [name, ("v", "back", name)]
    assert HeteroLinear({name: 3, "a.b": 3, "ab": 3}, 2)({name: x[name]})[name].shape == (2, 2)
    embedding = HeteroEmbedding({name: 3, "other": 4}, 2)
    assert list(embedding.weight) == [name, "other"] and embedding({name: torch.tensor([0])})[name].shape == (1, 2)
