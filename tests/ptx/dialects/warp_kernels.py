"""A kernel for NVIDIA Warp: what `warp_affine.ptx` beside this was made from."""

import warp as wp


@wp.struct
class Params:
    scale: float
    n: int
    gain: wp.vec3


@wp.kernel
def affine(x: wp.array(dtype=float), y: wp.array(dtype=float), p: Params, bias: wp.vec3):
    i = wp.tid()
    if i < p.n:
        y[i] = p.scale * x[i] + bias[0] + p.gain[1]
