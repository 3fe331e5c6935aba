"""Edge softmax on a GPU."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import cache, reduce
from operator import or_

from ...spec import ITEM_BYTES, compute_dtype
from ..render import ROWS
from ..run.program import BLOCK, CPP_TYPES, CudaProgram, Runner, make_program, packed
from .sparse import VECTOR_BYTES, team_of, widest_vector
from .structure import Structure

HELD = 4, 1
"""Entries that a lane takes at once and keeps for the second pass, and blocks on a multiprocessor."""
_ROWS = "const Rows<index> rows{indptr, indices, edge_ids, num_rows, chunk_rows, chunk_firsts, num_chunks, limit};"


@cache
def softmax_program(
    dtype: str, index: str, vec: int, features: int, entries: int, at_once: int, blocks: int
) -> CudaProgram:
    """Return the kernels of a softmax and of its gradient, for teams of ``features * entries`` lanes.

    A lane takes ``at_once`` entries at once; a multiprocessor has room for the registers of ``blocks`` blocks.
    """
    forward = "const item* __restrict__ logits, item* __restrict__ out, compute* partial, long long heads"
    backward = "const item* __restrict__ softmax, const item* __restrict__ grad, item* __restrict__ out,\n"
    backward += "    compute* partial, long long heads"
    kernels = {
        "forward": (forward, "forward(logits, out, partial)"),
        "finish_forward": (forward, "finish_forward(logits, out, partial)"),
        "backward": (backward, "backward(softmax, grad, out, partial)"),
        "finish_backward": (backward, "finish_backward(softmax, grad, out, partial)"),
    }
    text = f"""
// Edge softmax ({dtype}, {index} ids)
namespace dg {{ namespace NAME {{
using item = {CPP_TYPES[dtype]};
using index = {CPP_TYPES[index]};
using compute = compute_t<item>;
"""
    for name, (parameters, call) in kernels.items():
        text += f"""extern "C" __global__ void __launch_bounds__(BLOCK, {blocks}) NAME_{name}({ROWS},
    {parameters}) {{
    {_ROWS}
    Softmax<item, index, {vec}, {features}, {entries}, {at_once}>(rows, heads).{call};
}}
"""
    for name, sums in (("merge_forward", "false"), ("merge_backward", "true")):
        text += f"""extern "C" __global__ void __launch_bounds__(BLOCK) NAME_{name}(const index* long_chunks,
    long long num_long, compute* partial, long long heads) {{
    softmax_merge<compute, index, {sums}>(long_chunks, num_long, partial, heads);
}}
"""
    return make_program(
        "softmax", ("common", "rows", "softmax"), text + "} }\n", (*kernels, "merge_forward", "merge_backward")
    )


def specialised(dtype: str, index: str, heads: int, addresses: list[int], mean: float) -> tuple[CudaProgram, int, int]:
    """Return the kernels for tensors at ``addresses``, how many rows a block takes, and the cuts of the heads."""
    vec = widest_vector(dtype, heads, addresses)
    features, entries, _ = team_of(-(-heads // vec), mean)
    program = softmax_program(dtype, index, vec, features, entries, *HELD)
    return program, BLOCK // (features * entries), -(-heads // (vec * features))


def bind_softmax(
    structure: Structure, index: str, dtype: str, heads: int, backward: bool, queue: Callable[[], Runner]
) -> Callable[..., None]:
    """Return a function of the addresses of operands and result, (num_edges, heads) in edge-id order, that runs.

    It normalises logits among the entries of each row; ``backward``, of a softmax and the gradient behind it, it writes
    softmax * (grad - sum over the row of softmax * grad).
    """
    runner, count = queue(), 3 if backward else 2
    aligned = _bound(structure, index, dtype, heads, [0] * count, runner)

    def run(operands: Sequence[int], out: int, aux: int = 0) -> None:
        tensors = [*operands, out]
        start = aligned
        if reduce(or_, tensors) % VECTOR_BYTES:
            start = _bound(structure, index, dtype, heads, tensors, runner)
        start(tensors)

    return run


def _bound(
    structure: Structure, index: str, dtype: str, heads: int, tensors: list[int], runner: Runner
) -> Callable[[list[int]], None]:
    """Return a function of the tensors' addresses, aligned as these are, that starts the kernels."""
    way = "backward" if len(tensors) == 3 else "forward"
    program, teams, cuts = specialised(dtype, index, heads, tensors, structure.mean)
    size = structure.num_chunks * 2 * heads * ITEM_BYTES[compute_dtype(dtype)]
    first = len(structure.words)
    words = packed([*structure.words, *tensors, 0, heads])
    rows = runner.bind(program, way, (-(-structure.num_teams // teams), cuts), len(words))

    def start(tensors: list[int]) -> None:
        arguments = words[:]
        arguments[first : first + len(tensors)] = array("q", tensors)
        if not size:
            rows(arguments)
            return
        partial = runner.empty(size)
        arguments[-2] = share = partial.address
        rows(arguments)
        merge = [structure.addresses[3], structure.num_long, share, heads]
        runner.launch(program, f"merge_{way}", structure.merge_grid(heads), merge)
        grid = -(-structure.num_chunks // teams), cuts
        runner.launch(program, f"finish_{way}", grid, [*structure.chunk_words, *tensors, share, heads])

    return start
