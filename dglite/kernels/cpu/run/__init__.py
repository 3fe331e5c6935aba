"""Starting compiled kernels, here or on the threads of the OpenMP pool."""
