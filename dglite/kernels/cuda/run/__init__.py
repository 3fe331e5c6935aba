"""CUDA programs: compiled by NVRTC and started by the driver, or emulated."""
