"""Kernels: arrays in, arrays out. They know no graphs and no frameworks."""
