"""The vector operations that compiled kernels are written in: vectors, memory, elementary functions."""
