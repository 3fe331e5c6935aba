"""CUDA programs: compiled by NVRTC and launched through CuPy, or emulated."""
