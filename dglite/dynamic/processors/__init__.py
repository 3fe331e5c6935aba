"""Persistent processors: a step of training, forward, backward and update, as one script for each of some threads.

Khorasani, Esfeden, Abu-Ghazaleh and Gupta, "In-register parameter caching for dynamic neural nets with virtual
persistent processor specialization" (MICRO 2018).
"""

from __future__ import annotations

from .handle import Persistent, persistent

__all__ = ["Persistent", "persistent"]
