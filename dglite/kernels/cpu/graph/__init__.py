"""Kernels over the rows and entries of a graph's matrices."""
