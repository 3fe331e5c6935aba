"""What compiled kernels are written in: vectors, memory, elementary functions."""
