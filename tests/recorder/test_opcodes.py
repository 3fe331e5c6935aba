"""Which instructions may stand in a recorded function, in every version of Python that is supported."""

from __future__ import annotations

import dis
import sys
from typing import Any

import pytest
import torch

from dglite import function as fn
from dglite.recorder import bytecode, refusal
from dglite.recorder.bytecode import known_opcodes
from tests.recorder.common import compiled, for_real, multigraph

VERSIONS = [(3, minor) for minor in range(11, 15)]
EFFECTS = """
    STORE_GLOBAL STORE_ATTR STORE_NAME STORE_SLICE DELETE_GLOBAL DELETE_ATTR DELETE_NAME DELETE_SUBSCR DELETE_DEREF
    IMPORT_NAME IMPORT_FROM IMPORT_STAR LOAD_NAME LOAD_BUILD_CLASS LOAD_SUPER_ATTR LOAD_SPECIAL PRINT_EXPR
    CALL_INTRINSIC_2 YIELD_VALUE RETURN_GENERATOR SEND GET_AWAITABLE BEFORE_WITH BEFORE_ASYNC_WITH PUSH_EXC_INFO
    BUILD_TEMPLATE BUILD_INTERPOLATION SETUP_ANNOTATIONS MATCH_CLASS
""".split()
"""What stores outside, runs code that no name tells, or stops in the middle."""


@pytest.mark.parametrize("version", VERSIONS)
def test_no_instruction_with_effects_is_allowed(version: tuple[int, int]) -> None:
    allowed = known_opcodes(version)
    assert not allowed & set(EFFECTS)
    assert {"LOAD_CONST", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_ATTR", "CALL", "RETURN_VALUE", "BINARY_OP"} <= allowed
    assert not any(name.startswith(("INSTRUMENTED_", "SETUP_", "MATCH_")) for name in allowed)


def test_the_names_are_those_of_this_python() -> None:
    assert sys.version_info[:2] in VERSIONS
    assert known_opcodes() <= set(dis.opmap), known_opcodes() - set(dis.opmap)


def test_versions_differ_where_python_does() -> None:
    eleven, twelve, thirteen, fourteen = (known_opcodes(version) for version in VERSIONS)
    assert "PRECALL" in eleven and not {"PRECALL", "LOAD_METHOD"} & twelve
    assert "RETURN_CONST" in twelve & thirteen and "RETURN_CONST" not in eleven | fourteen
    assert "CALL_KW" in thirteen & fourteen and "KW_NAMES" not in thirteen | fourteen
    assert "LOAD_SMALL_INT" in fourteen and "LOAD_SMALL_INT" not in eleven | twelve | thirteen


def test_nothing_is_recorded_by_a_python_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for opcodes in (known_opcodes((3, 15)), known_opcodes() - {"BINARY_OP"}):
        monkeypatch.setattr(bytecode, "_OPCODES", opcodes)
        function = compiled(f"def f(edges):\n    return {{'m': edges.src['h'] * {len(opcodes)}}}\n")
        assert "it has the instruction" in str(refusal(function))
        results = []
        for wrap in (lambda f: f, for_real):
            g = multigraph()
            g.update_all(wrap(function), fn.sum("m", "out"))
            results.append(g.ndata["out"])
        assert torch.equal(*results)


PLAIN = """
    {k: x[..., i] for i, k in enumerate('ab')}['a'] | [x * c for c in (1.0, 2.0)][1] | (lambda y: y + 1)(x)
    torch.add(x, other=x) | torch.add(*(x, x)) | torch.where(x > 0, x, -x) | +x | x if c is None else c * x
    x[:, 0:2] | sum([x, x]) | {'a': x}['a'] | x.clamp(*[0.1, 0.9]) | F.elu(x, **{'alpha': 0.5}) | x * float(f'{c}')
    x * (c and 3) | max(2, 3) * x | x * [*range(3)][-1] | -x ** 2 | ~(x > 0) * x | x * (0 if c > 1 else 2)
"""


@pytest.mark.parametrize(
    "text", [text.strip() for line in PLAIN.splitlines() for text in line.split("|") if text.strip()]
)
def test_python_s_own_expressions_are_no_reason_to_refuse(text: str) -> None:
    function: Any = compiled(f"def f(edges):\n    x = edges.src['h']\n    return {{'m': {text}}}\n", c=2.0)
    assert refusal(function) is None


BLOCKS = {
    "with": "with torch.no_grad():\n        y = x",
    "try": "try:\n        y = x\n    except ValueError:\n        y = 0 * x",
    "finally": "try:\n        y = x\n    finally:\n        y = 2 * x",
    "import": "import math\n    y = x * math.pi",
    "class": "class C:\n        a = 2\n    y = x * C.a",
    "generator": "y = sum(x for _ in range(2))",
    "global": "global z\n    z = 1\n    y = x",
    "delete": "d = {1: x}\n    y = d[1]\n    del d[1]",
    "match": "match x:\n        case torch.Tensor():\n            y = x",
}


@pytest.mark.parametrize("what", BLOCKS)
def test_what_may_have_effects_is_refused_in_every_python(what: str) -> None:
    function = compiled(f"def f(edges):\n    x = edges.src['h']\n    {BLOCKS[what]}\n    return {{'m': y}}\n")
    assert refusal(function) is not None
    results = []
    for wrap in (lambda f: f, for_real):
        g = multigraph()
        g.update_all(wrap(function), fn.sum("m", "out"))
        results.append(g.ndata["out"])
    assert torch.equal(*results)
