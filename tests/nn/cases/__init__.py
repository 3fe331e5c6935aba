"""The layers as the laws want to know them, family by family."""

from tests.nn.cases import edges, links, pooling, propagation, statistics, temporal, transformers, typed

CASES = [
    *propagation.CASES,
    *edges.CASES,
    *typed.CASES,
    *statistics.CASES,
    *pooling.CASES,
    *transformers.CASES,
    *temporal.CASES,
    *links.CASES,
]
