"""Philox4x32-10, the counter-based random generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".

A draw is a function of a key and a counter, so nothing is stored and nothing depends on the order of drawing. Here the
key is the seed and the counter is (edge id, head // 4): its four words serve four neighbouring heads.
"""

from __future__ import annotations

from functools import cache

from llvmlite import ir

from .types import BYTES, I32, I64, LANES, NUMBERS, int64, none
from .values import Intrinsic, intrinsic, spread_scalar

ENTRIES = 8
"""Entries that are drawn for at once, one in each lane."""
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)

_LANES = ir.VectorType(I32, ENTRIES)
_WIDE = ir.VectorType(I64, ENTRIES)


def _everywhere(value: int) -> ir.Constant:
    return ir.Constant(_LANES, [value] * ENTRIES)


def _spread(builder: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    return spread_scalar(builder, scalar, ENTRIES)


def _product(builder: ir.IRBuilder, value: ir.Value, multiplier: int) -> tuple[ir.Value, ir.Value]:
    """Return the high and the low half of the 64-bit products."""
    wide = builder.mul(builder.zext(value, _WIDE), ir.Constant(_WIDE, [multiplier] * ENTRIES))
    return builder.trunc(builder.lshr(wide, ir.Constant(_WIDE, [32] * ENTRIES)), _LANES), builder.trunc(wide, _LANES)


def _draw(builder: ir.IRBuilder, counter: list[ir.Value], key: list[ir.Value]) -> list[ir.Value]:
    """Return the four words of each lane's draw."""
    for step in range(ROUNDS):
        if step:
            key = [builder.add(part, _everywhere(by)) for part, by in zip(key, KEY_STEPS, strict=True)]
        high0, low0 = _product(builder, counter[0], MULTIPLIERS[0])
        high1, low1 = _product(builder, counter[2], MULTIPLIERS[1])
        first = builder.xor(builder.xor(high1, counter[1]), key[0])
        third = builder.xor(builder.xor(high0, counter[3]), key[1])
        counter = [first, low1, third, low0]
    return counter


def _halves(builder: ir.IRBuilder, value: ir.Value) -> list[ir.Value]:
    """Return the low and the high 32 bits of 64."""
    kind = _LANES if isinstance(value.type, ir.VectorType) else I32
    by = ir.Constant(value.type, [32] * ENTRIES if isinstance(value.type, ir.VectorType) else 32)
    return [builder.trunc(value, kind), builder.trunc(builder.lshr(value, by), kind)]


@cache
def multiplier_drawer(dtype: str, index: str) -> Intrinsic:
    """Return ``draw(out, stride, edge_ids, j, num_entries, group, seed, threshold, scale)``.

    For the entries ``j`` to ``j + ENTRIES - 1`` (the last entry stands for those beyond the end) and the heads of
    ``group`` it writes ``scale`` where the word drawn is at least ``threshold``, else 0: four values of ``dtype`` at
    ``out`` and at every ``stride`` bytes after it. ``edge_ids`` 0 means that entry j is edge j.
    """
    element = LANES[dtype]

    @intrinsic(none, *[int64] * 8, NUMBERS[dtype])
    def draw(
        builder: ir.IRBuilder,
        address: ir.Value,
        step: ir.Value,
        edge_ids: ir.Value,
        j: ir.Value,
        num_entries: ir.Value,
        group: ir.Value,
        seed: ir.Value,
        threshold: ir.Value,
        scale: ir.Value,
    ) -> None:
        edges = _edges(builder, edge_ids, j, num_entries, index)
        counter = [*_halves(builder, edges), _spread(builder, builder.trunc(group, I32)), _everywhere(0)]
        words = _draw(builder, counter, [_spread(builder, part) for part in _halves(builder, seed)])
        least = _spread(builder, builder.trunc(threshold, I32))
        factor, dropped = _spread(builder, scale), ir.Constant(ir.VectorType(element, ENTRIES), [0.0] * ENTRIES)
        values = [builder.select(builder.icmp_unsigned(">=", word, least), factor, dropped) for word in words]
        for lane, four in enumerate(_by_entry(builder, values)):
            at = builder.add(address, builder.mul(step, I64(lane)))
            builder.store(four, builder.inttoptr(at, four.type.as_pointer()), align=BYTES[dtype])

    return draw


def _edges(builder: ir.IRBuilder, edge_ids: ir.Value, j: ir.Value, num_entries: ir.Value, index: str) -> ir.Value:
    """Return the ids of the edges of entries from ``j`` on, one a lane; the last entry stands for those beyond it."""
    entries: ir.Value = ir.Constant(_WIDE, ir.Undefined)
    final = builder.sub(num_entries, I64(1))
    for lane in range(ENTRIES):
        entry = builder.add(j, I64(lane))
        entry = builder.select(builder.icmp_signed("<", entry, final), entry, final)
        entries = builder.insert_element(entries, entry, I32(lane))
    before = builder.basic_block
    with builder.if_then(builder.icmp_signed("!=", edge_ids, I64(0))):
        array, loaded = builder.inttoptr(edge_ids, LANES[index].as_pointer()), entries
        for lane in range(ENTRIES):
            edge = builder.load(builder.gep(array, [builder.extract_element(entries, I32(lane))]))
            edge = builder.sext(edge, I64) if index == "int32" else edge
            loaded = builder.insert_element(loaded, edge, I32(lane))
        block = builder.basic_block
    edges = builder.phi(_WIDE)
    edges.add_incoming(entries, before)
    edges.add_incoming(loaded, block)
    return edges


def _by_entry(builder: ir.IRBuilder, words: list[ir.Value]) -> list[ir.Value]:
    """Turn four vectors, one value for each entry, into one vector of four values for each entry."""

    def pick(left: ir.Value, right: ir.Value, order: list[int]) -> ir.Value:
        return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(I32, len(order)), order))

    both = [i for lane in range(ENTRIES) for i in (lane, ENTRIES + lane)]
    low, high = pick(words[0], words[1], both), pick(words[2], words[3], both)
    ends = (0, 1, 2 * ENTRIES, 2 * ENTRIES + 1)
    return [pick(low, high, [2 * lane + i for i in ends]) for lane in range(ENTRIES)]
