"""``dgl.graphbolt`` as its documentation shows it: modules, objects as text, errors by class, files of data sets."""

from __future__ import annotations

import importlib
import textwrap

import numpy as np
import pytest
import torch

from dglite import DGLError


@pytest.fixture
def gb(dgl_is_dglite):
    import dgl.graphbolt

    return dgl.graphbolt


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("graphbolt.base", "etype_str_to_tuple"),
        ("graphbolt.subgraph_sampler", "SubgraphSampler"),
        ("graphbolt.minibatch_transformer", "MiniBatchTransformer"),
        ("graphbolt.internal_utils", "gb_warning"),
        ("graphbolt.impl", "NeighborSampler"),
        ("graphbolt.impl.ondisk_metadata", "OnDiskFeatureDataFormat"),
        ("graphbolt.impl.ondisk_dataset", "preprocess_ondisk_dataset"),
        ("graphbolt.impl.fused_csc_sampling_graph", "fused_csc_sampling_graph"),
        ("graphbolt.internal.utils", "calculate_dir_hash"),
        ("graphbolt.internal.sample_utils", "unique_and_compact"),
        ("graphbolt.datapipes.utils", "find_dps"),
        ("distributed.optim.pytorch.sparse_optim", "SparseAdam"),
        ("distributed.nn.pytorch", "DistEmbedding"),
    ],
)
def test_modules_have_the_places_of_dgls(dgl_is_dglite, module, name):
    assert getattr(importlib.import_module(f"dgl.{module}"), name) is not None


def test_objects_as_text(gb, tmp_path):
    items = gb.ItemSet((torch.arange(2), torch.arange(2, 4)), names=("seeds", "labels"))
    text = "ItemSet(\n    items=(tensor([0, 1]), tensor([2, 3])),\n    names=('seeds', 'labels'),\n)"
    assert repr(items) == text
    inner = textwrap.indent(text, " " * 13).strip()
    expected = f"HeteroItemSet(\n    itemsets={{'user': {inner}}},\n    names=('seeds', 'labels'),\n)"
    assert repr(gb.HeteroItemSet({"user": items})) == expected
    feature = gb.TorchBasedFeature(torch.tensor([[1, 2], [3, 4]]), metadata={"a": 1})
    text = "TorchBasedFeature(\n    feature=tensor([[1, 2],\n                    [3, 4]]),\n    metadata={'a': 1},\n)"
    assert repr(feature) == text
    store = gb.BasicFeatureStore({("node", None, "x"): feature})
    inner = text.replace("\n", "\n    ")
    assert repr(store) == f"BasicFeatureStore(\n    {{('node', None, 'x'): {inner}}}\n)"
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    assert repr(gb.DiskBasedFeature(tmp_path / "x.npy")).endswith("shape=(3, 2),\n)")
    task = gb.OnDiskTask({"name": "t"}, gb.ItemSet(2), None, None)
    assert repr(task).startswith("OnDiskTask(metadata={'name': 't'},\n           train_set=ItemSet(\n")


def test_layers_of_pyg_have_edge_types_as_strings(gb):
    subgraph = gb.SampledSubgraphImpl(
        sampled_csc={"A:r:B": gb.CSCFormatBase(torch.tensor([0, 1, 3]), torch.tensor([2, 0, 1]))},
        original_column_node_ids={"B": torch.tensor([7, 8])},
        original_row_node_ids={"A": torch.tensor([4, 5, 6]), "B": torch.tensor([7, 8])},
    )
    (x, x_dst), edge_index, size = subgraph.to_pyg({"A": torch.ones(3, 1), "B": torch.ones(2, 1)})
    assert edge_index["A:r:B"].tolist() == [[2, 0, 1], [0, 1, 1]] and size == {"A:r:B": (3, 2)}
    assert len(x["A"]) == 3 and len(x_dst["B"]) == 2


def test_errors_are_of_graphbolts_classes_too(gb, tmp_path):
    graph = gb.fused_csc_sampling_graph(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 0]))
    feature = gb.TorchBasedFeature(torch.ones(2, 3))
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    both = gb.ItemSet(2, names="a"), gb.ItemSet(2, names="b")
    for kind, call in (
        (AssertionError, lambda: gb.ItemSet(torch.arange(2), names=("a", "b"))),
        (AssertionError, lambda: gb.ItemSet((torch.arange(2), torch.arange(3)))),
        (AssertionError, lambda: gb.HeteroItemSet(dict(zip("ab", both, strict=True)))),
        (AssertionError, lambda: graph.sample_neighbors(torch.tensor([0]), torch.tensor([-2]))),
        (AssertionError, lambda: graph.sample_neighbors(torch.tensor([0]), torch.tensor([1, 2]))),
        (AssertionError, lambda: gb.fused_csc_sampling_graph(torch.tensor([0, 2]), torch.tensor([0]))),
        (AssertionError, lambda: feature.update(torch.ones(3, 3), ids=torch.tensor([0]))),
        (IndexError, lambda: feature.read(torch.tensor([2]))),
        (NotImplementedError, lambda: gb.DiskBasedFeature(tmp_path / "x.npy").update(torch.ones(3, 2))),
        (ValueError, lambda: gb.OnDiskFeatureData(domain="node", name="x", format="csv", path="x")),
    ):
        with pytest.raises(kind) as raised:
            call()
        assert isinstance(raised.value, DGLError)
    for index in ("a", 1.5, None):
        for items in (both[0], gb.HeteroItemSet({"user": both[0]})):
            with pytest.raises(TypeError, match="an integer, a slice or a list of integers"):
                items[index]


def test_files_of_data_sets(gb, tmp_path):
    from dgl.graphbolt import internal

    for fmt, values in (("torch", torch.arange(6).reshape(3, 2)), ("numpy", torch.arange(4))):
        path = tmp_path / "data" / f"x.{fmt}.npy"
        internal.save_data(values, path, fmt)
        assert torch.equal(internal.read_data(path, fmt), values)
        internal.copy_or_convert_data(path, tmp_path / "y.npy", fmt, is_feature=True, within_int32=True)
        converted = np.load(tmp_path / "y.npy")
        assert converted.dtype == np.int32 and converted.ndim == 2 == internal.get_npy_dim(tmp_path / "y.npy")
    assert internal.read_data(tmp_path / "y.npy", "numpy", in_memory=False).tolist() == [[0], [1], [2], [3]]
    np.save(tmp_path / "e.npy", np.array([[0, 1], [2, 3]]))
    (tmp_path / "e.csv").write_text("0,2\n1,3\n")
    for fmt, name in (("numpy", "e.npy"), ("csv", "e.csv")):
        src, dst = internal.read_edges(tmp_path, fmt, name)
        assert src.tolist() == [0, 1] and dst.tolist() == [2, 3]
    hashes = internal.calculate_dir_hash(str(tmp_path), ignore=["e.csv"])
    assert str(tmp_path / "e.npy") in hashes and str(tmp_path / "e.csv") not in hashes
    assert internal.check_dataset_change(tmp_path, "preprocessed")
    for call in (
        lambda: internal.read_data(tmp_path / "e.csv", "csv"),
        lambda: internal.save_data(torch.ones(1), tmp_path / "z", "csv"),
        lambda: internal.read_edges(tmp_path, "parquet", "e.npy"),
        lambda: internal.copy_or_convert_data(tmp_path / "e.npy", tmp_path / "z", "numpy", "torch"),
    ):
        with pytest.raises(AssertionError, match="expected 'numpy'"):
            call()


def test_a_share_without_items_has_no_batches(gb, monkeypatch):
    from dglite.dataloading.order import Share

    monkeypatch.setattr(Share, "of_this_process", classmethod(lambda cls, seed: cls(1, 2)))
    sampler = gb.DistributedItemSampler(gb.ItemSet(5, names="seeds"), 8, shuffle=True)
    loader = gb.DataLoader(sampler)
    assert list(loader) == [] and len(loader) == 0
