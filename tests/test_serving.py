"""Graphs as trees of tensors, and models exported as programs: for other graphs, in other processes, without dglite."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import dglite
import dglite.function as fn
from dglite import DGLError, DGLGraph, ops
from dglite.nn import (
    AGNNConv,
    APPNPConv,
    DotGatConv,
    GATConv,
    GATv2Conv,
    GINConv,
    GraphConv,
    HeteroGraphConv,
    SAGEConv,
    Set2Set,
    SetTransformerDecoder,
    SetTransformerEncoder,
    SortPooling,
    SumPooling,
)
from tests.dynamic.programs import BinaryTreeLSTM
from tests.versions import exports

ROOT = Path(__file__).parents[1]
FULL = os.environ.get("DGLITE_TEST_FULL") == "1"


def homogeneous(num_nodes: int = 6, num_edges: int = 11, seed: int = 0) -> DGLGraph:
    """Return a graph in which every node has a self-loop."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(num_nodes, (2, num_edges), generator=generator)
    loops = torch.arange(num_nodes).expand(2, -1)
    return dglite.graph(tuple(torch.cat([ends, loops], 1)), num_nodes=num_nodes)


def featured() -> DGLGraph:
    g = homogeneous()
    g.ndata["x"], g.ndata[dglite.NID] = torch.randn(6, 3), torch.arange(6)
    g.edata["w"] = torch.randn(g.num_edges(), 1)
    return g


def block(num_src: int = 7, num_dst: int = 4, num_edges: int = 12, seed: int = 0) -> DGLGraph:
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(num_src, (num_edges,), generator=generator)
    dst = torch.cat([torch.arange(num_dst), torch.randint(num_dst, (num_edges - num_dst,), generator=generator)])
    return dglite.create_block((src, dst), num_src_nodes=num_src, num_dst_nodes=num_dst)


def batch(*sizes: int) -> DGLGraph:
    return dglite.batch([homogeneous(size, 2 * size, seed) for seed, size in enumerate(sizes)])


def of_types(users: int = 5, items: int = 4) -> DGLGraph:
    g = dglite.heterograph(
        {
            ("user", "follows", "user"): (torch.arange(users), torch.arange(users).roll(1)),
            ("user", "buys", "item"): (torch.arange(users), torch.arange(users) % items),
        },
        {"user": users, "item": items},
    )
    g.nodes["user"].data["age"] = torch.ones(users, 1)
    return g


# -- trees of tensors --------------------------------------------------------------------------------------------------
GRAPHS: dict[str, Callable[[], DGLGraph]] = {
    "homogeneous": featured,
    "int32": lambda: featured().int(),
    "block": block,
    "batch": lambda: batch(3, 5, 2),
    "of types": of_types,
    "without edges": lambda: dglite.graph(([], []), num_nodes=3),
    "empty": lambda: dglite.graph(([], []), num_nodes=0),
}


def assert_same(g: DGLGraph, other: DGLGraph) -> None:
    assert (g.canonical_etypes, g.ntypes, g.idtype, g.is_block) == (
        *(other.canonical_etypes, other.ntypes, other.idtype),
        other.is_block,
    )
    assert g.node_counts == other.node_counts
    for etype in g.canonical_etypes:
        for x, y in zip(g.edges(etype=etype), other.edges(etype=etype), strict=True):
            assert torch.equal(x, y)
    for x, y in zip((*g.node_frames, *g.edge_frames), (*other.node_frames, *other.edge_frames), strict=True):
        assert dict(x or {}).keys() == dict(y or {}).keys()
        assert all(torch.equal(x[name], y[name]) for name in x or {})
    if g.batch_node_counts is not None:
        assert all((x == y).all() for x, y in zip(g.batch_node_counts, other.batch_node_counts, strict=True))
        assert all((x == y).all() for x, y in zip(g.batch_edge_counts, other.batch_edge_counts, strict=True))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_a_tree_of_tensors(name: str) -> None:
    g = GRAPHS[name]()
    leaves, spec = pytree.tree_flatten(g)
    assert all(isinstance(x, torch.Tensor) for x in leaves)
    other = pytree.tree_unflatten(leaves, spec)
    assert_same(g, other)
    assert all(x is y for x, y in zip(g.adjacencies, other.adjacencies, strict=True))
    again = pytree.treespec_loads(pytree.treespec_dumps(spec))
    assert again == spec
    assert_same(g, pytree.tree_unflatten([x.clone() for x in leaves], again))


def test_what_is_no_tensor_goes_through_a_tree() -> None:
    g = featured()
    shapes = pytree.tree_map(lambda x: str(tuple(x.shape)), g)
    assert pytree.tree_leaves(shapes) == [str(tuple(x.shape)) for x in pytree.tree_leaves(g)]


def test_tensors_of_no_graph_are_refused() -> None:
    leaves, spec = pytree.tree_flatten(homogeneous())
    with pytest.raises(DGLError, match="source node"):
        pytree.tree_unflatten([leaves[0] + 6, *leaves[1:]], spec)


def test_names_of_tensors() -> None:
    assert list(dglite.to_tensors(featured())) == ["src", "dst", "nodes", "ndata", "edata"]
    assert list(dglite.to_tensors(block())) == ["src", "dst", "srcnodes", "dstnodes"]
    assert list(dglite.to_tensors(batch(2, 3))) == ["src", "dst", "nodes", "batch_num_nodes", "batch_num_edges"]
    several = dglite.to_tensors(of_types())
    assert several["src"].keys() == {"follows", "buys"} and several["ndata"].keys() == {"user"}
    with pytest.raises(DGLError):
        dglite.to_tensors(torch.ones(3))  # type: ignore[arg-type]


# -- programs ----------------------------------------------------------------------------------------------------------
class GCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConv(5, 4), GraphConv(4, 2)

    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        return self.second(g, torch.relu(self.first(g, x)))


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GATConv(5, 2, 2), SAGEConv(4, 2, "pool")

    def forward(self, blocks: list[DGLGraph], x: torch.Tensor) -> torch.Tensor:
        return self.second(blocks[1], torch.relu(self.first(blocks[0], x).flatten(1)))


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.pool = GINConv(nn.Linear(5, 4), "sum"), SumPooling()

    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.layer(g, x))
        with g.local_scope():
            g.ndata["h"] = h
            return torch.cat([self.pool(g, h), dglite.mean_nodes(g, "h"), dglite.max_nodes(g, "h")], 1)


class Types(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = {name: GraphConv(5, 3, norm="right", allow_zero_in_degree=True) for name in ("follows", "buys")}
        self.layer = HeteroGraphConv(layers)

    def forward(self, g: DGLGraph, x: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return self.layer(g, x)


def _on_blocks(scale: int) -> tuple[Any, ...]:
    blocks = [block(9 * scale, 5 * scale, 20 * scale, 1), block(5 * scale, 2 * scale, 9 * scale, 2)]
    return blocks, torch.randn(9 * scale, 5)


MODELS: dict[str, tuple[type[nn.Module], Callable[[int], tuple[Any, ...]]]] = {
    "gcn": (GCN, lambda scale: (homogeneous(5 * scale, 12 * scale), torch.randn(5 * scale, 5))),
    "blocks": (Blocks, _on_blocks),
    "classifier": (
        Classifier,
        lambda scale: (batch(*range(2, 3 + scale)), torch.randn(sum(range(2, 3 + scale)), 5)),
    ),
    "types": (
        Types,
        lambda scale: (
            of_types(5 * scale, 4 * scale),
            {"user": torch.randn(5 * scale, 5), "item": torch.randn(4 * scale, 5)},
        ),
    ),
}


def _build(name: str) -> tuple[nn.Module, Callable[[int], tuple[Any, ...]]]:
    torch.manual_seed(0)
    kind, arguments = MODELS[name]
    return kind().eval(), arguments


def _of_tensors(args: Any) -> Any:
    return pytree.tree_map(
        lambda x: dglite.to_tensors(x) if isinstance(x, DGLGraph) else x,
        args,
        is_leaf=lambda x: isinstance(x, DGLGraph),
    )


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("name", MODELS)
@exports
def test_a_program_is_for_graphs_of_any_size(name: str, portable: bool, strict: bool) -> None:
    torch._dynamo.reset()
    model, arguments = _build(name)
    program = dglite.export(model, *arguments(2), portable=portable, strict=strict)
    operators = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert any("dglite" in operator for operator in operators) != portable
    serve = program.module()
    for scale in (1, 3, 7):
        args = arguments(scale)
        with torch.no_grad():
            torch.testing.assert_close(serve(*(_of_tensors(args) if portable else args)), model(*args))


@exports
def test_torch_export_takes_graphs_and_gradients() -> None:
    model, arguments = _build("gcn")
    args = arguments(2)
    program = torch.export.export(model, args, dynamic_shapes=dglite.dynamic_shapes(*args))
    g, x = arguments(3)
    x.requires_grad_()
    ours, expected = (torch.autograd.grad(run(g, x).square().sum(), x)[0] for run in (program.module(), model))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize(
    ("layer", "operator"),
    [
        (GATConv(5, 3, 2), "attention"),
        (GATv2Conv(5, 3, 2), "attention"),
        (DotGatConv(5, 3, 2), "attention"),
        (AGNNConv(), "attention"),
        (GraphConv(5, 2), "spmm_epilogue"),
        (GraphConv(5, 2, norm="right", activation=nn.ReLU()), "spmm_epilogue"),
    ],
)
@exports
def test_a_layer_is_one_operator_of_the_program(layer: nn.Module, operator: str) -> None:
    """As it is one kernel in an eager call: with nothing stored for edges."""
    program = dglite.export(layer, homogeneous(), torch.randn(6, 5))
    names = [str(node.target) for node in program.graph.nodes if str(node.target).startswith("dglite.")]
    heavy = [name for name in names if not name.startswith(("dglite.require", "dglite.degree"))]
    assert heavy.count(f"dglite.{operator}.default") == 1
    assert not {"dglite.spmm.default", "dglite.edge_softmax.default"} & set(heavy)
    g, x = homogeneous(9, 30, 1), torch.randn(9, 5, requires_grad=True)
    ours, expected = program.module()(g, x), layer(g, x)
    torch.testing.assert_close(ours, expected)
    (gradient,), (target,) = (torch.autograd.grad(result.sin().sum(), x) for result in (ours, expected))
    torch.testing.assert_close(gradient, target)


@exports
def test_equal_calls_are_made_once() -> None:
    """Each of APPNP's steps asks for out-degrees and in-degrees."""
    program = dglite.export(APPNPConv(3, 0.1), homogeneous(), torch.randn(6, 5))
    names = [str(node.target) for node in program.graph.nodes]
    assert names.count("dglite.degree_scale.default") == 2
    g, x = homogeneous(9, 30, 1), torch.randn(9, 5)
    torch.testing.assert_close(program.module()(g, x), APPNPConv(3, 0.1)(g, x))


@exports
def test_steps_that_change_nothing_are_left_out() -> None:
    """And a ReLU is part of the product before it, unless something else reads that."""

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = torch.dropout(x[:] * 1.0, 0.5, False).reshape(x.shape)
        return torch.relu(x @ w), torch.cos(x) + torch.cos(x), (x * 1)[:], (x * 2)[:], (x * 2)[:]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = SAGEConv(3, 2, "mean", activation=None)

        def forward(self, g: DGLGraph, x: torch.Tensor) -> Any:
            h = self.layer(g, x)
            return torch.relu(h), function(x, self.layer.fc_self.weight.T), torch.relu(self.layer(g, 2 * x)), h

    program = dglite.export(Model(), homogeneous(), torch.randn(6, 3))
    names = [str(node.target) for node in program.graph.nodes]
    assert not {"aten.dropout.default", "aten.reshape.default"} & set(names)
    assert names.count("aten.slice.Tensor") == 3  # of results, which share no memory
    assert names.count("aten.cos.default") == 1
    assert names.count("aten.relu.default") == 2  # of the result that is returned, too, and of torch's product
    g, x = homogeneous(9, 30, 1), torch.randn(9, 3)
    serve = program.module()
    torch.testing.assert_close(serve(g, x), Model.forward(_with_weights(Model(), program), g, x))
    result = serve(g, x)
    for y in pytree.tree_leaves(result):
        y.zero_()  # no result is an input, or another result
        assert x.count_nonzero()
    assert all(len(set(map(torch.Tensor.data_ptr, pytree.tree_leaves(serve(g, x))))) == 8 for _ in range(2))


def _with_weights(model: nn.Module, program: Any) -> Any:
    model.load_state_dict(program.state_dict)
    return model


@exports
def test_steps_that_write_are_left_as_they_are() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        z = (x * 2).relu_()
        y[:].add_(1)
        return y, z, x * 2

    serve = dglite.export(lambda_module(function), torch.randn(6, 3)).module()  # type: ignore[arg-type]
    x = torch.randn(4, 3)
    torch.testing.assert_close(serve(x), function(x))


class Rows(nn.Module):
    """Two layers whose destinations are the first sources."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([SAGEConv(4, 3, "mean"), SAGEConv(3, 3, "gcn")])

    def forward(self, blocks: list[DGLGraph], h: torch.Tensor) -> torch.Tensor:
        for layer, block in zip(self.layers, blocks, strict=True):
            h = layer(block, (h, h[: block.num_dst_nodes()]))
        return h


@pytest.mark.parametrize("portable", [False, True])
@exports
def test_a_block_may_have_as_many_sources_as_destinations(portable: bool) -> None:
    torch.manual_seed(0)
    model = Rows().eval()
    program = dglite.export(model, [block(9, 7, 20), block(7, 5, 20)], torch.randn(9, 4), portable=portable)
    serve = program.module()
    for sizes in ((12, 4, 3), (6, 6, 6), (5, 5, 2), (1, 1, 1)):
        blocks = [block(*sizes[i : i + 2], 20, i) for i in range(2)]
        args = blocks, torch.randn(sizes[0], 4)
        with torch.no_grad():
            torch.testing.assert_close(serve(*(_of_tensors(args) if portable else args)), model(*args))


@exports
def test_functions_that_dynamo_cannot_read_are_named() -> None:
    with pytest.raises(DGLError, match=r"reduce functions of your own, .* features; leave out strict=True"):
        dglite.export(_users_function, homogeneous(), torch.randn(6, 3), strict=True)


@exports
def test_message_functions_are_exported_with_strict() -> None:
    """Dynamo could not read what records them."""
    torch._dynamo.reset()
    norm = nn.BatchNorm1d(3)

    def message(edges: Any) -> dict[str, torch.Tensor]:
        return {"m": torch.relu(edges.src["h"] - edges.dst["h"])}

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm

        def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
            with g.local_scope():
                g.ndata["h"] = self.norm(x)
                g.update_all(message, fn.mean("m", "out"))
                return g.ndata["out"]

    model, before = Model(), torch.get_rng_state()
    program = dglite.export(model, homogeneous(), torch.randn(6, 3, generator=torch.Generator()), strict=True)
    assert not norm.num_batches_tracked
    assert torch.equal(torch.get_rng_state(), before)
    g, x = homogeneous(9, 30, 1), torch.randn(9, 3)
    torch.testing.assert_close(program.module()(g, x), model(g, x))


@pytest.mark.parametrize(
    "layer",
    [SortPooling(3), Set2Set(4, 2, 1), SetTransformerDecoder(4, 2, 2, 4, 1, 2), SetTransformerEncoder(4, 2, 2, 4)],
)
@pytest.mark.parametrize("portable", [False, True])
@exports
def test_a_pooling_layer_is_for_any_number_of_graphs(layer: nn.Module, portable: bool) -> None:
    example, g = batch(3, 5, 2), batch(4, 1, 6, 2)
    serve = dglite.export(layer.eval(), example, torch.randn(10, 4), portable=portable).module()
    x = torch.randn(13, 4).round()  # with equal keys
    torch.testing.assert_close(serve(dglite.to_tensors(g) if portable else g, x), layer(g, x).detach())


@pytest.mark.parametrize("strict", [False, True])
@exports
def test_rows_of_graphs_reach_their_nodes_for_any_number_of_graphs(strict: bool) -> None:
    def function(g: DGLGraph, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return dglite.broadcast_nodes(g, rows), dglite.broadcast_edges(g, rows)

    serve = dglite.export(function, batch(3, 5, 2), torch.randn(3, 2), strict=strict).module()
    for g in (batch(4), batch(1, 6, 2, 3)):
        rows = torch.randn(g.batch_size, 2)
        torch.testing.assert_close(serve(g, rows), function(g, rows))


@pytest.mark.parametrize("strict", [False, True])
@exports
def test_edges_may_be_the_inputs(strict: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = GraphConv(5, 2)

        def forward(self, x: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
            return self.layer(dglite.graph((src, dst), num_nodes=x.shape[0]), x)

    model, nodes, edges = Model(), torch.export.Dim("nodes"), torch.export.Dim("edges")
    args = torch.randn(6, 5), *homogeneous().edges()
    shapes = {0: nodes}, {0: edges}, {0: edges}
    program = torch.export.export(model, args, dynamic_shapes=shapes, strict=strict)
    args = torch.randn(9, 5), *homogeneous(9, 30, 1).edges()
    torch.testing.assert_close(program.module()(*args), model(*args))


def test_the_exporter_that_traces_is_refused() -> None:
    layer, g = GraphConv(5, 2), homogeneous()
    with pytest.raises(DGLError, match=r"dynamo=False.*portable=True"):
        torch.onnx.export(lambda_module(lambda x: layer(g, x)), (torch.randn(6, 5),), io.BytesIO(), dynamo=False)


def lambda_module(function: Callable[..., torch.Tensor]) -> nn.Module:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    return Model()


@exports
def test_a_program_without_gradients_has_none() -> None:
    g, x = homogeneous(), torch.randn(6, 5, requires_grad=True)
    serve = dglite.export(SAGEConv(5, 2, "pool"), g, x.detach()).module()
    with pytest.raises(DGLError, match="recorded without gradients"):
        serve(g, x).sum().backward()


def _users_function(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["h"] = x
        g.update_all(
            lambda edges: {"m": torch.relu(edges.src["h"] - edges.dst["h"])},
            lambda nodes: {"out": nodes.mailbox["m"].max(1)[0] + nodes.mailbox["m"].mean(1) + 1},
        )
        return g.ndata["out"]


def _built_in(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["h"] = x
        g.apply_edges(fn.u_dot_v("h", "h", "score"))
        g.edata["a"] = ops.edge_softmax(g, g.edata["score"])
        g.update_all(fn.u_mul_e("h", "a", "m"), fn.sum("m", "out"))
        return g.ndata["out"] * g.in_degrees().unsqueeze(1)


def _by_edge(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["h"] = x
        g.apply_edges(lambda edges: {"m": torch.cat([edges.src["h"], edges.dst["h"]], 1)})
        return g.edata["m"]


@pytest.mark.parametrize("function", [_users_function, _built_in, _by_edge])
@exports
def test_message_passing_is_exported(function: Callable[..., torch.Tensor]) -> None:
    serve = dglite.export(function, homogeneous(), torch.randn(6, 3)).module()
    lonely = dglite.graph(([0, 0, 1], [1, 2, 2]), num_nodes=5)  # nodes 0, 3 and 4 receive nothing
    for g in (homogeneous(9, 30, 1), homogeneous(2, 1), lonely):
        x = torch.randn(g.num_nodes(), 3)
        torch.testing.assert_close(serve(g, x), function(g, x))


@exports
def test_sizes_of_zero_and_one() -> None:
    model, arguments = _build("gcn")
    for portable in (False, True):
        serve = dglite.export(model, *arguments(2), portable=portable).module()
        for g in (dglite.graph(([0], [0])), dglite.graph(([], []), num_nodes=0)):
            args = g, torch.randn(g.num_nodes(), 5)
            torch.testing.assert_close(serve(*(_of_tensors(args) if portable else args)), model(*args))


# -- other processes ---------------------------------------------------------------------------------------------------
def _run(code: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@exports
def test_a_fresh_process_runs_the_program_on_other_graphs(tmp_path: Path) -> None:
    model, arguments = _build("gcn")
    torch.export.save(dglite.export(model, *arguments(2)), tmp_path / "model.pt2")
    cases = [arguments(scale) for scale in (3, 1, 8)]
    torch.save((cases, [model(*args) for args in cases]), tmp_path / "cases")
    code = """
        import torch, dglite
        other = dglite.rand_graph(4, 9)  # numbers of structures begin with another graph here
        serve = torch.export.load("model.pt2").module()
        cases, expected = torch.load("cases", weights_only=False)
        for args, y in zip(cases, expected, strict=True):
            torch.testing.assert_close(serve(*args), y.detach())
        print("equal")
    """
    assert _run(code, tmp_path) == "equal\n"


@exports
def test_a_portable_program_runs_without_dglite(tmp_path: Path) -> None:
    model, arguments = _build("classifier")
    torch.export.save(dglite.export(model, *arguments(2), portable=True), tmp_path / "model.pt2")
    args = arguments(4)
    torch.save((_of_tensors(args), model(*args).detach()), tmp_path / "case")
    code = """
        import sys
        sys.modules["dglite"] = None
        import torch
        args, expected = torch.load("case")
        torch.testing.assert_close(torch.export.load("model.pt2").module()(*args), expected)
        print("equal")
    """
    assert _run(code, tmp_path) == "equal\n"


@pytest.mark.skipif(not FULL or shutil.which("g++") is None, reason="compiles for minutes: --full, and g++")
@exports
def test_a_compiled_program_is_called_from_c(tmp_path: Path) -> None:
    model, arguments = _build("gcn")
    program = dglite.export(model, *arguments(2), portable=True)
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "compiled.pt2"))
    args, include = arguments(5), Path(torch.__file__).parent / "include"
    library = include.parent / "lib"
    source = [ROOT / "examples" / "serve.cpp", "-o", tmp_path / "serve"]
    includes = [f"-I{include}", f"-I{include}/torch/csrc/api/include"]
    libraries = [f"-L{library}", f"-Wl,-rpath,{library}", "-ltorch", "-ltorch_cpu", "-lc10"]
    subprocess.run(["g++", "-std=c++20", *includes, *source, *libraries], check=True)
    torch.save(pytree.tree_leaves(_of_tensors(args)), tmp_path / "inputs.pt")
    subprocess.run([tmp_path / "serve", path, tmp_path / "inputs.pt", tmp_path / "outputs.pt"], check=True)
    (ours,) = torch.load(tmp_path / "outputs.pt", weights_only=False)
    torch.testing.assert_close(ours, model(*args).detach())


@pytest.mark.parametrize("name", MODELS)
@exports
def test_onnx_runtime_computes_the_same(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    model, arguments = _build(name)
    program = dglite.export(model, *arguments(2), portable=True)
    torch.onnx.export(program, f=tmp_path / "model.onnx", dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for scale in (1, 5):
        args = arguments(scale)
        leaves = pytree.tree_leaves(_of_tensors(args))
        values = dict(zip(program.graph_signature.user_inputs, leaves, strict=True))
        outputs = session.run(None, {x.name: values[x.name].numpy() for x in session.get_inputs()})
        for x, y in zip(outputs, pytree.tree_leaves(model(*args)), strict=True):
            torch.testing.assert_close(torch.from_numpy(x), y.detach())


@exports
def test_portable_sums_are_right_in_threads_of_onnx_runtime() -> None:
    """Its ScatterND, which index_add becomes, loses sums of threads that add to one row at the same time."""
    model, arguments = _build("types")
    program = dglite.export(model, *arguments(2), portable=True)
    operators = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert "aten.scatter_add.default" in operators
    assert not any("index_add" in name or "index_put" in name for name in operators)


@exports
def test_a_linear_map_with_bias_and_relu_is_one_operator() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GraphConv(3, 4, activation=torch.relu), SAGEConv(4, 2, "mean")

        def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
            return self.second(g, self.first(g, x))

    torch.manual_seed(0)
    model = Two().eval()
    program = dglite.export(model, homogeneous(), torch.randn(6, 3))
    operators = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert operators.count("dglite.products.default") == 3  # the second layer projects before it takes means
    assert not {"aten.linear.default", "aten.matmul.default", "aten.relu.default"}.intersection(operators)
    serve = program.module()
    for size in (1, 9, 4000):
        g, x = homogeneous(size, 3 * size), torch.randn(size, 3)
        torch.testing.assert_close(serve(g, x), model(g, x).detach())
    with pytest.raises((RuntimeError, DGLError)):
        serve(homogeneous(), torch.randn(6, 3).double())


# -- refusals ----------------------------------------------------------------------------------------------------------
G = homogeneous()
LAYER = GraphConv(5, 2)


class Holds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.graphs = GraphConv(5, 2), [homogeneous()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.graphs[0], x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Holds(), "holds a graph in 'graphs'.*pass it as an input"),
        (lambda x: LAYER(G, x), "pass the graph as an input"),
        (lambda x: x * G.in_degrees().unsqueeze(1), "pass the graph as an input"),
        (lambda x: x[G.edges()[0]], "pass the graph as an input"),
    ],
    ids=["attribute", "layer", "degrees", "edges"],
)
@exports
def test_a_graph_that_is_no_input_is_refused(function: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        dglite.export(function, torch.randn(6, 5))
    if not isinstance(function, nn.Module):
        with pytest.raises(DGLError, match="pass the graph as an input"):
            torch.export.export(_Module(function), (torch.randn(6, 5),))


class _Module(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def _sorted_mailbox(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["h"] = x
        g.update_all(fn.copy_u("h", "m"), lambda nodes: {"out": nodes.mailbox["m"].sort(1)[0][:, 0]})
        return g.ndata["out"]


def _by_value(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    return x if x.sum() > 0 else -x


def _pulled(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["h"] = x
        g.pull([0, 1], fn.copy_u("h", "m"), fn.sum("m", "out"))
        return g.ndata["out"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_sorted_mailbox, "for the nodes of each in-degree"),
        (_by_value, "choose values by torch.where"),
        (_pulled, "no values yet"),
        (lambda g, x: x + torch.ones(6, 1), "not be for every graph"),
    ],
    ids=["buckets", "control flow", "ids", "one size"],
)
@exports
def test_what_depends_on_the_graph_is_refused(function: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        dglite.export(function, homogeneous(), torch.randn(6, 5))


@exports
def test_a_vertex_program_is_refused_by_name() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trees = BinaryTreeLSTM(3, 4)

        def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
            return self.trees(g, x)

    tree, x = dglite.graph(([0, 1, 2, 3], [2, 2, 4, 4])), torch.randn(5, 3)
    assert Model()(tree, x).shape == (5, 4)
    for model in (Model(), Model().trees):
        with pytest.raises(DGLError, match=r"vertex program of dglite\.dynamic"):
            dglite.export(model, tree, x)


@exports
def test_wrong_inputs_of_a_program_are_refused_when_it_runs() -> None:
    model, arguments = _build("gcn")
    g, x = arguments(2)
    serve = dglite.export(model, g, x).module()
    with pytest.raises(DGLError, match="no in-edge"):
        serve(dglite.graph(([0], [1]), num_nodes=3), torch.randn(3, 5))
    with pytest.raises((AssertionError, RuntimeError, DGLError)):
        serve(g, torch.randn(9, 5))
    with pytest.raises((RuntimeError, DGLError)):
        serve(g, torch.randn(10, 5).double())
    tensors = dglite.to_tensors(g)
    portable = dglite.export(model, g, x, portable=True).module()
    for name in ("src", "dst"):
        with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
            portable({**tensors, name: tensors[name] + 10}, x)


def test_an_older_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.6.0+cu124")
    g = dglite.graph(([0, 1], [1, 0]))
    with pytest.raises(DGLError, match=r"needs torch 2.7 or newer, this is 2.6.0\+cu124"):
        dglite.export(dglite.nn.GraphConv(2, 2), g, torch.ones(2, 2))
