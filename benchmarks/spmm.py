"""g-SpMM, g-SDDMM and edge softmax, forward and backward, against torch.sparse, SciPy, PyTorch Geometric and DGL 2.1.

    python benchmarks/spmm.py            about ten minutes on two cores
    python benchmarks/spmm.py --quick    small graphs, one width
    python benchmarks/spmm.py --retained sums, means and maxima of nodes once more, malloc keeping its memory for all

Every peer gets its graph in the form that suits it before the clock starts, and its results are compared with ours.
PyTorch Geometric multiplies by a ``SparseTensor`` where torch-sparse is installed and knows the operation, and runs
``MessagePassing`` on an ``edge_index`` elsewhere. DGL runs with 32-bit ids, on all formats or, for the operations that
can do without the others, on CSC alone, whichever is faster. Weights of torch.sparse, SciPy and a ``SparseTensor`` lie
in the order of their rows already, ours and DGL's in edge order.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from common import (
    OURS,
    best_forms,
    erdos_renyi,
    geometric_mean,
    interleave,
    load_dgl,
    load_pyg,
    parser,
    power_law,
    retain_memory,
    save,
    sparse_tensor,
    table,
)

import dglite

HEADS = 4
WIDTHS = (16, 64, 100, 128)
SPMM = ("copy_u sum", "copy_u mean", "copy_u max", "u_mul_e sum, scalar weight", "u_mul_e sum, weight per head")
SDDMM = ("u_dot_v", "u_add_v")
OPERATIONS = (*SPMM, *SDDMM, "edge_softmax")
MOST_BYTES = {"u_add_v": 3e9, "edge_softmax": 1.3e9}
"""Results with one row per edge that are larger are left out: peers keep up to six tensors of that size."""

Run = Callable[[], Any]
Inputs = tuple[torch.Tensor, ...]
Bound = tuple[Run, Inputs]
"""A runner of the forward pass, and the tensors that its backward pass takes gradients of."""

warnings.filterwarnings("ignore", message="Sparse ")  # torch calls its CSR tensors beta at every start


@dataclass(frozen=True)
class Network:
    """A graph as edges, destination by source."""

    name: str
    num_nodes: int
    src: np.ndarray
    dst: np.ndarray


def networks(quick: bool) -> list[Network]:
    """Return the graphs to measure on."""
    if quick:
        return [Network("Erdos-Renyi 2k/50k", 2_000, *erdos_renyi(2_000, 50_000))]
    return [
        Network("Erdos-Renyi 20k/1M", 20_000, *erdos_renyi(20_000, 1_000_000)),
        Network("Erdos-Renyi 200k/2M", 200_000, *erdos_renyi(200_000, 2_000_000)),
        Network("power law 100k/5M", 100_000, *power_law(100_000, 5_000_000)),
    ]


def inputs_of(operation: str, network: Network, width: int) -> Inputs:
    """Return the operands of one case; each requires a gradient."""
    torch.manual_seed(0)
    nodes, edges = network.num_nodes, len(network.src)
    if operation == "edge_softmax":
        operands = [torch.randn(edges, width)]
    elif operation in SDDMM:
        operands = [torch.randn(nodes, width), torch.randn(nodes, width)]
    elif operation.endswith("per head"):
        operands = [torch.randn(nodes, HEADS, width // HEADS), torch.rand(edges, HEADS, 1)]
    elif operation.endswith("scalar weight"):
        operands = [torch.randn(nodes, width), torch.rand(edges, 1)]
    else:
        operands = [torch.randn(nodes, width)]
    return tuple(x.requires_grad_() for x in operands)


# -- the frameworks ----------------------------------------------------------------------------------------------------
class GraphOps:
    """dglite or DGL: both have the same functions in ``ops``."""

    def __init__(self, ops: Any, graph: Any, known: tuple[str, ...] = OPERATIONS) -> None:
        self.graph, self.known = graph, known
        self.calls: dict[str, Callable[..., Any]] = {
            "copy_u sum": ops.copy_u_sum,
            "copy_u mean": ops.copy_u_mean,
            "copy_u max": ops.copy_u_max,
            "u_mul_e sum, scalar weight": ops.u_mul_e_sum,
            "u_mul_e sum, weight per head": ops.u_mul_e_sum,
            "u_dot_v": ops.u_dot_v,
            "u_add_v": ops.u_add_v,
            "edge_softmax": ops.edge_softmax,
        }

    def forward(self, operation: str, inputs: Inputs) -> Bound | None:
        call = self.calls[operation]
        return (lambda: call(self.graph, *inputs), inputs) if operation in self.known else None


class TorchSparse:
    """``torch.sparse.mm`` on a CSR matrix."""

    def __init__(self, network: Network) -> None:
        self.order = torch.from_numpy(np.argsort(network.dst, kind="stable"))
        counts = np.bincount(network.dst, minlength=network.num_nodes)
        self.indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]))
        self.indices = torch.from_numpy(network.src)[self.order]
        self.shape = (network.num_nodes, network.num_nodes)
        self.matrix = self._matrix(torch.ones(len(network.src)))

    def _matrix(self, values: torch.Tensor) -> torch.Tensor:
        return torch.sparse_csr_tensor(self.indptr, self.indices, values, self.shape)

    def forward(self, operation: str, inputs: Inputs) -> Bound | None:
        x = inputs[0]
        if operation == "copy_u sum":
            return lambda: torch.sparse.mm(self.matrix, x), inputs
        if operation in ("copy_u mean", "copy_u max"):
            reduce = "mean" if operation.endswith("mean") else "amax"
            return lambda: torch.sparse.mm(self.matrix, x, reduce), inputs
        if operation == "u_mul_e sum, scalar weight":
            matrix = self._matrix(inputs[1].detach().flatten()[self.order]).requires_grad_()
            return lambda: torch.sparse.mm(matrix, x), (x, matrix)
        return None


class SciPy:
    """A CSR matrix times a dense one, on one thread; the backward is the transposed matrix, made beforehand."""

    def __init__(self, network: Network) -> None:
        ones = np.ones(len(network.src), np.float32)
        shape = (network.num_nodes, network.num_nodes)
        self.network, self.shape = network, shape
        self.matrix = scipy.sparse.csr_matrix((ones, (network.dst, network.src)), shape)
        inverse = (1 / np.maximum(np.bincount(network.dst, minlength=network.num_nodes), 1)).astype(np.float32)
        self.averaging = scipy.sparse.diags_array(inverse).tocsr() @ self.matrix

    def _matrix(self, operation: str, inputs: Inputs) -> Any:
        if operation == "u_mul_e sum, scalar weight":
            weights = inputs[1].detach().numpy().ravel()
            return scipy.sparse.csr_matrix((weights, (self.network.dst, self.network.src)), self.shape)
        return {"copy_u sum": self.matrix, "copy_u mean": self.averaging}.get(operation)

    def forward(self, operation: str, inputs: Inputs) -> Bound | None:
        matrix = self._matrix(operation, inputs)
        x = inputs[0].detach().numpy()
        return None if matrix is None else (lambda: torch.from_numpy(matrix @ x), inputs)

    def backward(self, operation: str, inputs: Inputs, gradient: torch.Tensor) -> Run | None:
        if operation not in ("copy_u sum", "copy_u mean"):
            return None
        matrix, values = self._matrix(operation, inputs).T.tocsr(), gradient.numpy()
        return lambda: matrix @ values


class PyG:
    """PyTorch Geometric: sparse products by torch-sparse where it is installed, else its default path."""

    def __init__(self, torch_geometric: Any, network: Network) -> None:
        pyg_layers = importlib.import_module("pyg_layers")
        self.edge_index = torch.from_numpy(np.stack([network.src, network.dst]))
        self.num_nodes = network.num_nodes
        self.softmax = torch_geometric.utils.softmax
        self.layers = {reduce: pyg_layers.Aggregate(aggr=reduce, node_dim=0) for reduce in ("sum", "mean", "max")}
        self.scores = pyg_layers.Score(node_dim=0)
        self.matrix = sparse_tensor(self.edge_index, network.num_nodes)
        self.order = torch.from_numpy(np.lexsort((network.src, network.dst)))

    def forward(self, operation: str, inputs: Inputs) -> Bound | None:
        if self.matrix is not None and operation in SPMM[:4]:
            return self._product(operation, inputs)
        if operation == "edge_softmax":
            return lambda: self.softmax(inputs[0], self.edge_index[1], num_nodes=self.num_nodes), inputs
        if operation in SDDMM:
            x, y = inputs
            return lambda: self.scores(self.edge_index, x, y, operation == "u_dot_v"), inputs
        layer = self.layers[operation.split(",")[0].split()[1]]
        x, weight = inputs[0], inputs[1] if len(inputs) > 1 else None
        return lambda: layer(self.edge_index, x, weight), inputs

    def _product(self, operation: str, inputs: Inputs) -> Bound:
        """Return what ``MessagePassing`` does with a ``SparseTensor``."""
        x, reduce, matrix = inputs[0], operation.split(",")[0].split()[1], self.matrix
        if len(inputs) == 1:
            return lambda: matrix.matmul(x, reduce=reduce), inputs
        weights = inputs[1].detach().flatten()[self.order].requires_grad_()
        return lambda: matrix.set_value(weights, layout="coo").matmul(x, reduce=reduce), (x, weights)


def frameworks(network: Network) -> dict[str, Any]:
    """Return every framework at hand, ours first, with the graph built."""
    src, dst = torch.from_numpy(network.src), torch.from_numpy(network.dst)
    results: dict[str, Any] = {OURS: GraphOps(dglite.ops, dglite.graph((src, dst), num_nodes=network.num_nodes))}
    if (dgl := load_dgl()) is not None:
        graph = dgl.graph((src, dst), num_nodes=network.num_nodes).int()
        results["DGL 2.1/csc"] = GraphOps(dgl.ops, graph.formats(["csc"]), SPMM[:3])
        graph.create_formats_()
        results["DGL 2.1"] = GraphOps(dgl.ops, graph)
    results["torch.sparse"] = TorchSparse(network)
    results["SciPy"] = SciPy(network)
    if (torch_geometric := load_pyg()) is not None:
        results["PyG"] = PyG(torch_geometric, network)
    return results


# -- measuring ---------------------------------------------------------------------------------------------------------
def measure(results: dict[str, Any], operation: str, network: Network, width: int) -> list[dict[str, Any]]:
    """Return the forward and the backward record of one case."""
    inputs = inputs_of(operation, network, width)
    bound = {name: pair for name, peer in results.items() if (pair := peer.forward(operation, inputs)) is not None}
    forward = {name: run for name, (run, _) in bound.items()}
    expected = forward[OURS]().detach()
    gradient = torch.ones_like(expected)
    backward: dict[str, Run] = {}
    for name, (run, leaves) in bound.items():
        out = run()
        compare(name, operation, out, expected)
        if isinstance(results[name], SciPy):
            taken = results[name].backward(operation, inputs, gradient)
        else:
            taken = differentiate(out, leaves, gradient.reshape(out.shape))
        if taken is not None:
            backward[name] = taken
        del out
    case = {"graph": network.name, "operation": operation, "width": width}
    # The graphs that backward runs through stay alive only while it is timed, and forward is timed after it.
    records = [{**case, "direction": "backward", "seconds": best_forms(interleave(backward))}]
    del backward
    return [{**case, "direction": "forward", "seconds": best_forms(interleave(forward))}, *records]


def differentiate(out: torch.Tensor, inputs: Inputs, gradient: torch.Tensor) -> Run:
    """Return a runner of the backward pass alone."""
    return lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True)


def compare(name: str, operation: str, result: torch.Tensor, expected: torch.Tensor) -> None:
    """Stop when a peer computes something else than we do: its time would mean nothing.

    The maximum over no messages is minus infinity in DGL's operations and 0 in ours; that is no difference here.
    """
    result = result.detach().reshape(expected.shape)
    difference = (torch.where(result.isinf(), 0.0, result) - expected).abs().max().item()
    scale = expected.abs().max().item()
    if not difference <= 1e-3 * max(scale, 1.0):
        raise SystemExit(
            f"{operation}: {name} and {OURS} differ by {difference:g} where the largest value is {scale:g}"
        )


# -- showing -----------------------------------------------------------------------------------------------------------
def ratios(records: list[dict[str, Any]], peer: str) -> dict[str, float]:
    """Return by how much ``peer`` is slower than we are, for each record that has both."""
    return {
        f"{r['operation']}, width {r['width']}, {r['graph']}, {r['direction']}": r["seconds"][peer] / r["seconds"][OURS]
        for r in records
        if peer in r["seconds"]
    }


def peers_of(records: list[dict[str, Any]]) -> list[str]:
    """Return the peers that occur, in the order of their first case."""
    return [name for name in dict.fromkeys(name for r in records for name in r["seconds"]) if name != OURS]


def cases_table(records: list[dict[str, Any]]) -> str:
    """Return one row per case: our milliseconds and each peer's time as a multiple of ours."""
    peers = peers_of(records)
    rows = [
        [
            f"{r['operation']}, {r['direction']}",
            r["graph"],
            str(r["width"]),
            f"{1e3 * r['seconds'][OURS]:.2f}",
            *(f"{r['seconds'][p] / r['seconds'][OURS]:.2f}" if p in r["seconds"] else "" for p in peers),
        ]
        for r in records
    ]
    return table(["case", "graph", "width", f"{OURS}, ms", *(f"{peer}, x" for peer in peers)], rows)


def summary_table(records: list[dict[str, Any]]) -> str:
    """Return one row per peer: geometric means, how many cases we lead, and the case that is least in our favour.

    Within 5% a case is level.
    """
    rows = []
    for peer in peers_of(records):
        result = ratios(records, peer)
        means = [
            geometric_mean(ratios([r for r in records if r["direction"] == direction], peer).values())
            for direction in ("forward", "backward")
        ]
        behind, ahead = (sum(ratio < 0.95 for ratio in result.values()), sum(ratio > 1.05 for ratio in result.values()))
        worst, least = min(result.items(), key=lambda item: item[1])
        counts = (ahead, len(result) - ahead - behind, behind)
        rows.append([peer, *(f"{mean:.2f}" for mean in means), *map(str, counts), f"{least:.2f}", worst])
    heads = ["forward, geometric mean", "backward, geometric mean", "cases ahead", "level", "behind", "least", "where"]
    return table(["peer's time / ours", *heads], rows)


def operations_table(records: list[dict[str, Any]], peer: str = "DGL 2.1") -> str:
    """Return one row per operation and direction: the peer's time as a multiple of ours, its mean and its range."""
    rows = []
    for operation, direction in itertools.product(OPERATIONS, ("forward", "backward")):
        own = [r for r in records if r["operation"] == operation and r["direction"] == direction]
        result = ratios(own, peer).values()
        if result:
            cells = (geometric_mean(result), min(result), max(result))
            rows.append([f"{operation}, {direction}", *(f"{cell:.2f}" for cell in cells)])
    return table([f"{peer} / {OURS}", "geometric mean", "least", "most"], rows)


def main() -> None:
    """Measure, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--retained", action="store_true", help="let malloc keep its memory, for all libraries")
    given = options.parse_args()
    quick, operations, name = given.quick, OPERATIONS, "spmm"
    if given.retained:
        retain_memory()
        operations, name = SPMM[:4], "spmm_retained"
    records: list[dict[str, Any]] = []
    for network in networks(quick):
        result = frameworks(network)
        for operation, width in itertools.product(operations, (16,) if quick else WIDTHS):
            if len(network.src) * width * 4 > MOST_BYTES.get(operation, math.inf):
                print(f"left out: {operation}, {network.name}, width {width}: edge tensors too large for the peers")
                continue
            new = measure(result, operation, network, width)
            records += new
            print("\n".join(cases_table(new).split("\n")[2:]), flush=True)
            gc.collect()
        if not quick:
            save(name, {"records": records})
    print(f"\n{cases_table(records)}\n\n{summary_table(records)}\n\n{operations_table(records)}")


if __name__ == "__main__":
    main()
