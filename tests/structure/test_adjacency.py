"""The three formats agree with NumPy, share what they can, and refuse what is not a graph."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dglite.errors import DGLError
from dglite.ops.devices import HOST
from dglite.structure import Adjacency, Compressed, compressed

EMPTY = np.empty(0, np.int64)


def edges(num_src: int, num_dst: int, num_edges: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, num_src, num_edges), rng.integers(0, num_dst, num_edges)


@st.composite
def relations(draw: st.DrawFn) -> tuple[int, int, list[int], list[int]]:
    num_src, num_dst = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    if not num_src or not num_dst:
        return num_src, num_dst, [], []
    pairs = draw(st.lists(st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1)), max_size=20))
    return num_src, num_dst, [u for u, _ in pairs], [v for _, v in pairs]


def check_rows(stored, rows, cols, num_rows):
    """The rows of a format are a stable sort of the edges."""
    order = np.argsort(rows, kind="stable")
    np.testing.assert_array_equal(stored.entry_edge_ids(), order)
    np.testing.assert_array_equal(stored.indices, cols[order])
    np.testing.assert_array_equal(stored.rows(), rows[order])
    np.testing.assert_array_equal(np.diff(stored.indptr), np.bincount(rows, minlength=num_rows))
    assert stored.num_rows == num_rows and stored.num_edges == len(rows)
    assert stored.indptr.dtype == stored.indices.dtype == stored.entry_edge_ids().dtype == np.int32


@settings(max_examples=60, deadline=None)
@given(relations())
def test_formats_agree_with_numpy(relation):
    num_src, num_dst, u, v = relation
    src, dst = np.array(u, np.int64), np.array(v, np.int64)
    adjacency = Adjacency.from_coo(num_src, num_dst, src, dst)
    check_rows(adjacency.csc(), dst, src, num_dst)
    check_rows(adjacency.csr(), src, dst, num_src)
    np.testing.assert_array_equal(adjacency.sorted_csr().entry_edge_ids(), np.lexsort((dst, src)))
    np.testing.assert_array_equal(adjacency.in_degrees(), np.bincount(dst, minlength=num_dst))
    np.testing.assert_array_equal(adjacency.out_degrees(), np.bincount(src, minlength=num_src))
    assert adjacency.is_multigraph == (len({*zip(u, v, strict=True)}) < len(u))
    for result in (_through(adjacency, "csc"), _through(adjacency, "csr")):
        np.testing.assert_array_equal(result.coo(), (src, dst))


def _through(adjacency: Adjacency, name: str) -> Adjacency:
    stored = getattr(adjacency, name)()
    make = getattr(Adjacency, f"from_{name}")
    return make(
        adjacency.num_src, adjacency.num_dst, stored.indptr, stored.indices, stored.edge_ids, np.dtype(np.int64)
    )


@pytest.mark.parametrize("num_edges", [12, 512, 513, 5000])
def test_small_and_compiled_paths_agree(num_edges):
    src, dst = edges(60, 70, num_edges)
    adjacency = Adjacency.from_coo(60, 70, src, dst)
    check_rows(adjacency.csc(), dst, src, 70)
    check_rows(adjacency.csr(), src, dst, 60)
    matrix = scipy.sparse.coo_matrix((np.ones(num_edges), (src, dst)), (60, 70)).tocsr()
    u, v = edges(60, 70, 40, seed=1)
    np.testing.assert_array_equal(adjacency.has_edges(u, v), np.asarray(matrix[u, v] > 0).ravel())


@pytest.fixture
def few_are_many(monkeypatch):
    """Let graphs of these tests take the ways of large ones."""
    for name in ("_LAZY", "_LARGE"):
        monkeypatch.setattr(compressed, name, 100)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(relations())
def test_large_relations_agree_with_numpy(monkeypatch, relation):
    for name in ("_LAZY", "_LARGE"):
        monkeypatch.setattr(compressed, name, 1)
    test_formats_agree_with_numpy.hypothesis.inner_test(relation)


def test_edge_ids_of_many_edges_are_made_when_asked_for(few_are_many):
    src, dst = edges(60, 70, 900)
    adjacency = Adjacency.from_coo(60, 70, src, dst)
    csc, csr = adjacency.csc(), adjacency.csr()
    assert not csc.has_edge_ids and not csr.has_edge_ids
    copies = pickle.loads(pickle.dumps(adjacency))
    assert not copies.csc().has_edge_ids
    for result in (adjacency, copies):
        check_rows(result.csc(), dst, src, 70)
        check_rows(result.csr(), src, dst, 60)
    assert csc.has_edge_ids and csc.edge_ids is csc.edge_ids
    assert csc.addresses[2] == csc.edge_ids.ctypes.data


def test_a_kernel_that_reads_no_edges_needs_no_edge_ids(few_are_many):
    adjacency = Adjacency.from_coo(60, 70, *edges(60, 70, 900))
    words, index = HOST.structure(adjacency, edges=False)
    assert tuple(words) == (*adjacency.csc().row_addresses, 0, 70, 900) and index == "int32"
    assert not adjacency.csc().has_edge_ids
    assert tuple(HOST.structure(adjacency)[0][:3]) == adjacency.csc().addresses
    assert HOST.structure(adjacency, edges=False) == HOST.structure(adjacency)


def test_created_formats_include_edge_ids(few_are_many):
    adjacency = Adjacency.from_coo(60, 70, *edges(60, 70, 900))
    adjacency.create_formats()
    assert adjacency.formats == ("coo", "csr", "csc")
    assert adjacency.csc().has_edge_ids and adjacency.csr().has_edge_ids


@pytest.mark.parametrize("kept", ["csr", "csc"])
def test_edge_ids_outlive_the_endpoints(few_are_many, kept):
    src, dst = edges(60, 70, 900)
    result = Adjacency.from_coo(60, 70, src, dst).restrict((kept,))
    assert result.formats == (kept,)
    check_rows(result.csc(), dst, src, 70)
    check_rows(result.csr(), src, dst, 60)


def test_sorting_the_other_way_leaves_no_endpoints_behind():
    dst = np.sort(edges(50, 50, 2000)[1])
    src = edges(50, 50, 2000, seed=1)[0]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(dst, minlength=50))])
    adjacency = Adjacency.from_csc(50, 50, indptr, src)
    assert adjacency.out_degrees().tolist() == np.bincount(src, minlength=50).tolist()
    check_rows(adjacency.csr(), src, dst, 50)
    assert adjacency.formats == ("csr", "csc")
    np.testing.assert_array_equal(adjacency.coo(), (src, dst))


def test_arrays_can_be_given_away():
    indptr, indices = np.array([0, 2, 3], np.int32), np.array([1, 0, 1], np.int32)
    assert Adjacency.from_csc(2, 2, indptr, indices, copy=False).csc().indices is indices
    assert Adjacency.from_csc(2, 2, indptr, indices).csc().indices is not indices


def test_resized_shares_edges():
    adjacency = Adjacency.from_coo(5, 6, *edges(5, 6, 9))
    assert adjacency.resized(5, 6) is adjacency
    larger = adjacency.restrict(("coo", "csc")).resized(8, 9)
    assert (larger.num_src, larger.num_dst, larger.allowed) == (8, 9, ("coo", "csc"))
    assert larger.endpoints()[0] is adjacency.endpoints()[0]
    assert larger.in_degrees().tolist() == [*adjacency.in_degrees(), 0, 0, 0]


def test_sorted_edges_are_not_copied():
    dst = np.sort(edges(50, 50, 2000)[1])
    src = edges(50, 50, 2000, seed=1)[0]
    csc = Adjacency.from_coo(50, 50, src, dst).csc()
    assert csc.edge_ids is None
    np.testing.assert_array_equal(csc.indices, src)
    np.testing.assert_array_equal(csc.rows(), dst)


def test_structure_does_not_follow_the_arrays_it_came_from():
    src, dst = np.array([0, 1], np.int32), np.array([1, 0], np.int32)
    adjacency = Adjacency.from_coo(2, 2, src, dst)
    src[:] = 7
    assert adjacency.coo()[0].tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_users_see_their_index_dtype(dtype):
    src, dst = (x.astype(dtype) for x in edges(5, 6, 9))
    adjacency = Adjacency.from_coo(5, 6, src, dst)
    assert adjacency.idtype == dtype
    some = np.array([3, 0])
    answers = [*adjacency.coo(), *adjacency.find_edges(some), *adjacency.in_edges(some), *adjacency.out_edges(some)]
    answers += [adjacency.edge_ids(src, dst), *adjacency.edges_between(src, dst)]
    assert {x.dtype for x in answers} == {np.dtype(dtype)}
    assert adjacency.csc().indptr.dtype == np.int32
    assert adjacency.in_degrees().dtype == np.int64


def test_ids_beyond_int32_use_int64_inside():
    far = 2**31 + 5
    adjacency = Adjacency.from_coo(far + 1, 3, np.array([far]), np.array([2]))
    assert adjacency.csc().indices.dtype == np.int64
    assert adjacency.find_edges(np.array([0]))[0].tolist() == [far]
    with pytest.raises(DGLError, match="do not fit int32"):
        adjacency.as_idtype(np.int32)


def test_as_idtype_shares_formats():
    adjacency = Adjacency.from_coo(5, 6, *edges(5, 6, 9))
    csc = adjacency.csc()
    other = adjacency.as_idtype(np.int32)
    assert other.csc() is csc and other.coo()[0].dtype == np.int32
    assert adjacency.as_idtype(np.int64) is adjacency


# -- reverse -----------------------------------------------------------------------------------------------------
def test_reverse_shares_both_ways():
    adjacency = Adjacency.from_coo(5, 6, *edges(5, 6, 9))
    csc = adjacency.csc()
    reverse = adjacency.reverse()
    assert reverse.reverse() is adjacency and adjacency.reverse() is reverse
    assert (reverse.num_src, reverse.num_dst) == (6, 5)
    assert reverse.csr() is csc
    assert reverse.csc() is adjacency.csr()
    assert reverse.endpoints()[0] is adjacency.endpoints()[1]


def test_a_reverse_lives_without_its_origin():
    reverse = Adjacency.from_coo(5, 6, *edges(5, 6, 9)).reverse()
    assert reverse.csr().num_edges == 9
    assert reverse.reverse().csc() is reverse.csr()


def test_structure_dies_without_the_garbage_collector():
    gc.disable()
    try:
        adjacency = Adjacency.from_coo(5, 6, *edges(5, 6, 9))
        adjacency.reverse().csc()
        watch = weakref.ref(adjacency)
        del adjacency
        assert watch() is None
    finally:
        gc.enable()


# -- construction by rows ----------------------------------------------------------------------------------------
def test_from_csr_numbers_entries_in_order_without_edge_ids():
    adjacency = Adjacency.from_csr(2, 3, np.array([0, 2, 3]), np.array([2, 0, 1]))
    np.testing.assert_array_equal(adjacency.coo(), ([0, 0, 1], [2, 0, 1]))
    assert adjacency.csr().edge_ids is None


def test_edge_ids_of_a_format_may_be_in_any_order():
    adjacency = Adjacency.from_csc(4, 2, np.array([0, 2, 3]), np.array([3, 1, 0]), np.array([2, 1, 0]))
    np.testing.assert_array_equal(adjacency.coo(), ([0, 1, 3], [1, 0, 0]))
    np.testing.assert_array_equal(adjacency.csc().entry_edge_ids(), [1, 2, 0])


@pytest.mark.parametrize(
    ("indptr", "indices", "edge_ids", "message"),
    [
        ([0, 1], [0], None, "indptr has 2 entries; expected 3"),
        ([1, 1, 1], [0], None, "indptr runs from 1 to 1"),
        ([0, 1, 2], [0], None, "indptr runs from 0 to 2"),
        ([0, 2, 1], [0], None, "falls from 2 to 1 at row 1"),
        ([0, 1, 2], [0, 9], None, "node id 9 does not exist"),
        ([0, 1, 2], [0, -1], None, "node id -1 is negative"),
        ([0, 1, 2], [0, 1], [0], "1 edge ids for 2 entries"),
        ([0, 1, 2], [0, 1], [1, 1], "edge id 1 is given 2 times; expected each of 0 .. 1 once"),
        ([0, 1, 2], [0, 1], [0, 5], "edge id 5 does not exist"),
    ],
)
def test_bad_rows_are_refused(indptr, indices, edge_ids, message):
    ids = None if edge_ids is None else np.array(edge_ids)
    for make in (Adjacency.from_csr, Adjacency.from_csc):
        with pytest.raises(DGLError, match=message):
            make(2, 2, np.array(indptr), np.array(indices), ids)


def test_bad_edges_are_refused():
    with pytest.raises(DGLError, match="2 source nodes but 1 destination"):
        Adjacency.from_coo(3, 3, np.array([0, 1]), np.array([0]))
    with pytest.raises(DGLError, match="source node id 3 does not exist; ids run from 0 to 2"):
        Adjacency.from_coo(3, 3, np.array([3]), np.array([0]))
    with pytest.raises(DGLError, match="destination node id -2 is negative"):
        Adjacency.from_coo(3, 3, np.array([0]), np.array([-2]))


# -- queries -----------------------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(relations(), st.data())
def test_queries_agree_with_the_edge_list(relation, data):
    num_src, num_dst, u, v = relation
    adjacency = Adjacency.from_coo(num_src, num_dst, np.array(u, np.int64), np.array(v, np.int64))
    pairs = list(zip(u, v, strict=True))
    if not num_src or not num_dst:
        return
    some = st.lists(st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1)), max_size=5)
    expected = data.draw(some)
    a, b = (np.array([pair[end] for pair in expected], np.int64) for end in (0, 1))
    first = [pairs.index(pair) if pair in pairs else -1 for pair in expected]
    assert adjacency.edge_ids(a, b).tolist() == first
    assert adjacency.has_edges(a, b).tolist() == [pair in pairs for pair in expected]
    every = [(*pair, i) for pair in expected for i, other in enumerate(pairs) if other == pair]
    assert list(zip(*map(np.ndarray.tolist, adjacency.edges_between(a, b)), strict=True)) == every
    inside = [(*pair, i) for node in b for i, pair in enumerate(pairs) if pair[1] == node]
    assert list(zip(*map(np.ndarray.tolist, adjacency.in_edges(b)), strict=True)) == inside
    outside = [(*pair, i) for node in a for i, pair in enumerate(pairs) if pair[0] == node]
    assert list(zip(*map(np.ndarray.tolist, adjacency.out_edges(a)), strict=True)) == outside


@settings(max_examples=60, deadline=None)
@given(relations(), st.randoms(use_true_random=False), st.integers(0, 3))
def test_repeated_pairs_take_their_parallel_edges_in_turn(relation, random, more):
    num_src, num_dst, u, v = relation
    adjacency = Adjacency.from_coo(num_src, num_dst, np.array(u, np.int64), np.array(v, np.int64))
    pairs = list(zip(u, v, strict=True))
    expected = [*pairs, *(random.choices(pairs, k=more) if pairs else ())]
    random.shuffle(expected)
    actual = adjacency.edge_ids_in_turn(*(np.array([pair[end] for pair in expected], np.int64) for end in (0, 1)))
    places = {pair: [i for i, other in enumerate(pairs) if other == pair] for pair in pairs}
    seen = dict.fromkeys(pairs, 0)
    for pair, edge in zip(expected, actual.tolist(), strict=True):
        assert edge == places[pair][seen[pair] % len(places[pair])]
        seen[pair] += 1
    if not more:
        assert sorted(actual.tolist()) == list(range(len(pairs)))


def test_a_pair_without_an_edge_has_no_turn():
    adjacency = Adjacency.from_coo(2, 2, np.array([0, 0]), np.array([1, 1]))
    assert adjacency.edge_ids_in_turn(np.array([1, 0, 0]), np.array([1, 1, 1])).tolist() == [-1, 0, 1]


def test_lookups_of_many_pairs_use_the_sorted_rows():
    src, dst = edges(100, 90, 3000)
    adjacency = Adjacency.from_coo(100, 90, src, dst)
    first: dict[tuple[int, int], int] = {}
    for i, pair in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        first.setdefault(pair, i)
    u, v = edges(100, 90, 500, seed=3)
    expected = [first.get(pair, -1) for pair in zip(u.tolist(), v.tolist(), strict=True)]
    assert adjacency.edge_ids(u, v).tolist() == expected


def test_subset_renumbers_destinations_only():
    adjacency = Adjacency.from_coo(4, 10, np.array([0, 1, 2, 3]), np.array([9, 3, 9, 5]))
    subset = adjacency.subset(np.array([2, 1, 0]))
    assert subset.dst_ids.tolist() == [3, 9]
    np.testing.assert_array_equal(subset.adjacency.coo(), ([2, 1, 0], [1, 0, 1]))
    assert subset.adjacency.num_src == 4 and subset.adjacency.num_dst == 2
    assert subset.edge_ids.tolist() == [2, 1, 0]
    assert adjacency.subset(EMPTY).adjacency.num_edges == 0


# -- formats kept ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kept", [("coo",), ("csr",), ("csc",), ("csr", "csc")])
def test_a_restricted_relation_answers_all_and_keeps_little(kept):
    src, dst = edges(5, 6, 9)
    adjacency = Adjacency.from_coo(5, 6, src, dst).restrict(kept)
    check_rows(adjacency.csc(), dst, src, 6)
    check_rows(adjacency.csr(), src, dst, 5)
    np.testing.assert_array_equal(adjacency.coo(), (src, dst))
    assert set(adjacency.formats) <= set(kept)
    adjacency.create_formats()
    assert adjacency.formats == kept
    assert set(adjacency.reverse().allowed) == {{"csr": "csc", "csc": "csr"}.get(name, name) for name in kept}


@pytest.mark.parametrize("make", ["coo", "csr", "csc"])
def test_pickling_keeps_edges_and_formats(make):
    adjacency = Adjacency.from_coo(5, 6, *edges(5, 6, 9)).restrict((make,))
    other = pickle.loads(pickle.dumps(adjacency))
    np.testing.assert_array_equal(other.coo(), adjacency.coo())
    assert other.formats == adjacency.formats and other.idtype == adjacency.idtype


def test_structure_is_shared_by_copies():
    adjacency = Adjacency.from_coo(5, 6, *edges(5, 6, 9))
    assert copy.deepcopy(adjacency) is adjacency
    assert "num_src=5, num_dst=6, num_edges=9" in repr(adjacency)


@pytest.mark.parametrize(("num_src", "num_dst"), [(0, 0), (3, 0), (0, 3), (3, 2)])
def test_relations_without_edges(num_src, num_dst):
    adjacency = Adjacency.from_coo(num_src, num_dst, EMPTY, EMPTY)
    assert adjacency.csc().indptr.tolist() == [0] * (num_dst + 1)
    assert adjacency.csr().indptr.tolist() == [0] * (num_src + 1)
    assert adjacency.in_degrees().tolist() == [0] * num_dst
    assert not adjacency.is_multigraph
    assert adjacency.has_edges(EMPTY, EMPTY).tolist() == []


def test_addresses_are_those_of_the_arrays():
    csc = Adjacency.from_coo(5, 6, *edges(5, 6, 9)).csc()
    assert csc.addresses == (csc.indptr.ctypes.data, csc.indices.ctypes.data, csc.edge_ids.ctypes.data)
    assert Adjacency.from_csc(1, 1, np.array([0, 1]), np.array([0])).csc().addresses[2] == 0


@pytest.mark.parametrize("idtype", [np.int32, np.int64])
@pytest.mark.parametrize("numbered", [True, False])
def test_edges_of_many_rows_are_those_of_each(idtype, numbered):
    src, dst = edges(900, 800, 3000)
    adjacency = Adjacency.from_coo(900, 800, src, dst, idtype)
    if not numbered:
        adjacency = Adjacency.from_csc(900, 800, adjacency.csc().indptr, adjacency.csc().indices, idtype=idtype)
    rows = np.random.default_rng(1).integers(800, size=1400)[::2]  # more than NumPy is used for, and not contiguous
    result = adjacency.in_edges(rows)
    want = [
        np.concatenate(parts) for parts in zip(*(adjacency.in_edges(rows[[i]]) for i in range(len(rows))), strict=True)
    ]
    for one, other in zip(result, want, strict=True):
        assert one.dtype == idtype
        np.testing.assert_array_equal(one, other)


def test_look_ups_of_few_do_not_number_all_entries(monkeypatch):
    adjacency = Adjacency.from_csc(3, 3, np.array([0, 2, 3, 3]), np.array([1, 1, 0]))

    def fail(self):
        raise AssertionError("this costs O(num_edges)")

    monkeypatch.setattr(Compressed, "entry_edge_ids", fail)
    assert adjacency.edge_ids(np.array([1]), np.array([0])).tolist() == [0]
    assert [x.tolist() for x in adjacency.edges_between(np.array([1]), np.array([0]))] == [[1, 1], [0, 0], [0, 1]]
    assert adjacency.in_edges(np.array([1, 0]))[2].tolist() == [2, 0, 1]
