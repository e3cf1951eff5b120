"""Time update of Kalman filters; rounds to tf32 where the kernel does."""

import numpy as np


def tf32(x: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def predict(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    f, p, q, x = inputs["f"], inputs["p"], inputs["q"], inputs["x"]
    f32 = tf32(f)
    full = tf32(f32 @ tf32(p)) @ f32.transpose(0, 2, 1)
    sym = 0.5 * (full + full.transpose(0, 2, 1))
    return {"p_out": symbols["fade"] * sym + symbols["dt"] * q, "x_out": np.einsum("bij,bj->bi", f, x)}
