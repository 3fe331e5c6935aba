"""Kernels that draw neighbours and walks, and number what was drawn."""
