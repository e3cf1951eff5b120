"""w = T K and u = T V per chunk of 32 rows, T = (I + tril(diag(beta) K K', -1))^-1 diag(beta), K's rows normalised."""

import numpy as np


def prepare(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    k, v, beta = inputs["k"], inputs["v"], inputs["beta"]
    k = k / np.sqrt((k * k).sum(axis=-1, keepdims=True) + 1e-6)
    w, u = np.zeros(k.shape), np.zeros(v.shape)
    w_bound, u_bound = w.copy(), u.copy()
    for h in range(k.shape[0]):
        for t in range(0, k.shape[1], 32):
            kc, vc, bc = k[h, t : t + 32], v[h, t : t + 32], beta[h, t : t + 32]
            a = np.tril(bc[:, None] * (kc @ kc.T), -1)
            slack = np.tril(bc[:, None] * (np.abs(kc) @ np.abs(kc).T), -1) * 2.0**-10
            inverse = np.linalg.inv(np.eye(len(bc)) + a)
            error = np.abs(inverse) @ (slack + 2.0**-19 * np.abs(a)) @ np.abs(inverse) * bc
            m = inverse * bc
            w[h, t : t + 32], u[h, t : t + 32] = m @ kc, m @ vc
            w_bound[h, t : t + 32] = 1.1 * (error + 2.0**-10 * np.abs(m)) @ np.abs(kc) + 2.0**-20
            u_bound[h, t : t + 32] = 1.1 * (error + 2.0**-10 * np.abs(m)) @ np.abs(vc) + 2.0**-20
    return {"w": (w, w_bound), "u": (u, u_bound)}
