"""Kernels over the rows of dense matrices: losses, biases, orders."""
