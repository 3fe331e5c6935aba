"""Loads, stores and prefetches at 64-bit addresses, for vectors and scalars; ids of 32 or 64 bits.

Loads and stores of 16-bit floats convert from and to float32 lanes.
"""

from __future__ import annotations

from functools import cache

from llvmlite import ir

from ...spec import compute_dtype
from .halves import narrow, widen
from .types import BYTES, I8, I32, I64, LANES, STORAGE, Vec, constant, int64, none, shape_of, value_type
from .values import Intrinsic, call_external, intrinsic, spread_scalar


def _pointer(builder: ir.IRBuilder, address: ir.Value, pointee: ir.Type) -> ir.Value:
    return builder.inttoptr(address, pointee.as_pointer())


@cache
def loader(dtype: str, lanes: int) -> Intrinsic:
    """Return ``load(address)``: ``lanes`` consecutive values of ``dtype`` as a vector, or as a scalar for one lane."""
    result = value_type(compute_dtype(dtype), lanes)

    @intrinsic(result, int64)
    def load(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
        value = builder.load(_pointer(builder, address, shape_of(STORAGE[dtype], lanes)), align=BYTES[dtype])
        return widen(builder, value, dtype, lanes)

    return load


@cache
def repeat_loader(dtype: str, lanes: int, repeat: int) -> Intrinsic:
    """Return ``load(address)``: ``lanes / repeat`` consecutive values, each in ``repeat`` neighbouring lanes."""
    result, count = Vec(compute_dtype(dtype), lanes), lanes // repeat

    @intrinsic(result, int64)
    def load(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
        value = builder.load(_pointer(builder, address, shape_of(STORAGE[dtype], count)), align=BYTES[dtype])
        value = widen(builder, value, dtype, count)
        if count == 1:
            return spread_scalar(builder, value, lanes)
        order = ir.Constant(ir.VectorType(I32, lanes), [lane // repeat for lane in range(lanes)])
        return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)

    return load


@cache
def storer(dtype: str, lanes: int, nontemporal: bool = False) -> Intrinsic:
    """Return ``store(address, value)``, the counterpart of :func:`loader`.

    A ``nontemporal`` store goes to memory past the caches, to an address that is a multiple of its size or of 64: what
    was there is not read first. Only the next locked instruction orders it with others, such as the end of a launch.
    """

    align = min(BYTES[dtype] * lanes, 64) if nontemporal else BYTES[dtype]

    @intrinsic(none, int64, value_type(compute_dtype(dtype), lanes))
    def store(builder: ir.IRBuilder, address: ir.Value, value: ir.Value) -> None:
        value = narrow(builder, value, dtype, lanes)
        stored = builder.store(value, _pointer(builder, address, value.type), align=align)
        if nontemporal:
            stored.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))

    return store


@cache
def part_loader(dtype: str, lanes: int, other: float) -> Intrinsic:
    """Return ``load(address, count)``: ``count`` consecutive values, or ``lanes`` where there are more.

    The lanes behind them hold ``other``, and their memory is not touched. Of float32 or float64.
    """
    result = Vec(dtype, lanes)

    @intrinsic(result, int64, int64)
    def load(builder: ir.IRBuilder, address: ir.Value, count: ir.Value) -> ir.Value:
        pointer, rest = _pointer(builder, address, result.llvm), constant(result.llvm.element, other, lanes)
        with builder.if_else(builder.icmp_signed(">=", count, I64(lanes)), likely=True) as (all_lanes, some):
            with all_lanes:
                whole, after_whole = builder.load(pointer, align=BYTES[dtype]), builder.block
            with some:
                mask = _first_lanes(builder, count, lanes)
                part = _masked(builder, "load", result, result.llvm, (pointer, I32(BYTES[dtype]), mask, rest))
                after_part = builder.block
        loaded = builder.phi(result.llvm)
        loaded.add_incoming(whole, after_whole)
        loaded.add_incoming(part, after_part)
        return loaded

    return load


@cache
def part_storer(dtype: str, lanes: int) -> Intrinsic:
    """Return ``store(address, value, count)``, the counterpart of :func:`part_loader`."""
    vec = Vec(dtype, lanes)

    @intrinsic(none, int64, vec, int64)
    def store(builder: ir.IRBuilder, address: ir.Value, value: ir.Value, count: ir.Value) -> None:
        pointer = _pointer(builder, address, vec.llvm)
        with builder.if_else(builder.icmp_signed(">=", count, I64(lanes)), likely=True) as (all_lanes, some):
            with all_lanes:
                builder.store(value, pointer, align=BYTES[dtype])
            with some:
                mask = _first_lanes(builder, count, lanes)
                _masked(builder, "store", vec, ir.VoidType(), (value, pointer, I32(BYTES[dtype]), mask))

    return store


def _masked(builder: ir.IRBuilder, name: str, vec: Vec, result: ir.Type, args: tuple[ir.Value, ...]) -> ir.Value:
    """Call LLVM's masked load or store."""
    return call_external(builder, f"llvm.masked.{name}.v{vec.lanes}f{8 * BYTES[vec.dtype]}.p0", result, args)


def _first_lanes(builder: ir.IRBuilder, count: ir.Value, lanes: int) -> ir.Value:
    """Return a mask of the first ``count`` lanes of a vector, of which there are more."""
    numbers = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
    return builder.icmp_signed("<", numbers, spread_scalar(builder, builder.trunc(count, I32), lanes))


@cache
def index_loader(dtype: str) -> Intrinsic:
    """Return ``index(address, i)``: the ``i``-th id or pointer of an int32 or int64 array, as int64."""

    @intrinsic(int64, int64, int64)
    def index(builder: ir.IRBuilder, address: ir.Value, i: ir.Value) -> ir.Value:
        return _index(builder, address, i, dtype)

    return index


word = index_loader("int64")


@cache
def edge_index_loader(dtype: str) -> Intrinsic:
    """Return ``edge_index(address, j)``: the edge id of entry ``j``; ``j`` itself without an array (address 0)."""

    @intrinsic(int64, int64, int64)
    def edge_index(builder: ir.IRBuilder, address: ir.Value, j: ir.Value) -> ir.Value:
        return _edge_index(builder, address, j, dtype)

    return edge_index


def _index(builder: ir.IRBuilder, address: ir.Value, i: ir.Value, dtype: str) -> ir.Value:
    value = builder.load(builder.gep(_pointer(builder, address, LANES[dtype]), [i]))
    return builder.sext(value, I64) if dtype == "int32" else value


def _edge_index(builder: ir.IRBuilder, address: ir.Value, j: ir.Value, dtype: str) -> ir.Value:
    before = builder.basic_block
    with builder.if_then(builder.icmp_signed("!=", address, I64(0))):
        loaded = _index(builder, address, j, dtype)
        block = builder.basic_block
    edge = builder.phi(I64)
    edge.add_incoming(j, before)
    edge.add_incoming(loaded, block)
    return edge


def _prefetcher(locality: int, writes: bool = False) -> Intrinsic:
    @intrinsic(none, int64)
    def prefetch(builder: ir.IRBuilder, address: ir.Value) -> None:
        pointer = _pointer(builder, address, I8)
        hints = I32(int(writes)), I32(locality), I32(1)
        call_external(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer, *hints])

    return prefetch


prefetch, prefetch_l2, prefetch_write = _prefetcher(3), _prefetcher(2), _prefetcher(3, writes=True)
"""Ask for the cache line at an address ahead of its use: into the first cache; into the second, which has room for
more of them; into the first, to be written."""


@cache
def edge_gather(dtype: str, index: str, lanes: int) -> Intrinsic:
    """Return ``gather(address, edge_ids, j)``: the values of the edges of entries ``j`` to ``j + lanes - 1``."""
    result = value_type(compute_dtype(dtype), lanes)

    @intrinsic(result, int64, int64, int64)
    def gather(builder: ir.IRBuilder, address: ir.Value, edge_ids: ir.Value, j: ir.Value) -> ir.Value:
        stored = ir.VectorType(STORAGE[dtype], lanes)
        in_order = builder.icmp_signed("==", edge_ids, I64(0))
        with builder.if_else(in_order) as (then, otherwise):
            with then:
                pointer = builder.gep(_pointer(builder, address, STORAGE[dtype]), [j])
                run = builder.load(builder.bitcast(pointer, stored.as_pointer()), align=BYTES[dtype])
                run_block = builder.basic_block
            with otherwise:
                picked: ir.Value = ir.Constant(stored, ir.Undefined)
                for lane in range(lanes):
                    pointer = _edge_pointer(builder, (address, edge_ids, j), lane, dtype, index)
                    picked = builder.insert_element(picked, builder.load(pointer), I32(lane))
                picked_block = builder.basic_block
        value = builder.phi(stored)
        value.add_incoming(run, run_block)
        value.add_incoming(picked, picked_block)
        return widen(builder, value, dtype, lanes)

    return gather


@cache
def edge_scatter(dtype: str, index: str, lanes: int) -> Intrinsic:
    """Return ``scatter(address, edge_ids, j, value)``, the counterpart of :func:`edge_gather`."""

    @intrinsic(none, int64, int64, int64, value_type(compute_dtype(dtype), lanes))
    def scatter(builder: ir.IRBuilder, address: ir.Value, edge_ids: ir.Value, j: ir.Value, value: ir.Value) -> None:
        stored = narrow(builder, value, dtype, lanes)
        in_order = builder.icmp_signed("==", edge_ids, I64(0))
        with builder.if_else(in_order) as (then, otherwise):
            with then:
                pointer = builder.gep(_pointer(builder, address, STORAGE[dtype]), [j])
                builder.store(stored, builder.bitcast(pointer, stored.type.as_pointer()), align=BYTES[dtype])
            with otherwise:
                for lane in range(lanes):
                    pointer = _edge_pointer(builder, (address, edge_ids, j), lane, dtype, index)
                    builder.store(builder.extract_element(stored, I32(lane)), pointer)

    return scatter


def _edge_pointer(builder: ir.IRBuilder, args: tuple[ir.Value, ...], lane: int, dtype: str, index: str) -> ir.Value:
    edge = _index(builder, args[1], builder.add(args[2], I64(lane)), index)
    return builder.gep(_pointer(builder, args[0], STORAGE[dtype]), [edge])
