"""dst[ids[t], r] = sum over blocks of 32 of d_w·d_a·(q_w · q_a) + m_w·s_a, q4_1 weights and q8_1 activations."""

import numpy as np


def mul_mat(tensors, symbols):
    words = np.asarray(tensors["x_q"]).astype(np.int64)
    rows, tokens, k = words.shape[0], tensors["y_q"].shape[0], tensors["y_q"].shape[1]
    blocks = k // 32
    words = words.reshape(rows, blocks, 4, 1)
    shifts = np.arange(4).reshape(1, 1, 1, 4) * 8
    low = (words >> shifts) & 15
    high = (words >> (shifts + 4)) & 15
    q = np.concatenate([low.reshape(rows, blocks, 16), high.reshape(rows, blocks, 16)], axis=-1).astype(np.float64)
    a = np.asarray(tensors["y_q"]).astype(np.float64).reshape(tokens, blocks, 32)
    dots = np.einsum("rbk,tbk->trb", q, a)
    d_w, m_w = tensors["x_d"][..., 0], tensors["x_d"][..., 1]
    d_a, s_a = tensors["y_d"][..., 0], tensors["y_d"][..., 1]
    parts = d_a[:, None] * d_w[None] * dots
    mins = s_a[:, None] * m_w[None]
    ids = np.asarray(tensors["ids"]).astype(np.int64)
    result = np.zeros((tokens, rows))
    bound = np.zeros((tokens, rows))
    result[ids] = (parts + mins).sum(-1)
    bound[ids] = (np.abs(parts) + np.abs(mins)).sum(-1) * (2 * blocks + 4) * 2.0**-24
    return result, bound + 1e-30
