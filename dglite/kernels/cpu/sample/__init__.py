"""Kernels that draw neighbours and walks, and renumber the drawn nodes."""
