"""The table of docs/gpu.md says what runs where as it is."""

from __future__ import annotations

from tests.fake_device.features import BEGIN, END, PAGE, table


def test_the_table_of_features_is_what_runs():
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == table(), "python -m tests.fake_device.features"
