"""What newcomers type, and the words that the error must have: what came, what was expected, what to do.

Each row is an expression over :func:`namespace` and parts of the message. Users come from PyG, NetworkX, pandas and
older versions of DGL; the rows are what they try first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import networkx
import numpy
import pandas
import pytest
import scipy.sparse
import torch

import dglite
from dglite import arguments, hints
from tests.mistakes import MORE
from tests.versions import has_torch

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
    ("dgl.graph(pd.DataFrame({'src': [0, 1], 'dst': [1, 2]}))", "DataFrame", "dglite.from_pandas"),
    ("dgl.graph({('a', 'r', 'b'): ([0], [1])})", "dict", "dglite.heterograph"),
    ("dgl.graph('edges.csv')", "cannot be read from str", "dglite.from_pandas"),
    ("dgl.graph(([0], [1]), num_nodes=3.0)", "num_nodes must be an integer", "3.0"),
    ("dgl.graph((np.array([0.0, 1.0]), np.array([1.0, 2.0])))", "float64", "convert them to int64"),
    ("dgl.graph((torch.zeros(2, 2).long(), torch.zeros(2, 2).long()))", "one-dimensional", "(2, 2)"),
    ("dgl.heterograph(([0, 1], [1, 2]))", "dictionary", "got tuple", "dglite.graph((u, v))"),
    ("dgl.heterograph({('user', 'rates', 'item'): [0, 1]})", "('user', 'rates', 'item')", "pairs (u, v)"),
    ("dgl.from_scipy(np.eye(3))", "got ndarray", "scipy.sparse.coo_matrix"),
    ("dgl.to_homogeneous(h, ndata=['z'])", "'z' is not on all", "['x']"),
    ("dgl.save_graphs(g, 'file.bin')", "holds a str", "save_graphs('file.bin', [g])"),
    ("dgl.knn_graph(5, torch.rand(5, 3))", "points must be a tensor", "got int"),
    ("dgl.batch([None, g])", "item 0 is a NoneType", "list of graphs"),
    ("dgl.batch([g, h])", "graph 1 has node types ['item', 'user']", "must be the same"),
    ("dgl.unbatch(g, 2)", "batch numbers 2", "4 nodes"),
    ("dgl.remove_edges(g, [(0, 1)])", "one-dimensional", "g.edge_ids(u, v)"),
    ("dgl.node_subgraph(g, torch.tensor([True, False]))", "mask has 2 entries", "each of the 4 nodes"),
    ("dgl.node_subgraph(h, [0])", "['item', 'user']", "dictionary from type to node ids"),
    ("dgl.mean_nodes(h, 'x')", "2 node types", "['item', 'user']"),
    ("dgl.sum_edges(g, 'x')", "no feature 'x' on the edges", "['five', 'w']"),
    ("dgl.readout_nodes(g, 'x', op='avg')", "no readout 'avg'", "sum, mean, max, min"),
    ("dgl.softmax_nodes(g, 'y')", "int64", "convert them first"),
    ("dgl.graph([(0, 1, 0.5), (1, 2, 0.3)])", "pairs (u, v)", "(0, 1, 0.5)", "g.edata['w'] = weights"),
    ("dgl.graph(np.eye(3))", "pairs (u, v)", "adjacency matrix", "matrix.nonzero()"),
    (
        "dgl.from_networkx(nx.karate_club_graph(), node_attrs=['club'])",
        "'club' of the nodes",
        "'Mr. Hi'",
        "numpy.unique",
    ),
    ("dgl.unbatch([g, g])", "got list", "dglite.batch(graphs)"),
    ("dgl.add_self_loop(h)", "2 edge types", "by etype= or g['follows']"),
    ("dgl.mean_nodes(g, x)", "read by name", "got Tensor"),
    ("dgl.to_block(g, torch.tensor([7]))", "7 does not exist", "0 to 3"),
    ("dgl.lap_pe(g, 10)", "4 nodes", "smaller k", "padding=True"),
    ("dgl.knn_graph(x, 0)", "k must be an integer >= 1"),
    ("dgl.knn_graph(g, 2)", "points must be a tensor", "DGLGraph"),
    ("dgl.from_pandas([[0, 1], [1, 2]])", "pandas, Polars or Arrow table", "got list"),
    ("dgl.from_pandas(pd.DataFrame({'src': ['x', None], 'dst': ['y', 'z']}))", "row 1", "'src'", "drop such rows"),
    ("dgl.from_pandas(pd.DataFrame({'a': [0], 'b': [1]}), source='from')", "source='from'", "['a', 'b']"),
    ("dgl.from_pyg(x)", "Data or HeteroData", "Tensor"),
    ("dgl.from_smiles(5)", "smiles must be a string", "int"),
    ("dgl.RandomLinkSplit(0.6, 0.6)(g)", "num_val=0.6", "0 of 4 edges"),
    ("dgl.plot(x)", "takes a graph"),
    ("dgl.plot(g, color='z')", "color='z'", "['x', 'y']"),
    ("dgl.plot(g, layout='sprong')", "'sprong'", "spring"),
    ("dgl.plot(g, labels=[1, 2])", "(2,)", "each of the 4 nodes"),
    ("dgl.plot(dgl.rand_graph(100000, 20))", "100,000 nodes", "dglite.khop_in_subgraph", "max_nodes"),
    ("dgl.explain(GraphConv(8, 2), g, x)", "got dglite.GraphConv", "dglite.summary(model, g, x)"),
    ("dgl.load_graphs(5)", "by its name", "int"),
    ("dgl.sum_nodes(g, ['x', 'y'])", "read by name", "got list"),
    ("dgl.AddSelfLoop()(x)", "takes a graph", "torch.Tensor of shape (4, 8)"),
    ("dgl.RowFeatNormalizer()(edge_index)", "takes a graph", "torch.Tensor"),
    ("dgl.DropNode(0.5)(None)", "takes a graph", "NoneType"),
    ("dgl.FeatMask()([g])", "takes a graph", "dglite.batch(graphs)"),
    ("dgl.Compose(dgl.AddSelfLoop())", "list of transforms", "Compose([transform])"),
    ("dgl.Compose([dgl.AddSelfLoop, dgl.AddReverse])", "no transform", "dglite.AddSelfLoop()"),
    ("dgl.Compose([g])", "no transform", "dglite.AddSelfLoop()"),
    ("dgl.compact_graphs([g, x])", "item 1 is a Tensor", "list of graphs"),
    ("dgl.compact_graphs(5)", "list of graphs", "got int"),
    ("dgl.adj_sum_graph([x], 'w')", "item 0 is a Tensor", "list of graphs"),
    ("dgl.batch(None)", "list of graphs", "got NoneType"),
    ("dgl.merge(5)", "list of graphs", "got int"),
    ("dgl.to_networkx(g, node_attrs='xy')", "list of features' names", "write ['xy']"),
    ("dgl.save_graphs('f.bin', [g], labels=torch.tensor([0, 1]))", "tensors by name", "'glabel'", "got Tensor"),
    ("dgl.explain(g)", "None is not a message function", "fn.copy_u('h', 'm')"),
    ("dgl.summary(GraphConv, g, x)", "summary(model, g, x)", "the class GraphConv"),
    ("dgl.summary(GraphConv(8, 2), g)", "missing a required argument: 'feat'", "GraphConv(graph, feat"),
    ("dgl.profile(GraphConv(8, 2), g, x)", "with dglite.profile(): model(g, x)"),
    ("dgl.from_pandas(pd.DataFrame({'a': [0], 'b': [1]}), 'a')", "nodes must be", "got str"),
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
    ("g.ndata.h", "no attribute 'h'", "read by name, ['h']"),
    ("g.edges.data('w')", "no attribute 'data'", "g.edata"),
    ("g.nodes.data['z']", "no attribute 'data'", "g.ndata"),
    ("g.edges['w']", "'w' does not exist", "('_N', '_E', '_N')"),
    ("g.nodes[0]['x']", "write .data['x']"),
    ("h.nodes['user']['x']", "write .data['x']"),
    ("g.ndata.update(x)", "dictionary from name to tensor", "got Tensor", "{'h': tensor}"),
    ("g.add_nodes(2, torch.randn(2, 8))", "dictionary from name to tensor", "{'h': tensor}"),
    ("g.add_edges([0], [1], x)", "features of the edges", "got Tensor", "{'h': tensor}"),
    ("g.add_nodes(2, {'x': torch.randn(3, 8)})", "shape (3, 8)", "must be 2"),
    ("g.ndata.__setitem__('z', {'user': x})", "'z'", "must be a tensor, got dict"),
    ("h.ndata.__setitem__('z', {'user': torch.randn(3, 2)})", "shape (3, 2)", "each 'user' node"),
    ("h.edata.__setitem__('w', {'likes': torch.randn(2, 2)})", "'likes' does not exist", "'rates'"),
    ("g.predecessors([0, 1])", "one node, got 2", "in_edges"),
    ("g.in_degrees(torch.tensor([0.5]))", "float32", "convert them to int64"),
    ("g.edges(order='dst')", "order='dst'", "'srcdst'"),
    ("g.set_batch_num_nodes([2, 3])", "[2, 3]", "sum to its 4 nodes"),
    ("g.to(torch.float32)", "no device torch.float32", "'cuda'", "g.ndata['h'].float()"),
    ("g.float()", "no attribute 'float'", "g.ndata['h'].float()"),
    ("g.shape", "no attribute 'shape'", "g.num_nodes()"),
    ("g.adj().dense()", "no attribute 'dense'", ".to_dense()"),
    ("g.adj() * x", "tensor of shape (4, 8)", "A @ x"),
    ("g.adj() + x", "tensor of shape (4, 8)", "A.to_dense() + x"),
    ("g.adj() @ torch.rand(3, 2)", "(3, 2)", "expected (4,) or (4, N)"),
    ("dgl.sparse.softmax(x)", "takes a sparse matrix, got Tensor", "torch.softmax"),
    ("dgl.sparse.spmatrix(edge_index, torch.rand(3))", "shape (3,)", "one for each entry"),
    ("dgl.to_block(g).nodes[0]", "2 node types", "g.srcnodes and g.dstnodes"),
    ("dglite.ops.segment_mm(x, torch.rand(2, 8, 2, device='meta'), [2, 2])", "rows on cpu", "matrices on meta"),
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
    ("g.update_all(fn.copy_u, fn.sum)", "copy_u cannot be called", "batch of edges", "fn.copy_u('h', 'm')"),
    ("g.update_all(fn.copy_u('x', 'm'), torch.sum)", "sum cannot be called", "fn.sum('m', 'h')"),
    ("g.update_all(fn.copy_u('x', 'm'), fn.sum('m', 'h'), x)", "Tensor cannot be called", "lambda nodes"),
    ("g.update_all(lambda x_i, x_j: x_j, fn.sum('m', 'h'))", "batch of edges", "edges.src['h']"),
    ("g.update_all(fn.copy_u(x, 'm'), fn.sum('m', 'h'))", "names of features", "got Tensor", "g.ndata['h']"),
    ("g.update_all((fn.copy_u('x', 'm'), fn.sum('m', 'h')))", "no reduce function", "fn.copy_u('h', 'm'), fn.sum"),
    ("g.update_all(fn.copy_u('x', 'm'), fn.avg('m', 'h'))", "no attribute 'avg'", "function.mean('m', 'h')"),
    ("g.update_all(fn.u_mul_e('w', 'x', 'm'), fn.sum('m', 'h'))", "no column 'w' on the source nodes", "'x'"),
    ("g.update_all(lambda e: {'m': e.dst.x}, fn.sum('m', 'h'))", "no attribute 'x'", "['x']"),
    ("g.update_all(lambda e: {'m': e.weight}, fn.sum('m', 'h'))", "'weight'", ".data['weight']"),
    ("g.update_all(lambda e: {'m': 1.0}, fn.sum('m', 'h'))", "float for 'm'", "expected a tensor"),
    ("g.update_all(lambda e: {'m': e.src['x'].sum(0)}, fn.sum('m', 'h'))", "(8,)", "number of edges"),
    ("g.update_all(fn.copy_u('x', 'm'), lambda n: {'h': n.mailbox['m'].sum()})", "'h' of shape ()", "number of nodes"),
    ("h.update_all(fn.copy_u('x', 'm'), fn.sum('m', 'h'), etype='likes')", "'likes' does not exist", "'rates'"),
    ("h.multi_update_all([(fn.copy_u('x', 'm'), fn.sum('m', 'h'))], 'sum')", "dictionary", "got list", "'rates'"),
    ("h.multi_update_all({'rates': fn.copy_u('x', 'm')}, 'sum')", "copy_u('x', 'm')", "(message, reduce[, apply])"),
    ("g.apply_nodes(fn.copy_u('x', 'm'))", "MessageFunction cannot be called", "batch of nodes", "nodes.data['h']"),
    ("g.apply_edges(lambda e: e.src['x'] * e.dst['x'])", "returned Tensor", "{'h': x}"),
    ("g.filter_edges('w')", "function of a batch", "got 'w'"),
    ("g.filter_nodes(lambda n: n.data['x'])", "shape (4, 8)", "booleans", "(4,)"),
    ("dglite.ops.gspmm(g, 'mul', 'avg', x, torch.rand(4, 1))", "'avg'", "mean"),
    ("dglite.ops.u_mul_e_sum(g, torch.rand(4, 1), 'w')", "got str", "one row per edge"),
    ("g.update_all(fn.copy_u('x', 'm'))", "no reduce function", "fn.sum('m', 'h')"),
    ("g.update_all(fn.copy_u('x', 'm'), lambda n: {'h': n.mailbox['x'].sum(1)})", "no 'x' on the messages", "'m'"),
    ("g.update_all(lambda e: None, fn.sum('m', 'h'))", "returned NoneType", "{'h': x}"),
    ("g.apply_edges(lambda e: {'s': e.dst['z']})", "no 'z' on the destination nodes", "'x'"),
    ("h.update_all(fn.copy_u('z', 'm'), fn.sum('m', 'h'), etype='rates')", "no column 'z'", "'rates'"),
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
    ("GATConv(8, 3, 1)(g, GATConv(8, 4, 2)(g, x))", "(4, 2, 4)", "8"),
    ("GraphConv(8, 2)(g, x.to('meta'))", "meta", "cpu"),
    ("GraphConv('8', 2)", "GraphConv: in_feats must be an integer", "'8'"),
    ("GraphConv(8, 2, activation='relu')(g, x)", "activation must be a function", "torch.relu", "'relu'"),
    ("GraphConv(8, 2)(g, x, torch.rand(4))", "weight=False", "edge_weight="),
    ("GraphConv(8, 2)(g, x, edge_weight='w')", "edge_weight is of type str", "each of the 4 edges"),
    ("GraphConv(8, 2)(g, x.T)", "(8, 4)", "4 source nodes"),
    ("GraphConv(8, 2)(g, g.ndata)", "feat is of type Frame", "expected a tensor"),
    ("GraphConv(8, 2)([g, g], x)", "GraphConv takes a graph", "got list"),
    ("GraphConv(8, 2)(g.adj(), x)", "GraphConv takes a graph", "SparseMatrix"),
    ("GATConv(8, 2, num_heads=0)", "GATConv: num_heads must be an integer >= 1", "0"),
    ("GATConv(8, 2, '2')", "GATConv: num_heads must be an integer", "'2'"),
    ("GATv2Conv(8, 2, 0)", "GATv2Conv: num_heads must be an integer >= 1"),
    ("DotGatConv(8, 2, 2.0)", "DotGatConv: num_heads must be an integer", "2.0"),
    ("EGATConv(8, 4, 2, 2, 2)(g, x, torch.rand(4, 5))", "EGATConv: efeats has shape (4, 5)", "4)"),
    ("GINConv(8, 2)", "apply_func must be a module", "torch.nn.Linear", "got 8"),
    ("NNConv(8, 2, 16)", "edge_func must be a module", "in_feats * out_feats", "got 16"),
    ("ChebConv(8, 2, 0)", "ChebConv: k must be an integer >= 1"),
    ("GlobalAttentionPooling(3)", "gate_nn must be a module", "torch.nn.Linear(feats, 1)"),
    ("SumPooling()(x, g)", "SumPooling takes a graph", "graph first"),
    ("AvgPooling()(g, x[:3])", "(3, 8)", "each of the 4 nodes"),
    ("JumpingKnowledge()(x)", "list of tensors", "one tensor"),
    ("HeteroGraphConv([SAGEConv(4, 2, 'mean')])", "dictionary from edge type to layer", "got list"),
    ("HeteroGraphConv({'rates': SAGEConv(4, 2, 'mean')})(g, xs)", "['item', 'user']", "['_N']"),
    ("HeteroLinear(4, 2)", "dictionary from type to size", "got 4"),
    ("RelGraphConv(8, 2, 3)(g, x, torch.tensor([0, 1, 2, 7]))", "7", "0 to 2"),
    ("NodeEmbedding('emb', 4, 8)", "num_embeddings must be an integer", "'emb'"),
    ("GNNExplainer(GraphConv(8, 2), 1).explain_node(g, 0, x)", "got int", "explain_node(node_id, graph, feat)"),
    ("GATConv(8, 2, heads=2)", "GATConv() got", "'heads'", "in dglite: num_heads"),
    ("GraphConv(in_channels=8, out_channels=2)", "'in_channels'", "in dglite: in_feats"),
    ("SAGEConv(8, 2, aggr='mean')", "'aggr'", "in dglite: aggregator_type"),
    ("GraphConv(8, 2, directed=True)", "'directed'", "it takes in_feats, out_feats, norm"),
    ("GraphConv(8, 2, activasion=torch.relu)", "did you mean 'activation'?"),
    ("GATConv(8, 2, 2, concat=False)", "'concat'", ".flatten(1)"),
    ("RelGraphConv(8, 2, 3)(g, x)", "etypes is missing", "(num_edges,)", "dglite.ETYPE"),
    ("RelGraphConv(8, 2, 3)(g, x, torch.zeros(4))", "integers", "float32"),
    ("NNConv(8, 2, torch.nn.Linear(1, 5))(g, x, torch.rand(4, 1))", "edge_func makes 5", "16", "8 * 2"),
    ("NNConv(8, 2, torch.nn.Linear(1, 5), 'max')(g, x, torch.rand(4, 1))", "edge_func makes 5", "16"),
    ("GINEConv()(g, x, torch.rand(4, 3))", "GINEConv: edge_feat has shape (4, 3)", "torch.nn.Linear"),
    ("GraphConv(8, 2)(g, (x,))", "GraphConv: feat is a tuple of 1", "pair (source, destination)"),
    ("GraphConv(8, 2)(g, None)", "feat is missing", "4 source nodes"),
    ("SGConv(8, 2, k='2')", "SGConv: k must be an integer", "'2'"),
    ("APPNPConv(2.5, 0.1)", "APPNPConv: k must be an integer", "2.5"),
    ("GraphConv(8, 2)([dgl.to_block(g)], x)", "GraphConv takes a graph", "GraphConv(blocks[0], x)"),
    ("GraphConv(8, 2)([g, g], g.ndata['x'])", "dglite.batch(graphs)"),
    ("dgl.nn.Sequential(GraphConv(8, 4), torch.nn.ReLU())(g, x)", "ReLU takes features only", "activation=torch.relu"),
    ("GlobalAttentionPooling(torch.nn.Linear(8, 2))(g, x)", "gate_nn made (4, 2)", "(4, 1)"),
    ("TypedLinear(8, 2, 3)(x, torch.tensor([0, 1, 2, 9]))", "9", "0 to 2"),
    ("EdgePredictor('mul')", "'mul'", "dot"),
    ("GraphConv(8, 2)()", "missing a required argument: 'graph'", "GraphConv(graph, feat, weight=None"),
    ("GraphConv(8, 2)(g)", "missing a required argument: 'feat'", "GraphConv(graph, feat, weight=None"),
    ("SAGEConv(8, 2, 'mean')(x)", "missing a required argument: 'feat'", "SAGEConv(graph, feat"),
    ("EGATConv(8, 4, 2, 2, 2)(g, x)", "missing a required argument: 'efeats'", "EGATConv(graph, nfeats, efeats"),
    ("SumPooling()(g)", "missing a required argument: 'feat'", "SumPooling(graph, feat)"),
    ("HeteroGraphConv({'rates': SAGEConv(4, 2, 'mean')})(h)", "missing a required argument: 'inputs'"),
    ("TypedLinear(8, 2, 3)(x)", "missing a required argument: 'x_type'", "TypedLinear(x, x_type"),
    ("GraphConv(8, 2)(g, x, None, None, 5)", "too many positional arguments", "GraphConv(graph, feat"),
    ("GATConv(8, 2, 2)(x=x, edge_index=edge_index)", "'x'", "conv(g, x)", "it takes graph, feat"),
    ("GraphConv(8, 2)(g, x, edge_weights=torch.rand(4))", "'edge_weights'", "did you mean 'edge_weight'?"),
    ("GraphConv(8, 2)(graph=g, features=x)", "'features'", "did you mean 'feat'?"),
    ("GraphConv(8, 2)(edge_index=edge_index, feat=x)", "'edge_index'", "a graph comes first"),
    ("GraphConv(8, 2).to('meta')(g, x)", "GraphConv: the parameters are on meta", "graph on cpu, feat on cpu"),
    ("GATConv(8, 2, 2)(g, x.to('meta'))", "GATConv: the parameters are on cpu", "feat on meta", "layer.to(device)"),
    ("TypedLinear(8, 2, 3).to('meta')(x, torch.zeros(4).long())", "rows on cpu", "matrices on meta"),
    ("SAGEConv((8,), 2, 'mean')", "SAGEConv: in_feats", "pair (source, destination)", "(8,)"),
    ("ChebConv(8, 2, 2)(g, x, lambda_max='a')", "lambda_max must be numbers", "'a'"),
    ("GNNExplainer(lambda g, x: x, 1)", "model must be a torch.nn.Module"),
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
    ("DataLoader(g, torch.arange(4), NeighborSampler)", "NeighborSampler is a class", "NeighborSampler(...)"),
    ("DataLoader(g, torch.arange(4), [2, 2])", "list is no sampler", "NeighborSampler([10, 10])"),
    ("DataLoader(g, g.ndata['x'], NeighborSampler([2]))", "indices must be integers", "float32"),
    ("DataLoader(g, torch.arange(4), NeighborSampler([2]), batchsize=2)", "'batchsize'", "did you mean 'batch_size'?"),
    ("list(DataLoader(g, torch.arange(4), NeighborSampler([2]), device='gpu'))", "no device 'gpu'", "'cuda'"),
    ("DataLoader(h, torch.arange(2), NeighborSampler([2]))", "['item', 'user']", "dictionary by node type"),
    ("DataLoader(h, {'movie': torch.arange(2)}, NeighborSampler([2]))", "'movie' does not exist", "'user'"),
    ("NeighborSampler(2)", "list of one fan-out for each layer", "got 2"),
    ("NeighborSampler(g, [2])", "list of one fan-out", "got Graph("),
    ("list(DataLoader(g, [0], NeighborSampler([2.5])))", "fan-out of layer 0 must be an integer", "2.5"),
    ("list(DataLoader(g, [0], NeighborSampler([2], prefetch_node_feats='x')))", "list of names", "write ['x']"),
    ("as_edge_prediction_sampler(5)", "5 is no sampler", "NeighborSampler([10, 10])"),
    ("as_edge_prediction_sampler(NeighborSampler([2]), negative_sampler=5)", "got 5", "negative_sampler.Uniform(5)"),
    ("GraphDataLoader(g)", "list of graphs, got one graph", "DataLoader(g, node_ids"),
    ("GraphDataLoader([g, g], sampler=NeighborSampler([2]))", "sampler must be a list of positions"),
    ("dgl.sampling.sample_neighbors(g, 2, [0])", "fanout must be an integer", "[0]"),
    ("dgl.sampling.random_walk(h, [0], length=2)", "one edge type", "metapath"),
    ("dgl.sampling.random_walk(h, [0], metapath=['rates', 'follows'])", "cannot follow", "another node type"),
    ("dgl.data.KarateClubDataset[0]", "is a class", "KarateClubDataset()[0]"),
    ("dgl.data.KarateClubDataset()[1]", "one graph, number 0", "got 1"),
    ("dgl.data.KarateClubDataset().ndata", "no attribute 'ndata'", "g = dataset[0]"),
    ("dgl.data.MiniGCDataset(5, 10, 20)[7]", "no graph 7", "numbers 0 to 4"),
    ("NeighborSampler([])", "fanouts is empty", "[10, 10]"),
    ("NeighborSampler([10], prob='p').sample(g, torch.tensor([0]))", "prob='p'", "['five', 'w']"),
    ("DataLoader(g, 'train', NeighborSampler([2]))", "indices must be integers", "text"),
    ("DataLoader(g, torch.arange(4), NeighborSampler([2]), batch_size='2')", "batch_size must be an integer", "'2'"),
    ("dgl.sampling.random_walk(g, [9], length=3)", "9 does not exist"),
    ("ClusterGCNSampler(x, 2)", "takes a graph", "torch.Tensor"),
    ("dgl.data.MiniGCDataset('5', 10, 20)", "num_graphs must be an integer", "'5'"),
    ("dgl.sampling.node2vec_random_walk(g, [0], p='a', q=1, walk_length=2)", "p must be a number", "'a'"),
    ("dgl.NodeEmbedding(4, 2, 'by number')(1)", "tensor of integers", "got 1"),
    ("dgl.NodeEmbedding(4, 2, 'by floats')(torch.tensor([0.5]))", "tensor of integers", "0.5"),
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
    ("dgl.edge_softmax", "it is dglite.ops.edge_softmax"),
    ("dgl.GraphConv", "it is dglite.nn.GraphConv"),
    ("dgl.DataLoader", "it is dglite.dataloading.DataLoader"),
    ("dgl.data.CoraGraphDatset", "did you mean 'CoraGraphDataset'?"),
    ("g.cuda()", "g = g.to('cuda')"),
    ("g.copy()", "g.clone()"),
    ("g.requires_grad_()", "no attribute 'requires_grad_'"),
    ("g.to_homogeneous()", "it is a function, dglite.to_homogeneous"),
    ("g.summary()", "it is a function, dglite.summary"),
    ("g.has_edge(0, 1)", "g.has_edges_between(u, v)"),
    ("g.save('x')", "dglite.save_graphs"),
    ("g.is_connected()", "networkx.is_weakly_connected"),
    ("__import__('dglite.nn.pytorch', fromlist=['x']).GCNConv", "dglite.nn.GraphConv(in_feats, out_feats)"),
    ("__import__('dglite.nn.pytorch', fromlist=['x']).GATv3Conv", "did you mean 'GATv2Conv'?"),
    ("dgl.set_default_backend", "no attribute 'set_default_backend'"),
    ("dgl.transform.add_self_loop(g)", "did you mean 'transforms'?"),
]

SETTINGS = [
    ("setattr(g, 'num_nodes', 5)", "g.num_nodes is a method", "g.add_nodes(num)", "num_nodes=5"),
    ("setattr(g, 'update_all', None)", "g.update_all is a method of graphs", "another name"),
    ("setattr(g, 'adjacency', x)", "g.adjacency is a method of graphs", "another name"),
    ("setattr(g, 'ndata', {'h': x})", "g.ndata is a property", "g.ndata['h'] = tensor", "g.ndata.update("),
    ("setattr(g, 'edata', {})", "g.edata is a property", "g.edata['h'] = tensor", "del g.edata['h']"),
    ("setattr(dgl.to_block(g), 'srcdata', {})", "g.srcdata is a property", "g.srcdata['h'] = tensor"),
    ("setattr(g, 'device', 'cuda')", "g.device is a property", "g = g.to('cuda')"),
    ("setattr(g, 'idtype', torch.int32)", "g.idtype is a property", "g.int()"),
    ("setattr(g, 'ntypes', ['user'])", "types are fixed", "dglite.heterograph"),
    ("setattr(g, 'batch_size', 2)", "dglite.batch(graphs)", "g.set_batch_num_nodes"),
    ("setattr(g, 'nodes', [0])", "g.add_nodes(num)", "g.ndata"),
    ("delattr(g, 'ndata')", "cannot be deleted", "del g.ndata['h'] drops one"),
    ("g.__setitem__('x', x)", "g['x'] cannot be set", "g.ndata['h'] = tensor"),
    ("g.__delitem__(0)", "g[0] cannot be deleted", "g.remove_nodes(ids)"),
    ("g.nodes.__setitem__('x', x)", "NodeView['x'] cannot be set", "g.ndata['h'] = tensor"),
    ("g.edges.__delitem__(0)", "EdgeView[0] cannot be set or deleted", "g.remove_edges(ids)"),
    ("g.nodes[0].__setitem__('x', x)", "Space['x'] cannot be set", "write .data['h'] = tensor"),
    ("setattr(h.nodes['user'], 'data', {})", "Space.data cannot be set", "write .data['h'] = tensor"),
    ("g.ndata.__setitem__('z', pd.DataFrame({'a': [1, 2, 3, 4]}))", "got DataFrame", "table.to_numpy()"),
    ("g.ndata.__setitem__('z', ['a', 'b', 'c', 'd'])", "feature 'z' of the nodes must be a tensor", "list"),
    ("g.ndata.__setitem__('z', torch.tensor(1.0))", "shape ()", "one row for each node"),
    ("g.ndata.__setitem__('z', None)", "must be a tensor, got NoneType"),
    ("g.ndata.__setitem__(('x', 'y'), x)", "name must be a string", "('x', 'y')"),
    ("dgl.DGLGraph(g)", "DGLGraph already", "g.clone()"),
    ("dgl.DGLGraph((0, 1), 'x')", "num_nodes must be an integer", "'x'"),
    ("dgl.graph(([True, False], [False, True]))", "must be integers, got booleans"),
    ("dgl.graph((None, [1]))", "source nodes must be integers", "None"),
    ("dgl.graph(([0], [1]), num_nodes=-1)", "num_nodes must be an integer >= 0, got -1"),
    ("dgl.batch([g, edge_index])", "item 1 is a Tensor", "list of graphs"),
    ("dgl.slice_batch(g, 3)", "graph 3 does not exist", "1 graphs"),
    ("dgl.node_homophily(g, 'y')", "g.ndata['y']"),
    ("dgl.node_homophily(g, x)", "integer for each of the 4 nodes", "(4, 8)"),
    ("DeepWalk(x)", "takes a graph", "(4, 8)"),
    ("NeighborSampler([2]).sample([0], g)", "takes a graph", "list"),
    ("g.update_all(lambda e: {'m': e.src('x')}, fn.sum('m', 'h'))", "read by name, ['x']", "not called"),
    ("g.update_all(fn.copy_u('x', 'm'), lambda n: {'h': n.mailbox['m'].max(1)})", "max for 'h'", "[0]"),
    ("g.update_all(lambda e: {'m': np.ones(4)}, fn.sum('m', 'h'))", "ndarray for 'm'", "expected a tensor"),
    ("g.apply_edges(lambda e: {'s': torch.ones(3)})", "(3,)", "number of edges"),
    ("g.apply_edges('u_dot_v')", "'u_dot_v' is not a message function", "fn.copy_u('h', 'm')"),
    ("SAGEConv(8, 2, 'mean', activation=torch.nn.ReLU)(g, x)", "the class ReLU", "ReLU()"),
    ("GINConv(torch.nn.Linear)", "apply_func is the class Linear", "torch.nn.Linear("),
    ("GraphConv(8, 2)(g, pd.DataFrame(x.numpy()))", "feat is of type DataFrame", "expected a tensor"),
    ("GraphConv(g, x)", "in_feats must be an integer", "Graph("),
    ("GraphConv(8, 2)(g, [x])", "feat is of type list", "expected a tensor"),
    ("HeteroGraphConv({'rates': SAGEConv(4, 2, 'mean')}, aggregate='avg')", "'avg'", "mean"),
    ("JumpingKnowledge('concat')", "'concat'", "'cat'"),
    ("PNAConv(8, 2, ['average'], ['identity'], 1.0)", "'average' is not known", "mean"),
    ("DataLoader(g, range(10), NeighborSampler([2]))", "4 does not exist", "0 to 3"),
    ("DataLoader(g, torch.arange(4), NeighborSampler([2]), shuffle='yes')", "True or False", "'yes'"),
    ("NeighborSampler([2], edge_dir='both')", "'both'", "'in' or 'out'"),
    ("MultiLayerFullNeighborSampler([10])", "num_layers must be an integer", "[10]"),
    ("SAINTSampler('nodes', 5)", "'nodes'", "'node', 'edge' or 'walk'"),
    ("dgl.sampling.random_walk(g, [0])", "metapath", "length"),
    ("dgl.sampling.select_topk(g, 1, 'nope')", "'nope' is not an edge feature", "'w'"),
    ("dgl.sparse.spmm(g, x)", "takes a sparse matrix", "DGLGraph"),
    ("dgl.optim.SparseAdam(GraphConv(8, 2).parameters(), lr=0.1)", "NodeEmbedding", "torch.optim"),
    ("dgl.RandomNodeSplit(num_val=9, num_test=9)(g)", "num_val=9", "up to 4"),
    ("dgl.from_pandas(pd.DataFrame({'u': [0]}))", "['u']", "target="),
]

MODULES = [
    ("GINConv(torch.nn.Linear(5, 2))(g, x)", "GINConv: its module apply_func, Linear", "(4, 8)", "in_features=8"),
    (
        "GINConv(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(5, 2)))(g, x)",
        "GINConv: its module apply_func.2, Linear",
        "(4, 4)",
        "in_features=4",
    ),
    ("GINEConv(torch.nn.Linear(5, 2))(g, x, torch.rand(4, 8))", "GINEConv: its module apply_func", "in_features=8"),
    ("GlobalAttentionPooling(torch.nn.Linear(5, 1))(g, x)", "its module gate_nn, Linear", "(4, 8)", "in_features=8"),
    ("NNConv(8, 2, torch.nn.Linear(3, 16))(g, x, torch.rand(4, 1))", "NNConv", "last Linear has shape (4, 1)", "3)"),
    ("SAGEConv(8, 2, 'mean', norm=torch.nn.BatchNorm1d(3))(g, x)", "SAGEConv: its module norm, BatchNorm1d", "(4, 2)"),
    ("JumpingKnowledge()([x, x[:3]])", "JumpingKnowledge", "(4, 8), (3, 8)", "one shape"),
]

MISTAKES = [*GRAPHS, *FEATURES, *MESSAGES, *LAYERS, *LOADERS, *NAMES, *SETTINGS, *MODULES, *MORE]


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
        "pd": pandas,
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
    if "from_pyg(" in expression:
        pytest.importorskip("torch_geometric")
    if "export(" in expression and not has_torch("2.7"):
        pytest.skip("needs torch 2.7 or newer")
    with pytest.raises(Exception) as caught:
        eval(expression, namespace())
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert len(message) < 500, "a message that nobody reads to its end"


def test_there_are_750_mistakes() -> None:
    assert len({row[0] for row in MISTAKES}) == len(MISTAKES) >= 750


@pytest.mark.parametrize(
    "line",
    [
        "from dglite.nn import GCNConv",
        "from dglite import Data",
        "from dglite.data import Planetoid",
    ],
)
def test_imports_of_missing_names_say_it_too(line: str) -> None:
    with pytest.raises(ImportError, match="in dglite: "):
        exec(line)


_TABLES = (hints._NAMES, hints._ATTRIBUTES, arguments._OF_LAYERS, arguments._OF_FUNCTIONS)


def test_counterparts_exist() -> None:
    """Every dotted name of dglite that a hint gives can be read."""
    texts = [text for table in (*_TABLES, hints._CONVERTED) for text in table.values()]
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


def test_an_argument_that_does_not_fit_is_explained_and_errors_from_within_are_not() -> None:
    @arguments.explained
    def scaled(values: list[float], factor: float = 2.0) -> list[float]:
        return [value * factor for value in sorted(values)]

    assert scaled([2.0, 1.0]) == [2.0, 4.0] and scaled.__name__ == "scaled"
    with pytest.raises(
        TypeError, match=r"scaled\(\) got an unexpected keyword argument 'facto'; did you mean 'factor'"
    ):
        scaled([1.0], facto=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"missing a required argument: 'values'; it is called as scaled\(values, fa"):
        scaled()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="not iterable"):
        scaled(5)  # type: ignore[arg-type]


def test_a_call_that_failed_names_the_argument_unless_its_error_was_raised_on_purpose() -> None:
    @arguments.explained
    def times(values: Sequence[str], flag: bool = False, note: Any = None) -> list[str]:
        if note:
            raise TypeError(note)
        return [value * 2 for value in values] if flag else []

    assert times(["a"], True) == ["aa"]
    with pytest.raises(dglite.DGLError, match="times: values must be a list of names, got 5") as caught:
        times(5, True)  # type: ignore[arg-type]
    assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(dglite.DGLError, match="times: flag must be True or False, got tensor"):
        times(["a"], torch.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError):  # of another function, and every argument is what its annotation says
        times(["a"], note=len)
    assert times(5) == []  # type: ignore[arg-type]


def test_features_that_are_no_attributes_are_not_listed() -> None:
    g = dglite.rand_graph(3, 3)
    assert {"x", "label", "w"}.isdisjoint(name for name in dir(g.ndata) if name != "label")
    assert not hasattr(g.ndata, "x") and g.ndata.label == "node"


def test_a_reducer_that_is_not_fused_names_its_line() -> None:
    def spread(nodes: Any) -> dict[str, Any]:
        messages = nodes.mailbox["m"]
        return {"h": messages.std(1, unbiased=False)}

    g = namespace()["g"]
    plan = str(dglite.explain(g, dglite.function.copy_u("x", "m"), spread))
    line = spread.__code__.co_firstlineno + 2
    assert f'as a tensor: line {line}, return {{"h": messages.std(1, unbiased=False)}}' in plan, plan
