"""Instructions of CPython that only compute, move values, call or jump: an allow-list for each version of Python.

A function whose code has any other instruction is run as it is written. So a version of Python that is not known here
costs speed and no result, and so does an instruction whose meaning is in doubt.
"""

from __future__ import annotations

import sys

__all__ = ["known_opcodes"]

_ALWAYS = """
    NOP RESUME CACHE EXTENDED_ARG PUSH_NULL POP_TOP COPY SWAP MAKE_CELL COPY_FREE_VARS MAKE_FUNCTION
    LOAD_CONST LOAD_GLOBAL LOAD_FAST STORE_FAST DELETE_FAST LOAD_DEREF STORE_DEREF LOAD_ATTR STORE_SUBSCR
    UNARY_NEGATIVE UNARY_NOT UNARY_INVERT BINARY_OP COMPARE_OP IS_OP CONTAINS_OP
    BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_STRING BUILD_SLICE
    LIST_APPEND LIST_EXTEND SET_ADD SET_UPDATE MAP_ADD DICT_UPDATE DICT_MERGE UNPACK_SEQUENCE UNPACK_EX
    GET_ITER FOR_ITER JUMP_FORWARD JUMP_BACKWARD CALL CALL_FUNCTION_EX RETURN_VALUE RAISE_VARARGS
"""
"""In every version from 3.11 on. Stores are looked at one by one, and so is what is called."""

_3_11 = """
    PRECALL KW_NAMES LOAD_METHOD LOAD_CLOSURE BINARY_SUBSCR BUILD_CONST_KEY_MAP FORMAT_VALUE LIST_TO_TUPLE
    UNARY_POSITIVE LOAD_ASSERTION_ERROR JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP
    POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE
    POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE
"""
_FROM_3_12 = """
    POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE END_FOR BINARY_SLICE CALL_INTRINSIC_1
    LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR RERAISE
"""
"""Comprehensions are part of their function's code, with a RERAISE that puts its variables back after an error."""

_3_12 = "KW_NAMES LOAD_CLOSURE BINARY_SUBSCR BUILD_CONST_KEY_MAP FORMAT_VALUE RETURN_CONST LOAD_ASSERTION_ERROR"
_FROM_3_13 = """
    CALL_KW LOAD_FAST_LOAD_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST TO_BOOL CONVERT_VALUE FORMAT_SIMPLE
    FORMAT_WITH_SPEC SET_FUNCTION_ATTRIBUTE
"""
_3_13 = "BINARY_SUBSCR BUILD_CONST_KEY_MAP RETURN_CONST LOAD_ASSERTION_ERROR"
_3_14 = """
    LOAD_SMALL_INT LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_COMMON_CONSTANT NOT_TAKEN POP_ITER
"""

_VERSIONS = {
    (3, 11): (_ALWAYS, _3_11),
    (3, 12): (_ALWAYS, _FROM_3_12, _3_12),
    (3, 13): (_ALWAYS, _FROM_3_12, _FROM_3_13, _3_13),
    (3, 14): (_ALWAYS, _FROM_3_12, _FROM_3_13, _3_14),
}


def known_opcodes(version: tuple[int, int] = sys.version_info[:2]) -> frozenset[str]:
    """Return the instructions that may stand in a recorded function; none for a version that is not known."""
    return frozenset(name for part in _VERSIONS.get(version, ()) for name in part.split())
