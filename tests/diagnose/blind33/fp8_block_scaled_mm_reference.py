"""out = sum over blocks of K of a_scales · b_scales · (A_block · B_blockᵀ)."""

import numpy as np


def block_scaled_mm(tensors, symbols):
    a, b, a_scales, b_scales = (tensors[role] for role in ("a", "b", "a_scales", "b_scales"))
    out, size = np.zeros((a.shape[0], b.shape[0])), np.zeros((a.shape[0], b.shape[0]))
    for block in range(a.shape[1] // 128):
        part = slice(128 * block, 128 * (block + 1))
        scale = a_scales[:, block, None] * np.repeat(b_scales[:, block], 128)[None, : b.shape[0]]
        out += scale * (a[:, part] @ b[:, part].T)
        size += np.abs(scale) * (np.abs(a[:, part]) @ np.abs(b[:, part]).T)
    # tensor cores keep 13 bits of a sum of fp8 products; bf16 has 8
    return out, size * 2.0**-10 + np.abs(out) * 2.0**-8 + 1e-30
