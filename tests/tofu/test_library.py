"""Every strategy of every operator described: run whole and in parts on random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dglite.tofu.verify import verify
from tests.tofu.samples import samples

aten = torch.ops.aten


def _name(value: Any) -> str:
    return str(value).removeprefix("aten.")


@pytest.mark.parametrize(("target", "args", "kwargs"), samples(), ids=_name)
def test_parts_make_the_whole(target: Any, args: Any, kwargs: Any) -> None:
    verify(target, args, kwargs)
