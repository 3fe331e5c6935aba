"""Partition a training step over workers (Tofu; Wang's dissertation, chapter 3)."""
