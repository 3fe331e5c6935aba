"""Built-in functions are parsed once into immutable values."""

from __future__ import annotations

import pickle

import pytest

import dglite.function as fn
from dglite.expr import Side
from dglite.opspec import Reducer


def test_a_message_says_what_it_computes():
    message = fn.u_mul_e("h", "w", "m")
    assert str(message) == "u_mul_e('h', 'w', 'm')" and str(message.expr) == "(u0 * e1)"
    assert message.fields == ((Side.U, "h"), (Side.E, "w")) and message.out_field == "m" and not message.dot
    assert fn.u_dot_v("a", "b", "s").dot


def test_equal_calls_give_one_value():
    assert fn.copy_u("h", "m") is fn.copy_u("h", "m")
    assert fn.copy_u("h", "m") != fn.copy_u("x", "m")
    assert pickle.loads(pickle.dumps(fn.v_div_e("a", "b", "c"))) == fn.v_div_e("a", "b", "c")


def test_every_combination_exists():
    for op in ("add", "sub", "mul", "div", "dot"):
        for lhs in "uve":
            for rhs in set("uve") - {lhs}:
                function = getattr(fn, f"{lhs}_{op}_{rhs}")
                assert function.__name__ in fn.__all__ and function.__doc__
                assert function("a", "b", "c").name == function.__name__
    assert [getattr(fn, r.value)("m", "h").reducer for r in Reducer] == list(Reducer)


@pytest.mark.filterwarnings("ignore:fn:DeprecationWarning")
def test_classic_names():
    assert fn.copy_src(src="h", out="m") is fn.copy_u("h", "m")
    assert fn.copy_edge(edge="w", out="m") is fn.copy_e("w", "m")
    assert fn.src_mul_edge(src="h", edge="w", out="m") is fn.u_mul_e("h", "w", "m")


def test_functions_are_frozen():
    with pytest.raises(AttributeError):
        fn.sum("m", "h").msg_field = "x"


def test_messages_say_what_they_read():
    dot = fn.BinaryMessageFunction("dot", "u", 2, "h", "w", "m")
    assert dot is fn.u_dot_e("h", "w", "m") and (dot.lhs_field, dot.rhs_field, dot.out_field) == ("h", "w", "m")
    assert fn.CopyMessageFunction(1, "h", "m") is fn.message_function("copy_v", ("h",), "m")
    assert fn.CopyMessageFunction("e", "w", "m").in_field == "w"
