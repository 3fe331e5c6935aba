"""``dgl.utils``: pairs of features, checks, ids and containers."""

from __future__ import annotations

import pickle

import pytest
import torch

import dglite
from dglite.compat import utils
from dglite.compat.ndarray import array
from dglite.errors import DGLError


@pytest.fixture
def block() -> dglite.DGLGraph:
    return dglite.create_block(([0, 1, 2], [0, 1, 1]), 3, 2)


def test_pairs_of_features(block: dglite.DGLGraph) -> None:
    x, y = torch.arange(6.0).reshape(3, 2), torch.ones(2, 2)
    assert utils.expand_as_pair((x, y)) == (x, y) and utils.expand_as_pair((x, y), block) == (x, y)
    assert utils.expand_as_pair(x)[1] is x and utils.expand_as_pair(x, dglite.graph(([0], [1])))[1] is x
    src, dst = utils.expand_as_pair(x, block)
    assert src is x and dst.tolist() == x[:2].tolist()
    typed = dglite.create_block({("a", "r", "b"): ([0], [0])}, {"a": 2, "b": 1}, {"a": 1, "b": 1})
    src, dst = utils.expand_as_pair({"a": x[:2], "b": x[:1]}, typed)
    assert len(src["a"]) == 2 and len(dst["a"]) == 1
    utils.check_eq_shape((x, y))
    with pytest.raises(DGLError, match=r"\(2,\).*\(1,\)"):
        utils.check_eq_shape((x, y[:, :1]))


@pytest.mark.parametrize("ids", [[1, 0], (1, 0), torch.tensor([1, 0], dtype=torch.int32)])
def test_ids_for_a_graph(ids) -> None:
    g = dglite.graph(([0, 1], [1, 0])).int()
    result = utils.prepare_tensor(g, ids, "nodes")
    assert result.tolist() == [1, 0] and result.dtype is torch.int32
    assert utils.prepare_tensor_or_dict(g, {"a": ids}, "nodes")["a"].tolist() == [1, 0]


def test_one_id_and_none() -> None:
    g = dglite.graph(([0, 1], [1, 0]))
    assert utils.prepare_tensor(g, 1, "v").tolist() == [1] and utils.prepare_tensor(g, [], "v").dtype is torch.int64
    assert utils.parse_edges_arg_to_eid(g, ([1], [0]), 0).tolist() == [1]
    assert utils.parse_edges_arg_to_eid(g, [0], 0).tolist() == [0]


@pytest.mark.parametrize(
    "ids, message",
    [
        (torch.tensor([1], dtype=torch.int32), "torch.int32; the graph's ids are torch.int64"),
        ([0.5], "must be integers"),
        ([[1]], "one-dimensional"),
        (torch.zeros(1, dtype=torch.int64, device="meta"), "is on meta"),
    ],
)
def test_wrong_ids_are_refused(ids, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        utils.prepare_tensor(dglite.graph(([0], [1])), ids, "v")


@pytest.mark.parametrize(
    "src, dst, expected",
    [
        ([0, 0, 1, 3], [1, 2, 0, 0], (True, True)),
        ([0, 0, 1], [2, 1, 0], (True, False)),
        ([1, 0], [0, 1], (False, False)),
        ([], [], (True, True)),
        ([2, 2], [1, 1], (True, True)),
    ],
)
def test_order_of_edges(src: list[int], dst: list[int], expected: tuple[bool, bool]) -> None:
    ends = torch.tensor(src, dtype=torch.int64), torch.tensor(dst, dtype=torch.int64)
    assert utils.is_sorted_srcdst(*ends) == utils.is_sorted_srcdst(*ends, 4, 4) == expected


def test_checks_of_several() -> None:
    g = dglite.graph(([0], [1]))
    utils.check_all_same_idtype([g, g], "graphs")
    utils.check_all_same_device([], "graphs")
    utils.check_valid_idtype(torch.int32)
    utils.check_all_same_schema_for_keys([{"h": 1, "w": 2}, {"h": 1, "w": 3}], ["h"], "ndata")
    with pytest.raises(DGLError, match=r"graphs\[1\] has id dtype torch.int32"):
        utils.check_all_same_idtype([g, g.int()], "graphs")
    with pytest.raises(DGLError, match=r"ndata\[1\] has schema"):
        utils.check_all_same_schema([{"h": 1}, {"h": 2}], "ndata")
    with pytest.raises(DGLError, match=r"ndata\[1\] has no features \['w'\]; there are \['h'\]"):
        utils.check_all_same_schema_for_keys([{"h": 1, "w": 1}, {"h": 1}], ["h", "w"], "ndata")
    with pytest.raises(DGLError, match="float32"):
        utils.check_valid_idtype(torch.float32)


def test_devices_and_threads() -> None:
    x, before = torch.ones(2), torch.get_num_threads()
    assert utils.check_device({"h": x}, x.device) and not utils.check_device(x, torch.device("meta"))
    assert utils.to_device({"h": x}, "meta")["h"].is_meta and str(utils.to_dgl_context(x.device)) == "cpu:0"
    assert utils.context_of({"h": x}) == utils.context_of([x]) == utils.context_of(x) == x.device
    assert utils.dtype_of([x]) is torch.float32 and utils.to_nbits_int(x, 32).dtype is torch.int32
    with pytest.raises(DGLError, match="16 bits"):
        utils.to_nbits_int(x, 16)
    utils.set_num_threads(1)
    assert utils.get_num_threads() == 1
    utils.set_num_threads(before)
    rows = torch.zeros(3, 1)
    utils.scatter_pinned_tensor_rows(rows, torch.tensor([2], dtype=torch.int32), torch.ones(1, 1))
    assert utils.gather_pinned_tensor_rows(rows, torch.tensor([2, 0])).tolist() == [[1], [0]]


# -- ids ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("kind", ["list", "array", "tensor", "ndarray", "slice"])
def test_indices(kind: str, dtype: str) -> None:
    tensor = torch.tensor([2, 3, 4], dtype=getattr(torch, dtype))
    data = {"list": [2, 3, 4], "array": tensor.numpy(), "tensor": tensor, "ndarray": array(tensor.numpy())}
    index = utils.toindex(slice(2, 5) if kind == "slice" else data[kind], dtype)
    assert utils.toindex(index) is index and list(index) == [2, 3, 4] and len(index) == 3 and index[1] == 3
    assert index.tonumpy().tolist() == index.tousertensor().tolist() == [2, 3, 4]
    assert str(index.tonumpy().dtype) == dtype == index.todgltensor().dtype
    assert index.is_slice(2, 5) == (kind == "slice") and (index.slice_data() is None) == (kind != "slice")
    assert list(index.get_items(utils.toindex([2, 0]))) == [4, 2]
    assert list(index.set_items(utils.toindex([1]), 9)) == [2, 9, 4]
    assert list(index.set_items(utils.toindex([1]), utils.toindex([7]))) == [2, 7, 4] and list(index) == [2, 3, 4]
    assert list(index.append_zeros(2)) == [2, 3, 4, 0, 0] and list(pickle.loads(pickle.dumps(index))) == [2, 3, 4]


def test_small_indices() -> None:
    assert list(utils.toindex(5)) == [5] and list(utils.toindex(torch.tensor(5))) == [5]
    assert list(utils.zero_index(2, "int32")) == [0, 0] and not utils.zero_index(2).has_nonzero()
    assert list(utils.toindex([0, 3]).nonzero()) == [1] and utils.toindex([0, 3]).has_nonzero()
    assert list(utils.set_diff(utils.toindex([3, 1, 1, 2]), utils.toindex([2]))) == [1, 3]
    assert list(utils.reorder_index(utils.toindex([5, 6]), utils.toindex([1, 0]))) == [6, 5]
    assert utils.reorder({"h": torch.tensor([5, 6])}, utils.toindex([1]))["h"].tolist() == [6]


@pytest.mark.parametrize(
    "data, error",
    [
        (torch.tensor([1], dtype=torch.int32), utils.InconsistentDtypeException),
        ([[1]], utils.InconsistentDtypeException),
        (["a"], DGLError),
        (slice(0, 4, 2), DGLError),
    ],
)
def test_what_is_no_index(data, error: type[Exception]) -> None:
    with pytest.raises(error):
        utils.Index(data)


def test_filter() -> None:
    chosen = utils.Filter(torch.tensor([3, 2, 9]))
    test = torch.tensor([0, 2, 8, 9])
    assert chosen.find_included_indices(test).tolist() == [1, 3]
    assert chosen.find_excluded_indices(test).tolist() == [0, 2]


def test_renumbering() -> None:
    old, new = utils.relabel(torch.tensor([1, 5, 3, 6]))
    assert old.tolist() == [1, 3, 5, 6] and new.tolist() == [0, 0, 0, 1, 0, 2, 3]
    assert utils.build_relabel_map([5, 1])[0].tolist() == [1, 5] and len(utils.relabel(old[:0])[1]) == 0
    assert utils.build_relabel_dict(["b", "a"]) == {"b": 0, "a": 1}
    distinct, positions, mapped = utils.make_invmap([7, 3, 7])
    assert list(distinct) == [3, 7] and positions == {3: 0, 7: 1} and mapped.tolist() == [1, 0, 1]
    assert utils.compensate(torch.tensor([0, 2, 4]), torch.tensor([0, 1, 2, 4, 5])).tolist() == [1, 5]


# -- containers --------------------------------------------------------------------------------------------------------
def test_functions_over_containers() -> None:
    assert utils.apply_each({"a": 1}, lambda x, y: x + y, 2) == {"a": 3}
    assert utils.apply_each((1, 2), str) == ["1", "2"] and utils.apply_each("ab", str.upper) == "AB"
    nested = {"a": [1, (2, 3)], "b": 4}
    assert utils.recursive_apply(nested, lambda x: -x) == {"a": [-1, (-2, -3)], "b": -4}
    assert utils.recursive_apply_pair(nested, nested, lambda x, y, z: x * y + z, 1) == {"a": [2, (5, 10)], "b": 17}
    assert utils.group_as_dict([("a", 1), ("b", 2), ("a", 3)]) == {"a": [1, 3], "b": [2]}
    assert utils.is_dict_like({}) and utils.is_iterable("")
    assert utils.is_listlike(range(2)) and not utils.is_listlike("")


def test_mappings() -> None:
    lazy = utils.LazyDict(lambda key: key * 2, ["a", "b"])
    assert dict(lazy) == {"a": "aa", "b": "bb"} and "c" not in lazy and len(lazy) == 2
    merged = utils.HybridDict({"a": 1}, lazy)
    assert dict(merged) == {"a": 1, "b": "bb"} and len(merged) == 2 and "b" in merged
    read_only = utils.ReadOnlyDict({"a": 1})
    assert dict(read_only) == {"a": 1}
    with pytest.raises(TypeError):
        read_only["a"] = 2
    for mapping in (lazy, merged, read_only):
        with pytest.raises(KeyError):
            mapping["c"]


def test_flattened_mappings() -> None:
    groups = {"a": [1, 3], "none": [], "b": [2, 5, 8]}
    flat = utils.maybe_flatten_dict(groups)
    expected = [("a", 1), ("a", 3), ("b", 2), ("b", 5), ("b", 8)]
    assert len(flat) == 5 and list(flat) == [flat[i] for i in range(5)] == expected
    with pytest.raises(IndexError):
        flat[5]
    assert utils.maybe_flatten_dict([1]) == [1] and len(utils.FlattenedDict({})) == 0


class Counted:
    """Counts calls, and fails on the first one asked to."""

    def __init__(self) -> None:
        self.cache: dict = {}
        self.calls = 0
        self.broken = True

    @utils.cached_member("cache", "twice")
    def twice(self, x: int) -> int:
        self.calls += 1
        return 2 * x

    def repair(self) -> None:
        self.broken = False

    @utils.retry_method_with_fix(repair)
    def work(self) -> str:
        if self.broken:
            raise ValueError("broken")
        return "done"


def test_remembered_results() -> None:
    counted = Counted()
    assert [counted.twice(2), counted.twice(2), counted.twice(3)] == [4, 4, 6] and counted.calls == 2
    assert counted.work() == "done"
    results: list[str] = []
    cached = utils.CtxCachedObject(lambda ctx: results.append(ctx) or len(results))
    assert [cached("cpu"), cached("cpu"), cached("cuda")] == [1, 1, 2]
    alias = utils.alias_func(dglite.batch)
    assert alias([dglite.graph(([0], [1]))]).num_nodes() == 2 and alias.__doc__ == "Alias of :func:`dgl.batch`."


# -- features of whole graphs ------------------------------------------------------------------------------------------
@pytest.fixture
def typed() -> dglite.DGLGraph:
    g = dglite.heterograph({("a", "r", "b"): ([0, 1], [0, 0])})
    g.nodes["a"].data["x"], g.edges["r"].data["w"] = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    return g


def test_features_move_to_another_graph(typed: dglite.DGLGraph) -> None:
    other = dglite.heterograph({("a", "s", "b"): ([1, 0], [0, 0])})
    other.nodes["b"].data["old"] = torch.zeros(1)
    nodes, edges = utils.extract_node_subframes(typed, None), utils.extract_edge_subframes(typed, None)
    utils.set_new_frames(other, node_frames=nodes, edge_frames=edges)
    assert other.nodes["a"].data["x"].tolist() == [1, 2] and other.edges["s"].data["w"].tolist() == [3, 4]
    assert "old" not in other.nodes["b"].data
    other.nodes["a"].data["y"] = torch.zeros(2)
    assert list(typed.nodes["a"].data) == ["x"] and list(nodes[0]) == ["x"]


def test_features_of_some_nodes_and_edges(typed: dglite.DGLGraph) -> None:
    nodes = utils.extract_node_subframes(typed, [torch.tensor([1]), torch.tensor([0])])
    assert nodes[0]["x"].tolist() == [2] and nodes[0][dglite.NID].tolist() == [1] and list(nodes[1]) == [dglite.NID]
    (edges,) = utils.extract_edge_subframes(typed, [torch.tensor([1, 0])], store_ids=False)
    assert dict(edges)["w"].tolist() == [4, 3] and dglite.EID not in edges
    assert utils.extract_node_subframes(typed, "cpu")[0]["x"].tolist() == [1, 2]


def test_frames_that_do_not_fit_change_nothing(typed: dglite.DGLGraph) -> None:
    nodes = utils.extract_node_subframes(typed, [torch.tensor([1]), torch.tensor([0])])
    with pytest.raises(DGLError, match=r"\[1, 1\] rows by type; the graph has \[2, 1\] nodes"):
        utils.set_new_frames(typed, node_frames=nodes)
    assert typed.nodes["a"].data["x"].tolist() == [1, 2]
