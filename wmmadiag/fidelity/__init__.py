"""The emulator held against a GPU: kernels with random and hard operands, run on both, compared bit for bit.

A family makes cases (a PTX module and its inputs) from a key and a seed. `tests/vectors/` keeps what a GPU answered to
seed 0, for tests without one; `wmmadiag campaign --fidelity` draws new ones on a machine that has one.
"""
