"""C = alpha op(L) B with L lower triangular, operands rounded to tf32."""

import numpy as np


def tf32(x: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def trmm(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    low = np.tril(tf32(inputs["l"]))
    if symbols["unit"]:
        low = np.tril(low, -1) + np.eye(low.shape[0])
    if symbols["trans"]:
        low = low.T
    return symbols["alpha"] * (low @ tf32(inputs["b"]))
