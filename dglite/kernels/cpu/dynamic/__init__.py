"""Kernels of vertex programs, lazy batching and persistent processors."""
