"""One leap-frog step of the acoustic wave equation; wave field and weights rounded to tf32 for the Laplacian."""

import numpy as np

WEIGHTS = np.array([-2.84722222, 1.6, -0.2, 0.02539683, -0.00178571], dtype=np.float32)


def tf32(x: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def step(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    now, before, vel2 = inputs["now"], inputs["before"], inputs["vel2"]
    ny, nx = now.shape
    cx = tf32(WEIGHTS * np.float32(symbols["idx2"]))
    cy = tf32(WEIGHTS * np.float32(symbols["idy2"]))
    u = np.pad(tf32(now), 4)
    lap = (cx[0] + cy[0]) * u[4 : 4 + ny, 4 : 4 + nx]
    for d in range(1, 5):
        lap = lap + cx[d] * (u[4 : 4 + ny, 4 + d : 4 + d + nx] + u[4 : 4 + ny, 4 - d : 4 - d + nx])
        lap = lap + cy[d] * (u[4 + d : 4 + d + ny, 4 : 4 + nx] + u[4 - d : 4 - d + ny, 4 : 4 + nx])
    return 2 * now - before + np.float64(np.float32(symbols["dt2"])) * vel2 * lap
