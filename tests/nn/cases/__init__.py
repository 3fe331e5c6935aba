"""The layers as the laws want to know them, family by family."""

from tests.nn.cases import propagation, typed

CASES = [*propagation.CASES, *typed.CASES]
