"""Attention on a GPU: the phases and arguments of the CPU's kernels."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from ...render.dropout import dropout_words
from ...render.tiles import AttentionSpec, Phase, Score
from ...spec import ITEM_BYTES, compute_dtype
from ..render import ROWS
from ..run.program import BLOCK, CPP_TYPES, CudaProgram, Runner, as_word, blocks_for, make_program, packed
from .convert import simple_program
from .sparse import VECTOR_BYTES, WARP, power_of_two, widest_vector
from .structure import Structure

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
_NUMBERS = tuple(name for name, kind in WORDS.items() if kind == "double")
_ABSENT: dict[str, int | float] = dict.fromkeys(WORDS, 0)
_PLACES = {name: place for place, name in enumerate(WORDS)}
PhaseRunner = Callable[[Sequence[int], int], None]
"""Runs a phase on the addresses of tensors, with the seed of dropout."""
MOST_AHEAD, VALUES_AHEAD = 4, 16
"""Entries that a lane has under way at once, and values of these."""
WRITES_EVERY_ROW = True
"""Rows without entries are written, too: 0."""
PROJECTS = True
"""Scores that are projections are made by :func:`bind_projection`."""


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


def bind_attention(
    spec: AttentionSpec,
    structure: Structure,
    names: Sequence[str],
    numbers: Mapping[str, int | float],
    queue: Callable[[], Runner],
) -> PhaseRunner:
    """Return a function that runs one phase on the addresses of tensors, ``names`` among ``WORDS``, and a seed.

    ``numbers`` are strides and other numbers, which do not change.
    """
    runner = queue()
    aligned = _bound(spec, structure, names, numbers, runner, ())
    vectors = [place for place, name in enumerate(names) if name in _VECTORS]

    def run(addresses: Sequence[int], seed: int) -> None:
        start, bits = aligned, 0
        for place in vectors:
            bits |= addresses[place]
        if bits % VECTOR_BYTES:
            by_name = dict(zip(names, addresses, strict=True))
            unaligned = tuple([by_name.get(name, 0) for name in _VECTORS])
            start = _bound(spec, structure, names, numbers, runner, unaligned)
        start(addresses, seed)

    return run


def run_attention(bound: PhaseRunner, addresses: Sequence[int], seed: int) -> None:
    """Run one phase; ``seed`` is 0 without dropout."""
    bound(addresses, seed)


def _bound(
    spec: AttentionSpec,
    structure: Structure,
    names: Sequence[str],
    numbers: Mapping[str, int | float],
    runner: Runner,
    vectors: tuple[int, ...],
) -> PhaseRunner:
    """Return the same for tensors that are aligned as ``vectors``, the addresses of those of ``_VECTORS``."""
    kernels, summed, size = _kernels(spec, structure.mean, vectors), -1, ITEM_BYTES[spec.compute]
    values = {**_ABSENT, **numbers, "heads": spec.heads, "features": spec.features}
    if spec.weight_gradient and spec.heads > 1:
        summed = names.index("weight_grad")
    chunks = 0 if kernels.whole_rows else structure.num_chunks * spec.heads
    # A multiple of the widest vector, so that every chunk's share begins at one.
    values["partial_stride"] = stride = -(-(2 * spec.features + 3) // 8) * 8 if chunks else 0
    rows, teams = structure.words, structure.num_teams
    if kernels.whole_rows:
        rows, teams = structure.uncut_words, structure.num_rows
    arguments = [as_word(float(values[name])) if name in _NUMBERS else values[name] for name in WORDS]
    words, first, program = packed([*rows, *arguments]), len(rows), kernels.program
    places = [first + _PLACES[name] for name in names]
    at_partial, at_seed, at_shares = (first + _PLACES[name] for name in ("partial", "seed", "weight_grad"))
    start_rows = runner.bind(program, "rows", (blocks_for(teams * kernels.lanes), kernels.groups), len(words))

    def start(addresses: Sequence[int], seed: int) -> None:
        call_words = words[:]
        for place, address in zip(places, addresses, strict=True):
            call_words[place] = address
        if seed:
            call_words[at_seed] = as_word(seed % 2**64)
        shares = partial = None
        if summed >= 0:
            shares = runner.empty(structure.num_entries * spec.heads * size)
            call_words[at_shares] = shares.address
        if chunks:
            partial = runner.empty(chunks * stride * size)
            call_words[at_partial] = partial.address
        start_rows(call_words)
        if partial is not None:
            long_rows = [*structure.addresses[2:], structure.num_long]
            runner.launch(
                program, "merge", (blocks_for(structure.num_long * spec.width), 1), [*long_rows, *call_words[first:]]
            )
        if shares is not None:
            sums = [shares.address, addresses[summed], structure.num_entries, spec.heads]
            runner.launch(_dropout_program(spec.compute), "add_heads", (blocks_for(structure.num_entries), 1), sums)

    return start


class Team(NamedTuple):
    """How lanes share a row: see attention.cuh. ``lanes`` have a head, of which each team has ``heads``."""

    vec: int
    lanes: int
    heads: int
    entries: int
    vectors: int
    ahead: int


class _Kernels(NamedTuple):
    """The kernels of a phase: lanes of a team, groups of heads, and whether they take rows whole, however long."""

    program: CudaProgram
    lanes: int
    groups: int
    whole_rows: bool


@lru_cache(maxsize=256)
def _kernels(spec: AttentionSpec, mean: float, addresses: tuple[int, ...]) -> _Kernels:
    """Return the kernels for rows of ``mean`` entries, and for tensors at ``addresses`` that are not all aligned."""
    whole_rows = spec.phase is Phase.DESTINATION and spec.score is Score.ADDITIVE
    team = team_for(spec, 1.0 if whole_rows else mean, addresses)
    lanes = team.lanes * team.heads * team.entries
    return _Kernels(attention_program(spec, team), lanes, -(-spec.heads // team.heads), whole_rows)


def team_for(spec: AttentionSpec, mean: float, addresses: Sequence[int] = ()) -> Team:
    """Return how lanes share rows of ``mean`` entries, with tensors at ``addresses``.

    Lanes that the heads leave over share the entries, where there are at least four for each.
    """
    vec = widest_vector(spec.dtype, spec.features, addresses)
    vectors = -(-spec.features // vec)
    lanes = min(WARP, power_of_two(vectors))
    heads = min(WARP // lanes, power_of_two(spec.heads))
    entries = min(WARP // (lanes * heads), 1 << (max(int(mean) // 4, 1).bit_length() - 1))
    vectors = -(-vectors // lanes)
    most = MOST_AHEAD if spec.score is Score.ADDITIVE else MOST_AHEAD // 2
    return Team(vec, lanes, heads, entries, vectors, max(1, min(most, VALUES_AHEAD // (vec * vectors))))


@cache
def attention_program(spec: AttentionSpec, team: Team) -> CudaProgram:
    """Return the kernels ``rows`` and ``merge`` of a phase."""
    additive = spec.score is Score.ADDITIVE
    side = {Phase.DESTINATION: "destination", Phase.SOURCE: "source"}.get(spec.phase)
    method = "forward" if side is None else f"{'additive' if additive else 'product'}_{side}"
    merge = "merge_forward" if side is None else f"merge_backward<{str(side == 'source').lower()}>"
    flags = [spec.dropout, spec.weighted, spec.weight_gradient, spec.training, spec.projected]
    shape = ", ".join(str(part).lower() for part in (*team, *flags))
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


def bind_projection(
    dtype: str, shape: tuple[int, int, int], queue: Callable[[], Runner]
) -> Callable[[Sequence[int]], None]:
    """Return a function of the addresses of x, two vectors for each head, and scores, that writes these.

    x is of ``shape``, (rows, heads, features); scores (rows, 2, heads) are its products with either (heads, features).
    """
    (rows, heads, features), runner = shape, queue()

    def bound(addresses: Sequence[int]) -> Callable[[array], None]:
        vec = widest_vector(dtype, features, addresses[:3])
        lanes = min(WARP, power_of_two(-(-features // vec)))
        program = projection_program(dtype, vec, lanes)
        return runner.bind(program, "project", (blocks_for(rows * heads * lanes), 1), 7)

    aligned = bound((0, 0, 0))

    def run(addresses: Sequence[int]) -> None:
        is_aligned = not (addresses[0] | addresses[1] | addresses[2]) % VECTOR_BYTES
        (aligned if is_aligned else bound(addresses))(array("q", (*addresses, rows, heads, features)))

    return run


@cache
def projection_program(dtype: str, vec: int, lanes: int) -> CudaProgram:
    """Return the kernel that multiplies heads by vectors, loaded ``vec`` values at a time by ``lanes`` lanes."""
    kernel = (
        f"project_heads<{vec}, {lanes}>(const item* x, const item* left, const item* right, item* scores, "
        "long long rows, long long heads, long long features)"
    )
    types = f"using item = {CPP_TYPES[dtype]};\n"
    return simple_program("projection", ("common", "projection"), types, {"project": kernel})


def dropout_multipliers(
    dtype: str, num_edges: int, heads: int, probability: float, seed: int, out: int, runner: Runner
) -> None:
    """Write the multipliers of all edges and heads, (num_edges, heads), as the attention kernels draw them."""
    dropout = dropout_words(probability, seed)
    words = [out, num_edges, heads, *(dropout[name] for name in ("seed", "threshold", "keep_scale"))]
    runner.launch(_dropout_program(compute_dtype(dtype)), "dropout", (-(-num_edges * heads // BLOCK), 1), words)


@cache
def _dropout_program(dtype: str) -> CudaProgram:
    kernels = {
        "dropout": "dropout_multipliers(compute* out, long long num_edges, long long heads, "
        "Dropout{unsigned long long seed, unsigned long long threshold, double kept})",
        "add_heads": "add_heads(const compute* shares, compute* out, long long num_edges, long long heads)",
    }
    return simple_program("dropout", PARTS, f"using compute = {CPP_TYPES[dtype]};\n", kernels)
