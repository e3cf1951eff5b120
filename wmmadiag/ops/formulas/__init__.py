"""Formulas as people write them beside a kernel, `y[m, n] = gelu(sum_k x[m, k] * w[n, k] + b[n])`: read, and evaluated
in float64 with the largest error that rounding each operation explains."""
