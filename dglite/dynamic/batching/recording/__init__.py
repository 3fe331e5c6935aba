"""Lazy tensors and the operations they record."""
