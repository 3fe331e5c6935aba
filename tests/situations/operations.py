"""What is called in every situation: all public operations, methods that send messages, readouts, matrices, layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import dglite
import dglite.function as fn
from dglite import DGLGraph, nn, ops, sparse
from dglite.opspec import MESSAGES
from tests.nn import dense
from tests.nn.cases import CASES
from tests.nn.laws import graph_of, run

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Operation:
    """A function of floating tensors, and the tensors that it is called with; it returns tensors in any structure."""

    name: str
    call: Callable[..., Any]
    inputs: Tensors
    layer: torch.nn.Module | None = None


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return numbers between 0.5 and 1.5, no two of which are equal: no maximum is a draw, every power has a value."""
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.5


G, PAIRS, TYPED = (
    dense.graph(),
    dense.bipartite(),
    dglite.heterograph(
        {
            ("u", "a", "v"): ([0, 1, 1], [0, 0, 1]),
            ("v", "b", "u"): ([0, 0, 1], [1, 1, 0]),
            ("u", "c", "u"): ([0, 1], [1, 1]),
        }
    ),
)
BATCH = dglite.batch([dense.graph(), dglite.graph(([], []), num_nodes=0), dglite.graph(([0, 2], [1, 1]), num_nodes=3)])
NODES, EDGES = G.num_nodes(), G.num_edges()
ROWS = {"u": PAIRS.num_src_nodes(), "v": PAIRS.num_dst_nodes(), "e": PAIRS.num_edges()}


# -- operations by name ------------------------------------------------------------------------------------------------
def shorthands() -> Iterator[Operation]:
    """Return the operations of ``dglite.ops`` that are named by a message, as ``u_mul_e_sum`` is."""
    for name in ops.__all__:
        first, *words = name.split("_")
        if first == "copy":
            sides = [words[0]]
        elif first in ROWS and words[0] in MESSAGES:
            sides = [first, words[1]]
        else:
            continue
        inputs = tuple(numbers(ROWS[side], 2, 3, seed=i) for i, side in enumerate(sides))
        yield Operation(name, partial(getattr(ops, name), PAIRS), inputs)


MATRICES = numbers(3, 4, 2, seed=5)
TYPES = torch.tensor([2, 0, 2, 1])
LENGTHS = torch.tensor([2, 0, NODES - 2])
HEADS = numbers(NODES, 2), numbers(NODES, 2, seed=1), numbers(NODES, 2, 3, seed=2)
X, Y, E = numbers(NODES, 4), numbers(NODES, 4, seed=3), numbers(EDGES, 4, seed=4)
OTHER_OPERATIONS: dict[str, tuple[Callable[..., Any], Tensors]] = {
    "gspmm": (lambda x, e: ops.gspmm(G, "add", "mean", x, e), (X, E)),
    "gspmm copy_rhs": (lambda e: ops.gspmm(G, "copy_rhs", "max", None, e), (E,)),
    "gsddmm": (lambda x, e: ops.gsddmm(G, "sub", x, e, "v", "e"), (X, E)),
    "edge_softmax": (partial(ops.edge_softmax, G), (E,)),
    "edge_softmax by source": (lambda e: ops.edge_softmax(G, e, norm_by="src"), (E,)),
    "edge_softmax of some": (lambda e: ops.edge_softmax(G, e, eids=[3, 0, 5]), (E[:3],)),
    "edge_softmax of types": (
        lambda a, b: ops.edge_softmax(TYPED, {("v", "b", "u"): a, ("u", "c", "u"): b}),
        (numbers(3, 2), numbers(2, 2)),
    ),
    "gat_attention": (partial(ops.gat_attention, G), HEADS),
    "gat_attention weighted": (
        lambda *xs: ops.gat_attention(G, *xs[:3], edge_weight=xs[3], ee=xs[4]),
        (*HEADS, numbers(EDGES), numbers(EDGES, 2)),
    ),
    "gatv2_attention": (partial(ops.gatv2_attention, G), (HEADS[2], numbers(NODES, 2, 3, seed=7), numbers(2, 3))),
    "dot_attention": (partial(ops.dot_attention, G), (HEADS[2], numbers(NODES, 2, 3, seed=7))),
    "gather_mm": (lambda x, w: ops.gather_mm(x, w, idx_b=TYPES), (X, MATRICES)),
    "segment_mm": (lambda x, w: ops.segment_mm(x, w, LENGTHS), (X, MATRICES)),
    **{
        f"segment_reduce {reducer}": (lambda x, reducer=reducer: ops.segment_reduce(LENGTHS, x, reducer), (X,))
        for reducer in ("sum", "mean", "max", "min")
    },
    "segment_softmax": (partial(ops.segment_softmax, LENGTHS), (X,)),
}


# -- methods that send messages ----------------------------------------------------------------------------------------
def _gated(edges: Any) -> dict[str, Any]:
    return {"m": torch.sigmoid(edges.src["x"] + edges.dst["x"]) * edges.data["e"]}


def _total(nodes: Any) -> dict[str, Any]:
    return {"out": nodes.mailbox["m"].sum(1) * nodes.data["x"]}


def _sorted(nodes: Any) -> dict[str, Any]:
    return {"out": nodes.mailbox["m"].sort(1)[0][:, 0]}


def _on_nodes(nodes: Any) -> dict[str, Any]:
    return {"out": nodes.data["x"].tanh()}


def _grouped(edges: Any) -> dict[str, Any]:
    return {"out": torch.softmax(edges.data["e"], 1)}


U, V, W = fn.copy_u("x", "m"), fn.u_mul_e("x", "e", "m"), fn.u_sub_v("x", "x", "out")
VERBS: dict[str, Callable[[DGLGraph], Any]] = {
    "update_all": lambda g: g.update_all(V, fn.sum("m", "out")),
    "update_all max": lambda g: g.update_all(U, fn.max("m", "out")),
    "update_all mean and apply": lambda g: g.update_all(U, fn.mean("m", "h"), lambda n: {"out": n.data["h"] + 1}),
    "update_all of a function": lambda g: g.update_all(_gated, fn.sum("m", "out")),
    "update_all of functions": lambda g: g.update_all(_gated, _total),
    "update_all in buckets": lambda g: g.update_all(U, _sorted),
    "apply_edges": lambda g: g.apply_edges(W),
    "apply_edges of a function": lambda g: g.apply_edges(lambda e: {"out": e.src["x"] * e.data["e"].exp()}),
    "apply_edges of some": lambda g: g.apply_edges(W, edges=[0, 3]),
    "apply_nodes": lambda g: g.apply_nodes(_on_nodes),
    "send and recv": lambda g: (g.send(g.edges(), V), g.recv(g.nodes(), fn.sum("m", "out"))),
    "send_and_recv": lambda g: g.send_and_recv([0, 4, 5], V, fn.sum("m", "out")),
    "pull": lambda g: g.pull([1, 2], V, fn.sum("m", "out")),
    "push": lambda g: g.push([1, 2], V, fn.sum("m", "out")),
    "group_apply_edges": lambda g: g.group_apply_edges("dst", _grouped),
    "prop_nodes": lambda g: g.prop_nodes([[0, 1], [2]], U, fn.sum("m", "out")),
}


def _verb(verb: Callable[[DGLGraph], Any], x: torch.Tensor, e: torch.Tensor) -> list[torch.Tensor]:
    with G.local_scope():
        G.ndata["x"], G.edata["e"] = x, e
        verb(G)
        return [frame["out"] for frame in (G.ndata, G.edata) if "out" in frame]


def _of_types(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    with TYPED.local_scope():
        TYPED.nodes["u"].data["x"], TYPED.nodes["v"].data["x"] = x, y
        TYPED.multi_update_all({name: (U, fn.sum("m", "out")) for name in "abc"}, "max")
        return [TYPED.nodes[ntype].data["out"] for ntype in "uv"]


def _columns(x: torch.Tensor) -> Any:
    """What a subgraph and a batch read of features."""
    with G.local_scope():
        G.ndata["x"] = x
        return dglite.node_subgraph(G, [0, 2]).ndata["x"], dglite.batch([G, G]).ndata["x"], G.nodes[[1, 3]].data["x"]


# -- readouts ----------------------------------------------------------------------------------------------------------
def _readout(function: Callable[..., Any], kind: str, args: Sequence[Any], x: torch.Tensor, w: torch.Tensor) -> Any:
    with BATCH.local_scope():
        frame = BATCH.ndata if kind == "nodes" else BATCH.edata
        frame["x"], frame["w"] = x, w
        return function(BATCH, "x", *args)


def readouts() -> Iterator[Operation]:
    """Return all readouts of nodes and of edges, with weights and without."""
    for kind, count in (("nodes", BATCH.num_nodes()), ("edges", BATCH.num_edges())):
        inputs = numbers(count, 3), numbers(count, 1, seed=1)
        for name, args in (
            ("sum", ()),
            ("sum", ("w",)),
            ("mean", ()),
            ("mean", ("w",)),
            ("max", ()),
            ("softmax", ()),
            ("topk", (2,)),
        ):
            function = getattr(dglite, f"{name}_{kind}")
            title = f"{name}_{kind}{' weighted' if args == ('w',) else ''}"
            yield Operation(title, partial(_readout, function, kind, args), inputs)
        broadcast = getattr(dglite, f"broadcast_{kind}")
        yield Operation(f"broadcast_{kind}", partial(broadcast, BATCH), (numbers(BATCH.batch_size, 3),))


# -- sparse matrices ---------------------------------------------------------------------------------------------------
PLACES = torch.tensor([[0, 2, 1, 2, 0], [1, 0, 1, 3, 3]])
OTHER_PLACES = torch.tensor([[3, 1, 0], [2, 0, 1]])


def _A(val: torch.Tensor) -> Any:
    return sparse.spmatrix(PLACES, val, (3, 4))


def _B(val: torch.Tensor) -> Any:
    return sparse.spmatrix(OTHER_PLACES, val, (4, 3))


VALUES, OTHER_VALUES = numbers(5), numbers(3, seed=2)
SPARSE: dict[str, tuple[Callable[..., Any], Tensors]] = {
    "spmm": (lambda a, x: sparse.spmm(_A(a), x), (VALUES, numbers(4, 2))),
    "matmul": (lambda a, x: _A(a) @ x, (VALUES, numbers(4))),
    "bspmm": (lambda a, x: sparse.bspmm(_A(a), x), (numbers(5, 2), numbers(4, 3, 2))),
    "sddmm": (lambda a, x, y: sparse.sddmm(_A(a), x, y).val, (VALUES, numbers(3, 2), numbers(2, 4))),
    "bsddmm": (lambda a, x, y: sparse.bsddmm(_A(a), x, y).val, (numbers(5, 2), numbers(3, 2, 2), numbers(2, 4, 2))),
    "spspmm": (lambda a, b: (_A(a) @ _B(b)).val, (VALUES, OTHER_VALUES)),
    "softmax": (lambda a: sparse.softmax(_A(a)).val, (VALUES,)),
    "add": (lambda a, b: (_A(a) + _B(b).T).val, (VALUES, OTHER_VALUES)),
    "mul": (lambda a, b: (_A(a) * _A(b)).val, (VALUES, VALUES * 2)),
    "mul of others": (lambda a, b: (_A(a) * _B(b).T).val, (VALUES, OTHER_VALUES)),
    "div": (lambda a, b: (_A(a) / _A(b)).val, (VALUES, VALUES * 2)),
    "power, neg": (lambda a: (-(_A(a) ** 2)).val, (VALUES,)),
    "sp_mul_v": (lambda a, v: sparse.sp_mul_v(_A(a), v).val, (VALUES, numbers(4))),
    "sp_add_v": (lambda a, v: sparse.sp_add_v(_A(a), v).val, (VALUES, numbers(3, 1))),
    "diag": (lambda d, x: sparse.diag(d) @ x, (numbers(3), numbers(3, 2))),
    "inv": (lambda d: sparse.diag(d).inv().val, (numbers(3),)),
    "to_dense": (lambda a: _A(a).to_dense(), (VALUES,)),
    "coalesce": (lambda a: sparse.spmatrix(torch.tensor([[0, 0, 1], [1, 1, 0]]), a).coalesce().val, (numbers(3),)),
    "index_select": (lambda a: _A(a).index_select(0, torch.tensor([2, 0])).val, (VALUES,)),
    "range_select": (lambda a: _A(a).range_select(1, slice(1, 4)).val, (VALUES,)),
    "transpose": (lambda a, x: _A(a).T @ x, (VALUES, numbers(3, 2))),
    "csr": (
        lambda a: (
            _A(a).csr()[2]
            if False
            else sparse.spmm(sparse.from_csr(torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1]), a), a[:2, None])
        ),
        (numbers(3),),
    ),
    **{
        f"reduce {name} {dim}": (lambda a, name=name, dim=dim: sparse.reduce(_A(a), dim, name), (VALUES,))
        for name in ("sum", "smax", "smin", "smean", "sprod")
        for dim in (0, 1, None)
    },
}


# -- layers ------------------------------------------------------------------------------------------------------------
def _linear(*sizes: int) -> torch.nn.Module:
    return torch.nn.Linear(*sizes)


A = (numbers(4, 4, seed=9) > 0.8).double()
RELATIONS = torch.tensor([0, 2, 2, 1])
OTHER_LAYERS: dict[str, tuple[Callable[[], Any], DGLGraph | None, tuple[Any, ...]]] = {
    "GraphConv": (lambda: nn.GraphConv(4, 3), G, (X,)),
    "GraphConv weighted": (lambda: nn.GraphConv(4, 5, "right"), G, (X, None, numbers(EDGES))),
    "SAGEConv mean": (lambda: nn.SAGEConv(4, 3, "mean"), G, (X,)),
    "SAGEConv gcn": (lambda: nn.SAGEConv(4, 3, "gcn"), G, (X,)),
    "SAGEConv pool": (lambda: nn.SAGEConv(4, 3, "pool"), G, (X,)),
    "SAGEConv lstm": (lambda: nn.SAGEConv(4, 3, "lstm"), G, (X,)),
    "GATConv": (lambda: nn.GATConv(4, 3, 2, residual=True), G, (X,)),
    "GATv2Conv": (lambda: nn.GATv2Conv(4, 3, 2), G, (X,)),
    "DotGatConv": (lambda: nn.DotGatConv(4, 3, 2), G, (X,)),
    "DenseGraphConv": (lambda: nn.DenseGraphConv(4, 3), None, (A, X)),
    "DenseSAGEConv": (lambda: nn.DenseSAGEConv(4, 3), None, (A, X)),
    "DenseChebConv": (lambda: nn.DenseChebConv(4, 3, 2), None, (A, X, 1.5)),
    "EdgeWeightNorm": (nn.EdgeWeightNorm, G, (numbers(EDGES),)),
    "GroupRevRes": (lambda: nn.GroupRevRes(nn.GraphConv(2, 2), 2), G, (X,)),
    "HeteroGraphConv": (
        lambda: nn.HeteroGraphConv({"a": nn.SAGEConv(4, 3, "mean"), "b": nn.GraphConv(4, 3), "c": nn.GATConv(4, 3, 1)}),
        dglite.heterograph({("u", "a", "v"): ([0, 1, 1], [0, 0, 1]), ("v", "b", "u"): ([0, 0, 1], [1, 1, 0])}),
        ({"u": numbers(2, 4), "v": numbers(2, 4, seed=1)},),
    ),
    "HeteroLinear": (lambda: nn.HeteroLinear({"u": 4, "v": 2}, 3), None, ({"u": X, "v": numbers(3, 2)},)),
    "TypedLinear": (lambda: nn.TypedLinear(4, 6, 3), None, (X, RELATIONS)),
    "TypedLinear sorted": (lambda: nn.TypedLinear(4, 6, 3, "basis", 2), None, (X, RELATIONS.sort()[0], True)),
    "LabelPropagation": (lambda: nn.LabelPropagation(2, 0.5), G, (numbers(NODES, 2), torch.tensor([0, 2]))),
    "Sequential": (lambda: nn.Sequential(nn.GraphConv(4, 4), nn.SAGEConv(4, 3, "mean")), G, (X,)),
    "FeatureDropout": (lambda: nn.FeatureDropout(0.5), None, (X,)),
    "SparseLinear": (lambda: nn.SparseLinear(4, 3), None, (X,)),
    "pairwise_squared_distance": (lambda: nn.pairwise_squared_distance, None, (X,)),
    "KNNGraph": (lambda: lambda x: torch.stack(nn.KNNGraph(2)(x).edges()), None, (X,)),
}
NO_LAYERS = set(
    "functional load_state_dict save_state_dict NodeEmbedding SparseFeatures DeepWalk MetaPath2Vec GNNExplainer "
    "HeteroGNNExplainer HeteroPGExplainer HeteroSubgraphX PGExplainer SubgraphX HeteroEmbedding RadiusGraph "
    "SegmentedKNNGraph DyGFormer EventSequence GraphMixer TGNMemory TimeEncoding".split()
)
"""What is no layer, takes no features or is made of torch's operations alone: an explainer trains; the graphs of points
differ in where they begin."""


def _layer(name: str, layer: Any, graph: DGLGraph | None, inputs: tuple[Any, ...]) -> Operation:
    """Return a layer as a function of the floating tensors among its arguments."""
    leaves, spec = torch.utils._pytree.tree_flatten(inputs)
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.is_floating_point()]

    def call(*xs: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, x in zip(places, xs, strict=True):
            filled[place] = x
        return run(layer, graph, torch.utils._pytree.tree_unflatten(filled, spec))

    module = layer if isinstance(layer, torch.nn.Module) else None
    return Operation(name, call, tuple(leaves[i].detach() for i in places), module)


def layers() -> Iterator[Operation]:
    """Return every layer of ``dglite.nn``, in float64."""
    for case in CASES:
        graph = graph_of(case.graphs[0])
        yield _layer(case.name, case.layer().requires_grad_(False), graph, case.inputs(graph))
    for name, (make, graph, inputs) in OTHER_LAYERS.items():
        torch.manual_seed(0)
        layer = make()
        if isinstance(layer, torch.nn.Module):
            layer = layer.double().eval().requires_grad_(False)
        yield _layer(name, layer, graph, inputs)


def operations() -> list[Operation]:
    """Return all of them."""
    tables = (("ops", OTHER_OPERATIONS), ("sparse", SPARSE))
    named = [Operation(f"{where} {name}", *entry) for where, table in tables for name, entry in table.items()]
    verbs = [Operation(name, partial(_verb, verb), (X, E)) for name, verb in VERBS.items()]
    types = Operation("multi_update_all", _of_types, (numbers(2, 3), numbers(2, 3, seed=1)))
    columns = Operation("columns", _columns, (X,))
    return [*shorthands(), *named, *verbs, types, columns, *readouts(), *layers()]
