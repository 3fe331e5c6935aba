"""``send`` and ``recv``: what waits, what is consumed, and what a message means once it is sent."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import dglite
from dglite import function as fn
from dglite.errors import DGLError
from dglite.ops import core


def path(**features: list[float]) -> Any:
    """Edges 0 -> 1, 0 -> 2, 1 -> 2, 2 -> 3 over five nodes; columns of one number per node."""
    g = dglite.graph(([0, 0, 1, 2], [1, 2, 2, 3]), num_nodes=5)
    g.ndata["h"] = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0]])
    for name, values in features.items():
        g.ndata[name] = torch.tensor(values)[:, None]
    return g


def values(g: Any, name: str) -> list[float]:
    return g.ndata[name].flatten().tolist()


def total(nodes: Any) -> dict[str, Tensor]:
    return {"out": nodes.mailbox["m"].sum(1)}


COPY, SUM = fn.copy_u("h", "m"), fn.sum("m", "out")


@pytest.mark.parametrize("message", [COPY, lambda edges: {"m": edges.src["h"]}], ids=["built-in", "user"])
@pytest.mark.parametrize("reduce", [SUM, total], ids=["built-in", "user"])
def test_send_then_recv_is_update_all_on_the_nodes_that_receive(message: Any, reduce: Any) -> None:
    g = path()
    g.send(message_func=message)
    g.recv(reduce_func=reduce)
    assert values(g, "out") == [0.0, 1.0, 3.0, 3.0, 0.0]
    g = path(out=[9.0] * 5)
    g.send(message_func=message)
    g.recv(reduce_func=reduce)
    assert values(g, "out") == [0.0, 1.0, 3.0, 3.0, 0.0]


def test_messages_are_consumed() -> None:
    g = path(out=[9.0] * 5)
    g.send(message_func=COPY)
    g.recv([2, 2], SUM)
    assert values(g, "out") == [9.0, 9.0, 3.0, 9.0, 9.0]
    g.ndata["out"] = torch.zeros(5, 1)
    g.recv([1, 2], SUM)
    assert values(g, "out") == [0.0, 1.0, 0.0, 0.0, 0.0]
    g.recv(reduce_func=SUM)
    assert values(g, "out") == [0.0, 0.0, 0.0, 3.0, 0.0]
    g.recv(reduce_func=SUM)
    assert values(g, "out") == [0.0, 0.0, 0.0, 3.0, 0.0]


def test_recv_of_nothing_does_nothing_but_apply() -> None:
    g = path()
    g.recv(reduce_func=lambda nodes: 1 / 0)
    assert list(g.ndata) == ["h"]
    g.recv([4], SUM, lambda nodes: {"h": nodes.data["h"] * 10})
    assert values(g, "h") == [1.0, 2.0, 3.0, 4.0, 50.0]


@pytest.mark.parametrize("reduce", [SUM, total], ids=["built-in", "user"])
def test_apply_runs_on_all_given_nodes_and_sees_initial_values_where_nothing_waits(reduce: Any) -> None:
    g = path(out=[9.0] * 5)
    g.send([0], COPY)
    g.recv([1, 4], reduce, lambda nodes: {"x": nodes.data["out"] + nodes.data["h"]})
    assert values(g, "x") == [0.0, 3.0, 0.0, 0.0, 5.0]
    assert values(g, "out") == [9.0] * 5
    g = path(out=[9.0] * 5)
    g.set_n_initializer(lambda shape, dtype, device, ids: torch.full(shape, 7.0), "out")
    g.send([0], COPY)
    g.recv([1, 4], lambda nodes: {"out": nodes.mailbox["m"].cumsum(1)[:, -1]})
    assert values(g, "out") == [9.0, 1.0, 9.0, 9.0, 7.0]


@pytest.mark.parametrize("message", [COPY, lambda edges: {"m": edges.src["h"]}], ids=["built-in", "user"])
@pytest.mark.parametrize("edges", [None, [2, 3]], ids=["all", "some"])
def test_writing_a_feature_after_send_does_not_change_the_message(message: Any, edges: Any) -> None:
    g = path()
    g.send(*([] if edges is None else [edges]), message_func=message)
    g.ndata["h"] = torch.zeros(5, 1)
    g.recv(reduce_func=SUM)
    assert values(g, "out") == ([0.0, 1.0, 3.0, 3.0, 0.0] if edges is None else [0.0, 0.0, 2.0, 3.0, 0.0])


def test_a_lazy_message_keeps_edge_and_destination_columns_too() -> None:
    g = path()
    g.edata["w"] = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    for message, result in (
        (fn.copy_e("w", "m"), [0.0, 1.0, 5.0, 4.0, 0.0]),
        (fn.u_sub_v("h", "h", "m"), [0.0, -1.0, -3.0, -1.0, 0.0]),
    ):
        with g.local_scope():
            g.send(message_func=message)
            g.edata["w"] = torch.zeros(4, 1)
            g.ndata["h"] = torch.zeros(5, 1)
            g.recv(reduce_func=SUM)
            assert values(g, "out") == result


def test_a_feature_written_in_place_after_send_is_noticed() -> None:
    g = path()
    g.send(message_func=COPY)
    g.ndata["h"][0] = 7.0
    with pytest.raises(DGLError, match=r"'h' was written in place"):
        g.recv(reduce_func=SUM)
    g.edata["w"] = torch.ones(4, 1)
    g.send(message_func=lambda edges: {"m": edges.data["w"]})
    g.edata["w"][0] = 7.0
    with pytest.raises(DGLError, match=r"'w' was written in place"):
        g.recv(reduce_func=SUM)
    assert "out" not in g.ndata


def test_reduced_rows_must_fit_the_column_that_other_nodes_keep() -> None:
    g = path()
    g.ndata["out"] = torch.ones(5, 3)
    g.send(message_func=COPY)
    with pytest.raises(DGLError, match=r"'out'.*\(3,\)"):
        g.recv([1, 4], SUM)
    assert g.ndata["out"].shape == (5, 3)


def test_sending_again_replaces_the_message() -> None:
    g = path(k=[10.0, 20.0, 30.0, 40.0, 50.0])
    g.send(message_func=COPY)
    g.send(message_func=fn.copy_u("k", "m"))
    g.recv(reduce_func=SUM)
    assert values(g, "out") == [0.0, 10.0, 30.0, 30.0, 0.0]


@pytest.mark.parametrize("second", [fn.copy_u("k", "m"), lambda edges: {"m": edges.src["k"]}], ids=["built-in", "user"])
@pytest.mark.parametrize("reduce", [SUM, total], ids=["built-in", "user"])
def test_messages_of_different_sends_wait_side_by_side(second: Any, reduce: Any) -> None:
    g = path(k=[10.0, 20.0, 30.0, 40.0, 50.0])
    g.send(message_func=COPY)
    g.send([3, 2], second)
    g.recv(reduce_func=reduce)
    assert values(g, "out") == [0.0, 1.0, 21.0, 30.0, 0.0]


def test_mixed_messages_stay_in_edge_id_order() -> None:
    g = path(k=[10.0, 20.0, 30.0, 40.0, 50.0])
    g.send([2], COPY)
    g.send([1], lambda edges: {"m": edges.src["k"]})
    g.recv([2], lambda nodes: {"out": nodes.mailbox["m"].flatten(1)})
    assert g.ndata["out"][2].tolist() == [10.0, 2.0]


def test_a_user_s_message_keeps_its_order_of_edges_and_its_last_word() -> None:
    g = path()
    g.send([3, 1, 3], lambda edges: {"m": torch.tensor([[1.0], [2.0], [3.0]])})
    g.recv(reduce_func=SUM)
    assert values(g, "out") == [0.0, 0.0, 2.0, 3.0, 0.0]


def test_fields_that_only_some_messages_have_are_not_there() -> None:
    g = path()
    g.send([1], COPY)
    g.send([2], fn.copy_u("h", "other"))
    with pytest.raises(DGLError, match="'m', but the messages have: none"):
        g.recv([2], SUM)
    g.send([2], COPY)
    g.recv([2], SUM)
    assert values(g, "out") == [0.0, 0.0, 3.0, 0.0, 0.0]


def test_messages_of_different_shapes_do_not_mix() -> None:
    g = path()
    g.ndata["wide"] = torch.ones(5, 3)
    g.send([1], COPY)
    g.send([2], fn.copy_u("wide", "m"))
    with pytest.raises(DGLError, match="one shape"):
        g.recv([2], SUM)


def test_a_failed_recv_leaves_the_messages_waiting() -> None:
    g = path()
    g.send(message_func=COPY)
    with pytest.raises(ZeroDivisionError):
        g.recv([1, 2], lambda nodes: 1 / 0)
    with pytest.raises(DGLError, match="'q'"):
        g.recv(reduce_func=fn.sum("q", "out"))
    g.recv(reduce_func=SUM)
    assert values(g, "out") == [0.0, 1.0, 3.0, 3.0, 0.0]


def test_a_failed_send_leaves_the_waiting_messages() -> None:
    g = path()
    g.send(message_func=COPY)
    with pytest.raises(KeyError, match="'q'"):
        g.send([0], fn.copy_u("q", "m"))
    with pytest.raises(DGLError, match="dict"):
        g.send([0], lambda edges: edges.src["h"])
    g.recv(reduce_func=SUM)
    assert values(g, "out") == [0.0, 1.0, 3.0, 3.0, 0.0]


def test_a_graph_that_was_changed_after_send_must_send_again() -> None:
    g = path()
    g.send(message_func=COPY)
    g.add_edges([3], [4])
    with pytest.raises(DGLError, match="4 edges that was changed after send"):
        g.recv(reduce_func=SUM)
    g.send(message_func=COPY)
    g.recv(reduce_func=SUM)
    assert values(g, "out") == [0.0, 1.0, 3.0, 3.0, 4.0]


@pytest.mark.parametrize("edges", [None, [1, 2]], ids=["all", "some"])
def test_a_built_in_message_is_never_stored(edges: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stored(*args: Any) -> Tensor:
        raise AssertionError("a message was computed on the edges")

    monkeypatch.setattr(core, "sddmm", stored)
    g = path()
    g.send(*([] if edges is None else [edges]), message_func=fn.u_add_v("h", "h", "m"))
    g.recv([2], SUM)
    assert g.ndata["out"][2].item() == 9.0


def test_a_message_that_is_replaced_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    g = path()
    g.send(message_func=fn.u_add_v("h", "h", "m"))
    g.send(message_func=lambda edges: calls.append(len(edges)) or {"m": edges.src["h"]})
    monkeypatch.setattr(core, "sddmm", None)
    g.recv(reduce_func=SUM)
    assert calls == [4] and values(g, "out") == [0.0, 1.0, 3.0, 3.0, 0.0]


def test_gradients_go_to_the_features_that_were_sent() -> None:
    g = path()
    sent = g.ndata["h"].clone().requires_grad_()
    g.ndata["h"] = sent
    g.send(message_func=COPY)
    g.send([2], fn.u_mul_v("h", "h", "m"))
    g.ndata["h"] = torch.zeros(5, 1)
    g.recv(reduce_func=SUM)
    g.ndata["out"].sum().backward()
    assert sent.grad is not None
    assert sent.grad.flatten().tolist() == [2.0, 3.0, 3.0, 0.0, 0.0]


def test_many_rounds_of_partial_sends_keep_nothing() -> None:
    g = path()
    for node in (1, 2, 3) * 3:
        edges = g.adjacencies[0].in_edges(torch.tensor([node]).numpy())[2]
        g.send(edges, COPY)
        g.recv([node], SUM)
    assert g.__dict__["_inboxes"][0]._sends == []
