"""Every strategy of every operator described: run whole and in parts on random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dglite.tofu.library import RULES
from dglite.tofu.verify import verify
from tests.tofu.samples import samples
from tests.versions import has_torch

CALLS = samples()


@pytest.mark.parametrize(
    ("target", "args", "kwargs"), CALLS, ids=[f"{target} {number}" for number, (target, *_) in enumerate(CALLS)]
)
def test_parts_make_the_whole(target: Any, args: Any, kwargs: Any) -> None:
    verify(target, args, kwargs)


def test_every_rule_is_tried() -> None:
    targets = [target for target, *_ in CALLS]
    tried = {*targets, *(x.overloadpacket for x in targets), *(x._schema.name for x in targets)}
    graph = {"dglite_tofu::spmm", "dglite_tofu::sddmm", "dglite_tofu::degree_scale"}  # in test_graph.py
    graph |= {"transformers::grouped_mm_fallback", "transformers::grouped_mm_fallback_backward"}  # in test_zoo.py
    graph |= set() if has_torch("2.7") else {"aten::_safe_softmax", torch.ops.aten.kthvalue}  # see samples.py
    ours = {rule for rule in RULES if not str(rule).startswith("example.")}  # those of a page of the documentation
    assert ours - tried - graph == set()
