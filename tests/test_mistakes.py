"""What newcomers type, and the words that the error must have: what came, what was expected, what to do.

Each row is an expression over :func:`namespace` and parts of the message. Users come from PyG, NetworkX, pandas and
older versions of DGL; the rows are what they try first.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import networkx
import numpy
import pytest
import scipy.sparse
import torch

import dglite
from dglite import hints

GRAPHS = [
    ("dgl.graph([0, 1], [1, 2])", "node type, a string, got list", "one pair, graph((u, v))"),
    ("dgl.graph(edge_index, 5)", "got int", "num_nodes=5"),
    ("dgl.graph(edge_index[0], edge_index[1])", "got Tensor", "one pair"),
    ("dgl.graph(edge_index.T)", "pairs (u, v)", "tuple (u, v)"),
    ("dgl.graph((torch.tensor([0.0]), torch.tensor([1.0])))", "integers", "float32", "int64"),
    ("dgl.graph((['ann', 'bob'], ['bob', 'eve']))", "got text or objects", "numpy.unique", "return_inverse"),
    ("dgl.graph((np.array(['a'], dtype=object), np.array(['b'], dtype=object)))", "got text or objects", "unique"),
    ("dgl.graph(([0, -1], [1, 2]))", "source node id -1 is negative"),
    ("dgl.graph(([0, 1, 2], [1, 2]))", "3 source nodes but 2 destination nodes"),
    ("dgl.graph(([0, 5], [1, 2]), num_nodes=3)", "id 5 does not exist among 3 nodes", "at least 6"),
    ("dgl.graph(g)", "DGLGraph already", "g.clone()"),
    ("dgl.graph(([0], [1]), device='gpu')", "gpu"),
    ("dgl.graph(([0], [1]), idtype=torch.float32)", "int32", "int64"),
    ("dgl.heterograph({('a', 'b'): ([0], [1])})", "('a', 'b')"),
    ("dgl.heterograph({'likes': ([0], [1])})", "likes"),
    ("dgl.batch([])", "empty", "at least one graph"),
    ("dgl.batch([(g, 0), (g, 1)])", "item 0 is a tuple", "graphs"),
    ("dgl.batch(g)", "list of graphs"),
    ("dgl.batch([g, other])", "features", "same"),
    ("dgl.from_networkx(nx.karate_club_graph(), node_attrs=['age'])", "no attribute 'age'"),
    ("dgl.from_networkx(edge_index)", "Tensor"),
    ("dgl.from_scipy(edge_index)", "Tensor"),
    ("dgl.to_homogeneous(edge_index)", "takes a graph", "torch.Tensor of shape (2, 4)"),
    ("dgl.add_self_loop(edge_index)", "takes a graph", "dglite.graph"),
    ("dgl.to_bidirected(nx.karate_club_graph())", "takes a graph", "networkx.Graph", "dglite.from_networkx"),
    ("dgl.node_subgraph(edge_index, [0])", "takes a graph"),
    ("dgl.khop_in_subgraph(edge_index, 0, 1)", "takes a graph"),
    ("dgl.mean_nodes(x, torch.zeros(4))", "takes a graph", "shape (4, 8)"),
    ("dgl.load_graphs('nothere.bin')", "nothere.bin does not exist"),
]

FEATURES = [
    ("g.ndata.__setitem__('z', torch.randn(5, 2))", "'z' has shape (5, 2)", "4", "each node"),
    ("g.ndata.__setitem__('z', np.ones((4, 2)))", "feature 'z'", "numpy", "torch.from_numpy"),
    ("g.ndata.__setitem__('z', 'text')", "feature 'z'", "tensor", "str"),
    ("g.ndata.__setitem__(0, x)", "name must be a string", "0"),
    ("g.ndata['feet']", "no feature 'feet'", "'x'"),
    ("g.edata['weight']", "no feature 'weight'", "'w'"),
    ("g.ndata[0]", "no feature 0"),
    ("g.edata.__setitem__('w', torch.rand(3))", "shape (3,)", "4", "each edge"),
    ("h.ndata.__setitem__('z', torch.randn(2, 2))", "['item', 'user']", "dictionary"),
    ("h.nodes['movie'].data['x']", "'movie'", "['item', 'user']"),
    ("h.num_nodes('movie')", "'movie' does not exist", "['item', 'user']"),
    ("h['likes']", "g['likes'] matches no edge type", "('user', 'rates', 'item')"),
    ("h['user', 'likes', 'item']", "matches no edge type", "('user', 'rates', 'item')"),
    ("h.edges()", "2 edge types", "('user', 'rates', 'item')"),
    ("h.edges(etype='likes')", "likes", "('user', 'rates', 'item')"),
    ("h.in_degrees()", "2 edge types"),
    ("g.nodes['a']", "'a'"),
    ("g.edge_ids(0, 3)", "0", "3"),
    ("g.find_edges(9)", "9"),
    ("g.in_degrees(9)", "9", "3"),
    ("g.remove_nodes(9)", "9"),
    ("g.to('gpu')", "gpu"),
]

MESSAGES = [
    ("g.update_all(fn.copy_u('h', 'm'), fn.sum('m', 'o'))", "no column 'h'", "'x'"),
    ("g.update_all(fn.copy_u('x', 'm'), fn.sum('msg', 'o'))", "'msg'", "makes 'm'", "same name"),
    (
        "g.update_all(fn.sum('m', 'h'), fn.copy_u('x', 'm'))",
        "fn.sum('m', 'h') is not a message function",
        "comes first",
    ),
    ("g.update_all(fn.copy_u('x', 'm'), fn.copy_u('x', 'm'))", "fn.copy_u('x', 'm') is not a reduce function"),
    ("g.update_all(lambda e: e.src['x'], fn.sum('m', 'h'))", "returned Tensor", "dict of column name to tensor"),
    ("g.update_all(lambda e: {'m': e.src['z']}, fn.sum('m', 'h'))", "no 'z' on the source nodes", "'x'"),
    ("g.update_all(lambda e: {'m': e['x']}, fn.sum('m', 'h'))", "src['x']", "data"),
    ("g.update_all(fn.copy_u('x', 'm'), lambda n: {'h': n['m'].sum(1)})", "mailbox", "data"),
    ("g.update_all('copy_u', 'sum')", "'copy_u' is not a message function", "fn.copy_u"),
    ("g.update_all(fn.copy_u('y', 'm'), fn.mean('m', 'h'))", "int64", "float32", "convert"),
    ("g.update_all(fn.u_mul_e('x', 'five', 'm'), fn.sum('m', 'h'))", "broadcast", "(8,)", "(5,)"),
    ("h.multi_update_all({'likes': (fn.copy_u('x', 'm'), fn.sum('m', 'h'))}, 'sum')", "likes", "rates"),
    ("h.multi_update_all({'rates': (fn.copy_u('x', 'm'), fn.sum('m', 'h'))}, 'avg')", "avg", "sum"),
    ("g.apply_edges(fn.sum('m', 'h'))", "sum"),
    ("dglite.ops.edge_softmax(g, torch.randn(5, 1))", "(5, 1)", "4 rows"),
    ("dglite.ops.copy_u_sum(g, torch.randn(5, 1))", "(5, 1)", "4 rows"),
    ("dglite.ops.copy_u_sum(edge_index, x)", "takes a graph", "torch.Tensor"),
    ("dglite.ops.u_mul_e_sum(g, x, torch.rand(4, 5))", "(8,)", "(5,)"),
]

LAYERS = [
    (
        "GraphConv(8, 2)(x, edge_index)",
        "GraphConv takes a graph",
        "(4, 8)",
        "dglite.graph((edge_index",
        "GraphConv(g, x)",
    ),
    ("SAGEConv(8, 2, 'mean')(x, edge_index)", "SAGEConv takes a graph", "SAGEConv(g, x)"),
    ("GATConv(8, 2, 2)(x, edge_index)", "GATConv takes a graph", "GATConv(g, x)"),
    ("GINConv(None)(x, edge_index)", "GINConv takes a graph"),
    ("GraphConv(8, 2)(edge_index, x)", "GraphConv takes a graph", "(2, 4)"),
    ("GraphConv(8, 2)(x, g)", "GraphConv takes a graph", "a graph for 'feat'", "graph first"),
    ("GraphConv(8, 2)(nx.karate_club_graph(), x)", "networkx.Graph", "dglite.from_networkx"),
    ("GraphConv(8, 2)(sp.eye(4).tocsr(), x)", "scipy", "dglite.from_scipy"),
    ("GraphConv(8, 2)([(0, 1)], x)", "got list", "dglite.graph((u, v))"),
    ("GraphConv(8, 2)(None, x)", "GraphConv takes a graph", "NoneType"),
    ("AvgPooling()(x, torch.zeros(4))", "AvgPooling takes a graph", "dglite.graph"),
    ("SumPooling()(h, x)", "SumPooling", "one type"),
    ("HeteroGraphConv({'rates': SAGEConv(4, 2, 'mean')})(x, edge_index)", "HeteroGraphConv takes a graph"),
    ("HeteroGraphConv({'rates': SAGEConv(4, 2, 'mean')})(h, x)", "HeteroGraphConv", "by node type"),
    ("HeteroGraphConv({'rates': SAGEConv(4, 2, 'mean')})(h, xs)", "no layer for the edge type", "rates"),
    ("GraphConv(4, 2)(h, x)", "2 edge types"),
    ("GraphConv(16, 2)(g, x)", "GraphConv: feat has shape (4, 8)", "16"),
    ("GraphConv(8, 2)(g, torch.randn(5, 8))", "(5, 8)", "4 source nodes"),
    ("GraphConv(8, 2)(g, x.double())", "GraphConv: feat has dtype float64", "float32", "feat.to(torch.float32)"),
    ("GATConv(8, 2, 2)(g, x.double())", "GATConv: feat has dtype float64", "layer.to(torch.float64)"),
    ("SAGEConv(8, 2, 'mean')(g, x.long())", "SAGEConv: feat has dtype int64", "Embedding"),
    ("GraphConv(8, 2)(g, torch.ones(4, 8, dtype=torch.bool))", "feat has dtype bool", "float32"),
    ("GraphConv(8, 2)(g, 'x')", "feat is of type str", "tensor"),
    ("GraphConv(8, 2)(path, torch.randn(3, 8))", "no in-edge", "allow_zero_in_degree=True"),
    ("GraphConv(8, 2, norm='sym')", "norm='sym'", "both"),
    ("GraphConv(8, 2)(g, x, edge_weight=torch.rand(3))", "edge_weight", "(3,)", "4 edges"),
    ("SAGEConv(8, 2, 'avg')", "'avg'", "mean"),
    ("SAGEConv(8, 2)", "aggregator_type"),
    ("GATConv(8, 2, heads=2)", "heads"),
    ("GATConv(8, 3, 1)(g, GATConv(8, 4, 2)(g, x))", "(4, 2, 4)", "8"),
    ("RelGraphConv(8, 2, 3)(g, x)", "etypes"),
    ("GraphConv(8, 2)(g, x.to('meta'))", "meta", "cpu"),
]

LOADERS = [
    ("DataLoader(g, NeighborSampler([2]), torch.arange(4), batch_size=2)", "Tensor is no sampler"),
    ("DataLoader(g, torch.tensor([True, False, True, False]), NeighborSampler([2]))", "mask", "nonzero"),
    ("next(iter(DataLoader(g, torch.tensor([7]), NeighborSampler([2]))))", "7 does not exist", "3"),
    ("DataLoader(edge_index, torch.arange(4), NeighborSampler([2]))", "graph", "Tensor"),
    ("DataLoader(g, torch.arange(4), NeighborSampler([2]), batch_size=0)", "batch_size", "0"),
    ("DataLoader(g, torch.arange(4), NeighborSampler([2]), num_workers=-1)", "num_workers", "-1"),
    ("dgl.sampling.sample_neighbors(edge_index, [0], 2)", "takes a graph"),
    ("dgl.sampling.random_walk(edge_index, [0], length=2)", "takes a graph"),
]

NAMES = [
    ("dgl.node_subgrph", "did you mean 'node_subgraph'?"),
    ("dgl.heterogaph", "did you mean 'heterograph'?"),
    ("dgl.cuda", "torch.cuda"),
    ("dgl.storages", "torch.from_numpy"),
    ("dgl.Data", "dglite.graph", "dglite.from_pyg"),
    ("dgl.HeteroData", "dglite.heterograph"),
    ("dgl.global_mean_pool", "dglite.nn.AvgPooling", "dglite.batch"),
    ("dgl.add_self_loops", "dglite.add_self_loop(g)"),
    ("dgl.to_undirected", "dglite.to_bidirected(g)"),
    ("dgl.degree", "g.in_degrees()"),
    ("dgl.nn.GCNConv", "dglite.nn.GraphConv", "conv(g, x)"),
    ("dgl.nn.GrphConv", "did you mean 'GraphConv'?"),
    ("dgl.nn.MessagePassing", "g.update_all"),
    ("dgl.nn.HeteroConv", "dglite.nn.HeteroGraphConv"),
    ("dgl.nn.RGCNConv", "dglite.nn.RelGraphConv"),
    ("dgl.nn.TransformerConv", "dglite.nn.DotGatConv"),
    ("dgl.nn.global_add_pool", "dglite.nn.SumPooling"),
    ("dgl.nn.Linear", "torch.nn.Linear"),
    ("dgl.data.Planetoid", "dglite.data.CoraGraphDataset"),
    ("dgl.data.CoraDataset", "did you mean 'CoraFullDataset'?"),
    ("dgl.data.InMemoryDataset", "dglite.data.DGLDataset"),
    ("dgl.data.KarateClub", "dglite.data.KarateClubDataset"),
    ("dgl.dataloading.NeighborLoader", "dglite.dataloading.DataLoader", "NeighborSampler"),
    ("dgl.dataloading.LinkNeighborLoader", "as_edge_prediction_sampler"),
    ("dgl.dataloading.NeighbourSampler", "did you mean 'NeighborSampler'?"),
    ("dgl.transforms.RandomLinksSplit", "did you mean 'RandomLinkSplit'"),
    ("dgl.transforms.ToUndirected", "dglite.AddReverse"),
    ("dgl.transforms.NormalizeFeatures", "dglite.RowFeatNormalizer"),
    ("dgl.sampling.random_walks", "did you mean 'random_walk'?"),
    ("dgl.function.u_add", "did you mean 'u_add_v'?"),
    ("fn.copy_v_sum", "did you mean"),
    ("g.x", "g.ndata['x']"),
    ("g.y", "g.ndata['label']"),
    ("g.edge_index", "torch.stack(g.edges())"),
    ("g.edge_attr", "g.edata"),
    ("g.num_features", "g.ndata['x'].shape[1]"),
    ("g.train_mask", "g.ndata['train_mask']"),
    ("g.adj_t", "g.adj()"),
    ("g.neighbors(0)", "g.successors(v)"),
    ("g.degree(0)", "g.in_degrees()"),
    ("g.is_undirected()", "dglite.to_bidirected(g)"),
    ("g.nodes_count()", "no attribute 'nodes_count'"),
    ("g.num_node()", "did you mean 'num_nodes'?"),
    ("g.has_node_s", "did you mean"),
]

MISTAKES = [*GRAPHS, *FEATURES, *MESSAGES, *LAYERS, *LOADERS, *NAMES]


def namespace() -> dict[str, Any]:
    """Return the names that the expressions use, new graphs each time."""
    g = dglite.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
    g.ndata["x"], g.ndata["y"] = torch.randn(4, 8), torch.tensor([0, 1, 0, 1])
    g.edata["w"], g.edata["five"] = torch.rand(4, 1), torch.rand(4, 5)
    h = dglite.heterograph({("user", "rates", "item"): ([0, 1], [0, 1]), ("user", "follows", "user"): ([0, 1], [1, 0])})
    h.ndata["x"] = xs = {ntype: torch.randn(2, 4) for ntype in h.ntypes}
    return {
        **vars(dglite.nn),
        **vars(dglite.dataloading),
        **{name: import_module(name) for name in ("dglite", "torch")},
        "dgl": dglite,
        "fn": dglite.function,
        "np": numpy,
        "nx": networkx,
        "sp": scipy.sparse,
        "g": g,
        "h": h,
        "xs": xs,
        "x": g.ndata["x"],
        "edge_index": torch.stack(g.edges()),
        "other": dglite.graph(([0], [1])),
        "path": dglite.graph(([0, 1], [1, 2])),
    }


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda row: row[0])
def test_the_error_says_what_came_and_what_to_do(mistake: tuple[str, ...]) -> None:
    expression, *words = mistake
    with pytest.raises(Exception) as caught:
        eval(expression, namespace())
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert len(message) < 500, "a message that nobody reads to its end"


def test_there_are_150_mistakes() -> None:
    assert len({row[0] for row in MISTAKES}) == len(MISTAKES) >= 150


@pytest.mark.parametrize(
    "line", ["from dglite.nn import GCNConv", "from dglite import Data", "from dglite.data import Planetoid"]
)
def test_imports_of_missing_names_say_it_too(line: str) -> None:
    with pytest.raises(ImportError, match="in dglite: "):
        exec(line)


def test_counterparts_exist() -> None:
    """Every dotted name of dglite that a hint gives can be read."""
    texts = [text for table in (hints._NAMES, hints._ATTRIBUTES, hints._CONVERTED) for text in table.values()]
    dotted = {name for text in texts for name in re.findall(r"dglite(?:\.\w+)+", text)}
    for name in dotted:
        value: Any = dglite
        for part in name.split(".")[1:]:
            value = getattr(value, part)
    assert len(dotted) > 60


def test_hints_are_for_missing_names_only() -> None:
    packages = [dglite.nn, dglite.data, dglite.dataloading, dglite.transforms, dglite.sampling, dglite.ops]
    assert [name for name in hints._NAMES for package in packages if name in package.__all__] == []
    assert [name for name in hints._ATTRIBUTES if hasattr(dglite.DGLGraph, name)] == []


def test_submodules_are_imported_when_they_are_read() -> None:
    assert dglite.graphbolt.__name__ == "dglite.compat.graphbolt"
    assert {"distributed", "dynamic", "tofu", "graphbolt"} <= set(dir(dglite))
    assert {"Any", "import_module", "engines", "hints"}.isdisjoint(dir(dglite))


def test_a_failing_property_shows_its_own_error() -> None:
    class Mine(dglite.DGLGraph):
        @property
        def broken(self) -> Any:
            return self.nothing_such

    with pytest.raises(AttributeError, match="nothing_such"):
        _ = Mine().broken
    with pytest.raises(AttributeError, match="_hidden"):
        _ = Mine()._hidden
