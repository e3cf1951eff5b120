"""Products of signed nibbles summed exactly in groups of 64, each group scaled by its row's and its column's factor."""

import numpy as np


def nibbles(words: np.ndarray) -> np.ndarray:
    values = words.astype(np.int64)[..., None] >> (4 * np.arange(8)) & 15
    values = values - 16 * (values > 7)
    return values.reshape(words.shape[0], -1, 64).astype(float)


def gemm(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    dots = np.einsum("mgk,ngk->mng", nibbles(inputs["a"]), nibbles(inputs["w"]))
    terms = dots * inputs["sa"][:, None, :] * inputs["sw"][None, :, :]
    out = terms.sum(axis=2)
    return {"out": (out, 2.0**-20 * np.abs(terms).sum(axis=2) + 2.0**-11 * np.abs(out) + 2.0**-25)}
