"""CPU kernels, compiled by Numba on the machine that runs them."""
