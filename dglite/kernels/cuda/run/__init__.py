"""CUDA programs: compiled by NVRTC and started through CuPy, or emulated."""
