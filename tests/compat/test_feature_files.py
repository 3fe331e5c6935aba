"""Files of features in a part's folder, as DGL names them: written under the alias, read where they were replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

import dglite
from dglite import DGLError
from dglite.distributed import load_partition, load_partition_feats
from dglite.io import load_tensors, save_tensors


def _graph() -> dglite.DGLGraph:
    g = dglite.heterograph(
        {
            ("user", "buys", "item"): (torch.tensor([2, 0, 1, 3, 0]), torch.tensor([1, 1, 0, 2, 0])),
            ("item", "bought-by", "user"): (torch.tensor([0, 1, 2]), torch.tensor([3, 0, 1])),
        }
    )
    for ntype in g.ntypes:
        g.nodes[ntype].data["old"] = torch.arange(g.num_nodes(ntype))
    for etype in g.canonical_etypes:
        g.edges[etype].data["old"] = torch.arange(g.num_edges(etype))
    return g


def _replace(folder: Path, part: int, kind: str, tensors: dict[str, torch.Tensor]) -> None:
    save_tensors(folder / f"part{part}" / f"{kind}_feat.dgl", tensors)


def test_features_of_a_single_part_are_replaced_in_the_graphs_own_order(dgl_is_dglite, tmp_path) -> None:
    import dgl

    dgl.distributed.partition_graph(_graph(), "shop", 1, str(tmp_path))
    before = (tmp_path / "shop.json").read_text()
    files = {kind: load_tensors(tmp_path / "part0" / f"{kind}_feat.dgl") for kind in ("node", "edge")}
    assert files["edge"]["user:buys:item/old"].tolist() == [0, 1, 2, 3, 4]
    load_partition(tmp_path / "shop.json", 0)
    assert (tmp_path / "shop.json").read_text() == before  # nothing was replaced yet
    _replace(tmp_path, 0, "node", {**files["node"], "user/x": torch.arange(4.0)})
    _replace(tmp_path, 0, "edge", {"user:buys:item/w": torch.arange(5) * 10})
    nodes, edges = load_partition_feats(tmp_path / "shop.json", 0)
    assert nodes["user/x"].tolist() == nodes["user/old"].tolist() and list(edges) == ["user:buys:item/w"]
    g, *_ = load_partition(tmp_path / "shop.json", 0)
    src, dst = g.edges(etype="buys", order="eid")
    ends = {(int(u), int(v)): int(w) for u, v, w in zip(src, dst, edges["user:buys:item/w"], strict=True)}
    assert ends == {(2, 1): 0, (0, 1): 10, (1, 0): 20, (3, 2): 30, (0, 0): 40}
    graph = dgl.distributed.DistGraph("shop", part_config=str(tmp_path / "shop.json"))
    assert graph.nodes["user"].data["x"][[3, 1]].tolist() == [3.0, 1.0]


@pytest.mark.parametrize("kind", ["node", "edge"])
def test_features_of_several_parts_are_replaced(dgl_is_dglite, tmp_path, kind) -> None:
    import dgl

    g = _graph()
    owners = {"user": torch.tensor([0, 1, 0, 1]), "item": torch.tensor([1, 0, 0])}
    dgl.distributed.partition_graph(g, "shop", 2, str(tmp_path), part_method=owners)
    for part in range(2):
        tensors = load_tensors(tmp_path / f"part{part}" / f"{kind}_feat.dgl")
        _replace(tmp_path, part, kind, {key.replace("old", "x"): values * 2.0 for key, values in tensors.items()})
    for part in range(2):
        features = load_partition_feats(tmp_path / "shop.json", part)[kind == "edge"]
        graph, *_ = load_partition(tmp_path / "shop.json", part)
        assert {key.rpartition("/")[2] for key in features} == {"x"}
        if kind == "node":
            assert features["user/x"].tolist() == [2.0 * i for i in range(4) if owners["user"][i] == part]
        assert graph.num_nodes("user") >= 2


def test_files_that_do_not_fit_are_named(dgl_is_dglite, tmp_path) -> None:
    import dgl

    dgl.distributed.partition_graph(_graph(), "shop", 2, str(tmp_path), part_method="random")
    config = tmp_path / "shop.json"
    for tensors, match in (
        ({"user/x": torch.ones(9)}, r"part1/node_feat.dgl: 'user/x' has shape \(9,\); expected"),
        ({"shop/x": torch.ones(1)}, r"a feature 'shop/x'; expected 'type/name', with a type of \['item', 'user'\]"),
        ({}, "have different features"),
    ):
        _replace(tmp_path, 1, "node", tensors)
        with pytest.raises(DGLError, match=match):
            load_partition_feats(config, 1)
    os.remove(tmp_path / "part0" / "node_feat.dgl")
    with pytest.raises(DGLError, match=r"part0/node_feat.dgl'] do not exist, but the same files of other parts do"):
        load_partition_feats(config, 1)
    assert json.loads(config.read_text())["features"]["node"] == [["old"], ["old"]]
