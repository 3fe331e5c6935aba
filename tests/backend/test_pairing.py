"""Tensors of a second library: whose they are decides, and they do not mix.

A process stays with two libraries once it has seen both, so these programs run in processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.versions import exports

ROOT = Path(__file__).parents[2]
START = """
import inspect
import numpy as np, torch
import dglite, dglite.function as fn
from dglite import backend, nn, ops, sampling
from dglite.backend import toolkit
from dglite.errors import DGLError
g = dglite.graph(([0, 1, 2], [1, 2, 2]))
x = np.arange(6, dtype=np.float32).reshape(3, 2)
t = torch.from_numpy(x)

def refused(action, why="meet; the features of a graph are of one framework"):
    try:
        action()
    except DGLError as error:
        assert why in str(error), error
    else:
        raise AssertionError("not refused")
"""


def run(code: str) -> None:
    result = forked.run(forked.code, START + code)
    assert result.returncode == 0, result.stderr


def run_with(name: str, code: str) -> None:
    """Run code in a process that starts with another backend."""
    environment = {**os.environ, "DGLITE_BACKEND": name, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", START + code], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_methods_are_dispatched_by_what_they_take() -> None:
    run("""
g.ndata["x"] = x
methods = {name for name, _ in inspect.getmembers(backend.Backend, inspect.isfunction) if name[0] != "_"}
ours = methods - vars(backend.active).keys()  # about no tensor, or answered with None for a guest's
assert {"cpu", "compiling", "num_threads", "draw_seed", "register", "plain", "signature", "arrays_on"} <= ours
for name in ours - {"plain", "signature", "arrays_on"}:
    parameters = inspect.signature(getattr(backend.Backend, name)).parameters.values()
    assert not any(str(p.annotation).startswith(("Tensor", "Sequence[Tensor")) for p in parameters), name
a = toolkit.ones(2, 2)
for made in (
    backend.active.take(a, np.array([1])), backend.active.linear(a, a, None), backend.active.concat([a, a], axis=1),
    backend.active.full((2,), 0.0, "float32", a.device),
    backend.active.segment_mm(a, toolkit.ones(1, 2, 2), np.array([0, 2])),
):
    assert isinstance(made, toolkit.Tensor)
assert isinstance(backend.active.concat([t, t]), torch.Tensor)
refused(lambda: backend.active.concat([t, a]))
""")


@exports
def test_models_are_exported_beside_another_library() -> None:
    run("""
g.ndata["x"] = x  # from here on NumPy is a guest
program = dglite.export(lambda g, x: ops.copy_u_sum(g, x), dglite.rand_graph(5, 9), torch.ones(5, 2))
for nodes in (3, 8):
    other, rows = dglite.rand_graph(nodes, 6), torch.randn(nodes, 2)
    assert torch.allclose(program.module()(other, rows), ops.copy_u_sum(other, rows))
""")


def test_arrays_are_numpys() -> None:
    run("""
g.ndata["x"] = x
assert isinstance(g.ndata["x"], toolkit.Tensor) and not g.ndata["x"].requires_grad and backend.name == "torch"
g.update_all(fn.copy_u("x", "m"), fn.sum("m", "y"))
np.testing.assert_array_equal(g.ndata["y"].numpy(), [[0, 0], [0, 1], [6, 8]])
g.ndata["list"] = [1.0, 2.0, 3.0]  # what has no library is of the graph's
assert isinstance(g.ndata["list"], toolkit.Tensor) and isinstance(g.in_degrees(), toolkit.Tensor)
assert isinstance(ops.copy_u_sum(g, x), toolkit.Tensor) and isinstance(ops.copy_u_sum(g, t), torch.Tensor)
for made in (ops.segment_reduce([1, 2], x), dglite.sum_nodes(g, "x")):
    assert isinstance(made, toolkit.Tensor)
block = dglite.to_block(sampling.sample_neighbors(g, [2], 2))
assert isinstance(block.srcdata["x"], toolkit.Tensor) and isinstance(dglite.batch([g, g]).ndata["x"], toolkit.Tensor)
other = dglite.graph(([0], [1]))
other.ndata["x"] = torch.ones(2)
assert isinstance(other.in_degrees(), torch.Tensor) and isinstance(dglite.graph(([0], [1])).nodes(), torch.Tensor)
""")


def test_a_gradient_is_recorded_for_the_tapes_tensors() -> None:
    run("""
leaf = toolkit.tensor(x, requires_grad=True)
g.ndata["x"] = leaf
g.update_all(lambda edges: {"m": edges.src["x"] * 2}, lambda nodes: {"y": nodes.mailbox["m"].sum(1)})
g.ndata["y"].sum().backward()
np.testing.assert_array_equal(leaf.grad.numpy(), [[2, 2], [2, 2], [2, 2]])
assert not ops.copy_u_sum(g, x).requires_grad
""")


def test_an_apply_function_is_part_of_the_kernel_with_either_library() -> None:
    run("""
from dglite.scheduler import record
record.WORTH_RECORDING = 0
b = toolkit.ones(2)
apply = lambda nodes: {"y": (nodes.data["y"] + nodes.data["x"] * 2).relu()}
own = lambda nodes: {"y": toolkit.relu(nodes.data["y"] + b)}
for values in (t, x):
    g = dglite.graph(([0, 1, 2], [1, 2, 2]))
    g.ndata["x"] = values
    sums = fn.copy_u("x", "m"), fn.sum("m", "y")
    assert "then, in the kernel" in str(dglite.explain(g, *sums, apply))
    g.update_all(*sums, apply)
    np.testing.assert_array_equal(g.ndata["y"].numpy(), [[0, 2], [4, 7], [14, 18]])
g.update_all(*sums, own)
np.testing.assert_array_equal(g.ndata["y"].numpy(), [[1, 1], [1, 2], [7, 9]])
assert isinstance(g.ndata["y"], toolkit.Tensor)
""")


def test_ids_are_taken_from_any_library() -> None:
    run("""
assert g.in_degrees(np.array([2])).tolist() == g.in_degrees(toolkit.tensor([2])).tolist() == [2]
assert backend.active.guest is not None and isinstance(g.in_degrees(), torch.Tensor)
made = dglite.graph((toolkit.tensor([0]), toolkit.tensor([1])))
assert made.num_nodes() == 2 and sampling.sample_neighbors(g, toolkit.tensor([2]), 1).num_edges() == 1
""")


MIXED = {
    "columns of one frame": 'g.ndata["t"] = t; refused(lambda: g.ndata.update(x=x))',
    "the other way round": 'g.ndata["x"] = x; refused(lambda: g.ndata.update(t=t))',
    "rows": 'g.ndata["t"] = t; refused(lambda: g.nodes[[0]].data.update(t=x[:1]))',
    "nodes and edges": (
        'g.ndata["x"] = x; g.edata["w"] = torch.ones(3, 1); '
        'refused(lambda: g.update_all(fn.u_mul_e("x", "w", "m"), fn.sum("m", "y")))'
    ),
    "operands": "refused(lambda: ops.u_mul_e_sum(g, t, np.ones((3, 1), np.float32)))",
    "attention": "refused(lambda: ops.gat_attention(g, x[:, :1], x[:, :1], t[:, :1, None]))",
    "operators": "refused(lambda: toolkit.ones(2) * torch.ones(2)); refused(lambda: torch.ones(2) - toolkit.ones(2))",
    "functions of either": "refused(lambda: torch.relu(toolkit.ones(2))); refused(lambda: toolkit.relu(t))",
    "lists of tensors": "refused(lambda: toolkit.cat([toolkit.ones(2), t]))",
    "a function of users": (
        'g.ndata["x"] = x; '
        'refused(lambda: g.update_all(lambda e: {"m": e.src["x"] * t[:1]}, lambda n: {"y": n.mailbox["m"].sum(1)}))'
    ),
    "a layer": "refused(lambda: nn.GraphConv(2, 1, allow_zero_in_degree=True)(g, toolkit.tensor(x)))",
}


def test_libraries_do_not_mix() -> None:
    result = 'made = {"g": dglite.graph(([0, 1, 2], [1, 2, 2]))}'
    run("".join(f"{result}\nexec({code!r}, globals() | made)\n" for code in MIXED.values()))


@pytest.mark.parametrize("library", ["jax", "cupy"])
def test_what_there_is_no_backend_for_is_refused(library: str) -> None:
    kind = {"jax": "Array", "cupy": "ndarray"}[library]
    run(f"""
foreign = type({kind!r}, (), {{"__module__": {library!r}}})()
refused(lambda: g.ndata.update(x=foreign), "is a {library}.{kind}, for which there is no backend here")
assert not g.ndata and backend.active.guest is None
""")


def test_there_are_two_libraries_at_most() -> None:
    run("""
g.ndata["x"] = x
foreign = type("ndarray", (), {"__module__": "cupy"})()
refused(lambda: ops.copy_u_sum(g, foreign), "is a cupy.ndarray, but this process computes with torch and numpy")
""")
    code = """
foreign = type("ndarray", (), {"__module__": "cupy"})()
refused(lambda: ops.copy_u_sum(g, foreign), "is a cupy.ndarray, but this process computes with numpy;")
"""
    run_with("numpy", code)
