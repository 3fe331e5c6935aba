"""These tests' few edges stand for many: functions are recorded as on a large graph."""

import pytest


@pytest.fixture(autouse=True)
def _record(records_on_few_edges: None) -> None:
    """Record functions, however few edges take part."""
