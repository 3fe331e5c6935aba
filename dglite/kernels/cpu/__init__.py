"""CPU kernels, compiled by LLVM on the machine that runs them."""
