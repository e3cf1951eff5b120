"""CUDA source to PTX and cubin, with no GPU and no driver: NVRTC, headers, host code, resources, cache.

Importing this package loads nothing; CUDA comes with the first compilation.
"""
