"""Products of rows of signs, their sign against a threshold packed into words, and the sum of each word's scores."""

import numpy as np


def layer(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    def bits(words: np.ndarray) -> np.ndarray:
        shifted = words.astype(np.uint64)[..., None] >> np.arange(32, dtype=np.uint64)
        return (shifted & np.uint64(1)).reshape(words.shape[0], -1)[:, : int(symbols["K"])].astype(np.float64)

    score = (2 * bits(inputs["x"]) - 1) @ (2 * bits(inputs["w"]) - 1).T
    on = np.where(inputs["flip"] != 0, score < inputs["thr"], score >= inputs["thr"])
    words = -(-score.shape[1] // 32)
    wide = np.zeros((2, score.shape[0], 32 * words))
    wide[:, :, : score.shape[1]] = on, score
    packed, scores = wide.reshape(2, score.shape[0], words, 32)
    return {"y": packed @ 2.0 ** np.arange(32), "row_sum": scores.sum(axis=-1)}
