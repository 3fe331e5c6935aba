"""Kernel source, compiled, does what Python does with the same text."""

from __future__ import annotations

import ctypes
import itertools
import math
from typing import Any

import numpy as np
import pytest

from dglite.kernels.cpu.compile.jit import compile_kernel
from dglite.kernels.cpu.compile.machine import data_layout
from dglite.kernels.cpu.compile.translate import translate
from dglite.kernels.cpu.lanes.target import triple

HEADER = """from dglite.kernels.cpu.lanes import simd

FOUR, HALF = 4, 0.5
word, put = simd.word, simd.storer("int64", 1)
number, put_number = simd.loader("float64", 1), simd.storer("float64", 1)
four = simd.loader("float64", 4)


"""
ROOM = 32
"""Words that a kernel has: what it is given, then what it finds."""
INTEGERS = [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (0, 5), (-1, 64), (2**40, 3)]
NUMBERS = [(0.5, 2.0), (-1.5, 0.25), (3.0, -4.0), (math.inf, 1.0), (math.nan, 1.0)]


def _cell(address: int, kind: type) -> Any:
    return ctypes.cast(address, ctypes.POINTER(kind))


PYTHON: dict[str, Any] = {
    "word": lambda address, i: _cell(address, ctypes.c_int64)[i],
    "put": lambda address, value: _cell(address, ctypes.c_int64).__setitem__(0, int(value)),
    "number": lambda address: _cell(address, ctypes.c_double)[0],
    "put_number": lambda address, value: _cell(address, ctypes.c_double).__setitem__(0, float(value)),
    "FOUR": 4,
    "HALF": 0.5,
}
"""What the header means, for Python."""


def run(body: str, words: list[int | float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the memory after Python and after the compiled kernel have run ``body``."""
    source = "def kernel(args):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    meanings = dict(PYTHON)
    exec(source, meanings)
    compiled = ctypes.CFUNCTYPE(None, ctypes.c_int64)(compile_kernel("test", HEADER + source))
    results = []
    for function in (meanings["kernel"], compiled):
        memory = np.zeros(ROOM, np.int64)
        for i, value in enumerate(words):
            (memory.view(np.float64) if isinstance(value, float) else memory)[i] = value
        function(memory.ctypes.data)
        results.append(memory)
    return results[0], results[1]


def check(body: str, *words: int | float) -> None:
    want, result = run(body, list(words))
    assert np.count_nonzero(want[len(words) :]), "the body writes something"
    np.testing.assert_array_equal(result, want)


def writes(expressions: list[str], put: str = "put") -> str:
    """Return lines that write each expression to a word of its own, from the second on."""
    return "\n".join(f"{put}(args + {8 * (i + 2)}, {text})" for i, text in enumerate(expressions))


@pytest.mark.parametrize(("x", "y"), INTEGERS)
def test_integers(x: int, y: int) -> None:
    texts = [
        "x + y",
        "x - y",
        "x * y",
        "x // y",
        "x % y",
        "x & y",
        "x | y",
        "-x",
        "x << 3",
        "x >> 2",
        "x // 8",
        "x % 8",
    ]
    texts += ["x // FOUR + 1", "x // 3", "x % 3", "min(x, y)", "max(x, y, 3)"]
    texts += ["1 + 2 * 3 - 7 // 2", "-7 // 2 + x"]
    check("x, y = word(args, 0), word(args, 1)\n" + writes(texts), x, y)


@pytest.mark.parametrize(("x", "y"), NUMBERS)
def test_numbers(x: float, y: float) -> None:
    texts = ["x + y", "x - y", "x * y", "x / y", "-x", "x * HALF", "3 * x", "x + 1", "7 / 2 + x", 'float("-inf")']
    texts += ["1.0 if x < y else 2.0", "1.0 if x != x else 0.0", "max(x, y)", "1 / FOUR"]
    texts += ["x * y + 1", "1 - x * y", "x * y - 3 * x", "x + 2 * 3", "x * 2 - 0.5"]
    check("x, y = number(args), number(args + 8)\n" + writes(texts, "put_number"), x, y)


@pytest.mark.parametrize(("x", "y"), INTEGERS)
def test_truths(x: int, y: int) -> None:
    texts = ["1 + (x < y)", "1 + (0 <= x < 7)", "5 if x > 0 and y > 0 else 6", "5 if x > 0 or y > 0 else 6"]
    texts += ["2 if not x else 3", "2 if x and y > 2 or x == 7 else 3", "9 if x >= y else 8 if y != 2 else 7"]
    check("x, y = word(args, 0), word(args, 1)\n" + writes(texts), x, y)


def test_what_a_condition_excludes_is_not_read() -> None:
    check("put(args + 8, 3 if word(args, 0) == 0 or word(word(args, 0), 0) == 1 else word(word(args, 0), 0))", 0)
    check("put(args + 8, word(word(args, 0), 0) if word(args, 0) != 0 and 1 > 0 else 4)", 0)


LOOPS = """total, last = 0, 0
for i in range(word(args, 0)):
    if i % 3 == 1:
        continue
    k = i
    while k > 0:
        if k == 2:
            k -= 2
            continue
        total += k
        k = k // 2
    for j in range(word(args, 1), i, 2):
        total, last = total + j * i, total
    else_part = 1 if i > 4 else 0
    if else_part:
        last += 1
    elif i == 2:
        last = -1
    else:
        total -= 1
put(args + 16, total + 1)
put(args + 24, last + 7)
"""


@pytest.mark.parametrize(("x", "y"), list(itertools.product([0, 1, 2, 9, 20], [0, 3, -4])))
def test_loops_and_branches(x: int, y: int) -> None:
    check(LOOPS, x, y)


def test_a_return_ends_the_kernel() -> None:
    body = "put(args + 8, 1)\nfor i in range(5):\n    if i == word(args, 0):\n        return\n    put(args + 16, i)"
    for stop in (0, 3, 9):
        check(body, stop)


def test_a_loop_hands_a_wider_number_on_and_branches_meet_in_the_wider_one() -> None:
    body = """total = 0.0
for i in range(3):
    total = total + i
kind = 1
if word(args, 0) > 2:
    kind = 0.25
put_number(args + 8, total)
put_number(args + 16, kind)"""
    for x in (1, 5):
        check(body, x)


def test_what_a_round_makes_wider_is_wide_before_the_loop() -> None:
    body = """total, other = 0, 1
for i in range(word(args, 0)):
    for j in range(3):
        total = total + other / 4
    other = total
put_number(args + 8, total + 1)
put_number(args + 16, other)"""
    for x in (0, 1, 5):
        check(body, x)


def test_a_name_may_change_its_type() -> None:
    check("x = word(args, 0)\nx = x / 4\nput_number(args + 8, x)\nx = 3\nput(args + 16, x)", 5)


REFUSED = {
    "return 3": "returns something",
    "x = y": "is unknown here",
    "x = unknown(args)": "calls something else than an intrinsic",
    "x = 'text'": "no number",
    "x, y = word": "assigns to something else",
    "for x in args:\n        pass": "over something else than a range",
    "for i in range(0, 9, 0):\n        x = i": "step is not positive",
    "try:\n        x = 1\n    finally:\n        x = 2": "no statement of kernels",
    "x = [1]": "no expression of kernels",
    "x = 1.5 % 2.0": "no operation of float64",
    "x = +args": "no operation of kernels",
    "x = 2 ** args": "no operation of kernels",
    "x = args is 2": "no comparison of kernels",
    "x = y = 3": "assigns to something else",
    "x = 1\n    for i in range(3):\n        x = four(args)": r"before which x is int64, and Vec\(.*\) after a round",
    "x = word": "no number",
    "if args > 0:\n        x = 1\n    y = x": "is unknown here",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_not_understood_is_refused(body: str) -> None:
    with pytest.raises(TypeError, match=f"line .* of a kernel, .*{REFUSED[body]}"):
        translate(f"{HEADER}def kernel(args):\n    {body}\n", "test.", triple(), data_layout())


SERVING = (
    HEADER
    + """
def _half(x: float) -> float:
    return x * HALF


def _sign(i: int) -> int:
    if i < 0:
        return -1
    return 1 if i > 0 else 0


def _write(args: int, value: float) -> None:
    put_number(args + 8, float(_sign(word(args, 0))) * _half(value))


def kernel(args):
    _write(args, 3)
"""
)


@pytest.mark.parametrize("number", [-5, 0, 9])
def test_functions_serve_others(number):
    memory = np.array([number, 0])
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(compile_kernel("test", SERVING))(memory.ctypes.data)
    assert memory.view(np.float64)[1] == 1.5 * np.sign(number)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    if i > 0:\n        return 1\n", "does not return a number on every way"),
        ("    return\n", "returns something else than int64"),
    ],
)
def test_a_function_that_promises_a_number_returns_one(body, message):
    with pytest.raises(TypeError, match=message):
        translate(f"def _f(i: int) -> int:\n{body}", "f.", triple(), data_layout())
