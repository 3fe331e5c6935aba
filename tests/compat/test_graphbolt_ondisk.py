"""Data sets that ``preprocess_ondisk_dataset`` writes: read back, in GraphBolt's form, and written anew."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch
import yaml

from dglite import DGLError
from dglite.io.graphbolt_file import load_fused_graph
from tests.dataloading.graphs import shop
from tests.io.test_graphbolt_file import GROUPS, graphbolt_saves


@pytest.fixture
def gb(dgl_is_dglite):
    import dgl.graphbolt

    return dgl.graphbolt


def one_type(folder, **changes):
    """Write a data set of 5 nodes and 6 edges; the feature of edge i is i."""
    np.savetxt(folder / "edges.csv", [[4, 0], [0, 1], [1, 1], [2, 0], [3, 4], [0, 2]], "%d", ",")
    np.save(folder / "age.npy", np.arange(5.0))
    torch.save(torch.arange(6.0)[:, None], folder / "weight.pt")
    np.save(folder / "seeds.npy", np.array([3, 1]))
    torch.save(torch.tensor([1, 0]), folder / "labels.pt")
    described = {
        "dataset_name": "small",
        "graph": {"nodes": [{"num": 5}], "edges": [{"format": "csv", "path": "edges.csv"}]},
        "feature_data": [
            {"domain": "node", "name": "age", "format": "numpy", "path": "age.npy", "unit": "years"},
            {"domain": "edge", "name": "w", "format": "torch", "path": "weight.pt"},
        ],
        "tasks": [
            {
                "name": "classify",
                "num_classes": 2,
                "train_set": [
                    {
                        "data": [
                            {"name": "seeds", "format": "numpy", "path": "seeds.npy"},
                            {"name": "labels", "format": "torch", "path": "labels.pt"},
                        ]
                    }
                ],
            }
        ],
    }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(described | changes))


@pytest.mark.parametrize("with_ids", [False, True])
def test_what_is_written_is_what_was_described(gb, tmp_path, with_ids):
    one_type(tmp_path)
    before = gb.OnDiskDataset(tmp_path, with_ids).load()
    path = gb.preprocess_ondisk_dataset(tmp_path, with_ids)
    content = yaml.safe_load((tmp_path / "preprocessed" / "metadata.yaml").read_text())
    assert path == str(tmp_path / "preprocessed" / "metadata.yaml") and content["include_original_edge_id"] is with_ids
    assert "graph" not in content and content["graph_topology"]["type"] == "FusedCSCSamplingGraph"
    after = gb.OnDiskDataset(tmp_path, with_ids).load()
    assert after.yaml_data == content and after.dataset_name == "small"
    assert torch.equal(before.graph.indices, after.graph.indices.long()) and after.graph.indices.dtype == torch.int32
    assert after.graph.has_original_edge_ids is with_ids
    for name in ("age", "w"):
        domain = "node" if name == "age" else "edge"
        assert torch.equal(before.feature.read(domain, None, name), after.feature.read(domain, None, name))
    assert after.feature.metadata("node", None, "age") == {"unit": "years"}
    assert after.feature.size("node", None, "age") == torch.Size([1])  # GraphBolt's features have two dimensions
    (task,) = after.tasks
    seeds, labels = task.train_set[:]
    assert task.metadata == {"name": "classify", "num_classes": 2} and labels.tolist() == [1, 0]
    assert seeds.dtype == torch.int32 and seeds.tolist() == [3, 1] and task.test_set is None
    if with_ids:
        sample = after.graph.in_subgraph(torch.tensor([0], dtype=torch.int32))
        assert sorted(sample.original_edge_ids.tolist()) == [0, 3]
        assert after.feature.read("edge", None, "w", sample.original_edge_ids).flatten().tolist() == [0, 3]
    hashes = json.loads((tmp_path / "preprocessed" / "dataset_hash_value.txt").read_text())
    files = {str(x) for x in tmp_path.rglob("*") if x.is_file()}
    assert set(hashes) == files - {str(tmp_path / "preprocessed" / "dataset_hash_value.txt")}


def test_it_is_done_again_where_something_changed(gb, tmp_path):
    one_type(tmp_path)
    path = gb.preprocess_ondisk_dataset(tmp_path)
    graph = tmp_path / "preprocessed" / "fused_csc_sampling_graph.pt"
    written = graph.stat().st_mtime_ns
    assert gb.preprocess_ondisk_dataset(tmp_path) == path and graph.stat().st_mtime_ns == written
    np.save(tmp_path / "age.npy", np.arange(5.0) + 1)
    later = os.stat(tmp_path / "preprocessed" / "metadata.yaml").st_mtime + 10
    os.utime(tmp_path / "age.npy", (later, later))
    assert gb.OnDiskDataset(tmp_path).load().feature.read("node", None, "age").flatten().tolist() == [1, 2, 3, 4, 5]
    assert gb.preprocess_ondisk_dataset(tmp_path, force_preprocess=False) == path
    assert graph.stat().st_mtime_ns == written
    gb.preprocess_ondisk_dataset(tmp_path)
    assert graph.stat().st_mtime_ns > written
    assert gb.OnDiskDataset(tmp_path, include_original_edge_id=True).load().graph.has_original_edge_ids
    gb.OnDiskDataset(tmp_path, include_original_edge_id=True, force_preprocess=True)
    content = yaml.safe_load((tmp_path / "preprocessed" / "metadata.yaml").read_text())
    assert content["include_original_edge_id"] is True


def test_several_types_on_disk_and_in_columns(gb, tmp_path):
    g = shop()
    edges = {"user:buys:item": "buys", "user:follows:user": "follows", "item:bought:user": "bought"}
    for name in edges.values():
        np.save(tmp_path / f"{name}.npy", torch.stack(g.edges(etype=name)).numpy())
    np.save(tmp_path / "x.npy", np.arange(8.0).reshape(4, 2))
    described = {
        "graph": {
            "nodes": [{"type": "user", "num": 4}, {"type": "item", "num": 3}],
            "edges": [{"type": key, "format": "numpy", "path": f"{name}.npy"} for key, name in edges.items()],
        },
        "feature_data": [
            {"domain": "node", "type": "user", "name": "x", "format": "numpy", "path": "x.npy", "in_memory": False}
        ],
    }
    (tmp_path / "metadata.yaml").write_text(yaml.safe_dump(described))
    before = gb.OnDiskDataset(tmp_path).load()
    gb.preprocess_ondisk_dataset(tmp_path)
    after = gb.OnDiskDataset(tmp_path).load()
    assert after.graph.type_per_edge.dtype == torch.uint8 and after.graph.num_edges == before.graph.num_edges
    seeds = {"user": torch.arange(4, dtype=torch.int32), "item": torch.arange(3, dtype=torch.int32)}
    for etype, csc in after.graph.in_subgraph(seeds).sampled_csc.items():
        like = before.graph.in_subgraph(seeds).sampled_csc[etype]
        assert csc.indptr.tolist() == like.indptr.tolist() and csc.indices.tolist() == like.indices.tolist()
    assert isinstance(after.feature["node", "user", "x"], gb.DiskBasedFeature)


def test_a_folder_that_graphbolt_preprocessed(gb, tmp_path):
    (tmp_path / "preprocessed").mkdir()
    graphbolt_saves(tmp_path / "preprocessed" / "fused_csc_sampling_graph.pt", GROUPS)
    content = {
        "dataset_name": "theirs",
        "include_original_edge_id": False,
        "graph_topology": {
            "type": "FusedCSCSamplingGraph",
            "path": "preprocessed/fused_csc_sampling_graph.pt",
        },
    }
    (tmp_path / "preprocessed" / "metadata.yaml").write_text(yaml.safe_dump(content))
    graph = gb.OnDiskDataset(tmp_path).load().graph
    assert graph.num_nodes == {"a": 1, "b": 1} and graph.num_edges == {"b:r:a": 1, "b:s:b": 2}
    assert graph.edge_attribute("w").tolist() == [1, 2, 3]


def test_bad_files_are_named_and_nothing_is_written(gb, tmp_path):
    one_type(tmp_path)
    np.save(tmp_path / "age.npy", np.arange(4.0))
    with pytest.raises(DGLError, match=r"age.npy, which feature_data\[0\] in .* names, has 4 rows; expected 5"):
        gb.preprocess_ondisk_dataset(tmp_path)
    assert not (tmp_path / "preprocessed").exists()
    one_type(tmp_path)
    gb.preprocess_ondisk_dataset(tmp_path)
    (tmp_path / "preprocessed" / "fused_csc_sampling_graph.pt").write_bytes(b"PK\x03\x04")
    with pytest.raises(DGLError, match=r"fused_csc_sampling_graph.pt is not read"):
        gb.OnDiskDataset(tmp_path).load()
    one_type(tmp_path, tasks=[{"train_set": [{"data": [{"format": "numpy", "path": "no.npy"}]}]}])
    with pytest.raises(DGLError, match=r"no.npy does not exist, which data\[0\] in train_set\[0\] in tasks\[0\] in"):
        gb.preprocess_ondisk_dataset(tmp_path, force_preprocess=True)


@pytest.mark.parametrize(
    ("file", "values", "match"),
    [
        (
            "edges.npy",
            [[0, 9], [1, 2]],
            r"edges.npy, which edges\[0\] in graph in .* int64 from 0 to 9; .* 0 to 2",
        ),
        ("edges.npy", [[0, 1], [-1, 2]], r"edges\[0\] in graph .* from -1 to 2"),
        ("seeds.npy", [0, 7], r"seeds.npy, which data\[0\] in train_set\[0\] in tasks\[0\].* from 0 to 7; .* 0 to 2"),
        ("seeds.npy", [[0, 1], [1, 3]], r"data\[0\] in train_set\[0\].* from 1 to 3"),
        ("seeds.npy", [0.5, 1.0], r"data\[0\].*has float64"),
        ("labels.npy", [0, 1, 2], r"train_set\[0\] in .* has data \['seeds: 2 rows', 'labels: 3 rows'\]"),
        ("type", "user", r"data\[0\] in train_set\[0\] .* is of node type 'user'; the graph has \[None\]"),
        ("name", "labels", "each name once"),
        ("feature", "x", r"feature_data\[1\] in .* is the feature \('node', None, 'x'\), which another"),
    ],
)
def test_files_that_do_not_fit_each_other(gb, tmp_path, file, values, match):
    arrays = {"edges.npy": [[0, 1], [1, 2]], "seeds.npy": [0, 1], "labels.npy": [0, 1], "x.npy": [0, 1, 2]}
    if file in arrays:
        arrays[file] = values
    for name, content in arrays.items():
        np.save(tmp_path / name, np.array(content))
    data = [{"name": x, "format": "numpy", "path": f"{x}.npy"} for x in ("seeds", "labels")]
    data[0]["name"] = values if file == "name" else "seeds"
    feature = {"domain": "node", "name": "x", "format": "numpy", "path": "x.npy"}
    described = {
        "graph": {"nodes": [{"num": 3}], "edges": [{"format": "numpy", "path": "edges.npy"}]},
        "feature_data": [feature, {**feature, "name": values if file == "feature" else "y"}],
        "tasks": [{"train_set": [{"type": values if file == "type" else None, "data": data}]}],
    }
    (tmp_path / "metadata.yaml").write_text(yaml.safe_dump(described))
    with pytest.raises(DGLError, match=match):
        gb.OnDiskDataset(tmp_path).load()


def test_numbers_stay_as_they_are_if_asked(gb, tmp_path):
    one_type(tmp_path)
    gb.preprocess_ondisk_dataset(tmp_path, auto_cast_to_optimal_dtype=False)
    fields = load_fused_graph(tmp_path / "preprocessed" / "fused_csc_sampling_graph.pt")
    assert fields["csc_indptr"].dtype == fields["indices"].dtype == torch.int64
    assert gb.OnDiskDataset(tmp_path).load().tasks[0].train_set[:][0].dtype == torch.int64
