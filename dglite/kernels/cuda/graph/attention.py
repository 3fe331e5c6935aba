"""Attention on a GPU: the phases and arguments of the CPU's kernels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ...render.dropout import dropout_words
from ...render.tiles import AttentionSpec, Phase, Score
from ...spec import ITEM_BYTES, compute_dtype
from ..render import ROWS
from ..run.program import BLOCK, CPP_TYPES, CudaProgram, Runner, blocks_for, make_program
from .sparse import WARP, widest_vector
from .structure import Structure

__all__ = ["attention_program", "attention_spec", "dropout_multipliers", "dropout_words", "run_attention"]

PARTS = ("common", "rows", "philox", "softmax", "attention", "attention_forward", "attention_backward")
WORDS = {
    **dict.fromkeys(("x", "left", "right", "attn", "attn_right", "weight", "grad"), "const item*"),
    **dict.fromkeys(("log_sum", "out", "sloped_out", "sloped_sum", "state"), "compute*"),
    **dict.fromkeys(("x_grad", "left_grad", "right_grad", "attn_grad", "weight_grad"), "compute*"),
    **dict.fromkeys(("x_stride", "left_stride", "right_stride"), "long long"),
    **dict.fromkeys(("x_grad_stride", "left_grad_stride", "right_grad_stride"), "long long"),
    **dict.fromkeys(("num_right", "heads", "features"), "long long"),
    **dict.fromkeys(("seed", "threshold"), "unsigned long long"),
    **dict.fromkeys(("slope", "score_scale", "keep_scale"), "double"),
    "partial": "compute*",
    "partial_stride": "long long",
}
"""Types of the kernels' arguments: the members of ``AttentionArguments`` in attention.cuh, in order."""
_VECTORS = ("x", "right", "grad", "attn", "attn_right")
"""Given tensors that are read as vectors."""


def attention_spec(
    score: Score,
    phase: Phase,
    dtype: str,
    index: str,
    heads: int,
    features: int,
    edge_features: int = 0,
    **flags: bool,
) -> AttentionSpec:
    """Return what the kernels of a phase are compiled for; they have no part of the edge, ``edge_features`` is 0."""
    return AttentionSpec(score, phase, dtype, index, heads, features, 1, 1, **flags)


def run_attention(
    spec: AttentionSpec, structure: Structure, arguments: Mapping[str, int | float], runner: Runner
) -> None:
    """Run one phase. ``arguments`` are addresses, strides and numbers by the names of ``WORDS``."""
    values = {**arguments, "heads": spec.heads, "features": spec.features}
    program, lanes = specialised(spec, [int(values.get(name, 0)) for name in _VECTORS], structure.mean)
    additive_destination = spec.phase is Phase.DESTINATION and spec.score is Score.ADDITIVE
    shares = None
    if spec.weight_gradient and spec.heads > 1:
        shares = runner.empty(structure.num_entries * spec.heads * ITEM_BYTES[spec.compute])
        values["weight_grad"] = shares.address
    partial = None
    if structure.num_chunks and not additive_destination:
        # A multiple of the widest vector, so that every chunk's share begins at one.
        values["partial_stride"] = stride = -(-(2 * spec.features + 3) // 8) * 8
        partial = runner.empty(structure.num_chunks * spec.heads * stride * ITEM_BYTES[spec.compute])
        values["partial"] = partial.address
    words = [
        float(values.get(name, 0)) if kind == "double" else int(values.get(name, 0)) for name, kind in WORDS.items()
    ]
    rows, teams = structure.words, structure.num_teams
    if additive_destination:
        rows, teams = structure.uncut_words, structure.num_rows
    runner.launch(program, "rows", (blocks_for(teams * spec.heads * lanes), 1), [*rows, *words])
    if partial is not None:
        long_rows = [*structure.addresses[2:], structure.num_long]
        runner.launch(program, "merge", (blocks_for(structure.num_long * spec.width), 1), [*long_rows, *words])
    if shares is not None:
        summed = [shares.address, int(arguments["weight_grad"]), structure.num_entries, spec.heads]
        runner.launch(_dropout_program(spec.compute), "add_heads", (blocks_for(structure.num_entries), 1), summed)


def specialised(spec: AttentionSpec, addresses: list[int], mean: float) -> tuple[CudaProgram, int]:
    """Return the kernels for tensors at ``addresses`` and rows of ``mean`` entries, and the lanes of a team."""
    vec = widest_vector(spec.dtype, spec.features, addresses)
    vectors = -(-spec.features // vec)
    features = min(WARP, 1 << (vectors - 1).bit_length())
    entries = 1
    while features * entries < min(WARP, mean):  # a tile should be about as long as a row
        entries *= 2
    return attention_program(spec, vec, features, entries, -(-vectors // features)), features * entries


@cache
def attention_program(spec: AttentionSpec, vec: int, features: int, entries: int, vectors: int) -> CudaProgram:
    """Return the kernels ``rows`` and ``merge`` of a phase, for teams of ``features * entries`` lanes."""
    additive = spec.score is Score.ADDITIVE
    side = {Phase.DESTINATION: "destination", Phase.SOURCE: "source"}.get(spec.phase)
    method = "forward" if side is None else f"{'additive' if additive else 'product'}_{side}"
    merge = "merge_forward" if side is None else f"merge_backward<{str(side == 'source').lower()}>"
    flags = [spec.dropout, spec.weighted, spec.weight_gradient, spec.training, spec.projected]
    shape = f"{vec}, {features}, {entries}, {vectors}, {', '.join(str(flag).lower() for flag in flags)}"
    parameters = ", ".join(f"{kind} {name}" for name, kind in WORDS.items())
    arguments = f"const AttentionArguments<item, index> arguments{{{', '.join(WORDS)}}};"
    body = f"""
// {spec.phase.value.capitalize()}: {spec.score.value} ({spec.dtype}, {spec.index} ids)
namespace dg {{ namespace NAME {{
using item = {CPP_TYPES[spec.dtype]};
using index = {CPP_TYPES[spec.index]};
using compute = compute_t<item>;
using Kernel = Attention<item, index, {spec.score.name}, {shape}>;
extern "C" __global__ void __launch_bounds__(BLOCK) NAME_rows({ROWS},
    {parameters}) {{
    const Rows<index> rows{{indptr, indices, edge_ids, num_rows, chunk_rows, chunk_firsts, num_chunks, limit}};
    {arguments}
    Kernel(rows, arguments).{method}();
}}
extern "C" __global__ void __launch_bounds__(BLOCK) NAME_merge(const index* long_rows, const index* long_chunks,
    long long num_long, {parameters}) {{
    {arguments}
    Kernel::{merge}(arguments, long_rows, long_chunks, num_long);
}}
}} }}
"""
    return make_program("attention", PARTS, body, ("rows", "merge"))


def dropout_multipliers(
    dtype: str, num_edges: int, heads: int, probability: float, seed: int, out: int, runner: Runner
) -> None:
    """Write the multipliers of all edges and heads, (num_edges, heads), as the attention kernels draw them."""
    dropout = dropout_words(probability, seed)
    words = [out, num_edges, heads, *(dropout[name] for name in ("seed", "threshold", "keep_scale"))]
    runner.launch(_dropout_program(compute_dtype(dtype)), "dropout", (-(-num_edges * heads // BLOCK), 1), words)


@cache
def _dropout_program(dtype: str) -> CudaProgram:
    body = f"""
namespace dg {{ namespace NAME {{
using compute = {CPP_TYPES[dtype]};
extern "C" __global__ void __launch_bounds__(BLOCK) NAME_dropout(compute* out, long long num_edges, long long heads,
    unsigned long long seed, unsigned long long threshold, double kept) {{
    dropout_multipliers(out, num_edges, heads, Dropout{{seed, threshold, kept}});
}}
extern "C" __global__ void __launch_bounds__(BLOCK) NAME_add_heads(const compute* shares, compute* out,
    long long num_edges, long long heads) {{
    add_heads(shares, out, num_edges, heads);
}}
}} }}
"""
    return make_program("dropout", PARTS, body, ("dropout", "add_heads"))
