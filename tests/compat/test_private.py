"""Names that DGL does not document, and that code written for it reads all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch

import dglite
from dglite import DGLError
from tests.data import test_published
from tests.forked import Started

pytestmark = pytest.mark.usefixtures("dgl_is_dglite")
FOLLOWS, PLAYS, WATCHES = ("user", "follows", "user"), ("user", "plays", "game"), ("user", "plays", "film")


def test_attributes_of_graphs() -> None:
    g = dglite.heterograph({PLAYS: ([0], [1]), FOLLOWS: ([0], [1]), WATCHES: ([0], [0])}).int()
    assert g._etype2canonical == {"follows": FOLLOWS, "plays": ()}
    assert g._canonical_etypes == g.canonical_etypes and g._ntypes == g.ntypes and g._etypes == g.etypes
    assert all(g.canonical_etypes[i] == etype for etype, i in g._etypes_invmap.items()) and len(g._etypes_invmap) == 3
    assert g._srctypes_invmap == {ntype: g.ntypes.index(ntype) for ntype in g.srctypes}
    assert g._idtype_str == "int32" and g._is_unibipartite is False
    assert not hasattr(g, "_absent")
    block = dglite.to_block(dglite.graph(([0], [1])), [1])
    assert block._srctypes_invmap == {"_N": 0} and block._dsttypes_invmap == {"_N": 1}


def test_frames_and_batch_sizes_of_graphs() -> None:
    g = dglite.heterograph({PLAYS: ([0], [1]), FOLLOWS: ([0], [1])})
    assert g._batch_num_nodes is None and g._batch_num_edges is None
    batched = dglite.batch([g, g])
    batched.nodes["user"].data["h"] = torch.ones(4, 1)
    assert {ntype: count.tolist() for ntype, count in batched._batch_num_nodes.items()} == {
        "game": [2, 2],
        "user": [2, 2],
    }
    assert batched._batch_num_edges[PLAYS].tolist() == [1, 1]
    assert [list(frame) for frame in batched._node_frames] == [[], ["h"]] and len(batched._edge_frames) == 2


def test_the_structure_is_what_operations_take() -> None:
    import dgl

    g = dgl.graph(([0, 1], [1, 2]))
    assert g._graph.num_nodes() == 3
    assert dgl.backend.edge_softmax(g._graph, torch.zeros(2, 1)).flatten().tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_the_structure_has_types_by_number(dtype: torch.dtype) -> None:
    edges = {PLAYS: ([0, 0, 1], [1, 1, 0]), FOLLOWS: ([2, 1], [0, 2]), WATCHES: ([], [])}
    num_nodes = {"user": 3, "game": 2, "film": 1}
    g = dglite.heterograph({etype: (torch.tensor(u), torch.tensor(v)) for etype, (u, v) in edges.items()}, num_nodes)
    g = g.to(torch.device("cpu")).astype(dtype)
    index = g._graph
    assert (index.number_of_ntypes(), index.number_of_etypes()) == (3, 3)
    assert [index.number_of_nodes(i) for i in range(3)] == [g.num_nodes(ntype) for ntype in g.ntypes]
    assert (index.dtype, index.nbits) == (str(dtype).removeprefix("torch."), 32 if dtype == torch.int32 else 64)
    for i, etype in enumerate(g.canonical_etypes):
        src, dst = map(torch.tensor, edges[etype])
        src_id, dst_id = index.metagraph.find_edge(i)
        assert (g.ntypes[src_id], g.ntypes[dst_id]) == (etype[0], etype[2])
        assert index.number_of_edges(i) == index.num_edges(i) == len(src)
        us, vs, ids = index.edges(i, "eid")
        assert us.tolist() == src.tolist() and vs.tolist() == dst.tolist() and us.dtype == ids.dtype == dtype
        degrees = torch.bincount(dst.long(), minlength=num_nodes[etype[2]])
        assert index.in_degrees(i, torch.arange(len(degrees))).tolist() == degrees.tolist()
        assert index.out_degrees(i).tolist() == torch.bincount(src.long(), minlength=num_nodes[etype[0]]).tolist()
        assert index.get_relation_graph(i).number_of_edges(0) == len(src)
        assert index.adjacency_matrix_scipy(i, False, "coo").shape == (num_nodes[etype[0]], num_nodes[etype[2]])
    assert index.metagraph.edges("eid")[2].tolist() == [0, 1, 2]
    plays = g.canonical_etypes.index(PLAYS)
    assert [x.tolist() for x in index.in_edges(plays, torch.tensor([1]))] == [[0, 0], [1, 1], [0, 1]]
    assert [x.tolist() for x in index.out_edges(plays, torch.tensor([1]))] == [[1], [0], [2]]
    assert [x.tolist() for x in index.find_edges(plays, torch.tensor([2]))] == [[1], [0], [2]]
    assert index.edge_ids_all(plays, torch.tensor([0]), torch.tensor([1]))[2].tolist() == [0, 1]
    assert index.edge_ids_one(plays, torch.tensor([1]), torch.tensor([0])).tolist() == [2]
    assert index.has_edges_between(plays, torch.tensor([0, 1]), torch.tensor([0, 0])).tolist() == [False, True]
    assert index.predecessors(plays, 0).tolist() == [1] and index.successors(plays, 0).tolist() == [1, 1]
    assert index.has_nodes(0, torch.tensor([0, 9])).tolist() == [True, False]
    assert index.is_multigraph() and not index.get_relation_graph(g.canonical_etypes.index(FOLLOWS)).is_multigraph()
    assert index.asbits(32).dtype == "int32" and g.idtype == dtype


def test_the_structure_of_a_block_counts_both_sides() -> None:
    index = dglite.to_block(dglite.graph(([0, 1], [2, 2]), num_nodes=4), [2])._graph
    assert (index.number_of_ntypes(), index.number_of_nodes(0), index.number_of_nodes(1)) == (2, 3, 1)
    assert index.metagraph.find_edge(0) == (0, 1) and index.is_metagraph_unibipartite()


def test_the_structure_does_not_follow_a_change_of_its_graph() -> None:
    g = dglite.graph(([0], [1]))
    index = g._graph
    g.add_edges([1], [0])
    assert (index.number_of_edges(0), g._graph.number_of_edges(0)) == (1, 2)


def test_features_of_types_by_number() -> None:
    g = dglite.heterograph({PLAYS: ([0, 1], [1, 0]), FOLLOWS: ([0, 2], [1, 0])})
    user, plays = g.ntypes.index("user"), g.canonical_etypes.index(PLAYS)
    g._set_n_repr(user, dglite.ALL, {"h": torch.zeros(3)})
    g._set_n_repr(user, [1], {"h": torch.ones(1)})
    g._set_e_repr(plays, ([1], [0]), {"w": torch.ones(1)})
    assert g.nodes["user"].data["h"].tolist() == [0, 1, 0] and g.edges[PLAYS].data["w"].tolist() == [0, 1]
    assert g._get_n_repr(user, torch.tensor([1, 2]))["h"].tolist() == [1, 0]
    assert g._get_e_repr(plays, dglite.ALL)["w"].tolist() == [0, 1]
    assert g._pop_n_repr(user, "h").tolist() == [0, 1, 0] and g._pop_e_repr(plays, "w").tolist() == [0, 1]
    assert not g.nodes["user"].data and not g.edges[PLAYS].data


@pytest.mark.parametrize(
    ("content", "nodes", "edges"),
    [
        (None, 0, 0),
        ([(0, 1), (1, 2)], 3, 2),
        (scipy.sparse.eye(3).tocsr(), 3, 3),
        (networkx.path_graph(3), 3, 4),
    ],
)
def test_graph_indices(content: Any, nodes: int, edges: int) -> None:
    from dgl.graph_index import create_graph_index

    result = create_graph_index(content)
    assert (result.num_nodes(), result.num_edges()) == (nodes, edges) and create_graph_index(result, True) is result
    with pytest.raises(DGLError, match="readonly=False"):
        create_graph_index(None, True)


def test_nodes_in_another_order() -> None:
    from dgl.partition import reorder_nodes

    g = dglite.graph(([0, 1, 2, 2], [1, 2, 0, 2])).int()
    result = reorder_nodes(g, torch.tensor([2, 0, 1]))
    assert [ends.tolist() for ends in result.edges()] == [[2, 0, 1, 1], [0, 1, 2, 1]] and result.idtype == g.idtype
    assert result.ndata["orig_id"].tolist() == [1, 2, 0]
    for ids in ([0, 0, 1], [0, 1], [0, 1, 3]):
        with pytest.raises(DGLError, match="no permutation of the 3 nodes"):
            reorder_nodes(g, ids)


def test_the_default_backend_is_written(tmp_path: Path) -> None:
    import dgl

    dgl.backend.set_default_backend(tmp_path / "new", "PyTorch")
    assert json.loads((tmp_path / "new" / "config.json").read_text()) == {"backend": "pytorch"}


def test_gradients_with_one_number() -> None:
    from dgl import backend as F

    for shape in ((), (1,)):
        x = torch.ones(2, requires_grad=True)
        F.backward(x.sum().reshape(shape), torch.tensor([3.0]))
        assert x.grad is not None and x.grad.tolist() == [3, 3]


def test_helpers_of_tu_sets(tmp_path: Path) -> None:
    from dgl.data import LegacyTUDataset

    test_published.tu(tmp_path)
    tu = LegacyTUDataset("X", raw_dir=tmp_path)
    assert Path(tu._file_path("A")).is_file() and Path(tu._file_path("A")).name == "X_A.txt"
    assert tu._idx_from_zero(np.array([3, 5])).tolist() == [0, 2]
    assert tu._to_onehot(np.array([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_shared_memory_by_name() -> None:
    import dgl
    from dgl.utils.shared_mem import create_shared_mem_array, get_shared_mem_array

    x = create_shared_mem_array("private", (2, 2), torch.int64)
    get_shared_mem_array("private", (2, 2), torch.int64)[1] = 5
    assert x.tolist() == [[0, 0], [5, 5]] and dgl.ndarray.exist_shared_mem_array("private")


def share(rank: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    from dglite.compat.processes import call_once_and_share, shared_tensor

    x = shared_tensor((2, 3))
    x[rank] = rank + 1
    torch.distributed.barrier()
    assert x.tolist() == [[1] * 3, [2] * 3]
    assert call_once_and_share(lambda: torch.tensor([4, 5]), (2,), torch.int64, 1).tolist() == [4, 5]
    with pytest.raises((DGLError, ZeroDivisionError), match=r"rank 0 could not make|division"):
        call_once_and_share(lambda: 1 // 0, (2,), torch.int64)
    torch.distributed.destroy_process_group()


def test_tensors_of_a_group(tmp_path: Path) -> None:
    ranks = [Started(tmp_path, f"rank{i}", share, i, str(tmp_path)) for i in range(2)]
    results = [rank.wait() for rank in ranks]
    assert [rank.returncode for rank in results] == [0, 0], results
