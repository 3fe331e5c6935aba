"""CUDA kernels: generated from the same expressions as the CPU's, compiled by NVRTC.

The modules have the names and the functions of ``kernels/cpu``; where those take a number of threads these take a
:class:`~.program.Runner`, and structures are :class:`~.structure.Structure` on the device.
"""
