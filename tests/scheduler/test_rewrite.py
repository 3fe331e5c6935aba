"""Plans and the rules that rewrite them: one test for each rule, and the checks that every plan passes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dglite import function as fn
from dglite.errors import DGLError
from dglite.expr import Side
from dglite.scheduler.cache import compiled, update_plan
from dglite.scheduler.lower import RelationUpdate, lower_edges, lower_multi, lower_update
from dglite.scheduler.plan import ColumnRead, Message, Plan, UserFunction, Write, verify
from dglite.scheduler.rewrite import RULES, rewrite

MESSAGE, REDUCE, APPLY = UserFunction(0), UserFunction(1), UserFunction(2)
RECORDED = UserFunction(1, recorded=True)
COPY, MUL, DOT = fn.copy_u("h", "m"), fn.u_mul_e("h", "w", "m"), fn.u_dot_v("h", "h", "m")
SUM, PROD = fn.sum("m", "x"), fn.prod("m", "x")


def kinds(plan: Plan) -> list[str]:
    return [type(step).__name__ for step in plan.steps]


def rules(plan: Plan) -> list[str]:
    return [reason.partition(":")[0] for reason in plan.reasons if reason]


@pytest.mark.parametrize(
    ("rule", "message", "reduce", "expected"),
    [
        ("record the reducer", (COPY,), RECORDED, ["ReduceOnce", "Write"]),
        ("record the reducer", (COPY, DOT), RECORDED, ["EdgeCompute", "ReduceOnce", "Write"]),
        ("record the reducer", MESSAGE, RECORDED, ["RunEdgeUDF", "ReduceOnce", "Write"]),
        ("record the reducer", None, RECORDED, ["StoredMessages", "ReduceOnce", "Write"]),
        ("fuse", (COPY,), (SUM,), ["FusedReduce", "Write"]),
        ("fuse", (MUL,), (SUM,), ["FusedReduce", "Write"]),
        ("gather into buckets", (COPY,), REDUCE, ["BucketReduce", "Write"]),
        ("gather into buckets", (COPY, fn.copy_e("w", "n")), REDUCE, ["BucketReduce", "Write"]),
        ("gather into buckets", (COPY,), (PROD,), ["BucketReduce", "Write"]),
        ("reduce stored messages", (DOT,), (SUM,), ["EdgeCompute", "FusedReduce", "Write"]),
        ("reduce stored messages", MESSAGE, (SUM,), ["RunEdgeUDF", "FusedReduce", "Write"]),
        ("reduce stored messages", None, (SUM,), ["StoredMessages", "FusedReduce", "Write"]),
        ("bucket by degree", (MUL,), REDUCE, ["EdgeCompute", "BucketReduce", "Write"]),
        ("bucket by degree", MESSAGE, REDUCE, ["RunEdgeUDF", "BucketReduce", "Write"]),
        ("bucket by degree", (COPY, MUL), REDUCE, ["CopyColumn", "EdgeCompute", "BucketReduce", "Write"]),
    ],
)
def test_each_rule_for_reducers(rule: str, message: Any, reduce: Any, expected: list[str]) -> None:
    plan = rewrite(lower_update(message, reduce, None))
    assert kinds(plan) == expected
    assert rule in rules(plan)
    verify(plan, executable=True)


@pytest.mark.parametrize(
    ("rule", "message", "expected"),
    [
        ("copy a column", (COPY,), ["CopyColumn", "Write"]),
        ("leave scores for later", (fn.u_add_v("l", "r", "m"),), ["EdgeScores", "Write"]),
        ("compute a built-in message", (DOT,), ["EdgeCompute", "Write"]),
        ("compute a built-in message", (fn.u_add_e("l", "w", "m"),), ["EdgeCompute", "Write"]),
        ("run a message UDF", MESSAGE, ["RunEdgeUDF", "Write"]),
    ],
)
def test_each_rule_for_messages(rule: str, message: Any, expected: list[str]) -> None:
    plan = rewrite(lower_edges(message))
    assert kinds(plan) == expected and rules(plan) == [rule]


def test_the_tests_above_name_every_rule() -> None:
    plans = [
        rewrite(lower_update(message, reduce, None))
        for message in ((COPY,), (DOT,), MESSAGE)
        for reduce in ((SUM,), (PROD,), REDUCE, RECORDED)
    ]
    plans += [rewrite(lower_edges((message,))) for message in (COPY, fn.u_add_v("l", "r", "m"))]
    assert {rule for plan in plans for rule in rules(plan)} == {rule.name for rule in RULES}


def test_reductions_of_the_same_operands_are_made_together() -> None:
    reduce = (fn.mean("m", "a"), fn.max("m", "b"), fn.sum("n", "c"), fn.min("m", "d"))
    plan = rewrite(lower_update((COPY, fn.copy_e("w", "n")), reduce, APPLY))
    assert kinds(plan) == ["FusedReduce", "TakeColumn", "FusedReduce", "TakeColumn", "Apply", "Write"]
    assert str(plan.steps[0]) == "%2 = FusedReduce mean of u.h -> 'a', max of u.h -> 'b', min of u.h -> 'd'"
    assert str(plan.steps[1]) == "%3 = TakeColumn %2.b"
    assert plan.reasons[0].startswith("reduce together: ")
    verify(plan, executable=True)


def test_of_reductions_to_one_column_the_last_still_counts() -> None:
    plan = rewrite(lower_update((COPY,), (SUM, fn.max("m", "x"), fn.min("m", "y")), None))
    assert kinds(plan) == ["FusedReduce", "FusedReduce", "TakeColumn", "Write"]


def test_a_dead_message_is_dropped() -> None:
    plan = rewrite(lower_update((COPY, fn.u_dot_v("h", "h", "unread")), (SUM,), None))
    assert kinds(plan) == ["FusedReduce", "Write"]
    assert plan.steps[0].operands == (ColumnRead(Side.U, "h"),)  # type: ignore[attr-defined]


def test_where_two_messages_have_a_field_the_later_counts() -> None:
    plan = rewrite(lower_update((COPY, MUL), (SUM,), None))
    assert str(plan.steps[0]) == "%2 = FusedReduce sum of (u.h * e.w) -> 'x'"


def test_every_relation_is_fused_and_all_writes_come_last() -> None:
    parts = [
        RelationUpdate((COPY,), (SUM,), None, 0),
        RelationUpdate((MUL,), (SUM,), None, 1),
        RelationUpdate((DOT,), (SUM,), None, 0),
    ]
    plan = rewrite(lower_multi(parts, "sum", None))
    assert kinds(plan) == [
        "FusedReduce",
        "FusedReduce",
        "EdgeCompute",
        "FusedReduce",
        "CrossReduce",
        "CrossReduce",
        "Write",
        "Write",
    ]


def test_a_plan_prints_as_its_instructions() -> None:
    assert str(lower_update((MUL,), (SUM,), APPLY)).splitlines() == [
        "%0 = Message u_mul_e('h', 'w', 'm')",
        "%1 = Reduce sum('m', 'x') of %0",
        "%2 = Apply f2 of %1",
        "Write %2 to nodes",
    ]


def test_verify_refuses_plans_that_cannot_run() -> None:
    message, write = Message(0, 0, COPY), Write(1, 0, (0,), Side.V)
    verify(Plan((message, write)))
    for plan, executable, match in (
        (Plan((write, message)), False, "before it is defined"),
        (Plan((message, message)), False, "second time"),
        (Plan((message, write)), True, "no rule has rewritten"),
        (Plan((message, write), ("",)), False, "1 reasons for 2"),
    ):
        with pytest.raises(DGLError, match=match):
            verify(plan, executable)


def test_debug_level_1_verifies_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Plan((Message(0, 0, COPY), Write(1, 0, (7,), Side.V)))
    monkeypatch.setenv("DGLITE_DEBUG", "0")
    rewrite(broken)
    monkeypatch.setenv("DGLITE_DEBUG", "1")
    with pytest.raises(DGLError, match="%7"):
        rewrite(broken)


def test_plans_are_kept_by_value_and_shared_by_all_user_functions() -> None:
    first = update_plan((fn.copy_u("h", "m"),), (fn.sum("m", "x"),), None)
    assert update_plan((fn.copy_u("h", "m"),), (fn.sum("m", "x"),), None) is first
    assert update_plan((copy.deepcopy(COPY),), (copy.deepcopy(SUM),), None) is first
    assert compiled(lower_update, (COPY,), (SUM,), None) is first
    assert update_plan((COPY,), (SUM,), UserFunction(2)) is not first
    assert update_plan(MESSAGE, REDUCE, None) is update_plan(UserFunction(0), UserFunction(1), None)
    assert update_plan(MESSAGE, RECORDED, None) is not update_plan(MESSAGE, REDUCE, None)
