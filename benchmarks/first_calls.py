"""The first call of public functions: CPU seconds with an empty kernel cache, and with a full one.

    python benchmarks/first_calls.py            some minutes
    python benchmarks/first_calls.py --only walk topk

Each case runs in a process of its own, forked from one that has imported dglite, but not yet its compiler. What counts
is the case and all that it needs: importing the compiler, compiling, sorting edges. Time is that of all threads on the
CPU, not by the clock. Modules are there as bytecode, as pip leaves them.
"""

from __future__ import annotations

import compileall
import gc
import os
import pickle
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import parser, save, table
from layers import CASES as LAYERS
from layers import Data, prepared, step_of

import dglite as dgl
from dglite import dataloading, geometry, metrics, nn, ops, sampling, sparse
from dglite import function as fn

LIMIT = 2.0
"""CPU seconds that no first call should take."""
NUM_NODES, NUM_EDGES, WIDTH = 1_000, 8_000, 16

GRAPHS = """
dgl.graph((src, dst))
g.in_degrees(); g.out_degrees()
g.formats("csr").create_formats_()
g.adj_external(); g.adj_tensors("csc")
g.adjacency_matrix()
g.incidence_matrix("both")
g.edges(order="srcdst")
g.in_edges(seeds, "all"); g.out_edges(seeds, "all")
g.find_edges(seeds)
g.has_edges_between(src, dst)
g.edge_ids(src, dst)
g.predecessors(1); g.successors(1)
g.is_multigraph
g.to_networkx()
dgl.from_networkx(g.to_networkx())
dgl.from_scipy(g.adj_external(scipy_fmt="csr"))
dgl.add_edges(g, src, dst); dgl.add_nodes(g, 5)
dgl.remove_edges(g, seeds)
dgl.remove_nodes(g, seeds)
dgl.heterograph(relations)
dgl.batch(graphs)
dgl.unbatch(dgl.batch(graphs))
dgl.slice_batch(dgl.batch(graphs), 1)
dgl.merge([g, g])
dgl.rand_graph(1000, 8000)
dgl.rand_bipartite("u", "e", "v", 1000, 1000, 8000)
dgl.rand_power_law_graph(1000, 8000)
dgl.to_homogeneous(h)
dgl.to_heterogeneous(dgl.to_homogeneous(h), h.ntypes, h.etypes)
dgl.save_graphs(file, [g])
dgl.save_graphs(file, [g]); dgl.load_graphs(file)
g.in_subgraph(seeds); g.out_subgraph(seeds)
dgl.node_subgraph(g, seeds)
dgl.edge_subgraph(g, seeds)
dgl.khop_in_subgraph(g, seeds, 2); dgl.khop_out_subgraph(g, seeds, 2)
dgl.bfs_nodes_generator(g, seeds)
dgl.bfs_edges_generator(g, seeds)
dgl.dfs_edges_generator(g, [0])
dgl.dfs_labeled_edges_generator(g, [0], has_reverse_edge=True, has_nontree_edge=True)
dgl.topological_nodes_generator(dag)
dgl.data.KarateClubDataset()[0]
dgl.data.MiniGCDataset(4, 10, 20)[0]
dgl.data.BAShapeDataset(num_base_nodes=50, num_base_edges_per_node=2, num_motifs=5)[0]
dgl.data.SBMMixtureDataset(1, 100, 2)[0]
dgl.data.AsLinkPredDataset(dgl.data.KarateClubDataset(), [0.8, 0.1, 0.1])[0]
g.has_nodes(seeds); g.subgraph(seeds); g.filter_nodes(lambda nodes: nodes.data["t"] > 500); g.local_var()
g.filter_edges(lambda edges: edges.data["p"] > 0.5); g.adj(); g.all_edges("all"); g.batch_num_nodes()
dgl.node_type_subgraph(h, ["user"]); dgl.edge_type_subgraph(h, ["follows"])
dgl.create_block((src, dst)); dgl.hetero_from_relations([g]); dgl.bipartite((src, dst))
dgl.bipartite_from_scipy(g.adj_external(scipy_fmt="csr"), "u", "e", "v")
dgl.to_half(g); dgl.to_bfloat16(g); dgl.to_double(g); dgl.to_float(g)
dgl.node_homophily(g, labels); dgl.edge_homophily(g, labels); dgl.linkx_homophily(g, labels)
dgl.adjusted_homophily(g, labels); dgl.node_label_informativeness(g, labels); dgl.edge_label_informativeness(g, labels)
g.adjacency(); g.adjacency_matrix_scipy(); g.adj_sparse("csc"); g.inc("in"); g.reverse(); g.subgraphs([seeds])
g.in_degree(1); g.out_degree(1); g.has_node(1); g.has_edge_between(0, 1); g.edge_ids_of((src, dst)); g.node_ids(seeds)
g.restrict_format("csr"); g.to_format("csc"); g.astype(torch.int32); g.cpu(); g.clone(); g.local_scope()
dgl.data.BACommunityDataset(50, 2, 5, num_inter_edges=10, seed=0)[0]; dgl.data.TreeCycleDataset(3, 2, 5, seed=0)[0]
dgl.data.TreeGridDataset(3, 2, 2, seed=0)[0]
dgl.data.AsNodePredDataset(dgl.data.KarateClubDataset(), [0.6, 0.2, 0.2])[0]
dgl.data.split_dataset(graphs, [0.5, 0.5, 0.0])
metrics.roc_auc(torch.rand(100), torch.rand(100)); metrics.mrr(torch.rand(100), torch.rand(100, 9))
metrics.average_precision(torch.rand(100), torch.rand(100)); metrics.hits_at_k(torch.rand(100), torch.rand(100, 9), 3)
"""

MESSAGES = """
g.update_all(fn.copy_u("x", "m"), fn.sum("m", "y"))
step(lambda: (g.update_all(fn.u_mul_e("x", "w", "m"), fn.mean("m", "y")), g.ndata["y"])[1])
g.update_all(lambda edges: {"m": edges.src["x"] * 2}, lambda nodes: {"y": nodes.mailbox["m"].sum(1)})
g.update_all(fn.copy_u("x", "m"), lambda nodes: {"y": nodes.mailbox["m"].sort(1).values[:, 0]})
g.apply_edges(fn.u_dot_v("x", "x", "s"))
g.apply_edges(lambda edges: {"s": edges.src["x"] + edges.dst["x"]})
g.group_apply_edges("src", lambda edges: {"s": edges.src["x"].softmax(1)})
g.send_and_recv(seeds, fn.copy_u("x", "m"), fn.sum("m", "y"))
g.send(seeds, fn.copy_u("x", "m")); g.recv(seeds, fn.prod("m", "y"))
g.update_all(fn.copy_u("x", "m"), fn.logsumexp("m", "y"))
g.pull(seeds, fn.copy_u("x", "m"), fn.sum("m", "y"))
g.push(seeds, fn.copy_u("x", "m"), fn.sum("m", "y"))
h.multi_update_all({e: (fn.copy_u("x", "m"), fn.max("m", "y")) for e in h.canonical_etypes}, "sum")
dgl.prop_nodes_topo(dag, fn.copy_u("x", "m"), fn.sum("m", "x"))
dgl.prop_nodes_bfs(g, 0, fn.copy_u("x", "m"), fn.sum("m", "x"))
dgl.prop_edges_dfs(g, 0, fn.copy_u("x", "m"), fn.sum("m", "x"))
dgl.prop_nodes(g, [seeds, seeds + 1], fn.copy_u("x", "m"), fn.sum("m", "x"))
dgl.prop_edges(g, [seeds, seeds + 1], fn.copy_u("x", "m"), fn.sum("m", "x"))
g.apply_nodes(lambda nodes: {"y": nodes.data["x"] * 2})
step(lambda: ops.gspmm(g, "mul", "sum", x, w)); step(lambda: ops.gsddmm(g, "dot", x, x))
step(lambda: ops.gatv2_attention(g, heads, heads, heads[0]))
dgl.explain(g, fn.copy_u("x", "m"), fn.sum("m", "y"))
step(lambda: ops.copy_u_sum(g, x))
step(lambda: ops.u_mul_e_max(g, x, w))
step(lambda: ops.u_add_e_logsumexp(g, x, w))
step(lambda: ops.u_add_v(g, x, x))
step(lambda: ops.u_dot_v(g, x, x))
step(lambda: ops.edge_softmax(g, w))
step(lambda: ops.gat_attention(g, heads[:, :, 0], heads[:, :, 0], heads))
step(lambda: ops.dot_attention(g, heads, heads))
step(lambda: ops.segment_reduce(lengths, x, "max"))
step(lambda: ops.segment_softmax(lengths, x))
step(lambda: ops.segment_mm(x, weights, lengths))
step(lambda: ops.gather_mm(x, weights, idx_b=torch.randint(4, (1000,))))
step(lambda: dgl.sum_nodes(batch, "x")); step(lambda: dgl.max_nodes(batch, "x"))
step(lambda: dgl.mean_edges(batch, "w")); dgl.broadcast_nodes(batch, torch.rand(2, 3))
step(lambda: dgl.softmax_nodes(batch, "x"))
step(lambda: dgl.softmax_edges(batch, "w")); dgl.broadcast_edges(batch, torch.rand(2, 3))
step(lambda: dgl.mean_nodes(batch, "x")); step(lambda: dgl.sum_edges(batch, "w"))
step(lambda: dgl.max_edges(batch, "w"))
dgl.readout_nodes(batch, "x"); dgl.readout_edges(batch, "w")
dgl.topk_nodes(batch, "x", 3)
dgl.topk_nodes(batch, "x", 3, sortby=0)
step(lambda: dgl.topk_edges(batch, "w", 3)[0])
"""

TRANSFORMS = """
dgl.add_self_loop(g); dgl.remove_self_loop(g)
dgl.reverse(g); dgl.add_reverse_edges(g)
dgl.to_bidirected(g)
dgl.to_simple(g, return_counts="n")
dgl.line_graph(g)
dgl.khop_graph(g, 2)
dgl.khop_adj(g, 2)
dgl.metapath_reachable_graph(h, ["follows", "follows"])
dgl.adj_product_graph(dag, dag, "w"); dgl.adj_sum_graph([dag, dag], "w")
dgl.compact_graphs(dgl.graph((src[:50], dst[:50]), num_nodes=1000))
dgl.to_block(g, torch.arange(1000))
dgl.block_to_graph(dgl.to_block(g, torch.arange(1000)))
dgl.sort_csr_by_tag(g, labels)
dgl.reorder_graph(g, "rcmk")
dgl.reorder_graph(g, "custom", permute_config={"nodes_perm": list(range(999, -1, -1))})
dgl.partition_graph_with_halo(g, torch.randint(2, (1000,)), 1)
dgl.lap_pe(small, 4); dgl.laplacian_lambda_max(small)
dgl.random_walk_pe(g, 4)
dgl.norm_by_dst(g); dgl.LaplacianPE(4)(small); dgl.RandomWalkPE(4)(g); dgl.SVDPE(4)(small)
dgl.Compose([dgl.AddSelfLoop(), dgl.RemoveSelfLoop(), dgl.AddReverse(), dgl.ToSimple(), dgl.LineGraph()])(small)
dgl.KHopGraph(2)(small)
dgl.svd_pe(small, 4)
dgl.shortest_dist(g)
dgl.double_radius_node_labeling(g, 0, 1)
dgl.knn_graph(points, 4)
dgl.knn_graph(points, 4, "kd-tree")
dgl.knn_graph(points, 4, "bruteforce-sharemem")
dgl.knn_graph(points, 4, "nn-descent")
dgl.segmented_knn_graph(points, 4, [500, 500])
dgl.radius_graph(points, 0.1)
geometry.farthest_point_sampler(points[None], 10)
geometry.neighbor_matching(g)
dgl.GCNNorm()(g)
dgl.PPR(avg_degree=4)(small)
dgl.HeatKernel(avg_degree=4)(small)
dgl.GDC([0.2, 0.3, 0.5], avg_degree=4)(small)
dgl.SIGNDiffusion(2, in_feat_name="x")(g)
dgl.DropEdge()(g); dgl.DropNode()(g); dgl.AddEdge()(g); dgl.NodeShuffle()(g)
dgl.FeatMask(node_feat_names=["x"])(g); dgl.RowFeatNormalizer(node_feat_names=["x"])(g)
dgl.ToLevi()(g); dgl.AddMetaPaths({"two": [("user", "follows", "user")] * 2})(h)
"""

SAMPLING = """
sampling.sample_neighbors(g, seeds, 3)
sampling.sample_neighbors(g, seeds, 3, replace=True, edge_dir="out")
sampling.sample_neighbors(g, seeds, 3, prob="p")
sampling.sample_neighbors(g, seeds, 3, exclude_edges=seeds)
sampling.sample_neighbors_biased(dgl.sort_csc_by_tag(g, labels), seeds, 3, [1.0, 2.0, 1.0, 3.0])
sampling.sample_etype_neighbors(dgl.to_homogeneous(h), seeds, [0, h.num_edges("follows"), h.num_edges()], [2, 2])
sampling.sample_labors(g, seeds, 3)
sampling.sample_labors(g, seeds, 3, prob="p", importance_sampling=1)
sampling.sample_neighbors_fused(g, seeds, 3)
sampling.latest_neighbors(g, seeds, NUM_EDGES, 3)
sampling.select_topk(g, 3, "p")
sampling.random_walk(g, seeds, length=4)
sampling.random_walk(g, seeds, length=4, prob="p", restart_prob=0.1, return_eids=True)
sampling.node2vec_random_walk(g, seeds, 0.5, 2.0, 4)
sampling.node2vec_random_walk(g, seeds, 0.5, 2.0, 4, prob="p")
sampling.pack_traces(*sampling.random_walk(g, seeds, length=4))
sampling.PinSAGESampler(pages, "item", "user", 2, 0.5, 3, 4)(torch.arange(20))
sampling.RandomWalkNeighborSampler(g, 2, 0.5, 3, 4, ["_E"])(seeds)
sampling.global_uniform_negative_sampling(g, 100)
batch_of(dataloading.NeighborSampler([3, 3]))
batch_of(dataloading.NeighborSampler([3, 3], prob="p"))
batch_of(dataloading.NeighborSampler([3, 3], prefetch_node_feats=["x"]))
batch_of(dataloading.MultiLayerFullNeighborSampler(2))
batch_of(dataloading.LaborSampler([3, 3]))
batch_of(dataloading.ShaDowKHopSampler([3, 3]))
batch_of(dataloading.SAINTSampler("node", 50)); batch_of(dataloading.SAINTSampler("edge", 50))
batch_of(dataloading.SAINTSampler("walk", (50, 2)))
batch_of(dataloading.as_edge_prediction_sampler(dataloading.NeighborSampler([3]), exclude="self", \
negative_sampler=dataloading.negative_sampler.Uniform(2)))
batch_of(dataloading.as_edge_prediction_sampler(dataloading.NeighborSampler([3]), \
negative_sampler=dataloading.negative_sampler.GlobalUniform(2)))
batch_of(dataloading.NeighborSampler([3, 3], time="t", edge_time="t"))
batch_of(dataloading.NeighborSampler([3, 3], time="t", edge_time="t", temporal_strategy="last"))
batch_of(dataloading.as_edge_prediction_sampler(dataloading.NeighborSampler([3]), \
negative_sampler=dataloading.negative_sampler.Historical(2)))
next(iter(dataloading.GraphDataLoader(graphs, batch_size=2)))
dgl.inference(nn.GraphConv(16, 16, allow_zero_in_degree=True), g, x, batch_size=500)
"""

SPARSE = """
sparse.from_coo(src, dst); sparse.identity((5, 5)); sparse.diag(torch.rand(5))
sparse.from_csr(indptr, dst); sparse.from_csc(indptr, src)
step(lambda: sparse.spmm(A, x)); step(lambda: A @ x)
step(lambda: sparse.bspmm(sparse.val_like(A, torch.rand(A.nnz, 2)), torch.rand(1000, 16, 2)))
step(lambda: sparse.sddmm(A, x, x.T).val)
step(lambda: sparse.spspmm(A, A).val)
step(lambda: (A + A).val); step(lambda: (A * 2).val)
step(lambda: sparse.softmax(A).val)
step(lambda: sparse.sum(A, 0)); step(lambda: sparse.smax(A, 1)); sparse.sprod(A, 0)
A.coalesce(); A.transpose(); A.csr(); A.to_dense()
A.index_select(0, seeds); A.range_select(1, slice(0, 50)); A.sample(0, 2, seeds)
A.compact(0)
step(lambda: sparse.smean(A, 0)); step(lambda: sparse.smin(A, 1)); step(lambda: sparse.reduce(A, 0, "smean"))
step(lambda: sparse.matmul(A, x)); step(lambda: sparse.bsddmm(A, torch.rand(1000, 16, 2), torch.rand(16, 1000, 2)).val)
(A - A).val; (A / 2).val; (-A).val; (A**2).val; sparse.inv(sparse.diag(torch.rand(5) + 1))
sparse.sp_broadcast_v(A, torch.rand(1, 1000), "mul"); sparse.sp_add_v(A, torch.rand(1, 1000))
sparse.to_torch_sparse_coo(A); sparse.to_torch_sparse_csr(A); sparse.to_torch_sparse_csc(A)
sparse.from_torch_sparse(sparse.to_torch_sparse_coo(A))
"""

OTHERS = """
from dglite import dynamic; y = dynamic.lazy(x); dynamic.run([y[0].sum(), y[1].sum()])
step(lambda: nn.functional.cross_entropy(x, labels))
nn.NodeEmbedding(1000, 16, "e")(seeds)
nn.DeepWalk(g, walk_length=10).sample([0, 1, 2, 3])
nn.MetaPath2Vec(pages, ["buys", "bought"], 1).sample([0, 1])
nn.LabelPropagation(2, 0.5)(g, labels)
step(lambda: nn.JumpingKnowledge("max")([x, x]))
step(lambda: nn.HeteroGraphConv({e: nn.GraphConv(16, 16, allow_zero_in_degree=True) for e in h.etypes})(h, hx)["user"])
step(lambda: nn.TypedLinear(16, 16, 4)(x, labels))
step(lambda: nn.DotGatConv(16, 8, 2, allow_zero_in_degree=True)(g, x))
step(lambda: nn.EdgePredictor("cos")(x, x))
step(lambda: nn.TGATConv(16, 1, 8, 16)(g, x, g.edata["t"], w))
nn.DegreeEncoder(8, 16)(torch.randint(9, (2, 2, 5)))
nn.KNNGraph(4)(points); nn.RadiusGraph(0.1)(points); nn.SegmentedKNNGraph(4)(points, [500, 500])
nn.GNNExplainer(explained(), 1, num_epochs=2, log=False).explain_node(1, g, x)
step(lambda: nn.SumPooling()(batch, batch.ndata["x"]))
"""


class Names(dict[str, Any]):
    """What the cases refer to; graphs and tensors of them are made when a case names them first."""

    def __init__(self) -> None:
        super().__init__(dgl=dgl, dataloading=dataloading, fn=fn, geometry=geometry, metrics=metrics)
        self |= {"nn": nn, "ops": ops, "NUM_EDGES": NUM_EDGES, "sampling": sampling, "sparse": sparse, "torch": torch}
        random = np.random.default_rng(0)
        self["src"], self["dst"] = (torch.from_numpy(random.integers(NUM_NODES, size=NUM_EDGES)) for _ in range(2))
        self["x"] = torch.from_numpy(random.random((NUM_NODES, WIDTH), dtype=np.float32)).requires_grad_()
        self["heads"], self["points"] = self["x"].view(NUM_NODES, 2, 8), self["x"][:, :3].detach()
        self["w"] = torch.from_numpy(random.random((NUM_EDGES, 1), dtype=np.float32)).requires_grad_()
        self["labels"] = torch.from_numpy(random.integers(4, size=NUM_NODES))
        self["seeds"], self["lengths"] = torch.arange(0, 1000, 10), torch.full((4,), NUM_NODES // 4)
        self["indptr"], self["weights"] = torch.arange(0, NUM_EDGES + 1, 8), torch.rand(4, WIDTH, WIDTH)
        self |= {"step": step, "batch_of": self.batch_of, "explained": explained}

    def __missing__(self, name: str) -> Any:
        make = getattr(self, f"make_{name}", None)
        if make is None:
            raise KeyError(name)
        self[name] = make()
        return self[name]

    def make_g(self) -> dgl.DGLGraph:
        g = dgl.graph((self["src"], self["dst"]), num_nodes=NUM_NODES)
        g.ndata["x"], g.edata["w"], g.edata["p"] = self["x"], self["w"], self["w"][:, 0].detach()
        g.ndata["t"], g.edata["t"] = torch.arange(NUM_NODES), torch.arange(NUM_EDGES)
        return g

    def make_small(self) -> dgl.DGLGraph:
        return dgl.graph((torch.arange(50), torch.arange(50).roll(1)))

    def make_dag(self) -> dgl.DGLGraph:
        src, dst = torch.minimum(self["src"], self["dst"]), torch.maximum(self["src"], self["dst"])
        dag = dgl.graph((src[src < dst], dst[src < dst]), num_nodes=NUM_NODES)
        dag.ndata["x"], dag.edata["w"] = self["x"].detach(), torch.rand(dag.num_edges())
        return dag

    def make_relations(self) -> dict[tuple[str, str, str], Any]:
        ends = self["src"], self["dst"]
        return {("user", "follows", "user"): ends, ("item", "liked", "user"): ends}

    def make_h(self) -> dgl.DGLGraph:
        h = dgl.heterograph(self["relations"], {"user": NUM_NODES, "item": NUM_NODES})
        h.ndata["x"] = self["hx"]
        return h

    def make_hx(self) -> dict[str, torch.Tensor]:
        return {"user": self["x"], "item": self["x"]}

    def make_pages(self) -> dgl.DGLGraph:
        src, dst = self["src"], self["dst"]
        return dgl.heterograph({("user", "buys", "item"): (src, dst), ("item", "bought", "user"): (dst, src)})

    def make_graphs(self) -> list[dgl.DGLGraph]:
        graphs = [dgl.graph((torch.arange(size), torch.arange(size).roll(1))) for size in (400, 600)]
        for graph in graphs:
            graph.ndata["x"], graph.edata["w"] = (torch.rand(graph.num_nodes(), WIDTH) for _ in range(2))
        return graphs

    def make_batch(self) -> dgl.DGLGraph:
        batch = dgl.batch(self["graphs"])
        batch.ndata["x"].requires_grad_()
        batch.edata["w"].requires_grad_()
        return batch

    def make_A(self) -> sparse.SparseMatrix:
        return sparse.spmatrix(torch.stack([self["src"], self["dst"]]), self["w"][:, 0], (NUM_NODES, NUM_NODES))

    def make_file(self) -> str:
        return os.path.join(tempfile.mkdtemp(dir=os.environ["DGLITE_CACHE_DIR"]), "graphs")

    def batch_of(self, sampler: Any) -> Any:
        """Return the first batch of a loader."""
        loader = dataloading.DataLoader(self["g"], self["seeds"], sampler, batch_size=50)
        batch = next(iter(loader))
        if isinstance(batch, tuple) and isinstance(batch[-1], list):
            batch[-1][0].srcdata.get("x", None)
        return batch


def step(forward: Callable[[], torch.Tensor]) -> None:
    """Compute, and the gradient."""
    result = forward()
    if result.requires_grad:
        result.sum().backward()


def explained() -> torch.nn.Module:
    """Return a model to explain."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GraphConv(WIDTH, 4, allow_zero_in_degree=True)

        def forward(self, graph: Any, feat: Any, eweight: Any = None) -> Any:
            return self.layer(graph, feat, edge_weight=eweight)

    return Model()


# -- measuring ---------------------------------------------------------------------------------------------------------
def all_cases() -> dict[str, Callable[[], Any]]:
    """Return what runs, by title."""
    cases: dict[str, Callable[[], Any]] = {}
    for texts in (GRAPHS, MESSAGES, TRANSFORMS, SAMPLING, SPARSE, OTHERS):
        for text in texts.strip().splitlines():
            cases[text] = lambda text=text: exec(text, Names())
    for case in LAYERS:
        cases[f"nn.{case.title}, step"] = lambda case=case: layer_step(case)
    return cases


def layer_step(case: Any) -> None:
    """Do a training step of a layer."""
    data = Data(NUM_NODES, NUM_EDGES)
    step_of(*prepared(case, "dglite", data, data.graphs("dglite", case)[0]))()


def in_fork(run: Callable[[], Any], folder: str) -> float | str:
    """Return the CPU seconds of a run in a process of its own with this kernel cache, or its error."""
    gc.collect()
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.close(read)
        os.environ["DGLITE_CACHE_DIR"] = folder
        start = time.process_time()
        try:
            run()
            result: float | str = time.process_time() - start
        except BaseException:
            result = traceback.format_exc()
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else "the process ended"


def measure(title: str, run: Callable[[], Any]) -> dict[str, Any]:
    """Return the seconds of a case with an empty and with a full cache."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (in_fork(run, folder) for _ in range(2))
    for actual in (cold, warm):
        if isinstance(actual, str):
            raise SystemExit(f"{title}\n{actual}")
    return {"call": title, "cold": cold, "warm": warm}


def first_calls_table(records: list[dict[str, Any]]) -> str:
    """Return one row per case, the slowest first."""
    rows = [
        [f"`{r['call']}`", f"{r['cold']:.2f}", f"{r['warm']:.2f}"]
        for r in sorted(records, key=lambda record: -record["cold"])
    ]
    return table(["first call", "empty cache, s", "full cache, s"], rows)


def main() -> None:
    """Measure, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--only", nargs="*", default=[], help="cases with one of these in them; results are not kept")
    given = options.parse_args()
    assert "llvmlite" not in sys.modules, "a process that forks must not have the compiler"
    compileall.compile_dir(os.path.dirname(dgl.__file__), quiet=1)
    records = []
    for title, run in all_cases().items():
        if given.only and not any(part in title for part in given.only):
            continue
        records.append(measure(title, run))
        print(f"{records[-1]['cold']:5.2f} {records[-1]['warm']:5.2f}  {title}", flush=True)
    print(f"\n{first_calls_table(records)}")
    cold = [record["cold"] for record in records]
    print(f"\nmedian {statistics.median(cold):.2f} s, over {LIMIT:g} s: {sum(c > LIMIT for c in cold)} of {len(cold)}")
    if not given.only and not given.quick:
        save("first_calls", {"records": records})


if __name__ == "__main__":
    main()
