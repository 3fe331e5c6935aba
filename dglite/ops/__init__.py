"""Differentiable sparse operations: where tensors meet kernels."""
