"""Whole CUDA programs without a GPU: their host code is compiled and run, their kernels are emulated.

`host` rewrites the host half, `build` compiles it with the runtime of `native/`, `child` runs it in a process of its
own with `device` (kernels by their symbols) and `launches` (one launch, checked), `run` starts that process and gathers
what it tells.
"""
