"""Probes: one small question each, put to the toolchain and the chip, or to a whole kernel.

`registry` finds the platform probes of this package (small kernels in `probes/*.cu`), `subject` those that run a user's
own kernel on inputs chosen so that the answer shows the fault.
"""
