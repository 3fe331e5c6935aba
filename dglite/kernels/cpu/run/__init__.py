"""Launching compiled kernels, on one thread or on the OpenMP pool."""
