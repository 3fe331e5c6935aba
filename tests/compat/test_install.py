"""Code written for DGL runs on dglite by an alias."""

from __future__ import annotations

import importlib
import operator
import re
import sys
import textwrap
from pathlib import Path

import pytest
import scipy.sparse

import dglite
import dglite.compat.backend
import dglite.compat.utils
import dglite.contrib.sampling
from dglite.compat import install, uninstall
from tests import forked

SCRIPT = """
    import sys
    import dgl
    import dgl.function as fn
    import torch
    from dgl.base import NID, DGLError
    from dgl.nn.pytorch import GATConv, GraphConv
    from dgl.nn.pytorch.conv import SAGEConv

    g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])))
    g.ndata["h"] = torch.ones(3, 4)
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
    assert g.ndata["out"].sum() == 12
    assert GraphConv(4, 2)(g, g.ndata["h"]).shape == (3, 2)
    assert dgl.node_subgraph(g, [0, 1]).ndata[NID].tolist() == [0, 1]
    print(__name__, sys.argv)
"""


def test_a_script_runs_unmodified(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = forked.run(forked.module, "dglite.compat", str(script), "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["__main__", f"['{script}',", "'--epochs',", "'3']"]


def test_a_module_runs_unmodified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("import dgl\n")
    (tmp_path / "package" / "train.py").write_text(
        "import sys; from . import dgl; print(dgl.nn.GraphConv, sys.argv[1:])"
    )
    monkeypatch.chdir(tmp_path)
    done = forked.run(forked.module, "dglite.compat", "-m", "package.train", "--epochs", "3")
    assert done.stdout == "<class 'dglite.nn.conv.graphconv.GraphConv'> ['--epochs', '3']\n", done.stderr


@pytest.mark.parametrize("arguments", [[], ["-m"], ["no such file.py"]])
def test_the_command_line_says_what_is_wrong(arguments: list[str]) -> None:
    done = forked.run(forked.module, "dglite.compat", *arguments)
    assert done.returncode != 0 and ("usage" in done.stderr or "no such file.py" in done.stderr)


def test_names_are_those_of_dglite(dgl_is_dglite: None) -> None:
    import dgl
    import dgl.ops
    from dgl import DGLGraph, function

    assert DGLGraph is dglite.DGLGraph and function.copy_u is dglite.function.copy_u
    assert dgl.ops.u_mul_e_sum is dglite.ops.u_mul_e_sum and "graph" in dir(dgl)
    assert dglite.__spec__.name == "dglite"


@pytest.mark.parametrize(
    "code, why",
    [
        ("import dgl; dgl.no_such_thing", r"AttributeError: dglite has no dgl\.no_such_thing; docs/dgl_names"),
        ("from dgl import no_such_thing", r"ModuleNotFoundError: dglite has no dgl\.no_such_thing"),
        ("import dgl.distgnn", r"ModuleNotFoundError: dglite has no dgl\.distgnn: "),
        ("import dgl; dgl.distgnn.partition", r"AttributeError: dglite has no dgl\.distgnn: "),
        ("from dgl.distgnn import partition", r"ModuleNotFoundError: dglite has no dgl\.distgnn: "),
        ("from dgl.storages import TensorStorage", r"dglite has no dgl\.storages: features are tensors"),
        ("from dgl.nn.pytorch import CuGraphSAGEConv", r"has no dgl\.nn\.pytorch\.CuGraphSAGEConv: .*use SAGEConv"),
        ("from dgl.utils import pin_memory_inplace", r"has no dgl\.utils\.pin_memory_inplace: use torch"),
        ("from dgl.data.tu import NoDataset", r"dglite has no dgl\.data\.tu\.NoDataset: pass the files' content"),
        ("from dgl._ffi.function import _init_api", r"dglite has no dgl\._ffi\.function: there is no C\+\+ library"),
        ("from dgl.contrib import KVServer", r"dglite has no dgl\.contrib\.KVServer: .*dglite\.distributed"),
        ("from dgl.contrib.sampling import metapath_random_walk", r"use dgl\.sampling\.random_walk, which has the arg"),
        ("from dgl.data.rdf import AIFB", r"dglite has no dgl\.data\.rdf\.AIFB: use dgl\.data\.AIFBDataset"),
        ("import dgl.function.no_such_thing", r"ModuleNotFoundError: dglite has no dgl\.function\.no_such_thing"),
    ],
)
def test_what_is_missing_is_named(dgl_is_dglite: None, code: str, why: str) -> None:
    with pytest.raises((AttributeError, ImportError)) as caught:
        exec(code, {})
    assert re.search(why, f"{type(caught.value).__name__}: {caught.value}")


def test_a_missing_name_can_be_asked_for(dgl_is_dglite: None) -> None:
    import dgl

    assert not hasattr(dgl, "no_such_thing") and not hasattr(dgl, "distgnn")
    assert getattr(dgl.nn, "NoConv", None) is None


@pytest.mark.parametrize(
    "statement, same",
    [
        ("from dgl.nn.pytorch.conv.graphconv import GraphConv as x", "nn.GraphConv"),
        ("from dgl.nn.pytorch.explain.gnnexplainer import GNNExplainer as x", "nn.GNNExplainer"),
        ("from dgl.nn.pytorch.conv import GATConv as x", "nn.GATConv"),
        ("from dgl.nn.pytorch.softmax import edge_softmax as x", "ops.edge_softmax"),
        ("from dgl.nn import GraphConv as x", "nn.GraphConv"),
        ("from dgl.nn.pytorch.glob import SumPooling as x", "nn.SumPooling"),
        ("from dgl.nn import edge_softmax as x", "ops.edge_softmax"),
        ("from dgl.nn.pytorch.conv.graphconv import EdgeWeightNorm as x", "nn.EdgeWeightNorm"),
        ("from dgl.nn.pytorch.gt.biased_mha import BiasedMHA as x", "nn.BiasedMHA"),
        ("from dgl.nn.pytorch.gt import EGTLayer as x", "nn.EGTLayer"),
        ("from dgl.nn.pytorch.link.transe import TransE as x", "nn.TransE"),
        ("from dgl.nn.pytorch.factory import pairwise_squared_distance as x", "nn.pairwise_squared_distance"),
        ("from dgl.nn.pytorch.utils import Sequential as x", "nn.Sequential"),
        ("from dgl.nn.pytorch.sparse_emb import NodeEmbedding as x", "nn.NodeEmbedding"),
        ("from dgl.nn.pytorch.network_emb import DeepWalk as x", "nn.DeepWalk"),
        ("from dgl.optim import SparseAdam as x", "optim.SparseAdam"),
        ("from dgl.optim.pytorch.sparse_optim import SparseAdagrad as x", "optim.SparseAdagrad"),
        ("from dgl.geometry import farthest_point_sampler as x", "geometry.farthest_point_sampler"),
        ("from dgl.geometry.edge_coarsening import neighbor_matching as x", "geometry.neighbor_matching"),
        ("from dgl.transforms.functional import to_block as x", "to_block"),
        ("from dgl.transforms.module import GCNNorm as x", "transforms.GCNNorm"),
        ("from dgl.transform import add_self_loop as x", "add_self_loop"),
        ("from dgl.convert import to_homogeneous as x", "to_homogeneous"),
        ("from dgl.convert import graph as x", "graph"),
        ("from dgl.batch import unbatch as x", "unbatch"),
        ("from dgl.subgraph import node_subgraph as x", "node_subgraph"),
        ("from dgl.readout import sum_nodes as x", "sum_nodes"),
        ("from dgl.traversal import bfs_nodes_generator as x", "bfs_nodes_generator"),
        ("from dgl.propagate import prop_nodes as x", "prop_nodes"),
        ("from dgl.sampling.neighbor import sample_neighbors as x", "sampling.sample_neighbors"),
        ("from dgl.sampling import random_walk as x", "sampling.random_walk"),
        ("from dgl.ops.spmm import u_mul_e_sum as x", "ops.u_mul_e_sum"),
        ("from dgl.function.message import copy_u as x", "function.copy_u"),
        ("from dgl.heterograph import DGLGraph as x", "DGLGraph"),
        ("from dgl.udf import NodeBatch as x", "NodeBatch"),
        ("from dgl.sparse import spmatrix as x", "sparse.spmatrix"),
        ("from dgl.sparse.sparse_matrix import SparseMatrix as x", "sparse.SparseMatrix"),
        ("from dgl.data.karate import KarateClubDataset as x", "data.KarateClubDataset"),
        ("from dgl.data.citation_graph import load_cora as x", "data.CoraGraphDataset"),
        ("from dgl.data import citegrh; x = citegrh.load_pubmed", "data.PubmedGraphDataset"),
        ("from dgl.data.utils import load_graphs as x", "load_graphs"),
        ("from dgl.utils.internal import expand_as_pair as x", "compat.utils.expand_as_pair"),
        ("from dgl.random import seed as x", "seed"),
        ("import dgl; x = dgl.DGLHeteroGraph", "DGLGraph"),
        ("import dgl; x = dgl.nn.pytorch.conv.GraphConv", "nn.GraphConv"),
        ("import dgl; x = dgl.backend.gspmm", "compat.backend.gspmm"),
        ("import dgl; x = dgl.utils.expand_as_pair", "compat.utils.expand_as_pair"),
        ("import dgl; x = dgl.data.utils.Subset", "data.Subset"),
        ("from dgl.data.tree import SST as x", "data.SSTDataset"),
        ("import dgl.data.ppi; x = dgl.data.ppi.Subset", "data.Subset"),
        ("from dgl._ffi.base import DGLError as x", "DGLError"),
        ("import dgl; x = dgl.frame.zero_initializer", "compat.frame.zero_initializer"),
        ("from dgl.frame import Column as x", "compat.frame.Column"),
        ("from dgl.subgraph import DGLSubGraph as x", "DGLGraph"),
        ("from dgl.batched_graph import max_nodes as x", "max_nodes"),
        ("from dgl.contrib.sampling.sampler import NeighborSampler as x", "contrib.sampling.NeighborSampler"),
        ("from dgl.convert import hetero_from_relations as x", "hetero_from_relations"),
        ("from dgl.data.utils import _get_dgl_url as x", "compat.data._get_dgl_url"),
        ("import dgl.backend.pytorch as F; x = F.gspmm", "compat.backend.gspmm"),
        ("from dgl.nn.pytorch.conv.gatconv import edge_softmax as x", "ops.edge_softmax"),
        ("from dgl.nn.pytorch.conv.gatv2conv import DGLError as x", "DGLError"),
        ("from dgl.nn.pytorch.conv.cfconv import ShiftedSoftplus as x", "nn.conv.cfconv.ShiftedSoftplus"),
        ("from dgl.nn.pytorch.hetero import HeteroGraphConv as x", "nn.HeteroGraphConv"),
        ("from dgl.data.knowledge_graph import FB15k237Dataset as x", "data.FB15k237Dataset"),
        ("from dgl.data.citation_graph import CoraBinary as x", "data.CoraBinary"),
        ("from dgl.batch import batch_hetero as x", "batch_hetero"),
        ("from dgl.batched_heterograph import unbatch_hetero as x", "unbatch_hetero"),
        ("from dgl.transform import in_subgraph as x", "in_subgraph"),
        ("from dgl.transform import as_heterograph as x", "as_heterograph"),
        ("from dgl.sampling.pinsage import PinSAGESampler as x", "sampling.PinSAGESampler"),
    ],
)
def test_modules_are_where_dgl_has_them(dgl_is_dglite: None, statement: str, same: str) -> None:
    names: dict[str, object] = {}
    exec(statement, names)
    assert names["x"] is operator.attrgetter(same)(dglite)


@pytest.mark.parametrize(
    ("module", "name"), [("multiprocessing", "shared_tensor"), ("logging", "enable_verbose_logging")]
)
def test_modules_of_dgl_come_before_those_of_python_and_torch(dgl_is_dglite: None, module: str, name: str) -> None:
    dgl = importlib.import_module("dgl")
    assert hasattr(getattr(dgl, module), name)


def test_views_have_classes(dgl_is_dglite: None) -> None:
    from dgl.view import EdgeSpace, HeteroEdgeDataView, HeteroNodeDataView, HeteroNodeView, NodeSpace

    one = dglite.graph(([0], [1]))
    several = dglite.heterograph({("a", "x", "b"): ([0], [0]), ("b", "y", "a"): ([0], [0])})
    for data in (one.ndata, several.ndata, one.nodes[[0]].data, several.nodes["a"].data):
        assert isinstance(data, HeteroNodeDataView)
    assert isinstance(one.edata, HeteroEdgeDataView) and isinstance(several.edges["x"].data, HeteroEdgeDataView)
    assert isinstance(one.nodes, HeteroNodeView) and not isinstance({}, HeteroNodeDataView)
    assert isinstance(one.nodes[[0]], NodeSpace) and isinstance(one.edges[[0]], EdgeSpace)


@pytest.mark.parametrize("module", "tree tu ppi rdf knowledge_graph gindt gnn_benchmark gnn_benckmark minigc".split())
def test_modules_of_data_sets_can_be_imported(dgl_is_dglite: None, module: str) -> None:
    assert importlib.import_module(f"dgl.data.{module}").DGLDataset is dglite.data.DGLDataset


def test_helpers_of_citation_networks(dgl_is_dglite: None, tmp_path: Path) -> None:
    from dgl.data.citation_graph import _parse_index_file, _preprocess_features, _sample_mask

    (tmp_path / "index").write_text("3\n1\n")
    assert _parse_index_file(tmp_path / "index") == [3, 1] and _sample_mask([1], 2).tolist() == [0, 1]
    assert _preprocess_features(scipy.sparse.csr_matrix([[1, 3], [0, 0]])).tolist() == [[0.25, 0.75], [0, 0]]


def test_importing_a_module_leaves_the_function_of_its_name(dgl_is_dglite: None) -> None:
    import dgl
    import dgl.batch
    import dgl.ops.edge_softmax
    from dgl.merge import merge

    assert dgl.batch is dglite.batch and dgl.merge is merge and callable(dgl.ops.edge_softmax)
    assert sys.modules["dgl.batch"].unbatch is dglite.unbatch


def test_star_imports(dgl_is_dglite: None) -> None:
    names: dict[str, object] = {}
    exec("from dgl.nn.pytorch import *; from dgl.data.utils import *; from dgl import *", names)
    assert {"GraphConv", "split_dataset", "deprecate_property", "heterograph", "apply_each"} <= set(names)


def test_the_version_is_that_of_dgl(dgl_is_dglite: None) -> None:
    import dgl

    assert re.fullmatch(r"2\.\d+\.\d+", dgl.__version__) and dglite.__version__ != dgl.__version__


def test_other_backends_do_without_functions_of_torch(dgl_is_dglite: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dglite.backend, "name", "numpy")
    monkeypatch.delitem(sys.modules, "dglite.compat.backend")
    import dgl
    import dgl.ops

    assert dgl.graph is dglite.graph and dgl.ops.gspmm and not hasattr(dgl, "backend")
    with pytest.raises(ImportError, match=r"dglite runs on numpy; unset DGLITE_BACKEND"):
        from dgl import backend  # noqa: F401


def test_uninstall_gives_the_name_back() -> None:
    install()
    install()
    uninstall()
    assert not any(type(finder).__module__ == "dglite.compat" for finder in sys.meta_path)


def test_code_and_commands_run_unmodified(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import dgl\ndef test_it(): assert dgl.graph(([0], [1])).num_edges() == 1\n")
    programs = [
        (["-c", "import dgl, sys; print(dgl.nn.GraphConv.__module__, sys.argv)", "x"], "graphconv ['-c', 'x']"),
        (["pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)], "1 passed"),
    ]
    for program, words in programs:
        done = forked.run(forked.module, "dglite.compat", *program)
        assert words in done.stdout, done.stderr
    done = forked.run(forked.module, "dglite.compat", "nothing")
    assert "no installed Python command nothing" in done.stderr
