"""How long tests wait for other processes and threads, however busy the machine is."""

from __future__ import annotations

PATIENCE = 900.0
"""Seconds. Only what hangs takes longer, so that no result depends on it."""
