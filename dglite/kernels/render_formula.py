"""What kernels of element-wise formulas share: what they import, how they begin, and formulas as lines of source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..expr import Call, Constant, Expr, Operand, write_out_powers
from .render import called_functions, is_fused, number_text
from .spec import ITEM_BYTES, compute_dtype

__all__ = ["KERNEL", "formula_lines", "functions_of", "header"]

KERNEL = """def kernel(args, task, num_tasks):
    if task < 0:
        return
"""


def functions_of(formulas: Iterable[Expr]) -> set[str]:
    """Return the names of the functions that formulas call."""
    return set[str]().union(*map(called_functions, formulas))


def header(title: str, dtype: str, widths: Iterable[int], functions: Iterable[str]) -> list[str]:
    """Return the lines before the kernel; it loads, stores and fills vectors of the given ``widths``."""
    lines = [
        f'"""{title} ({dtype})."""',
        "from dglite.kernels.cpu import simd",
        "",
        f"ITEM = {ITEM_BYTES[dtype]}",
        "word = simd.word",
        *(f"{name} = simd.{name}" for name in sorted(functions)),
    ]
    for width in sorted(widths):
        lines.append(f'load{width}, store{width} = simd.loader("{dtype}", {width}), simd.storer("{dtype}", {width})')
        lines.append(f'splat{width} = simd.splat("{compute_dtype(dtype)}", {width})')
    return [*lines, "", ""]


def formula_lines(
    formulas: Sequence[Expr], dtype: str, lanes: int, operand_text: Callable[[Operand], str]
) -> tuple[list[str], list[str]]:
    """Return (lines that compute, the text of each formula's value). What occurs several times is computed once."""
    lines: list[str] = []
    names: dict[Expr, str] = {}

    def text(node: Expr, whole: bool = False) -> str:
        if isinstance(node, Constant):
            return number_text(node.value)
        if isinstance(node, Operand):
            return operand_text(node)
        assert isinstance(node, Call)
        if node not in names or whole:
            value = node.op.source.format(*(text(arg, is_fused(node, arg)) for arg in node.args))
            if node.op.source.startswith("where"):
                value = f"where({text(node.args[0])}, {', '.join(f'splat{lanes}({text(x)})' for x in node.args[1:])})"
            if whole:
                return value
            names[node] = f"t{len(names)}"
            lines.append(f"{names[node]} = {value}")
        return names[node]

    return lines, [text(write_out_powers(formula)) for formula in formulas]
