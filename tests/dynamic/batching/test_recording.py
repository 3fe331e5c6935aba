"""What compiled code records, beside what it leaves to Python: room, references, errors."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dglite import DGLError, dynamic
from dglite.dynamic.batching.session import Session, current_session, end_session
from dglite.kernels.cpu.dynamic import recording
from dglite.kernels.cpu.dynamic.recording import check_slots


def model(h: Any, layer: nn.Linear) -> Any:
    a, b = torch.tanh(layer(h)).chunk(2, -1)
    return torch.cat([a * b, b], -1).split([6, 2])[0] + h[:6].sum()


def test_a_session_grows() -> None:
    layer, x = nn.Linear(8, 8), torch.rand(300, 8)
    results = dynamic.run([model(row, layer) for row in dynamic.lazy(x)])
    torch.testing.assert_close(results, [model(row, layer) for row in x])


def test_an_operation_of_many_tensors() -> None:
    x = torch.rand(900, 2)
    torch.testing.assert_close(dynamic.run(torch.cat([row * 2 for row in dynamic.lazy(x)])), x.flatten() * 2)


def test_lists_of_several_lengths() -> None:
    x = torch.rand(3)
    for parts in (1, 3, 2, 3, 9):
        y = dynamic.lazy(x)
        torch.testing.assert_close(dynamic.run(torch.cat([y] * parts, 0)), x.repeat(parts))
        torch.testing.assert_close(dynamic.run(torch.cat((dynamic.lazy(x),) * parts, -1)), x.repeat(parts))


def test_new_weights_are_new_operations() -> None:
    layer, x = nn.Linear(4, 4), torch.rand(4)
    for _ in range(3):
        layer.weight = nn.Parameter(torch.rand(4, 4))
        y = dynamic.lazy(x)
        for bias in (layer.bias, None, torch.ones(4)):
            result = nn.functional.linear(y, layer.weight, bias)
            torch.testing.assert_close(result.value(), nn.functional.linear(x, layer.weight, bias))
        end_session(current_session())


def test_nothing_is_kept() -> None:
    layer, x = nn.Linear(8, 8), torch.rand(8)

    def record() -> weakref.ref[Session]:
        y, session = dynamic.lazy(x), weakref.ref(current_session())
        for _ in range(500):
            model(y, layer)
        end_session(current_session())
        return session

    kept = record()
    kind, gc_before = dynamic.lazy(x)._kind, gc.collect()
    before = sys.getrefcount(kind), sys.getrefcount(None), sys.getrefcount(layer.weight)
    assert kept() is None, gc_before
    end_session(current_session())
    record()
    after = sys.getrefcount(kind), sys.getrefcount(None), sys.getrefcount(layer.weight)
    assert all(abs(x - y) < 100 for x, y in zip(before, after, strict=True))


@pytest.mark.parametrize(
    "call", [lambda x, y: x * y, lambda x, y: torch.cat([y, x]), lambda x, y: torch.stack([x, y]), torch.maximum]
)
def test_tensors_of_two_sessions(call: Callable[[Any, Any], Any]) -> None:
    for first in (False, True):
        x = dynamic.lazy(torch.ones(3))
        if not first:
            call(x, x)  # the kinds have been met
        dynamic.run(x * 2)
        with pytest.raises(DGLError, match="different sessions"):
            call(x, dynamic.lazy(torch.ones(3)))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: torch.tanh(), TypeError),
        (lambda x: x.tanh(out=x), DGLError),
        (lambda x: x.view(5), DGLError),
        (lambda x: x.view(), DGLError),
        (lambda x: x.chunk(2, 3), IndexError),
        (lambda x: torch.cat([x, x], 2), IndexError),
        (lambda x: nn.functional.linear(x, torch.ones(2, 5)), DGLError),
        (lambda x: x.add(x, x), TypeError),
    ],
)
def test_errors(call: Callable[[Any], Any], error: type[Exception]) -> None:
    for _ in range(2):
        with pytest.raises(error):
            call(dynamic.lazy(torch.ones(3)))


def test_each_thread_has_its_own_session() -> None:
    layer, x, results = nn.Linear(8, 8), torch.rand(4, 8), dict[int, Tensor]()

    def work(i: int) -> None:
        for _ in range(20):
            results[i] = dynamic.run(model(torch.relu(dynamic.lazy(x[i])), layer))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.testing.assert_close([results[i] for i in range(4)], [model(torch.relu(row), layer) for row in x])


def test_slots_elsewhere_are_refused() -> None:
    lazy = dynamic.lazy(torch.ones(3))
    with pytest.raises(DGLError, match="cannot be recorded"):
        check_slots(SimpleNamespace(_kind=lazy._kind, _ref=lazy._ref, _session=lazy._session), lazy._session)


@pytest.mark.parametrize("place", ["_ITEMS", "_ADDRESS_OF_ITEMS", "_SIZE"])
def test_items_elsewhere_are_refused(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.14 has the items of a tuple a word further on than 3.13: the process crashed when it recorded."""
    lazy = dynamic.lazy(torch.ones(3))
    check_slots(lazy, lazy._session)
    monkeypatch.setattr(recording, place, getattr(recording, place) - 1)
    with pytest.raises(DGLError, match="cannot be recorded"):
        check_slots(lazy, lazy._session)
