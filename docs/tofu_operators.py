"""Write docs/tofu_operators.md: which operators of Core ATen are described, and along what they are split.

    python docs/tofu_operators.py

It is made of the calls in tests/tofu/samples.py, each of which the tests run as a whole and in parts.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from dglite.tofu.aten import operator_of  # noqa: E402
from dglite.tofu.decompositions import decompositions, is_composite  # noqa: E402
from tests.tofu.samples import core, samples  # noqa: E402

RECORDED_OTHERWISE = ("aten._native_batch_norm_legit.default", "aten.as_strided.default")
"""Operators for which `dglite.tofu.recording` writes others."""

REASONS = {
    "aten._embedding_bag.default": "bags are ranges of rows: nn.Embedding and a sum or mean of rows can be split",
    "aten._local_scalar_dense.default": "a number for Python: the model depends on a value",
    "aten._pdist_forward.default": "its rows are pairs of rows in triangular order",
    "aten.atan2.out": "writes into an argument; a captured graph has no such operator",
    "aten.masked_scatter.default": "where a value comes from depends on all of the mask before it",
    "aten.nonzero.default": "the size of the result depends on values",
    "aten.randperm.default": "each element depends on all others",
    "aten.scalar_tensor.default": "one element: there is nothing to split",
    "aten.resize_.default": "changes an argument; a captured graph has no such operator",
    "aten.sym_is_contiguous.default": "a property of the layout, not a tensor",
    "aten.sym_numel.default": "a size, not a tensor",
    "aten.sym_size.int": "a size, not a tensor",
    "aten.sym_storage_offset.default": "a size, not a tensor",
    "aten.sym_stride.int": "a size, not a tensor",
}
"""Why the others cannot be described."""

KINDS = {
    "element-wise": "any dimension, by one rule for all of them, broadcasting included",
    "described": "an expression gives every element",
    "opaque": "some dimensions are read as a whole",
}

HEAD = """# Operators that Tofu can split

Written by `python docs/tofu_operators.py` with torch {version}; do not edit. Every strategy of every operator here is
checked by the tests: run as a whole and in parts, evenly and unevenly, with the same result.

Of {total} operators in Core ATen, {done} are described ({percent} %): {element} element-wise, {described} by an
expression for every element, {opaque} opaque along some dimensions. {recorded} more are recorded as other operators
when a step is captured, and {missing} cannot be split. Beyond Core ATen, {more} more overloads are in the table's
second part, and all that torch tags as element-wise follow the one rule. Of dglite's own operators in captured graphs,
g-SpMM is split by destinations, edges (sums only) and features, g-SDDMM by edges and features.

The indices named in "split along" are those of the calls in `tests/tofu/samples.py`; `i0`, `i1` are dimensions of the
result in their order, **bold** ones are reduced: the parts make partial results.
"""


def described() -> dict[Any, tuple[str, dict[str, bool]]]:
    """Return the kind of each operator, and the indices that it is split along with whether that reduces."""
    kinds: dict[Any, str] = {}
    indices: dict[Any, dict[str, bool]] = defaultdict(dict)
    for target, args, kwargs in samples():
        operator = operator_of(target, args, kwargs)
        for strategy in operator.strategies if operator else ():
            kinds[target] = operator.rule.kind
            indices[target].setdefault(strategy.index, False)
            indices[target][strategy.index] |= any(c != "concat" for c in strategy.combine)
    return {target: (kind, indices[target]) for target, kind in kinds.items()}


def is_recorded_otherwise(target: Any) -> bool:
    """Return whether a captured step has other operators instead of this one, and Tofu no description of it."""
    others = target in decompositions() or is_composite(target) or str(target) in RECORDED_OTHERWISE
    return others and str(target) not in REASONS


def table() -> str:
    """Return the page."""
    by_target, core_targets = described(), core()
    done = [target for target in core_targets if target in by_target]
    count = {kind: sum(by_target[target][0] == kind for target in done) for kind in KINDS}
    recorded = [target for target in core_targets if target not in by_target and is_recorded_otherwise(target)]
    others = [target for target in by_target if target not in core_targets]
    lines = [
        HEAD.format(
            version=torch.__version__.split("+")[0],
            total=len(core_targets),
            done=len(done),
            percent=round(100 * len(done) / len(core_targets)),
            element=count["element-wise"],
            described=count["described"],
            opaque=count["opaque"],
            recorded=len(recorded),
            missing=len(core_targets) - len(done) - len(recorded),
            more=len(others),
        )
    ]
    for kind, meaning in KINDS.items():
        lines += [f"## Core ATen, {kind}: {meaning}", ""]
        of_kind = [target for target in done if by_target[target][0] == kind]
        if kind == "element-wise":
            lines += [", ".join(f"`{_name(target)}`" for target in of_kind), ""]
        else:
            lines += _rows(of_kind, by_target)
    lines += ["## Core ATen, not described", "", "| operator | why |", "|---|---|"]
    left = [target for target in core_targets if target not in by_target and target not in recorded]
    lines += [f"| `{_name(target)}` | {REASONS[str(target)]} |" for target in left]
    lines += ["", f"Recorded as other operators: {', '.join(f'`{_name(target)}`' for target in recorded)}."]
    lines += ["", "## Other operators", ""] + _rows(others, by_target)
    return "\n".join(lines)


def _rows(targets: list[Any], by_target: dict[Any, tuple[str, dict[str, bool]]]) -> list[str]:
    lines = ["| operator | split along |", "|---|---|"]
    for target in sorted(targets, key=_name):
        indices = by_target[target][1]
        shown = ", ".join(f"**{name}**" if indices[name] else name for name in sorted(indices))
        lines.append(f"| `{_name(target)}` | {shown} |")
    return [*lines, ""]


def _name(target: Any) -> str:
    return str(target).removeprefix("aten.").removesuffix(".default")


if __name__ == "__main__":
    (DOCS / "tofu_operators.md").write_text(table(), encoding="utf-8")
