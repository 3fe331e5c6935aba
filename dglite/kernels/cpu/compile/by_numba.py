"""Kernel source compiled by Numba: the fallback for what cannot be translated, and for comparison in tests.

Numba takes five times as long, and knows more of Python. Two things are written for it beforehand: the translator makes
one operation of a sum with a product (:func:`.translate_values.product_in`), which Numba rounds twice; functions that
serve others are decorated.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable
from types import ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..lanes.vec import Vec, as_vec, multiply_add
from .cached import cfunc, njit
from .translate_values import product_in

_alive: list[Any] = []
"""Compiled functions: their code goes with them."""


def compile_functions(module: ModuleType, names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of functions of integers in a module."""
    addresses = {}
    for name in names:
        function = getattr(module, name)
        signature = f"void({', '.join(['int64'] * function.__code__.co_argcount)})"
        compiled = cfunc(signature, error_model="numpy")(function)
        _alive.append(compiled)
        addresses[name] = int(compiled.address)
    return addresses


def rewritten(source: str, plain: Collection[str] | None = None) -> str:
    """Return kernel source as Numba compiles it to the same arithmetic. Functions are decorated but for the ``plain``
    ones, by default those whose names do not begin with an underscore."""
    tree = _Rewrite(plain).visit(ast.parse(source))
    position = 1 if ast.get_docstring(tree) else 0
    names = f"from {__name__} import fused\nfrom {njit.__module__} import njit\nfrom math import inf, nan\n"
    tree.body[position:position] = ast.parse(names).body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _Rewrite(ast.NodeTransformer):
    """Writes sums with products as calls, and infinity and NaN as names."""

    def __init__(self, plain: Collection[str] | None) -> None:
        self.plain = plain

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name.startswith("_") if self.plain is None else node.name not in self.plain:
            node.decorator_list = [ast.parse('njit(nogil=True, error_model="numpy")', mode="eval").body]
            for argument in node.args.args:
                argument.annotation = None
            node.returns = None
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        product = product_in(node)
        if product is None:
            return self.generic_visit(node)  # type: ignore[return-value]
        right = product is node.right
        a, b, other = map(self.visit, (product.left, product.right, node.left if right else node.right))
        if isinstance(node.op, ast.Sub):
            a, other = (ast.UnaryOp(ast.USub(), a), other) if right else (a, ast.UnaryOp(ast.USub(), other))
        return ast.Call(ast.Name("fused", ast.Load()), [a, b, other], [])

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name) or node.func.id != "float" or not isinstance(node.args[0], ast.Constant):
            return self.generic_visit(node)  # type: ignore[return-value]
        value = float(ast.literal_eval(node.args[0]))
        name = ast.Name("nan" if math.isnan(value) else "inf", ast.Load())
        return ast.UnaryOp(ast.USub(), name) if value < 0 else name


_TASKS = '''"""Run shares of {module}.{name}."""
import numpy as np

from {module} import {name}
{imports}from dglite.kernels.cpu.compile.cached import cfunc
from dglite.kernels.cpu.run.rows import array_at
from dglite.kernels.cpu.lanes.simd import word


@cfunc("void(int64, int64, int64)", error_model="numpy")
def kernel(args, task, num_tasks):
    if task >= 0:
        num_rows = word(args, 0)
        {name}({arguments}, num_rows * task // num_tasks, num_rows * (task + 1) // num_tasks)
'''


def tasks_source(module: str, name: str, arguments: tuple) -> str:
    """Return the source of what calls a function for the rows of a task, see :mod:`.entry`."""
    parts, imports, at = [], "", 2
    for x in arguments:
        fields = []
        for value in x if isinstance(x, tuple) else (x,):
            if isinstance(value, np.ndarray):
                fields.append(f"array_at(word(args, {at}), word(args, {at + 1}), np.{value.dtype.name})")
                at += 2
            else:
                fields.append(f"word(args, {at})")
                at += 1
        if isinstance(x, tuple):
            imports += f"from {type(x).__module__} import {type(x).__name__}\n"
        parts.append(f"{type(x).__name__}({', '.join(fields)})" if isinstance(x, tuple) else fields[0])
    return _TASKS.format(module=module, name=name, imports=imports, arguments=", ".join(parts))


@intrinsic
def fused(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, of integers, or of floats and vectors as one operation."""
    kinds = (a, b, c)
    vecs = [ty for ty in kinds if isinstance(ty, Vec)]
    if vecs:
        result = vecs[0]
    elif all(isinstance(ty, types.Integer | types.Boolean) for ty in kinds):
        result = types.int64
    else:
        result = types.float32 if all(ty == types.float32 for ty in kinds) else types.float64

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        if vecs:
            values = [as_vec(context, builder, x, ty, result) for x, ty in zip(args, sig.args, strict=True)]
        else:
            values = [context.cast(builder, x, ty, result) for x, ty in zip(args, sig.args, strict=True)]
        if result == types.int64:
            return builder.add(builder.mul(*values[:2]), values[2])
        return multiply_add(builder, *values)

    return result(*kinds), codegen
