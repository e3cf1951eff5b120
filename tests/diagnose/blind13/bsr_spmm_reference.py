"""C = A B, A by its blocks of 32 x 32."""

import numpy as np


def spmm(inputs, symbols):
    rows, columns = inputs["row_ptr"].astype(int), inputs["col_ind"].astype(int)
    b = inputs["b"][:, : symbols["n"]]
    c, bound = np.zeros((160, symbols["n"])), np.zeros((160, symbols["n"]))
    for i in range(5):
        for at in range(rows[i], rows[i + 1]):
            block, part = inputs["val"][at], b[32 * columns[at] : 32 * columns[at] + 32]
            c[32 * i : 32 * i + 32] += block @ part
            bound[32 * i : 32 * i + 32] += 2.0**-18 * np.abs(block) @ np.abs(part)
    return {"c": (c, bound + 2.0**-30)}
