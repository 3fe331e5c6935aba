"""Programs that say nothing of the framework: run under one backend, they write down what came out.

    DGLITE_BACKEND=numpy python tests/backend/product.py results.npz [CASE ...]

Each case, or each that is named, returns arrays by name. ``test_product.py`` runs them under torch and under the
others, and compares. With ``PRODUCT_TENSORS=numpy`` or ``torch`` the tensors are another library's than the backend's.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import dglite
import dglite.function as fn
from dglite import nn, ops, sampling, transforms
from dglite import sparse as dglsp
from dglite.backend import active
from dglite.errors import DGLError
from tests.backend import layers

TENSORS = os.environ.get("PRODUCT_TENSORS", active.name)
framework: Any = importlib.import_module("torch" if TENSORS == "torch" else "dglite.backend.toolkit")
F = framework.nn.functional
CASES: dict[str, Callable[[], dict[str, Any]]] = {}
Case = Callable[[], dict[str, Any]]


def case(name: str) -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        CASES[name] = function
        return function

    return add


def graph() -> dglite.DGLGraph:
    """Return a graph with a hub, a double edge, a self-loop, a node without in-edges and one without edges."""
    return dglite.graph(([0, 1, 2, 3, 4, 4, 1, 2, 2], [1, 1, 1, 1, 2, 2, 3, 2, 4]), num_nodes=6)


def values(*shape: int, seed: int = 0, grad: bool = True) -> Any:
    """Return a float64 tensor that is the same under every backend."""
    array = np.random.default_rng([seed, *shape]).standard_normal(shape) + 2.5 * (seed == 9)
    return framework.tensor(array, requires_grad=grad)


def with_gradients(out: Any, *inputs: Any) -> dict[str, Any]:
    """Return a result and the gradients of its sum, weighted by place."""
    weights = framework.tensor(np.cos(np.arange(out.numel())).reshape(tuple(out.shape)))
    (out * weights.to(out.dtype)).sum().backward()
    return {"out": out, **{f"grad {i}": x.grad for i, x in enumerate(inputs)}}


# -- operations --------------------------------------------------------------------------------------------------------
SHAPES = {"equal": ((6, 3), (9, 3)), "scalar per edge": ((6, 2, 3), (9, 1, 1)), "one number": ((6,), (9,))}


def _add_operations() -> None:
    for op, reducer, shapes in itertools.product(("mul", "add", "sub", "div"), ("sum", "mean", "max", "min"), SHAPES):

        def run(op: str = op, reducer: str = reducer, shapes: str = shapes) -> dict[str, Any]:
            x, w = values(*SHAPES[shapes][0]), values(*SHAPES[shapes][1], seed=9)
            return with_gradients(ops.gspmm(graph(), op, reducer, x, w), x, w)

        CASES[f"gspmm {op} {reducer}, {shapes}"] = run
    for op, (lhs, rhs) in itertools.product(("mul", "add", "dot"), itertools.permutations("uve", 2)):

        def apply(op: str = op, lhs: str = lhs, rhs: str = rhs) -> dict[str, Any]:
            rows = {"u": 6, "v": 6, "e": 9}
            x, y = values(rows[lhs], 2, 3), values(rows[rhs], 2, 3, seed=1)
            return with_gradients(ops.gsddmm(graph(), op, x, y, lhs, rhs), x, y)

        CASES[f"gsddmm {lhs} {op} {rhs}"] = apply


_add_operations()


@case("edge_softmax")
def _() -> dict[str, Any]:
    x = values(9, 2, 1)
    return with_gradients(ops.edge_softmax(graph(), x), x)


@case("segment_reduce")
def _() -> dict[str, Any]:
    x = values(9, 2)
    parts = [ops.segment_reduce([2, 0, 7], x, how) for how in ("sum", "mean", "max", "min")]
    return with_gradients(framework.cat([*parts, ops.segment_softmax([2, 0, 7], x)]), x)


@case("attention")
def _() -> dict[str, Any]:
    x, left, right, weight = values(6, 2, 4), values(6, 2, seed=1), values(6, 2, seed=2), values(9, seed=3)
    out = ops.gat_attention(graph(), left, right, x, dropout=0.3, edge_weight=weight, seed=5)
    return with_gradients(out, x, left, right, weight)


@case("dot and GATv2 attention")
def _() -> dict[str, Any]:
    x, y, attn = values(6, 2, 4), values(6, 2, 4, seed=1), values(2, 4, seed=2)
    out = ops.dot_attention(graph(), x, y, 0.5) + ops.gatv2_attention(graph(), x, y, attn)
    return with_gradients(out, x, y, attn)


# -- messages ----------------------------------------------------------------------------------------------------------
def _message(edges: Any) -> dict[str, Any]:
    return {"m": F.leaky_relu(edges.src["h"] * edges.data["w"] + edges.dst["h"], 0.1)}


REDUCERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "recorded": lambda nodes: {"h": nodes.mailbox["m"].sum(1) + nodes.mailbox["m"].mean(1) * nodes.data["h"]},
    "extremum": lambda nodes: {"h": nodes.mailbox["m"].max(1)[0]},
    "softmax": lambda nodes: {"h": (nodes.mailbox["m"] * F.softmax(nodes.mailbox["m"], 1)).sum(1)},
    "in buckets": lambda nodes: {"h": nodes.mailbox["m"].sort(1).values[:, 0] * nodes.mailbox["m"].shape[1]},
}


def _add_reducers() -> None:
    for name, reducer in REDUCERS.items():

        def run(reducer: Callable[[Any], Any] = reducer) -> dict[str, Any]:
            g, h, w = graph(), values(6, 3), values(9, 1, seed=1)
            g.ndata["h"], g.edata["w"] = h, w
            g.update_all(_message, reducer, lambda nodes: {"h": nodes.data["h"] * 2})
            return with_gradients(g.ndata["h"], h, w)

        CASES[f"update_all, reducer {name}"] = run


_add_reducers()


@case("plans")
def _() -> dict[str, Any]:
    g = graph()
    g.ndata["h"], g.edata["w"] = values(6, 3), values(9, 1, seed=1)
    recorded = [dglite.explain(g, _message, reducer) for reducer in REDUCERS.values()]
    return {str(i): np.array(str(plan).replace("torch.", "")) for i, plan in enumerate(recorded)}


@case("verbs")
def _() -> dict[str, Any]:
    g, h = graph(), values(6, 3)
    g.ndata["h"] = h
    g.apply_edges(fn.u_sub_v("h", "h", "d"))
    g.apply_edges(lambda edges: {"n": edges.data["d"].norm(2, 1)}, [0, 2, 4])
    g.send([0, 1, 2], fn.copy_u("h", "m"))
    g.recv([1], fn.max("m", "top"))
    g.send_and_recv(([1, 2], [3, 4]), fn.u_mul_v("h", "h", "m"), fn.sum("m", "some"))
    g.pull([2, 4], fn.copy_u("h", "m"), fn.mean("m", "pulled"))
    g.push([4], fn.copy_u("h", "m"), fn.min("m", "pushed"))
    g.group_apply_edges("dst", lambda edges: {"s": edges.data["d"].softmax(1)})
    g.apply_nodes(lambda nodes: {"h2": nodes.data["h"].tanh()}, [0, 5])
    out = framework.cat([g.ndata[k] for k in ("top", "some", "pulled", "pushed", "h2")], 1)
    edges = framework.cat([g.edata["s"], g.edata["n"].unsqueeze(1)], 1)
    return with_gradients(framework.cat([out.sum(1), edges.sum(1)]), h)


@case("propagation and filters")
def _() -> dict[str, Any]:
    g = dglite.graph(([0, 0, 1, 2], [1, 2, 3, 3]))
    h = values(4, 2)
    g.ndata["h"] = h
    dglite.prop_nodes_topo(g, fn.copy_u("h", "m"), fn.sum("m", "h"))
    chosen = g.filter_nodes(lambda nodes: nodes.data["h"][:, 0] > 0)
    return {**with_gradients(g.ndata["h"], h), "chosen": chosen}


@case("heterogeneous")
def _() -> dict[str, Any]:
    g = dglite.heterograph({("u", "a", "v"): ([0, 1, 1], [0, 0, 1]), ("u", "b", "v"): ([0, 0], [1, 1])})
    x, w = values(2, 3), values(2, 3, seed=1)
    g.nodes["u"].data["h"], g.edges["b"].data["w"] = x, w
    relations = {
        "a": (fn.copy_u("h", "m"), fn.sum("m", "o")),
        "b": (fn.u_mul_e("h", "w", "m"), lambda nodes: {"o": nodes.mailbox["m"].mean(1)}),
    }
    g.multi_update_all(relations, "stack")
    return with_gradients(g.nodes["v"].data["o"], x, w)


# -- graphs ------------------------------------------------------------------------------------------------------------
@case("readout and batches")
def _() -> dict[str, Any]:
    g, h = dglite.batch([graph(), graph()]), values(12, 2)
    g.ndata["h"], g.edata["w"] = h, values(18, 2, seed=1, grad=False)
    top, places = dglite.topk_nodes(g, "h", 2, sortby=0)
    parts = [dglite.sum_nodes(g, "h"), dglite.mean_nodes(g, "h"), dglite.max_nodes(g, "h"), dglite.sum_edges(g, "w")]
    parts += [top.reshape(2, -1), dglite.softmax_nodes(g, "h")[:2], dglite.broadcast_nodes(g, parts[0])[:2]]
    back = dglite.unbatch(g)[1]
    return {
        **with_gradients(framework.cat(parts, 1), h),
        "places": places,
        "ids": back.edges()[0],
        "h": back.ndata["h"],
    }


@case("mutation and initializers")
def _() -> dict[str, Any]:
    g = graph()
    g.ndata["h"], g.edata["w"] = values(6, 2, grad=False), framework.tensor(np.arange(9.0))
    g.add_nodes(2)
    g.add_edges([6, 7], [0, 1], {"w": framework.tensor([8.0, 9.0], dtype=framework.float64)})
    g.remove_edges([0])
    g.remove_nodes([1])
    g.ndata["h"][0] = 3
    g.nodes[[0, 2]].data["h"] = framework.zeros(2, 2, dtype=framework.float64)
    return {
        "h": g.ndata["h"],
        "w": g.edata["w"],
        "src": g.edges()[0],
        "degrees": g.in_degrees(),
        "ids": g.int().nodes(),
    }


@case("subgraphs")
def _() -> dict[str, Any]:
    g = graph()
    g.ndata["h"], g.edata["w"] = values(6, 2, grad=False), values(9, seed=1, grad=False)
    part, hops = dglite.node_subgraph(g, [1, 2, 4]), dglite.khop_in_subgraph(g, [3], 2)[0]
    other = dglite.edge_subgraph(g, g.edata["w"] > 0)
    return {
        "h": part.ndata["h"],
        "ids": hops.ndata["_ID"],
        "w": other.edata["w"],
        "block": dglite.to_block(dglite.in_subgraph(g, [1]), [1]).srcnodes(),
    }


@case("transforms")
def _() -> dict[str, Any]:
    g = graph()
    g.ndata["h"], g.edata["w"] = values(6, 2, grad=False), values(9, seed=9, grad=False).abs()
    simple = transforms.to_simple(g, aggregator="sum", copy_edata=True)
    both = transforms.to_bidirected(dglite.add_self_loop(transforms.reverse(g, copy_edata=True)))
    near = dglite.knn_graph(g.ndata["h"], 2)
    compose = transforms.Compose([transforms.AddSelfLoop(), transforms.GCNNorm(), transforms.SIGNDiffusion(2, "h")])(g)
    walks = dglite.random_walk_pe(both, 2)
    halves = dglite.to_homogeneous(dglite.to_heterogeneous(dglite.to_homogeneous(g), ["n"], ["e"]))
    return {
        "w": simple.edata["w"],
        "src": both.edges()[0],
        "near": near.edges()[0],
        "norm": compose.edata["w"],
        "diffused": compose.ndata["out_feat_2"],
        "walks": walks,
        "half": dglite.to_half(g).ndata["h"],
        "types": halves.ndata["_TYPE"],
        "line": dglite.line_graph(g).edges()[1],
        "distances": dglite.shortest_dist(g, 0),
        "moments": dglite.laplacian_lambda_max(both),
    }


@case("traversal")
def _() -> dict[str, Any]:
    g = dglite.graph(([0, 0, 1, 2], [1, 2, 3, 3]))
    frontiers = [
        *dglite.bfs_nodes_generator(g, 0),
        *dglite.topological_nodes_generator(g),
        *dglite.dfs_edges_generator(g, 0),
    ]
    return {str(i): frontier for i, frontier in enumerate(frontiers)}


@case("sampling")
def _() -> dict[str, Any]:
    g = dglite.rand_graph(50, 400)
    dglite.seed(3)
    g = dglite.rand_graph(50, 400)
    g.edata["p"] = np.linspace(0.1, 1, 400)
    near = sampling.sample_neighbors(g, [1, 2, 3], 4, prob="p")
    walk, _ = sampling.random_walk(g, [1, 2], length=3)
    top = sampling.select_topk(g, 2, "p", nodes=[5])
    return {
        "near": near.edges()[0],
        "p": near.edata["p"] if "p" in near.edata else g.edata["p"][near.edata["_ID"]],
        "walk": walk,
        "top": top.edges()[0],
        "pairs": sampling.global_uniform_negative_sampling(g, 5)[0],
        "labor": sampling.sample_labors(g, [4, 5], 3)[0].edges()[0],
    }


@case("files")
def _() -> dict[str, Any]:
    g = graph()
    g.ndata["h"], g.edata["i"] = values(6, 2, grad=False), framework.tensor(np.arange(9))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graphs.bin"
        dglite.save_graphs(path, [g, g], {"y": framework.tensor([1, 0])})
        graphs, labels = dglite.load_graphs(path, [1])
        return {"h": graphs[0].ndata["h"] + 0, "i": graphs[0].edata["i"] + 0, "y": labels["y"] + 0}


@case("exchange")
def _() -> dict[str, Any]:
    g = dglite.from_scipy(scipy.sparse.coo_array(([1.5, 2.5], ([0, 1], [1, 0])), (2, 2)), eweight_name="w")
    club = dglite.to_networkx(g, edge_attrs=["w"])
    again = dglite.from_networkx(club, edge_attrs=["w"])
    return {"w": g.edata["w"], "again": again.edata["w"]}


@case("sparse matrices")
def _() -> dict[str, Any]:
    val, x = values(4), values(3, 2, seed=1)
    a = dglsp.spmatrix(framework.tensor([[0, 1, 1, 2], [2, 0, 1, 1]]), val, (3, 3))
    out = (a @ x) + ((a @ a.T).softmax() @ x) + (a + a) @ x + dglsp.sddmm(a, x, x.T).sum(1).unsqueeze(1)
    return {**with_gradients(out, val, x), "dense": a.to_dense()}


# -- layers ------------------------------------------------------------------------------------------------------------
LAYERS: dict[str, Callable[[], Any]] = {
    "GraphConv": lambda: nn.GraphConv(5, 3, activation=F.relu),
    "GraphConv right": lambda: nn.GraphConv(3, 5, norm="right"),
    "SAGEConv mean": lambda: nn.SAGEConv(5, 3, "mean", activation=F.elu),
    "SAGEConv gcn": lambda: nn.SAGEConv(5, 3, "gcn"),
    "SAGEConv pool": lambda: nn.SAGEConv(5, 3, "pool"),
    "SAGEConv lstm": lambda: nn.SAGEConv(5, 3, "lstm"),
    "GATConv": lambda: nn.GATConv(5, 3, 2, residual=True),
    "GATConv pair": lambda: nn.GATConv((5, 5), 3, 2),
    "GATv2Conv": lambda: nn.GATv2Conv(5, 3, 2, share_weights=True, residual=True),
    "DotGatConv": lambda: nn.DotGatConv(5, 3, 2),
    "MaxPooling": lambda: nn.MaxPooling(),
    "SortPooling": lambda: nn.SortPooling(2),
    "WeightAndSum": lambda: nn.WeightAndSum(5),
    "GlobalAttentionPooling": lambda: nn.GlobalAttentionPooling(framework.nn.Linear(5, 1)),
    "Set2Set": lambda: nn.Set2Set(5, 3, 2),
}


def filled(layer: Any) -> Any:
    """Give a layer parameters that are the same under every backend."""
    for i, (_, x) in enumerate(sorted(layer.named_parameters())):
        if x.requires_grad:
            with framework.no_grad():
                x.copy_(values(*tuple(x.shape), seed=i, grad=False))
    return layer


def _add_layers() -> None:
    for name, make in LAYERS.items():

        def run(name: str = name, make: Callable[[], Any] = make) -> dict[str, Any]:
            g, layer = dglite.add_self_loop(graph()), filled(make())
            size = getattr(layer, "_in_feats", 5)
            x = framework.tensor(values(6, size, grad=False).numpy().astype(np.float32), requires_grad=True)
            parameters = [parameter for _, parameter in sorted(layer.named_parameters())]
            return with_gradients(layer(g, (x, 2 * x) if "pair" in name else x), x, *parameters)

        CASES[f"layer {name}"] = run


_add_layers()


def _tensors_of(value: Any, inputs: list[Any]) -> Any:
    """Return arguments with tensors for arrays, and note those with a gradient in ``inputs``."""
    if isinstance(value, np.ndarray):
        result = framework.tensor(value, requires_grad=value.dtype.kind == "f")
        inputs += [result] if result.requires_grad else []
        return result
    if isinstance(value, dict):
        return {key: _tensors_of(part, inputs) for key, part in value.items()}
    return type(value)(_tensors_of(part, inputs) for part in value) if isinstance(value, list | tuple) else value


def _joined(result: Any) -> Any:
    """Return all numbers of a layer's result, which may be several tensors."""
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, tuple) else (result,)
    return framework.cat([part.reshape(-1) for part in parts])


def _add_table() -> None:
    for name, (g, make, arguments) in layers.CASES.items():

        def run(g: Any = g, make: Callable[[], Any] = make, arguments: Any = arguments) -> dict[str, Any]:
            layer, inputs = filled(make().double()), []
            given = _tensors_of(arguments, inputs)
            trained = [(name, x) for name, x in sorted(layer.named_parameters()) if x.requires_grad]
            result = layer(*given) if g is None else layer(g, *given)
            grads = {"result": result} if not inputs and not trained else with_gradients(_joined(result), *inputs)
            grads |= {name: x.grad for name, x in trained}
            grads |= dict(layer.named_buffers())
            return {name: x for name, x in grads.items() if x is not None}

        CASES[f"layer {name} of the table"] = run


_add_table()


@case("layer that makes graphs")
def _() -> dict[str, Any]:
    points = values(6, 2, grad=False)
    makers = nn.KNNGraph(2), nn.RadiusGraph(1.0)
    graphs = [*(make(points) for make in makers), nn.SegmentedKNNGraph(2)(points, [2, 4])]
    return {f"{i} {part}": ends for i, g in enumerate(graphs) for part, ends in enumerate(g.edges())}


@case("sparse features, dropout, weights of edges")
def _() -> dict[str, Any]:
    g = dglite.add_self_loop(graph())
    words = nn.SparseFeatures(scipy.sparse.csr_array(np.eye(6, 8, dtype=np.float32)))
    weight = nn.EdgeWeightNorm("both")(g, framework.tensor(np.linspace(1, 2, 15, dtype=np.float32)))
    layer, drop = filled(nn.GraphConv(8, 3, norm="none")), nn.FeatureDropout(0.5)
    dense = drop(framework.ones(2000))
    kept = (dense > 0).float().mean().item()
    assert 0.4 < kept < 0.6 and sorted(set(dense.tolist())) == [0, 2]
    drop.eval()
    out = layer(g, drop(words), edge_weight=weight) + filled(nn.SparseLinear(8, 3))(words)
    return with_gradients(out, layer.weight)


@case("training")
def _() -> dict[str, Any]:
    model = framework.nn.Sequential(framework.nn.Linear(3, 4), framework.nn.Tanh(), framework.nn.Linear(4, 2))
    x, y = values(6, 3, grad=False).float(), framework.tensor([0, 1, 0, 1, 1, 0])
    results = {}
    for name, make in {
        "Adam": lambda p: framework.optim.Adam(p, lr=0.1, weight_decay=0.01),
        "AdamW": lambda p: framework.optim.AdamW(p, lr=0.1, weight_decay=0.1),
        "SGD": lambda p: framework.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    }.items():
        filled(model)
        optimizer = make(model.parameters())
        for _ in range(5):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        results |= {f"{name} {key}": value for key, value in model.state_dict().items()}
        results = {key: active.copy(value) for key, value in results.items()}
    return results


def needs_layers(name: str) -> bool:
    """Whether a case has layers, which are classes of the backend and take no other library's tensors."""
    return name.startswith("layer ") or name in ("sparse features, dropout, weights of edges", "training")


def to_array(x: Any) -> np.ndarray:
    """Return a result as an array."""
    return active.to_numpy(x) if active.is_tensor(x) else np.asarray(x)


def run(names: list[str]) -> dict[str, np.ndarray]:
    """Return the results of cases by ``case/result``; of a case that fails, its error."""
    results = {}
    for name in names:
        try:
            results |= {f"{name}/{key}": to_array(value) for key, value in CASES[name]().items()}
        except Exception as error:
            results[f"{name}/error"] = np.array(f"{type(error).__name__}: {error}")
    return results


def refusals() -> dict[str, np.ndarray]:
    """Return what each layer of torch alone says when it is made under another backend."""
    messages = {}
    for name, make in layers.NEEDS_TORCH.items():
        try:
            make()
        except DGLError as error:
            messages[f"refused {name}"] = np.array(str(error))
    return messages


if __name__ == "__main__":
    names = sys.argv[2:] or [name for name in CASES if active.name == TENSORS or not needs_layers(name)]
    actual = run([name for name in CASES if name in names])
    assert "torch" in (active.name, TENSORS) or "torch" not in sys.modules
    np.savez(sys.argv[1], **actual, **(refusals() if active.name != "torch" else {}))
