"""Every public operation wherever torch looks on: the right value or a clear error, never another value, never a crash.

Each situation has a process of its own, in which a crash is a failure that names the operation.
"""

from __future__ import annotations

import json
import os
import re

import pytest
import torch

import dglite
from dglite import nn, ops, sparse
from tests import forked
from tests.situations.operations import NO_LAYERS, operations
from tests.situations.situations import RIGHT, SITUATIONS, judge

FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
STEP = 1 if FULL else 6
"""Of this many operations one is tried in each situation, another one in the next."""

READ = {"topk_nodes", "topk_edges", "SortPooling", "KNNGraph"}
"""Operations that sort by values: their results have no description before there are values."""
MADE_INSIDE = {"sparse coalesce", "sparse index_select", "sparse csr", "send and recv"}
"""Operations of the table that are called with ids that they make: fake ones in the mode of fake tensors."""
ALL = {operation.name for operation in operations()}
RECORDED = (
    *("make_fx", "jit.trace", "fake, outside of the mode", "wrapper", "vmap", "gradient of vmap"),
    "vmap of vmap",
    *("program in forward mode", "program in func.grad"),
)
LSTM = "Batching rule not implemented for aten::lstm"
FORWARD = "forward AD with _(scaled_dot_product_flash_attention|cdist)"
OF_DOUBLES = {operation.name for operation in operations() if operation.layer is not None}
REFUSED = {
    "program in autocast": READ | OF_DOUBLES,
    **dict.fromkeys(RECORDED, READ),
    **dict.fromkeys(("fake", "make_fx, symbolic"), READ | MADE_INSIDE),
    **dict.fromkeys(("meta", "wrapper that knows no operator", "DTensor"), ALL),
}
"""Operations that may be refused with a ``DGLError``."""
TORCHS = {
    "meta": "not on the expected device|not at the same device",
    "DTensor": "got mixed torch.Tensor and DTensor|does not have a sharding strategy registered",
    "program in autocast": "dtype|mat1 and mat2|expected scalar type|cdist",
    "vmap": LSTM,
    "vmap of vmap": LSTM,
    "gradient of vmap": f"{LSTM}|_scaled_dot_product_flash_attention_for_cpu' is not differentiable",
    **dict.fromkeys(("func.jvp", "forward mode", "program in forward mode", "linearize"), FORWARD),
    "hessian": f"{FORWARD}|derivative for aten::_scaled_dot_product_flash_attention_for_cpu_backward",
}
"""Errors of torch's own operations in layers, whose parameters are ordinary tensors."""


def _judge_all(situation: str, first: int) -> None:
    torch.set_num_threads(1)
    for operation in operations()[first::STEP]:
        print(json.dumps([operation.name, "ended the process"]), flush=True)
        print(json.dumps([operation.name, judge(situation, operation)]), flush=True)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_operations_are_right_or_refused(situation: str) -> None:
    done = forked.run(_judge_all, situation, list(SITUATIONS).index(situation) % STEP)
    verdicts = dict(map(json.loads, done.stdout.splitlines()))
    assert len(verdicts) >= len(ALL) // STEP or "ended the process" in verdicts.values(), done.stderr
    strange = {name: verdict for name, verdict in verdicts.items() if not _is_admitted(situation, name, verdict)}
    assert not strange, f"{json.dumps(strange, indent=2)}\n{done.stderr}"
    assert done.returncode == 0, done.stderr


def _is_admitted(situation: str, name: str, verdict: str) -> bool:
    if verdict == RIGHT:
        return True
    if verdict.startswith("DGLError: ") and "its module" not in verdict:  # which says what torch said of a module
        return name in REFUSED.get(situation, ())
    return situation in TORCHS and re.search(TORCHS[situation], verdict) is not None


def test_the_table_has_all_public_operations() -> None:
    words = {word for name in ALL for word in re.split(r"[ ,]+", name)}
    assert set(ops.__all__) <= words
    assert set(nn.__all__) - NO_LAYERS <= words
    readouts = re.compile(r"(sum|mean|max|softmax|topk|broadcast)_(nodes|edges)|multi_update_all")
    assert {name for name in dglite.__all__ if readouts.fullmatch(name)} <= words
    assert {"spmm", "bspmm", "sddmm", "bsddmm", "spspmm", "softmax"} <= words & set(sparse.__all__)


def test_a_wrong_value_and_an_error_are_told_from_right_ones() -> None:
    assert not _is_admitted("make_fx", "copy_u_sum", "DGLError: refused")
    assert not _is_admitted("make_fx", "topk_nodes", "wrong: ...")
    assert not _is_admitted("DTensor", "copy_u_sum", "ended the process")
    assert _is_admitted("make_fx", "topk_nodes", "DGLError: refused")
